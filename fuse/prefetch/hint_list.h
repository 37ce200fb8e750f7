/* SPDX-License-Identifier: Apache-2.0 */
/* hint_list — one list of paths in the order in which a job will read them, and how far the job has
 * come. The paths are in a file of the cache directory, which a process that takes the mount over
 * finds again; in memory an entry takes 16 to 20 bytes.
 *
 * What is fetched is a window of entries after the latest one that the job is known to have come
 * to. A reader that is met outside of it moves it only when several files in a row say the same:
 * others may read the dataset, too. Threads: the caller's lock, but for the calls that say
 * otherwise. */
#ifndef MILLRACE_FUSE_PREFETCH_HINT_LIST_H
#define MILLRACE_FUSE_PREFETCH_HINT_LIST_H

#include "fuse/index/index.h"

#define HINT_WINDOW 512u /* entries */

struct hint_list; /* opaque */

struct hint_list_stats {
    uint64_t entries, bad; /* bad: lines that cannot be paths */
    uint64_t passed;       /* entries that the job has come past */
};

/* dir: there is one. */
struct hint_list *hint_list_new(uint64_t id, uint64_t base, const char *dir, struct err *e);
/* What a process before this one had published, up to `room` entries; how far the job had come is
 * learnt anew from its reader. NOTFOUND. */
struct hint_list *hint_list_resume(
    uint64_t id, uint64_t base, const char *dir, uint64_t room, struct err *e);
void hint_list_free(struct hint_list *l);   /* its file stays */
void hint_list_remove(struct hint_list *l); /* its file, which nobody shall find again */
uint64_t hint_list_id(const struct hint_list *l);
uint64_t hint_list_base(const struct hint_list *l); /* the directory that its paths begin in */
void hint_list_stats(const struct hint_list *l, struct hint_list_stats *out);

/* The next piece of the list's text, one path a line; a line may be cut between two pieces. It goes
 * to the file, and counts once it is published. One at a time, but without the lock that the others
 * need. More than `room` further entries: EXHAUSTED. */
int hint_list_write(
    struct hint_list *l, const char *text, size_t len, uint64_t room, struct err *e);
int hint_list_publish(struct hint_list *l, struct err *e);

struct hint_entry {
    uint32_t index, off, len; /* off, len: of its path in the file */
};
/* The next entry to fetch, while no more than `most` bytes are ahead of the job; false: none
 * now. It counts as one block until hint_list_weigh() tells what it takes. */
bool hint_list_next(struct hint_list *l, uint64_t most, struct hint_entry *out);
/* How much of this entry, of so many bytes, should be fetched: no more than is left of `most`,
 * but one block always. */
uint64_t hint_list_weigh(struct hint_list *l, uint32_t index, uint64_t size, uint64_t most);
/* without the lock */
int hint_list_path(
    const struct hint_list *l, const struct hint_entry *entry, char path[INODE_PATH_MAX]);

/* not in the list; it was expected here; elsewhere in the list */
enum hint_seen { HINT_UNKNOWN, HINT_NEAR, HINT_FAR };
/* A reader has come to this path. near_only: says HINT_FAR and remembers nothing. */
enum hint_seen hint_list_seen(struct hint_list *l, const char *path, bool near_only);

#endif

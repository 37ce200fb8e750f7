/* SPDX-License-Identifier: Apache-2.0 */
/* mounted_fs — the rooms of the client, wired: everything between a dataset's stores and the
 * session, built from the bottom up and torn down in the opposite order. One thread. */
#ifndef MILLRACE_FUSE_PROCESS_MOUNTED_FS_H
#define MILLRACE_FUSE_PROCESS_MOUNTED_FS_H

#include "fuse/ops/fs.h"
#include "fuse/process/client.h"
#include "fuse/report/status.h"

struct handoff_client;

struct mounted_fs_conf { /* all borrowed until mounted_fs_tear_down() */
    const struct client_options *o;
    const struct conf *conf;
    const struct sign_key *key; /* of the Dataset's cache workers; NULL: they ask for none */
    struct store **stores;      /* conf->nmounts */
    struct status *status;
    struct handoff_client *handoff; /* NULL without a socket */
    const char *stage_dir;
    int fuse_fd;
    bool resume; /* the mount is taken over from a process before this one */
};

struct mounted_fs {
    struct mounted_fs_conf c;
    int64_t sync_ns;   /* how old what is known of the stores may be */
    uint32_t uid, gid; /* of what comes from the stores */
    uint32_t file_mode,
        dir_mode; /* permission bits of what comes from the stores or is made here */
    struct peers *peers;
    struct cache *cache;
    struct invalidator *invalidator;
    struct sequential_prefetch *sequential;
    struct directory_prefetch *directory;
    struct backings *backings; /* NULL: no passthrough */
    struct uploader *uploader;
    bool fresh;   /* the index knows nothing of processes before this one */
    struct fs fs; /* .session: of the caller, who makes it once this is built */
};

/* m is zeroed. After a failure it is to be torn down, too. */
int mounted_fs_build(struct mounted_fs *m, const struct mounted_fs_conf *conf, struct err *e);
/* Frees the session, too. What could not be uploaded stays in staging for the next process. */
void mounted_fs_tear_down(struct mounted_fs *m);
bool mounted_fs_is_read_only(const struct conf *conf); /* nothing in it can be written */

#endif

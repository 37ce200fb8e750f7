/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/tree/profile.h"

#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIN_FILES    16    /* fewer say nothing */
#define SAMPLE_FILES 1000  /* of each store: about a page of its listing */
#define SAMPLE_NAMES 10000 /* … or so many names, where most are directories */
/* bytes: from there on a file's bytes cost more than the requests about it */
#define SMALL_MEAN_BYTES (1u << 20)
#define SEALED           "sealed\n"
#define OPEN             "open\n"

struct sample {
    uint64_t files, bytes, seen;
};

/* What a sample of the files says: `files` of them have `bytes` together. */
static bool sample_is_small(uint64_t files, uint64_t bytes)
{
    return files >= MIN_FILES && bytes / files <= SMALL_MEAN_BYTES;
}

static int sample_add(void *user, const struct store_entry *entry)
{
    struct sample *s = user;
    if (!entry->st.is_dir) {
        s->files++;
        s->bytes += entry->st.size;
    }
    return s->files >= SAMPLE_FILES || ++s->seen >= SAMPLE_NAMES;
}

/* Of all mounts together: the larger files decide, they are most of the bytes. */
static bool stores_are_small(const struct conf *conf, struct store *const *stores)
{
    struct sample sum = {0};
    for (size_t i = 0; i < conf->nmounts; i++) {
        struct sample s = {0};
        struct err e = ERR_INIT;
        cleanup_free char *cursor = NULL;
        if (store_list_tree(stores[i], "", &cursor, sample_add, &s, &e)) {
            log_kv(
                LOG_INFO, "the profile is open: a store could not be listed", "error", e.msg, NULL);
            return false;
        }
        sum.files += s.files;
        sum.bytes += s.bytes;
    }
    return sample_is_small(sum.files, sum.bytes);
}

static bool was_sealed(const char *file)
{
    cleanup_free char *text = file_read(file, 64, NULL, NULL);
    return text && strcmp(text, SEALED) == 0;
}

/* The kernel is told of the mount as a whole: where its sources differ, what is in them decides.
 * What changes is looked at again in either profile. */
static enum conf_immutable whole_tree(const struct conf *conf)
{
    enum conf_immutable all = conf->mounts[0].immutable;
    for (size_t i = 1; i < conf->nmounts; i++)
        if (conf->mounts[i].immutable != all)
            return CONF_IMMUTABLE_UNSET;
    return all;
}

bool profile_sealed(const struct conf *conf, struct store *const *stores, bool read_only,
    const char *file, bool resume)
{
    struct err e = ERR_INIT;
    bool sealed = false;
    if (resume)
        return was_sealed(file);
    switch (whole_tree(conf)) {
    case CONF_IMMUTABLE_TRUE:
        sealed = true;
        break;
    case CONF_IMMUTABLE_FALSE:
        break;
    case CONF_IMMUTABLE_UNSET:
        sealed = read_only && stores_are_small(conf, stores);
        break;
    }
    const char *text = sealed ? SEALED : OPEN;
    if (file_write_atomic(file, text, strlen(text), 0600, &e)) {
        log_kv(LOG_WARN, "the profile is open: it could not be noted down", "error", e.msg, NULL);
        unlink(file);
        return false;
    }
    return sealed;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/process/mounted_fs.h"

#include "fuse/cache/cache.h"
#include "fuse/file/sidecar.h"
#include "fuse/file/uploader.h"
#include "fuse/peers/peers.h"
#include "fuse/prefetch/directory.h"
#include "fuse/prefetch/sequential.h"
#include "fuse/report/stall.h"
#include "fuse/session/handoff.h"
#include "fuse/session/invalidate.h"
#include "fuse/session/loop.h"
#include "fuse/tree/profile.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN_BACKINGS 16000 /* it takes 16384, unless it is told otherwise */
#define OWN_BACKINGS    32768
#define ROOM_NS         (5 * NS_PER_S) /* for the cache to make some */
#define ROOM_AGAIN_NS   (100 * NS_PER_MS)
/* of the cache: what the kernel may hold open of files that were evicted */
#define BACKINGS_CACHE_FRACTION 20

bool mounted_fs_is_read_only(const struct conf *conf)
{
    bool ro = true;
    for (size_t i = 0; i < conf->nmounts; i++)
        ro = ro && conf->mounts[i].read_only;
    return conf->read_only || ro;
}

static uint64_t dataset_identity(const struct conf *conf, uint32_t uid, uint32_t gid)
{
    uint64_t h = hash64_mix(uid, (uint64_t)gid << 1 | mounted_fs_is_read_only(conf));
    for (size_t i = 0; i < conf->nmounts; i++) {
        const struct conf_mount *m = &conf->mounts[i];
        h = hash64_mix(h, hash64(m->mount_point, strlen(m->mount_point)));
        h = hash64_mix(h, hash64(m->path, strlen(m->path)) + m->read_only);
        for (size_t k = 0; k < m->noptions; k++)
            h = hash64_mix(h,
                hash64(m->options[k].value, strlen(m->options[k].value))
                    + hash64(m->options[k].key, strlen(m->options[k].key)));
    }
    return h;
}

/* A mount keeps its files when others come and go: it is the same one if it shows the same source
 * of the same server at the same place, however it is reached. */
static void mount_identities(const struct conf *conf, uint64_t *out, uint32_t *servers)
{
    for (size_t i = 0; i < conf->nmounts; i++) {
        const struct conf_mount *m = &conf->mounts[i];
        const char *endpoint = conf_mount_endpoint(m);
        out[i] = hash64_mix(
            hash64(m->mount_point, strlen(m->mount_point)), hash64(m->path, strlen(m->path)));
        servers[i] = (uint32_t)hash64(endpoint, strlen(endpoint)) | 1;
    }
}

/* May the kernel read files by itself, from our copy? */
static bool may_pass_through(const struct mounted_fs *m)
{
    return !m->fs.sealed && (m->c.handoff || geteuid() == 0);
}

static int own_backing_open(void *user, int fd, int32_t *id, struct err *e)
{
    return session_backing_open(((struct mounted_fs *)user)->fs.session, fd, id, e);
}

static void own_backing_close(void *user, int32_t id)
{
    session_backing_close(((struct mounted_fs *)user)->fs.session, id);
}

/* What was said or not heard when the process before, or the plugin, was killed. An index that was
 * lost does not know what the kernel has open. */
static void tell_backings(struct mounted_fs *m)
{
    cleanup_free int32_t *ids = NULL;
    size_t n = backings_ids(m->backings, &ids);
    if (m->c.handoff && !(m->c.resume && m->fresh))
        handoff_client_holds(m->c.handoff, ids, n);
}

/* The node plugin may register files with the kernel, or this process as root. */
static int make_backings(struct mounted_fs *m, struct err *e)
{
    struct cache_stats cs;
    struct backing_ops ops = {own_backing_open, own_backing_close, m, false};
    if (!may_pass_through(m))
        return 0;
    if (m->c.handoff)
        ops = (struct backing_ops){
            handoff_client_backing_open, handoff_client_backing_close, m->c.handoff, true};
    cache_stats(m->cache, &cs);
    m->backings = backings_new(&ops, m->fs.inodes, m->c.handoff ? PLUGIN_BACKINGS : OWN_BACKINGS,
        cs.capacity_bytes / BACKINGS_CACHE_FRACTION);
    if (!m->backings)
        return err_sys(e, ENOMEM, "table of backing files");
    if (m->c.resume)
        backings_resume(m->backings);
    tell_backings(m);
    return 0;
}

/* The pids that the kernel names are those of the process that made the mount. */
static void own_caller(void *user, pid_t pid, char out[CALLER_MAX])
{
    (void)user;
    caller_of_pid(pid, out);
}

/* The reader may be on its way through the directory, in its order or in another one. */
static void tell_prefetchers(void *user, const struct inode *n, struct cache_file *cf)
{
    struct mounted_fs *m = user;
    bool here = cache_complete(cf);
    sequential_prefetch_observe(m->sequential, n, here);
    if (!here || cache_is_cold(cf))
        directory_prefetch_observe(m->directory, n);
}

static int64_t option_or(int64_t option, int64_t otherwise)
{
    return option >= 0 ? option : otherwise;
}

/* How old what is known may be, and how the kernel is to treat files. */
static void choose_profile(struct mounted_fs *m, bool read_only)
{
    int64_t sync = m->c.o->sync_ns ? m->c.o->sync_ns : m->c.conf->metadata_sync_ns;
    if (!sync)
        sync = (read_only ? CONF_SYNC_READ_ONLY_S : CONF_SYNC_WRITABLE_S) * NS_PER_S;
    double sync_s = (double)sync / (double)NS_PER_S;
    cleanup_free char *profile = path_join(m->c.o->cache_dir, "profile");
    m->sync_ns = sync;
    m->fs.conf = m->c.conf;
    m->fs.status = m->c.status;
    /* In a cluster the pods that may write are chosen by who mounts the volume, whatever their
     * uids; what a user of the machine mounts is his own. */
    mode_t writers = m->c.handoff ? 0222 : 0200;
    m->file_mode = 0444 | (read_only ? 0 : writers);
    m->dir_mode = 0555 | (read_only ? 0 : writers);
    m->fs.timeout = MIN(sync_s, read_only ? 3600.0 : 1.0);
    m->fs.absence = MIN(sync_s, read_only ? 60.0 : 1.0);
    m->fs.sealed = profile_sealed(m->c.conf, m->c.stores, read_only, profile, m->c.resume);
}

static int build_cache(struct mounted_fs *m, bool read_only, struct err *e)
{
    const struct conf *conf = m->c.conf;
    cleanup_free char *blocks = path_join(m->c.o->cache_dir, "blocks");
    struct peers_conf pc = {.conf = conf, .stores = m->c.stores, .key = m->c.key};
    if (!(m->peers = peers_new(&pc, e)))
        return err_wrap(e, "cache workers");
    struct cache_conf cc = {.dir = blocks,
        .tiers = conf->tiers,
        .ntiers = conf->ntiers,
        .mounts = conf->mounts,
        .nmounts = conf->nmounts,
        .source = {peers_fetch, m->peers, peers_part},
        .scrub_ns = CACHE_SCRUB_NS,
        .keep_free = conf->keep_free,
        .will_block = loop_will_block,
        .drop_behind = !read_only || !may_pass_through(m)};
    if (file_mkdirs(blocks, 0700, e) || !(m->cache = cache_new(&cc, e)))
        return err_wrap(e, "cache");
    return 0;
}

/* A disk without any room gets some by what the cache gives up, if it has that. */
static int open_index(struct mounted_fs *m, const struct inodes_conf *ic, struct err *e)
{
    int64_t until = clock_mono_ns() + ROOM_NS;
    while (!(m->fs.inodes = inodes_open(ic, &m->fresh, e))) {
        if (e->cls != ERR_EXHAUSTED || clock_mono_ns() >= until)
            return -1;
        cache_want_room(m->cache);
        clock_sleep_ns(ROOM_AGAIN_NS);
    }
    return 0;
}

/* The index, the tree of names over it, and how the kernel hears of changes. */
static int build_tree(struct mounted_fs *m, struct err *e)
{
    cleanup_free char *path = path_join(m->c.o->cache_dir, "index");
    m->uid = (uint32_t)option_or(m->c.o->uid, m->c.handoff ? 0 : getuid());
    m->gid = (uint32_t)option_or(m->c.o->gid, m->c.handoff ? 0 : getgid());
    struct inodes_conf ic = {.path = path,
        .resume = m->c.resume,
        .dir_mode = m->dir_mode,
        .file_mode = m->file_mode,
        .uid = m->uid,
        .gid = m->gid,
        .nmounts = (unsigned)m->c.conf->nmounts};
    ic.identity = dataset_identity(m->c.conf, ic.uid, ic.gid);
    cleanup_free uint64_t *mounts = xcalloc(m->c.conf->nmounts + 1, sizeof *mounts);
    cleanup_free uint32_t *servers = xcalloc(m->c.conf->nmounts + 1, sizeof *servers);
    mount_identities(m->c.conf, mounts, servers);
    ic.mounts = mounts;
    ic.servers = servers;
    if (open_index(m, &ic, e) || !(m->invalidator = invalidator_new(e))
        || invalidator_start(m->invalidator, m->c.fuse_fd, e))
        return -1;
    struct tree_conf tc = {.conf = m->c.conf,
        .inodes = m->fs.inodes,
        .stores = m->c.stores,
        .sync_ns = m->sync_ns,
        .resume = m->c.resume,
        .since_s = (uint32_t)(clock_real_ns() / NS_PER_S),
        .changed = invalidator_add,
        .will_block = loop_will_block,
        .user = m->invalidator};
    return (m->fs.tree = tree_new(&tc, e)) ? 0 : -1;
}

static int build_files(struct mounted_fs *m, struct err *e)
{
    struct inodes *inodes = m->fs.inodes;
    struct tree *tree = m->fs.tree;
    if (make_backings(m, e)
        || !(m->sequential = sequential_prefetch_start(inodes, tree, m->cache, e))
        || !(m->directory = directory_prefetch_new(inodes, tree, m->cache, e)))
        return -1;
    struct files_conf fc = {.inodes = inodes,
        .tree = tree,
        .cache = m->cache,
        .conf = m->c.conf,
        .stage_dir = m->c.stage_dir,
        .file_mode = m->file_mode,
        .dir_mode = m->dir_mode,
        .uid = m->uid,
        .gid = m->gid,
        .will_block = loop_will_block,
        .backings = m->backings,
        .on_first_read = tell_prefetchers,
        .user = m};
    if (!(m->fs.files = files_new(&fc, e)) || !(m->uploader = uploader_start(m->fs.files, e)))
        return -1;
    return (m->fs.hints = hints_new(m->fs.files, m->c.o->cache_dir, m->c.resume, e)) ? 0 : -1;
}

int mounted_fs_build(struct mounted_fs *m, const struct mounted_fs_conf *conf, struct err *e)
{
    bool read_only = mounted_fs_is_read_only(conf->conf);
    m->c = *conf;
    choose_profile(m, read_only);
    if (build_cache(m, read_only, e) || build_tree(m, e) || build_files(m, e))
        return -1;
    m->fs.stalls = m->c.handoff ? stalls_new(handoff_client_caller, m->c.handoff)
                                : stalls_new(own_caller, NULL);
    m->fs.peers = m->peers;
    status_data(m->c.status,
        &(struct status_sources){
            m->cache, m->peers, m->fs.inodes, m->fs.hints, m->fs.stalls, m->c.stage_dir});
    status_profile(m->c.status, m->fs.sealed, m->backings);
    return 0;
}

void mounted_fs_tear_down(struct mounted_fs *m)
{
    bool unmounted = m->fs.session && session_unmounted(m->fs.session);
    if (!m->c.conf)
        return;
    status_data(m->c.status, NULL);
    status_profile(m->c.status, m->fs.sealed, NULL);
    if (m->cache)
        cache_cancel(m->cache);
    hints_free(m->fs.hints);
    if (m->uploader && !unmounted)
        uploader_leave(m->uploader);
    uploader_stop(m->uploader);
    sequential_prefetch_stop(m->sequential);
    directory_prefetch_free(m->directory);
    files_free(m->fs.files);
    backings_free(m->backings); /* through the session or the node plugin */
    invalidator_stop(m->invalidator);
    session_free(m->fs.session);
    tree_free(m->fs.tree);
    stalls_free(m->fs.stalls);
    cache_free(m->cache);
    peers_free(m->peers);
    inodes_close(m->fs.inodes, unmounted);
}

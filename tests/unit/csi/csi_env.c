/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/csi/csi_env.h"

#include "lib/base/file.h"
#include "lib/base/mem.h"
#include "lib/base/mountinfo.h"

#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <unistd.h>

#define PATIENCE_MS 270000 /* less than ctest's */

bool csi_env_can_mount(void) { return geteuid() == 0 && access("/dev/fuse", R_OK | W_OK) == 0; }

static char *prefix(void)
{
    const char *tmp = getenv("TMPDIR");
    return xasprintf("%s/millrace-csi-", tmp && *tmp == '/' ? tmp : "/tmp");
}

static void each_fuse_mount(bool ours, int flags)
{
    cleanup_free char *mine = prefix();
    struct mountinfo all;
    struct err e = ERR_INIT;
    if (mountinfo_read(&all, &e))
        return;
    for (size_t i = all.n; i-- > 0;)
        if (strncmp(all.entries[i].type, "fuse", 4) == 0
            && (strncmp(all.entries[i].point, mine, strlen(mine)) == 0) == ours)
            umount2(all.entries[i].point, flags);
    mountinfo_free(&all);
}

static atomic_bool *too_late; /* shared with the watchdog */

/* A process that waits for a FUSE server cannot be killed: when the test has ended or takes too
 * long, abort what it mounted. What it sees after that proves nothing. */
static void start_watchdog(void)
{
    int alive[2];
    too_late = mmap(
        NULL, sizeof *too_late, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (too_late == MAP_FAILED || pipe(alive))
        exit(1);
    pid_t pid = fork();
    if (pid < 0)
        exit(1);
    if (pid > 0) {
        close(alive[0]); /* the other end is ours, and closes with us */
        return;
    }
    close(alive[1]);
    prctl(PR_SET_NAME, "csi-watchdog");
    struct pollfd p = {.fd = alive[0]};
    bool late = poll(&p, 1, PATIENCE_MS) == 0;
    atomic_store(too_late, late);
    each_fuse_mount(true, MNT_FORCE | MNT_DETACH);
    if (late)
        fprintf(stderr, "the test took too long: its mounts were aborted\n");
    _exit(0);
}

void csi_env_private_mounts(void)
{
    if (unshare(CLONE_NEWNS) || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL)) {
        perror("a mount namespace of our own");
        exit(1);
    }
    /* those of others: this namespace has copies that would keep them alive */
    each_fuse_mount(false, MNT_DETACH);
    start_watchdog();
}

int csi_env_setup(void **state)
{
    struct csi_env *env = xcalloc(1, sizeof *env);
    cleanup_free char *mine = prefix();
    snprintf(env->dir, sizeof env->dir, "%sXXXXXX", mine);
    if (!mkdtemp(env->dir))
        return -1;
    *state = env;
    return 0;
}

int csi_env_teardown(void **state)
{
    struct csi_env *env = *state;
    struct err e = ERR_INIT;
    int rc = file_remove_tree(env->dir, &e);
    if (rc)
        fprintf(stderr, "%s\n", e.msg);
    free(env);
    if (too_late && atomic_load(too_late)) {
        fprintf(stderr, "the test took too long: it has failed, whatever it says\n");
        fflush(NULL);
        _exit(1); /* cmocka would not count it */
    }
    return rc;
}

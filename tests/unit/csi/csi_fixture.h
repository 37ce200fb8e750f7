/* SPDX-License-Identifier: Apache-2.0 */
/* csi_fixture — what the tests of the handoff share: a volume, a staging directory, a plugin,
 * and real client processes (tests/fake/handoff_client.c) that serve one file, whose bytes
 * check_file() knows. */
#ifndef MILLRACE_TESTS_UNIT_CSI_CSI_FIXTURE_H
#define MILLRACE_TESTS_UNIT_CSI_CSI_FIXTURE_H

#include "tests/lib/unit.h"

#include "csi/handoff.h"
#include "lib/base/clock.h"
#include "lib/base/err.h"
#include "tests/lib/eventually.h"
#include "tests/unit/csi/csi_env.h"

#include <stdbool.h>
#include <sys/types.h>

#define FILE_BYTES (1u << 20)

struct world {
    struct csi_env *env;
    char *state, *dir, *sock, *cache, *staging, *file, *trace;
    struct handoff *handoff;
    struct handoff_mount *mount;
    struct volume_context context;
};

/* a plugin and its one volume; abandon_ns: 0 for never */
void world_open(struct world *w, int64_t abandon_ns);
void world_close(struct world *w);
/* *state: struct world *, in a csi_env */
int world_setup(void **state);
int world_teardown(void **state);
void end_client(pid_t pid);
/* handoff_stage with a deadline in ms */
int stage(struct world *w, int64_t ms, struct err *e);
/* published, too: for readers */
void must_stage(struct world *w);
void must_unstage(struct world *w);
bool mounted(struct world *w);
/* the whole file, compared; the first errno */
int check_fd(int fd);
int check_file(struct world *w);
void *slow_reader(void *world); /* the same, as a thread; returns the errno */
struct handoff_state state_of(struct world *w);
/* the lines "pid what value" of the clients: how many have this `what`, and the last one's value */
int traced(struct world *w, const char *what, long long *value);
/* starts one; it waits behind the one that serves */
pid_t client(struct world *w);

#endif

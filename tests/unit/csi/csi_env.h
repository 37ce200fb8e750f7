/* SPDX-License-Identifier: Apache-2.0 */
/* csi_env — a directory of one's own under $TMPDIR, in a mount namespace of one's own, so that a
 * test that dies leaves nothing. */
#ifndef MILLRACE_TESTS_UNIT_CSI_CSI_ENV_H
#define MILLRACE_TESTS_UNIT_CSI_CSI_ENV_H

#include <stdbool.h>

struct csi_env {
    char dir[256];
};

bool csi_env_can_mount(void); /* root, and there is /dev/fuse */
void csi_env_private_mounts(void);
int csi_env_setup(void **state); /* *state: struct csi_env * */
int csi_env_teardown(void **state);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* node_dir — where a directory of the client's pod is on its node. Pure. */
#ifndef MILLRACE_FUSE_REPORT_NODE_DIR_H
#define MILLRACE_FUSE_REPORT_NODE_DIR_H

#include "lib/base/mountinfo.h"

/* dir is absolute, without links. From the directory of the node plugin on, since above it may be a
 * disk that the pod does not see: "csi.millrace.dev/volumes/team/UID/cache/stage". NULL: it is in
 * no volume of the node plugin. The caller frees. */
char *node_dir_of(const struct mountinfo *m, const char *dir);

#endif

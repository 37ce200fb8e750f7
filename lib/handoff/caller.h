/* SPDX-License-Identifier: Apache-2.0 */
/* caller — on whose behalf a process reads: its pod, by the control group that kubelet put it in,
 * else the control group itself. */
#ifndef MILLRACE_LIB_HANDOFF_CALLER_H
#define MILLRACE_LIB_HANDOFF_CALLER_H

#include <sys/types.h>

#define CALLER_MAX     128 /* NUL included */
#define CALLER_UNKNOWN "unknown"

/* From the text of /proc/PID/cgroup: the UID of a pod ("0f9e…", with its dashes), or the path of
 * the group (its end, if it is long); CALLER_UNKNOWN if it is none. Pure. */
void caller_of_cgroup(const char *text, char out[CALLER_MAX]);
/* pid as this process sees it (or its thread's); CALLER_UNKNOWN if it is gone. */
void caller_of_pid(pid_t pid, char out[CALLER_MAX]);

#endif

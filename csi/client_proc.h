/* SPDX-License-Identifier: Apache-2.0 */
/* client_proc — clients as processes of this machine, where there is no Kubernetes to run pods. A
 * process is started (no shell, its configuration in the environment, secrets as files that only we
 * can read), watched, and started again when it dies, each time a little later. It outlives us: a
 * restarted plugin finds it by pid and start time. */
#ifndef MILLRACE_CSI_CLIENT_PROC_H
#define MILLRACE_CSI_CLIENT_PROC_H

#include "lib/base/err.h"

#include <stddef.h>
#include <stdint.h>

struct client_proc; /* opaque */

struct client_proc_conf {
    const char *binary;  /* millrace-fuse */
    const char *dir;     /* the volume's: VOLUME_SOCKET and VOLUME_CACHE are in it */
    const char *run_dir; /* of this volume: config.json, secrets/ (client_proc_write) and pid */
};

/* Writes configuration and secrets of the process into run_dir (0700). Mount 0 has the secrets.
 * Secrets are told to log_redact(). */
struct client_proc_secret {
    const char *name, *value; /* the name is checked: it becomes a file */
};
int client_proc_write(const char *run_dir, const char *config,
    const struct client_proc_secret *secrets, size_t n, struct err *e);

/* Starts the process, or takes over the one that still runs from before. */
struct client_proc *client_proc_start(const struct client_proc_conf *conf, struct err *e);
void client_proc_leave(struct client_proc *c); /* stops watching; the process goes on */
void client_proc_stop(
    struct client_proc *c); /* SIGTERM, SIGKILL after 5 s; removes run_dir; NULL is fine */

#endif

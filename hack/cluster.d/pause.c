/* SPDX-License-Identifier: Apache-2.0 */
/* pause — what a pod's sandbox runs: nothing, until it is told to stop. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void stop(int sig)
{
    (void)sig;
    _exit(0);
}

int main(void)
{
    signal(SIGTERM, stop);
    signal(SIGINT, stop);
    signal(SIGCHLD, SIG_IGN); /* with a shared process namespace, orphans of the pod are ours */
    for (;;)
        pause();
}

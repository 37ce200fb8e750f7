/* SPDX-License-Identifier: Apache-2.0 */
/* A watch whose server is gone without a word: packets are dropped once it has begun. Run by
 * kube_silent.sh in a network namespace of its own, with the command that drops as arguments. */
#include "lib/base/clock.h"
#include "lib/kube/kube.h"
#include "tests/fake/api.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define BEFORE (50 * NS_PER_S) /* it is to be noticed in 45 s */

static atomic_bool ended;
static struct err why;

static int ignore(void *user, enum kube_event_type type, json_t *object_take)
{
    (void)user;
    (void)type;
    json_decref(object_take);
    return 0;
}

static void *watch(void *user)
{
    const struct kube_watch w = {.version = "1000", .event = ignore};
    kube_watch(user, &kube_pods, NULL, &w, &why);
    atomic_store(&ended, true);
    return NULL;
}

/* Runs the command with the server's port behind it. */
static int drop(char **argv, const char *port)
{
    char text[256];
    snprintf(text, sizeof text, "%s %s", argv[1], port);
    return system(text); /* NOLINT: the test's own words */
}

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    struct fake_api *api = fake_api_start();
    struct kube *k = fake_api_client(api);
    pthread_t thread;
    if (pthread_create(&thread, NULL, watch, k))
        return 2;
    while (fake_api_watchers(api, &kube_pods) == 0)
        clock_sleep_ns(10 * NS_PER_MS);
    if (drop(argv, strrchr(fake_api_url(api), ':') + 1))
        return 77;
    int64_t begun = clock_mono_ns();
    while (!atomic_load(&ended) && clock_mono_ns() - begun < BEFORE)
        clock_sleep_ns(100 * NS_PER_MS);
    bool noticed = atomic_load(&ended);
    printf("%s after %.1f s: %s\n", noticed ? "noticed" : "not noticed",
        (double)(clock_mono_ns() - begun) / 1e9, why.msg);
    fflush(stdout);
    _exit(noticed ? 0 : 1); /* the server waits for a client that hears nothing */
}

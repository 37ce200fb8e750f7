/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/users.h"

#include "lib/base/map.h"
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "lib/json/obj.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct users {
    pthread_mutex_t mu;
    struct map *said; /* mu: uid → struct users_said *, owned */
};

struct users_said {
    json_t *names; /* owned */
    int64_t at_ns;
};

static void said_free(void *x)
{
    struct users_said *s = x;
    json_decref(s->names);
    free(s);
}

struct users *users_new(void)
{
    struct users *u = xcalloc(1, sizeof *u);
    pthread_mutex_init(&u->mu, NULL);
    u->said = map_new(said_free);
    return u;
}

void users_free(struct users *u)
{
    if (!u)
        return;
    map_free(u->said);
    pthread_mutex_destroy(&u->mu);
    free(u);
}

void users_forget(struct users *u, const char *dataset_uid)
{
    pthread_mutex_lock(&u->mu);
    map_del(u->said, dataset_uid);
    pthread_mutex_unlock(&u->mu);
}

struct user_search {
    const char *claim;
    json_t *alive, *ended; /* owned by the caller */
};

static bool uses(const json_t *pod, const char *claim)
{
    const json_t *volumes = jget_arr(pod, "spec.volumes");
    for (size_t i = 0; i < json_array_size(volumes); i++)
        if (strcmp(
                jget_str(json_array_get(volumes, i), "persistentVolumeClaim.claimName", ""), claim)
            == 0)
            return true;
    return false;
}

static int user_found(void *user, json_t *pod)
{
    struct user_search *s = user;
    const char *phase = jget_str(pod, "status.phase", "");
    bool ended = strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
    if (uses(pod, s->claim))
        json_array_append_new(ended ? s->ended : s->alive,
            json_sprintf("%s%s", kube_name(pod), ended ? " (has ended: delete it)" : ""));
    json_decref(pod);
    return 0;
}

/* Those that have ended keep the claim as well, until they are deleted. */
static json_t *users_ask(struct kube *k, const json_t *dataset, struct err *e)
{
    cleanup_json json_t *alive = json_array(), *ended = json_array();
    struct user_search s = {kube_name(dataset), alive, ended};
    cleanup_free char *version = NULL;
    if (kube_list(k, &kube_pods, kube_namespace(dataset), NULL, 0, user_found, &s, &version, e))
        return NULL;
    json_array_extend(alive, ended);
    return json_incref(alive);
}

json_t *users_of(
    struct users *u, struct kube *k, const json_t *dataset, int64_t mono_ns, struct err *e)
{
    const char *uid = kube_uid(dataset);
    pthread_mutex_lock(&u->mu);
    const struct users_said *have = map_get(u->said, uid);
    json_t *names = have && mono_ns - have->at_ns < USERS_NS ? json_deep_copy(have->names) : NULL;
    pthread_mutex_unlock(&u->mu);
    if (names || !(names = users_ask(k, dataset, e)))
        return names;
    struct users_said *now = xcalloc(1, sizeof *now);
    *now = (struct users_said){json_deep_copy(names), mono_ns};
    pthread_mutex_lock(&u->mu);
    map_put(u->said, uid, now);
    pthread_mutex_unlock(&u->mu);
    return names;
}

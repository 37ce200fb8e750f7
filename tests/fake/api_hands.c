/* SPDX-License-Identifier: Apache-2.0 */
/* What a test does to the server from outside: puts and deletes objects, plants faults, reads what
 * was asked. */
#include "lib/base/mem.h"
#include "lib/json/jget.h"
#include "tests/fake/api_inside.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *collection_of(const struct kube_res *res)
{
    return *res->group ? xasprintf("/apis/%s/%s/%s", res->group, res->version, res->plural)
                       : xasprintf("/api/%s/%s", res->version, res->plural);
}

void fake_api_put(struct fake_api *f, const struct kube_res *res, json_t *object_take)
{
    cleanup_free char *collection = collection_of(res), *version = kube_res_api_version(res);
    json_object_set_new(object_take, "apiVersion", json_string(version));
    json_object_set_new(object_take, "kind", json_string(res->kind));
    pthread_mutex_lock(&f->mu);
    api_store_put(&f->store, collection, object_take);
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mu);
}

/* "namespace/name" or "name"; the caller frees both. */
static void split_key(const char *key, char **ns, char **name)
{
    const char *slash = strchr(key, '/');
    *ns = slash ? xstrndup(key, (size_t)(slash - key)) : xstrdup("");
    *name = xstrdup(slash ? slash + 1 : key);
}

void fake_api_remove(struct fake_api *f, const struct kube_res *res, const char *key)
{
    cleanup_free char *collection = collection_of(res), *ns = NULL, *name = NULL;
    split_key(key, &ns, &name);
    pthread_mutex_lock(&f->mu);
    api_store_remove(&f->store, collection, ns, name);
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mu);
}

json_t *fake_api_get(struct fake_api *f, const struct kube_res *res, const char *key)
{
    cleanup_free char *collection = collection_of(res), *ns = NULL, *name = NULL;
    split_key(key, &ns, &name);
    pthread_mutex_lock(&f->mu);
    json_t *j = json_deep_copy(api_store_find(&f->store, collection, ns, name));
    pthread_mutex_unlock(&f->mu);
    return j;
}

size_t fake_api_len(struct fake_api *f, const struct kube_res *res)
{
    cleanup_free char *collection = collection_of(res);
    struct api_path p = {0};
    json_t *list = NULL;
    snprintf(p.collection, sizeof p.collection, "%s", collection);
    pthread_mutex_lock(&f->mu);
    api_store_list(&f->store, &p, "", 0, "", &list);
    pthread_mutex_unlock(&f->mu);
    size_t n = jget_len(list, "items");
    json_decref(list);
    return n;
}

void fake_api_uninstall(struct fake_api *f, const struct kube_res *res, bool gone)
{
    pthread_mutex_lock(&f->mu);
    free(f->uninstalled);
    f->uninstalled = gone ? collection_of(res) : NULL;
    pthread_mutex_unlock(&f->mu);
}

void fake_api_compact(struct fake_api *f)
{
    pthread_mutex_lock(&f->mu);
    f->store.oldest = ++f->store.rv;
    pthread_mutex_unlock(&f->mu);
}

static void bump(struct fake_api *f, unsigned *what)
{
    pthread_mutex_lock(&f->mu);
    ++*what;
    pthread_cond_broadcast(&f->changed);
    pthread_mutex_unlock(&f->mu);
}

void fake_api_bookmark(struct fake_api *f) { bump(f, &f->bookmarks); }
void fake_api_drop_watches(struct fake_api *f) { bump(f, &f->drops); }

unsigned fake_api_watchers(struct fake_api *f, const struct kube_res *res)
{
    cleanup_free char *collection = collection_of(res);
    unsigned n = 0;
    pthread_mutex_lock(&f->mu);
    for (struct conn *c = f->conns; c; c = c->next)
        n += c->watching && strcmp(c->watching, collection) == 0;
    pthread_mutex_unlock(&f->mu);
    return n;
}

void fake_api_fault(struct fake_api *f, const struct fake_fault *fault)
{
    pthread_mutex_lock(&f->mu);
    if (f->nfaults == FAULTS_MAX)
        abort();
    f->faults[f->nfaults] = *fault;
    if (!fault->times)
        f->faults[f->nfaults].times = 1;
    f->nfaults++;
    pthread_mutex_unlock(&f->mu);
}

void fake_api_mend(struct fake_api *f)
{
    pthread_mutex_lock(&f->mu);
    f->nfaults = 0;
    pthread_mutex_unlock(&f->mu);
}

unsigned fake_api_connections(struct fake_api *f)
{
    pthread_mutex_lock(&f->mu);
    unsigned n = f->connections;
    pthread_mutex_unlock(&f->mu);
    return n;
}

static bool fits(const struct request *r, const char *method, const char *in)
{
    return (!method || strcmp(r->method, method) == 0) && (!in || strstr(r->target, in));
}

unsigned fake_api_count(struct fake_api *f, const char *method, const char *in)
{
    unsigned n = 0;
    pthread_mutex_lock(&f->mu);
    for (struct request *r = f->first; r; r = r->next)
        n += fits(r, method, in);
    pthread_mutex_unlock(&f->mu);
    return n;
}

char *fake_api_last(struct fake_api *f, const char *method, const char *in)
{
    char *body = NULL;
    pthread_mutex_lock(&f->mu);
    for (struct request *r = f->first; r; r = r->next)
        if (fits(r, method, in)) {
            free(body);
            body = xstrdup(r->body);
        }
    pthread_mutex_unlock(&f->mu);
    return body;
}

char *fake_api_last_headers(struct fake_api *f)
{
    pthread_mutex_lock(&f->mu);
    char *text = xstrdup(f->last_headers);
    pthread_mutex_unlock(&f->mu);
    return text;
}

void fake_api_forget(struct fake_api *f)
{
    pthread_mutex_lock(&f->mu);
    for (struct request *r = f->first, *next; r; r = next) {
        next = r->next;
        free(r->method);
        free(r->target);
        free(r->body);
        free(r);
    }
    f->first = NULL;
    f->last = &f->first;
    pthread_mutex_unlock(&f->mu);
}

void fake_api_judge(struct fake_api *f, fake_judge fn, void *user)
{
    f->judge = fn;
    f->judge_user = user;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cli/cluster.h"

#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

#define SKIPPED_MAX 1024

int cluster_check_name(const char *what, const char *name, struct err *e)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
    size_t n = strspn(name, letters);
    if (n && !name[n + strspn(name + n, "-.abcdefghijklmnopqrstuvwxyz0123456789")])
        return 0;
    return err_set(e, ERR_INVALID,
        "'%s' is no name of a %s: those have lower-case letters, digits, '-' and '.'", name, what);
}

int cluster_open(struct cluster *c, const struct cluster_flags *f, struct err *e)
{
    *c = (struct cluster){.skipped = BUF_INIT(SKIPPED_MAX)};
    const struct kube_where where = {f->kubeconfig, f->context, f->server, credential_exec};
    struct kube_conf *conf = kube_conf_load(&where, e);
    if (!conf)
        return -1;
    c->ns = xstrdup(f->ns && *f->ns ? f->ns : kube_conf_namespace(conf));
    c->kube = kube_new(conf, NULL, e);
    return !c->kube || cluster_check_name("namespace", c->ns, e) ? -1 : 0;
}

void cluster_close(struct cluster *c)
{
    kube_free(c->kube);
    free(c->ns);
    buf_free(&c->skipped);
    *c = (struct cluster){0};
}

bool cluster_denied(const struct cluster *c, const struct kube_res *res)
{
    const char *plural = res->plural;
    size_t n = strlen(plural);
    for (const char *p = c->skipped.data; p && *p; p += strspn(p, ", ")) {
        if (strncmp(p, plural, n) == 0 && strchr(", ", p[n]))
            return true;
        p += strcspn(p, ",");
    }
    return false;
}

static int skip_of(struct cluster *c, const struct kube_res *res, bool whole, struct err *e)
{
    if (e->cls == ERR_NOTFOUND) {
        err_clear(e);
        return 0;
    }
    if (e->cls == ERR_DENIED && strstr(e->msg, "Unauthorized"))
        return err_wrap(e,
            "the API server does not know you: log in again (`kubectl auth whoami` tells as whom), or name another --context");
    if (e->cls != ERR_DENIED)
        return -1;
    err_clear(e);
    if (!cluster_denied(c, res))
        buf_addf(&c->skipped, "%s%s%s", c->skipped.len ? ", " : "", res->plural,
            whole && res->namespaced ? " of all namespaces" : "");
    *(whole ? &c->skipped_whole : &c->skipped_here) = true;
    return 0;
}

int cluster_skip(struct cluster *c, const struct kube_res *res, struct err *e)
{
    return skip_of(c, res, !res->namespaced, e);
}

static int append_object(void *array, json_t *item_take)
{
    return json_array_append_new(array, item_take);
}

int cluster_list(struct cluster *c, const struct kube_res *res, const char *ns,
    const struct kube_select *sel, json_t **out, struct err *e)
{
    *out = json_array();
    if (kube_list(c->kube, res, ns, sel, 0, append_object, *out, NULL, e) == 0)
        return 0;
    json_decref(*out);
    *out = NULL;
    return skip_of(c, res, !ns, e);
}

int cluster_get(struct cluster *c, const struct kube_res *res, const char *ns, const char *name,
    json_t **out, struct err *e)
{
    *out = NULL;
    return kube_get(c->kube, res, ns, name, out, e) ? cluster_skip(c, res, e) : 0;
}

void cluster_say_skipped(struct cluster *c, FILE *out)
{
    if (!c->skipped.len)
        return;
    fprintf(out, "note: not looked at, because you may not read them: %s (", buf_str(&c->skipped));
    if (c->skipped_here)
        fprintf(
            out, "ask for the role view in namespace %s%s", c->ns, c->skipped_whole ? "; " : "");
    if (c->skipped_whole)
        fputs("what is of the whole cluster, its administrator may read", out);
    fputs(")\n", out);
}

int cluster_no_datasets(const struct cluster *c, const char *ns, struct err *e)
{
    if (!cluster_denied(c, &kube_datasets))
        return err_set(e, ERR_NOTFOUND,
            "Millrace is not installed in the cluster %s: it has no kind datasets.millrace.dev",
            kube_server(c->kube));
    return err_set(e, ERR_DENIED,
        "you may not list datasets.millrace.dev in %s%s: ask for the role view there",
        ns ? "namespace " : "all namespaces; -n NAME looks at one", ns ? ns : "");
}

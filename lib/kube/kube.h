/* SPDX-License-Identifier: Apache-2.0 */
/* kube — the Kubernetes API server: who and where (conf), one request (client), a stream of changes
 * (watch).
 *
 * Objects are jansson documents. Paths, verbs, media types and the decoding of Status live here;
 * what to do about an error does not, with one exception: 429 and 503 with Retry-After are waited
 * for and repeated (at most KUBE_RETRY_MAX times). Errors of every call: NOTFOUND (404; also a
 * resource whose CRD is not installed), EXISTS (409 AlreadyExists), CONFLICT (409 otherwise; 410
 * with sys == ESTALE: the resourceVersion or continue token is too old), INVALID (400, 422), DENIED
 * (401, 403, TLS), RETRY (network, timeout, 429, 5xx), EXHAUSTED (an answer larger than the
 * ceiling), FATAL (not an API server's answer). The message is "<verb> <plural> <ns>/<name>: <what
 * the server said>". Threads: any number may use one client. */
#ifndef MILLRACE_LIB_KUBE_KUBE_H
#define MILLRACE_LIB_KUBE_KUBE_H

#include "lib/base/err.h"

#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KUBE_RETRY_MAX 4 /* repeats of one request after 429 or 503 */
/* Bytes of one object, or of one line of a watch: an object of 1.5 MiB, which is what etcd takes,
 * may be six times as long as text. */
#define KUBE_OBJECT_MAX ((size_t)16 << 20)
#define KUBE_PAGE_MAX   ((size_t)64 << 20) /* bytes of one page of a list */

/* ---- resources ---- */

struct kube_res {
    const char *group; /* "" for core */
    const char *version;
    const char *plural;
    const char *kind;
    bool namespaced;
};

extern const struct kube_res kube_pods, kube_services, kube_configmaps, kube_secrets, kube_events,
    kube_nodes, kube_pvs, kube_pvcs, kube_leases, kube_volumeattachments, kube_deployments,
    kube_daemonsets, kube_jobs, kube_csinodes, kube_csidrivers, kube_crds, kube_access_reviews,
    kube_networkpolicies;
extern const struct kube_res kube_datasets, kube_dataloads, kube_tfjobs;
/* of gang schedulers */
extern const struct kube_res kube_volcano_podgroups, kube_coscheduling_podgroups;

/* "v1", "apps/v1"; caller frees */
char *kube_res_api_version(const struct kube_res *res);

/* ---- objects ---- */

/* Key of an object: "namespace/name", or "name" where there is no namespace. */
char *kube_key(const char *ns, const char *name); /* caller frees; ns NULL or "": no namespace */
char *kube_key_of(const json_t *object);          /* caller frees; of metadata */

const char *kube_name(const json_t *object); /* "" if absent, as for all of these */
const char *kube_namespace(const json_t *object);
const char *kube_uid(const json_t *object);
const char *kube_label(const json_t *object, const char *label);
const char *kube_annotation(const json_t *object, const char *annotation);
/* What a Secret holds under a key, as text; NULL: nothing, no base64, or more than
 * KUBE_SECRET_MAX characters of it. The caller wipes and frees it. */
#define KUBE_SECRET_MAX 4096
char *kube_secret_value(const json_t *secret, const char *key);
bool kube_deleting(const json_t *object); /* metadata.deletionTimestamp is there */
/* the ownerReference with controller: true, or NULL */
const json_t *kube_controller_of(const json_t *object);
bool kube_controlled_by(const json_t *object, const char *owner_uid);
/* Of an array of containers, or of their statuses, the one of that name (or of none); NULL: it is
 * not there. Webhooks add containers, before ours, too. */
const json_t *kube_container(const json_t *containers, const char *name);
/* metadata.resourceVersion as a number; 0 if it is none */
uint64_t kube_rv(const json_t *object);

/* ---- where the server is and who we are ---- */

struct kube_conf; /* opaque */

/* Makes credentials by the program that a kubeconfig names (users[].user.exec, given as spec; info:
 * what the program is to find in KUBERNETES_EXEC_INFO). The answer is the ExecCredential that it
 * printed; the caller owns it. This room starts no programs. */
typedef json_t *(*kube_exec)(const json_t *spec, const json_t *info, struct err *e);

struct kube_where {
    /* file NULL: $KUBECONFIG (a list: files merged, the first word wins), else the pod's service
     * account, else ~/.kube/config */
    const char *file;
    const char *context; /* NULL: the file's current-context */
    const char *server;  /* a URL that asks for no credentials, as of `kubectl proxy`: no files */
    kube_exec exec;      /* NULL: a user that needs it is refused */
};
/* INVALID names file, field and remedy. */
struct kube_conf *kube_conf_load(const struct kube_where *w, struct err *e);
void kube_conf_free(struct kube_conf *c);
/* of the context or the pod; "default" */
const char *kube_conf_namespace(const struct kube_conf *c);

/* ---- requests ---- */

struct kube; /* opaque client */

struct kube_opts {
    const char *user_agent;    /* NULL: "millrace/<version>" */
    const char *field_manager; /* NULL: NAME_FIELD_MANAGER */
    unsigned max_in_flight;    /* requests at once, watches not counted; 0: 64 */
    int64_t timeout_ns;        /* of one attempt of a request, watches not counted; 0: 30 s */
};

struct kube *kube_new(
    struct kube_conf *conf_take, const struct kube_opts *opts /* NULL: defaults */, struct err *e);
void kube_free(struct kube *k);                /* no thread may be using it */
const char *kube_server(const struct kube *k); /* for log lines */
/* When the server last did what was asked (2xx), mono ns; 0: never. A watch counts when it ends. */
int64_t kube_answered_ns(struct kube *k);

/* ns is NULL for cluster-scoped resources. *out (NULL: not wanted) is the server's answer; the
 * caller owns it. */
int kube_get(struct kube *k, const struct kube_res *res, const char *ns, const char *name,
    json_t **out, struct err *e);
int kube_create(struct kube *k, const struct kube_res *res, const char *ns, const json_t *object,
    json_t **out, struct err *e);
/* What the server remarks beside its answer. */
#define KUBE_WARNINGS    5
#define KUBE_WARNING_MAX 256 /* bytes of one */
struct kube_warnings {
    char text[KUBE_WARNINGS][KUBE_WARNING_MAX + 1];
    unsigned n;
};
struct kube_write {
    bool strict;                    /* fields that the server does not know: INVALID, names them */
    struct kube_warnings *warnings; /* or NULL; those of this answer are added */
    bool dry_run;                   /* all is checked, and nothing done */
};
/* As kube_create and kube_apply. */
int kube_create_with(struct kube *k, const struct kube_res *res, const char *ns,
    const json_t *object, const struct kube_write *how, json_t **out, struct err *e);
int kube_apply_with(struct kube *k, const struct kube_res *res, const char *ns, const char *name,
    const char *sub, const json_t *object, const struct kube_write *how, json_t **out,
    struct err *e);
/* PUT: metadata.resourceVersion in the object is the lock. */
int kube_update(struct kube *k, const struct kube_res *res, const char *ns, const char *name,
    const json_t *object, json_t **out, struct err *e);
/* Server-side apply with force; the object must carry apiVersion, kind and metadata.name
 * (apiVersion and kind are added from res if missing). sub: "" or "status". */
int kube_apply(struct kube *k, const struct kube_res *res, const char *ns, const char *name,
    const char *sub, const json_t *object, json_t **out, struct err *e);
enum kube_patch_type { KUBE_PATCH_MERGE, KUBE_PATCH_JSON };
int kube_patch(struct kube *k, const struct kube_res *res, const char *ns, const char *name,
    const char *sub, enum kube_patch_type type, const json_t *patch, json_t **out, struct err *e);

struct kube_delete {
    /* precondition: CONFLICT if the object of that name is another one; NULL: any */
    const char *uid;
    const char *propagation; /* "Background", "Foreground", "Orphan"; NULL: the server's default */
    int64_t grace_s;         /* -1: the object's own */
};
#define KUBE_DELETE_INIT \
    {                    \
        NULL, NULL, -1   \
    }
/* *out: the object as it is now (deletionTimestamp set), or NULL where the server answered with a
 * bare Status. */
int kube_delete(struct kube *k, const struct kube_res *res, const char *ns, const char *name,
    const struct kube_delete *how, json_t **out, struct err *e);

struct kube_select {
    const char *labels, *fields; /* selectors, or NULL */
};

/* Called for every item; steals it. apiVersion and kind are filled in (lists leave them out).
 * Non-zero stops the list (RETRY, ECANCELED). */
typedef int (*kube_item)(void *user, json_t *item_take);
/* Pages of page_size (0: 200) until the end; where one cannot be read or is too large, smaller
 * ones, down to single items. *version: resourceVersion of the list, caller frees. A continue token
 * that expired half-way is CONFLICT with ESTALE: the caller forgets what it got and starts again.
 */
int kube_list(struct kube *k, const struct kube_res *res, const char *ns,
    const struct kube_select *sel, unsigned page_size, kube_item item, void *user, char **version,
    struct err *e);
/* The same, but one item that cannot be read does not keep the others from being listed. */
struct kube_lister {
    kube_item item;
    /* What is known of it: {"metadata":{…}, "message": why}; metadata may lack name, namespace, uid
     * and resourceVersion. */
    kube_item skipped;
    void *user;
};
int kube_list_readable(struct kube *k, const struct kube_res *res, const char *ns,
    const struct kube_select *sel, const struct kube_lister *to, char **version, struct err *e);

/* ---- watch ---- */

/* KUBE_SKIPPED: something happened to an object that cannot be read; as kube_lister.skipped has it.
 * It was not deleted. */
enum kube_event_type { KUBE_ADDED, KUBE_MODIFIED, KUBE_DELETED, KUBE_BOOKMARK, KUBE_SKIPPED };

struct kube_watch {
    const struct kube_select *sel; /* or NULL */
    const char *version;           /* where to start */
    /* asked of the server; 0: 5 min. The client gives up 30 s after it, or when no byte moved for
     * 90 s longer than a bookmark may take */
    int64_t timeout_ns;
    const atomic_bool *cancel; /* or NULL */
    /* Called on this thread for every event, bookmarks too (their object has
     * metadata.resourceVersion only); steals object. Non-zero ends the watch (RETRY, ECANCELED). */
    int (*event)(void *user, enum kube_event_type type, json_t *object_take);
    void *user;
};

/* One watch request, until the server ends it (0), or it breaks: RETRY. CONFLICT with ESTALE: the
 * version is too old, list again (from the status line or from an ERROR event). sys EBADMSG: a line
 * that cannot be read, and does not tell which object it is about. */
int kube_watch(struct kube *k, const struct kube_res *res, const char *ns,
    const struct kube_watch *w, struct err *e);

#endif

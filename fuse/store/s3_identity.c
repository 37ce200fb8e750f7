/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/s3_identity.h"

#include "fuse/store/aws_profile.h"
#include "fuse/store/s3.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/wipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define AWS_FILE_MAX (1u << 20) /* bytes */

static const char *const key_names[] = {
    "access-key-id", "secret-access-key", "session-token", NULL};

/* -- values ---------------------------------------------------------------------------------- */

void s3_keys_clear(struct s3_keys *k)
{
    wipe_text(&k->id);
    wipe_text(&k->secret);
    wipe_text(&k->token);
}

void s3_keys_copy(struct s3_keys *to, const struct s3_keys *from)
{
    *to = (struct s3_keys){xstrdup(from->id), xstrdup(from->secret), xstrdup(from->token)};
}

static void role_clear(struct s3_role *r)
{
    free(r->arn);
    free(r->external_id);
    free(r->session);
}

void s3_identity_clear(struct s3_identity *id)
{
    s3_keys_clear(&id->keys);
    wipe_text(&id->document);
    role_clear(&id->web);
    free(id->token_file);
    for (unsigned i = 0; i < id->nroles; i++)
        role_clear(&id->roles[i]);
    free(id->origin);
    *id = (struct s3_identity){0};
}

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

static bool same_role(const struct s3_role *a, const struct s3_role *b)
{
    return same_text(a->arn, b->arn) && same_text(a->external_id, b->external_id)
        && same_text(a->session, b->session);
}

bool s3_identity_same(const struct s3_identity *a, const struct s3_identity *b)
{
    bool same = a->first == b->first && a->maybe == b->maybe && a->nroles == b->nroles
        && same_text(a->keys.id, b->keys.id) && same_text(a->keys.secret, b->keys.secret)
        && same_text(a->keys.token, b->keys.token) && same_role(&a->web, &b->web)
        && same_text(a->token_file, b->token_file) && same_text(a->document, b->document);
    for (unsigned i = 0; i < a->nroles && same; i++)
        same = same_role(&a->roles[i], &b->roles[i]);
    return same;
}

void s3_identity_machine(struct s3_identity *out, bool maybe, const char *origin)
{
    out->first = S3_INSTANCE;
    out->maybe = maybe;
    out->origin = xstrdup(origin);
}

bool s3_identity_lends(const struct s3_identity *id)
{
    return id->nroles || (id->first != S3_NOBODY && id->first != S3_KEYS);
}

/* -- where it comes from --------------------------------------------------------------------- */

static char *session_name(const char *given)
{
    if (given || (given = option_env("AWS_ROLE_SESSION_NAME")))
        return xstrdup(given);
    char host[64] = "";
    if (gethostname(host, sizeof host - 1) || strlen(host) > 50)
        host[0] = '\0';
    return xasprintf("millrace%s%s", *host ? "-" : "", host);
}

static struct s3_role role_new(const char *arn, const char *external_id, const char *session)
{
    return (struct s3_role){xstrdup(arn), xstrdup(external_id), session_name(session)};
}

static int err_option(const struct store_params *p, struct err *e, const char *why)
{
    return store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url, ": %s", why);
}

/* Keys of options, Secrets, environment; out->first stays S3_NOBODY if there are none. */
static int take_given(const struct store_params *p, struct s3_identity *out, struct err *e)
{
    struct s3_keys *k = &out->keys;
    if (option_get(p, key_names[0], &k->id, e) || option_get(p, key_names[1], &k->secret, e)
        || option_get(p, key_names[2], &k->token, e))
        return -1;
    if ((k->id != NULL) != (k->secret != NULL))
        return store_err(e, ERR_DENIED, 0, REASON_SECRET_MISSING, p->url,
            ": option %s is given but %s is not: give both, or none "
            "for a public bucket or a role",
            key_names[k->id ? 0 : 1], key_names[k->id ? 1 : 0]);
    if (k->id) {
        out->first = S3_KEYS;
        out->origin = option_origin(p, key_names);
    } else {
        s3_keys_clear(k);
    }
    return 0;
}

static void take_web(
    struct s3_identity *out, const char *arn, const char *file, const char *session)
{
    out->first = S3_WEB_IDENTITY;
    out->web = role_new(arn, NULL, session);
    out->token_file = xstrdup(file);
    free(out->origin);
    out->origin = xasprintf("role %s", arn);
}

static bool take_container(struct s3_identity *out)
{
    if (!option_env("AWS_CONTAINER_CREDENTIALS_FULL_URI")
        && !option_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"))
        return false;
    out->first = S3_CONTAINER;
    out->origin = xstrdup("the role of this container");
    return true;
}

/* -- files of the AWS tools -------------------------------------------------------------------- */

struct aws_files {
    char *text[2];           /* owned; NULL: there is none */
    struct aws_file file[2]; /* credentials, config: the first wins */
};

static char *aws_path(const char *variable, const char *name)
{
    const char *path = option_env(variable), *home = option_env("HOME");
    if (path)
        return xstrdup(path);
    return home ? xasprintf("%s/.aws/%s", home, name) : NULL;
}

static void files_read(struct aws_files *f)
{
    struct err e = ERR_INIT;
    cleanup_free char *credentials = aws_path("AWS_SHARED_CREDENTIALS_FILE", "credentials");
    cleanup_free char *config = aws_path("AWS_CONFIG_FILE", "config");
    const char *const paths[] = {credentials, config};
    *f = (struct aws_files){0};
    for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
        size_t len = 0;
        f->text[i] = paths[i] ? file_read(paths[i], AWS_FILE_MAX, &len, &e) : NULL;
        f->file[i] = (struct aws_file){f->text[i], len, i == 1};
    }
}

static void aws_files_free(struct aws_files *f)
{
    wipe_text(&f->text[0]);
    wipe_text(&f->text[1]);
}

static char *aws_files_get(const struct aws_files *f, const char *profile, const char *key)
{
    char *value = aws_profile_get(&f->file[0], profile, key);
    return value ? value : aws_profile_get(&f->file[1], profile, key);
}

static int take_profile(const struct store_params *p, const struct aws_files *f, const char *name,
    struct s3_identity *out, struct err *e);

static int take_source(const struct store_params *p, const struct aws_files *f, const char *name,
    struct s3_identity *out, struct err *e)
{
    cleanup_free char *source = aws_files_get(f, name, "source_profile");
    cleanup_free char *where = aws_files_get(f, name, "credential_source");
    if (source && strcmp(source, name) != 0)
        return take_profile(p, f, source, out, e);
    if (where && strcmp(where, "EcsContainer") == 0 && take_container(out))
        return 0;
    if (where && strcmp(where, "Ec2InstanceMetadata") == 0) {
        s3_identity_machine(out, false, "the role of this machine");
        return 0;
    }
    if (where && strcmp(where, "Environment") == 0 && take_given(p, out, e))
        return -1;
    if (source) { /* itself: its own keys */
        out->keys = (struct s3_keys){aws_files_get(f, name, "aws_access_key_id"),
            aws_files_get(f, name, "aws_secret_access_key"),
            aws_files_get(f, name, "aws_session_token")};
        out->first = out->keys.id && out->keys.secret ? S3_KEYS : S3_NOBODY;
    }
    if (out->first != S3_NOBODY)
        return 0;
    return store_err(e, ERR_DENIED, 0, REASON_SECRET_MISSING, p->url,
        ": profile %s of the AWS files assumes a role, but nobody's credentials are there for it: set source_profile, credential_source or web_identity_token_file",
        name);
}

static int take_profile_role(const struct store_params *p, const struct aws_files *f,
    const char *name, const char *arn, struct s3_identity *out, struct err *e)
{
    cleanup_free char *token = aws_files_get(f, name, "web_identity_token_file");
    cleanup_free char *external_id = aws_files_get(f, name, "external_id");
    cleanup_free char *session = aws_files_get(f, name, "role_session_name");
    if (token) {
        take_web(out, arn, token, session);
        return 0;
    }
    if (out->nroles == S3_ROLES_MAX - 1)
        return err_option(p, e, "the profiles of the AWS files lead through too many roles");
    /* where it begins is found first, and it comes last: they are turned round at the end */
    out->roles[out->nroles++] = role_new(arn, external_id, session);
    return take_source(p, f, name, out, e);
}

static int take_profile(const struct store_params *p, const struct aws_files *f, const char *name,
    struct s3_identity *out, struct err *e)
{
    if (!aws_profile_exists(&f->file[0], name) && !aws_profile_exists(&f->file[1], name))
        return store_err(e, ERR_DENIED, 0, REASON_SECRET_MISSING, p->url,
            ": the AWS files have no profile %s: see ~/.aws/credentials and ~/.aws/config, AWS_PROFILE and option profile",
            name);
    cleanup_free char *arn = aws_files_get(f, name, "role_arn");
    if (arn)
        return take_profile_role(p, f, name, arn, out, e);
    out->keys.id = aws_files_get(f, name, "aws_access_key_id");
    out->keys.secret = aws_files_get(f, name, "aws_secret_access_key");
    out->keys.token = aws_files_get(f, name, "aws_session_token");
    if (out->keys.id && out->keys.secret) {
        log_redact(out->keys.secret);
        out->first = S3_KEYS;
        return 0;
    }
    s3_keys_clear(&out->keys);
    cleanup_free char *process = aws_files_get(f, name, "credential_process");
    cleanup_free char *sso = aws_files_get(f, name, "sso_session");
    cleanup_free char *start = sso ? NULL : aws_files_get(f, name, "sso_start_url");
    if (process || sso || start)
        return store_err(e, ERR_DENIED, 0, REASON_SECRET_MISSING, p->url,
            ": profile %s of the AWS files gets its credentials from %s, which is not read here: run eval \"$(aws configure export-credentials --profile %s --format env)\" first",
            name, process ? "a program" : "single sign-on", name);
    return 0;
}

static void turn_roles(struct s3_identity *out)
{
    for (unsigned i = 0; i < out->nroles / 2; i++) {
        struct s3_role swap = out->roles[i];
        out->roles[i] = out->roles[out->nroles - 1 - i];
        out->roles[out->nroles - 1 - i] = swap;
    }
}

/* Of the profile that is chosen by option or environment, else "default" if there is one. */
static int take_files(const struct store_params *p, struct s3_identity *out, struct err *e)
{
    struct aws_files f;
    cleanup_free char *name = NULL;
    if (p->secrets_dir || option_get(p, "profile", &name, e))
        return p->secrets_dir ? 0 : -1;
    files_read(&f);
    int rc = 0;
    if (name || aws_profile_exists(&f.file[0], "default")
        || aws_profile_exists(&f.file[1], "default")) {
        const char *profile = name ? name : "default";
        rc = take_profile(p, &f, profile, out, e);
        turn_roles(out);
        if (out->first == S3_KEYS && !out->origin)
            out->origin = xasprintf("profile %s of the AWS files", profile);
    }
    aws_files_free(&f);
    return rc;
}

char *s3_file_setting(const struct store_params *p, const char *key)
{
    struct err e = ERR_INIT;
    struct aws_files f;
    cleanup_free char *name = NULL;
    if (p->secrets_dir || option_get(p, "profile", &name, &e))
        return NULL;
    files_read(&f);
    char *value = aws_files_get(&f, name ? name : "default", key);
    aws_files_free(&f);
    return value;
}

int s3_endpoint_get(const struct store_params *p, char **url, struct err *e)
{
    if (option_get(p, "endpoint", url, e))
        return -1;
    if (*url || !(*url = s3_file_setting(p, "endpoint_url")))
        return 0;
    if (strncmp(*url, "http://", 7) == 0 || strncmp(*url, "https://", 8) == 0)
        return 0;
    cleanup_free char *said = steal(url);
    return *said
        ? store_err(e, ERR_INVALID, 0, REASON_INVALID_OPTION, p->url,
            ": endpoint_url of the AWS files is '%s': write a URL, for example https://s3.example.com:9000",
            said)
        : 0;
}

/* -- the order -------------------------------------------------------------------------------- */

/* Given by name: it wins over keys of the environment. */
static bool profile_is_chosen(const struct store_params *p)
{
    return option_is_explicit(p, store_option_find(p->kind->options, "profile"));
}

static const char *projected_token(void)
{
    const char *file = option_env(ENV_IDENTITY_TOKEN);
    return file ? file : option_env("AWS_WEB_IDENTITY_TOKEN_FILE");
}

/* On a machine of one's own that may be Amazon's: is its metadata service asked unbidden? */
static int may_probe(const struct store_params *p, bool *out, struct err *e)
{
    const char *disabled = option_env("AWS_EC2_METADATA_DISABLED");
    cleanup_free char *endpoint = NULL;
    if (p->secrets_dir || (disabled && strcmp(disabled, "true") == 0))
        return 0;
    if (s3_endpoint_get(p, &endpoint, e))
        return -1;
    *out = !endpoint;
    return 0;
}

/* As whom it begins; role is the one that is assumed, or NULL. */
static int take_first(
    const struct store_params *p, const char *role, struct s3_identity *out, struct err *e)
{
    bool instance = false;
    if (option_is_true(p, "instance-metadata", &instance, e))
        return -1;
    if (profile_is_chosen(p))
        return p->secrets_dir
            ? err_option(p, e,
                "option profile names something in files of a machine of one's own: in a cluster set spec.serviceAccountName of the Dataset, or secretRef")
            : take_files(p, out, e);
    if (take_given(p, out, e))
        return -1;
    const char *token = option_env("AWS_WEB_IDENTITY_TOKEN_FILE"),
               *own = option_env("AWS_ROLE_ARN");
    if (out->first != S3_NOBODY)
        return 0;
    if (token && own) {
        take_web(out, own, token, NULL);
        return 0;
    }
    if (role && projected_token()) {
        take_web(out, role, projected_token(), NULL);
        return 0;
    }
    if (take_files(p, out, e))
        return -1;
    if (out->first != S3_NOBODY || take_container(out))
        return 0;
    bool probe = false;
    if (!instance && may_probe(p, &probe, e))
        return -1;
    if (instance || probe)
        s3_identity_machine(out, !instance, "the role of this machine");
    return 0;
}

static int add_role(
    const struct store_params *p, const char *role, struct s3_identity *out, struct err *e)
{
    cleanup_free char *external_id = NULL, *session = NULL;
    if (option_get(p, "external-id", &external_id, e)
        || option_get(p, "role-session-name", &session, e))
        return -1;
    if (out->first == S3_WEB_IDENTITY && strcmp(out->web.arn, role) == 0) {
        if (session) {
            free(out->web.session);
            out->web.session = xstrdup(session);
        }
        return 0;
    }
    if (out->first == S3_NOBODY)
        return store_err(e, ERR_DENIED, 0, REASON_SECRET_MISSING, p->url,
            ": option role-arn needs somebody who assumes the role: %s",
            p->secrets_dir
                ? "set spec.serviceAccountName of the Dataset, or give keys in a Secret (secretRef)"
                : "set AWS_WEB_IDENTITY_TOKEN_FILE, AWS_PROFILE or keys in the environment");
    out->maybe = false;
    out->roles[out->nroles++] = role_new(role, external_id, session);
    free(out->origin);
    out->origin = xasprintf("role %s", role);
    return 0;
}

int s3_identity_get(const struct store_params *p, struct s3_identity *out, struct err *e)
{
    *out = (struct s3_identity){0};
    cleanup_free char *role = NULL;
    bool anonymous = false;
    int rc = option_is_true(p, "anonymous", &anonymous, e);
    if (rc == 0)
        rc = option_get(p, "role-arn", &role, e);
    if (rc == 0 && anonymous && role)
        rc = err_option(p, e, "options anonymous and role-arn contradict each other: keep one");
    if (rc == 0 && !anonymous)
        rc = take_first(p, role, out, e);
    if (rc == 0 && role)
        rc = add_role(p, role, out, e);
    if (rc)
        s3_identity_clear(out);
    else if (!out->origin)
        out->origin = option_origin(p, key_names);
    return rc;
}

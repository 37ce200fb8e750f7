/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials of an S3 store: read from their sources every second, so that a rotated Secret is
 * used without a restart. */
#include "fuse/store/s3.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_NS NS_PER_S

static const char *const names[] = {"access-key-id", "secret-access-key", "session-token", NULL};

struct s3_cred {
    struct store_params params;
    char *origin;
    /* a leaf but for the log's; held while the small secret files are read */
    pthread_mutex_t mu;
    char *values[3];            /* mu: as names; NULL if not given */
    unsigned generation;        /* mu: counts changes; 0: not read yet */
    int64_t read_at_ns;         /* mu */
    char day[9];                /* mu: key is for this day and region, "" for none */
    char region[S3_REGION_MAX]; /* mu */
    unsigned char key[32];      /* mu */
};

struct s3_cred *s3_cred_new(const struct store_params *p)
{
    struct s3_cred *c = xcalloc(1, sizeof *c);
    c->params = *p;
    c->origin = option_origin(p, names);
    pthread_mutex_init(&c->mu, NULL);
    return c;
}

static void wipe(char *s)
{
    if (s)
        explicit_bzero(s, strlen(s));
    free(s);
}

void s3_cred_free(struct s3_cred *c)
{
    if (!c)
        return;
    for (size_t i = 0; i < ARRAY_LEN(c->values); i++)
        wipe(c->values[i]);
    explicit_bzero(c->key, sizeof c->key);
    pthread_mutex_destroy(&c->mu);
    free(c->origin);
    free(c);
}

const char *s3_cred_origin(const struct s3_cred *c) { return c->origin; }

bool s3_cred_anonymous(struct s3_cred *c)
{
    pthread_mutex_lock(&c->mu);
    bool none = c->generation && !c->values[0];
    pthread_mutex_unlock(&c->mu);
    return none;
}

static bool same_text(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

/* mu held. What is there now replaces what was; one that is half given is an error and not used. */
static int read_credentials(struct s3_cred *c, struct err *e)
{
    char *now[3] = {0};
    int rc = 0;
    for (size_t i = 0; i < ARRAY_LEN(now) && rc == 0; i++)
        rc = option_get(&c->params, names[i], &now[i], e);
    if (rc == 0 && (now[0] != NULL) != (now[1] != NULL))
        rc = store_err(e, ERR_DENIED, 0, REASON_SECRET_MISSING, c->params.url,
            ": option %s is given but %s is not: give both, or none "
            "for a public bucket",
            names[now[0] ? 0 : 1], names[now[0] ? 1 : 0]);
    if (rc == 0) {
        bool changed = c->generation == 0;
        for (size_t i = 0; i < ARRAY_LEN(now); i++)
            changed |= !same_text(now[i], c->values[i]);
        if (changed && c->generation)
            log_info("%s: the credentials have changed and are used from now on", c->params.url);
        c->generation += changed;
        c->day[0] = changed ? '\0' : c->day[0];
        for (size_t i = 0; i < ARRAY_LEN(now); i++) {
            char *old = c->values[i];
            c->values[i] = now[i];
            now[i] = old;
        }
        c->read_at_ns = clock_mono_ns();
    }
    for (size_t i = 0; i < ARRAY_LEN(now); i++)
        wipe(now[i]);
    return rc;
}

int s3_cred_get(struct s3_cred *c, const char time[SIGV4_TIME_LEN], const char *region,
    struct s3_signer *out, struct err *e)
{
    *out = (struct s3_signer){0};
    pthread_mutex_lock(&c->mu);
    bool old = !c->generation || clock_mono_ns() - c->read_at_ns >= CHECK_NS;
    if (old && read_credentials(c, e)) {
        pthread_mutex_unlock(&c->mu);
        return -1;
    }
    out->generation = c->generation;
    out->anonymous = !c->values[0];
    if (!out->anonymous) {
        if (strncmp(c->day, time, 8) != 0 || strcmp(c->region, region) != 0) {
            struct sigv4_scope scope = {.region = region, .service = "s3"};
            memcpy(scope.time, time, SIGV4_TIME_LEN);
            sigv4_key(c->values[1], &scope, c->key);
            memcpy(c->day, time, 8);
            snprintf(c->region, sizeof c->region, "%s", region);
        }
        out->key_id = xstrdup(c->values[0]);
        out->token = xstrdup(c->values[2]);
        memcpy(out->key, c->key, sizeof out->key);
    }
    pthread_mutex_unlock(&c->mu);
    return 0;
}

void s3_signer_clear(struct s3_signer *s)
{
    wipe(s->token);
    free(s->key_id);
    explicit_bzero(s, sizeof *s);
}

bool s3_cred_renew(struct s3_cred *c, unsigned generation)
{
    struct err e = ERR_INIT;
    pthread_mutex_lock(&c->mu);
    bool renewed = c->generation != generation
        || (read_credentials(c, &e) == 0 && c->generation != generation);
    pthread_mutex_unlock(&c->mu);
    return renewed;
}

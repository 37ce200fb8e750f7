/* SPDX-License-Identifier: Apache-2.0 */
/* Credentials of an S3 store. Where they come from is looked at every second, so that a rotated
 * Secret is used without a restart; those that are lent for a time are renewed before it is over,
 * while requests go on with the old ones. */
#include "fuse/store/s3.h"

#include "fuse/store/gs_lend.h"
#include "fuse/store/lend.h"
#include "fuse/store/s3_lend.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"
#include "lib/base/wipe.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK_NS  NS_PER_S
#define EARLY_NS  (300 * NS_PER_S) /* renewed so long before their end */
#define YOUNG_NS  (10 * NS_PER_S)  /* a refusal of younger ones is no reason to ask for others */
#define NOBODY_NS (600 * NS_PER_S)
#define WAIT_NS   NS_PER_S

struct s3_cred {
    struct store_params params;
    struct s3_lender *lender; /* one of them */
    struct gs_lender *google;
    /* a leaf but for the log's; held while small files are read, not while others are asked */
    pthread_mutex_t mu;
    pthread_cond_t asked;
    struct s3_identity identity; /* mu; does not change while asking */
    struct s3_keys keys;         /* mu: what requests are signed with; id NULL: not at all */
    unsigned generation;         /* mu: counts changes; 0: not read yet */
    int64_t read_at_ns;          /* mu */
    /* of lent ones, monotonic */
    int64_t lent_at_ns, renew_ns, end_ns; /* mu; end_ns 0: there are none */
    bool asking;                          /* mu */
    int64_t quiet_until_ns;               /* mu: the last attempt failed */
    struct err failed;                    /* mu: how; no error since one succeeded */
    char day[9];                          /* mu: key is for this day and region, "" for none */
    char region[S3_REGION_MAX];           /* mu */
    unsigned char key[32];                /* mu */
};

struct s3_cred *s3_cred_new(const struct store_params *p, struct http *http, struct err *e)
{
    struct s3_cred *c = xcalloc(1, sizeof *c);
    c->params = *p;
    if (p->kind == &store_gs.kind)
        c->google = gs_lender_new(&c->params, http, e);
    else
        c->lender = s3_lender_new(&c->params, http, e);
    if (!c->lender && !c->google) {
        free(c);
        return NULL;
    }
    pthread_mutex_init(&c->mu, NULL);
    clock_cond_init(&c->asked);
    return c;
}

void s3_cred_free(struct s3_cred *c)
{
    if (!c)
        return;
    s3_lender_free(c->lender);
    gs_lender_free(c->google);
    s3_identity_clear(&c->identity);
    s3_keys_clear(&c->keys);
    explicit_bzero(c->key, sizeof c->key);
    pthread_cond_destroy(&c->asked);
    pthread_mutex_destroy(&c->mu);
    free(c);
}

char *s3_cred_origin(struct s3_cred *c, bool *lent)
{
    pthread_mutex_lock(&c->mu);
    *lent = s3_identity_lends(&c->identity);
    char *origin = xstrdup(c->identity.origin ? c->identity.origin : "the mount's options");
    pthread_mutex_unlock(&c->mu);
    return origin;
}

bool s3_cred_cause(struct s3_cred *c, struct err *e)
{
    pthread_mutex_lock(&c->mu);
    bool failed = s3_identity_lends(&c->identity) && c->failed.cls != ERR_NONE;
    if (failed)
        *e = c->failed;
    pthread_mutex_unlock(&c->mu);
    return failed;
}

bool s3_cred_anonymous(struct s3_cred *c)
{
    pthread_mutex_lock(&c->mu);
    bool none = c->generation && !c->keys.id;
    pthread_mutex_unlock(&c->mu);
    return none;
}

static void take_keys(struct s3_cred *c, struct s3_keys *k)
{
    mutex_assert_held(&c->mu);
    s3_keys_clear(&c->keys);
    c->keys = *k;
    *k = (struct s3_keys){0};
    c->generation++;
    c->day[0] = '\0';
}

/* Who we are now replaces who we were; what is half given is an error and not used. */
static int look_again(struct s3_cred *c, struct err *e)
{
    struct s3_identity now;
    mutex_assert_held(&c->mu);
    if (c->asking)
        return 0;
    if (c->google ? gs_identity_get(&c->params, &now, e) : s3_identity_get(&c->params, &now, e))
        return -1;
    if (c->generation == 0 || !s3_identity_same(&now, &c->identity)) {
        struct s3_keys k;
        if (c->generation)
            log_info("%s: the credentials have changed and are used from now on", c->params.url);
        s3_keys_copy(&k, s3_identity_lends(&now) ? &(struct s3_keys){0} : &now.keys);
        take_keys(c, &k);
        c->end_ns = c->quiet_until_ns = 0;
        c->failed = (struct err)ERR_INIT;
        s3_identity_clear(&c->identity);
        c->identity = now;
    } else {
        s3_identity_clear(&now);
    }
    c->read_at_ns = clock_mono_ns();
    return 0;
}

/* Keys without an id: there is nobody (identity.maybe). */
static int lend(const struct s3_cred *c, struct s3_keys *k, int64_t *lifetime_ns, struct err *e)
{
    *k = (struct s3_keys){0};
    *lifetime_ns = LEND_LIFETIME;
    int rc = c->google ? gs_lend(c->google, &c->identity, k, lifetime_ns, e)
                       : s3_lend(c->lender, &c->identity, k, lifetime_ns, e);
    if (rc == 0 && *lifetime_ns <= 0)
        rc = store_err(e, ERR_RETRY, EIO, REASON_EXPIRED, c->params.url,
            ": the credentials of %s had expired when they came", c->identity.origin);
    if (rc)
        s3_keys_clear(k);
    if (rc && c->identity.maybe) {
        err_clear(e);
        rc = 0;
    }
    return rc;
}

/* mu is not held meanwhile. */
static void ask(struct s3_cred *c)
{
    struct s3_keys k;
    struct err e = ERR_INIT;
    int64_t lifetime_ns;
    mutex_assert_held(&c->mu);
    c->asking = true;
    pthread_mutex_unlock(&c->mu);
    int rc = lend(c, &k, &lifetime_ns, &e);
    pthread_mutex_lock(&c->mu);
    c->asking = false;
    int64_t now = clock_mono_ns();
    if (rc) {
        log_warn("%s", e.msg);
        c->failed = e;
        c->quiet_until_ns = now + (e.cls == ERR_RETRY ? 1 : 5) * NS_PER_S;
    } else {
        if (!k.id)
            lifetime_ns = NOBODY_NS + EARLY_NS;
        take_keys(c, &k);
        c->lent_at_ns = now;
        c->end_ns = now + lifetime_ns;
        c->renew_ns = c->end_ns - MIN(EARLY_NS, lifetime_ns / 3);
        c->quiet_until_ns = 0;
        c->failed = (struct err)ERR_INIT;
    }
    pthread_cond_broadcast(&c->asked);
}

/* Lent credentials that are good now; those that are good and soon are not are renewed by one of
 * those who come. */
static int await(struct s3_cred *c, struct err *e)
{
    mutex_assert_held(&c->mu);
    for (;;) {
        int64_t now = clock_mono_ns();
        bool good = now < c->end_ns;
        if (good && (now < c->renew_ns || c->asking || now < c->quiet_until_ns))
            return 0;
        if (!c->asking && now < c->quiet_until_ns) {
            *e = c->failed;
            return -1;
        }
        if (c->asking)
            clock_cond_wait(&c->asked, &c->mu, now + WAIT_NS);
        else
            ask(c);
    }
}

int s3_cred_get(struct s3_cred *c, const char time[SIGV4_TIME_LEN], const char *region,
    struct s3_signer *out, struct err *e)
{
    *out = (struct s3_signer){0};
    pthread_mutex_lock(&c->mu);
    bool old = !c->generation || clock_mono_ns() - c->read_at_ns >= CHECK_NS;
    if ((old && look_again(c, e)) || (s3_identity_lends(&c->identity) && await(c, e))) {
        pthread_mutex_unlock(&c->mu);
        return -1;
    }
    out->generation = c->generation;
    out->anonymous = !c->keys.id;
    if (!out->anonymous) {
        if (!c->google && (strncmp(c->day, time, 8) != 0 || strcmp(c->region, region) != 0)) {
            struct sigv4_scope scope = {.region = region, .service = "s3"};
            memcpy(scope.time, time, SIGV4_TIME_LEN);
            sigv4_key(c->keys.secret, &scope, c->key);
            memcpy(c->day, time, 8);
            snprintf(c->region, sizeof c->region, "%s", region);
        }
        out->key_id = xstrdup(c->keys.id);
        out->token = xstrdup(c->keys.token);
        memcpy(out->key, c->key, sizeof out->key);
    }
    pthread_mutex_unlock(&c->mu);
    return 0;
}

void s3_signer_clear(struct s3_signer *s)
{
    wipe_text(&s->token);
    free(s->key_id);
    explicit_bzero(s, sizeof *s);
}

bool s3_cred_renew(struct s3_cred *c, unsigned generation)
{
    struct err e = ERR_INIT;
    pthread_mutex_lock(&c->mu);
    while (c->asking && c->generation == generation)
        clock_cond_wait(&c->asked, &c->mu, clock_mono_ns() + WAIT_NS);
    int64_t now = clock_mono_ns();
    if (c->generation == generation && look_again(c, &e) == 0 && c->generation == generation
        && s3_identity_lends(&c->identity) && now - c->lent_at_ns >= YOUNG_NS
        && now >= c->quiet_until_ns)
        ask(c); /* where that fails the old ones stay: it may not have been for them */
    bool renewed = c->generation != generation;
    pthread_mutex_unlock(&c->mu);
    return renewed;
}

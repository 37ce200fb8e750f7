/* SPDX-License-Identifier: Apache-2.0 */
/* S3 without keys of one's own: roles by a token, by a chain, by what a container or a machine is
 * told; against a server that plays the token service and the metadata services, and an S3 server
 * that wants the keys which those give. */
#include "tests/unit/fuse/store/s3_role_fixture.h"

/* -- tokens of a service account -----------------------------------------------------------------
 */

static void a_pod_of_eks_needs_no_key(void **state)
{
    struct fixture *w = *state;
    setenv("AWS_ROLE_ARN", ROLE, 1);
    give_token(w, "AWS_WEB_IDENTITY_TOKEN_FILE", "header.body.sign+/=\n");
    open_keyless(w);
    expect_read(w);
    expect_read(w);
    assert_int_equal(lent(), 1);
    assert_non_null(strstr(lender.asked, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&"));
    assert_non_null(strstr(lender.asked, "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Freader&"));
    assert_non_null(strstr(lender.asked, "WebIdentityToken=header.body.sign%2B%2F%3D"));
    assert_non_null(strstr(lender.asked, "RoleSessionName=millrace"));
    assert_string_equal(lender.authorization, "");
}

static void a_role_of_the_mount_takes_our_token(void **state)
{
    struct fixture *w = *state;
    give_token(w, "MILLRACE_IDENTITY_TOKEN_FILE", "a.b.c");
    mount_option(w->m, "role-arn", ROLE);
    mount_option(w->m, "role-session-name", "training");
    open_keyless(w);
    expect_read(w);
    assert_non_null(strstr(lender.asked, "WebIdentityToken=a.b.c"));
    assert_non_null(strstr(lender.asked, "RoleSessionName=training"));
}

/* The token is read again each time: kubelet has another one by then. */
static void credentials_are_renewed_before_they_end(void **state)
{
    struct fixture *w = *state;
    setenv("AWS_ROLE_ARN", ROLE, 1);
    give_token(w, "AWS_WEB_IDENTITY_TOKEN_FILE", "first");
    lender.lifetime_s = 6;
    open_keyless(w);
    expect_read(w);
    assert_non_null(strstr(lender.asked, "WebIdentityToken=first"));
    write_secret(w, "token", "second");
    for (int i = 0; i < 200 && lent() < 2; i++) {
        expect_read(w);
        clock_sleep_ns(100 * NS_PER_MS);
    }
    assert_true(lent() >= 2);
    assert_non_null(strstr(lender.asked, "WebIdentityToken=second"));
}

/* While the token service is away, what is still good is used. */
static void good_ones_outlive_a_dead_service(void **state)
{
    struct fixture *w = *state;
    setenv("AWS_ROLE_ARN", ROLE, 1);
    give_token(w, "AWS_WEB_IDENTITY_TOKEN_FILE", "a.b.c");
    lender.lifetime_s = 30;
    open_keyless(w);
    expect_read(w);
    lender.status = 503;
    clock_sleep_ns(NS_PER_S);
    expect_read(w);
}

/* In the middle of everything the server says that they have expired. */
static void expired_ones_are_replaced(void **state)
{
    struct fixture *w = *state;
    setenv("AWS_ROLE_ARN", ROLE, 1);
    give_token(w, "AWS_WEB_IDENTITY_TOKEN_FILE", "a.b.c");
    lender.key_id = "old";
    open_keyless(w);
    fake_s3_expire(w->server, "old");
    expect_refused(w, "ExpiredCredentials", "role " ROLE); /* too young to be asked for again */
    lender.key_id = "good";
    for (int i = 0; i < 150 && lent() < 2; i++) {
        struct err e = ERR_INIT;
        read_byte(w, &e);
        clock_sleep_ns(100 * NS_PER_MS);
    }
    expect_read(w);
}

static void *read_in_thread(void *fixture)
{
    struct err e = ERR_INIT;
    return read_byte(fixture, &e) ? "failed" : NULL;
}

/* They have expired, and there are no others: that is what is wrong. */
static void a_role_that_was_taken_away(void **state)
{
    struct fixture *w = *state;
    setenv("AWS_ROLE_ARN", ROLE, 1);
    give_token(w, "AWS_WEB_IDENTITY_TOKEN_FILE", "a.b.c");
    open_keyless(w);
    expect_read(w);
    lender.status = 403;
    clock_sleep_ns(10 * NS_PER_S); /* younger ones are not asked for again */
    fake_s3_expire(w->server, "good");
    expect_refused(w, "AccessDenied", "role " ROLE " is not to be had (403 AccessDenied)");
    expect_refused(w, "AccessDenied", "role " ROLE " is not to be had (403 AccessDenied)");
    lender.status = 200;
    for (int i = 0; i < 100 && lent() < 3; i++) {
        struct err e = ERR_INIT;
        read_byte(w, &e);
        clock_sleep_ns(100 * NS_PER_MS);
    }
    fake_s3_expire(w->server, "nobody");
    expect_read(w);
}

/* The token service is away at that moment: it is waited for. */
static void expired_while_the_service_is_away(void **state)
{
    struct fixture *w = *state;
    setenv("AWS_ROLE_ARN", ROLE, 1);
    give_token(w, "AWS_WEB_IDENTITY_TOKEN_FILE", "a.b.c");
    open_keyless(w);
    expect_read(w);
    lender.status = 503;
    clock_sleep_ns(10 * NS_PER_S);
    fake_s3_expire(w->server, "good");
    pthread_t thread;
    void *failed;
    assert_int_equal(pthread_create(&thread, NULL, read_in_thread, w), 0);
    for (int i = 0; i < 100 && lent() < 3; i++)
        clock_sleep_ns(100 * NS_PER_MS);
    assert_true(lent() >= 3);
    fake_s3_expire(w->server, "nobody"); /* what is lent from now on is good */
    lender.status = 200;
    pthread_join(thread, &failed);
    assert_null(failed);
}

static void many_readers_ask_once(void **state)
{
    struct fixture *w = *state;
    pthread_t t[16];
    setenv("AWS_ROLE_ARN", ROLE, 1);
    give_token(w, "AWS_WEB_IDENTITY_TOKEN_FILE", "a.b.c");
    lender.delay_ns = 200 * NS_PER_MS;
    open_keyless(w);
    for (size_t i = 0; i < ARRAY_LEN(t); i++)
        assert_int_equal(pthread_create(&t[i], NULL, read_in_thread, w), 0);
    for (size_t i = 0; i < ARRAY_LEN(t); i++) {
        void *failed;
        pthread_join(t[i], &failed);
        assert_null(failed);
    }
    assert_int_equal(lent(), 1);
}

/* -- what goes wrong, in words -------------------------------------------------------------------
 */

static void a_role_that_is_not_ours(void **state)
{
    struct fixture *w = *state;
    setenv("AWS_ROLE_ARN", ROLE, 1);
    give_token(w, "AWS_WEB_IDENTITY_TOKEN_FILE", "a.b.c");
    lender.status = 403;
    open_keyless(w);
    expect_refused(w, "AccessDenied", "role " ROLE " is not to be had (403 AccessDenied)");
    expect_refused(w, "AccessDenied", "trust policy");
    assert_int_equal(lent(), 1); /* nobody is asked again at once */
}

static void a_token_that_is_not_there(void **state)
{
    struct fixture *w = *state;
    setenv("AWS_ROLE_ARN", ROLE, 1);
    setenv("AWS_WEB_IDENTITY_TOKEN_FILE", "/nowhere/token", 1);
    open_keyless(w);
    expect_refused(w, "SecretMissing", "/nowhere/token");
}

static void a_role_without_anybody(void **state)
{
    struct fixture *w = *state;
    mount_option(w->m, "role-arn", ROLE);
    open_keyless(w);
    expect_refused(w, "SecretMissing", "spec.serviceAccountName");
}

static void no_token_service_there(void **state)
{
    struct fixture *w = *state;
    setenv("AWS_ROLE_ARN", ROLE, 1);
    give_token(w, "AWS_WEB_IDENTITY_TOKEN_FILE", "a.b.c");
    lender.status = 404;
    open_keyless(w);
    expect_refused(w, "InvalidOption", "sts-endpoint");
}

/* No token goes where anybody on the way sees it. */
static void not_without_tls(void **state)
{
    struct fixture *w = *state;
    free(w->m->options[1].value);
    w->m->options[1].value = xstrdup("true"); /* tls-verify */
    setenv("AWS_ROLE_ARN", ROLE, 1);
    give_token(w, "AWS_WEB_IDENTITY_TOKEN_FILE", "a.b.c");
    open_keyless(w);
    expect_refused(w, "InvalidOption", "https://");
    assert_int_equal(lent(), 0);
}

static void expect_not_opened(struct fixture *w, const char *words)
{
    struct err e = ERR_INIT;
    struct store_conf conf = {.mount = &w->m->conf, .secrets_dir = w->dir};
    struct store *s = store_new(&conf, &e);
    bool opened = s != NULL;
    char c;
    int rc = opened ? store_read(s, "file", "", 0, 1, &c, NULL, &e) : -1;
    store_free(s);
    assert_int_equal(rc, -1);
    if (!strstr(e.msg, words))
        fail_msg("no \"%s\": %s", words, e.msg);
}

static void options_that_contradict(void **state)
{
    struct fixture *w = *state;
    mount_option(w->m, "role-arn", ROLE);
    mount_option(w->m, "anonymous", "true");
    expect_not_opened(w, "anonymous and role-arn");
}

static void a_profile_in_a_cluster(void **state)
{
    struct fixture *w = *state;
    mount_option(w->m, "profile", "me");
    expect_not_opened(w, "option profile");
}

static void a_token_service_with_a_path(void **state)
{
    struct fixture *w = *state;
    free(w->m->options[2].value);
    w->m->options[2].value = xstrdup("https://sts.example.com/path");
    expect_not_opened(w, "option sts-endpoint");
}

/* Where the cluster says which servers there are, a Secret leads to no other token service: it
 * would be shown keys and tokens. What options and the cluster's default say was judged before. */
static void allowed_token_services_only(void **state)
{
    struct fixture *w = *state;
    static const char *const allowed[] = {"https://minio.example", "https://sts.example"};
    struct conf_pair usual = {(char *)"sts-endpoint", (char *)"https://by-default.example"};
    static const struct {
        const char *service, *words; /* NULL: it fits */
    } cases[] = {
        {"https://sts.example", NULL},
        {"https://by-default.example", NULL},
        {"https://thief.example",
            "option sts-endpoint is what key sts of Secret creds says, but this cluster allows https://minio.example, https://sts.example only"},
        {"https://sts.example.thief.example", "limits.endpoints"},
        {"https://sts.example@thief.example", "write scheme, host and port only"},
    };
    struct store_conf conf = {.mount = &w->m->conf, .secrets_dir = w->dir};
    w->m->conf.noptions = 2; /* the endpoint is among them, the token service is not */
    w->m->conf.default_options = &usual;
    w->m->conf.ndefault_options = 1;
    w->m->conf.endpoints = (char **)allowed;
    w->m->conf.nendpoints = ARRAY_LEN(allowed);
    mount_secret(w->m, "sts-endpoint", "sts", "creds:sts");
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct err e = ERR_INIT;
        write_secret(w, "sts", cases[i].service);
        struct store *s = store_new(&conf, &e);
        bool opened = s != NULL;
        store_free(s);
        if (opened != (cases[i].words == NULL))
            fail_msg("%s: %s", cases[i].service, e.msg);
        if (opened)
            continue;
        assert_string_equal(store_reason(&e), "InvalidOption");
        if (!strstr(e.msg, cases[i].words))
            fail_msg("no \"%s\": %s", cases[i].words, e.msg);
    }
}

/* -- others ------------------------------------------------------------------------------------ */

static void anonymous_is_not_signed(void **state)
{
    struct fixture *w = *state;
    setenv("AWS_ROLE_ARN", ROLE, 1);
    give_token(w, "AWS_WEB_IDENTITY_TOKEN_FILE", "a.b.c");
    mount_option(w->m, "anonymous", "true");
    open_keyless(w);
    expect_read(w);
    assert_int_equal(lent(), 0);
}

static void keys_assume_a_role(void **state)
{
    struct fixture *w = *state;
    mount_option(w->m, "role-arn", ROLE);
    mount_option(w->m, "external-id", "our & yours");
    mount_secret(w->m, "access-key-id", "id", "creds:accessKey");
    mount_secret(w->m, "secret-access-key", "key", "creds:secretKey");
    open_keyless(w);
    expect_read(w);
    assert_non_null(strstr(lender.asked, "Action=AssumeRole&"));
    assert_non_null(strstr(lender.asked, "ExternalId=our%20%26%20yours"));
    assert_non_null(strstr(lender.authorization, "AWS4-HMAC-SHA256 Credential=good/"));
    assert_non_null(strstr(lender.authorization, "/sts/aws4_request"));
}

/* The pod's own role, and from there the mount's. */
static void roles_in_a_chain(void **state)
{
    struct fixture *w = *state;
    setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/pod", 1);
    give_token(w, "AWS_WEB_IDENTITY_TOKEN_FILE", "a.b.c");
    mount_option(w->m, "role-arn", ROLE);
    open_keyless(w);
    expect_read(w);
    assert_int_equal(lent(), 2);
    assert_non_null(strstr(lender.asked, "Action=AssumeRole&"));
    assert_non_null(strstr(lender.asked, "role%2Freader"));
    assert_string_equal(lender.token, "session-1");
}

static void a_container_is_told(void **state)
{
    struct fixture *w = *state;
    cleanup_free char *url = service("/creds");
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url, 1);
    give_token(w, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "pod-token");
    open_keyless(w);
    expect_read(w);
    assert_string_equal(lender.authorization, "pod-token");
}

static void a_container_is_told_something_far(void **state)
{
    struct fixture *w = *state;
    setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1.example.com/creds", 1);
    open_keyless(w);
    expect_refused(w, "InvalidOption", "without TLS only this machine is asked");
}

static void a_machine_has_a_role(void **state)
{
    struct fixture *w = *state;
    cleanup_free char *at = service("");
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", at, 1);
    open_keyless(w);
    expect_read(w); /* as nobody: in a cluster it must be asked for */
    assert_int_equal(lent(), 0);
    store_free(w->s);
    mount_option(w->m, "instance-metadata", "true");
    open_keyless(w);
    expect_read(w);
    assert_true(lent() > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        keyless(a_pod_of_eks_needs_no_key),
        keyless(a_role_of_the_mount_takes_our_token),
        keyless(credentials_are_renewed_before_they_end),
        keyless(good_ones_outlive_a_dead_service),
        keyless(expired_ones_are_replaced),
        keyless(a_role_that_was_taken_away),
        keyless(expired_while_the_service_is_away),
        keyless(many_readers_ask_once),
        keyless(a_role_that_is_not_ours),
        keyless(a_token_that_is_not_there),
        keyless(a_role_without_anybody),
        keyless(no_token_service_there),
        keyless(not_without_tls),
        keyless(options_that_contradict),
        keyless(a_profile_in_a_cluster),
        keyless(a_token_service_with_a_path),
        keyless(allowed_token_services_only),
        keyless(anonymous_is_not_signed),
        keyless(keys_assume_a_role),
        keyless(roles_in_a_chain),
        keyless(a_container_is_told),
        keyless(a_container_is_told_something_far),
        keyless(a_machine_has_a_role),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

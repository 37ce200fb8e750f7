/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the AWS tools say: as whom S3 is asked, and where. */
#include "tests/unit/fuse/store/s3_role_fixture.h"

#include "fuse/store/aws_profile.h"

static void write_aws(const struct fixture *w, const char *name, const char *text)
{
    cleanup_free char *dir = path_join(w->dir, ".aws");
    mkdir(dir, 0700);
    cleanup_free char *path = path_join(dir, name);
    struct err e = ERR_INIT;
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0600, &e), 0);
}

static void a_laptop_has_profiles(void **state)
{
    struct fixture *w = *state;
    write_aws(w, "credentials",
        "[default]\naws_access_key_id = nobody\naws_secret_access_key = x\n"
        "[ me ]\naws_access_key_id=good ; mine\naws_secret_access_key=y\n");
    write_aws(w, "config",
        "[profile lab]\nrole_arn = " ROLE "\nsource_profile = me\nexternal_id = e1\n"
        "[profile sso]\nsso_session = corp\n");
    setenv("AWS_PROFILE", "me", 1);
    w->s = open_store(w->m, NULL, 20 * NS_PER_S);
    expect_read(w);
    assert_int_equal(lent(), 0);
    store_free(w->s);
    setenv("AWS_PROFILE", "lab", 1);
    w->s = open_store(w->m, NULL, 20 * NS_PER_S);
    expect_read(w);
    assert_non_null(strstr(lender.asked, "ExternalId=e1"));
    assert_non_null(strstr(lender.authorization, "Credential=good/"));
    store_free(w->s);
    setenv("AWS_PROFILE", "sso", 1);
    w->s = open_store(w->m, NULL, 20 * NS_PER_S);
    expect_refused(w, "SecretMissing", "aws configure export-credentials --profile sso");
    store_free(w->s);
    setenv("AWS_PROFILE", "other", 1);
    w->s = open_store(w->m, NULL, 20 * NS_PER_S);
    expect_refused(w, "SecretMissing", "no profile other");
}

/* endpoint_url of the files is as good as the option: keys and tokens go nowhere else. */
static void files_say_where(void **state)
{
    struct fixture *w = *state;
    cleanup_free char *near = service(""), *lab = xasprintf("[default]\nendpoint_url = %s\n", near),
                      *plain = xasprintf("[default]\nendpoint_url = http://127.0.0.1:%d\n",
                          fake_s3_port(w->server));
    struct err e = ERR_INIT;
    mount_free(w->m);
    w->m = mount_new("s3://data/set");
    mount_option(w->m, "tls-verify", "false");
    setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", near, 1);
    write_aws(w, "config", plain);
    w->s = open_store(w->m, NULL, 20 * NS_PER_S);
    expect_read(w); /* as nobody: this is no server of Amazon's */
    assert_int_equal(lent(), 0);
    store_free(w->s);
    write_aws(w, "credentials", "[default]\naws_access_key_id = good\naws_secret_access_key = x\n");
    write_aws(w, "config", lab);
    mount_option(w->m, "role-arn", ROLE);
    w->s = open_store(w->m, NULL, 2 * NS_PER_S);
    assert_int_equal(read_byte(w, &e), -1); /* no S3 server is there */
    assert_true(lent() > 0);
    assert_non_null(strstr(lender.asked, "Action=AssumeRole&"));
}

static void files_say_nonsense(void **state)
{
    struct fixture *w = *state;
    static const char *const wrong[] = {"http:/minio:9000", "httpd.lan:9000", "minio.lan:9000",
        "https:", "http://", "ftp://minio.lan"};
    mount_free(w->m);
    w->m = mount_new("s3://data/set");
    for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
        struct err e = ERR_INIT;
        cleanup_free char *text = xasprintf("[default]\nendpoint_url = %s\n", wrong[i]);
        write_aws(w, "config", text);
        assert_null(store_new(&(struct store_conf){.mount = &w->m->conf}, &e));
        assert_int_equal(e.cls, ERR_INVALID);
        assert_non_null(strstr(e.msg, wrong[i]));
    }
    write_aws(w, "config", "[default]\nendpoint_url =\nregion = eu-central-1\n");
    w->s = open_store(w->m, NULL, NS_PER_S);
}

static void expect_setting(
    const char *text, bool config, const char *profile, const char *key, const char *value)
{
    const struct aws_file f = {text, strlen(text), config};
    cleanup_free char *found = aws_profile_get(&f, profile, key);
    if (value)
        assert_string_equal(found ? found : "(none)", value);
    else
        assert_null(found);
}

static void settings_of_a_profile(void **state)
{
    (void)state;
    const char *text = "# x = y\n[profile a]\r\nregion = eu-west-1 # there\r\ns3 =\n  max = 4\n"
                       "[default]\nregion=us-east-1\n[profile  b ]\nregion = a=b;c\nregion = last\n"
                       "[a]\nregion = wrong\nempty =\n";
    expect_setting(text, true, "a", "region", "eu-west-1");
    expect_setting(text, true, "a", "max", NULL);
    expect_setting(text, true, "default", "region", "us-east-1");
    expect_setting(text, true, "b", "region", "last");
    expect_setting(text, false, "a", "region", "wrong");
    expect_setting(text, false, "a", "empty", NULL);
    expect_setting(text, true, "c", "region", NULL);
    const struct aws_file f = {text, strlen(text), true};
    assert_true(aws_profile_exists(&f, "b"));
    assert_false(aws_profile_exists(&f, "c"));
    assert_false(aws_profile_exists(&(struct aws_file){NULL, 0, true}, "a"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        keyless(a_laptop_has_profiles),
        keyless(files_say_where),
        keyless(files_say_nonsense),
        cmocka_unit_test(settings_of_a_profile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

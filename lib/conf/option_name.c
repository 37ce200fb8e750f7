/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/conf/option_name.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"

#include <string.h>

#define NAMES_MAX 2048

static const struct {
    const char *name, *aliases[2];
    enum option_shape shape;
    unsigned of; /* enum option_source */
} option_names[] = {
    {OPTION_ENDPOINT, {"alluxio.underfs.s3.endpoint", "url"}, OPTION_URL,
        OPTION_OF_S3 | OPTION_OF_GS},
    {"region", {"alluxio.underfs.s3.endpoint.region"}, OPTION_TEXT, OPTION_OF_S3},
    {"path-style", {NULL}, OPTION_BOOL, OPTION_OF_S3},
    {"access-key-id", {"aws.accessKeyId", "access-key"}, OPTION_TEXT, OPTION_OF_S3},
    {"secret-access-key", {"aws.secretKey", "secret-key"}, OPTION_CREDENTIAL, OPTION_OF_S3},
    {"session-token", {NULL}, OPTION_CREDENTIAL, OPTION_OF_S3},
    {"role-arn", {NULL}, OPTION_TEXT, OPTION_OF_S3},
    {"external-id", {NULL}, OPTION_TEXT, OPTION_OF_S3},
    {"role-session-name", {NULL}, OPTION_TEXT, OPTION_OF_S3},
    {"sts-endpoint", {NULL}, OPTION_URL, OPTION_OF_S3 | OPTION_OF_GS},
    {"anonymous", {NULL}, OPTION_BOOL, OPTION_OF_S3 | OPTION_OF_GS},
    {"instance-metadata", {NULL}, OPTION_BOOL, OPTION_OF_S3 | OPTION_OF_GS},
    {"profile", {NULL}, OPTION_TEXT, OPTION_OF_S3},
    {"server-side-encryption", {NULL}, OPTION_TEXT, OPTION_OF_S3},
    {"kms-key-id", {NULL}, OPTION_TEXT, OPTION_OF_S3 | OPTION_OF_GS},
    {"sse-customer-key", {NULL}, OPTION_CREDENTIAL, OPTION_OF_S3},
    {"storage-class", {NULL}, OPTION_TEXT, OPTION_OF_S3 | OPTION_OF_GS},
    {"requester-pays", {NULL}, OPTION_BOOL, OPTION_OF_S3},
    {"acl", {NULL}, OPTION_TEXT, OPTION_OF_S3},
    {"expected-bucket-owner", {NULL}, OPTION_TEXT, OPTION_OF_S3},
    {"checksum", {NULL}, OPTION_TEXT, OPTION_OF_S3 | OPTION_OF_GS},
    {"s3fs", {NULL}, OPTION_BOOL, OPTION_OF_S3 | OPTION_OF_GS},
    {"dualstack", {NULL}, OPTION_BOOL, OPTION_OF_S3},
    {"fips", {NULL}, OPTION_BOOL, OPTION_OF_S3},
    {"accelerate", {NULL}, OPTION_BOOL, OPTION_OF_S3},
    {"ca-cert", {NULL}, OPTION_CERTS, OPTION_OF_S3 | OPTION_OF_GS | OPTION_OF_WEB | OPTION_OF_HDFS},
    {"tls-verify", {NULL}, OPTION_BOOL,
        OPTION_OF_S3 | OPTION_OF_GS | OPTION_OF_WEB | OPTION_OF_HDFS},
    {"credentials", {"key.json", "credentials.json"}, OPTION_CREDENTIAL, OPTION_OF_GS},
    {"workload-provider", {NULL}, OPTION_TEXT, OPTION_OF_GS},
    {"user-project", {NULL}, OPTION_TEXT, OPTION_OF_GS},
    {"can-hang", {NULL}, OPTION_BOOL, OPTION_OF_FILES},
    {"manifest", {NULL}, OPTION_TEXT, OPTION_OF_WEB},
    {"header", {NULL}, OPTION_CREDENTIAL, OPTION_OF_WEB},
    {"user", {"username"}, OPTION_TEXT, OPTION_OF_WEB | OPTION_OF_HDFS},
    {"password", {NULL}, OPTION_CREDENTIAL, OPTION_OF_WEB},
    {"bearer-token", {"token"}, OPTION_CREDENTIAL, OPTION_OF_WEB},
    {"name-nodes", {"nameNodes"}, OPTION_TEXT, OPTION_OF_HDFS},
    {"http-port", {NULL}, OPTION_TEXT, OPTION_OF_HDFS},
    {"tls", {NULL}, OPTION_BOOL, OPTION_OF_HDFS},
    {"delegation-token", {NULL}, OPTION_CREDENTIAL, OPTION_OF_HDFS},
    {"kerberos", {NULL}, OPTION_BOOL, OPTION_OF_HDFS},
    {"keytab", {NULL}, OPTION_CREDENTIAL, OPTION_OF_HDFS},
    {"principal", {NULL}, OPTION_TEXT, OPTION_OF_HDFS},
    {"krb5-conf", {NULL}, OPTION_CREDENTIAL, OPTION_OF_HDFS},
    {"replication", {NULL}, OPTION_TEXT, OPTION_OF_HDFS},
};

const char *option_proper_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_LEN(option_names); i++)
        for (size_t k = 0; k < ARRAY_LEN(option_names[i].aliases) && option_names[i].aliases[k];
             k++)
            if (strcmp(name, option_names[i].aliases[k]) == 0)
                return option_names[i].name;
    return name;
}

enum option_shape option_shape_of(const char *name)
{
    const char *proper = option_proper_name(name);
    for (size_t i = 0; i < ARRAY_LEN(option_names); i++)
        if (strcmp(option_names[i].name, proper) == 0)
            return option_names[i].shape;
    return OPTION_UNKNOWN;
}

bool option_is_credential(const char *name) { return option_shape_of(name) == OPTION_CREDENTIAL; }

bool option_is_of(const char *name, enum option_source source)
{
    const char *proper = option_proper_name(name);
    for (size_t i = 0; i < ARRAY_LEN(option_names); i++)
        if (strcmp(option_names[i].name, proper) == 0)
            return (option_names[i].of & source) != 0;
    return false;
}

char *option_names_of(enum option_source source)
{
    struct buf b = BUF_INIT(NAMES_MAX);
    const char *last = NULL;
    for (size_t i = 0; i < ARRAY_LEN(option_names); i++) {
        if (!(option_names[i].of & source) || option_names[i].shape == OPTION_CREDENTIAL)
            continue;
        if (last)
            buf_addf(&b, "%s%s", b.len ? ", " : "", last);
        last = option_names[i].name;
    }
    if (last)
        buf_addf(&b, "%s%s", b.len ? " and " : "", last);
    char *names = xstrdup(buf_str(&b));
    buf_free(&b);
    return names;
}

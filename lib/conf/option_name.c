/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/conf/option_name.h"

#include "lib/base/mem.h"

#include <string.h>

static const struct {
    const char *name, *aliases[2];
    enum option_shape shape;
} option_names[] = {
    {OPTION_ENDPOINT, {"alluxio.underfs.s3.endpoint", "url"}, OPTION_URL},
    {"region", {"alluxio.underfs.s3.endpoint.region"}, OPTION_TEXT},
    {"path-style", {NULL}, OPTION_BOOL},
    {"access-key-id", {"aws.accessKeyId", "access-key"}, OPTION_TEXT},
    {"secret-access-key", {"aws.secretKey", "secret-key"}, OPTION_CREDENTIAL},
    {"session-token", {NULL}, OPTION_CREDENTIAL},
    {"role-arn", {NULL}, OPTION_TEXT},
    {"external-id", {NULL}, OPTION_TEXT},
    {"role-session-name", {NULL}, OPTION_TEXT},
    {"sts-endpoint", {NULL}, OPTION_URL},
    {"anonymous", {NULL}, OPTION_BOOL},
    {"instance-metadata", {NULL}, OPTION_BOOL},
    {"profile", {NULL}, OPTION_TEXT},
    {"server-side-encryption", {NULL}, OPTION_TEXT},
    {"kms-key-id", {NULL}, OPTION_TEXT},
    {"sse-customer-key", {NULL}, OPTION_CREDENTIAL},
    {"storage-class", {NULL}, OPTION_TEXT},
    {"requester-pays", {NULL}, OPTION_BOOL},
    {"acl", {NULL}, OPTION_TEXT},
    {"expected-bucket-owner", {NULL}, OPTION_TEXT},
    {"checksum", {NULL}, OPTION_TEXT},
    {"dualstack", {NULL}, OPTION_BOOL},
    {"fips", {NULL}, OPTION_BOOL},
    {"accelerate", {NULL}, OPTION_BOOL},
    {"ca-cert", {NULL}, OPTION_CERTS},
    {"tls-verify", {NULL}, OPTION_BOOL},
    {"can-hang", {NULL}, OPTION_BOOL},
    {"manifest", {NULL}, OPTION_TEXT},
    {"user", {"username"}, OPTION_TEXT},
    {"password", {NULL}, OPTION_CREDENTIAL},
    {"bearer-token", {"token"}, OPTION_CREDENTIAL},
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

/* SPDX-License-Identifier: Apache-2.0 */
/* aws_profile — the text of the files in which the AWS tools keep their settings
 * (~/.aws/credentials, ~/.aws/config). Pure. */
#ifndef MILLRACE_FUSE_STORE_AWS_PROFILE_H
#define MILLRACE_FUSE_STORE_AWS_PROFILE_H

#include <stdbool.h>
#include <stddef.h>

struct aws_file {
    const char *text; /* NULL: there is no such file */
    size_t len;
    bool config; /* sections are "[profile NAME]", but for "[default]"; else "[NAME]" */
};

/* The last value that the key has in the profile's sections; settings that are nested below another
 * one are none. Caller frees; NULL: it has none, or an empty one. */
char *aws_profile_get(const struct aws_file *f, const char *profile, const char *key);
bool aws_profile_exists(const struct aws_file *f, const char *profile);

#endif

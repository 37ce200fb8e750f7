/* SPDX-License-Identifier: Apache-2.0 */
/* option_name — the options of mounts, for those who do not know the stores' tables. A test
 * compares it with them. */
#ifndef MILLRACE_LIB_CONF_OPTION_NAME_H
#define MILLRACE_LIB_CONF_OPTION_NAME_H

#include <stdbool.h>

#define OPTION_ENDPOINT "endpoint"

enum option_shape {
    OPTION_UNKNOWN,
    OPTION_TEXT,
    OPTION_BOOL,
    OPTION_URL,
    OPTION_CERTS,
    OPTION_CREDENTIAL /* that must not be seen: the key's id may */
};

/* Kinds of sources; an option may be of several. */
enum option_source {
    OPTION_OF_S3 = 1,
    OPTION_OF_FILES = 2,
    OPTION_OF_WEB = 4,
    OPTION_OF_HDFS = 8,
    OPTION_OF_GS = 16,
};

/* The name that messages use; of any other option the name itself. */
const char *option_proper_name(const char *name);
enum option_shape option_shape_of(const char *name);
bool option_is_credential(const char *name);
/* Does that kind of source have it, by its name or an alias? */
bool option_is_of(const char *name, enum option_source source);
/* "endpoint, region and tls-verify": those it has that are no credentials; caller frees */
char *option_names_of(enum option_source source);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* What WebHDFS answers, or somebody in its place: names that are taken from it are such as a file
 * can have, texts end, and a redirect leads to a host. */
#include "fuse/store/hdfs_json.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int check_entry(void *user, const char *name, const struct hdfs_status *status)
{
    size_t *n = user;
    if ((*name && (strchr(name, '/') || !store_path_ok(name)))
        || strlen(status->st.version) >= sizeof status->st.version || status->permission > 07777)
        abort();
    return ++*n == 100;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *last;
    const char *host;
    struct hdfs_status status;
    struct hdfs_fault fault;
    struct err e = ERR_INIT;
    size_t n = 0;
    bool more, value;
    int64_t ms = 0;
    memcpy(text, data, size);
    text[size] = '\0';
    if (hdfs_json_listing(text, size, check_entry, &n, &last, &more, &e) == 0 && more && !last)
        abort();
    free(last);
    if (hdfs_json_status(text, size, &status, &e) == 0 && !status.st.is_dir && !*status.st.version)
        abort();
    hdfs_json_fault(text, size, &fault);
    if (strchr(fault.message, '\n') || strlen(fault.exception) >= sizeof fault.exception)
        abort();
    hdfs_json_boolean(text, size, &value, &e);
    char *token = hdfs_json_token(text, size, &e);
    if ((token && (!*token || strpbrk(token, " \r\n")))
        || (hdfs_json_time(text, size, &ms, &e) == 0 && ms < 0))
        abort();
    free(token);
    free(hdfs_json_attribute(text, size, "user.x"));
    if (hdfs_redirect_ok(text, size % 2, &host, &n)
        && (!n || host + n > text + strlen(text) || memchr(host, '/', n) || memchr(host, '@', n)))
        abort();
    free(text);
    return 0;
}

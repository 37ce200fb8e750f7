/* SPDX-License-Identifier: Apache-2.0 */
/* web_index — what a web server lists: the links of an index page to what lies directly below it,
 * as Apache, nginx and Python's http.server write them, and lists of files (option manifest). Pure;
 * what comes from the network is not trusted. */
#ifndef MILLRACE_FUSE_STORE_WEB_INDEX_H
#define MILLRACE_FUSE_STORE_WEB_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* name: one path component, decoded, "/" at its end for a directory; borrowed. Non-zero ends it. */
typedef int (*web_name_fn)(void *user, const char *name);
struct web_index_fns {
    web_name_fn name;
    /* gets, as they are written, links to a name below that no file can have; NULL: nobody does */
    web_name_fn refused;
    void *user;
};

/* directory: URL of the page, "https://host:port/a/b/". Links elsewhere, up, further down or with a
 * query are left out; a name may come twice. */
int web_index_names(
    const char *text, size_t len, const char *directory, const struct web_index_fns *fns);

/* One line of a list: "path" or "path size", or with tabs; "#" begins a comment. *line moves to the
 * next. path: caller frees; NULL: the line is empty. size: UINT64_MAX where it is not told. False:
 * no more lines. bad: the path is none. */
bool web_manifest_line(const char **line, const char *end, char **path, uint64_t *size, bool *bad);

#endif

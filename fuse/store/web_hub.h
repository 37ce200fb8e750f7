/* SPDX-License-Identifier: Apache-2.0 */
/* web_hub — repositories as the Hugging Face Hub serves them: files at
 * https://host/[datasets/|spaces/]NAME/resolve/REVISION/…, what there is by its tree API, in pages.
 * Pure; what comes from the network is not trusted. */
#ifndef MILLRACE_FUSE_STORE_WEB_HUB_H
#define MILLRACE_FUSE_STORE_WEB_HUB_H

#include "fuse/store/store.h"
#include "lib/http/http.h"

struct web_hub {
    char *tree;   /* "https://host/api/datasets/owner/name/tree/main" */
    char *prefix; /* of what is mounted, in the repository, as it is written: "" or "a%20b/" */
};
/* base: a URL with "/" at its end. NULL: of no repository. */
struct web_hub *web_hub_new(const char *base);
void web_hub_free(struct web_hub *h);
/* Of the first page of a directory ("", or a path below what is mounted); caller frees. */
char *web_hub_url(const struct web_hub *h, const char *dir, bool tree);
/* A page: each entry below dir, by its path relative to dir. INVALID: it is no page. */
int web_hub_page(const char *text, size_t len, const struct web_hub *h, const char *dir,
    store_list_fn fn, void *user, struct err *e);
/* The URL that a Link header calls the next page; NULL: it is the last one. Caller frees. */
char *web_next_page(const char *link);
/* The version that a page tells for what has this ETag; "": of none. */
void web_hub_version(const char *etag, char out[STORE_VERSION_MAX]);

/* What the server of a repository says of a file, which may lie at another one. */
struct web_linked {
    char version[STORE_VERSION_MAX]; /* "": nothing */
    bool sized;
    uint64_t size;
};
/* of an answer of its own server: what it says of a file, if it does */
void web_hub_note(const struct http_resp *resp, struct web_linked *l);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* web_words — what is to be done about a refusal of a web server, in words. Pure. */
#ifndef MILLRACE_FUSE_STORE_WEB_WORDS_H
#define MILLRACE_FUSE_STORE_WEB_WORDS_H

#include <stdbool.h>

struct web_refusal {
    int status; /* 401, 403, 404 or 410 */
    const char
        *code;    /* its header X-Error-Code: the Hugging Face Hub and who speaks like it; or "" */
    bool listing; /* it was a directory that was asked for */
    bool repo;    /* it is, or may be, a repository */
    bool known;   /* credentials were sent */
};
/* NULL: nothing better than "the server has no such file" */
const char *web_refusal_words(const struct web_refusal *r);
/* How a URL of a bucket of Amazon's S3 or Google Cloud Storage is written for these stores,
 * s3://bucket/prefix or gs://bucket/prefix; NULL: it is of none. *page: it is one of a console for
 * people, which no program reads. Caller frees. */
char *web_bucket_of(const char *url, bool *page);

#endif

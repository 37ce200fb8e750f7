/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/web_words.h"

#include <stddef.h>
#include <string.h>

/* A hub says 401 of what does not exist, too, so that nobody learns of private repositories. */
static const char *repo_words(const struct web_refusal *r)
{
    if (strcmp(r->code, "GatedRepo") == 0)
        return r->known
            ? "the repository is gated, and the account of the token has no access: ask for it on the repository's page, as that account, or give the token of one that has it"
            : "the repository is gated: ask for access on its page, then give a token of that account (option bearer-token) from a Secret";
    if (strcmp(r->code, "RepoNotFound") == 0)
        return r->known
            ? "there is no such repository, or the account of the token may not see it: check the URL and whose token it is"
            : "there is no such repository, or it is private: check the URL, or give a token (option bearer-token) from a Secret";
    if (strcmp(r->code, "RevisionNotFound") == 0)
        return "the repository has no such revision: check what follows /resolve/ in the URL";
    return NULL;
}

const char *web_refusal_words(const struct web_refusal *r)
{
    const char *words = r->repo ? repo_words(r) : NULL;
    if (words || (r->status != 401 && r->status != 403))
        return words;
    if (r->repo && r->known && r->status == 401)
        return "the server does not take the token: is it a token of this very server, complete, and not revoked? (option bearer-token)";
    if (r->repo && r->known)
        return "the token may not read this repository: check what it is for, and whether its account has access";
    if (r->repo)
        return "no credentials were given: a private or gated repository needs a token (option bearer-token) from a Secret";
    if (r->listing && r->status == 403)
        return "the server does not list this directory: turn its index page on there, give a list (option manifest), or check what the credentials may read";
    return r->known
        ? "check the user and password, or the token, and what they may read"
        : "no credentials were given: set options user and password, or bearer-token, from a Secret";
}

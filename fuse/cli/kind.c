/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds that a person may write before a name, in all the spellings that kubectl takes. */
#include "fuse/cli/kind.h"

#include "lib/base/mem.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

static const struct {
    const char *word;
    enum cli_kind kind;
} kind_words[] = {
    {"pod", CLI_KIND_POD},
    {"po", CLI_KIND_POD},
    {"dataset", CLI_KIND_DATASET},
    {"mds", CLI_KIND_DATASET},
    {"dataload", CLI_KIND_DATALOAD},
    {"mdl", CLI_KIND_DATALOAD},
    {"tfjob", CLI_KIND_JOB},
    {"job", CLI_KIND_JOB},
    {"pytorchjob", CLI_KIND_JOB},
    {"mpijob", CLI_KIND_JOB},
    {"jobset", CLI_KIND_JOB},
    {"trainjob", CLI_KIND_JOB},
    {"raycluster", CLI_KIND_JOB},
    {"deployment", CLI_KIND_JOB},
    {"deploy", CLI_KIND_JOB},
    {"replicaset", CLI_KIND_JOB},
    {"rs", CLI_KIND_JOB},
    {"statefulset", CLI_KIND_JOB},
    {"sts", CLI_KIND_JOB},
    {"daemonset", CLI_KIND_JOB},
    {"ds", CLI_KIND_JOB},
};

static bool is_word(const char *said, size_t n, const char *word)
{
    size_t len = strlen(word);
    return strncasecmp(said, word, len) == 0
        && (n == len || (n == len + 1 && (said[len] == 's' || said[len] == 'S')));
}

int cli_kind_split(const char *what, enum cli_kind *kind, const char **name, struct err *e)
{
    const char *slash = strchr(what, '/');
    size_t n = slash ? MIN(strcspn(what, "."), (size_t)(slash - what)) : 0;
    *kind = CLI_KIND_ANY;
    *name = slash ? slash + 1 : what;
    if (!slash)
        return 0;
    for (size_t i = 0; i < ARRAY_LEN(kind_words); i++)
        if (is_word(what, n, kind_words[i].word)) {
            *kind = kind_words[i].kind;
            return 0;
        }
    return err_set(e, ERR_INVALID,
        "%.*s is no kind that is known here: write pod, job, tfjob, dataset or dataload",
        (int)(slash - what), what);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* Under which name a person types us: kubectl runs its plugin kubectl-millrace as `kubectl
 * millrace`. */
#include "fuse/cli/cli.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"

#include <string.h>

#define WORDS_MAX (64u << 10)

static bool is_plugin; /* of kubectl */

void cli_called(const char *argv0)
{
    const char *slash = strrchr(argv0, '/'), *name = slash ? slash + 1 : argv0;
    is_plugin = strcmp(name, "kubectl-millrace") == 0;
}

const char *cli_name(void) { return is_plugin ? "kubectl millrace" : "millrace"; }

/* Is it "millrace VERB", as one is to type it? quoted: by `. */
static bool is_command(const char *at, bool quoted)
{
    const char *word = at + strlen("millrace ");
    size_t n = strcspn(word, " `),.;:\n");
    bool known = quoted || (n == 4 && strncmp(word, "VERB", n) == 0);
    for (const struct verb *v = verbs; v->name && !known; v++)
        known = strlen(v->name) == n && strncmp(word, v->name, n) == 0;
    return known;
}

char *cli_words(const char *text)
{
    static const char plugin[] = "kubectl ";
    cleanup_buf struct buf b = BUF_INIT(WORDS_MAX);
    if (!is_plugin)
        return xstrdup(text);
    for (const char *at; (at = strstr(text, "millrace ")); text = at + 1) {
        size_t n = (size_t)(at - text);
        bool begins = n == 0 || strchr(" `(", at[-1]), quoted = n && at[-1] == '`',
             said = n >= strlen(plugin)
            && strncmp(at - strlen(plugin), plugin, strlen(plugin)) == 0;
        buf_addf(
            &b, "%.*s%sm", (int)n, text, begins && !said && is_command(at, quoted) ? plugin : "");
    }
    buf_adds(&b, text);
    return buf_take(&b);
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/worker/load_failed.h"

#include "lib/base/mem.h"
#include "lib/base/text.h"
#include "lib/conf/report.h"

#include <stdlib.h>
#include <string.h>

#define PATH_MOST    512
#define MESSAGE_MOST 160
#define REPORT_MOST  2600

void load_failed_add(
    struct load_failed_files *f, const char *root, const char *path, const char *message)
{
    if (f->n == LOAD_FAILED_MAX)
        return;
    cleanup_free char *whole = xasprintf("%s/%s", strcmp(root, "/") == 0 ? "" : root, path);
    f->files[f->n].path = text_legible(whole, strlen(whole), PATH_MOST);
    f->files[f->n++].message = text_legible(message, strlen(message), MESSAGE_MOST);
}

void load_failed_clear(struct load_failed_files *f)
{
    for (; f->n; f->n--) {
        free(f->files[f->n - 1].path);
        free(f->files[f->n - 1].message);
    }
}

void load_failed_report(const struct load_failed_files *f, struct buf *out)
{
    size_t start = out->len;
    buf_adds(out, ",\"" REPORT_FAILURES "\":[");
    for (size_t i = 0; i < f->n; i++) {
        size_t before = out->len;
        const struct report_member members[] = {
            {REPORT_FAILURE_PATH, REPORT_TEXT, 0, f->files[i].path},
            {REPORT_FAILURE_MESSAGE, REPORT_TEXT, 0, f->files[i].message},
        };
        buf_adds(out, i ? ",{" : "{");
        report_add(out, members, ARRAY_LEN(members));
        buf_addc(out, '}');
        if (out->len - start > REPORT_MOST) {
            out->len = before;
            break;
        }
    }
    buf_addc(out, ']');
}

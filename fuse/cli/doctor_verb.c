/* SPDX-License-Identifier: Apache-2.0 */
/* The verb: of this machine and the cluster it knows, or of a store. */
#include "fuse/cli/cli.h"
#include "fuse/cli/cluster.h"
#include "fuse/cli/doctor.h"
#include "fuse/cli/shown.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <limits.h>
#include <string.h>

#define REPORT_MAX (1u << 20)

static int doctor_of_one(const char *what)
{
    const char *name = cli_name();
    return cli_misuse(
        "doctor looks at this machine and the whole installation, or at the URL of a store; '%s' is "
        "none: `%s doctor -n %s` for what you may do in that namespace, `%s status %s` of a "
        "Dataset, `%s why %s` of a pod or job",
        what, name, what, name, what, name, what);
}

/* {"checks": [{"verdict": "ok", "message": "…"}, …], "failed": 0} */
static void print_doctor_json(const struct doctor_lines *r)
{
    json_t *checks = json_array();
    for (const char *line = buf_str(r->out), *end; (end = strchr(line, '\n')); line = end + 1) {
        size_t word = strcspn(line, " ");
        cleanup_free char *text = xstrndup(line + 8, (size_t)(end - line) - 8);
        cleanup_free char *verdict = xstrndup(line, word);
        json_array_append_new(checks,
            json_pack("{s:s, s:o}", "verdict", strcmp(verdict, "FAILED") == 0 ? "failed" : verdict,
                "message", shown_text(text)));
    }
    shown_object(json_pack("{s:o, s:I}", "checks", checks, "failed", (json_int_t)r->failed));
}

int verb_doctor(const struct verb *v, int argc, char **argv)
{
    struct cluster_flags flags = {0};
    bool json = false, write = false;
    const struct opt table[] = {
        {"write", OPT_BOOL, &write, NULL,
            "of a URL: try to write, too: an empty object that is removed at once"},
        CLUSTER_FLAGS(flags),
        SHOWN_FLAG(json),
    };
    cleanup_args struct args a;
    struct verb named = *v;
    named.max_pos = INT_MAX; /* it is told what to type instead */
    int rc = args_parse(&a, &named, table, ARRAY_LEN(table), argc, argv);
    if (rc >= 0)
        return rc;
    if (a.npos && (a.npos > 1 || !is_url(a.pos[0])))
        return doctor_of_one(a.pos[a.npos - 1]);
    bool cluster = flags.ns || flags.kubeconfig || flags.context || flags.server
        || strcmp(cli_name(), "millrace") != 0;
    if (a.npos ? cluster : write)
        return cli_misuse("doctor: --write is for a URL, and flags of a cluster are for none");
    struct err e = ERR_INIT;
    cleanup_buf struct buf out = BUF_INIT(REPORT_MAX);
    struct doctor_lines r = {.out = &out, .at_once = !json};
    log_init("millrace", LOG_ERROR); /* the lines say it */
    if (a.npos)
        doctor_store(&a, a.pos[0], write, &r);
    else if (!cluster)
        doctor_machine(&r);
    if (!a.npos && doctor_cluster(&flags, cluster, &r, &e)) {
        if (cluster && !json)
            return cli_failed(&e);
        doctor_line(&r, DOCTOR_FAILED, "the API server: %s", e.msg);
    }
    if (json)
        print_doctor_json(&r);
    return r.failed ? CLI_FAILED : CLI_DONE;
}

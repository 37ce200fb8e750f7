/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/dataset/poll_ask.h"

#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/json/obj.h"
#include "operator/dataset/report_news.h"

#include <string.h>

#define REPORT_MAX ((size_t)64 << 10)

/* *signs: the pod has signed an answer before, or has now. Those of earlier releases sign none. */
static int poll_check_answer(const struct sign_key *key, const char *request,
    struct http_resp *resp, bool *signs, struct err *e)
{
    char signature[SIGN_HEX + 1];
    const struct sign_answer answer = {.request = request,
        .status = resp->status,
        .body = buf_str(&resp->body),
        .body_len = resp->body.len};
    if (!http_header(resp, SIGN_ANSWER_HEADER, signature, sizeof signature))
        return *signs ? err_set(e, ERR_DENIED,
                   "the answer is not signed with the key of the Dataset, as those before were: "
                   "do the clocks of the nodes agree (NTP), and is that still the pod's address?")
                      : 0;
    if (!sign_check_answer(key, &answer, signature))
        return err_set(e, ERR_DENIED, "the answer is signed with another key than the Dataset's");
    *signs = true;
    return 0;
}

json_t *poll_ask(const struct poll_question *q, bool *signs)
{
    static const struct sign_ask ask = {"GET", "/status", NULL, NULL};
    char request[SIGN_REQUEST_MAX] = "";
    struct sign_key key = {0};
    if (q->master) {
        sign_key_derive(q->master, q->dataset_uid, &key);
        sign_request(&key, &ask, clock_real_ns() / NS_PER_S, request);
    }
    cleanup_free char *header = xasprintf(SIGN_REQUEST_HEADER ": %s", request);
    const char *headers[] = {*request ? header : NULL, NULL};
    cleanup_free char *url = strchr(q->ip, ':')
        ? xasprintf("http://[%s]:%d/status", q->ip, PORT_HTTP)
        : xasprintf("http://%s:%d/status", q->ip, PORT_HTTP);
    struct http_req req = {.method = "GET",
        .url = url,
        .headers = headers,
        .max_body = REPORT_MAX,
        .timeout_ns = POLL_TIMEOUT_NS,
        .cancel = q->stop};
    cleanup_resp struct http_resp resp;
    struct err e = ERR_INIT;
    json_t *j = NULL;
    if (http_do(q->http, &req, &resp, &e) == 0 && resp.status / 100 != 2)
        err_set(&e, ERR_RETRY, "%s answered %d", url, resp.status);
    else if (!*e.msg && (!q->master || poll_check_answer(&key, request, &resp, signs, &e) == 0))
        j = json_parse(buf_str(&resp.body), resp.body.len, &e);
    sign_key_wipe(&key);
    if (j && json_is_object(j))
        return j;
    json_decref(j);
    if (!*e.msg)
        err_set(&e, ERR_INVALID, "%s answered no JSON object", url);
    json_t *failed = json_object(), *why = json_string(e.msg);
    json_object_set_new(failed, REPORT_UNREACHABLE, why ? why : json_string("no answer"));
    return failed;
}

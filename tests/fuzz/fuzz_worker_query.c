/* SPDX-License-Identifier: Apache-2.0 */
/* Query strings, paths and Range headers as they come over the network: "<query>\n<range>". */
#include "fuse/worker/request.h"

#include "fuse/store/store.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    memcpy(text, data, size);
    text[size] = '\0';
    char *range = strchr(text, '\n');
    if (range)
        *range++ = '\0';
    struct serve_req req = {.method = "GET", .path = "/v1/data", .query = text, .headers = ""};
    struct request q;
    struct err e = ERR_INIT;
    uint64_t off, len, object = 1000;
    if (request_parse(&req, 3, &q, &e) == 0) {
        if (q.key.mount >= 3 || !*q.key.path || !store_path_ok(q.key.path))
            abort();
        object = q.key.size;
        request_free(&q);
    } else if (e.cls != ERR_INVALID || !e.msg[0]) {
        abort();
    }
    enum request_pin pin;
    struct err why = ERR_INIT;
    if (request_pin(&req, &pin, &why) && (why.cls != ERR_INVALID || !why.msg[0]))
        abort();
    if (range_parse(range, object, &off, &len) == RANGE_OK && (off > object || len > object - off))
        abort();
    free(text);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* A watch's bytes, in pieces as the network may cut them: the same events come out however they are
 * cut. */
#include "lib/base/mem.h"
#include "lib/kube/wire.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct tally {
    unsigned lines, events;
    uint64_t rv;
};

static void check(int holds)
{
    if (!holds)
        abort();
}

static int on_line(void *user, const char *text, size_t len, bool cut)
{
    struct tally *t = user;
    enum kube_event_type type;
    json_t *object = NULL;
    struct err e = ERR_INIT;
    check(len > 0 && !memchr(text, '\n', len));
    t->lines++;
    if (wire_event(text, len, cut, &type, &object, &e)) {
        check(!object && e.cls != ERR_NONE && *e.msg);
        return 0;
    }
    check(json_is_object(object) && type <= KUBE_SKIPPED);
    t->events++;
    t->rv += kube_rv(object);
    cleanup_free char *key = kube_key_of(object);
    check(key != NULL);
    kube_controller_of(object);
    json_decref(object);
    return 0;
}

static struct tally feed(const uint8_t *data, size_t size, size_t step)
{
    struct tally t = {0};
    struct wire_lines l = WIRE_LINES_INIT;
    for (size_t at = 0; at < size; at += step) {
        size_t n = MIN(step, size - at);
        char *piece = xmalloc(n); /* its own block, so that a read past its end is seen */
        memcpy(piece, data + at, n);
        check(wire_lines_feed(&l, piece, n, on_line, &t) == 0);
        free(piece);
    }
    wire_lines_free(&l);
    return t;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    struct tally whole = feed(data + 1, size - 1, size),
                 cut = feed(data + 1, size - 1, (size_t)data[0] % 37 + 1);
    check(whole.lines == cut.lines && whole.events == cut.events && whole.rv == cut.rv);
    return 0;
}

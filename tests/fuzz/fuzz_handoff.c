/* SPDX-License-Identifier: Apache-2.0 */
/* What a node plugin says to a client that asks it all the time who a process is, and for backing
 * files: no answer hurts the client, it is connected again afterwards, and what it was told it can
 * use. Input: for each message a byte of type (4 bits) and whether a descriptor comes along (16),
 * its length in two bytes, and so many bytes. */
#include "fuse/session/handoff.h"
#include "lib/base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define CHECK(cond)                                            \
    do                                                         \
        if (!(cond)) {                                         \
            fprintf(stderr, "line %d: %s\n", __LINE__, #cond); \
            abort();                                           \
        }                                                      \
    while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/tmp/millrace-fuzz.XXXXXX", path[64];
static int listener, file;
static struct handoff_client *client;

static void *ask(void *arg)
{
    (void)arg;
    for (;;) {
        struct err e = ERR_INIT;
        char name[CALLER_MAX];
        int32_t id = 0;
        handoff_client_caller(client, 7, name);
        CHECK(strnlen(name, sizeof name) < sizeof name);
        CHECK(handoff_client_backing_open(client, file, &id, &e) ? *e.msg : id > 0);
    }
    return NULL;
}

static void clean_up(void)
{
    unlink(path);
    rmdir(dir);
}

static void begin(void)
{
    struct err e = ERR_INIT;
    pthread_t thread;
    CHECK(mkdtemp(dir));
    atexit(clean_up);
    log_init("fuzz", LOG_ERROR);
    snprintf(path, sizeof path, "%s/sock", dir);
    CHECK((file = memfd_create("backing", MFD_CLOEXEC)) >= 0);
    CHECK((listener = handoff_listen(path, &e)) >= 0);
    CHECK(client = handoff_client_start(path, -1, NULL, &e));
    CHECK(pthread_create(&thread, NULL, ask, NULL) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct handoff_msg m;
    struct handoff_welcome w;
    if (!client)
        begin();
    int sock;
    while ((sock = accept(listener, NULL, NULL)) < 0 && errno == EINTR) /* the fuzzer's timer */
        continue;
    CHECK(sock >= 0);
    /* the client closes its end when a message is no message at all */
    for (bool open = true; open && size >= 3;) {
        size_t len = (data[1] | (size_t)data[2] << 8) % (HANDOFF_PAYLOAD_MAX + 1);
        struct err e = ERR_INIT;
        len = len < size - 3 ? len : size - 3;
        memcpy(m.payload, data + 3, len);
        open = handoff_send(sock, (enum handoff_type)(data[0] & 15), m.payload, len,
                   data[0] & 16 ? file : -1, &e)
            == 0;
        data += 3 + len;
        size -= 3 + len;
    }
    shutdown(sock, SHUT_WR);
    while (recv(sock, &m, sizeof m, 0) > 0)
        continue;
    close(sock);
    if (handoff_client_peek(client, &w, 0))
        CHECK(w.version == HANDOFF_VERSION && w.init_len <= HANDOFF_INIT_MAX);
    return 0;
}

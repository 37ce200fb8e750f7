/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/gpu/registration.h"

#include "csi/rpc_ask.h"
#include "lib/base/clock.h"
#include "lib/base/file.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/task.h"

#include "csi/proto/deviceplugin.pb-c.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define LOOK_NS     (100 * NS_PER_MS) /* how late a restart of kubelet is seen */
#define RETRY_NS    (500 * NS_PER_MS)
#define REGISTER_NS (10 * NS_PER_S)
#define GRACE_NS    (2 * NS_PER_S)
#define HARD_NS     (10 * NS_PER_S)
#define WORKERS     16 /* each of kubelet's streams has one for as long as it lives */

struct registration {
    const struct registration_conf *conf;
    char *kubelet, *ours; /* sockets */
    struct stat kubelet_file, our_file;
    struct rpc_server *rpc;
    struct task server;
};

char *registration_endpoint(const char *resource)
{
    char *name = xasprintf("%s.sock", resource);
    for (char *p = name; *p; p++)
        if (*p == '/')
            *p = '-';
    return name;
}

/* The same file, not one that took the place of another and its inode. */
static bool is_same(const char *path, const struct stat *was)
{
    struct stat now;
    return lstat(path, &now) == 0 && now.st_dev == was->st_dev && now.st_ino == was->st_ino
        && now.st_ctim.tv_sec == was->st_ctim.tv_sec && now.st_ctim.tv_nsec == was->st_ctim.tv_nsec;
}

static bool goes_on(const struct registration *s)
{
    return !atomic_load(s->conf->stop) && is_same(s->kubelet, &s->kubelet_file)
        && is_same(s->ours, &s->our_file);
}

static void registration_serve(void *arg) { rpc_run(((struct registration *)arg)->rpc); }

static int registration_open(struct registration *s, struct err *e)
{
    const char *sockets[] = {s->ours};
    struct rpc_conf conf = {.sockets = sockets,
        .nsockets = 1,
        .methods = service_methods,
        .nmethods = service_nmethods,
        .workers = WORKERS,
        .user = s->conf->service};
    s->rpc = rpc_new(&conf, e);
    if (!s->rpc)
        return -1;
    lstat(s->ours, &s->our_file);
    return task_start(&s->server, "device plugin", registration_serve, s, e);
}

static void registration_close(struct registration *s)
{
    if (s->server.started) {
        rpc_stop(s->rpc, GRACE_NS, HARD_NS);
        task_stop(&s->server);
    }
    rpc_free(s->rpc);
    s->rpc = NULL;
}

static int registration_ask(const struct registration *s, struct err *e)
{
    cleanup_free char *endpoint = registration_endpoint(s->conf->resource);
    Deviceplugin__DevicePluginOptions options = DEVICEPLUGIN__DEVICE_PLUGIN_OPTIONS__INIT;
    Deviceplugin__RegisterRequest req = DEVICEPLUGIN__REGISTER_REQUEST__INIT;
    options.get_preferred_allocation_available = true;
    req.version = (char *)"v1beta1";
    req.endpoint = endpoint;
    req.resource_name = (char *)s->conf->resource;
    req.options = &options;
    ProtobufCMessage *answer = NULL;
    if (rpc_ask(s->kubelet, "/v1beta1.Registration/Register", &req.base,
            &deviceplugin__empty__descriptor, REGISTER_NS, &answer, e))
        return -1;
    protobuf_c_message_free_unpacked(answer, NULL);
    return 0;
}

static void registration_repeat(const struct registration *s)
{
    bool told = false;
    while (goes_on(s)) {
        struct err e = ERR_INIT;
        if (registration_ask(s, &e) == 0) {
            log_kv(LOG_INFO, "registered with kubelet", "resource", s->conf->resource, NULL);
            return;
        }
        if (!told || e.cls != ERR_RETRY) /* one that starts does not answer yet */
            log_kv(
                LOG_WARN, "kubelet does not take the plugin: trying again", "error", e.msg, NULL);
        told = true;
        clock_sleep_ns(e.cls == ERR_RETRY ? RETRY_NS : 10 * RETRY_NS);
    }
}

int registration_run(const struct registration_conf *conf, struct err *e)
{
    cleanup_free char *endpoint = registration_endpoint(conf->resource),
                      *kubelet = path_join(conf->plugins_dir, "kubelet.sock"),
                      *ours = path_join(conf->plugins_dir, endpoint);
    struct registration s = {.conf = conf, .kubelet = kubelet, .ours = ours};
    bool told = false;
    while (!atomic_load(conf->stop)) {
        if (lstat(kubelet, &s.kubelet_file)) {
            if (!told)
                log_kv(LOG_INFO, "waiting for kubelet", "socket", kubelet, NULL);
            told = true;
            clock_sleep_ns(LOOK_NS);
            continue;
        }
        int rc = registration_open(&s, e);
        if (rc == 0)
            registration_repeat(&s);
        while (rc == 0 && goes_on(&s))
            clock_sleep_ns(LOOK_NS);
        registration_close(&s);
        if (rc)
            return -1;
        if (!atomic_load(conf->stop))
            log_kv(LOG_INFO, "kubelet was started again: registering again", NULL);
    }
    return 0;
}

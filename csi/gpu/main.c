/* SPDX-License-Identifier: Apache-2.0 */
/* millrace-gpu — a device plugin of kubelet that offers GPUs in hundredths. It changes nothing on
 * the node but its socket, and asks the API server for nothing. */
#include "csi/gpu/registration.h"
#include "csi/rpc_ask.h"
#include "lib/base/clock.h"
#include "lib/base/log.h"
#include "lib/base/mem.h"
#include "lib/base/names.h"
#include "lib/base/program.h"
#include "lib/base/task.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SCAN_NS NS_PER_S
#define ASK_NS  (2 * NS_PER_S)

struct gpu_options {
    const char *plugins_dir, *resource, *dev_dir, *node_dev_dir, *driver_dir, *only, *nvml,
        *pod_resources, *mps_pipe, *mps_shm;
    int64_t memory;
};

struct gpu_plugin {
    struct gpu_options o;
    struct inventory inventory; /* of the scanner, once it runs */
    struct inventory_conf look;
    struct service *service;
    struct task stopper, scanner;
    sigset_t stop;
    atomic_bool ending;
    char failed[512], unasked[512]; /* of the scanner: what was last said */
};

static const struct program gpu_program = {"millrace-gpu", "gpu", "millrace-gpu [flags]",
    "Device plugin that offers GPUs in hundredths, as " NAME_GPU_PERCENT ".", false};

static int gpu_flags(int argc, char **argv, struct gpu_options *o)
{
    const struct opt table[] = {
        {"plugins-dir", OPT_STRING, &o->plugins_dir, "DIR",
            "kubelet's directory of device plugins"},
        {"resource", OPT_STRING, &o->resource, "NAME", "what pods ask for"},
        {"dev-dir", OPT_STRING, &o->dev_dir, "DIR", "the node's devices"},
        {"node-dev-dir", OPT_STRING, &o->node_dev_dir, "DIR",
            "the same directory as the node calls it; default: <dev-dir>"},
        {"driver-dir", OPT_STRING, &o->driver_dir, "DIR", "what the driver says of its GPUs"},
        {"gpus", OPT_STRING, &o->only, "LIST",
            "minor numbers or UUIDs of the GPUs to offer; default: all"},
        {"memory", OPT_BYTES, &o->memory, "SIZE", "of a GPU, where NVML does not tell"},
        {"nvml", OPT_STRING, &o->nvml, "PATH",
            "libnvidia-ml.so.1: GPUs that it finds lost are not offered; default: not asked"},
        {"pod-resources", OPT_STRING, &o->pod_resources, "PATH",
            "kubelet's socket that tells who holds GPUs: those of others are not offered; default: not asked"},
        {"mps-pipe", OPT_STRING, &o->mps_pipe, "DIR",
            "directory of pipes of an MPS daemon on the node: shares are limits then; needs --memory or --nvml"},
        {"mps-shm", OPT_STRING, &o->mps_shm, "DIR", "/dev/shm of that daemon"},
    };
    int rc = program_flags(&gpu_program, table, ARRAY_LEN(table), argc, argv, NULL);
    if (rc < 0 && o->mps_pipe[0] && !o->nvml[0] && o->memory <= 0)
        return program_misuse(&gpu_program,
            "--mps-pipe: a share's memory is known only with --memory SIZE (of a GPU) or --nvml PATH");
    return rc;
}

static void stop_plugin(void *arg)
{
    struct gpu_plugin *p = arg;
    int sig;
    sigwait(&p->stop, &sig);
    log_kv(LOG_INFO, "ending", "signal", strsignal(sig), NULL);
    atomic_store(&p->ending, true);
}

/* Says a lasting problem once. */
static void say_once(char said[512], const char *what, const struct err *e)
{
    if (strcmp(said, e->msg) == 0)
        return;
    snprintf(said, 512, "%s", e->msg);
    if (e->msg[0])
        log_kv(LOG_WARN, what, "error", e->msg, NULL);
}

static void ask_tenants(struct gpu_plugin *p)
{
    struct err e = ERR_INIT;
    Podresources__ListRequest req = PODRESOURCES__LIST_REQUEST__INIT;
    ProtobufCMessage *answer = NULL;
    if (!p->o.pod_resources[0])
        return;
    if (rpc_ask(p->o.pod_resources, "/v1.PodResourcesLister/List", &req.base,
            &podresources__list_response__descriptor, ASK_NS, &answer, &e)
        == 0) {
        inventory_tenants(&p->inventory, (const void *)answer, p->o.resource);
        protobuf_c_message_free_unpacked(answer, NULL);
    }
    say_once(p->unasked, "who holds GPUs is not known: what was known stays", &e);
}

static void scan(struct gpu_plugin *p)
{
    struct err e = ERR_INIT;
    inventory_scan(&p->inventory, &p->look, &e);
    say_once(p->failed, "GPUs cannot be looked for", &e);
    ask_tenants(p);
    service_update(p->service, &p->inventory);
}

static void scan_thread(void *arg)
{
    struct gpu_plugin *p = arg;
    while (!task_wait(&p->scanner, clock_mono_ns() + SCAN_NS))
        scan(p);
}

static int gpu_run(struct gpu_plugin *p, struct err *e)
{
    struct err missing = ERR_INIT;
    p->look = (struct inventory_conf){p->o.dev_dir, p->o.driver_dir, p->o.only, p->o.memory, NULL};
    if (p->o.nvml[0] && !(p->look.nvml = nvml_new(p->o.nvml, &missing))) {
        if (p->o.mps_pipe[0] && p->o.memory <= 0)
            return err_set(e, ERR_INVALID,
                "%s: without it --mps-pipe needs --memory SIZE (of a GPU)", missing.msg);
        log_kv(LOG_WARN, "GPUs are watched without NVML: by their device nodes alone", "error",
            missing.msg, NULL);
    }
    p->service = service_new(&(struct service_conf){p->o.dev_dir,
        p->o.node_dev_dir[0] ? p->o.node_dev_dir : p->o.dev_dir, p->o.mps_pipe, p->o.mps_shm});
    scan(p);
    if (task_start(&p->stopper, "stopper", stop_plugin, p, e)
        || task_start(&p->scanner, "scanner", scan_thread, p, e))
        return -1;
    log_kv(LOG_INFO, "ready", "resource", p->o.resource, "version", MILLRACE_VERSION, NULL);
    return registration_run(
        &(struct registration_conf){p->o.plugins_dir, p->o.resource, p->service, &p->ending}, e);
}

int main(int argc, char **argv)
{
    static struct gpu_plugin p = {.o = {.plugins_dir = "/var/lib/kubelet/device-plugins",
                                      .resource = NAME_GPU_PERCENT,
                                      .dev_dir = "/dev",
                                      .node_dev_dir = "",
                                      .driver_dir = "/proc/driver/nvidia",
                                      .only = "",
                                      .nvml = "",
                                      .pod_resources = "",
                                      .mps_pipe = "",
                                      .mps_shm = ""}};
    struct err e = ERR_INIT;
    int rc = gpu_flags(argc, argv, &p.o);
    if (rc >= 0)
        return rc;
    umask(0022);
    program_start(&p.stop);
    rc = gpu_run(&p, &e);
    if (rc)
        log_kv(LOG_ERROR, "cannot run", "error", e.msg, NULL);
    task_stop(&p.scanner);
    if (rc)
        return 1; /* the stopper waits for a signal */
    task_stop(&p.stopper);
    nvml_free(p.look.nvml);
    service_free(p.service);
    return 0;
}

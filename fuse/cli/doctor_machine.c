/* SPDX-License-Identifier: Apache-2.0 */
/* This machine: can it mount, and will it serve well? */
#include "fuse/cli/cli.h"
#include "fuse/cli/doctor.h"

#include "lib/base/file.h"
#include "lib/base/human.h"
#include "lib/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/timex.h>
#include <sys/utsname.h>
#include <unistd.h>

#define MEMORY_MIN (UINT64_C(512) << 20) /* of a client with its usual 256 MiB of cache */
#define FILES_MIN  4096
#define TEXT_MAX   4096

/* A small file of /proc or /sys; NULL: there is none. */
static char *read_text(const char *path) { return file_read(path, TEXT_MAX, NULL, NULL); }

static void check_kernel(struct doctor_lines *r)
{
    struct utsname u;
    int major = 0, minor = 0;
    if (uname(&u) || sscanf(u.release, "%d.%d", &major, &minor) != 2)
        return;
    if (major < 5 || (major == 5 && minor < 4))
        doctor_line(r, DOCTOR_FAILED, "kernel: %s is too old: 5.4 or newer is needed", u.release);
    else if (major < 6 || (major == 6 && minor < 9))
        doctor_line(r, DOCTOR_NOTE,
            "kernel: %s cannot read cached files by itself (passthrough): large files cost more of the "
            "processor; 6.9 and newer can",
            u.release);
    else if (geteuid() != 0)
        doctor_line(r, DOCTOR_NOTE,
            "kernel: %s can read cached files by itself (passthrough), for mounts that root makes",
            u.release);
    else
        doctor_line(
            r, DOCTOR_OK, "kernel: %s reads cached files by itself (passthrough)", u.release);
}

static bool on_path(const char *name)
{
    cleanup_free char *dirs = xstrdup(getenv("PATH") ? getenv("PATH") : "/usr/bin:/bin");
    char *rest = dirs;
    for (char *dir; (dir = strsep(&rest, ":"));) {
        cleanup_free char *path = path_join(*dir ? dir : ".", name);
        if (access(path, X_OK) == 0)
            return true;
    }
    return false;
}

static void check_mounting(struct doctor_lines *r)
{
    cleanup_fd int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        doctor_line(r, DOCTOR_FAILED,
            "/dev/fuse: %s: mounting needs it (modprobe fuse; in a container: --device /dev/fuse)",
            strerrordesc_np(errno));
    else
        doctor_line(r, DOCTOR_OK, "/dev/fuse: it is there");
    if (geteuid() == 0)
        doctor_line(r, DOCTOR_OK, "fusermount3: root mounts without it");
    else if (!on_path("fusermount3"))
        doctor_line(r, DOCTOR_FAILED,
            "fusermount3: it is missing, and users other than root need it to mount (Debian: apt "
            "install fuse3)");
    else
        doctor_line(r, DOCTOR_OK, "fusermount3: it is there");
}

/* A guest's processor that sleeps at once is slow to wake up for each small request. */
static void check_haltpoll(struct doctor_lines *r)
{
    cleanup_free char *ns = read_text("/sys/module/haltpoll/parameters/guest_halt_poll_ns");
    if (ns && strtoll(ns, NULL, 10) <= 0)
        doctor_line(r, DOCTOR_NOTE,
            "haltpoll: it is off, and small reads are slower in a virtual machine: echo 200000 > "
            "/sys/module/haltpoll/parameters/guest_halt_poll_ns");
    else
        doctor_line(r, DOCTOR_OK, ns ? "haltpoll: it is on" : "haltpoll: not used here");
}

static void check_clock(struct doctor_lines *r)
{
    struct timex t = {0};
    int state = adjtimex(&t);
    if (state < 0)
        doctor_line(r, DOCTOR_SKIPPED, "clock: this machine does not tell");
    else if (state == TIME_ERROR)
        doctor_line(r, DOCTOR_NOTE,
            "clock: nothing keeps it right, as far as the kernel knows; S3 refuses requests that are 15 "
            "minutes off: timedatectl set-ntp true, or chrony; `%s doctor URL` compares it with a "
            "server's",
            cli_name());
    else
        doctor_line(r, DOCTOR_OK, "clock: it is kept right");
}

static void check_dns(struct doctor_lines *r)
{
    cleanup_free char *text = read_text("/etc/resolv.conf");
    const char *line = text;
    while (line && strncmp(line, "nameserver", 10) != 0)
        line = (line = strchr(line, '\n')) ? line + 1 : NULL;
    if (line)
        doctor_line(r, DOCTOR_OK, "DNS: %.*s", (int)strcspn(line, "\n"), line);
    else
        doctor_line(r, DOCTOR_NOTE,
            "DNS: /etc/resolv.conf names no server: names of stores resolve only if /etc/hosts has "
            "them");
}

/* What this process may have still: of the machine, or of its cgroup. */
static uint64_t memory_left(void)
{
    cleanup_free char *info = read_text("/proc/meminfo"),
                      *max = read_text("/sys/fs/cgroup/memory.max"),
                      *used = read_text("/sys/fs/cgroup/memory.current");
    const char *line = info ? strstr(info, "MemAvailable:") : NULL;
    uint64_t left = line ? strtoull(line + strlen("MemAvailable:"), NULL, 10) << 10 : 0;
    if (max && used && strncmp(max, "max", 3) != 0) {
        uint64_t most = strtoull(max, NULL, 10), now = strtoull(used, NULL, 10);
        left = MIN(left, most > now ? most - now : 0);
    }
    return left;
}

static void check_memory(struct doctor_lines *r)
{
    char text[HUMAN_BYTES_LEN];
    uint64_t left = memory_left();
    if (left < MEMORY_MIN)
        doctor_line(r, DOCTOR_NOTE,
            "memory: %s are left; a mount takes up to 512.00MiB, or less with --memory-size",
            human_bytes(left, text));
    else
        doctor_line(r, DOCTOR_OK, "memory: %s are left", human_bytes(left, text));
}

static void check_limits(struct doctor_lines *r)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files))
        return;
    if (files.rlim_max < FILES_MIN)
        doctor_line(r, DOCTOR_FAILED,
            "limits: a process may open %" PRIu64
            " files, and a mount needs %d: raise the hard limit (ulimit -Hn, limits.conf, or "
            "LimitNOFILE of the unit)",
            (uint64_t)files.rlim_max, FILES_MIN);
    else
        doctor_line(
            r, DOCTOR_OK, "limits: a process may open %" PRIu64 " files", (uint64_t)files.rlim_max);
}

void doctor_machine(struct doctor_lines *r)
{
    check_kernel(r);
    check_mounting(r);
    check_haltpoll(r);
    check_clock(r);
    check_dns(r);
    check_memory(r);
    check_limits(r);
}

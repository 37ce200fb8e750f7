/* SPDX-License-Identifier: Apache-2.0 */
/* millrace — datasets on a machine without Kubernetes, and a look at stores and mounts. */
#include "fuse/cli/cli.h"

#include "lib/base/log.h"
#include "lib/base/mem.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

static int verb_version(int argc, char **argv)
{
    struct args a;
    static const struct usage u = {"millrace version", "Prints the version.", 0, 0, false};
    int rc = args_parse(&a, &u, NULL, 0, argc, argv);
    args_free(&a);
    if (rc < 0)
        puts("millrace " MILLRACE_VERSION);
    return rc < 0 ? CLI_DONE : rc;
}

static const struct verb {
    const char *name, *args, *about;
    int (*run)(int argc, char **argv);
} verbs[] = {
    {"mount", "URL DIR", "mount a store as a directory", verb_mount},
    {"umount", "DIR", "unmount it", verb_umount},
    {"stat", "DIR|URL", "how a mount is doing, or what an object is", verb_stat},
    {"hint", "DIR FILE|-", "tell a mount in which order files will be read", verb_hint},
    {"load", "PATH...", "bring files of a mount into the cache of this node", verb_load},
    {"pin", "PATH...", "the same, and keep them there", verb_pin},
    {"unpin", "PATH...", "keep them no more", verb_unpin},
    {"free", "PATH...", "drop what the cache of this node has of them", verb_free},
    {"ls", "URL", "list a store", verb_ls},
    {"cp", "SRC DST", "copy between a store and local files", verb_cp},
    {"check", "URL", "is the store there, and may we read it? If not, why", verb_check},
    {"version", "", "print the version", verb_version},
};

static void print_usage(FILE *out)
{
    fputs(
        "usage: millrace VERB [flags] [arguments]\n\nDatasets from object stores and directories, as local files.\n\nverbs:\n",
        out);
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        fprintf(out, "  %-8s %-10s %s\n", verbs[i].name, verbs[i].args, verbs[i].about);
    fputs(
        "\n`millrace VERB --help` tells a verb's flags. Exit status: 0 done, 1 failed, 2 misuse.\n",
        out);
}

int main(int argc, char **argv)
{
    log_init("millrace", LOG_WARN);
    log_plain();
    signal(SIGPIPE, SIG_DFL); /* `millrace ls … | head` ends quietly */
    if (argc < 2) {
        print_usage(stderr);
        return CLI_MISUSE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0
        || strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return CLI_DONE;
    }
    const char *name = strcmp(argv[1], "--version") == 0 ? "version" : argv[1];
    for (size_t i = 0; i < ARRAY_LEN(verbs); i++)
        if (strcmp(verbs[i].name, name) == 0)
            return verbs[i].run(argc - 1, argv + 1);
    say_misuse("there is no verb '%s'", name);
    print_usage(stderr);
    return CLI_MISUSE;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The table of verbs. */
#include "fuse/cli/cli.h"

#include <limits.h>

const struct verb verbs[] = {
    {"mount", "URL DIR", "mount a store as a directory",
        "Mounts a store as a directory, and returns once files can be read there.", 2, 2, true,
        verb_mount},
    {"umount", "DIR", "unmount it",
        "Unmounts what `millrace mount` has mounted, and waits until what was written there is saved.",
        1, 1, false, verb_umount},
    {"stat", "DIR|URL", "how a mount is doing, or what an object is",
        "Of a mount, or of a file on one: how it is doing, its cache, what was read and written, "
        "the last error.\n\nOf a URL: type, size, time and version of the object.",
        1, 1, true, verb_stat},
    {"why", "POD|JOB|DATASET|PATH", "what a pod waits for, or why its reads are slow",
        "Of a pod or a job (`NAME`, or `tfjob/NAME`, or `job NAME`) of a Kubernetes cluster: one "
        "sentence that says what it waits for or why its reads are slow, and the next command to "
        "type. It asks the API server only, as you: the role `view` of the namespace is enough, and "
        "what you may not read is skipped and said. Of `dataset/NAME` or `dataload/NAME`: what is "
        "wrong with it. Kinds may be written as kubectl takes them (`pods`, `mds`).\n\nOf a path on a mount: the same of this "
        "mount, as its attribute user.millrace.why says it.\n\nExit status: 0 nothing is wrong, 3 "
        "it waits, is slow or fails, 1 it could not be told, 2 misuse. Of a path it is 0 whatever "
        "the sentence says.",
        1, 2, false, verb_why},
    {"status", "[DATASET]", "the Datasets of a cluster: stores, caches, pods, what waits",
        "Of a Kubernetes cluster: a Dataset, or all of a namespace, with its stores, how much is "
        "cached, its workers and clients, what is wrong, and which pods wait for it. It asks the "
        "API server only, as you.",
        0, 2, false, verb_status},
    {"doctor", "", "what is wrong with Millrace in a cluster",
        "Goes through the installation in a Kubernetes cluster: kinds, operator, node plugin, "
        "nodes, Datasets, what you may do; a line each, `ok` or `FAILED` with what to do about it. "
        "What you may not read is skipped and said. It asks the API server only, as you.\n\nExit "
        "status: 0 nothing has failed, 1 something has, 2 misuse.",
        0, 0, false, verb_doctor},
    {"hint", "DIR FILE|-", "tell a mount in which order files will be read",
        "Tells the mount that DIR is on in which order a job will read: FILE has one path a line, "
        "below DIR. The files are fetched just ahead of the reader, in that order, as far as cache "
        "and memory allow.\n\nReturns at once; `millrace stat DIR` shows how far the mount is, and "
        "how many of the paths have no file.",
        2, 2, false, verb_hint},
    {"load", "PATH...", "fetch files of a mount into the cache of this node",
        "Fetches files, or all files below directories, of a mount into the cache of this node. "
        "They may be evicted when others need the room: `millrace pin` keeps them.",
        1, INT_MAX, false, verb_load},
    {"pin", "PATH...", "the same, and keep them there",
        "Fetches files, or all files below directories, of a mount into the cache of this node and "
        "keeps them there, also when the client restarts, until `millrace unpin`.\n\nPinned files "
        "may have half of the cache's disk (of its memory, if it has no disk); further ones are "
        "refused. A pin is of a file as it is now: it ends when the file is changed, renamed or "
        "removed. A file whose pinning failed half-way stays pinned as far as it came.",
        1, INT_MAX, false, verb_pin},
    {"unpin", "PATH...", "end their pins",
        "Ends the pins of files, or of all files below directories, of a mount: they may be "
        "evicted when others need the room.",
        1, INT_MAX, false, verb_unpin},
    {"free", "PATH...", "drop them from the cache of this node",
        "Drops from the cache of this node what it has of files, or of all files below "
        "directories, of a mount. Pinned files are left (`millrace unpin` first), and so are "
        "changes that are not in the store yet: nothing is lost.",
        1, INT_MAX, false, verb_free},
    {"ls", "URL", "list a store", "Lists a directory of a store, or one object.", 1, 1, true,
        verb_ls},
    {"cp", "SRC DST", "copy between a store and local files",
        "Copies a file between a store (a URL) and this machine (a path), or between two stores. "
        "What is copied to a directory, or to a URL that ends in /, keeps its name there. With "
        "--recursive the content of SRC goes into DST.",
        2, 2, true, verb_cp},
    {"check", "URL", "try a store, and say what is wrong",
        "Tries a store step by step, and says what is wrong and what to do about it.", 1, 1, true,
        verb_check},
    {"help", "[VERB|options]",
        "print the help of a verb, its manual page, or the options of stores",
        "Prints what a verb does and which flags it takes; without a verb, the list of verbs. "
        "`millrace help options` lists the options of stores.",
        0, 1, false, verb_help},
    {"completion", "bash|zsh|fish", "print the completion script of a shell",
        "Prints a script that makes a shell complete verbs, flags and their values. For bash: "
        "`source <(millrace completion bash)`.",
        1, 1, false, verb_completion},
    {"version", "", "print the version", "Prints the version.", 0, 0, false, verb_version},
    {0},
};

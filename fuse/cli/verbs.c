/* SPDX-License-Identifier: Apache-2.0 */
/* The table of verbs. */
#include "fuse/cli/cli.h"

#include <limits.h>

const struct verb verbs[] = {
    {"mount", "URL DIR", "mount a store as a directory",
        "Mounts a store as a directory, and returns once files can be read there.\n\nWith `--also "
        "URL=/PATH` another store is what lies below PATH there; one that cannot be reached is a "
        "directory that fails, and the others serve. `--option /PATH:NAME=VALUE` is an option of "
        "that store, files in DIR/PATH of `--secrets-dir DIR` are its secrets; if there are none, "
        "they come from the environment or, with option profile, from a profile of the AWS files. "
        "Options without a path and files in DIR itself are of URL alone.",
        2, 2, true, verb_mount},
    {"umount", "DIR", "unmount it",
        "Unmounts what `millrace mount` has mounted, and waits until what was written there is saved.",
        1, 1, false, verb_umount},
    {"stat", "[PATH|URL]", "how mounts are doing, or what an object is",
        "Of a path on a mount: how the mount is doing, its cache, what was read and written, the last "
        "error; of a file also how much of it this node has, and whether the store has it.\n\nOf a "
        "URL: type, size, time and version of the object.\n\nWithout an argument: all mounts of this "
        "machine, a line each.",
        0, 1, true, verb_stat},
    {"location", "PATH|URL...", "which node and which cache workers have a file",
        "Of files on a mount: how much of each the cache of this node has, which cache workers own a "
        "part of it and how much they have, and where it is in the store. Workers are asked; one "
        "that does not tell is named. Nothing is fetched.\n\nOf a URL: the same by a mount of this "
        "machine that the URL is below; without one nobody here knows of copies.",
        1, INT_MAX, false, verb_location},
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
    {"doctor", "[URL]", "what is wrong with this machine, a cluster or a store",
        "Without a URL: whether this machine can mount and serve well, and the installation in the "
        "Kubernetes cluster that it knows, if any: kinds, operator, node plugin, nodes, Datasets, "
        "what you may do (as `kubectl millrace doctor`, or with a flag of the cluster, that "
        "alone; what you may not read is skipped and said). It asks the API server only, as "
        "you.\n\nOf a URL: whether its server is found and answers, how far its clock is from "
        "this one's, TLS, where credentials come from, and what may be listed, read and, with "
        "`--write`, written. `millrace check URL` does the same.\n\nA line each, `ok` or `FAILED` "
        "with what to do about it. Exit status: 0 nothing has failed, 1 something has, 2 misuse.",
        0, 1, true, verb_doctor},
    {"bench", "URL", "how fast this machine reads a store, raw and mounted",
        "Reads what is at the URL, a file or a directory: the largest file, as far as `--size` says, "
        "and small files (of at most 1 MiB). First raw, by many ranged reads at a time without a "
        "mount, then through a mount of its own: cold, and warm, which is the same again from its "
        "cache and the kernel's pages. The large file is read there by one reader from its "
        "beginning on. It prints how many bytes and files were read in how many seconds, and "
        "nothing that follows from less; what the raw reads have just read may be quicker "
        "afterwards at the server, too.\n\nNothing is changed in the store, unless `--write DIR` "
        "is given: then it makes that directory below the URL, measures writing files there and "
        "reading those, and removes them, after Ctrl-C as well. The mount goes in any case.",
        1, 1, true, verb_bench},
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
    {"ls", "PATH|URL...", "list what is in a store or a mount",
        "Lists a directory, or one file, of a store (a URL) or of this machine (a path). With --long "
        "of a path on a mount: mode, owner, size, whether the store has all that was written "
        "(PERSISTED or NOT_PERSISTED), time, and how much of the file the cache of this node has.",
        1, INT_MAX, true, verb_ls},
    {"cat", "PATH|URL...", "print files", "Prints files of stores, mounts or this machine.", 1,
        INT_MAX, true, verb_cat},
    {"head", "PATH|URL...", "print how files begin",
        "Prints the first lines or bytes of files; no more of them is read.", 1, INT_MAX, true,
        verb_head},
    {"tail", "PATH|URL...", "print how files end",
        "Prints the last lines or bytes of files; no more of them is read, but with +N.", 1,
        INT_MAX, true, verb_tail},
    {"mkdir", "PATH|URL...", "make directories",
        "Makes directories in stores, mounts or on this machine. A store of objects gets an empty "
        "object whose name ends in /.",
        1, INT_MAX, true, verb_mkdir},
    {"rm", "PATH|URL...", "remove files and directories",
        "Removes files of stores and mounts, with --recursive directories, too. What is not on a "
        "mount is left alone, and so is all of a store or of a mount at once. What cannot be removed "
        "is named and the rest goes.",
        1, INT_MAX, true, verb_rm},
    {"mv", "SRC DST", "rename, or move elsewhere",
        "Renames a file or a directory; what is moved to a directory, or to a URL that ends in /, "
        "keeps its name there. Within one store the store renames (one of objects copies each on its "
        "side); from one to another it is copied and then removed, if all of it could be copied.",
        2, 2, true, verb_mv},
    {"cp", "SRC DST", "copy between stores, mounts and local files",
        "Copies a file or, with --recursive, the content of a directory, from and to a store (a URL) "
        "or a path of this machine, on a mount or not. What is copied to a directory, or to a URL "
        "that ends in /, keeps its name there. Many files are copied at a time, large ones in pieces; "
        "what fails is named, the rest is copied, and the exit status is 1.\n\n`millrace "
        "copyFromLocal` and `millrace copyToLocal` do the same, and take directories as they are.",
        2, 2, true, verb_cp},
    {"du", "PATH|URL...", "how much files have",
        "Prints how many bytes files, or all files below directories, have; on a mount also how much "
        "of it the cache of this node has, and how many files the store does not have yet.",
        1, INT_MAX, true, verb_du},
    {"count", "PATH|URL...", "how many files, directories and bytes there are",
        "Counts files, directories (itself among them) and bytes. A store of objects has the "
        "directories that files are in.",
        1, INT_MAX, true, verb_count},
    {"checksum", "PATH|URL...", "sums of what is in files",
        "Reads files and prints a sum of each, as `sha256sum` and `md5sum` do; the CRCs as S3 keeps "
        "them beside objects (x-amz-checksum). A file that cannot be read is named and the rest is "
        "summed.",
        1, INT_MAX, true, verb_checksum},
    {"persist", "PATH...", "wait until the store has what was written",
        "Of files, or all files below directories, on a mount: has what the store does not have "
        "saved, and waits until it is, however often that fails. Files are saved when they are "
        "closed; this is for those whose saving failed, or that are open still.",
        1, INT_MAX, false, verb_persist},
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

/* SPDX-License-Identifier: Apache-2.0 */
/* kept — content that can go to no store by itself: it lies in <stage dir>/kept with its note, is
 * never overwritten and never removed but by a person. */
#ifndef MILLRACE_FUSE_FILE_KEPT_H
#define MILLRACE_FUSE_FILE_KEPT_H

#include "fuse/file/sidecar.h"
#include "lib/base/buf.h"

/* Why, in notes. */
#define KEPT_CONFLICT   "conflict"   /* the store has something else there, of another writer */
#define KEPT_UNFINISHED "unfinished" /* nobody had closed it when the machine went down */
#define KEPT_HOMELESS   "homeless"   /* the dataset has no mount for it that may be written to */
#define KEPT_UNREADABLE "unreadable" /* its note is damaged */
#define KEPT_DAMAGED    "damaged"    /* its bytes are not those that were to be saved */

#define KEPT_SHOWN      10

struct kept {
    uint64_t files, bytes;
    struct kept_file {
        char *name; /* in <stage dir>/kept */
        char *path; /* where it belongs, below its mount; "?" if the note does not say */
        char why[SIDECAR_WHY_MAX];
    } shown[KEPT_SHOWN];
    size_t nshown;
};

char *kept_dir(const char *stage_dir); /* caller frees */
/* Moves stage_dir/name and its note there. note: what the note says from now on, with .why; NULL:
 * as it is. On the disk when it returns; on failure all is where it was. */
int kept_add(const char *stage_dir, const char *name, const struct sidecar *note, struct err *e);
/* Back from there into the staging directory, for the next recover_begin(). */
void kept_return(const char *stage_dir, const char *name);
/* What is there: kept_free() it. */
void kept_list(const char *stage_dir, struct kept *out);
void kept_free(struct kept *k);

#endif

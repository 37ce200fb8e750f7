/* SPDX-License-Identifier: Apache-2.0 */
/* meta — what the cache writes beside its data, as bytes: the table of cached files (one record
 * each) and, for files of more than one block, a sidecar (a header for people, then one record a
 * block). Pure: bytes in, structs out, no I/O. Integers are little-endian. A record that does not
 * check is absent: nothing here is trusted. */
#ifndef MILLRACE_FUSE_CACHE_META_H
#define MILLRACE_FUSE_CACHE_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define META_RECORD         64u /* bytes of the table's header and of each of its records */
#define META_SIDECAR_HEADER 4096u
#define META_SIDECAR_RECORD 8u
#define META_BOOT_LEN       37 /* a boot id with its NUL */

struct meta_file {
    uint64_t path[2], version; /* hashes, meta_hash */
    uint64_t size;
    /* of the data file after the last byte we wrote: the same now means that it was not written
     * since */
    int64_t mtime_ns;
    /* hash of the boot in which that was so: a machine that went down may have kept the time and
     * lost the bytes */
    uint32_t boot;
    uint32_t valid; /* blocks present */
    uint32_t pages; /* 4 KiB pages they take */
    uint32_t crc0;  /* files of one block: its CRC32C */
    uint8_t medium; /* enum conf_medium: which tier's directory */
    uint8_t flags;  /* META_PINNED */
};
#define META_PINNED 1u

/* Names a file of a dataset. mount: a string that says which store (two stores may have equal
 * paths). */
void meta_hash_path(const char *mount, const char *path, uint64_t out[2]);
uint64_t meta_hash_version(const char *version);

void meta_header_put(unsigned char out[META_RECORD], const char boot[META_BOOT_LEN]);
/* false: not ours, or another format */
bool meta_header_get(const unsigned char in[META_RECORD], char boot[META_BOOT_LEN]);
void meta_record_put(unsigned char out[META_RECORD], const struct meta_file *f);
bool meta_record_get(const unsigned char in[META_RECORD], struct meta_file *f);

void meta_sidecar_header_put(unsigned char out[META_SIDECAR_HEADER], const struct meta_file *f,
    const char *mount, const char *path, const char *version);
bool meta_sidecar_header_get(
    const unsigned char in[META_SIDECAR_HEADER], const struct meta_file *expect);
/* What it says of a header that was put, as strings in it; false: it was cut. */
bool meta_sidecar_names(unsigned char header[META_SIDECAR_HEADER], const char **mount,
    const char **version, const char **path);
void meta_sidecar_put(unsigned char out[META_SIDECAR_RECORD], const struct meta_file *f,
    uint32_t block, uint32_t crc);
bool meta_sidecar_get(const unsigned char in[META_SIDECAR_RECORD], const struct meta_file *f,
    uint32_t block, uint32_t *crc);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/cache/meta.h"

#include "lib/base/hash.h"

#include <stdio.h>
#include <string.h>

#define TABLE_MAGIC   "mrcache1"
#define SIDECAR_MAGIC "mrside01"

static void put32(unsigned char *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> (8 * i));
}

static void put64(unsigned char *p, uint64_t v)
{
    put32(p, (uint32_t)v);
    put32(p + 4, (uint32_t)(v >> 32));
}

static uint32_t get32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t get64(const unsigned char *p) { return get32(p) | (uint64_t)get32(p + 4) << 32; }

/* A second hash that shares nothing with hash64, so that both together name a path among billions.
 */
static uint64_t hash_other(uint64_t h, const char *s)
{
    for (; *s; s++) {
        h = (h ^ (unsigned char)*s) * 0x9fb21c651e98df25u;
        h ^= h >> 35;
    }
    return hash64_mix(h, 0x6d696c6c72616365u);
}

void meta_hash_path(const char *mount, const char *path, uint64_t out[2])
{
    out[0] = hash64_mix(hash64(mount, strlen(mount)), hash64(path, strlen(path)));
    out[1] = hash_other(hash_other(0x2545f4914f6cdd1du, mount), path);
}

uint64_t meta_hash_version(const char *version)
{
    return hash64_mix(hash64(version, strlen(version)), hash_other(1, version));
}

void meta_header_put(unsigned char out[META_RECORD], const char boot[META_BOOT_LEN])
{
    memset(out, 0, META_RECORD);
    memcpy(out + 4, TABLE_MAGIC, 8);
    size_t n = strnlen(boot, META_BOOT_LEN - 1);
    memcpy(out + 12, boot, n);
    put32(out, crc32c(0, out + 4, META_RECORD - 4));
}

bool meta_header_get(const unsigned char in[META_RECORD], char boot[META_BOOT_LEN])
{
    if (get32(in) != crc32c(0, in + 4, META_RECORD - 4) || memcmp(in + 4, TABLE_MAGIC, 8) != 0)
        return false;
    memcpy(boot, in + 12, META_BOOT_LEN);
    boot[META_BOOT_LEN - 1] = '\0';
    return true;
}

void meta_record_put(unsigned char out[META_RECORD], const struct meta_file *f)
{
    memset(out, 0, META_RECORD);
    out[4] = 1; /* in use: a record of zeroes is a free one */
    out[5] = f->medium;
    out[6] = f->flags;
    put64(out + 8, f->path[0]);
    put64(out + 16, f->path[1]);
    put64(out + 24, f->version);
    put64(out + 32, f->size);
    put64(out + 40, (uint64_t)f->mtime_ns);
    put32(out + 48, f->valid);
    put32(out + 52, f->pages);
    put32(out + 56, f->crc0);
    put32(out + 60, f->boot);
    put32(out, crc32c(0, out + 4, META_RECORD - 4));
}

bool meta_record_get(const unsigned char in[META_RECORD], struct meta_file *f)
{
    if (in[4] != 1 || get32(in) != crc32c(0, in + 4, META_RECORD - 4))
        return false;
    *f = (struct meta_file){
        .path = {get64(in + 8), get64(in + 16)},
        .version = get64(in + 24),
        .size = get64(in + 32),
        .mtime_ns = (int64_t)get64(in + 40),
        .valid = get32(in + 48),
        .pages = get32(in + 52),
        .crc0 = get32(in + 56),
        .boot = get32(in + 60),
        .medium = in[5],
        .flags = in[6],
    };
    uint64_t blocks = f->size / (1u << 20) + (f->size % (1u << 20) != 0);
    return f->valid > 0 && f->valid <= blocks && f->pages <= (f->size >> 12) + 1;
}

static uint32_t identity(const struct meta_file *f)
{
    unsigned char id[32];
    put64(id, f->path[0]);
    put64(id + 8, f->path[1]);
    put64(id + 16, f->version);
    put64(id + 24, f->size);
    return crc32c(0, id, sizeof id);
}

void meta_sidecar_header_put(unsigned char out[META_SIDECAR_HEADER], const struct meta_file *f,
    const char *mount, const char *path, const char *version)
{
    memset(out, 0, META_SIDECAR_HEADER);
    memcpy(out + 4, SIDECAR_MAGIC, 8);
    put64(out + 12, f->path[0]);
    put64(out + 20, f->path[1]);
    put64(out + 28, f->version);
    put64(out + 36, f->size);
    snprintf((char *)out + 44, META_SIDECAR_HEADER - 44, "%s\n%s\n%s\n", mount, version, path);
    put32(out, crc32c(0, out + 4, META_SIDECAR_HEADER - 4));
}

bool meta_sidecar_header_get(
    const unsigned char in[META_SIDECAR_HEADER], const struct meta_file *expect)
{
    return get32(in) == crc32c(0, in + 4, META_SIDECAR_HEADER - 4)
        && memcmp(in + 4, SIDECAR_MAGIC, 8) == 0 && get64(in + 12) == expect->path[0]
        && get64(in + 20) == expect->path[1] && get64(in + 28) == expect->version
        && get64(in + 36) == expect->size;
}

bool meta_sidecar_names(unsigned char header[META_SIDECAR_HEADER], const char **mount,
    const char **version, const char **path)
{
    char *text = (char *)header + 44, *end = memchr(text, '\0', META_SIDECAR_HEADER - 44);
    char *first = end ? memchr(text, '\n', (size_t)(end - text)) : NULL;
    char *second = first ? memchr(first + 1, '\n', (size_t)(end - first - 1)) : NULL;
    if (!second || end == second + 1 || end[-1] != '\n') /* paths may have newlines */
        return false;
    *first = *second = end[-1] = '\0';
    *mount = text;
    *version = first + 1;
    *path = second + 1;
    return true;
}

void meta_sidecar_put(
    unsigned char out[META_SIDECAR_RECORD], const struct meta_file *f, uint32_t block, uint32_t crc)
{
    unsigned char sum[12];
    put32(sum, identity(f));
    put32(sum + 4, block);
    put32(sum + 8, crc);
    put32(out, crc);
    put32(out + 4, crc32c(0, sum, sizeof sum));
}

bool meta_sidecar_get(const unsigned char in[META_SIDECAR_RECORD], const struct meta_file *f,
    uint32_t block, uint32_t *crc)
{
    unsigned char again[META_SIDECAR_RECORD];
    *crc = get32(in);
    meta_sidecar_put(again, f, block, *crc);
    return memcmp(again, in, META_SIDECAR_RECORD) == 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "fuse/store/s3_sum.h"

#include "lib/base/hash.h"
#include "lib/base/io.h"
#include "lib/base/mem.h"

#include <ctype.h>
#include <errno.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define PIECE     (256u << 10)
#define POLY_NVME UINT64_C(0x9a6c9329ac4bc9b5) /* bits turned round, as for the other */
#define POLY_32C  UINT64_C(0x82f63b78)
#define TABLES    8

static const struct {
    const char *name;
    unsigned bits;
    uint64_t poly;
} sum_kinds[] = {
    [S3_SUM_NONE] = {"", 0, 0},
    [S3_SUM_CRC32C] = {"CRC32C", 32, POLY_32C},
    [S3_SUM_CRC64NVME] = {"CRC64NVME", 64, POLY_NVME},
};

const char *s3_sum_name(enum s3_sum kind) { return sum_kinds[kind].name; }

bool s3_sum_kind(const char *name, enum s3_sum *kind)
{
    for (size_t i = S3_SUM_CRC32C; i < ARRAY_LEN(sum_kinds); i++)
        if (strcasecmp(sum_kinds[i].name, name) == 0) {
            *kind = (enum s3_sum)i;
            return true;
        }
    return false;
}

/* Eight bytes at a time: table k is of a byte with k bytes behind it. */
static uint64_t nvme_table[TABLES][256];

static void make_nvme_table(void)
{
    for (unsigned i = 0; i < 256; i++) {
        uint64_t c = i;
        for (int bit = 0; bit < 8; bit++)
            c = c & 1 ? (c >> 1) ^ POLY_NVME : c >> 1;
        nvme_table[0][i] = c;
    }
    for (unsigned k = 1; k < TABLES; k++)
        for (unsigned i = 0; i < 256; i++)
            nvme_table[k][i] = (nvme_table[k - 1][i] >> 8)
                ^ nvme_table[0][nvme_table[k - 1][i] & 0xff];
}

static uint64_t crc64nvme(uint64_t crc, const void *data, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_nvme_table);
    const unsigned char *p = data;
    crc = ~crc;
    for (; len >= 8; len -= 8, p += 8) {
        for (unsigned k = 0; k < 8; k++) /* one load, on machines that have it */
            crc ^= (uint64_t)p[k] << (8 * k);
        uint64_t next = 0;
        for (unsigned k = 0; k < 8; k++)
            next ^= nvme_table[7 - k][(crc >> (8 * k)) & 0xff];
        crc = next;
    }
    while (len--)
        crc = (crc >> 8) ^ nvme_table[0][(crc ^ *p++) & 0xff];
    return ~crc;
}

uint64_t s3_sum_add(enum s3_sum kind, uint64_t sum, const void *data, size_t len)
{
    switch (kind) {
    case S3_SUM_NONE:
        return 0;
    case S3_SUM_CRC32C:
        return crc32c((uint32_t)sum, data, len);
    case S3_SUM_CRC64NVME:
        return crc64nvme(sum, data, len);
    }
    return 0;
}

/* The product of two polynomials, modulo that of the sum; the highest bit is x to the 0th. */
static uint64_t multiply(uint64_t a, uint64_t b, uint64_t poly, unsigned bits)
{
    uint64_t product = 0;
    for (uint64_t bit = UINT64_C(1) << (bits - 1); bit; bit >>= 1) {
        if (a & bit)
            product ^= b;
        b = b & 1 ? (b >> 1) ^ poly : b >> 1;
    }
    return product;
}

uint64_t s3_sum_join(enum s3_sum kind, uint64_t first, uint64_t second, uint64_t len)
{
    unsigned bits = sum_kinds[kind].bits;
    if (!bits)
        return 0;
    uint64_t poly = sum_kinds[kind].poly, power = UINT64_C(1) << (bits - 1 - 8);
    for (; len; len >>= 1) { /* len zero bytes behind the first: times x to the (8 len)th */
        if (len & 1)
            first = multiply(power, first, poly, bits);
        power = multiply(power, power, poly, bits);
    }
    return first ^ second;
}

void s3_sum_text(enum s3_sum kind, uint64_t sum, char text[S3_SUM_TEXT])
{
    unsigned char bytes[8];
    unsigned n = sum_kinds[kind].bits / 8;
    for (unsigned i = 0; i < n; i++)
        bytes[i] = (unsigned char)(sum >> (8 * (n - 1 - i)));
    text[0] = '\0';
    EVP_EncodeBlock((unsigned char *)text, bytes, (int)n);
}

char *s3_sum_header(enum s3_sum kind, const char *value)
{
    char *line = xasprintf(
        "x-amz-checksum-%s%s%s", s3_sum_name(kind), value ? ": " : "", value ? value : "");
    for (char *c = line; *c && *c != ':'; c++)
        *c = (char)tolower((unsigned char)*c);
    return line;
}

int s3_sum_fd(enum s3_sum kind, int fd, uint64_t off, uint64_t len, uint64_t *sum, struct err *e)
{
    cleanup_free char *piece = malloc(PIECE);
    *sum = 0;
    if (!piece)
        return err_sys(e, ENOMEM, "sum up a file");
    for (uint64_t at = 0; at < len;) {
        size_t n = (size_t)MIN(len - at, (uint64_t)PIECE);
        if (io_pread_exact(fd, piece, n, off + at))
            return err_sys(e, errno ? errno : EIO, "read what is to be sent");
        *sum = s3_sum_add(kind, *sum, piece, n);
        at += n;
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* tfrecords IMAGES.idx LABELS.idx OUTDIR FILES — MNIST's raw files as TFRecords of
 * tf.train.Example{image: bytes, label: int64}, spread over FILES files part-00000.tfrecord …. A
 * record is: length (u64), masked CRC32C of it, data, masked CRC32C of the data. */
#include "lib/base/err.h"
#include "lib/base/file.h"
#include "lib/base/hash.h"
#include "lib/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PIXELS (28 * 28)

static uint32_t be32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static uint32_t masked(const void *data, size_t len)
{
    uint32_t crc = crc32c(0, data, len);
    return ((crc >> 15) | (crc << 17)) + 0xa282ead8u;
}

static size_t varint(unsigned char *out, uint64_t v)
{
    size_t n = 0;
    for (; v >= 0x80; v >>= 7)
        out[n++] = (unsigned char)(v | 0x80);
    out[n++] = (unsigned char)v;
    return n;
}

/* Appends a length-delimited protobuf field. */
static size_t field(unsigned char *out, unsigned char tag, const void *data, size_t len)
{
    out[0] = tag;
    size_t n = 1 + varint(out + 1, len);
    memcpy(out + n, data, len);
    return n + len;
}

/* map<string, Feature> entry {key = 1, value = 2} whose Feature holds `list` under the given tag */
static size_t feature(
    unsigned char *out, const char *key, unsigned char kind, const unsigned char *list, size_t len)
{
    unsigned char value[PIXELS + 64], entry[PIXELS + 128];
    size_t v = field(value, kind, list, len);
    size_t n = field(entry, 0x0a, key, strlen(key));
    n += field(entry + n, 0x12, value, v);
    return field(out, 0x0a, entry, n);
}

static size_t example(unsigned char *out, const unsigned char *image, unsigned char label)
{
    unsigned char list[PIXELS + 16], features[2 * PIXELS], one[2] = {0x0a, 1};
    /* bytes_list = 1 */
    size_t n = feature(features, "image", 0x0a, list, field(list, 0x0a, image, PIXELS));
    memcpy(list, (unsigned char[]){one[0], one[1], label}, 3);
    n += feature(features + n, "label", 0x1a, list, 3); /* int64_list = 3, packed */
    return field(out, 0x0a, features, n);
}

static int put(FILE *f, const unsigned char *data, size_t len)
{
    uint64_t length = len;
    uint32_t head = masked(&length, sizeof length), tail = masked(data, len);
    return fwrite(&length, sizeof length, 1, f) == 1 && fwrite(&head, sizeof head, 1, f) == 1
            && fwrite(data, len, 1, f) == 1 && fwrite(&tail, sizeof tail, 1, f) == 1
        ? 0
        : -1;
}

int main(int argc, char **argv)
{
    struct err e = ERR_INIT;
    if (argc != 5 || atoi(argv[4]) < 1)
        return fprintf(stderr, "usage: tfrecords IMAGES.idx LABELS.idx OUTDIR FILES\n"), 2;
    size_t ilen, llen;
    cleanup_free char *images = file_read(argv[1], 1 << 28, &ilen, &e),
                      *labels = images ? file_read(argv[2], 1 << 28, &llen, &e) : NULL;
    if (!labels || file_mkdirs(argv[3], 0755, &e))
        return fprintf(stderr, "tfrecords: %s\n", e.msg), 1;
    const unsigned char *im = (unsigned char *)images, *la = (unsigned char *)labels;
    if (ilen < 16 || llen < 8 || be32(im) != 0x803 || be32(la) != 0x801
        || be32(im + 4) != be32(la + 4) || ilen != 16 + (size_t)be32(im + 4) * PIXELS
        || llen != 8 + (size_t)be32(la + 4))
        return fprintf(stderr, "tfrecords: %s and %s are not MNIST's images and labels\n", argv[1],
                   argv[2]),
               1;
    int files = atoi(argv[4]);
    uint32_t count = be32(im + 4);
    unsigned char record[4 * PIXELS];
    for (int f = 0; f < files; f++) {
        cleanup_free char *path = xasprintf("%s/part-%05d.tfrecord", argv[3], f);
        cleanup_file FILE *out = fopen(path, "w");
        int bad = !out;
        for (uint32_t i = (uint32_t)f; i < count && !bad; i += (uint32_t)files)
            bad = put(out, record, example(record, im + 16 + (size_t)i * PIXELS, la[8 + i]));
        if (bad || fflush(out))
            return perror(path), 1;
    }
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/hash.h"

#include <pthread.h>
#include <string.h>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

uint64_t hash64_mix(uint64_t a, uint64_t b)
{
    uint64_t h = a ^ (b + 0x9e3779b97f4a7c15u + (a << 6) + (a >> 2));
    h ^= h >> 33;
    h *= 0xff51afd7ed558ccdu;
    h ^= h >> 33;
    h *= 0xc4ceb9fe1a85ec53u;
    return h ^ (h >> 33);
}

uint64_t hash64(const void *data, size_t len)
{
    const unsigned char *p = data;
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a, then a finaliser so that low bits are good */
    for (size_t i = 0; i < len; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return hash64_mix(h, len);
}

#define CRC32C_POLY 0x82f63b78u
#define LANE        1024u /* bytes */

/* what a byte becomes that so many bytes of zeros follow */
static uint32_t past_zeros[8][256];

static void make_past_zeros(void)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        uint32_t crc = byte;
        for (int k = 0; k < 8; k++)
            crc = crc & 1 ? (crc >> 1) ^ CRC32C_POLY : crc >> 1;
        past_zeros[0][byte] = crc;
    }
    for (int n = 1; n < 8; n++)
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t crc = past_zeros[n - 1][byte];
            past_zeros[n][byte] = past_zeros[0][crc & 255] ^ (crc >> 8);
        }
}

/* Eight bytes at a time: each of them by its own table. */
static uint32_t crc_soft(uint32_t crc, const unsigned char *p, size_t len)
{
    for (; len >= 8; len -= 8, p += 8)
        crc = past_zeros[7][p[0] ^ (crc & 255)] ^ past_zeros[6][p[1] ^ (crc >> 8 & 255)]
            ^ past_zeros[5][p[2] ^ (crc >> 16 & 255)] ^ past_zeros[4][p[3] ^ (crc >> 24)]
            ^ past_zeros[3][p[4]] ^ past_zeros[2][p[5]] ^ past_zeros[1][p[6]] ^ past_zeros[0][p[7]];
    for (; len; len--, p++)
        crc = past_zeros[0][(crc ^ *p) & 255] ^ (crc >> 8);
    return crc;
}

uint32_t crc32c_by_table(uint32_t crc, const void *data, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_past_zeros);
    return ~crc_soft(~crc, data, len);
}

#if defined(__x86_64__)
/* what a register becomes over LANE bytes of zeros, by each of its bytes */
static uint32_t past_lane[4][256];

static uint32_t skip_lane(uint32_t crc)
{
    return past_lane[0][crc & 255] ^ past_lane[1][crc >> 8 & 255] ^ past_lane[2][crc >> 16 & 255]
        ^ past_lane[3][crc >> 24];
}

static inline uint64_t word_at(const unsigned char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* The instruction begins once a cycle and takes three: so three lanes at a time. */
__attribute__((target("sse4.2"))) static uint32_t crc_hard(
    uint32_t crc, const unsigned char *p, size_t len)
{
    uint64_t c = crc;
    for (; len >= 3 * LANE; len -= 3 * LANE, p += 3 * LANE) {
        uint64_t c1 = 0, c2 = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            c = _mm_crc32_u64(c, word_at(p + i));
            c1 = _mm_crc32_u64(c1, word_at(p + LANE + i));
            c2 = _mm_crc32_u64(c2, word_at(p + 2 * LANE + i));
        }
        c = skip_lane(skip_lane((uint32_t)c) ^ (uint32_t)c1) ^ (uint32_t)c2;
    }
    for (; len >= 8; len -= 8, p += 8)
        c = _mm_crc32_u64(c, word_at(p));
    for (; len; len--, p++)
        c = _mm_crc32_u8((uint32_t)c, *p);
    return (uint32_t)c;
}

static void make_past_lane(void)
{
    static const unsigned char zeros[LANE];
    for (int byte = 0; byte < 4; byte++)
        for (int bit = 0; bit < 8; bit++) {
            uint32_t one = crc_hard(UINT32_C(1) << (8 * byte + bit), zeros, LANE);
            for (int i = 0; i < 1 << bit; i++)
                past_lane[byte][i + (1 << bit)] = past_lane[byte][i] ^ one;
        }
}
#endif

uint32_t crc32c(uint32_t crc, const void *data, size_t len)
{
#if defined(__x86_64__)
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (__builtin_cpu_supports("sse4.2")) {
        pthread_once(&once, make_past_lane);
        return ~crc_hard(~crc, data, len);
    }
#endif
    return crc32c_by_table(crc, data, len);
}

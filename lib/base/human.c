/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/human.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *human_bytes(uint64_t bytes, char out[HUMAN_BYTES_LEN])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double v = (double)bytes;
    int u = 0;
    for (; v >= 1024 && u < 6; u++)
        v /= 1024;
    snprintf(out, HUMAN_BYTES_LEN, u ? "%.2f%s" : "%.0f%s", v, units[u]);
    return out;
}

char *human_count(int64_t n, char out[HUMAN_COUNT_LEN])
{
    char digits[HUMAN_COUNT_LEN];
    size_t len = (size_t)snprintf(digits, sizeof digits, "%" PRId64, n), k = 0;
    for (size_t i = 0; i < len && k + 2 < HUMAN_COUNT_LEN; i++) {
        if (i && (len - i) % 3 == 0)
            out[k++] = ',';
        out[k++] = digits[i];
    }
    out[k] = '\0';
    return out;
}

/* The next whole number, but for what only binary fractions add: 1.1 × 1000 is 1100. */
static double whole(double v)
{
    double near = round(v);
    return fabs(v - near) <= 1e-9 * fmax(1, near) ? near : ceil(v);
}

static int parse(const char *text, double unit, int64_t *out)
{
    static const struct {
        const char *suffix;
        double factor;
    } suffixes[] = {{"", 1}, {"m", 1e-3}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"T", 1e12},
        {"P", 1e15}, {"E", 1e18}, {"Ki", 0x1p10}, {"Mi", 0x1p20}, {"Gi", 0x1p30}, {"Ti", 0x1p40},
        {"Pi", 0x1p50}, {"Ei", 0x1p60}};
    if (!isdigit((unsigned char)text[0]) && !(text[0] == '.' && isdigit((unsigned char)text[1])))
        return -1;
    if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X'))
        return -1;
    char *end;
    double v = strtod(text, &end);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
        if (strcmp(end, suffixes[i].suffix) == 0) {
            v = whole(v * suffixes[i].factor * unit);
            if (!(v >= 0 && v < 9223372036854775807.0))
                return -1;
            *out = (int64_t)v;
            return 0;
        }
    return -1;
}

int quantity_parse(const char *text, int64_t *bytes) { return parse(text, 1, bytes); }
int quantity_parse_milli(const char *text, int64_t *milli) { return parse(text, 1000, milli); }

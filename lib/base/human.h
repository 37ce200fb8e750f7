/* SPDX-License-Identifier: Apache-2.0 */
/* human — byte counts and Kubernetes quantities for people. */
#ifndef MILLRACE_LIB_BASE_HUMAN_H
#define MILLRACE_LIB_BASE_HUMAN_H

#include <stdint.h>

#define HUMAN_BYTES_LEN 16
/* "0B", "512B", "1.92GiB"; returns out */
char *human_bytes(uint64_t bytes, char out[HUMAN_BYTES_LEN]);
#define HUMAN_COUNT_LEN 32
char *human_count(int64_t n, char out[HUMAN_COUNT_LEN]); /* "12,345"; returns out */
/* Kubernetes quantity of bytes: "10Gi", "500M", "1e3", "1.5Gi", "1000m" (rounded up); -1 if it is
 * none, or negative, or > INT64_MAX */
int quantity_parse(const char *text, int64_t *bytes);
/* the same in thousandths: "250m" is 250, "2" 2000; up to 9 peta */
int quantity_parse_milli(const char *text, int64_t *milli);

#endif

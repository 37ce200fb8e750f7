/* SPDX-License-Identifier: Apache-2.0 */
/* hash — non-cryptographic hashes. hash64 is stable across releases and machines: it names objects
 * and picks workers. */
#ifndef MILLRACE_LIB_BASE_HASH_H
#define MILLRACE_LIB_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash64(const void *data, size_t len);
uint64_t hash64_mix(uint64_t a, uint64_t b);
/* start with 0; SSE4.2 where the CPU has it */
uint32_t crc32c(uint32_t crc, const void *data, size_t len);
/* the same on any CPU */
uint32_t crc32c_by_table(uint32_t crc, const void *data, size_t len);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* pbcheck — what protobuf-c does not check on input: that strings are UTF-8 and hold no NUL (which
 * would cut them short in C). Works on the bytes, before they are unpacked. Pure. */
#ifndef MILLRACE_CSI_PBCHECK_H
#define MILLRACE_CSI_PBCHECK_H

#include "lib/base/err.h"

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>
#include <stdint.h>

/* INVALID names the field. Fields that the descriptor does not know are skipped; groups and broken
 * framing are refused. */
int pbcheck(const ProtobufCMessageDescriptor *d, const uint8_t *data, size_t len, struct err *e);

#endif

/* SPDX-License-Identifier: Apache-2.0 */
/* Requests from a stranger: what pbcheck accepts holds no surprise after unpacking. The first byte
 * chooses the message. */
#include "csi/pbcheck.h"

#include "csi/proto/csi.pb-c.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ProtobufCMessageDescriptor *const messages[] = {
    &csi__node_stage_volume_request__descriptor, &csi__node_publish_volume_request__descriptor,
    &csi__create_volume_request__descriptor,
    &csi__validate_volume_capabilities_request__descriptor};

/* Every string that comes out is as long as it was on the wire: packing gives no fewer bytes than
 * the parser kept. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const ProtobufCMessageDescriptor *d = messages[data[0] % (sizeof messages / sizeof *messages)];
    uint8_t *copy = malloc(size); /* its own block, so that a read past the end is seen */
    if (!copy)
        return 0;
    memcpy(copy, data + 1, size - 1);
    struct err e = ERR_INIT;
    if (pbcheck(d, size > 1 ? copy : NULL, size - 1, &e) == 0) {
        ProtobufCMessage *m = protobuf_c_message_unpack(d, NULL, size - 1, copy);
        if (m) {
            size_t n = protobuf_c_message_get_packed_size(m);
            uint8_t *packed = malloc(n + 1);
            struct err again = ERR_INIT;
            if (!packed || protobuf_c_message_pack(m, packed) != n || pbcheck(d, packed, n, &again))
                abort();
            free(packed);
            protobuf_c_message_free_unpacked(m, NULL);
        }
    } else if (e.cls != ERR_INVALID || !e.msg[0]) {
        abort();
    }
    free(copy);
    return 0;
}

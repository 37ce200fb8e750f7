/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/plugin.h"

#define MODE(m) CSI__VOLUME_CAPABILITY__ACCESS_MODE__MODE__##m

int capability_check(const Csi__VolumeCapability *c, int *mode, struct err *e)
{
    if (!c)
        return err_set(e, ERR_INVALID, "volume_capability is missing");
    if (c->access_type_case == CSI__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK)
        return err_set(
            e, ERR_INVALID, "a dataset is a file system: volumeMode must be Filesystem, not Block");
    if (c->access_type_case != CSI__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT)
        return err_set(e, ERR_INVALID, "volume_capability.access_type is missing");
    if (!c->access_mode || c->access_mode->mode <= MODE(UNKNOWN)
        || c->access_mode->mode > MODE(SINGLE_NODE_MULTI_WRITER))
        return err_set(e, ERR_INVALID, "volume_capability.access_mode is missing or unknown");
    *mode = (int)c->access_mode->mode;
    return 0;
}

bool capability_read_only(int mode)
{
    return mode == MODE(SINGLE_NODE_READER_ONLY) || mode == MODE(MULTI_NODE_READER_ONLY);
}

bool capability_exclusive(int mode)
{
    return mode == MODE(SINGLE_NODE_WRITER) || mode == MODE(SINGLE_NODE_SINGLE_WRITER);
}

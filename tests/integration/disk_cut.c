/* SPDX-License-Identifier: Apache-2.0 */
/* disk_cut DIR: ends the ext4 or XFS file system that DIR is on as a power cut would. What was not
 * flushed is lost, nothing more is written; umount and mount again as after a boot. */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>

#define SHUTDOWN   _IOR('X', 125, uint32_t) /* EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN */
#define NOLOGFLUSH 2u

int main(int argc, char **argv)
{
    uint32_t how = NOLOGFLUSH;
    int fd = argc > 1 ? open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0 || ioctl(fd, SHUTDOWN, &how)) {
        perror(argc > 1 ? argv[1] : "usage: disk_cut DIR");
        return 1;
    }
    return 0;
}

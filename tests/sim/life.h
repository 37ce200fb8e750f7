/* SPDX-License-Identifier: Apache-2.0 */
/* life — one process that serves the mount: opens what it finds on the disk, goes on where the
 * kernel is, and does what users ask for, until it dies or is over. */
#ifndef MILLRACE_TESTS_SIM_LIFE_H
#define MILLRACE_TESTS_SIM_LIFE_H

/* last: the store is well, nothing is begun any more, all that waits is uploaded, and then
 * everything is looked at. Does not return: exits with 0, or as disk.h says. */
_Noreturn void life_run(unsigned ops, int last);

#endif

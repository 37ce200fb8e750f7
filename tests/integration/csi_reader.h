/* SPDX-License-Identifier: Apache-2.0 */
/* A pod that reads: a process that reads a file again and again and checks every byte. All of it
 * fails the test that calls it. */
#ifndef MILLRACE_TESTS_INTEGRATION_CSI_READER_H
#define MILLRACE_TESTS_INTEGRATION_CSI_READER_H

#include <stddef.h>

#define FILE_BYTES ((size_t)3 << 20)
#define PATIENT_MS 60000 /* a machine that stops for seconds is no fault of the plugin */

struct reader;
void reader_data(const char *path); /* writes what it expects; exits when it cannot */
int reader_once(const char *path);  /* in this process: 0 or an errno */
struct reader *reader_start(const char *path);
void reader_goes_on(struct reader *r); /* waits until it has read the file some more times */
void reader_end(struct reader *r);     /* frees it, too */

#endif

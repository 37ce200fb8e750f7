/* SPDX-License-Identifier: Apache-2.0 */
/* eventually — waits for what other threads do: polls a condition for a minute, which only a broken
 * program needs, and fails the test if it never comes true. */
#ifndef MILLRACE_TESTS_LIB_EVENTUALLY_H
#define MILLRACE_TESTS_LIB_EVENTUALLY_H

#include "lib/base/clock.h"

#define eventually(condition) eventually_in(60, condition)
#define eventually_in(seconds, condition)                      \
    do {                                                       \
        int64_t until_ = clock_mono_ns() + (seconds)*NS_PER_S; \
        while (!(condition)) {                                 \
            if (clock_mono_ns() > until_)                      \
                fail_msg("never came true: %s", #condition);   \
            clock_sleep_ns(2 * NS_PER_MS);                     \
        }                                                      \
    } while (0)

#endif

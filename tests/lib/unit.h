/* SPDX-License-Identifier: Apache-2.0 */
/* unit — what every cmocka program includes, in the order cmocka wants. */
#ifndef MILLRACE_TESTS_LIB_UNIT_H
#define MILLRACE_TESTS_LIB_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#endif

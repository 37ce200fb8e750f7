/* SPDX-License-Identifier: Apache-2.0 */
/* report_news — what is kept of a pod's report, and what of it is news. A pod that is busy has
 * another report each time it is asked; but counters only grow, and can wait a while. Pure. */
#ifndef MILLRACE_OPERATOR_DATASET_REPORT_NEWS_H
#define MILLRACE_OPERATOR_DATASET_REPORT_NEWS_H

#include <jansson.h>

/* Why there was no answer: a field that the poller adds to the last report. */
#define REPORT_UNREACHABLE "unreachable"
/* since when, in seconds since the epoch; as this operator knows */
#define REPORT_SILENT_SINCE "silentSince"

/* The fields that plans read; the caller owns it. */
json_t *report_kept(const json_t *report);

enum report_news {
    REPORT_NEWS_NONE,
    REPORT_NEWS_COUNTS, /* only counters differ */
    REPORT_NEWS_REAL,   /* something that may change a condition */
};
/* Both as report_kept() made them; was NULL: none. */
enum report_news report_compare(const json_t *was, const json_t *now);

#endif

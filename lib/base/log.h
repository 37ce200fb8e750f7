/* SPDX-License-Identifier: Apache-2.0 */
/* log — JSON lines on stderr: {"ts","level","msg",…}. Threads: any. log.mu is a leaf.
 * Secrets are redacted here and only here: every string given to log_redact() is replaced by *** in
 * whatever is logged. */
#ifndef MILLRACE_LIB_BASE_LOG_H
#define MILLRACE_LIB_BASE_LOG_H

#include <stdbool.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };

/* component is borrowed for ever: pass a literal */
void log_init(const char *component, enum log_level level);
void log_plain(void); /* people, not machines: "component: message" instead of JSON (CLI) */
/* debug info warn error; -1 if none of them */
int log_level_parse(const char *text, enum log_level *out);
bool log_enabled(enum log_level level);

/* Message plus key/value string pairs up to a NULL key: log_kv(LOG_INFO, "pod created", "pod",
 * name, NULL). A NULL value is left out. */
void log_kv(enum log_level level, const char *msg, ...) __attribute__((sentinel));
void log_fmt(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_debug(...) log_fmt(LOG_DEBUG, __VA_ARGS__)
#define log_info(...)  log_fmt(LOG_INFO, __VA_ARGS__)
#define log_warn(...)  log_fmt(LOG_WARN, __VA_ARGS__)
#define log_error(...) log_fmt(LOG_ERROR, __VA_ARGS__)

/* copies; shorter than 6 bytes is ignored; at most 64 kept, oldest dropped */
void log_redact(const char *secret);
/* the same replacement in place, for messages that leave by another way */
void log_redact_text(char *text);

#endif

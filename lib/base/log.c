/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/base/log.h"

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/mem.h"
#include "lib/base/mutex.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define REDACT_MAX     64
#define REDACT_MIN_LEN 6
#define LINE_MAX_BYTES 16384

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static const char *component = "millrace";
static enum log_level threshold = LOG_INFO;
static bool plain;
static char *secrets[REDACT_MAX]; /* mu */
static size_t secrets_next;       /* mu: slot that is overwritten next */

static const char *const level_names[] = {"debug", "info", "warn", "error"};

void log_init(const char *name, enum log_level level)
{
    component = name;
    threshold = level;
}

void log_plain(void) { plain = true; }

int log_level_parse(const char *text, enum log_level *out)
{
    for (size_t i = 0; i < ARRAY_LEN(level_names); i++)
        if (strcmp(text, level_names[i]) == 0) {
            *out = (enum log_level)i;
            return 0;
        }
    return -1;
}

bool log_enabled(enum log_level level) { return level >= threshold; }

void log_redact(const char *secret)
{
    if (!secret || strlen(secret) < REDACT_MIN_LEN)
        return;
    pthread_mutex_lock(&mu);
    for (size_t i = 0; i < REDACT_MAX; i++)
        if (secrets[i] && strcmp(secrets[i], secret) == 0) {
            pthread_mutex_unlock(&mu);
            return;
        }
    free(secrets[secrets_next]);
    secrets[secrets_next] = xstrdup(secret);
    secrets_next = (secrets_next + 1) % REDACT_MAX;
    pthread_mutex_unlock(&mu);
}

static void redact_locked(char *text)
{
    mutex_assert_held(&mu);
    for (size_t i = 0; i < REDACT_MAX; i++) {
        if (!secrets[i])
            continue;
        size_t len = strlen(secrets[i]);
        for (char *at = text; (at = strstr(at, secrets[i]));) {
            memcpy(at, "***", 3);
            memmove(at + 3, at + len, strlen(at + len) + 1);
            at += 3;
        }
    }
}

void log_redact_text(char *text)
{
    pthread_mutex_lock(&mu);
    redact_locked(text);
    pthread_mutex_unlock(&mu);
}

static void emit(struct buf *line)
{
    buf_addc(line, '\n');
    pthread_mutex_lock(&mu);
    char *text = buf_str(line);
    redact_locked(text);
    size_t len = strlen(text);
    if (write(STDERR_FILENO, text, len) < 0) {
    } /* nowhere left to complain */
    pthread_mutex_unlock(&mu);
}

static void begin(struct buf *line, enum log_level level, const char *msg)
{
    if (plain) {
        buf_addf(line, "%s: %s%s", component, level >= LOG_WARN ? level_names[level] : "",
            level >= LOG_WARN ? ": " : "");
        buf_adds(line, msg);
        return;
    }
    char ts[CLOCK_RFC3339_MICRO_LEN];
    clock_rfc3339_micro(clock_real_ns(), ts);
    buf_addf(line, "{\"ts\":\"%s\",\"level\":\"%s\",\"component\":\"%s\",\"msg\":", ts,
        level_names[level], component);
    buf_add_json_string(line, msg);
}

void log_kv(enum log_level level, const char *msg, ...)
{
    if (!log_enabled(level))
        return;
    struct buf line = BUF_INIT(LINE_MAX_BYTES);
    begin(&line, level, msg);
    va_list ap;
    va_start(ap, msg);
    for (const char *key; (key = va_arg(ap, const char *));) {
        const char *value = va_arg(ap, const char *);
        if (!value)
            continue;
        if (plain) {
            buf_addf(&line, " %s=%s", key, value);
        } else {
            buf_addf(&line, ",\"%s\":", key);
            buf_add_json_string(&line, value);
        }
    }
    va_end(ap);
    if (!plain)
        buf_addc(&line, '}');
    emit(&line);
    buf_free(&line);
}

void log_fmt(enum log_level level, const char *fmt, ...)
{
    if (!log_enabled(level))
        return;
    va_list ap;
    va_start(ap, fmt);
    char *msg = xvasprintf(fmt, ap);
    va_end(ap);
    log_kv(level, msg, NULL);
    free(msg);
}

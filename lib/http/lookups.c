/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/lookups.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static int64_t left_at[LOOKUPS_LEFT_MAX]; /* mu: a ring; 0: none */
static size_t oldest;                     /* mu */

void lookups_leave(int64_t now_ns)
{
    pthread_mutex_lock(&mu);
    left_at[oldest] = now_ns;
    oldest = (oldest + 1) % LOOKUPS_LEFT_MAX;
    pthread_mutex_unlock(&mu);
}

bool lookups_hang(int64_t now_ns)
{
    pthread_mutex_lock(&mu);
    bool hang = left_at[oldest] && now_ns - left_at[oldest] < LOOKUP_NS;
    pthread_mutex_unlock(&mu);
    return hang;
}

static bool is_address(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    size_t n = strlen(host);
    bool bracket = n > 2 && host[0] == '[' && host[n - 1] == ']';
    return bracket || inet_pton(AF_INET, host, address) == 1;
}

bool lookups_spares(const char *url)
{
    CURLU *parts = curl_url();
    char *host = NULL;
    bool spares = parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK
        && curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK && is_address(host);
    curl_free(host);
    curl_url_cleanup(parts);
    return spares;
}

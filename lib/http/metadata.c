/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/http/metadata.h"

#include "lib/base/mem.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <netinet/in.h>
#include <string.h>

/* Not all that is link-local: Amazon has servers of its users there, too. */
static const struct {
    const char *address;
    unsigned bytes; /* of it that count */
} services[] = {
    {"169.254.169.0", 3},       /* Amazon, Google, Azure, OpenStack, … */
    {"169.254.170.0", 3},       /* Amazon's containers and pods */
    {"169.254.0.0", 3},         /* Tencent */
    {"168.63.129.16", 4},       /* Azure's machines */
    {"100.100.100.200", 4},     /* Alibaba */
    {"192.0.0.192", 4},         /* Oracle */
    {"169.254.42.42", 4},       /* Scaleway */
    {"fd00:ec2::", 4},          /* Amazon */
    {"fd20:ce::254", 16},       /* Google */
    {"fd00:c1::a9fe:a9fe", 16}, /* Oracle */
    {"fd00:42::42", 16},        /* Scaleway */
    {"fe80::a9fe:a9fe", 16},    /* OpenStack */
    {"fd00:a9fe:a9fe::1", 16},  /* Linode */
    {"fd00:100::100:200", 16},  /* Alibaba */
};

static bool is_one(int family, const void *address)
{
    for (size_t i = 0; i < ARRAY_LEN(services); i++) {
        unsigned char service[sizeof(struct in6_addr)];
        if (inet_pton(family, services[i].address, service) == 1
            && memcmp(service, address, services[i].bytes) == 0)
            return true;
    }
    return false;
}

bool http_is_metadata(const struct sockaddr *to)
{
    if (to->sa_family == AF_INET)
        return is_one(AF_INET, &((const struct sockaddr_in *)(const void *)to)->sin_addr);
    if (to->sa_family != AF_INET6)
        return false;
    const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)to)->sin6_addr;
    static const unsigned char nat64[12] = {0, 0x64, 0xff, 0x9b};
    bool holds_four = IN6_IS_ADDR_V4MAPPED(six) || memcmp(six, nat64, sizeof nat64) == 0;
    return is_one(AF_INET6, six) || (holds_four && is_one(AF_INET, six->s6_addr + 12));
}

static bool is_literal(const char *host)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    size_t n = strlen(host);
    bool bracket = n > 2 && host[0] == '[' && host[n - 1] == ']';
    cleanup_free char *name = xstrndup(host + bracket, n - (bracket ? 2 : 0));
    name[strcspn(name, "%")] = '\0'; /* an interface */
    for (n = strlen(name); n && name[n - 1] == '.';)
        name[--n] = '\0';
    return (inet_aton(name, &four.sin_addr) && http_is_metadata((const struct sockaddr *)&four))
        || (inet_pton(AF_INET6, name, &six.sin6_addr) == 1
            && http_is_metadata((const struct sockaddr *)&six));
}

bool http_names_metadata(const char *url)
{
    CURLU *parts = curl_url();
    char *host = NULL;
    bool is = parts && curl_url_set(parts, CURLUPART_URL, url, 0) == CURLUE_OK
        && curl_url_get(parts, CURLUPART_HOST, &host, 0) == CURLUE_OK && is_literal(host);
    curl_free(host);
    curl_url_cleanup(parts);
    return is;
}

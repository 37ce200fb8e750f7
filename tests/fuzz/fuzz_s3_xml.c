/* SPDX-License-Identifier: Apache-2.0 */
/* Listings, errors and values as a hostile server might send them. */
#include "fuse/store/s3_xml.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    struct s3_page page;
    struct s3_fault fault;
    struct err e = ERR_INIT;
    if (s3_xml_page(text, size, &page, &e) == 0) {
        for (size_t i = 0; i < page.n; i++)
            if (page.items[i].is_prefix && page.items[i].etag && !page.items[i].key)
                abort();
        if (page.next && !*page.next)
            abort();
        s3_page_free(&page);
    } else if (e.cls != ERR_RETRY || page.items || page.next) {
        abort();
    }
    if (s3_xml_fault(text, size, &fault) != (fault.code[0] != '\0'))
        abort();
    char *id, *secret, *token, until[40];
    if (s3_xml_keys(text, size, &id, &secret, &token, until) ? !id || !secret : id || token)
        abort();
    free(id);
    free(secret);
    free(token);
    free(s3_xml_text(text, size, "Error", "Code"));
    return 0;
}

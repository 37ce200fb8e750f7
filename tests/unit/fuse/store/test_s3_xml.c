/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include "fuse/store/s3_xml.h"
#include "lib/base/mem.h"

#include <stdlib.h>
#include <string.h>

static void a_page(void **state)
{
    (void)state;
    static const char text[] =
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
        "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Name>b</Name><Prefix>a/</Prefix>"
        "<NextContinuationToken>1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=</NextContinuationToken>"
        "<EncodingType>url</EncodingType><IsTruncated>true</IsTruncated>"
        "<Contents><Key>a/x+y%2B%01</Key><LastModified>2009-10-12T17:50:30.250Z</LastModified>"
        "<ETag>&quot;fba9dede5f27731c9771645a39863328&quot;</ETag><Size>434234</Size><StorageClass>STANDARD</StorageClass>"
        "<Owner><ID>1</ID><DisplayName>Key</DisplayName></Owner></Contents>"
        "<Contents><Key>a/%00</Key><Size>1</Size></Contents>"
        "<CommonPrefixes><Prefix>a/photos%20/</Prefix></CommonPrefixes><CommonPrefixes><Prefix>a/b/</Prefix></CommonPrefixes>"
        "</ListBucketResult>";
    struct s3_page page;
    struct err e = ERR_INIT;
    assert_int_equal(s3_xml_page(text, strlen(text), &page, &e), 0);
    assert_int_equal(page.n, 4);
    assert_string_equal(page.items[0].key, "a/x y+\x01");
    assert_int_equal(page.items[0].size, 434234);
    assert_int_equal(page.items[0].mtime_ns, INT64_C(1255369830250000000));
    assert_string_equal(page.items[0].etag, "\"fba9dede5f27731c9771645a39863328\"");
    assert_null(page.items[1].key);
    assert_true(page.items[2].is_prefix);
    assert_string_equal(page.items[2].key, "a/photos /");
    assert_string_equal(page.next, "1ueGcxLPRx1Tr/XYExHnhbYLgveDs2J/wm36Hy4vbOwM=");
    s3_page_free(&page);
    for (size_t n = 0; n < strlen(text); n++) { /* cut anywhere: never taken for a whole page */
        assert_int_equal(s3_xml_page(text, n, &page, &e), -1);
        assert_int_equal(e.cls, ERR_RETRY);
    }
}

static void keys_that_are_not_encoded_stay_as_they_are(void **state)
{
    (void)state;
    static const char text[] =
        "<ListBucketResult><EncodingType></EncodingType><Contents><Key>a+b%20&amp;</Key></Contents>"
        "<IsTruncated>false</IsTruncated></ListBucketResult>";
    struct s3_page page;
    struct err e = ERR_INIT;
    assert_int_equal(s3_xml_page(text, strlen(text), &page, &e), 0);
    assert_string_equal(page.items[0].key, "a+b%20&");
    assert_null(page.next);
    s3_page_free(&page);
}

static void what_is_no_page(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "hello", "<html><body/></html>",
        "<Error><Code>X</Code></Error>",
        "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
        "<!DOCTYPE a [<!ENTITY x \"y\">]><ListBucketResult><Name>&x;</Name></ListBucketResult>",
        "<ListBucketResult><a><b><c><d><e><f><g><h><i>1</i></h></g></f></e></d></c></b></a></ListBucketResult>"};
    for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
        struct s3_page page;
        struct err e = ERR_INIT;
        assert_int_equal(s3_xml_page(texts[i], strlen(texts[i]), &page, &e), -1);
    }
    cleanup_free char *lengthy = malloc(100000);
    memset(lengthy, 'k', 100000);
    memcpy(lengthy, "<ListBucketResult><Contents><Key>", 33);
    strcpy(lengthy + 50000, "</Key></Contents></ListBucketResult>");
    struct s3_page page;
    struct err e = ERR_INIT;
    assert_int_equal(s3_xml_page(lengthy, strlen(lengthy), &page, &e), -1);
}

static void faults(void **state)
{
    (void)state;
    static const char text[] =
        "<?xml version=\"1.0\"?>\n<Error><Code>PermanentRedirect</Code><Message>use\nthe other</Message>"
        "<Endpoint>x</Endpoint><Region>eu-west-1</Region><Detail><Code>inner</Code></Detail></Error>";
    struct s3_fault f;
    assert_true(s3_xml_fault(text, strlen(text), &f));
    assert_string_equal(f.code, "PermanentRedirect");
    assert_string_equal(f.message, "use the other");
    assert_string_equal(f.region, "eu-west-1");
    static const char *const services[] = {
        "<ErrorResponse xmlns=\"x\"><Error><Type>Sender</Type><Code>AccessDenied</Code></Error></ErrorResponse>",
        "<ErrorResponse><Errors><Error><Code>AccessDenied</Code></Error></Errors></ErrorResponse>"};
    for (size_t i = 0; i < ARRAY_LEN(services); i++) {
        assert_true(s3_xml_fault(services[i], strlen(services[i]), &f));
        assert_string_equal(f.code, "AccessDenied");
    }
    static const char *const others[] = {"", "<Error/>",
        "<R><Errors><Error><Code>A</Code></Error></Errors></R>", "<Error><Code></Code></Error>",
        "<ok><Code>A</Code></ok>", "<Error><Code>A"};
    for (size_t i = 0; i < ARRAY_LEN(others); i++) {
        assert_false(s3_xml_fault(others[i], strlen(others[i]), &f));
        assert_string_equal(f.code, "");
    }
}

static void single_values(void **state)
{
    (void)state;
    static const char text[] =
        "<InitiateMultipartUploadResult xmlns=\"x\"><Bucket>b</Bucket><UploadId>id&lt;1</UploadId>"
        "</InitiateMultipartUploadResult>";
    cleanup_free char *id = s3_xml_text(
        text, strlen(text), "InitiateMultipartUploadResult", "UploadId");
    assert_string_equal(id, "id<1");
    assert_null(s3_xml_text(text, strlen(text), "InitiateMultipartUploadResult", "Key"));
    assert_null(s3_xml_text(text, strlen(text), "Other", "UploadId"));
    assert_null(s3_xml_text(text, strlen(text) - 3, "InitiateMultipartUploadResult", "UploadId"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_page),
        cmocka_unit_test(keys_that_are_not_encoded_stay_as_they_are),
        cmocka_unit_test(what_is_no_page), cmocka_unit_test(faults),
        cmocka_unit_test(single_values)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}

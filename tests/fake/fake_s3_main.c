/* SPDX-License-Identifier: Apache-2.0 */
/* fake-s3 [--port N] [METHOD:KIND:COUNT …]: the misbehaving S3 server as a program. Prints its URL,
 * runs until its input ends. Lines on its input change it: "METHOD:KIND:COUNT" adds a fault,
 * "clear" ends all, "expire KEYID", "put KEY BYTES [LETTER]" (of that letter, or else of the whole
 * alphabet), "del KEY", "requests METHOD", "faults KIND", "synth PREFIX DIRS FILES BYTES",
 * "google [TOKEN]". */
#include "tests/fake/fake_s3.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int add(struct fake_s3 *f, const char *text)
{
    char method[8], kind[16];
    unsigned count;
    if (sscanf(text, "%7[A-Z]:%15[a-z0-9]:%u", method, kind, &count) == 3
        && fake_s3_fault(f, method, kind, count) == 0)
        return 0;
    fprintf(stderr, "fake-s3: '%s' is no fault; write for example GET:truncated:2\n", text);
    return -1;
}

static void obey(struct fake_s3 *f, char *line)
{
    char word[1100], letter = 0;
    unsigned long n;
    unsigned dirs, files;
    if (strcmp(line, "clear") == 0) {
        fake_s3_clear(f);
    } else if (sscanf(line, "expire %63s", word) == 1) {
        fake_s3_expire(f, word);
    } else if (strncmp(line, "google", 6) == 0) {
        fake_s3_google(f, line[6] ? line + 7 : "");
    } else if (sscanf(line, "put %1024s %lu %c", word, &n, &letter) >= 2) {
        char *data = calloc(1, n + 1);
        for (unsigned long i = 0; data && i < n; i++)
            data[i] = letter ? letter : (char)('a' + i % 26);
        fake_s3_put(f, word, data, n);
        free(data);
    } else if (sscanf(line, "del %1024s", word) == 1) {
        fake_s3_del(f, word);
    } else if (sscanf(line, "synth %63s %u %u %lu", word, &dirs, &files, &n) == 4) {
        fake_s3_synth(f, word, dirs, files, n);
    } else if (sscanf(line, "requests %7s", word) == 1) {
        printf("%u\n", fake_s3_requests(f, word));
        return;
    } else if (sscanf(line, "faults %15s", word) == 1) {
        printf("%u\n", fake_s3_faults(f, word));
        return;
    } else if (add(f, line)) {
        printf("error\n");
        return;
    }
    printf("ok\n");
}

int main(int argc, char **argv)
{
    int at = 1, port = 0;
    if (argc > 2 && strcmp(argv[1], "--port") == 0) {
        port = atoi(argv[2]);
        at = 3;
    }
    struct fake_s3 *f = fake_s3_start(port);
    for (; at < argc; at++)
        if (add(f, argv[at]))
            return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("http://127.0.0.1:%d\n", fake_s3_port(f));
    char line[2048];
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        obey(f, line);
    }
    fake_s3_stop(f);
    return 0;
}

/* SPDX-License-Identifier: Apache-2.0 */
/* What training programs do to a file system, call by call (TensorFlow, Keras, h5py, numpy, sqlite,
 * tar, Spark), with every byte checked. fuse_patterns DIRECTORY          an empty one, in the mount
 */
#include "tests/lib/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#define assert_ok(call)                                 \
    do {                                                \
        if ((call) < 0)                                 \
            fail_msg("%s: %s", #call, strerror(errno)); \
    } while (0)
#define assert_errno(call, number)         \
    do {                                   \
        errno = 0;                         \
        assert_int_equal((call), -1);      \
        assert_int_equal(errno, (number)); \
    } while (0)

static char *bytes(size_t len, unsigned seed)
{
    char *b = malloc(len + 1);
    assert_non_null(b);
    for (size_t i = 0; i < len; i++)
        b[i] = (char)rand_r(&seed);
    return b;
}

static void put(int fd, const char *data, size_t len, size_t chunk)
{
    for (size_t at = 0; at < len; at += chunk) {
        size_t n = len - at < chunk ? len - at : chunk;
        assert_int_equal(write(fd, data + at, n), n);
    }
}

static void write_file(const char *path, int flags, const char *data, size_t len, size_t chunk)
{
    int fd = open(path, O_WRONLY | O_CREAT | flags, 0644);
    assert_ok(fd);
    put(fd, data, len, chunk);
    assert_ok(close(fd));
}

static void expect(const char *path, const char *data, size_t len)
{
    struct stat st;
    int fd = open(path, O_RDONLY);
    assert_ok(fd);
    assert_ok(fstat(fd, &st));
    assert_int_equal(st.st_size, len);
    char *got = malloc(len + 1);
    size_t at = 0;
    for (ssize_t n; (n = read(fd, got + at, len + 1 - at)) > 0; at += (size_t)n)
        continue;
    assert_int_equal(at, len);
    assert_memory_equal(got, data, len);
    free(got);
    close(fd);
}

static void test_record_writer(void **state)
{
    (void)state;
    char *data = bytes(3000000, 1);
    write_file("train.tfrecord", O_TRUNC, data, 3000000, 4096);
    expect("train.tfrecord", data, 3000000);
    int fd = open("train.tfrecord", O_RDONLY);
    char *got = malloc(262144);
    for (off_t at = 0; at < 3000000; at += 262144) {
        ssize_t n = pread(fd, got, 262144, at);
        assert_int_equal(n, 3000000 - at < 262144 ? 3000000 - at : 262144);
        assert_memory_equal(got, data + at, (size_t)n);
    }
    assert_int_equal(pread(fd, got, 10, 3000000), 0);
    close(fd);
    write_file("train.tfrecord", O_TRUNC, data, 10, 10); /* shorter now */
    expect("train.tfrecord", data, 10);
    write_file("train.tfrecord", O_APPEND, data + 10, 90, 7);
    expect("train.tfrecord", data, 100);
    free(got);
    free(data);
}

/* ModelCheckpoint: twice, so that everything exists the second time. */
static void test_checkpoint(void **state)
{
    (void)state;
    for (unsigned step = 1; step <= 2; step++) {
        char *data = bytes(9000000, step), *index = bytes(2000, step + 50), tail[64];
        assert_ok(mkdir("ckpt-1_temp", 0755));
        write_file(
            "ckpt-1_temp/part-00000-of-00001.data.tempstate1", O_TRUNC, data, 9000000, 8 << 20);
        assert_ok(rename("ckpt-1_temp/part-00000-of-00001.data.tempstate1",
            "ckpt-1_temp/part-00000-of-00001.data"));
        write_file("ckpt-1_temp/part.index", O_TRUNC, index, 2000, 512);
        int fd = open("ckpt-1_temp/part.index", O_RDONLY); /* at once: its tail */
        assert_int_equal(pread(fd, tail, sizeof tail, 2000 - (off_t)sizeof tail), sizeof tail);
        assert_memory_equal(tail, index + 2000 - sizeof tail, sizeof tail);
        close(fd);
        assert_ok(rename("ckpt-1_temp/part-00000-of-00001.data", "ckpt-1.data-00000-of-00001"));
        write_file("ckpt-1.index", O_TRUNC, index, 2000, 2000);
        assert_ok(unlink("ckpt-1_temp/part.index"));
        assert_ok(rmdir("ckpt-1_temp"));
        for (int twice = 0; twice < 2; twice++) {
            char text[100];
            int n = snprintf(
                text, sizeof text, "model_checkpoint_path: \"ckpt-1\" step %u.%d", step, twice);
            write_file("checkpoint.tmp0f3a", O_TRUNC, text, (size_t)n, 100);
            assert_ok(rename("checkpoint.tmp0f3a", "checkpoint"));
            expect("checkpoint", text, (size_t)n);
        }
        expect("ckpt-1.data-00000-of-00001", data, 9000000);
        expect("ckpt-1.index", index, 2000);
        assert_errno(access("ckpt-1_temp", F_OK), ENOENT);
        free(data);
        free(index);
    }
    assert_ok(unlink("ckpt-1.data-00000-of-00001"));
    assert_errno(open("ckpt-1.data-00000-of-00001", O_RDONLY), ENOENT);
}

static void test_event_log(void **state)
{
    (void)state;
    char *data = bytes(5000, 3);
    int w = open("events.out", O_WRONLY | O_CREAT | O_TRUNC, 0644),
        r = open("events.out", O_RDONLY);
    assert_ok(w);
    assert_ok(r);
    char got[100];
    for (int i = 0; i < 50; i++) { /* a reader in the same mount sees it grow */
        assert_int_equal(write(w, data + i * 100, 100), 100);
        assert_int_equal(read(r, got, sizeof got), 100);
        assert_memory_equal(got, data + i * 100, 100);
        assert_int_equal(read(r, got, sizeof got), 0);
    }
    assert_ok(close(w));
    expect("events.out", data, 5000);
    close(r);
    free(data);
}

static void test_zip_and_hdf5(void **state)
{
    (void)state;
    char *data = bytes(17000000, 4);
    int fd = open("model.keras", O_RDWR | O_CREAT | O_TRUNC, 0644);
    assert_ok(fd);
    put(fd, data, 17000000, 16700000);
    for (int i = 0; i < 3; i++) { /* headers are patched afterwards */
        memset(data + 1000000 * i, 'p', 44);
        assert_int_equal(pwrite(fd, data + 1000000 * i, 44, 1000000 * i), 44);
    }
    assert_ok(close(fd));
    expect("model.keras", data, 17000000);

    assert_errno(open("weights.h5", O_RDWR), ENOENT);
    fd = open("weights.h5", O_RDWR | O_CREAT | O_TRUNC, 0644);
    assert_ok(fd);
    assert_ok(flock(fd, LOCK_EX | LOCK_NB));
    int other = open("weights.h5", O_RDWR);
    assert_errno(flock(other, LOCK_EX | LOCK_NB), EWOULDBLOCK);
    close(other);
    memset(data, 0, 2000000);
    for (int i = 0; i < 12; i++) { /* holes between */
        memset(data + i * 150000 + 4096, 'a' + i, 5000);
        assert_int_equal(pwrite(fd, data + i * 150000 + 4096, 5000, i * 150000 + 4096), 5000);
    }
    for (int i = 0; i < 30; i++) {
        memset(data + i * 1000, 'A' + i, 500);
        assert_int_equal(pwrite(fd, data + i * 1000, 500, i * 1000), 500);
    }
    size_t len = 11 * 150000 + 4096 + 5000;
    char *got = malloc(len);
    assert_int_equal(pread(fd, got, len, 0), len);
    assert_memory_equal(got, data, len);
    assert_ok(close(fd));
    expect("weights.h5", data, len);
    fd = open("weights.h5", O_RDWR); /* h5py 'a' */
    assert_ok(fd);
    assert_int_equal(pread(fd, got, 100, 200000), 100);
    assert_int_equal(pwrite(fd, "changed", 7, 200000), 7);
    memcpy(data + 200000, "changed", 7);
    assert_ok(close(fd));
    expect("weights.h5", data, len);
    free(got);
    free(data);
}

static void test_mmap(void **state)
{
    (void)state;
    enum { LEN = 1000000 };
    char *data = calloc(1, LEN);
    int fd = open("memmap", O_RDWR | O_CREAT | O_TRUNC, 0644);
    assert_ok(fd);
    assert_int_equal(pwrite(fd, "", 1, LEN - 1), 1);
    char *m = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(m, MAP_FAILED);
    close(fd);
    for (int i = 0; i < 200; i++)
        memset(m + i * 5000, i, 100), memset(data + i * 5000, i, 100);
    assert_ok(msync(m, LEN, MS_SYNC));
    expect("memmap", data, LEN);
    memset(m + 777, 'x', 3000), memset(data + 777, 'x', 3000); /* after the last close() */
    assert_ok(munmap(m, LEN));
    expect("memmap", data, LEN);
    fd = open("memmap", O_RDONLY);
    m = mmap(NULL, LEN, PROT_READ, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(m, MAP_FAILED);
    assert_memory_equal(m, data, LEN);
    munmap(m, LEN);
    close(fd);
    free(data);
}

static void test_atomic_json(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        char text[64];
        int n = snprintf(text, sizeof text, "{\"epoch\": %d}", i),
            fd = open("state.json.tmp", O_WRONLY | O_CREAT | O_TRUNC, 0644);
        assert_ok(fd);
        put(fd, text, (size_t)n, 64);
        assert_ok(fsync(fd));
        assert_ok(close(fd));
        assert_ok(rename("state.json.tmp", "state.json"));
        expect("state.json", text, (size_t)n);
    }
    int fd = open("onlynew", O_WRONLY | O_CREAT | O_EXCL, 0644);
    assert_ok(fd);
    close(fd);
    assert_errno(open("onlynew", O_WRONLY | O_CREAT | O_EXCL, 0644), EEXIST);
    expect("onlynew", "", 0);
}

static void test_open_and_gone(void **state)
{
    (void)state;
    char *data = bytes(400000, 9), *got = malloc(400000);
    int fd = open("scratch", O_RDWR | O_CREAT | O_TRUNC, 0644);
    assert_ok(fd);
    put(fd, data, 200000, 50000);
    assert_ok(unlink("scratch"));
    assert_errno(access("scratch", F_OK), ENOENT);
    put(fd, data + 200000, 200000, 50000);
    assert_int_equal(pread(fd, got, 400000, 0), 400000);
    assert_memory_equal(got, data, 400000);
    struct stat st;
    assert_ok(fstat(fd, &st));
    assert_int_equal(st.st_nlink, 0);
    assert_ok(close(fd));

    fd = open("moving", O_RDWR | O_CREAT | O_TRUNC, 0644); /* renamed while it is written */
    put(fd, data, 100000, 10000);
    assert_ok(rename("moving", "moved"));
    put(fd, data + 100000, 100000, 10000);
    assert_ok(close(fd));
    expect("moved", data, 200000);
    assert_errno(access("moving", F_OK), ENOENT);

    fd = open("moved", O_RDONLY); /* written over while it is read */
    assert_int_equal(read(fd, got, 1000), 1000);
    write_file("moved.new", O_TRUNC, data + 5, 300, 300);
    assert_ok(rename("moved.new", "moved"));
    expect("moved", data + 5, 300);
    assert_ok(fstat(fd, &st));
    assert_int_equal(st.st_size, 200000);
    close(fd);
    free(got);
    free(data);
}

static void test_truncate(void **state)
{
    (void)state;
    char *data = bytes(100000, 11);
    write_file("t", O_TRUNC, data, 100000, 100000);
    assert_ok(truncate("t", 70000));
    expect("t", data, 70000);
    assert_ok(truncate("t", 90000));
    memset(data + 70000, 0, 20000);
    expect("t", data, 90000);
    int fd = open("t", O_RDWR);
    assert_ok(ftruncate(fd, 0));
    assert_int_equal(pwrite(fd, "end", 3, 50), 3);
    assert_ok(close(fd));
    memset(data, 0, 50);
    memcpy(data + 50, "end", 3);
    expect("t", data, 53);
    free(data);
}

static void test_tar(void **state)
{
    (void)state;
    struct stat st;
    write_file("script.sh", O_TRUNC, "#!/bin/sh\n", 10, 10);
    assert_ok(chmod("script.sh", 0755));
    struct timespec times[2] = {{1000, 0}, {1234567890, 5}};
    assert_ok(utimensat(AT_FDCWD, "script.sh", times, 0));
    if (geteuid() == 0)
        assert_ok(chown("script.sh", 12, 34));
    assert_ok(stat("script.sh", &st));
    assert_int_equal(st.st_mode & 07777, 0755);
    assert_int_equal(st.st_mtim.tv_sec, 1234567890);
    if (geteuid() == 0)
        assert_int_equal(st.st_gid, 34);
    char target[10];
    assert_ok(symlink("script.sh", "link"));
    assert_int_equal(readlink("link", target, sizeof target), 9);
    assert_memory_equal(target, "script.sh", 9);
    expect("link", "#!/bin/sh\n", 10);
    assert_ok(unlink("link"));
    assert_errno(link("script.sh", "hard"), EOPNOTSUPP);
    assert_errno(mkfifo("fifo", 0644), EOPNOTSUPP);
    assert_errno(readlink("script.sh", target, sizeof target), EINVAL);
    assert_errno(getxattr("script.sh", "user.any", target, sizeof target), ENODATA);
    assert_errno(setxattr("script.sh", "user.any", "x", 1, 0), EOPNOTSUPP);
}

static unsigned count_dir(const char *path)
{
    DIR *d = opendir(path);
    unsigned n = 0;
    assert_non_null(d);
    for (struct dirent *de; (de = readdir(d));)
        n += strcmp(de->d_name, ".") != 0 && strcmp(de->d_name, "..") != 0;
    closedir(d);
    return n;
}

static void test_spark(void **state)
{
    (void)state;
    assert_ok(mkdir("out", 0755));
    assert_ok(mkdir("out/_temporary", 0755));
    assert_ok(mkdir("out/_temporary/0", 0755));
    assert_ok(mkdir("out/_temporary/0/attempt", 0755));
    write_file("out/_temporary/0/attempt/part-0", O_TRUNC, "zero", 4, 4);
    write_file("out/_temporary/0/attempt/.part-0.crc", O_TRUNC, "crc", 3, 3);
    assert_ok(mkdir("out/_temporary/0/attempt/sub", 0755));
    assert_ok(rename("out/_temporary/0/attempt", "out/_temporary/0/task"));
    expect("out/_temporary/0/task/part-0", "zero", 4);
    assert_ok(rename("out/_temporary/0/task/part-0", "out/part-0"));
    assert_ok(rename("out/_temporary/0/task/.part-0.crc", "out/.part-0.crc"));
    assert_errno(unlink("out/_temporary"), EISDIR);
    assert_errno(rmdir("out/_temporary"), ENOTEMPTY);
    assert_errno(rmdir("out/part-0"), ENOTDIR);
    assert_errno(rename("out/part-0", "out/_temporary"), EISDIR);
    assert_errno(rename("out/_temporary", "out/part-0"), ENOTDIR);
    assert_errno(rename("out/_temporary", "out/_temporary/0/x"), EINVAL);
    assert_errno(mkdir("out", 0755), EEXIST);
    assert_errno(rename("nothing", "out/x"), ENOENT);
    assert_ok(rmdir("out/_temporary/0/task/sub"));
    assert_ok(rmdir("out/_temporary/0/task"));
    assert_ok(rmdir("out/_temporary/0"));
    assert_ok(rmdir("out/_temporary"));
    write_file("out/_SUCCESS", O_TRUNC, "", 0, 1);
    assert_int_equal(count_dir("out"), 3);
    expect("out/part-0", "zero", 4);
}

static void test_sendfile(void **state)
{
    (void)state;
    char *data = bytes(2000000, 21);
    write_file("from", O_TRUNC, data, 2000000, 1 << 20);
    int from = open("from", O_RDONLY), to = open("to", O_WRONLY | O_CREAT | O_TRUNC, 0644);
    for (ssize_t n; (n = sendfile(to, from, NULL, 1 << 20)) > 0;)
        continue;
    assert_ok(close(to));
    close(from);
    expect("to", data, 2000000);
    free(data);
}

static void test_many(void **state)
{
    (void)state;
    char name[300], longest[256];
    assert_ok(mkdir("many", 0755));
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "many/file %d \xc3\xa9 %%+&#?", i);
        write_file(name, O_TRUNC, name, strlen(name), 100);
    }
    assert_int_equal(count_dir("many"), 300);
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "many/file %d \xc3\xa9 %%+&#?", i);
        expect(name, name, strlen(name));
    }
    memset(longest, 'n', 255);
    longest[255] = '\0';
    write_file(longest, O_TRUNC, "long", 4, 4);
    expect(longest, "long", 4);
    snprintf(name, sizeof name, "%sx", longest);
    assert_errno(open(name, O_WRONLY | O_CREAT, 0644), ENAMETOOLONG);
    /* rm -r: read a few, remove them, read on */
    DIR *d = opendir("many");
    for (struct dirent *de; (de = readdir(d));)
        if (de->d_name[0] != '.')
            assert_ok(unlinkat(dirfd(d), de->d_name, 0));
    closedir(d);
    assert_ok(rmdir("many"));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_record_writer),
        cmocka_unit_test(test_checkpoint),
        cmocka_unit_test(test_event_log),
        cmocka_unit_test(test_zip_and_hdf5),
        cmocka_unit_test(test_mmap),
        cmocka_unit_test(test_atomic_json),
        cmocka_unit_test(test_open_and_gone),
        cmocka_unit_test(test_truncate),
        cmocka_unit_test(test_tar),
        cmocka_unit_test(test_spark),
        cmocka_unit_test(test_sendfile),
        cmocka_unit_test(test_many),
    };
    if (argc != 2 || chdir(argv[1])) {
        fprintf(stderr, "fuse_patterns DIRECTORY\n");
        return 2;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* An index file that something has written into, with a checksum that fits: it is made anew (or
 * refused, if the kernel knows ids of it), or everything that it holds can be listed, found,
 * changed and removed, and the next mount trusts it again. Input: a byte of bits (1: the mount is
 * taken over, 2: the process was killed, 4: in the middle of a change), then 8 bytes for each place
 * that is overwritten: region (2 bits; 4: a byte only), 0, offset and value, little-endian. */
#include "fuse/index/format.h"
#include "lib/base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PART (16u << 10) /* bytes of each region that input can reach */
#define CHECK(cond)                                            \
    do                                                         \
        if (!(cond)) {                                         \
            fprintf(stderr, "line %d: %s\n", __LINE__, #cond); \
            abort();                                           \
        }                                                      \
    while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const off_t at[4] = {0, 1 << 20, INT64_C(24) << 30, INT64_C(56) << 30};
static unsigned char sound[4][PART], parts[4][PART];
static char path[40];
static int file = -1;

static struct inodes *open_index(bool resume, bool *fresh)
{
    struct inodes_conf c = {.path = path,
        .identity = 1,
        .resume = resume,
        .dir_mode = 0755,
        .file_mode = 0644,
        .nmounts = 2};
    struct err e = ERR_INIT;
    struct inodes *ix = inodes_open(&c, fresh, &e);
    CHECK(ix || (resume && e.cls == ERR_FATAL && *e.msg));
    return ix;
}

static uint64_t put(struct inodes *ix, uint64_t dir, const char *name, const char *version)
{
    struct store_stat st = {.is_dir = !version, .size = 7, .mtime_ns = 1};
    struct inode n;
    struct err e = ERR_INIT;
    enum inodes_change change;
    if (version)
        snprintf(st.version, sizeof st.version, "%s", version);
    CHECK(inodes_put(ix, dir, name, &st, INODES_NOW, 1, &n, &change, &e) == 0);
    return n.ino;
}

/* An index with every kind of record in it, as it is on disk after a mount that ended well. */
static void make_sound(void)
{
    bool fresh;
    file = memfd_create("index", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    struct inodes *ix = open_index(false, &fresh);
    inodes_mount(ix, INODE_ROOT, 0);
    uint64_t a = put(ix, INODE_ROOT, "a", NULL), b = put(ix, a, "b", NULL),
             gone = put(ix, b, "gone", "\"odd, and too long to be packed into a record\"");
    inodes_mount(ix, put(ix, INODE_ROOT, "other", NULL), 1);
    put(ix, a, "hex", "d41d8cd98f00b204e9800998ecf8427e");
    put(ix, a, "parts", "d41d8cd98f00b204e9800998ecf8427e-12");
    put(ix, b, "numbers", "1234567890123-1234567890123456789");
    put(ix, b, "text", "v1");
    put(ix, b, "a name of more than eight bytes", "another odd version, \"longer\" than 20");
    put(ix, b, "none", "");
    put(ix, INODE_ROOT, "removed", "\"another odd one, and too long to be packed\"");
    inodes_remove(ix, gone);
    inodes_remove(ix, put(ix, INODE_ROOT, "removed", ""));
    uint64_t open = put(ix, b, "open", "v2");
    inodes_ref(ix, open);
    inodes_remove(ix, open); /* gone, but not forgotten */
    inodes_close(ix, true);
    for (int i = 0; i < 4; i++)
        CHECK(pread(file, sound[i], PART, at[i]) == PART);
}

/* As inodes_close() does. */
static void seal(void)
{
    struct index_head *h = (struct index_head *)parts[0], plain;
    if (h->nrecs > PART / sizeof(struct rec) || h->heap_units > PART / 8 || h->nbuckets > PART / 4)
        return;
    memcpy(&plain, h, sizeof plain);
    plain.clean = plain.sum = 0;
    uint32_t crc = crc32c(0, &plain, offsetof(struct index_head, life));
    crc = crc32c(crc, parts[1], h->nrecs * sizeof(struct rec));
    crc = crc32c(crc, parts[2], (size_t)h->heap_units * 8);
    h->sum = crc32c(crc, parts[3], h->nbuckets * sizeof(uint32_t));
}

static void write_file(const uint8_t *data, size_t size)
{
    struct index_head *h = (struct index_head *)parts[0];
    unsigned bits = size ? data[0] : 0;
    memcpy(parts, sound, sizeof parts);
    h->clean = !(bits & 2);
    h->busy = !!(bits & 4);
    for (size_t i = 1; i + 8 <= size; i += 8) {
        uint16_t offset;
        memcpy(&offset, data + i + 2, sizeof offset);
        memcpy(parts[data[i] & 3] + offset % (PART - 4), data + i + 4, data[i] & 4 ? 1 : 4);
    }
    seal();
    CHECK(ftruncate(file, 0) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pwrite(file, parts[i], PART, at[i]) == PART);
}

struct seen {
    struct inodes *ix;
    uint64_t ino[PART / sizeof(struct rec) + 8];
    size_t n;
    uint64_t dir;
    char name[INODE_NAME_MAX + 1];
    unsigned children;
};

static int see(void *user, const char *name, const struct inode *child, uint64_t cookie)
{
    struct seen *s = user;
    CHECK(s->n < sizeof s->ino / sizeof *s->ino);
    CHECK(child->parent == s->dir && child->cookie == cookie
        && strlen(child->version) < STORE_VERSION_MAX && *name && !strchr(name, '/'));
    CHECK(child->mount < 2 || child->mount == INODE_NO_MOUNT);
    s->ino[s->n++] = child->ino;
    s->children++;
    strcpy(s->name, name);
    return 0;
}

static void use(struct inodes *ix)
{
    static struct seen s;
    static char where[INODE_PATH_MAX];
    struct inodes_stats st;
    struct inode n;
    struct err e = ERR_INIT;
    s = (struct seen){.ix = ix, .ino = {INODE_ROOT}, .n = 1};
    for (size_t i = 0; i < s.n; i++) { /* the whole tree */
        unsigned mount;
        CHECK(inodes_get(ix, s.ino[i], &n) == 0);
        inodes_path(ix, s.ino[i], where, &mount, &e);
        CHECK(inodes_path_below(ix, s.ino[i], INODE_ROOT, where)
            && inodes_below(ix, s.ino[i], INODE_ROOT));
        unsigned children = n.nchildren;
        s.dir = s.ino[i];
        s.children = 0;
        inodes_children(ix, s.dir, 0, i % 2, see, &s);
        CHECK(s.children == children);
        if (children)
            CHECK(inodes_find(ix, s.dir, s.name, &n) && n.ino == s.ino[s.n - 1]);
        inodes_get(ix, s.ino[i], &n);
        if (n.flags & INODE_DIR)
            put(ix, s.ino[i], "a new name", "a new version that has no place in the record");
    }
    /* also those without a name */
    for (uint64_t ino = 0; ino < PART / sizeof(struct rec) + 2; ino++)
        if (inodes_get(ix, ino, &n) == 0 && inodes_opened(ix, ino, 1))
            inodes_opened(ix, ino, -1);
    if (s.n > 2 && inodes_rename(ix, s.ino[s.n - 1], INODE_ROOT, "moved", &e) == 0)
        CHECK(inodes_find(ix, INODE_ROOT, "moved", &n) && n.ino == s.ino[s.n - 1]);
    inodes_listed(ix, INODE_ROOT, INODES_NOW, 100, NULL, NULL);
    for (size_t i = 0; i < s.n; i += 3)
        if (s.ino[i] != INODE_ROOT)
            inodes_remove(ix, s.ino[i]);
    inodes_stats(ix, &st);
    CHECK(st.inodes >= 1 && st.inodes <= st.records);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool fresh, resume = size && (data[0] & 1);
    if (file < 0)
        make_sound();
    write_file(data, size);
    struct inodes *ix = open_index(resume, &fresh);
    if (!ix)
        return 0;
    CHECK(!fresh || size > 1 || (data && data[0] & 6)); /* the sound one is trusted */
    use(ix);
    bool other = ix->h->dirty || ix->h->version == INDEX_VERSION_EDITED;
    inodes_close(ix, true);
    ix = open_index(false, &fresh);
    CHECK(fresh == other);
    inodes_close(ix, true);
    return 0;
}

/*
 * A disk that forgets at a power cut what was not synced: preloaded into the programs (LD_PRELOAD), it notes before
 * each call that changes a file below one directory how to take it back, and each sync. power.rs takes back what no
 * sync covers.
 *
 * POWER names a directory beside it, on the same file system: `journal` has the notes, `keep/INODE` a link to every
 * file that was changed or replaced. POWER_ROOT is the directory that forgets.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC, SYNC_DIR, CREATE, MAKE, LINK, UNLINK, REMOVE_DIR, RENAME };

struct note {
    uint32_t kind, path_size, other_size, data_size;
    uint64_t inode, other_inode, offset, size;
};

static char root[4096], keep[4096];
static size_t root_size;
static int journal = -1;

__attribute__((constructor)) static void begin(void) {
    const char *beside = getenv("POWER"), *below = getenv("POWER_ROOT");
    char path[4200];
    if (!beside || !below)
        return;
    root_size = (size_t)snprintf(root, sizeof root, "%s/", below);
    snprintf(keep, sizeof keep, "%s/keep", beside);
    snprintf(path, sizeof path, "%s/journal", beside);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    /* Out of the way of programs that count on low numbers. */
    journal = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 200);
    if (fd >= 0)
        syscall(SYS_close, fd);
}

static int forgets(const char *path) {
    if (journal < 0 || strncmp(path, root, root_size) != 0)
        return 0;
    size_t size = strlen(path);
    /* Shared memory of SQLite is no file that it relies on after a crash. */
    return size < 4 || strcmp(path + size - 4, "-shm") != 0;
}

/* Returns whether it is a file that forgets; its path is then in `path`. */
static int forgets_fd(int fd, char *path, struct stat *is) {
    char link[64];
    if (journal < 0 || fstat(fd, is) != 0 || !(S_ISREG(is->st_mode) || S_ISDIR(is->st_mode)))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long size = syscall(SYS_readlinkat, AT_FDCWD, link, path, 4095);
    if (size <= 0)
        return 0;
    path[size] = 0;
    /* The root itself is synced, too. */
    return forgets(path) || (S_ISDIR(is->st_mode) && strncmp(path, root, root_size - 1) == 0 && (size_t)size == root_size - 1);
}

/* A relative path becomes a whole one. */
static const char *whole(int dir, const char *path, char *into) {
    char link[64];
    if (path[0] == '/')
        return path;
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    long size = syscall(SYS_readlinkat, AT_FDCWD, dir == AT_FDCWD ? "/proc/self/cwd" : link, into, 4095);
    if (size <= 0)
        return path;
    snprintf(into + size, 8300 - (size_t)size, "/%s", path);
    return into;
}

static void note(struct note *note, const char *path, const char *other, const void *data) {
    note->path_size = path ? (uint32_t)strlen(path) : 0;
    note->other_size = other ? (uint32_t)strlen(other) : 0;
    struct iovec parts[] = {
        {note, sizeof *note}, {(void *)path, note->path_size}, {(void *)other, note->other_size}, {(void *)data, note->data_size}};
    /* One call, appended: notes of several threads and programs do not mix. */
    syscall(SYS_writev, journal, parts, 4);
}

static void keeps(const char *from, uint64_t inode, int flags) {
    char to[4200];
    snprintf(to, sizeof to, "%s/%llu", keep, (unsigned long long)inode);
    syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, flags);
}

/* Bytes from `offset` on are about to be replaced, `size` at most, or cut off. */
static void changes(int fd, int64_t offset, size_t size) {
    char path[4200], link[64];
    struct stat is;
    int saved = errno;
    if (forgets_fd(fd, path, &is) && S_ISREG(is.st_mode)) {
        if (offset == -1)
            offset = fcntl(fd, F_GETFL) & O_APPEND ? is.st_size : lseek(fd, 0, SEEK_CUR);
        size_t old = offset < is.st_size ? (size_t)(is.st_size - offset) : 0;
        old = old < size ? old : size;
        char *data = old ? malloc(old) : NULL;
        struct note of = {.kind = WRITE, .inode = is.st_ino, .offset = (uint64_t)offset, .size = (uint64_t)is.st_size};
        if (data) {
            /* The program may only write to it. */
            snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
            int again = (int)syscall(SYS_openat, AT_FDCWD, link, O_RDONLY | O_CLOEXEC);
            long count = syscall(SYS_pread64, again, data, old, offset);
            of.data_size = count > 0 ? (uint32_t)count : 0;
            syscall(SYS_close, again);
        }
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        keeps(link, is.st_ino, AT_SYMLINK_FOLLOW);
        note(&of, NULL, NULL, data);
        free(data);
    }
    errno = saved;
}

static void syncs(int fd) {
    char path[4200];
    struct stat is;
    int saved = errno;
    if (forgets_fd(fd, path, &is)) {
        struct note of = {.kind = S_ISDIR(is.st_mode) ? SYNC_DIR : SYNC, .inode = is.st_ino};
        note(&of, path, NULL, NULL);
    }
    errno = saved;
}

/* A name is about to appear or to go. */
static void names(int kind, int dir, const char *path) {
    char buffer[8300];
    struct stat is;
    int saved = errno;
    path = whole(dir, path, buffer);
    if (forgets(path)) {
        int there = lstat(path, &is) == 0;
        struct note of = {.kind = (uint32_t)kind, .inode = there ? is.st_ino : 0};
        int fits = (kind == UNLINK || kind == REMOVE_DIR) == there;
        if (fits && kind == UNLINK)
            keeps(path, is.st_ino, 0);
        if (fits)
            note(&of, path, NULL, NULL);
    }
    errno = saved;
}

static void renames(int from_dir, const char *from, int to_dir, const char *to) {
    char one[8300], two[8300];
    struct stat is, was;
    int saved = errno;
    from = whole(from_dir, from, one);
    to = whole(to_dir, to, two);
    if ((forgets(from) || forgets(to)) && lstat(from, &is) == 0) {
        struct note of = {.kind = RENAME, .inode = is.st_ino};
        if (lstat(to, &was) == 0) {
            of.other_inode = was.st_ino;
            keeps(to, was.st_ino, 0);
        }
        note(&of, from, to, NULL);
    }
    errno = saved;
}

static void links(int from_dir, const char *from, int to_dir, const char *to) {
    char one[8300], two[8300];
    struct stat is;
    int saved = errno;
    from = whole(from_dir, from, one);
    to = whole(to_dir, to, two);
    if (forgets(to) && lstat(from, &is) == 0 && access(to, F_OK) != 0) {
        struct note of = {.kind = LINK, .inode = is.st_ino};
        note(&of, to, NULL, NULL);
    }
    errno = saved;
}

#define CALL(type, name, declared, types, call, before)                                                         \
    type name declared {                                                                                        \
        static type(*real) types;                                                                               \
        if (!real)                                                                                              \
            real = (type(*) types)dlsym(RTLD_NEXT, #name);                                                      \
        before;                                                                                                 \
        return real call;                                                                                       \
    }
#define ALL SIZE_MAX

CALL(ssize_t, write, (int fd, const void *bytes, size_t size), (int, const void *, size_t), (fd, bytes, size), changes(fd, -1, size))
CALL(ssize_t, writev, (int fd, const struct iovec *parts, int count), (int, const struct iovec *, int), (fd, parts, count), changes(fd, -1, ALL))
CALL(ssize_t, pwrite, (int fd, const void *bytes, size_t size, off_t at), (int, const void *, size_t, off_t), (fd, bytes, size, at), changes(fd, at, size))
CALL(ssize_t, pwrite64, (int fd, const void *bytes, size_t size, off64_t at), (int, const void *, size_t, off64_t), (fd, bytes, size, at), changes(fd, at, size))
CALL(int, ftruncate, (int fd, off_t size), (int, off_t), (fd, size), changes(fd, size, ALL))
CALL(int, ftruncate64, (int fd, off64_t size), (int, off64_t), (fd, size), changes(fd, size, ALL))
CALL(ssize_t, copy_file_range, (int in, off64_t *in_at, int out, off64_t *out_at, size_t size, unsigned flags), (int, off64_t *, int, off64_t *, size_t, unsigned), (in, in_at, out, out_at, size, flags), changes(out, out_at ? *out_at : -1, ALL))
CALL(int, fsync, (int fd), (int), (fd), syncs(fd))
CALL(int, fdatasync, (int fd), (int), (fd), syncs(fd))
CALL(int, mkdir, (const char *path, mode_t mode), (const char *, mode_t), (path, mode), names(MAKE, AT_FDCWD, path))
CALL(int, mkdirat, (int dir, const char *path, mode_t mode), (int, const char *, mode_t), (dir, path, mode), names(MAKE, dir, path))
CALL(int, rmdir, (const char *path), (const char *), (path), names(REMOVE_DIR, AT_FDCWD, path))
CALL(int, unlink, (const char *path), (const char *), (path), names(UNLINK, AT_FDCWD, path))
CALL(int, unlinkat, (int dir, const char *path, int flags), (int, const char *, int), (dir, path, flags), names(flags & AT_REMOVEDIR ? REMOVE_DIR : UNLINK, dir, path))
CALL(int, rename, (const char *from, const char *to), (const char *, const char *), (from, to), renames(AT_FDCWD, from, AT_FDCWD, to))
CALL(int, renameat, (int dir, const char *from, int to_dir, const char *to), (int, const char *, int, const char *), (dir, from, to_dir, to), renames(dir, from, to_dir, to))
CALL(int, link, (const char *from, const char *to), (const char *, const char *), (from, to), links(AT_FDCWD, from, AT_FDCWD, to))
CALL(int, linkat, (int dir, const char *from, int to_dir, const char *to, int flags), (int, const char *, int, const char *, int), (dir, from, to_dir, to, flags), links(dir, from, to_dir, to))

/* Opening makes a name, and may cut a file off. */
static void opens(int dir, const char *path, int flags) {
    if (flags & O_CREAT)
        names(CREATE, dir, path);
    if (!(flags & O_TRUNC))
        return;
    char buffer[8300];
    const char *at = whole(dir, path, buffer);
    int saved = errno;
    int fd = forgets(at) ? (int)syscall(SYS_openat, AT_FDCWD, at, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd >= 0) {
        changes(fd, 0, ALL);
        syscall(SYS_close, fd);
    }
    errno = saved;
}

#define OPEN(name, declared, types, dir, path, call)                                                            \
    int name declared {                                                                                         \
        static int(*real) types;                                                                                \
        if (!real)                                                                                              \
            real = (int(*) types)dlsym(RTLD_NEXT, #name);                                                       \
        va_list rest;                                                                                           \
        va_start(rest, flags);                                                                                  \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;                                 \
        va_end(rest);                                                                                           \
        opens(dir, path, flags);                                                                                \
        return real call;                                                                                       \
    }
OPEN(open, (const char *path, int flags, ...), (const char *, int, ...), AT_FDCWD, path, (path, flags, mode))
OPEN(open64, (const char *path, int flags, ...), (const char *, int, ...), AT_FDCWD, path, (path, flags, mode))
OPEN(openat, (int dir, const char *path, int flags, ...), (int, const char *, int, ...), dir, path, (dir, path, flags, mode))
OPEN(openat64, (int dir, const char *path, int flags, ...), (int, const char *, int, ...), dir, path, (dir, path, flags, mode))

/*
 * A machine that fails when it is told to: preloaded into a program (LD_PRELOAD), it counts the calls that
 * change, read and open files below one directory, that use sockets (to elsewhere, and
 * between processes), that need a descriptor, and that start
 * threads and programs, in all threads together, and lets some of them fail.
 *
 * FAULTS names the control file, which is mapped; its layout stands in faults.rs. FAULTS_ROOT is the
 * directory. Files in its state/logs/ do not count: they say what happened. FAULTS_PROGRAM is the program it is
 * for, by default agent-daemon.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { WRITE = 1, SYNC = 2, CREATE = 4, RENAME = 8, REMOVE = 16, CUT = 32, MAKE = 64 };
enum { READ = 128, DESCRIPTOR = 256, SOCKET = 512, START = 1024, LOCAL = 2048 };
enum { KILL = -1, SHORT = -2, TORN = -3, PASS = -4 };

static struct control {
    atomic_int armed, families, action, from, until, count, hits;
} *control;
static char root[4096], told[4096];

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("FAULTS"), *below = getenv("FAULTS_ROOT");
    const char *program = getenv("FAULTS_PROGRAM");
    /* Commands that the daemon starts, and the other programs, are spared, unless one is named. */
    if (!file || !below || strcmp(program_invocation_short_name, program ? program : "agent-daemon") != 0)
        return;
    snprintf(root, sizeof root, "%s/", below);
    snprintf(told, sizeof told, "%s.log", file);
    int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    void *map = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (map != MAP_FAILED)
        control = map;
}

static int counts(int family) {
    return control && atomic_load(&control->armed) && (atomic_load(&control->families) & family);
}

/* Returns what is to become of a call that counts: 0 it is made, an error's number, SHORT. */
static int fate_counted(const char *name, const char *what) {
    int number = atomic_fetch_add(&control->count, 1) + 1;
    int hit = number >= atomic_load(&control->from) && number <= atomic_load(&control->until);
    char line[4300];
    int size = snprintf(line, sizeof line, "%d %s %s%s\n", number, name, what, hit ? " <-" : "");
    int fd = (int)syscall(SYS_openat, AT_FDCWD, told, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) {
        syscall(SYS_write, fd, line, size);
        syscall(SYS_close, fd);
    }
    if (!hit)
        return 0;
    int first = atomic_fetch_add(&control->hits, 1) == 0;
    int action = atomic_load(&control->action);
    if (action == KILL)
        raise(SIGKILL);
    if (action == TORN)
        return first ? SHORT : ENOSPC;
    return action == PASS ? 0 : action;
}

/* What a call does with no file of ours. */
static int fate_bare(int family, const char *name) {
    return counts(family) ? fate_counted(name, "-") : 0;
}

static int fate(int family, const char *name, const char *path) {
    if (!counts(family))
        return 0;
    size_t length = strlen(root);
    if (strncmp(path, root, length) != 0 || strncmp(path + length, "state/logs/", 11) == 0)
        return 0;
    return fate_counted(name, path + length);
}

static int fate_of(int family, const char *name, int fd) {
    if (!counts(family | SOCKET | LOCAL))
        return 0;
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    long size = syscall(SYS_readlinkat, AT_FDCWD, link, path, sizeof path - 1);
    if (size <= 0)
        return 0;
    path[size] = 0;
    if (strncmp(path, "socket:", 7) == 0) {
        int domain = AF_UNIX;
        socklen_t room = sizeof domain;
        getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &room);
        /* What a signal handler tells the event loop of its own process is never refused by a kernel, and has no second try;
         * and no kernel interrupts the loop that reads it without waiting. */
        struct ucred peer = {0};
        room = sizeof peer;
        int is_own = domain == AF_UNIX && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &room) == 0 && peer.pid == getpid();
        if (is_own && (strcmp(name, "send") == 0 || strcmp(name, "write") == 0 || strcmp(name, "recv") == 0 || strcmp(name, "read") == 0))
            return 0;
        return fate_bare(domain == AF_UNIX ? LOCAL : SOCKET, name);
    }
    return fate(family, name, path);
}

static int fate_at(int family, const char *name, int dir, const char *path) {
    char whole[8300], link[64];
    if (path[0] == '/' || dir == AT_FDCWD)
        return fate(family, name, path);
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    long size = syscall(SYS_readlinkat, AT_FDCWD, link, whole, 4096);
    if (size <= 0)
        return 0;
    snprintf(whole + size, sizeof whole - size, "/%s", path);
    return fate(family, name, whole);
}

/* A file that is opened: it may be made, and it needs a descriptor. */
static int fate_open(const char *name, int dir, const char *path, int flags) {
    int why = flags & O_CREAT ? fate_at(CREATE, name, dir, path) : 0;
    return why ? why : fate_at(DESCRIPTOR, name, dir, path);
}

#define REAL(type, name, ...)                                                                                   \
    static type (*real)(__VA_ARGS__);                                                                           \
    if (!real)                                                                                                  \
        real = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)
#define FAILS(of)                                                                                               \
    do {                                                                                                        \
        int failure = of;                                                                                       \
        if (failure > 0) {                                                                                      \
            errno = failure;                                                                                    \
            return -1;                                                                                          \
        }                                                                                                       \
    } while (0)

ssize_t write(int fd, const void *bytes, size_t size) {
    REAL(ssize_t, "write", int, const void *, size_t);
    int why = fate_of(WRITE, "write", fd);
    if (why == SHORT)
        return real(fd, bytes, size > 1 ? size / 2 : size);
    FAILS(why);
    return real(fd, bytes, size);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off_t at) {
    REAL(ssize_t, "pwrite64", int, const void *, size_t, off_t);
    int why = fate_of(WRITE, "pwrite", fd);
    if (why == SHORT)
        return real(fd, bytes, size > 1 ? size / 2 : size, at);
    FAILS(why);
    return real(fd, bytes, size, at);
}

ssize_t writev(int fd, const struct iovec *parts, int count) {
    REAL(ssize_t, "writev", int, const struct iovec *, int);
    int why = fate_of(WRITE, "writev", fd);
    if (why != SHORT)
        FAILS(why);
    return real(fd, parts, count);
}

#define ONE(family, name, declared, types, call, of)                                                           \
    int name declared {                                                                                         \
        static int(*real) types;                                                                                \
        if (!real)                                                                                              \
            real = (int(*) types)dlsym(RTLD_NEXT, #name);                                                       \
        FAILS(of);                                                                               \
        return real call;                                                                                       \
    }

ONE(SYNC, fsync, (int fd), (int), (fd), fate_of(SYNC, "fsync", fd))
ONE(SYNC, fdatasync, (int fd), (int), (fd), fate_of(SYNC, "fdatasync", fd))
ONE(CUT, ftruncate64, (int fd, off_t size), (int, off_t), (fd, size), fate_of(CUT, "ftruncate", fd))
ONE(RENAME, rename, (const char *from, const char *to), (const char *, const char *), (from, to), fate(RENAME, "rename", to))
ONE(RENAME, renameat, (int dir, const char *from, int to_dir, const char *to), (int, const char *, int, const char *), (dir, from, to_dir, to), fate_at(RENAME, "renameat", to_dir, to))
ONE(REMOVE, unlink, (const char *path), (const char *), (path), fate(REMOVE, "unlink", path))
ONE(REMOVE, rmdir, (const char *path), (const char *), (path), fate(REMOVE, "rmdir", path))
ONE(REMOVE, unlinkat, (int dir, const char *path, int flags), (int, const char *, int), (dir, path, flags), fate_at(REMOVE, "unlinkat", dir, path))
ONE(MAKE, mkdir, (const char *path, mode_t mode), (const char *, mode_t), (path, mode), fate(MAKE, "mkdir", path))

ONE(MAKE, mkdirat, (int dir, const char *path, mode_t mode), (int, const char *, mode_t), (dir, path, mode), fate_at(MAKE, "mkdirat", dir, path))
ONE(MAKE, linkat, (int dir, const char *from, int to_dir, const char *to, int flags), (int, const char *, int, const char *, int), (dir, from, to_dir, to, flags), fate_at(MAKE, "linkat", to_dir, to))

#define OPEN(name)                                                                                              \
    int name(const char *path, int flags, ...) {                                                                \
        static int (*real)(const char *, int, ...);                                                             \
        if (!real)                                                                                              \
            real = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name);                                    \
        va_list rest;                                                                                           \
        va_start(rest, flags);                                                                                  \
        mode_t mode = va_arg(rest, mode_t);                                                                     \
        va_end(rest);                                                                                           \
        FAILS(fate_open(#name, AT_FDCWD, path, flags));                                                         \
        return real(path, flags, mode);                                                                         \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                            \
    int name(int dir, const char *path, int flags, ...) {                                                       \
        static int (*real)(int, const char *, int, ...);                                                        \
        if (!real)                                                                                              \
            real = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, #name);                               \
        va_list rest;                                                                                           \
        va_start(rest, flags);                                                                                  \
        mode_t mode = va_arg(rest, mode_t);                                                                     \
        va_end(rest);                                                                                           \
        FAILS(fate_open(#name, dir, path, flags));                                                              \
        return real(dir, path, flags, mode);                                                                    \
    }
OPENAT(openat)
OPENAT(openat64)

#define MOVES(family, name, declared, types, call)                                                              \
    ssize_t name declared {                                                                                     \
        static ssize_t(*real) types;                                                                            \
        if (!real)                                                                                              \
            real = (ssize_t(*) types)dlsym(RTLD_NEXT, #name);                                                   \
        int why = fate_of(family, #name, fd);                                                                   \
        if (why != SHORT)                                                                                       \
            FAILS(why);                                                                                         \
        return real call;                                                                                       \
    }
MOVES(READ, read, (int fd, void *to, size_t size), (int, void *, size_t), (fd, to, size))
MOVES(READ, pread64, (int fd, void *to, size_t size, off_t at), (int, void *, size_t, off_t), (fd, to, size, at))
MOVES(READ, readv, (int fd, const struct iovec *parts, int count), (int, const struct iovec *, int), (fd, parts, count))
MOVES(SOCKET, send, (int fd, const void *from, size_t size, int flags), (int, const void *, size_t, int), (fd, from, size, flags))
MOVES(SOCKET, recv, (int fd, void *to, size_t size, int flags), (int, void *, size_t, int), (fd, to, size, flags))
MOVES(SOCKET, sendmsg, (int fd, const struct msghdr *message, int flags), (int, const struct msghdr *, int), (fd, message, flags))
MOVES(SOCKET, recvmsg, (int fd, struct msghdr *message, int flags), (int, struct msghdr *, int), (fd, message, flags))

ONE(SOCKET, connect, (int fd, const struct sockaddr *to, socklen_t size), (int, const struct sockaddr *, socklen_t), (fd, to, size), fate_of(SOCKET, "connect", fd))
/* A socket is one thing more that needs a descriptor. */
#define BARE(name) (fate_bare(SOCKET, name) ?: fate_bare(DESCRIPTOR, name))
ONE(SOCKET, socket, (int domain, int type, int protocol), (int, int, int), (domain, type, protocol), BARE("socket"))
ONE(SOCKET, accept4, (int fd, struct sockaddr *from, socklen_t *size, int flags), (int, struct sockaddr *, socklen_t *, int), (fd, from, size, flags), BARE("accept4"))
ONE(DESCRIPTOR, socketpair, (int domain, int type, int protocol, int two[2]), (int, int, int, int *), (domain, type, protocol, two), fate_bare(DESCRIPTOR, "socketpair"))
ONE(DESCRIPTOR, pipe2, (int two[2], int flags), (int *, int), (two, flags), fate_bare(DESCRIPTOR, "pipe2"))
ONE(DESCRIPTOR, eventfd, (unsigned int value, int flags), (unsigned int, int), (value, flags), fate_bare(DESCRIPTOR, "eventfd"))
ONE(DESCRIPTOR, epoll_create1, (int flags), (int), (flags), fate_bare(DESCRIPTOR, "epoll_create1"))
ONE(DESCRIPTOR, dup, (int fd), (int), (fd), fate_bare(DESCRIPTOR, "dup"))
ONE(DESCRIPTOR, memfd_create, (const char *name, unsigned int flags), (const char *, unsigned int), (name, flags), fate_bare(DESCRIPTOR, "memfd_create"))
ONE(START, fork, (void), (void), (), fate_bare(START, "fork"))

/* These say what is wrong by what they return. */
int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*begin)(void *), void *with) {
    REAL(int, "pthread_create", pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    int why = fate_bare(START, "pthread_create");
    return why > 0 ? why : real(thread, how, begin, with);
}

int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *how, char *const arguments[], char *const environment[]) {
    REAL(int, "posix_spawnp", pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *, char *const[], char *const[]);
    int why = fate_bare(START, "posix_spawnp");
    return why > 0 ? why : real(pid, file, actions, how, arguments, environment);
}

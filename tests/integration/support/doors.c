/* Tries one door after the other: `doors NAME…`. For each that opens it makes the file `opened-NAME` in its
   directory; the test looks for those. Harmless where a door does open: nothing is changed for good. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static int target; /* a process of the machine */
static int here;   /* the directory, for a helper that changes its root */

static int fine(long result) { return result >= 0; }
/* Not refused for lack of rights: it was let in and only the arguments were wrong. */
static int let_in(long result) { return result >= 0 || (errno != EPERM && errno != ENOSYS && errno != EACCES); }
static int child(long pid) { if (pid == 0) _exit(0); return pid > 0; }
static int opens(const char *path, int flags) { return fine(open(path, flags)); }
static int makes_mode(const char *path, mode_t bits) { struct stat s; return stat(path, &s) == 0 && (s.st_mode & bits); }

static int clone3_user(void) {
    unsigned long long args[11] = { CLONE_NEWUSER, 0, 0, 0, SIGCHLD };
    return child(syscall(SYS_clone3, args, 64));
}
static int handle(void) {
    struct { struct file_handle head; unsigned char bytes[64]; } h = { .head = { 64, 0 } };
    int mount_id, dir = open(".", O_RDONLY);
    if (name_to_handle_at(AT_FDCWD, ".", &h.head, &mount_id, 0)) {
        unsigned ino = 2;
        h.head.handle_bytes = 8; h.head.handle_type = 1; memcpy(h.head.f_handle, &ino, 4); memset(h.head.f_handle + 4, 0, 4);
    }
    return fine(open_by_handle_at(dir, &h.head, O_RDONLY));
}
static int fd_of(void) {
    int pidfd = syscall(SYS_pidfd_open, target, 0);
    return fine(syscall(SYS_pidfd_getfd, pidfd, 0, 0));
}
static int signal_by_fd(void) {
    int pidfd = syscall(SYS_pidfd_open, target, 0);
    return fine(syscall(SYS_pidfd_send_signal, pidfd, 0, 0, 0));
}
static int read_memory(void) {
    char to[8]; struct iovec here = { to, 8 }, there = { (void *)0x400000, 8 };
    return process_vm_readv(target, &here, 1, &there, 1, 0) > 0 || (errno != EPERM && errno != ESRCH && errno != ENOSYS);
}
static int filter_again(void) {
    struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { 1, &allow };
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
    syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program);
    return fine(unshare(CLONE_NEWUSER));
}
static int ring(void) { char params[120] = { 0 }; return fine(syscall(SYS_io_uring_setup, 4, params)); }
static int bpf_map(void) {
    union bpf_attr a; memset(&a, 0, sizeof a); a.map_type = BPF_MAP_TYPE_ARRAY; a.key_size = a.value_size = 4; a.max_entries = 1;
    return fine(syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a));
}
static int perf(void) {
    struct perf_event_attr a; memset(&a, 0, sizeof a); a.type = PERF_TYPE_SOFTWARE; a.size = sizeof a; a.exclude_kernel = 1;
    return fine(syscall(SYS_perf_event_open, &a, 0, -1, -1, 0));
}
static int caps(void) {
    unsigned head[2] = { 0x20080522, 0 }, data[6] = { 0x200000, 0x200000, 0, 0, 0, 0 };
    return fine(syscall(SYS_capset, head, data));
}
static int call32(void) {
#ifdef __x86_64__
    pid_t pid = fork();
    if (pid == 0) { long r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory"); _exit(r > 0 ? 0 : 1); }
    int status; waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
#else
    return 0;
#endif
}
static int x32(void) {
#ifdef __x86_64__
    return fine(syscall(0x40000000 + 39));
#else
    return 0;
#endif
}
static int inherited(void) {
    for (int fd = 3; fd < 4096; fd++) if (fd != here && fcntl(fd, F_GETFD) >= 0) return 1;
    return 0;
}
static int signal_by_owner(void) {
    int pair[2]; pipe(pair); struct f_owner_ex owner = { F_OWNER_PID, target };
    return fine(fcntl(pair[0], F_SETOWN_EX, &owner)) && fcntl(pair[0], F_SETSIG, SIGWINCH) == 0 && kill(target, 0) == 0;
}
static int memory(void) { return mmap(0, 9UL << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED; }
static int descriptors(void) { for (int i = 0; i < 2000; i++) if (open("/dev/null", O_RDONLY) < 0) return 0; return 1; }

#define DOOR(NAME, TEST) if (!strcmp(name, NAME)) return (TEST)
static int door(const char *name) {
    DOOR("unshare-user", fine(unshare(CLONE_NEWUSER)));
    DOOR("unshare-mounts", fine(unshare(CLONE_NEWNS)));
    DOOR("unshare-net", fine(unshare(CLONE_NEWNET)));
    DOOR("clone-user", child(syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0)));
    DOOR("clone3-user", clone3_user());
    DOOR("setns", fine(setns(open("/proc/1/ns/mnt", O_RDONLY), 0)) || fine(setns(open("/proc/self/ns/user", O_RDONLY), 0)));
    DOOR("setns-pidfd", fine(setns(syscall(SYS_pidfd_open, 1, 0), CLONE_NEWNS)));
    DOOR("mount", fine(mount("x", "/tmp", "tmpfs", 0, 0)));
    DOOR("bind", fine(mount("/usr", "/etc", 0, MS_BIND, 0)));
    DOOR("remount", fine(mount(0, "/usr", 0, MS_REMOUNT | MS_BIND, 0)));
    DOOR("umount", let_in(umount2("/etc/shadow", MNT_DETACH)) || let_in(umount2("/nowhere", MNT_DETACH)));
    DOOR("pivot-root", let_in(syscall(SYS_pivot_root, ".", ".")));
    DOOR("chroot", fine(chroot(".")));
    DOOR("open-tree", fine(syscall(428, AT_FDCWD, "/", 1)));
    DOOR("open-tree-attr", let_in(syscall(467, AT_FDCWD, "/", 1, 0, 0)));
    DOOR("fsopen", fine(syscall(430, "tmpfs", 0)));
    DOOR("mount-setattr", let_in(syscall(442, AT_FDCWD, "/usr", 0, 0, 0)));
    DOOR("handle", handle());
    DOOR("disk", fine(mknod("disk", S_IFBLK | 0600, makedev(8, 0))));
    DOOR("memory-device", fine(mknod("mem", S_IFCHR | 0600, makedev(1, 1))));
    DOOR("set-id", (chmod("doors", 04755), makes_mode("doors", S_ISUID)));
    DOOR("set-id-new", (open("set-id", O_CREAT | O_WRONLY, 06755), makes_mode("set-id", S_ISUID | S_ISGID)));
    DOOR("set-id-node", (mknod("set-id-2", S_IFREG | 04755, 0), makes_mode("set-id-2", S_ISUID)));
    DOOR("io-uring", ring());
    DOOR("bpf", bpf_map());
    DOOR("perf", perf());
    DOOR("userfaultfd", fine(syscall(SYS_userfaultfd, 1)) || opens("/dev/userfaultfd", O_RDWR));
    DOOR("keyring", fine(syscall(SYS_add_key, "user", "escape", "x", 1, KEY_SPEC_PROCESS_KEYRING)) || fine(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0)));
    DOOR("kexec", let_in(syscall(SYS_kexec_load, 0, 0, 0, 0)));
    DOOR("module", let_in(syscall(SYS_finit_module, -1, "", 0)));
    DOOR("fanotify", fine(syscall(SYS_fanotify_init, 0, 0)) || fine(syscall(SYS_fanotify_init, 0x200, 0)));
    DOOR("swap", let_in(syscall(SYS_swapon, "/nowhere", 0)));
    DOOR("kernel-log", fine(syscall(SYS_syslog, 3, name, 1)) || opens("/dev/kmsg", O_RDONLY));
    DOOR("clock", fine(syscall(SYS_settimeofday, 0, 0)) || let_in(syscall(SYS_clock_settime, 0, 0)));
    DOOR("hostname", fine(sethostname("escaped", 7)));
    DOOR("personality", fine(personality(ADDR_NO_RANDOMIZE)));
    DOOR("x32", x32());
    DOOR("int80", call32());
    DOOR("filter-again", filter_again());
    DOOR("capset", caps());
    DOOR("typing", let_in(ioctl(0, TIOCSTI, "x")) || let_in(syscall(SYS_ioctl, 0, 0x100005412UL, "x")));
    DOOR("terminal", opens("/dev/tty", O_RDWR) || opens("/dev/ptmx", O_RDWR) || opens("/dev/console", O_RDWR));
    DOOR("devices", opens("/dev/mem", O_RDONLY) || opens("/dev/kvm", O_RDWR) || opens("/dev/fuse", O_RDWR) || opens("/dev/vda", O_RDONLY) || opens("/dev/sda", O_RDONLY));
    DOOR("ptrace", fine(ptrace(PTRACE_SEIZE, target, 0, 0)));
    DOOR("read-memory", read_memory());
    DOOR("kcmp", let_in(syscall(SYS_kcmp, getpid(), target, 0, 0, 0)) && errno != ESRCH);
    DOOR("fd-of", fd_of());
    DOOR("signal", fine(kill(target, 0)) || fine(syscall(SYS_tgkill, target, target, 0)));
    DOOR("signal-by-fd", signal_by_fd());
    DOOR("signal-by-owner", signal_by_owner());
    DOOR("limits-of", fine(syscall(SYS_prlimit64, target, RLIMIT_NOFILE, 0, name)));
    DOOR("priority-of", fine(setpriority(PRIO_PROCESS, target, 1)));
    DOOR("schedule-of", fine(sched_setscheduler(target, SCHED_IDLE, &(struct sched_param){ 0 })));
    DOOR("io-priority-of", fine(syscall(SYS_ioprio_set, 1, target, 3 << 13)));
    DOOR("vsock", fine(socket(40, SOCK_STREAM, 0)));
    DOOR("packet", fine(socket(AF_PACKET, SOCK_RAW, 0)));
    DOOR("crypto", fine(socket(38, SOCK_SEQPACKET, 0)));
    DOOR("bluetooth", fine(socket(31, SOCK_RAW, 1)));
    DOOR("netlink-generic", fine(socket(AF_NETLINK, SOCK_RAW, 16)));
    DOOR("netlink-audit", fine(socket(AF_NETLINK, SOCK_RAW, 9)));
    DOOR("xdp", fine(socket(44, SOCK_RAW, 0)));
    DOOR("inherited", inherited());
    DOOR("memory", memory());
    DOOR("descriptors", descriptors());
    fprintf(stderr, "no such door: %s\n", name);
    exit(2);
}

int main(int count, char **names) {
    target = atoi(names[1]);
    for (int at = 2; at < count; at++) {
        pid_t pid = fork();
        if (pid == 0) {
            char path[100];
            snprintf(path, sizeof path, "opened-%s", names[at]);
            here = open(".", O_RDONLY | O_DIRECTORY);
            if (door(names[at])) { int fd = openat(here, path, O_CREAT | O_WRONLY, 0600); if (fd < 0) mknod(path, S_IFREG | 0600, 0); }
            _exit(0);
        }
        int status;
        waitpid(pid, &status, 0);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 2) return 2;
    }
    return 0;
}

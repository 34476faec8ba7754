//! Ways through the kernel: mounts, namespaces, other tables of system calls, devices, its newer doors.

use super::{Jail, behind_each_wall};

behind_each_wall!(
    mounts_and_roots,
    namespaces_of_ones_own,
    doors_into_the_kernel,
    files_that_give_rights
);

fn mounts_and_roots(mut jail: Jail) {
    jail.doors(&[
        "mount",
        "bind",
        "remount",
        "umount",
        "pivot-root",
        "chroot",
        "open-tree",
        "open-tree-attr",
        "fsopen",
        "mount-setattr",
        "handle",
    ]);
}

fn namespaces_of_ones_own(mut jail: Jail) {
    jail.doors(&[
        "unshare-user",
        "unshare-mounts",
        "unshare-net",
        "clone-user",
        "clone3-user",
        "setns",
        "setns-pidfd",
    ]);
    jail.attempts(&[
        ("unshare(1)", "unshare -Ur sh -c 'touch opened-unshare'"),
        ("bubblewrap", "bwrap --bind / / touch @WORKSPACE/opened-bwrap"),
        ("nsenter(1)", "nsenter -t 1 -m touch @WORKSPACE/opened-nsenter; nsenter -t @PID -m touch @WORKSPACE/opened-nsenter"),
    ]);
}

fn doors_into_the_kernel(mut jail: Jail) {
    jail.doors(&[
        "io-uring",
        "bpf",
        "perf",
        "userfaultfd",
        "keyring",
        "kexec",
        "module",
        "fanotify",
        "swap",
        "kernel-log",
        "clock",
        "hostname",
        "personality",
        "x32",
        "int80",
        "filter-again",
        "capset",
        "typing",
        "terminal",
        "devices",
    ]);
    jail.attempts(&[
        ("core_pattern", "echo '|/bin/sh' >/proc/sys/kernel/core_pattern && touch opened-core_pattern"),
        ("sysrq", "echo h >/proc/sysrq-trigger && touch opened-sysrq"),
        ("binfmt_misc", "echo ':x:M::MZ::/bin/sh:' >/proc/sys/fs/binfmt_misc/register && touch opened-binfmt"),
        ("modprobe", "echo /bin/sh >/proc/sys/kernel/modprobe && touch opened-modprobe"),
        ("pid_max", "echo 4000 >/proc/sys/kernel/pid_max && touch opened-pid_max"),
        ("sysfs", "ls /sys/kernel && touch opened-sysfs; echo mem >/sys/power/state && touch opened-power"),
        ("cgroups", "mkdir /sys/fs/cgroup/escape && touch opened-cgroup"),
        ("kernel memory", "head -c1 /proc/kcore && touch opened-kcore; head -c1 /dev/mem && touch opened-mem"),
    ]);
}

fn files_that_give_rights(mut jail: Jail) {
    jail.doors(&[
        "disk",
        "memory-device",
        "set-id",
        "set-id-new",
        "set-id-node",
    ]);
    jail.attempts(&[
        ("set-id by install(1)", "install -m 4755 /bin/true su-install; test -u su-install && touch opened-install"),
        ("set-id by tar(1)", "mkdir -p t && cp /bin/true t/x && tar -cf t.tar --mode=4755 t/x && rm t/x && tar -xpf t.tar; test -u t/x && touch opened-tar"),
        ("capabilities of a file", "setcap cap_sys_admin+ep doors && touch opened-setcap"),
        ("set-id programs", "su -c true && touch opened-su; sudo -n true && touch opened-sudo; true"),
    ]);
}

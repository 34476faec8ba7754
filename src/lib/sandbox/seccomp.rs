//! The system calls that a command is refused: those that change mounts, namespaces, the kernel or
//! other processes, and those with a record of kernel bugs that ordinary programs do not need.
//!
//! A list of what is denied, not of what is allowed: the walls are the namespaces and Landlock,
//! and a command may be any program. Foreign architectures are killed, the x32 numbers refused.

use std::collections::BTreeMap;

use libc::c_long;
use seccompiler::SeccompCmpArgLen::Dword;
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    SeccompAction, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, apply_filter,
    sock_filter,
};

use super::{At, Failure, Plan, Walls};

/// What an argument, by its number, is compared with; only its lower half counts.
type Condition = (u8, SeccompCmpOp, u64);
/// A call that is refused when all conditions hold; without any, always.
type Refusal = (c_long, Vec<Condition>);

/// Refused with EPERM, whatever the arguments.
const DENIED: &[c_long] = &[
    // mounts and roots
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    // namespaces (clone by its flags, below)
    libc::SYS_unshare,
    libc::SYS_setns,
    // other processes
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_process_madvise,
    // doors into the kernel
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_fanotify_init,
    // files by handle pass by every path rule
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
    // the machine
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_lookup_dcookie,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
];

/// Further refused without namespaces of one's own: System V and POSIX queues are shared with all
/// of the user's processes, and watching a directory needs no right that Landlock handles.
const DENIED_WITHOUT_NAMESPACES: &[c_long] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_inotify_add_watch,
];

/// Answered with ENOSYS, so that callers use the older call whose arguments can be checked: both
/// pass them by a pointer, into which a filter cannot look.
const UNKNOWN: &[c_long] = &[libc::SYS_clone3, libc::SYS_openat2];

/// open_tree_attr(2), Linux 6.15; the same number on every architecture.
const OPEN_TREE_ATTR: c_long = 467;

/// Namespace flags of clone(2): cgroup, uts, ipc, user, pid, net, mount, time.
const NEW_NAMESPACE: [u64; 8] = [
    0x0200_0000,
    0x0400_0000,
    0x0800_0000,
    0x1000_0000,
    0x2000_0000,
    0x4000_0000,
    0x0002_0000,
    0x80,
];

/// TIOCSTI and TIOCLINUX, which type into a terminal (libc gives them another type with each C library).
const TYPE_INTO_TERMINAL: [u64; 2] = [0x5412, 0x541c];

const SET_ID_BITS: [u64; 2] = [0o4000, 0o2000];

/// Refuses the calls for the rest of this process's life and its children's. Must come last: it
/// needs no_new_privs, and setting up needs calls that are refused from here on.
pub(super) fn apply(plan: &Plan) -> Result<(), Failure> {
    if plan.walls == Walls::Off {
        return Ok(());
    }
    let step = "refuse system calls";
    nix::sys::prctl::set_no_new_privs().at(step)?;
    refuse_x32().at(step)?;
    install(always(UNKNOWN), libc::ENOSYS).at(step)?;
    install(denied(plan), libc::EPERM).at(step)
}

fn install(refusals: Vec<Refusal>, errno: i32) -> Result<(), seccompiler::Error> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> = BTreeMap::new();
    let (always, conditional): (Vec<Refusal>, Vec<Refusal>) = refusals
        .into_iter()
        .partition(|(_, conditions)| conditions.is_empty());
    for (call, conditions) in conditional {
        let conditions: Result<Vec<_>, _> = conditions
            .into_iter()
            .map(|(argument, op, value)| SeccompCondition::new(argument, Dword, op, value))
            .collect();
        let rule = SeccompRule::new(conditions?)?;
        rules.entry(call).or_default().push(rule);
    }
    // A call without rules is refused whatever its arguments, so these come last.
    rules.extend(always.into_iter().map(|(call, _)| (call, Vec::new())));
    let arch = std::env::consts::ARCH.try_into()?;
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?;
    apply_filter(&seccompiler::BpfProgram::try_from(filter)?)
}

fn always(calls: &[c_long]) -> Vec<Refusal> {
    calls.iter().map(|call| (*call, Vec::new())).collect()
}

fn denied(plan: &Plan) -> Vec<Refusal> {
    let mut refusals = always(DENIED);
    refusals.extend(NEW_NAMESPACE.map(|flag| (libc::SYS_clone, vec![bits(0, flag)])));
    refusals.extend(TYPE_INTO_TERMINAL.map(|request| (libc::SYS_ioctl, vec![(1, Eq, request)])));
    // Only the ordinary personality, and the question which one it is.
    refusals.push((
        libc::SYS_personality,
        vec![(0, Ne, 0), (0, Ne, 0xffff_ffff)],
    ));
    refusals.extend(SET_ID_BITS.into_iter().flat_map(set_id_files));
    refusals.extend(sockets(plan));
    if plan.walls == Walls::Landlock {
        refusals.extend(other_processes());
        refusals.extend(always(DENIED_WITHOUT_NAMESPACES));
    }
    refusals
}

/// No set-id file for the host's other users to run: without namespaces the daemon's user would
/// be theirs, and the workspace is the host's in any case.
fn set_id_files(bit: u64) -> Vec<Refusal> {
    let mut refusals = vec![
        (libc::SYS_fchmod, vec![bits(1, bit)]),
        (libc::SYS_fchmodat, vec![bits(2, bit)]),
        (libc::SYS_fchmodat2, vec![bits(2, bit)]),
        (libc::SYS_mknodat, vec![bits(2, bit)]),
    ];
    for creating in [libc::O_CREAT, TMPFILE_BIT] {
        let creating = u64::from(creating.unsigned_abs());
        refusals.push((libc::SYS_openat, vec![bits(2, creating), bits(3, bit)]));
        #[cfg(target_arch = "x86_64")]
        refusals.push((libc::SYS_open, vec![bits(1, creating), bits(2, bit)]));
    }
    #[cfg(target_arch = "x86_64")]
    for call in [libc::SYS_chmod, libc::SYS_creat, libc::SYS_mknod] {
        refusals.push((call, vec![bits(1, bit)]));
    }
    refusals
}

fn sockets(plan: &Plan) -> Vec<Refusal> {
    let other_families = socket_families(plan).into_iter().map(|af| family(Ne, af));
    vec![
        // Of netlink only route(7): how getaddrinfo learns which addresses this machine has.
        (
            libc::SYS_socket,
            vec![family(Eq, libc::AF_NETLINK), (2, Ne, 0)],
        ),
        (libc::SYS_socketpair, vec![family(Ne, libc::AF_UNIX)]),
        // Without a family that is allowed: always.
        (libc::SYS_socket, other_families.collect()),
    ]
}

/// Without namespaces of its own a command reaches the user's other processes, the daemon among them.
fn other_processes() -> Vec<Refusal> {
    // Their limits, and their turn at the processor and the disk.
    let of_others = [
        libc::SYS_prlimit64,
        libc::SYS_sched_setaffinity,
        libc::SYS_sched_setscheduler,
        libc::SYS_sched_setparam,
        libc::SYS_sched_setattr,
    ];
    let mut refusals: Vec<Refusal> = of_others.map(|call| (call, vec![(0, Ne, 0)])).into();
    for (call, one_process) in [(libc::SYS_setpriority, 0), (libc::SYS_ioprio_set, 1)] {
        refusals.push((call, vec![(0, Ne, one_process)]));
        refusals.push((call, vec![(1, Ne, 0)]));
    }
    refusals
}

/// The bit that O_TMPFILE adds to O_DIRECTORY.
const TMPFILE_BIT: i32 = libc::O_TMPFILE & !libc::O_DIRECTORY;

/// Returns the families of sockets that the walls hold in. Not vsock, for one: it knows no
/// namespaces and talks to the host of a virtual machine.
fn socket_families(plan: &Plan) -> Vec<i32> {
    match plan.walls {
        // In the machine's network, without mount namespaces, the sockets of D-Bus or docker are in reach.
        Walls::Landlock => vec![],
        Walls::Namespaces | Walls::Off => vec![
            libc::AF_INET,
            libc::AF_INET6,
            libc::AF_NETLINK,
            libc::AF_UNIX,
        ],
    }
}

fn family(op: SeccompCmpOp, family: i32) -> Condition {
    (0, op, u64::from(family.cast_unsigned()))
}

/// Whether these bits, all of them in the lower half, are set.
fn bits(argument: u8, bits: u64) -> Condition {
    (argument, MaskedEq(bits), bits)
}

/// Refuses the second table of numbers of x86-64 kernels: the filters above compare numbers, and
/// x32 gives each call another one.
fn refuse_x32() -> Result<(), seccompiler::Error> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(());
    }
    const LOAD_WORD: u16 = 0x20;
    const JUMP_IF_GREATER_OR_EQUAL: u16 = 0x35;
    const RETURN: u16 = 0x06;
    let op = |code, jt, jf, k| sock_filter { code, jt, jf, k };
    apply_filter(&[
        op(LOAD_WORD, 0, 0, 0), // seccomp_data.nr
        op(JUMP_IF_GREATER_OR_EQUAL, 0, 1, 0x4000_0000),
        op(
            RETURN,
            0,
            0,
            libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs(),
        ),
        op(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ])
}

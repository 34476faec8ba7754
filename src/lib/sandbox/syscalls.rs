//! The system calls that no library wraps: each `unsafe` of this room is here, one call a function.
#![expect(
    unsafe_code,
    reason = "system calls without a safe wrapper; every block says why it is sound"
)]

use std::ffi::{CStr, CString, c_int, c_uint, c_ulong};
use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::cmsg_space;
use nix::errno::Errno;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::unistd::{ForkResult, Pid};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Flags of [`set_mount_flags`].
pub(super) const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
pub(super) const NO_SUID: u64 = libc::MOUNT_ATTR_NOSUID;
pub(super) const NO_DEVICES: u64 = libc::MOUNT_ATTR_NODEV;

/// Forks; returns the child in the parent and `None` in the child.
pub(super) fn fork() -> nix::Result<Option<Pid>> {
    // SAFETY: the launcher never starts a thread, so the child may do anything.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(Some(child)),
        ForkResult::Child => Ok(None),
    }
}

/// Closes every descriptor from `first` on.
pub(super) fn close_from(first: c_uint) -> nix::Result<()> {
    // SAFETY: called before anything is opened: no owner of these descriptors exists.
    Errno::result(unsafe { libc::syscall(libc::SYS_close_range, first, c_uint::MAX, 0) }).map(drop)
}

/// Makes every descriptor from `first` on close when the next program begins.
pub(super) fn close_on_exec_from(first: c_uint) -> nix::Result<()> {
    // SAFETY: changes a flag only.
    Errno::result(unsafe {
        libc::syscall(
            libc::SYS_close_range,
            first,
            c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC,
        )
    })
    .map(drop)
}

/// Gives every signal its default meaning again (Rust ignores SIGPIPE, nohup SIGHUP).
pub(super) fn default_signals() {
    for signal in 1..libc::SIGRTMAX() {
        // SAFETY: installs no handler. SIGKILL, SIGSTOP and those of libc are refused, as they should be.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

/// Returns a detached copy of the mounts at and below `path`, not following a final symlink.
pub(super) fn clone_mounts(path: &Path) -> nix::Result<OwnedFd> {
    let path = c_path(path)?;
    let flags = libc::OPEN_TREE_CLONE
        | libc::OPEN_TREE_CLOEXEC
        | (libc::AT_RECURSIVE | libc::AT_SYMLINK_NOFOLLOW) as c_uint;
    // SAFETY: the path outlives the call; the result is a new descriptor or an error.
    let fd = Errno::result(unsafe {
        libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, path.as_ptr(), flags)
    })?;
    // SAFETY: the kernel has just given it to us.
    Ok(unsafe { OwnedFd::from_raw_fd(RawFd::try_from(fd).map_err(|_| Errno::EBADF)?) })
}

/// Renames within a directory, unless something has the new name. (nix wraps it for glibc alone.)
pub(super) fn rename_if_absent(dir: &OwnedFd, from: &Path, to: &Path) -> nix::Result<()> {
    let (dir, from, to) = (dir.as_raw_fd(), c_path(from)?, c_path(to)?);
    // SAFETY: both paths outlive the call.
    Errno::result(unsafe {
        libc::syscall(
            libc::SYS_renameat2,
            dir,
            from.as_ptr(),
            dir,
            to.as_ptr(),
            libc::RENAME_NOREPLACE,
        )
    })
    .map(drop)
}

/// Gives `to` the attributes of `from` that its owner set: their own, and who else may use it. What cannot be set is left
/// out. (nix wraps none of this.)
pub(super) fn copy_attributes(from: &Path, to: BorrowedFd<'_>) {
    let Ok(from) = c_path(from) else { return };
    // The kernel's bounds (limits.h): of all names, and of a value.
    let (mut names, mut value) = (vec![0_u8; 65_536], vec![0_u8; 65_536]);
    // SAFETY: path and buffer outlive the call, and the buffer is as long as it says.
    let listed = unsafe { libc::listxattr(from.as_ptr(), names.as_mut_ptr().cast(), names.len()) };
    names.truncate(usize::try_from(listed).unwrap_or(0));
    for name in names.split_inclusive(|byte| *byte == 0) {
        let Ok(name) = CStr::from_bytes_with_nul(name) else {
            continue;
        };
        let is_owners = name.to_bytes().starts_with(b"user.") || name == c"system.posix_acl_access";
        if !is_owners {
            continue;
        }
        let (room, fd) = (value.len(), to.as_raw_fd());
        let at = value.as_mut_ptr();
        // SAFETY: as above; what is set is what was got.
        unsafe {
            let got = libc::getxattr(from.as_ptr(), name.as_ptr(), at.cast(), room);
            if let Ok(size) = usize::try_from(got) {
                libc::fsetxattr(fd, name.as_ptr(), at.cast(), size, 0);
            }
        }
    }
}

/// Puts a detached copy at `target`.
pub(super) fn attach_mounts(mounts: &OwnedFd, target: &Path) -> nix::Result<()> {
    let target = c_path(target)?;
    // SAFETY: both paths outlive the call.
    Errno::result(unsafe {
        libc::syscall(
            libc::SYS_move_mount,
            mounts.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_FDCWD,
            target.as_ptr(),
            libc::MOVE_MOUNT_F_EMPTY_PATH,
        )
    })
    .map(drop)
}

/// Adds `flags` to a detached copy and all mounts in it, and cuts it off from later mounts of the
/// host.
pub(super) fn set_mount_flags(mounts: &OwnedFd, flags: u64) -> nix::Result<()> {
    mount_setattr(
        mounts.as_raw_fd(),
        c"",
        libc::AT_EMPTY_PATH | libc::AT_RECURSIVE,
        flags,
        libc::MS_PRIVATE,
    )
}

/// Makes the mount at `path`, and only that one, read-only.
pub(super) fn set_read_only(path: &Path) -> nix::Result<()> {
    mount_setattr(libc::AT_FDCWD, &c_path(path)?, 0, READ_ONLY, 0)
}

fn mount_setattr(
    dir: RawFd,
    path: &CStr,
    at: c_int,
    set: u64,
    propagation: u64,
) -> nix::Result<()> {
    let attr = libc::mount_attr {
        attr_set: set,
        attr_clr: 0,
        propagation,
        userns_fd: 0,
    };
    // SAFETY: path and attr outlive the call and the size is that of attr.
    Errno::result(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            dir,
            path.as_ptr(),
            at,
            &raw const attr,
            size_of_val(&attr),
        )
    })
    .map(drop)
}

/// Gives up every capability, also those that a later program of user 0 would get back.
///
/// # Errors
/// When the bounding set cannot be emptied and the user is 0: the next program would be privileged.
pub(super) fn drop_capabilities() -> nix::Result<()> {
    #[repr(C)]
    struct Header(u32, c_int);
    const VERSION_3: u32 = 0x2008_0522;
    const ZERO: c_ulong = 0;
    for capability in 0..64 as c_ulong {
        // SAFETY: plain numbers. 1 = still there, 0 = gone, -1 = the kernel knows no more of them.
        match unsafe { libc::prctl(libc::PR_CAPBSET_READ, capability, ZERO, ZERO, ZERO) } {
            0 => continue,
            1 => {}
            _ => break,
        }
        // SAFETY: plain numbers.
        let dropped = Errno::result(unsafe {
            libc::prctl(libc::PR_CAPBSET_DROP, capability, ZERO, ZERO, ZERO)
        });
        if nix::unistd::geteuid().is_root() {
            dropped?;
        }
    }
    // SAFETY: plain numbers.
    Errno::result(unsafe {
        libc::prctl(
            libc::PR_CAP_AMBIENT,
            libc::PR_CAP_AMBIENT_CLEAR_ALL as c_ulong,
            ZERO,
            ZERO,
            ZERO,
        )
    })?;
    let header = Header(VERSION_3, 0);
    let none = [0_u32; 6];
    // SAFETY: version 3 reads two records of three u32.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, &raw const header, none.as_ptr()) })
        .map(drop)
}

/// Returns the Landlock ABI of the running kernel, 0 when there is none.
pub(super) fn landlock_abi() -> u32 {
    const VERSION: c_uint = 1;
    // SAFETY: with this flag the kernel reads no memory.
    let abi = unsafe {
        libc::syscall(
            libc::SYS_landlock_create_ruleset,
            std::ptr::null::<u8>(),
            0_usize,
            VERSION,
        )
    };
    u32::try_from(abi).unwrap_or(0)
}

/// Brings up the loopback device of a new network namespace.
pub(super) fn loopback_up() -> nix::Result<()> {
    // SAFETY: plain numbers; the result is a new descriptor or an error.
    let socket = unsafe {
        let fd = Errno::result(libc::socket(
            libc::AF_INET,
            libc::SOCK_DGRAM | libc::SOCK_CLOEXEC,
            0,
        ))?;
        OwnedFd::from_raw_fd(fd)
    };
    // SAFETY: ifreq is plain old data for which zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = from.cast_signed();
    }
    request.ifr_ifru.ifru_flags =
        i16::try_from(libc::IFF_UP | libc::IFF_RUNNING).map_err(|_| Errno::EINVAL)?;
    // SAFETY: the request outlives the call.
    Errno::result(unsafe {
        // musl takes the number as an int.
        libc::ioctl(
            socket.as_raw_fd(),
            libc::SIOCSIFFLAGS as libc::Ioctl,
            &raw const request,
        )
    })
    .map(drop)
}

/// Has the event loop wait until `descriptor` can be read.
pub(super) fn in_event_loop(descriptor: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: the descriptor is open for as long as the result, and nobody replaces it.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, Interest::READABLE) }?)
}

/// Receives bytes and, when one came with them, a descriptor.
pub(super) fn receive(
    socket: BorrowedFd<'_>,
    buffer: &mut [u8],
) -> nix::Result<(usize, Option<OwnedFd>)> {
    let mut space = cmsg_space!(RawFd);
    let mut slices = [IoSliceMut::new(buffer)];
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = loop {
        match recvmsg::<()>(socket.as_raw_fd(), &mut slices, Some(&mut space), flags) {
            Err(Errno::EINTR) => (),
            message => break message?,
        }
    };
    let mut received = None;
    for control in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(descriptors) = control {
            for descriptor in descriptors {
                // SAFETY: the kernel has just given it to us.
                received = Some(unsafe { OwnedFd::from_raw_fd(descriptor) });
            }
        }
    }
    Ok((message.bytes, received))
}

fn c_path(path: &Path) -> nix::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::EINVAL)
}

/// Sets an attribute of a file; false where the file system has none.
#[cfg(test)]
pub(super) fn set_attribute(path: &Path, name: &CStr, value: &[u8]) -> bool {
    let path = c_path(path).expect("a plain name");
    let (at, size) = (value.as_ptr().cast(), value.len());
    // SAFETY: all outlive the call.
    unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), at, size, 0) == 0 }
}

/// Returns an attribute of a file, at most 64 bytes of it.
#[cfg(test)]
pub(super) fn attribute(path: &Path, name: &CStr) -> Vec<u8> {
    let (path, mut value) = (c_path(path).expect("a plain name"), vec![0_u8; 64]);
    let (at, room) = (value.as_mut_ptr().cast(), value.len());
    // SAFETY: all outlive the call, and the buffer is as long as it says.
    let size = unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), at, room) };
    value.truncate(usize::try_from(size).unwrap_or(0));
    value
}

//! Resolves a path step by step where openat2(2) is not to be had: before Linux 5.6, in containers
//! with an old seccomp profile, and in systemd units with `RestrictSUIDSGID=` (a filter cannot see
//! with which mode openat2 would create a file, so systemd answers it with ENOSYS).
//!
//! Each directory on the way is held open and the next name is looked up in it, without following
//! symlinks; those are read and resolved here. `..` goes back to the descriptor that the walk came
//! from: a directory that somebody moves away meanwhile does not lead out.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, openat, readlinkat};
use nix::sys::stat::{Mode, SFlag, fstat};

/// The most symlinks on one way (path_resolution(7)).
const MAX_LINKS: u32 = 40;

/// Opens `relative` beneath `root`, as openat2(2) with `RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS`
/// would. `flags` must not create anything.
///
/// # Errors
/// As openat2(2): EXDEV when the path leads out, ELOOP for too many symlinks, EAGAIN when something
/// was renamed meanwhile and another try may succeed.
pub(super) fn open(root: &OwnedFd, relative: &Path, flags: OFlag) -> nix::Result<OwnedFd> {
    let mut ahead = steps(relative.as_os_str())?;
    let mut behind: Vec<OwnedFd> = Vec::new();
    let mut links = 0;
    while let Some(step) = ahead.pop() {
        let here = behind.last().map_or(root.as_fd(), AsFd::as_fd);
        match step.as_bytes() {
            b"." => {}
            b".." => drop(behind.pop().ok_or(Errno::EXDEV)?),
            _ => {
                let there = look(here, &step, OFlag::O_PATH)?;
                match kind(&there)? {
                    SFlag::S_IFLNK => {
                        links += 1;
                        if links > MAX_LINKS {
                            return Err(Errno::ELOOP);
                        }
                        ahead.extend(steps(&readlinkat(&there, "")?)?);
                    }
                    _ if ahead.is_empty() => return finish(here, &step, there, flags),
                    SFlag::S_IFDIR => behind.push(there),
                    _ => return Err(Errno::ENOTDIR),
                }
            }
        }
    }
    look(
        behind.last().map_or(root.as_fd(), AsFd::as_fd),
        OsStr::new("."),
        flags,
    )
}

/// Returns the names in `path`, the last one first; `a/` is `a/.`, which only a directory can be.
fn steps(path: &OsStr) -> nix::Result<Vec<OsString>> {
    if path.as_bytes().starts_with(b"/") {
        return Err(Errno::EXDEV);
    }
    let names = path.as_bytes().split(|byte| *byte == b'/').rev();
    Ok(names
        .map(|name| OsString::from(OsStr::from_bytes(if name.is_empty() { b"." } else { name })))
        .collect())
}

/// Opens what was found to be no symlink.
fn finish(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    found: OwnedFd,
    flags: OFlag,
) -> nix::Result<OwnedFd> {
    if flags.contains(OFlag::O_PATH) && !flags.contains(OFlag::O_DIRECTORY) {
        return Ok(found);
    }
    // A symlink came in its place: look again.
    look(parent, name, flags).map_err(|errno| {
        if errno == Errno::ELOOP {
            Errno::EAGAIN
        } else {
            errno
        }
    })
}

fn look(parent: BorrowedFd<'_>, name: &OsStr, flags: OFlag) -> nix::Result<OwnedFd> {
    openat(
        parent,
        name,
        flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
        Mode::empty(),
    )
}

fn kind(file: &OwnedFd) -> nix::Result<SFlag> {
    Ok(SFlag::from_bits_truncate(
        fstat(file)?.st_mode & SFlag::S_IFMT.bits(),
    ))
}

//! Finds what is not meant for everyone in directories that the sandbox shows.
//!
//! A daemon that runs as root owns `/etc/shadow` and every private key; inside the sandbox the
//! command still is that user and would be let in as the owner. So what others may not read is
//! looked up and masked. So are sockets of other programs in what a command may write: whoever listens there is
//! outside the walls (Landlock knows them since ABI 9 only).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{PipeReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{At, Failure, syscalls};

/// Where secrets of other programs live, and how deep they are looked for. `/etc` whole: about
/// 1,200 entries here; `/opt` only as deep as `/opt/app/config/secret`, since whole
/// programming environments are installed there.
const SEARCHED: [(&str, u32); 3] = [("/etc", 16), ("/usr/local/etc", 16), ("/opt", 3)];

/// Entries of the writable directories that are looked at for sockets.
const ENTRIES: usize = 50_000;

const OTHERS_READ: u32 = 0o004;
const OTHERS_READ_AND_ENTER: u32 = 0o005;

/// A search that runs in a process of its own while the walls go up: it takes 2 ms, a quarter of
/// the whole launch.
pub(super) struct Search(PipeReader);

impl Search {
    /// Begins to look for the files and directories in the shown system directories that others
    /// may not read, and for sockets in the `writable` ones, which are left alone otherwise. Returns `None` in
    /// the new process, which is done.
    pub(super) fn begin(writable: &[PathBuf]) -> Result<Option<Self>, Failure> {
        let step = "look for secrets";
        let (reader, mut writer) = std::io::pipe().at(step)?;
        if syscalls::fork().at(step)?.is_some() {
            return Ok(Some(Self(reader)));
        }
        let mut found = Vec::new();
        for (dir, depth) in SEARCHED {
            search(Path::new(dir), depth, writable, &mut found);
        }
        let bound = std::fs::read_to_string("/proc/net/unix").ok();
        let bound = bound.as_deref().map(names_of_sockets);
        found.extend(sockets(writable, bound.as_ref()));
        let list = serde_json::to_vec(&found).at(step)?;
        writer.write_all(&list).at(step)?;
        Ok(None)
    }

    /// Waits for the end and returns what was found, in no particular order.
    pub(super) fn finish(self) -> Result<Vec<PathBuf>, Failure> {
        read_list(self.0)
    }
}

/// Reads the list whole and then as JSON, which by itself would be a system call a byte. One that was cut short is no JSON.
fn read_list(mut from: impl Read) -> Result<Vec<PathBuf>, Failure> {
    let step = "look for secrets";
    let mut list = Vec::new();
    from.read_to_end(&mut list).at(step)?;
    serde_json::from_slice(&list).at(step)
}

fn search(dir: &Path, depth: u32, except: &[PathBuf], found: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for entry in entries.flatten() {
        // What a symlink points to is shown, or not, where it is. The kind costs no system call.
        let Ok(kind) = entry.file_type() else {
            continue;
        };
        if kind.is_symlink() {
            continue;
        }
        let Ok(meta) = entry.metadata() else { continue };
        let wanted = if kind.is_dir() {
            OTHERS_READ_AND_ENTER
        } else {
            OTHERS_READ
        };
        let is_open = meta.permissions().mode() & wanted == wanted;
        if (is_open && !kind.is_dir()) || except.contains(&entry.path()) {
            continue;
        }
        if !is_open {
            found.push(entry.path());
        } else if depth > 1 {
            search(&entry.path(), depth - 1, except, found);
        }
    }
}

/// Returns the names of the files that sockets of this machine are bound to, as `/proc/net/unix` lists them.
fn names_of_sockets(list: &str) -> BTreeSet<OsString> {
    // A path may have spaces; seven columns stand before it.
    let paths = list.lines().skip(1).filter_map(|line| {
        let from = line.find(['/', '.'])?;
        line.get(from..)
    });
    let names = paths.filter_map(|path| Path::new(path).file_name());
    names.map(ToOwned::to_owned).collect()
}

/// Returns the sockets at and below `dirs` that somebody may listen at: those called as one that is `bound`, or all
/// where that is not known.
fn sockets(dirs: &[PathBuf], bound: Option<&BTreeSet<OsString>>) -> Vec<PathBuf> {
    let (mut found, mut dirs, mut left) = (Vec::new(), dirs.to_vec(), ENTRIES);
    while let Some(dir) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            if left == 0 {
                return found;
            }
            left -= 1;
            // The kind costs no system call.
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let is_live = || bound.is_none_or(|names| names.contains(&entry.file_name()));
            if kind.is_dir() {
                dirs.push(entry.path());
            } else if kind.is_socket() && is_live() {
                found.push(entry.path());
            }
        }
    }
    found
}

/// Returns the paths that together hold everything at and below `dir` but `closed`: `dir` itself
/// when nothing closed is in it. What is closed above `dir` does not count. Symlinks are left out when a directory has to be split.
pub(super) fn open_parts(dir: &Path, closed: &[PathBuf]) -> Vec<PathBuf> {
    let inside: Vec<&PathBuf> = closed.iter().filter(|path| path.starts_with(dir)).collect();
    let mut parts = Vec::new();
    split(dir, &inside, &mut parts);
    parts
}

fn split(path: &Path, closed: &[&PathBuf], parts: &mut Vec<PathBuf>) {
    if closed.iter().any(|c| path.starts_with(c)) {
        return;
    }
    if !closed.iter().any(|c| c.starts_with(path)) {
        parts.push(path.to_owned());
        return;
    }
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            split(&entry.path(), closed, parts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_split_around_what_is_closed() {
        let dir = tempfile::tempdir().unwrap();
        for path in ["a", "b/secret", "b/open"] {
            std::fs::create_dir_all(dir.path().join(path)).unwrap();
        }
        std::os::unix::fs::symlink("/", dir.path().join("way-out")).unwrap();
        let mut parts = open_parts(
            dir.path(),
            &[dir.path().join("b/secret"), "/elsewhere".into()],
        );
        parts.sort();
        assert_eq!(parts, [dir.path().join("a"), dir.path().join("b/open")]);
        assert_eq!(open_parts(dir.path(), &["/elsewhere".into()]), [dir.path()]);
    }

    #[test]
    fn a_list_is_read_in_few_steps_and_whole_or_not_at_all() {
        struct Counted<'l>(&'l [u8], usize);
        impl Read for &mut Counted<'_> {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                self.1 += 1;
                self.0.read(into)
            }
        }
        let found: Vec<PathBuf> = (0..40).map(|n| format!("/etc/secret-{n}").into()).collect();
        let list = serde_json::to_vec(&found).unwrap();
        let mut whole = Counted(&list, 0);
        assert_eq!(read_list(&mut whole).ok(), Some(found));
        assert!(whole.1 < 20, "{} reads", whole.1);
        let mut cut = Counted(list.get(..list.len() - 1).unwrap(), 0);
        assert!(read_list(&mut cut).is_err());
    }

    #[test]
    fn sockets_are_found_where_somebody_may_listen() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("deep")).unwrap();
        let (live, left) = (dir.path().join("deep/a b.sock"), dir.path().join("left"));
        let _listener = std::os::unix::net::UnixListener::bind(&live).unwrap();
        drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
        let bound = names_of_sockets(&std::fs::read_to_string("/proc/net/unix").unwrap());
        let dirs = [dir.path().to_owned()];
        assert_eq!(sockets(&dirs, Some(&bound)), std::slice::from_ref(&live));
        let mut all = sockets(&dirs, None);
        all.sort();
        assert_eq!(all, [live, left]);
    }

    #[test]
    fn what_others_may_not_read_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let make = |name: &str, mode| {
            let path = dir.path().join(name);
            std::fs::OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(&path)
                .unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            path
        };
        make("open", 0o644);
        let (group, own, except) = (
            make("group", 0o640),
            make("own", 0o600),
            make("except", 0o600),
        );
        let mut found = Vec::new();
        search(dir.path(), 2, &[except], &mut found);
        found.sort();
        assert_eq!(found, [group, own]);
    }
}

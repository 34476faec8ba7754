//! Finds what is not meant for everyone in directories that the sandbox shows.
//!
//! A daemon that runs as root owns `/etc/shadow` and every private key; inside the sandbox the
//! command still is that user and would be let in as the owner. So what others may not read is
//! looked up and masked.

use std::io::PipeReader;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::{At, Failure, syscalls};

/// Where secrets of other programs live, and how deep they are looked for. `/etc` whole: about
/// 1,200 entries here; `/opt` only as deep as `/opt/app/config/secret`, since whole
/// programming environments are installed there.
const SEARCHED: [(&str, u32); 3] = [("/etc", 16), ("/usr/local/etc", 16), ("/opt", 3)];

const OTHERS_READ: u32 = 0o004;
const OTHERS_READ_AND_ENTER: u32 = 0o005;

/// A search that runs in a process of its own while the walls go up: it takes 2 ms, a quarter of
/// the whole launch.
pub(super) struct Search(PipeReader);

impl Search {
    /// Begins to look for the files and directories in the shown system directories that others
    /// may not read. The paths in `except`, and what is in them, are left alone. Returns `None` in
    /// the new process, which is done.
    pub(super) fn begin(except: &[PathBuf]) -> Result<Option<Self>, Failure> {
        let step = "look for secrets";
        let (reader, writer) = std::io::pipe().at(step)?;
        if syscalls::fork().at(step)?.is_some() {
            return Ok(Some(Self(reader)));
        }
        let mut found = Vec::new();
        for (dir, depth) in SEARCHED {
            search(Path::new(dir), depth, except, &mut found);
        }
        serde_json::to_writer(writer, &found).at(step)?;
        Ok(None)
    }

    /// Waits for the end and returns what was found, in no particular order.
    pub(super) fn finish(self) -> Result<Vec<PathBuf>, Failure> {
        // A list that was cut short is no JSON.
        serde_json::from_reader(self.0).at("look for secrets")
    }
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

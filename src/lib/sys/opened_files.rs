//! Detects which of some files are opened or moved meanwhile, by whatever path: the kernel reports it for the file itself
//! (inotify(7)).

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

/// Files that are watched.
#[derive(Debug)]
pub struct OpenedFiles {
    inotify: Option<Inotify>,
    watched: HashMap<WatchDescriptor, (PathBuf, Identity)>,
    /// Files that cannot be watched: nobody can tell whether they are opened.
    unknown: Vec<PathBuf>,
}

/// Which file is at a path.
type Identity = Option<(u64, u64)>;

/// What happened to the files that were watched.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Those that were opened, or may have been.
    pub opened: Vec<PathBuf>,
    /// Those that were moved, linked or removed, or got another mode.
    pub moved: Vec<PathBuf>,
}

impl OpenedFiles {
    /// Watches `paths`; links are not followed. Blocks.
    pub fn watch(paths: &[PathBuf]) -> Self {
        let mut watch = Self {
            inotify: None,
            watched: HashMap::new(),
            unknown: Vec::new(),
        };
        if paths.is_empty() {
            return watch;
        }
        watch.inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok();
        let flags = AddWatchFlags::IN_OPEN
            | AddWatchFlags::IN_MOVE_SELF
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_DONT_FOLLOW;
        for path in paths {
            let added = watch
                .inotify
                .as_ref()
                .map(|inotify| inotify.add_watch(path, flags));
            match added {
                Some(Ok(of)) => {
                    watch.watched.insert(of, (path.clone(), identity(path)));
                }
                Some(Err(Errno::ENOENT)) => {}
                Some(Err(_)) | None => watch.unknown.push(path.clone()),
            }
        }
        watch
    }

    /// Returns what happened since, and ends the watch. Where the kernel lost count, or another file is at a path,
    /// the file counts as opened. Blocks.
    pub fn take(self) -> Opened {
        let Self {
            inotify,
            watched,
            unknown,
        } = self;
        let mut happened = Opened {
            opened: unknown,
            moved: Vec::new(),
        };
        let is_other = |(path, before): &(PathBuf, Identity)| {
            let now = identity(path);
            now.is_some() && now != *before
        };
        let mut all = false;
        while let Some(events) = inotify.as_ref().map(Inotify::read_events) {
            let events = match events {
                Ok(events) => events,
                Err(Errno::EINTR) => continue,
                Err(Errno::EAGAIN) => break,
                Err(_) => {
                    all = true;
                    break;
                }
            };
            for event in events {
                all |= event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW);
                let moves = AddWatchFlags::IN_MOVE_SELF
                    | AddWatchFlags::IN_ATTRIB
                    | AddWatchFlags::IN_DELETE_SELF;
                let Some((path, _)) = watched.get(&event.wd) else {
                    continue;
                };
                if event.mask.intersects(moves) {
                    happened.moved.push(path.clone());
                }
                if event.mask.contains(AddWatchFlags::IN_OPEN) {
                    happened.opened.push(path.clone());
                }
            }
        }
        let files = watched.into_values();
        let others = files.filter(|file| all || is_other(file));
        happened.opened.extend(others.map(|(path, _)| path));
        for list in [&mut happened.opened, &mut happened.moved] {
            list.sort();
            list.dedup();
        }
        happened
    }
}

fn identity(path: &Path) -> Identity {
    let meta = std::fs::symlink_metadata(path).ok()?;
    Some((meta.dev(), meta.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::atomic;

    #[test]
    fn a_file_is_seen_when_it_is_opened_by_any_name_or_replaced() {
        let dir = tempfile::tempdir().expect("dir");
        let path = |name: &str| dir.path().join(name);
        let put = |name: &str| {
            atomic::write(&path(name), name.as_bytes(), atomic::Durability::Rename).expect("write");
        };
        for name in ["a", "b", "c", "d"] {
            put(name);
        }
        let files = ["a", "b", "c", "d", "not-there"].map(path);
        let happened = |act: &dyn Fn()| {
            let watch = OpenedFiles::watch(&files);
            act();
            watch.take()
        };
        let check = |act: &dyn Fn(), opened: &[&str], moved: &[&str]| {
            let paths = |names: &[&str]| names.iter().map(|name| path(name)).collect();
            let (opened, moved) = (paths(opened), paths(moved));
            assert_eq!(happened(act), Opened { opened, moved });
        };
        check(&|| drop(std::fs::metadata(path("a"))), &[], &[]);
        check(&|| drop(std::fs::read_dir(dir.path())), &[], &[]);
        check(&|| drop(std::fs::read(path("a"))), &["a"], &[]);
        std::fs::hard_link(path("a"), path("other")).expect("link");
        std::os::unix::fs::symlink(path("b"), path("link")).expect("link");
        let by_links = || {
            drop(std::fs::read(path("other")));
            drop(std::fs::read(path("link")));
        };
        check(&by_links, &["a", "b"], &[]);
        check(
            &|| std::fs::rename(path("c"), path("e")).expect("rename"),
            &[],
            &["c"],
        );
        let replaced = || {
            put("d");
            drop(std::fs::read(path("d")));
        };
        check(&replaced, &["d"], &["d"]);
    }
}

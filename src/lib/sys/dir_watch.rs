//! Detects changes in a directory at the cost of one read(2): the kernel queues events, so changes made before the check are
//! never missed.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};

/// What is a change.
const CHANGES: AddWatchFlags = AddWatchFlags::IN_CLOSE_WRITE
    .union(AddWatchFlags::IN_MODIFY)
    .union(AddWatchFlags::IN_CREATE)
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_DELETE_SELF);
/// The most directories that are watched.
const MAX_DIRS: usize = 4_096;

/// Watches a directory with all below it.
#[derive(Debug)]
pub struct DirWatch {
    inotify: Option<Inotify>,
    parent: PathBuf,
    name: PathBuf,
    dirs: HashMap<WatchDescriptor, PathBuf>,
}

impl DirWatch {
    /// Watches `parent/name`, which need not be there yet. Without inotify(7) nothing is ever said to change.
    pub fn new(parent: &Path, name: &str) -> Self {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC);
        let mut watch = Self {
            inotify: inotify.ok(),
            parent: parent.to_owned(),
            name: name.into(),
            dirs: HashMap::new(),
        };
        watch.watch_all();
        watch
    }

    /// Returns true when something changed since the last call.
    pub fn changed(&mut self) -> bool {
        let Some(inotify) = &self.inotify else {
            return false;
        };
        let (mut changed, mut is_other) = (false, false);
        loop {
            match inotify.read_events() {
                Ok(events) => {
                    for event in events {
                        let dir = self.dirs.get(&event.wd);
                        // Next to the directory itself everything else of its parent is seen.
                        let is_beside = dir == Some(&self.parent)
                            && event.name.as_deref() != Some(self.name.as_os_str());
                        changed |= !is_beside;
                        is_other |= !is_beside
                            && event.mask.intersects(
                                AddWatchFlags::IN_ISDIR
                                    | AddWatchFlags::IN_Q_OVERFLOW
                                    | AddWatchFlags::IN_IGNORED
                                    | AddWatchFlags::IN_DELETE_SELF,
                            );
                    }
                }
                Err(Errno::EAGAIN) => break,
                Err(Errno::EINTR) => {}
                Err(_) => return true,
            }
        }
        if is_other {
            // What was written into a new directory before it was watched is new, too.
            self.watch_all();
        }
        changed
    }

    fn watch_all(&mut self) {
        let Some(inotify) = &self.inotify else { return };
        self.dirs.clear();
        let mut waiting = vec![self.parent.join(&self.name)];
        if let Ok(of) = inotify.add_watch(&self.parent, CHANGES) {
            self.dirs.insert(of, self.parent.clone());
        }
        while let Some(dir) = waiting.pop().filter(|_| self.dirs.len() < MAX_DIRS) {
            let flags = CHANGES | AddWatchFlags::IN_DONT_FOLLOW | AddWatchFlags::IN_ONLYDIR;
            let Ok(of) = inotify.add_watch(&dir, flags) else {
                continue;
            };
            let entries = std::fs::read_dir(&dir).into_iter().flatten().flatten();
            let is_dir =
                |entry: &std::fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
            waiting.extend(entries.filter(is_dir).map(|entry| entry.path()));
            self.dirs.insert(of, dir);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::atomic;

    #[test]
    fn every_way_to_change_a_note_is_seen_once_and_nothing_beside_it() {
        let dir = tempfile::tempdir().expect("dir");
        let mut watch = DirWatch::new(dir.path(), "memory");
        let put = |name: &str| {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().expect("dir")).expect("dir");
            atomic::write(&path, b"x", atomic::Durability::Rename).expect("write");
        };
        assert!(!watch.changed());
        put("other.md");
        assert!(!watch.changed(), "beside it");
        put("memory/a.md");
        assert!(watch.changed() && !watch.changed());
        put("memory/people/1002.md");
        assert!(watch.changed() && !watch.changed());
        let append = std::fs::OpenOptions::new()
            .append(true)
            .open(dir.path().join("memory/people/1002.md"));
        std::io::Write::write_all(&mut append.expect("open"), b"more").expect("write");
        assert!(watch.changed() && !watch.changed());
        std::fs::remove_file(dir.path().join("memory/a.md")).expect("remove");
        assert!(watch.changed() && !watch.changed());
        std::fs::remove_dir_all(dir.path().join("memory")).expect("remove");
        assert!(watch.changed());
        watch.changed();
        put("memory/b.md");
        assert!(watch.changed());
    }
}

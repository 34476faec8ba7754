//! The spool: commands that wait on disk until the daemon has them in `queue.db`.
//!
//! `spool/tmp/<id>.json` (being written) → rename → `spool/new/<id>.json` (accepted, durable).

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::{Id, MAX_COMMAND};
use crate::sys::{Error, HeldDir, atomic, read_foreign};

/// The names `spool/new`: in a channel's directory its process makes of them what it likes.
pub(super) const OWN_NAMES: usize = 2;

/// Leaves `line` in the spool under `id`; it survives a power cut when the call returns. Returns false when a
/// command with this id waits already: the first stays.
///
/// # Errors
/// When the spool directories are missing, not writable or full.
pub fn put(tmp: &Path, new: &Path, id: &Id, line: &str) -> Result<bool, Error> {
    atomic::write_new_by_way_of(tmp, &new.join(format!("{id}.json")), line.as_bytes())
}

/// A waiting command file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its id, from the file name.
    pub id: Id,
    /// Its path.
    pub path: PathBuf,
}

impl Entry {
    fn dir(&self) -> Result<HeldDir, Error> {
        HeldDir::open(self.path.parent().unwrap_or(&self.path), OWN_NAMES)
    }

    fn name(&self) -> &Path {
        self.path.file_name().unwrap_or_default().as_ref()
    }
}

/// Returns the waiting commands in the order in which they came: by the time of their last change, then by id.
/// Files with other names are not ours and stay.
///
/// # Errors
/// When the directory cannot be read.
pub fn scan(new: &Path) -> Result<Vec<Entry>, Error> {
    match scan_but(new, &HashSet::new()) {
        Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        found => found,
    }
}

/// Does what [`scan`] does, without a look at those that are `known`.
///
/// # Errors
/// When the directory cannot be read.
pub fn scan_but(new: &Path, known: &HashSet<Id>) -> Result<Vec<Entry>, Error> {
    let mut entries: Vec<(SystemTime, Entry)> = HeldDir::open(new, OWN_NAMES)?
        .read()?
        .flatten()
        .filter_map(|entry| {
            let id = Id::parse(entry.file_name().to_str()?.strip_suffix(".json")?)?;
            if known.contains(&id) {
                return None;
            }
            let changed = entry.metadata().and_then(|meta| meta.modified());
            let path = new.join(entry.file_name());
            Some((
                changed.unwrap_or(SystemTime::UNIX_EPOCH),
                Entry { id, path },
            ))
        })
        .collect();
    entries.sort_by(|(at, a), (later, b)| at.cmp(later).then_with(|| a.id.cmp(&b.id)));
    Ok(entries.into_iter().map(|(_, entry)| entry).collect())
}

/// Reads a waiting command; `None` when it is gone.
///
/// # Errors
/// When it cannot be read now. What can never be read (no regular file, larger than
/// [`MAX_COMMAND`]) has the kind `InvalidData`.
pub fn read(entry: &Entry) -> Result<Option<Vec<u8>>, Error> {
    let read = entry
        .dir()
        .and_then(|dir| dir.with(entry.name(), |path| read_foreign(path, MAX_COMMAND)));
    match read {
        Err(error) if error.source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        read => read,
    }
}

/// Removes a waiting command.
///
/// # Errors
/// When it stays.
pub fn remove(entry: &Entry) -> Result<(), Error> {
    let remove = |path: &Path| std::fs::remove_file(path).map_err(Error::at("remove", path));
    match entry.dir().and_then(|dir| dir.with(entry.name(), remove)) {
        Err(error) if error.source.kind() != std::io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Returns the command that waits under `id`, if one does.
///
/// # Errors
/// See [`read`].
pub fn waiting(new: &Path, id: &Id) -> Result<Option<Vec<u8>>, Error> {
    read(&Entry {
        path: new.join(format!("{id}.json")),
        id: id.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_wait_in_order_of_arrival_the_first_of_an_id_stays_and_so_do_strange_files() {
        let dir = tempfile::tempdir().expect("dir");
        let (tmp, new) = (dir.path().join("tmp"), dir.path().join("new"));
        std::fs::create_dir(&tmp).expect("tmp");
        std::fs::create_dir(&new).expect("new");
        for id in ["b", "a", "c"] {
            assert!(put(&tmp, &new, &Id::parse(id).expect("id"), id).expect("put"));
        }
        assert!(!put(&tmp, &new, &Id::parse("a").expect("id"), "other").expect("put"));
        assert_eq!(std::fs::read_dir(&tmp).expect("tmp").count(), 0);
        atomic::write(&new.join("notes.txt"), b"mine", atomic::Durability::Rename).expect("write");
        let ids: Vec<String> = scan(&new)
            .expect("scan")
            .iter()
            .map(|entry| entry.id.to_string())
            .collect();
        assert_eq!(ids, ["b", "a", "c"]);
        let known = HashSet::from(["b", "c"].map(|id| Id::parse(id).expect("id")));
        let new_ones = scan_but(&new, &known).expect("scan");
        assert_eq!(new_ones.len(), 1);
        assert_eq!(std::fs::read(new.join("a.json")).expect("read"), b"a");
    }
}

//! The spool: commands that wait on the disk until the daemon has them in `queue.db`.
//!
//! `spool/tmp/<id>.json` (being written) → rename → `spool/new/<id>.json` (accepted, durable).

use std::path::{Path, PathBuf};

use super::{Id, MAX_COMMAND};
use crate::sys::{Error, atomic};

/// Leaves `line` in the spool under `id`; it survives a power cut when the call returns. The
/// same id twice is one command: the later text replaces the waiting one.
///
/// # Errors
/// When the spool directories are missing, not writable or full.
pub fn put(tmp: &Path, new: &Path, id: &Id, line: &str) -> Result<(), Error> {
    let name = format!("{id}.json");
    let draft = tmp.join(&name);
    let target = new.join(&name);
    atomic::write(&draft, line.as_bytes(), atomic::Durability::Full)?;
    std::fs::rename(&draft, &target).map_err(Error::at("spool", &target))?;
    atomic::sync_parent(&target).map_err(Error::at("spool", &target))
}

/// A waiting command file.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its id, from the file name.
    pub id: Id,
    /// Where it lies.
    pub path: PathBuf,
}

/// Returns the waiting commands in id order. Files with other names are not ours and stay.
///
/// # Errors
/// When the directory cannot be read.
pub fn scan(new: &Path) -> Result<Vec<Entry>, Error> {
    let mut entries: Vec<Entry> = std::fs::read_dir(new)
        .map_err(Error::at("read", new))?
        .flatten()
        .filter_map(|entry| {
            let id = Id::parse(entry.file_name().to_str()?.strip_suffix(".json")?)?;
            Some(Entry { id, path: entry.path() })
        })
        .collect();
    entries.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(entries)
}

/// Reads a waiting command; `None` when it is gone.
///
/// # Errors
/// When it cannot be read or is larger than [`MAX_COMMAND`].
pub fn read(entry: &Entry) -> Result<Option<Vec<u8>>, Error> {
    match std::fs::symlink_metadata(&entry.path) {
        Ok(meta) if !meta.is_file() || meta.len() > MAX_COMMAND => {
            Err(Error::at("read", &entry.path)(std::io::Error::from(std::io::ErrorKind::FileTooLarge)))
        }
        Ok(_) => atomic::read(&entry.path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::at("read", &entry.path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_wait_in_id_order_and_strange_files_stay() {
        let dir = tempfile::tempdir().expect("dir");
        let (tmp, new) = (dir.path().join("tmp"), dir.path().join("new"));
        std::fs::create_dir(&tmp).expect("tmp");
        std::fs::create_dir(&new).expect("new");
        for id in ["b", "a", "c"] {
            put(&tmp, &new, &Id::parse(id).expect("id"), "{}").expect("put");
        }
        atomic::write(&new.join("notes.txt"), b"mine", atomic::Durability::Rename).expect("write");
        let ids: Vec<String> = scan(&new).expect("scan").iter().map(|entry| entry.id.to_string()).collect();
        assert_eq!(ids, ["a", "b", "c"]);
    }
}

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
    atomic::write_by_way_of(tmp, &new.join(format!("{id}.json")), line.as_bytes())
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
            Some(Entry {
                id,
                path: entry.path(),
            })
        })
        .collect();
    entries.sort_by(|a, b| a.id.cmp(&b.id));
    Ok(entries)
}

/// Reads a waiting command; `None` when it is gone.
///
/// # Errors
/// When it cannot be read now. What can never be read (no regular file, larger than
/// [`MAX_COMMAND`]) has the kind `InvalidData`.
pub fn read(entry: &Entry) -> Result<Option<Vec<u8>>, Error> {
    let never = |why: &str| {
        Err(Error::at("read", &entry.path)(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            why.to_owned(),
        )))
    };
    match std::fs::symlink_metadata(&entry.path) {
        Ok(meta) if !meta.is_file() => never("it is no regular file"),
        Ok(meta) if meta.len() > MAX_COMMAND => never("it is too large"),
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
        let ids: Vec<String> = scan(&new)
            .expect("scan")
            .iter()
            .map(|entry| entry.id.to_string())
            .collect();
        assert_eq!(ids, ["a", "b", "c"]);
    }
}

//! Whole-file writes that are either there or not: a temporary file in the same directory,
//! mode 0600, renamed over the target.
//!
//! [`Durability::Full`] adds fsync of the file and of its directory (about 0.4 ms each on the
//! machine the budgets were measured on); [`Durability::Rename`] does not, for what is rebuilt
//! at start anyway.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::Error;

/// What must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// A power cut: file and directory are on disk when the call returns.
    Full,
    /// A crash of the process: a reader sees the old or the new file, never a part.
    Rename,
}

/// Replaces the content of `path` by `bytes`.
///
/// # Errors
/// When the directory is missing, not writable or full; `path` is then unchanged, or (when only
/// the sync of its directory failed) changed but not yet safe from a power cut.
pub fn write(path: &Path, bytes: &[u8], durability: Durability) -> Result<(), Error> {
    let temp = temp_beside(path);
    let result = fill(&temp, bytes, durability)
        .and_then(|()| std::fs::rename(&temp, path))
        .and_then(|()| {
            if durability == Durability::Full {
                sync_parent(path)
            } else {
                Ok(())
            }
        });
    result.map_err(|source| {
        // Best effort: the rename may have happened, then there is nothing to remove.
        let _ = std::fs::remove_file(&temp);
        Error::at("write", path)(source)
    })
}

/// Makes a rename, a creation or a removal in the directory of `path` survive a power cut.
///
/// # Errors
/// When the directory cannot be opened or synced.
pub fn sync_parent(path: &Path) -> std::io::Result<()> {
    path.parent().map_or(Ok(()), sync_dir)
}

/// Makes what was created, renamed or removed in a directory survive a power cut.
///
/// # Errors
/// When it cannot be opened or synced.
pub fn sync_dir(dir: &Path) -> std::io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Reads a file: `None` when it is absent.
///
/// # Errors
/// When it exists and cannot be read.
pub fn read(path: &Path) -> Result<Option<Vec<u8>>, Error> {
    match read_file(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::at("read", path)(error)),
    }
}

fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a regular file, or a directory, for reading. Nothing waits for a writer of a FIFO in its place.
///
/// # Errors
/// When it cannot be opened, or something else is there.
pub fn open(path: &Path) -> std::io::Result<File> {
    let flags = libc::O_NONBLOCK | libc::O_CLOEXEC;
    let is_other = |_| std::io::Error::other("it is no regular file");
    let open = File::options().read(true).custom_flags(flags).open(path);
    let file = open.map_err(|error| match error.raw_os_error() {
        // A socket.
        Some(libc::ENXIO) => is_other(()),
        _ => error,
    })?;
    let meta = file.metadata()?;
    match meta.is_file() || meta.is_dir() {
        true => Ok(file),
        false => Err(is_other(())),
    }
}

/// Reads a JSON file that this process owns: absent means `None`; one that cannot be parsed is
/// renamed `NAME.corrupt-<milliseconds>` and reported in the log, never saved over.
///
/// # Errors
/// When it exists and cannot be read or renamed.
pub fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    let Some(bytes) = read(path)? else {
        return Ok(None);
    };
    match serde_json::from_slice(&bytes) {
        Ok(value) => Ok(Some(value)),
        Err(error) => {
            let aside = super::quarantine_file(path)?;
            tracing::error!(file = %path.display(), aside = %aside.display(), %error, "unreadable file set aside");
            Ok(None)
        }
    }
}

/// Reads a JSON file that is made again: absent, and not JSON of this form, means `None`.
///
/// # Errors
/// When it exists and cannot be read.
pub fn read_valid_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    Ok(read(path)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
}

/// Replaces the content of `path` by `value` as JSON with line breaks.
///
/// # Errors
/// As [`write()`].
pub fn write_json<T: serde::Serialize>(
    path: &Path,
    value: &T,
    durability: Durability,
) -> Result<(), Error> {
    let bytes = serde_json::to_vec_pretty(value).map_err(Error::at("write", path))?;
    write(path, &bytes, durability)
}

/// Removes the temporary files of writers that died more than an hour ago.
///
/// # Errors
/// When the directory cannot be read.
pub fn remove_litter(dir: &Path) -> Result<(), Error> {
    let entries = std::fs::read_dir(dir).map_err(Error::at("read", dir))?;
    for entry in entries.flatten() {
        let name = entry.file_name();
        let temporary =
            name.to_string_lossy().starts_with('.') && name.to_string_lossy().contains(".tmp-");
        let age = entry
            .metadata()
            .and_then(|meta| meta.modified())
            .ok()
            .and_then(|time| time.elapsed().ok());
        if temporary && age.is_some_and(|age| age.as_secs() > 3600) {
            // Somebody else may have removed it meanwhile.
            let _ = std::fs::remove_file(entry.path());
        }
    }
    Ok(())
}

/// Writes `bytes` to a temporary file in `draft`, syncs it and makes it `target`, on the same file system; it
/// survives a power cut when the call returns. Returns false when `target` is there: then it stays as it is.
///
/// The file says to the nanosecond when it was made: the kernel's own stamp counts ticks of some milliseconds, and
/// two files of one tick would have no order.
///
/// # Errors
/// When a directory is missing, not writable or full; `target` is then as it was.
pub fn write_new_by_way_of(draft: &Path, target: &Path, bytes: &[u8]) -> Result<bool, Error> {
    let temp = temp_beside(&draft.join(target.file_name().unwrap_or_default()));
    let result = fill(&temp, bytes, Durability::Full)
        .and_then(|()| stamp(&temp))
        .and_then(|()| match std::fs::hard_link(&temp, target) {
            Ok(()) => sync_parent(target).map(|()| true),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            _ if target.try_exists()? => Ok(false),
            // A file system without hard links.
            Err(_) => std::fs::rename(&temp, target)
                .and_then(|()| sync_parent(target))
                .map(|()| true),
        });
    // One that stays is litter.
    let _ = std::fs::remove_file(&temp);
    result.map_err(Error::at("write", target))
}

fn stamp(path: &Path) -> std::io::Result<()> {
    OpenOptions::new()
        .write(true)
        .open(path)?
        .set_modified(crate::clock::now())
}

fn temp_beside(path: &Path) -> PathBuf {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unique = COUNTER.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!(".{name}.tmp-{}-{unique}", std::process::id()))
}

fn fill(temp: &Path, bytes: &[u8], durability: Durability) -> std::io::Result<()> {
    let create = || {
        // Nothing that is there is written to: another process may have put a link there.
        let mut options = OpenOptions::new();
        options.write(true).create_new(true).mode(0o600).open(temp)
    };
    let mut file = create().or_else(|error| match error.kind() {
        // What an earlier process of this number left.
        std::io::ErrorKind::AlreadyExists => std::fs::remove_file(temp).and_then(|()| create()),
        _ => Err(error),
    })?;
    file.write_all(bytes)?;
    if durability == Durability::Full {
        file.sync_all()
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_write_leaves_the_old_file_and_no_litter() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("state.json");
        write(&path, b"old", Durability::Full).expect("first write");
        assert!(
            write(
                &dir.path().join("missing/state.json"),
                b"new",
                Durability::Full
            )
            .is_err()
        );
        assert_eq!(read(&path).expect("read"), Some(b"old".to_vec()));
        assert_eq!(std::fs::read_dir(dir.path()).expect("list").count(), 1);
    }

    #[test]
    fn an_unreadable_file_is_set_aside_and_kept() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("people.json");
        write(&path, b"{ torn", Durability::Rename).expect("write");
        assert_eq!(read_json::<serde_json::Value>(&path).expect("read"), None);
        let names: Vec<_> = std::fs::read_dir(dir.path())
            .expect("list")
            .flatten()
            .map(|e| e.file_name())
            .collect();
        assert!(
            matches!(names.as_slice(), [name] if name.to_string_lossy().starts_with("people.json.corrupt-"))
        );
    }
}

//! Quarantine: a damaged database is set aside and kept. It is up to three files: itself, its log and the index of the log.

use std::path::{Path, PathBuf};

use crate::sys;

/// What the names of the two others end in.
pub const BESIDE: [&str; 2] = ["-wal", "-shm"];

/// Returns the file next to the database at `path` whose name ends in `end`.
pub fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    PathBuf::from(name)
}

/// Renames a database that cannot be used and returns its new name. Its log goes with it under the
/// matching name, so that `sqlite3 … .recover` finds both.
///
/// # Errors
/// When a rename fails.
pub fn set_aside(path: &Path) -> Result<PathBuf, sys::Error> {
    let aside = sys::quarantine_file(path)?;
    for end in BESIDE {
        let from = beside(path, end);
        match std::fs::rename(&from, beside(&aside, end)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(sys::Error::at("set aside", &from)(error));
            }
            // There is none after a clean end.
            _ => {}
        }
    }
    Ok(aside)
}

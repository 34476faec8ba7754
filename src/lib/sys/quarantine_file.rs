//! Quarantine of a file: an unreadable one is renamed and kept. A database is up to three files, see
//! `db/quarantine.rs`.

use std::path::{Path, PathBuf};

use super::Error;

/// Renames `path` to `NAME.corrupt-<milliseconds>` and returns the new name.
///
/// # Errors
/// When the rename fails.
pub fn quarantine_file(path: &Path) -> Result<PathBuf, Error> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".corrupt-{}", crate::clock::now_ms()));
    let aside = path.with_file_name(name);
    std::fs::rename(path, &aside).map_err(Error::at("set aside", path))?;
    Ok(aside)
}

//! Quarantine of a file: one that cannot be understood is renamed and kept. A database is up to three files, see
//! `db/quarantine.rs`.

use std::path::{Path, PathBuf};

use super::Error;

/// What stands between the name of a file and the time when it was renamed.
const CORRUPT: &str = ".corrupt-";

/// Renames `path` to `NAME.corrupt-<milliseconds>` and returns the new name.
///
/// # Errors
/// When the rename fails.
pub fn quarantine_file(path: &Path) -> Result<PathBuf, Error> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!("{CORRUPT}{}", crate::clock::now_ms()));
    let aside = path.with_file_name(name);
    std::fs::rename(path, &aside).map_err(Error::at("set aside", path))?;
    Ok(aside)
}

/// A file that was not changed for so long is not being written any more, milliseconds; the clock of a file server may be
/// ahead by the other.
const AT_REST_MS: i64 = 2_000;
const AHEAD_MS: i64 = 60_000;

/// Returns true while an editor may be saving the file at `path` in place: what is in it then is no damage.
pub fn is_being_written(path: &Path) -> bool {
    super::modified_at(path)
        .is_some_and(|at| (-AHEAD_MS..AT_REST_MS).contains(&(crate::clock::now_ms() - at)))
}

/// Returns the newest file that [`quarantine_file`] renamed and `path` was the name of; `None` when none is there.
pub fn newest_quarantined(path: &Path) -> Option<PathBuf> {
    let begin = format!("{}{CORRUPT}", path.file_name()?.to_str()?);
    let entries = std::fs::read_dir(path.parent()?).ok()?.flatten();
    let is_aside = |path: &PathBuf| {
        let name = path.file_name().and_then(|name| name.to_str());
        name.is_some_and(|name| name.starts_with(&begin))
    };
    entries.map(|entry| entry.path()).filter(is_aside).max()
}

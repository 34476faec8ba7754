//! What is kept of the past, and for how long.

use std::path::PathBuf;

use std::time::Duration;

use super::journal::Store;
use crate::sys;

/// How long a run can be taken back: as long as its messages are kept.
pub const KEEP: Duration = Duration::from_secs(14 * 24 * 3600);
/// The most bytes that all runs together keep; beyond it the oldest go, and the newest stays in any case.
pub const MAX_BYTES: u64 = 256 << 20;

impl Store {
    /// Removes what is older than `keep`, and the oldest runs while all take more than `max` bytes.
    ///
    /// # Errors
    /// When a directory cannot be removed.
    pub fn prune(&self, keep: Duration, max: u64) -> Result<(), sys::Error> {
        let _busy = self.busy.lock();
        let mut runs = Vec::new();
        for entry in std::fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let dir = entry.path();
            let journal = dir
                .join("journal.jsonl")
                .metadata()
                .or_else(|_| entry.metadata());
            let Ok(age) = journal
                .and_then(|meta| meta.modified())
                .map(|time| time.elapsed().unwrap_or_default())
            else {
                continue;
            };
            let files = std::fs::read_dir(&dir).into_iter().flatten().flatten();
            let bytes: u64 = files
                .filter_map(|file| file.metadata().ok())
                .map(|meta| meta.len())
                .sum();
            runs.push((age, dir, bytes));
        }
        runs.sort_by_key(|(age, ..)| *age);
        let mut total = 0_u64;
        let mut gone: Vec<PathBuf> = Vec::new();
        for (number, (age, dir, bytes)) in runs.into_iter().enumerate() {
            total = total.saturating_add(bytes);
            if age > keep || (number > 0 && total > max) {
                gone.push(dir);
            }
        }
        gone.iter()
            .try_for_each(|dir| std::fs::remove_dir_all(dir).map_err(sys::Error::at("remove", dir)))
    }
}

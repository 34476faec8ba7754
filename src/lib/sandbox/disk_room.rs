//! The room that a command leaves on the disk: what it unpacks must not take the daemon's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::statvfs::statvfs;

/// How often it is looked at: a fast disk takes about 2 GB a second.
const INTERVAL: Duration = Duration::from_millis(100);

/// What a command may always write, bytes: on a disk that is nearly full somebody has to tidy up.
const ALWAYS: u64 = 64 << 20;

/// Watches the disk of the workspace.
pub(super) struct DiskRoom {
    dir: PathBuf,
    /// Bytes that must stay free.
    least: u64,
}

impl DiskRoom {
    /// Returns one that keeps `reserve` bytes free beside `dir`, or less where less is free now.
    pub(super) fn new(dir: &Path, reserve: u64) -> Self {
        let within = free(dir).map_or(0, |free| free.saturating_sub(ALWAYS));
        Self {
            dir: dir.to_owned(),
            least: reserve.min(within),
        }
    }

    /// Returns when less is free.
    pub(super) async fn is_short(&self) {
        loop {
            tokio::time::sleep(INTERVAL).await;
            let dir = self.dir.clone();
            let free = crate::sys::blocking(move || free(&dir)).await;
            if free.is_some_and(|free| free < self.least) {
                return;
            }
        }
    }
}

/// Returns the bytes that may still be written beside `dir`; `None` when nobody knows.
fn free(dir: &Path) -> Option<u64> {
    let fs = statvfs(dir).ok()?;
    Some(fs.blocks_available().saturating_mul(fs.fragment_size()))
}

//! Monitors the disk space that a command leaves, so that the daemon keeps its reserve.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::sys::free_space;

/// What a fast disk takes, bytes a millisecond: how soon it is to be looked at again.
const FASTEST: u64 = 2_000_000;
/// Between two looks, milliseconds.
const INTERVAL_MS: (u64, u64) = (100, 10_000);

/// What a command may always write, bytes: on a disk that is nearly full somebody has to tidy up.
const ALWAYS: u64 = 64 << 20;

/// Watches the disk of the workspace.
pub(super) struct DiskRoom {
    dir: PathBuf,
    /// Bytes that must stay free.
    least: u64,
}

impl DiskRoom {
    /// Returns one that keeps `reserve` bytes free next to `dir`, or less where less is free now.
    pub(super) fn new(dir: &Path, reserve: u64) -> Self {
        let within = free_space(dir).map_or(0, |free| free.saturating_sub(ALWAYS));
        Self {
            dir: dir.to_owned(),
            least: reserve.min(within),
        }
    }

    /// Returns when less is free; where nothing is to stay free, never.
    pub(super) async fn is_short(&self) {
        if self.least == 0 {
            std::future::pending().await
        }
        let mut pause = INTERVAL_MS.0;
        loop {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let dir = self.dir.clone();
            let free = crate::sys::blocking(move || free_space(&dir)).await;
            let Some(left) = free.map(|free| free.checked_sub(self.least)) else {
                continue;
            };
            let Some(left) = left else { return };
            pause = (left / FASTEST).clamp(INTERVAL_MS.0, INTERVAL_MS.1);
        }
    }
}

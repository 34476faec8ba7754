//! The room that is left on a disk.

use std::path::Path;

use nix::sys::statvfs::{Statvfs, statvfs};

/// With less free a database cannot grow: SQLite adds pages, and what is written whole needs a second copy.
const FULL: u64 = 256 << 10;

/// Returns the bytes that may still be written next to `dir`; `None` when nobody knows.
pub fn free_space(dir: &Path) -> Option<u64> {
    statvfs(dir).ok().as_ref().and_then(available)
}

/// Returns whether the disk of `dir` is full, or has no room for another file.
pub fn is_full(dir: &Path) -> bool {
    statvfs(dir).is_ok_and(|fs| {
        // A file system that counts no files says 0 of 0.
        let has_no_files = fs.files() > 0 && fs.files_available() == 0;
        has_no_files || available(&fs).is_some_and(|free| free < FULL)
    })
}

fn available(fs: &Statvfs) -> Option<u64> {
    // A file system that counts no blocks says 0 of 0.
    (fs.blocks() > 0).then(|| fs.blocks_available().saturating_mul(fs.fragment_size()))
}

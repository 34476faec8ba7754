//! Detects whether a file has changed since it was last seen.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What changes when a file or a directory does: when its content was changed, when anything of it was
/// changed (no program sets that back), its size, its inode and device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version([i64; 4], [u64; 3]);

impl Version {
    /// Returns the version of what is at `path`, links followed; `None` when nothing is, or nobody can tell.
    pub fn at(path: &Path) -> Option<Self> {
        Some(Self::of(&std::fs::metadata(path).ok()?))
    }

    /// Returns the version that `metadata` is of.
    pub fn of(metadata: &Metadata) -> Self {
        let times = [
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.ctime(),
            metadata.ctime_nsec(),
        ];
        Self(times, [metadata.size(), metadata.ino(), metadata.dev()])
    }
}

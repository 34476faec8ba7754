//! Untrusted words: what marks them, what a mark stops, and what clears it.

pub(crate) mod approved_hashes;
pub mod fence;
pub(crate) mod untrusted_files;

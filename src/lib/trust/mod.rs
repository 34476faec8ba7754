//! Untrusted words: what marks them, what a mark stops, and what clears it.

pub mod fence;
pub(crate) mod untrusted_files;

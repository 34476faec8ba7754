//! Untrusted text: what marks it, what a mark prevents, and what clears it.

pub(crate) mod approved_hashes;
mod cached_file;
pub mod fence;
mod provenance;
pub(crate) mod standing_rules;
pub(crate) mod untrusted_files;
pub(crate) mod untrusted_periods;

pub use provenance::{Provenance, of_result, says_nothing};

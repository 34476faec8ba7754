//! The write side of the index: files become documents, chunks and vectors.

pub(crate) mod chunk;
pub(crate) mod document;
pub(crate) mod fact_lines;
pub(crate) mod rows;
pub(crate) mod summaries;
pub(crate) mod sync;
pub(crate) mod vectors;

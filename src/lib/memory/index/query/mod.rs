//! The read side of the index: a question becomes ranked passages.

pub(crate) mod candidates;
pub(crate) mod date_mentions;
pub(crate) mod evidence;
pub(crate) mod line_signals;
pub(crate) mod passage;
pub(crate) mod query_vector;
pub(crate) mod rank;
pub(crate) mod request;
pub(crate) mod search;
pub(crate) mod semantic;
pub(crate) mod shortlist;
pub(crate) mod top_k;

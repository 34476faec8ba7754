//! Step 1, intake: inputs from channels, the shell, HTTP and the job schedule are accepted once.

mod access;
pub(crate) mod channel_batch;
pub(crate) mod channel_lines;
pub(crate) mod http;
pub(crate) mod jobs;
pub(crate) mod recipients;
pub(crate) mod session_keys;
pub(crate) mod shell;

//! Step 1, intake: inputs from channels, the shell, HTTP and the job schedule are accepted once.

pub(crate) mod channel_batch;
pub(crate) mod channel_lines;
pub(crate) mod http;
pub(crate) mod jobs;
pub(crate) mod shell;
pub(crate) mod ways;

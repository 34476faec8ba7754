//! Step 3, turn: one input from its start to the transaction that marks it done and stores the reply.

pub(crate) mod attachments;
mod callback;
pub(crate) mod describe;
pub(crate) mod download;
pub(crate) mod interim;
pub(crate) mod outcome;
pub(crate) mod progress;
pub(crate) mod prompt_trace;
pub(crate) mod recall;
pub(crate) mod record_message;
mod repeated_heartbeat;
pub(crate) mod run;
pub(crate) mod silence;
pub(crate) mod stream;
pub(crate) mod transcribe;
mod voice;
pub(crate) mod withhold_secrets;

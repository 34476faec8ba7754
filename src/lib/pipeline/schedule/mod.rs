//! Step 2, schedule: messages that belong together become one turn, and each session's turns run in order.

pub(crate) mod debounce;
mod lanes;
pub(crate) mod renew_session;
pub(crate) mod scheduler;
pub(crate) mod slots;

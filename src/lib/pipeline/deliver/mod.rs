//! Step 4, deliver: stored replies are sent, each chat's in order.

pub(crate) mod cost_alerts;
pub(crate) mod delivery;
pub(crate) mod receipts;
mod retry;
mod to_owner;
mod unknown_outcome;

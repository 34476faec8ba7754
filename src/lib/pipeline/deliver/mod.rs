//! Step 4, deliver: stored replies go out, each chat's in order.

pub(crate) mod cost_alerts;
pub(crate) mod delivery;
pub(crate) mod receipts;
mod to_owner;

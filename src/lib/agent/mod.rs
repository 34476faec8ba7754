//! The mind at work: the loop of model and tools, what tools are, and the guards around them.

mod broken;
mod calls;
mod compact;
mod guard;
#[cfg(test)]
mod proofs;
mod run;
mod schema;
mod tool;

pub use broken::break_off;
pub use compact::Room;
pub use run::{Agent, Ended, Limits, Order, Reply, Written};
pub use tool::{Context, Effect, Offer, Registry, Rights, Tool, ToolOutput};

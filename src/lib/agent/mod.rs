//! The mind at work: the loop of model and tools, what tools are, and the guards around them.

mod guard;
mod run;
mod schema;
mod tool;

pub use run::{Agent, Ended, Limits, Order, Reply, Written, break_off};
pub use tool::{Context, Offer, Registry, Rights, Tool, ToolOutput};

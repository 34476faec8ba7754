//! The mind at work: the loop of model and tools, what tools are, and the guards around them.

mod broken;
mod guard;
mod run;
mod schema;
mod tool;

pub use broken::break_off;
pub use run::{Agent, Ended, Limits, Order, Reply, Written};
pub use tool::{Context, Offer, Registry, Rights, Tool, ToolOutput};

//! The mind at work: the loop of model and tools, what tools are, and the guards around them.

mod broken;
mod calls;
mod compact;
mod gate;
mod guard;
mod harvest;
mod more;
#[cfg(test)]
mod proofs;
mod run;
mod schema;
mod tool;

pub use broken::break_off;
pub use compact::Room;
pub use gate::{Asked, Owner, Question, Reach, Verdict};
pub use run::{Agent, Ended, Limits, Order, Reply, Written};
pub use tool::{Changing, Context, Effect, Offer, Progress, Registry, Rights, Tool, ToolOutput};

//! The mind at work: the loop of model and tools, what tools are, and the guards around them.

mod broken;
mod calls;
mod compact;
mod gate;
mod guard;
mod harvest;
mod more;
mod order;
#[cfg(test)]
mod proofs;
mod run;
mod schema;
mod team;
mod tool;

pub use broken::break_off;
pub use compact::Room;
pub use gate::{Asked, Owner, Question, Reach, Verdict};
pub use order::{Ended, Limits, Order, Reply, Written};
pub use run::Agent;
pub use team::{Errand, Sent, Team};
pub use tool::{Changing, Context, Effect, Offer, Progress, Registry, Rights, Tool, ToolOutput};

//! Plan mode: the answer of the model is a graph of tasks, executed one after the other.
//!
//! | step | where |
//! |---|---|
//! | messages wait `[agent] plan_pause_ms` for each other; of several only the newest is answered | `schedule` |
//! | the model is shown what was really said, and asked for a plan | [`history`], [`instructions`] |
//! | its answer becomes a graph in queue.db, in the transaction that ends the turn | [`answer`] |
//! | tasks are executed when they are due, round robin over conversations | [`rounds`], [`perform`] |
//! | a new message cancels open tasks, in the transaction that accepts it | `queue::tasks` |
//!
//! The task `received` of a graph is the message itself, in the inbox: it is pending until its plan is stored.

pub(crate) mod answer;
pub(crate) mod history;
pub(crate) mod instructions;
mod perform;
pub(crate) mod rounds;

use crate::config::Mode;
use crate::message::{Envelope, Source};
use crate::pipeline::Live;

/// Returns true for what is answered with a plan.
pub(crate) fn is_planned(live: &Live, envelope: &Envelope) -> bool {
    live.config.agent.mode == Mode::Plan && envelope.task.is_none()
}

/// Returns true when the tasks of the plan are carried out in a chat; else somebody waits for one answer.
pub(crate) fn has_graph(envelope: &Envelope) -> bool {
    let answers_caller = matches!(envelope.source, Source::Cli | Source::Http | Source::System);
    envelope.route.is_some() && !answers_caller
}

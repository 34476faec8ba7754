//! Commands that are carried out in the order of their conversation's lane.

use std::sync::Arc;

use crate::message::Command;
use crate::pipeline::persist::Recorded;
use crate::pipeline::turn::outcome::Outcome;
use crate::pipeline::{Pipeline, Run, TurnInputs};

/// What an input is in its lane.
pub(crate) enum Step {
    /// A turn, of this.
    Turn(TurnInputs),
    /// Something else, which is done.
    Done(Box<Outcome>),
    /// A stopped command; whoever stopped it has recorded that.
    Stopped,
}

impl Step {
    pub(super) fn done(outcome: Outcome) -> Self {
        Self::Done(Box::new(outcome))
    }
}

impl Pipeline {
    /// Carries out a command of a lane; anything else is a turn.
    pub(crate) async fn between(
        self: &Arc<Self>,
        inputs: &TurnInputs,
        run_id: &str,
        run: &Run,
    ) -> Recorded<Step> {
        let envelope = inputs.leader();
        let (model, words) = match &envelope.command {
            Some(Command::New { model, words }) => (model.as_deref(), words.as_deref()),
            Some(Command::Compact) => return self.compact(envelope, run_id, run).await,
            Some(Command::Undo { run }) => {
                return Ok(Step::done(self.take_back(envelope, run.as_deref()).await));
            }
            Some(Command::Forget { what }) => {
                return Ok(Step::done(
                    self.forget(envelope, what.as_deref(), run_id).await,
                ));
            }
            Some(Command::Model { choice }) => {
                let chosen = self.choose_model(envelope, choice.as_deref()).await?;
                return Ok(Step::done(chosen));
            }
            _ => return Ok(Step::Turn(inputs.clone())),
        };
        let done = self
            .start_new_session(envelope, model, inputs.has_begun())
            .await?;
        let speaks =
            words.is_some() || !envelope.media.is_empty() || !envelope.attachments.is_empty();
        Ok(match done {
            Ok(_) if speaks => Step::Turn(inputs.clone().saying(words.unwrap_or_default())),
            Ok(outcome) | Err(outcome) => Step::done(outcome),
        })
    }
}

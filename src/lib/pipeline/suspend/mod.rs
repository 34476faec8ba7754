//! A turn that cannot continue now is suspended: it ends without an answer, its slot is free, its lane waits. The
//! scheduler starts it again when its time has come, or when what it waits for is there; its transcript says where
//! it continues. Its sender is notified once of what it waits for.

mod reminder_without_model;
mod wait_plan;
mod waiting_notice;

use std::sync::Arc;
use std::time::Duration;

pub(super) use wait_plan::{Awake, Denied};
pub(super) use waiting_notice::Notices;

use super::Pipeline;
use super::Signal;
use super::persist::Recorded;
use super::schedule::debounce::TurnInputs;
use crate::clock;
use crate::llm::{Cause, Unavailable};
use crate::message::Envelope;
use crate::queue::{Suspended, WaitsOn};

impl Pipeline {
    /// Suspends a turn. `Ok(Err(…))` when it is to end instead.
    pub(super) async fn suspend(
        self: &Arc<Self>,
        inputs: &TurnInputs,
        run_id: &str,
        model: &str,
        away: &Unavailable,
    ) -> Recorded<Result<(), Denied>> {
        let suspended = match self.plan_wait(inputs, model, away) {
            Ok(suspended) => suspended,
            Err(denied) => return Ok(Err(denied)),
        };
        let envelope = inputs.leader();
        tracing::warn!(
            run = run_id,
            tries = suspended.tries,
            wake_at = clock::rfc3339(suspended.wake_at),
            detail = away.detail,
            "a turn is suspended: {}",
            suspended.waits_for
        );
        self.note_trouble_of(&envelope.session_key.0, &away.detail);
        // First the person: a full disk may keep the record from being written for long.
        self.tell_waiting(envelope, &suspended);
        self.remind_without_model(envelope, &suspended.waits_for)
            .await;
        let ids = inputs.ids();
        let suspend = || self.queue.suspend(&ids, &suspended);
        if self.persist("a suspended turn", suspend).await? {
            let inputs = inputs.clone().suspended_as(run_id, &suspended);
            let _ = self.signals.send(Signal::Suspended(inputs));
        } else {
            self.end_suspended(inputs, run_id).await;
        }
        Ok(Ok(()))
    }

    /// Takes over from before a restart that a model was unreachable, so that one turn tries it for all.
    pub(super) fn recall_outage(&self, suspended: &Suspended) {
        if let (WaitsOn::Model(model), Some(cause)) =
            (&suspended.on, Cause::of_words(&suspended.waits_for))
        {
            let rest = u64::try_from(suspended.wake_at - clock::now_ms()).unwrap_or(0);
            let away = Unavailable {
                cause,
                detail: suspended.detail.clone(),
                rest: Duration::from_millis(rest),
                opened: false,
            };
            self.live().agent.client().was_away(model, &away);
        }
    }

    /// Notes that a turn waits for somebody, or works again: a daemon does not die of one that waits.
    pub(super) async fn idles(&self, envelope: &Envelope, idle: bool) {
        if let Err(error) = self.queue.idles(&envelope.id, idle).await {
            tracing::debug!(%error, "a turn that waits counts as one that works");
        }
    }

    /// Closes a suspended turn that was stopped, or gave way to another, while it waited.
    pub(super) async fn end_suspended(self: &Arc<Self>, inputs: &TurnInputs, run_id: &str) {
        let envelope = inputs.leader();
        let ids = inputs.ids();
        self.hide_notices(&ids);
        let progress = self
            .queue
            .progress_of(ids.clone())
            .await
            .unwrap_or_default();
        let interrupted = progress
            .into_iter()
            .flatten()
            .any(|progress| progress.reason.as_deref() == Some("interrupted"));
        let reason = if interrupted {
            "the next message came"
        } else {
            "stopped"
        };
        if !self.close_turn(envelope, run_id, reason, interrupted).await {
            self.note_clean(&ids).await;
        }
    }
}

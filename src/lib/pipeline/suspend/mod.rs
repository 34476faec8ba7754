//! A turn that cannot go on now is suspended: it ends without an answer, its slot is free, its lane waits. The
//! scheduler starts it again when its time has come, or when what it waits for is there; its transcript says where
//! it goes on. Its sender is told once what is waited for.

mod give_up;
mod notices;

use std::sync::Arc;
use std::time::Duration;

pub(super) use give_up::{Awake, Denied};
pub(super) use notices::Notices;

use super::Pipeline;
use super::Signal;
use super::persist::Recorded;
use super::schedule::debounce::Bundle;
use crate::clock;
use crate::llm::{Away, Cause};
use crate::message::{Command, Envelope, SessionKey, Source};
use crate::queue::{Suspended, WaitsOn};

impl Pipeline {
    /// Suspends a turn. `Ok(Err(…))` when it is to end instead.
    pub(super) async fn suspend(
        self: &Arc<Self>,
        bundle: &Bundle,
        run_id: &str,
        model: &str,
        away: &Away,
    ) -> Recorded<Result<(), Denied>> {
        let suspended = match self.plan_wait(bundle, model, away) {
            Ok(suspended) => suspended,
            Err(denied) => return Ok(Err(denied)),
        };
        let envelope = bundle.leader();
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
        let ids = bundle.ids();
        let suspend = || self.queue.suspend(&ids, &suspended);
        if self.persist("a suspended turn", suspend).await? {
            let bundle = bundle.clone().suspended_as(run_id, &suspended);
            let _ = self.signals.send(Signal::Suspended(bundle));
        } else {
            self.end_suspended(bundle, run_id).await;
        }
        Ok(Ok(()))
    }

    /// Takes over from before a restart that a model was away, so that one turn tries it for all.
    pub(super) fn recall_outage(&self, suspended: &Suspended) {
        if let (WaitsOn::Model(model), Some(cause)) =
            (&suspended.on, Cause::of_words(&suspended.waits_for))
        {
            let rest = u64::try_from(suspended.wake_at - clock::now_ms()).unwrap_or(0);
            let away = Away {
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
    pub(super) async fn end_suspended(self: &Arc<Self>, bundle: &Bundle, run_id: &str) {
        let envelope = bundle.leader();
        let ids = bundle.ids();
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

    /// Sends the words of a reminder that has to wait, or failed, as they are: an owner who is to be reminded hears of it in
    /// time. Once, also over a restart; one that waits still goes on later. To others the agent alone speaks: the words may
    /// say what they are not to hear.
    pub(super) async fn remind_without_model(self: &Arc<Self>, envelope: &Envelope, why: &str) {
        let is_heard = envelope.route.is_some() && !envelope.heard_by_others;
        let job = (envelope.source == Source::Job && is_heard)
            .then(|| self.job_of_run(&envelope.id))
            .flatten();
        if !job.is_some_and(|job| job.is_reminder()) {
            return;
        }
        let now = clock::now_ms();
        let due = envelope.overdue(now).map_or_else(String::new, |at| {
            let zone = self.live().config.agent.timezone.0;
            format!(" It was due {}.", clock::local_text(at, zone))
        });
        let words = Envelope {
            id: format!("words:{}", envelope.id),
            session_key: SessionKey("alert:job".to_owned()),
            command: Some(Command::Deliver { emoji: None }),
            text: format!(
                "{}\n\n⏳ These are the words of the job itself. {why}.{due}",
                envelope.text
            ),
            received_at: now,
            ..envelope.clone()
        };
        if let Err(error) = self.say_once(words).await {
            tracing::warn!(%error, "the words of a job that waits are sent at its next try");
        }
    }
}

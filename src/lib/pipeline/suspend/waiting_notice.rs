//! The notice to the sender of a waiting turn, until the turn continues.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::channel::SendError;
use crate::clock;
use crate::control::replies::{Reply, Status};
use crate::llm::Cause;
use crate::message::{Envelope, Route, Source};
use crate::pipeline::Pipeline;
use crate::pipeline::schedule::debounce::TurnInputs;
use crate::pipeline::turn::progress::progress_message::take_back;
use crate::queue::{Suspended, WaitsOn};

/// What is said in chats about turns that wait, by input.
#[derive(Debug, Clone, Default)]
pub(in crate::pipeline) struct Notices(Arc<Mutex<HashMap<String, Notice>>>);

#[derive(Debug, Clone)]
enum Notice {
    /// Nobody knows its id yet.
    Coming(Arc<AtomicBool>),
    Shown(Route, String),
}

impl Pipeline {
    /// Tells the sender of an input that it waits behind a turn that waits.
    pub(in crate::pipeline) fn tell_behind(
        self: &Arc<Self>,
        envelope: &Envelope,
        before: &TurnInputs,
    ) {
        let Some(suspended) = before.suspended() else {
            return;
        };
        let what = match before.leader().source {
            Source::Job => "a job",
            source if source.is_person() => "an earlier message",
            _ => "something that I do by myself",
        };
        let text = format!(
            "This comes after {what}, which waits: {}.",
            suspended.waits_for
        );
        self.tell(envelope, &text);
    }

    /// Tells the sender of a turn, once, what it waits for.
    pub(super) fn tell_waiting(self: &Arc<Self>, envelope: &Envelope, suspended: &Suspended) {
        self.tell(envelope, &self.notice(envelope, suspended));
    }

    fn tell(self: &Arc<Self>, envelope: &Envelope, text: &str) {
        if envelope.wants_reply {
            self.answer(&Reply {
                waits_for: Some(text.to_owned()),
                ..Reply::new(&envelope.id, Status::Running)
            });
        }
        self.changed.notify_one();
        if !envelope.source.is_person() {
            return;
        }
        let Some((channel, route)) = self.channel(envelope) else {
            return;
        };
        let text = format!("⏳ {text} /stop ends the wait.");
        let over = Arc::new(AtomicBool::new(false));
        {
            let mut notices = self.notices.0.lock();
            if notices.contains_key(&envelope.id) {
                return;
            }
            notices.insert(envelope.id.clone(), Notice::Coming(over.clone()));
        }
        let (pipeline, id) = (self.clone(), envelope.id.clone());
        self.previews.spawn(async move {
            let shown = channel.show(&route.chat, &text).await;
            let message = match shown {
                Ok(message) => message,
                Err(error) => {
                    tracing::warn!(%error, "cannot notify a person of the reason for which their message waits");
                    // It may be there; else the next try tells it.
                    if !matches!(error, SendError::Unknown(_)) {
                        pipeline.notices.0.lock().remove(&id);
                    }
                    return;
                }
            };
            if let Err(error) = pipeline.queue.shows_for(&route, &message, Some(&id)).await {
                tracing::warn!(%error, "a notice was not recorded; a crash now would leave it in the chat");
            }
            let mut notices = pipeline.notices.0.lock();
            if !over.load(Ordering::Relaxed) {
                notices.insert(id, Notice::Shown(route, message));
                return;
            }
            drop(notices);
            pipeline.remove_notice(&route, &message).await;
        });
    }

    /// Takes back what was said about inputs that wait no more.
    pub(in crate::pipeline) fn hide_notices(self: &Arc<Self>, inbox_ids: &[String]) {
        for id in inbox_ids {
            match self.notices.0.lock().remove(id) {
                None => {}
                Some(Notice::Coming(over)) => over.store(true, Ordering::Relaxed),
                Some(Notice::Shown(route, message)) => {
                    let pipeline = self.clone();
                    let remove = async move { pipeline.remove_notice(&route, &message).await };
                    self.previews.spawn(remove);
                }
            }
        }
    }

    async fn remove_notice(&self, route: &Route, message: &str) {
        let Some(channel) = self.channels.get(route.channel.as_str()) else {
            return;
        };
        if take_back(channel.as_ref(), route, message).await
            && let Err(error) = self.queue.hides(route, message).await
        {
            tracing::warn!(%error, "the removal of a notice was not recorded; it will be removed again");
        }
    }

    /// Takes over the notice of an input that still waits after a restart.
    pub(in crate::pipeline) fn keep_notice(&self, inbox_id: String, route: Route, message: String) {
        let mut notices = self.notices.0.lock();
        notices.insert(inbox_id, Notice::Shown(route, message));
    }

    /// Returns what a sender reads. Only the owner is told settings, and only where nobody else reads it.
    fn notice(&self, envelope: &Envelope, suspended: &Suspended) -> String {
        let live = self.live();
        let alone = envelope.from_owner && envelope.group.is_none();
        let when = match &suspended.on {
            WaitsOn::Settings => {
                let zone = live.config.agent.timezone.0;
                let until = clock::local_text(suspended.wake_at, zone);
                format!("I will answer when it begins again, {until}")
            }
            WaitsOn::Budget => "I will answer when they are done".to_owned(),
            WaitsOn::Time if suspended.waits_for == Cause::Disk.words() => {
                "I will answer when there is space again".to_owned()
            }
            WaitsOn::Model(_) | WaitsOn::Time => "I will answer when it is back".to_owned(),
        };
        let detail = if alone && suspended.on == WaitsOn::Settings {
            format!(" ({})", suspended.detail)
        } else {
            String::new()
        };
        let ears = live.agent.client().models().for_role("speech_to_text");
        let of_ears = matches!((&suspended.on, ears), (WaitsOn::Model(model), Some(ears)) if *model == ears.name);
        let what = match of_ears {
            true => suspended
                .waits_for
                .replacen("The model", "The speech model", 1),
            false => suspended.waits_for.clone(),
        };
        format!("{what}. {when}.{detail}")
    }
}

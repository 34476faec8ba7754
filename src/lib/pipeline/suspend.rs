//! A turn that cannot go on now is suspended: it ends without an answer, its slot is free, its lane waits. The
//! scheduler starts it again when its time has come, or when what it waits for is there; its transcript says where
//! it goes on. Its sender is told once what is waited for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::Pipeline;
use super::Signal;
use super::persist::Recorded;
use super::schedule::debounce::Bundle;
use crate::channel::SendError;
use crate::clock::{self, Moment};
use crate::control::replies::{Reply, Status};
use crate::jobs::When;
use crate::llm::{Away, Cause};
use crate::message::{Command, Envelope, Route, SessionKey, Source};
use crate::queue::{Suspended, WaitsOn};

/// A caller over HTTP waits no longer than this, milliseconds.
const CALLER: i64 = 3_600_000;
/// Milliseconds that a turn whose own calls fail waits, whatever others are answered; by its faults beyond
/// [`FAULTS`].
const OWN_RESTS: [i64; 6] = [10_000, 30_000, 60_000, 120_000, 300_000, 600_000];
/// So many failures of its own calls are put down to the provider.
const FAULTS: u32 = 3;
/// Who slept so long may find the network late: nothing is given up in as many milliseconds after the waking.
const WAKING: Duration = Duration::from_secs(600);
/// Tries to remove a notice; after them the next start has another.
const REMOVALS: u32 = 3;

/// What is said in chats about turns that wait, by input.
#[derive(Debug, Clone, Default)]
pub(super) struct Notices(Arc<Mutex<HashMap<String, Notice>>>);

#[derive(Debug, Clone)]
enum Notice {
    /// Nobody knows its id yet.
    Coming(Arc<AtomicBool>),
    Shown(Route, String),
}

/// Since when the machine is awake.
#[derive(Debug)]
pub(super) struct Awake(Mutex<(Moment, i64)>);

impl Awake {
    /// Returns that of a daemon which starts now: nobody could try anything before.
    pub(super) fn new() -> Self {
        Self(Mutex::new((Moment::now(), clock::now_ms())))
    }

    /// Returns since when it is awake as far as was noticed, milliseconds since 1970 UTC; at most `now`.
    fn since(&self, now: i64) -> i64 {
        let mut known = self.0.lock();
        let (looked, since) = *known;
        let moment = Moment::now();
        let slept = moment.lost_since(looked) >= WAKING;
        *known = (moment, if slept { now } else { since.min(now) });
        known.1
    }
}

/// Why a turn is not suspended.
pub(super) enum Denied {
    /// Waiting cannot help, or not in time. Carries the reason.
    AtOnce(String),
    /// It has waited as long as it may. Carries the reason.
    Late(String),
}

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
        self.note_trouble(&away.detail);
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

    /// Returns how long a turn waits for what.
    fn plan_wait(&self, bundle: &Bundle, model: &str, away: &Away) -> Result<Suspended, Denied> {
        let (envelope, now) = (bundle.leader(), clock::now_ms());
        let before = bundle.suspended();
        let since = before.map_or(now, |before| before.since).min(now);
        // Nobody asked for a heartbeat, and the words of an event go out without a model.
        let is_for_nobody = envelope.source == Source::Heartbeat
            || (envelope.source == Source::Notify && envelope.route.is_some());
        if is_for_nobody {
            return Err(Denied::AtOnce(away.detail.clone()));
        }
        let rest = i64::try_from(away.rest.as_millis()).unwrap_or(i64::MAX);
        let faults = before.map_or(0, |before| before.faults) + u32::from(away.opened);
        let own = faults.checked_sub(FAULTS).map_or(0, |beyond| {
            let at = usize::try_from(beyond).unwrap_or(usize::MAX);
            OWN_RESTS.get(at).copied().unwrap_or(600_000)
        });
        let wake_at = now.saturating_add(rest.max(own));
        let recurs = self.recurs(envelope);
        let is_outage = away.cause.is_outage() && faults < FAULTS;
        // Nobody waits behind it, and its times meanwhile are left out.
        let give_up_at = match recurs && is_outage && envelope.has_own_lane() {
            true => i64::MAX,
            false => self.give_up_at(envelope, since, now),
        };
        if now >= give_up_at {
            let minutes = (now - since) / 60_000;
            let reason = format!("no answer within {minutes} minutes: {}", away.detail);
            // Its next time makes up for it.
            return Err(match recurs {
                true => Denied::AtOnce(reason),
                false => Denied::Late(reason),
            });
        }
        // Whoever waits at a prompt or a socket is told at once.
        let no_chat = envelope.route.is_none();
        if away.cause == Cause::Capped && (no_chat || wake_at > give_up_at) {
            return Err(Denied::AtOnce(away.detail.clone()));
        }
        let on = match away.cause {
            Cause::Disk => WaitsOn::Time,
            Cause::Reserved => WaitsOn::Budget,
            Cause::Capped => WaitsOn::Settings,
            _ if faults >= FAULTS => WaitsOn::Time,
            // Another model is away, such as the one that sums up: that this one answers helps nothing.
            _ if self.live().agent.client().answers(model) => WaitsOn::Time,
            _ => WaitsOn::Model(model.to_owned()),
        };
        Ok(Suspended {
            since,
            wake_at: wake_at.min(give_up_at),
            waits_for: away.cause.words().to_owned(),
            detail: crate::secret::redact(&away.detail),
            on,
            tries: before.map_or(0, |before| before.tries) + 1,
            faults,
        })
    }

    /// Returns when an input that waits since `since` is given up.
    fn give_up_at(&self, envelope: &Envelope, since: i64, now: i64) -> i64 {
        let patience = self.live().config.pipeline.give_up_after.0;
        // What nobody could try while the machine slept is tried for a while first.
        let waking = patience.min(i64::try_from(WAKING.as_millis()).unwrap_or(0));
        let tried = self.awake.since(now).saturating_add(waking);
        let at = since.saturating_add(patience).max(tried);
        match envelope.source {
            Source::Http if envelope.wants_reply => at.min(since.saturating_add(CALLER)),
            Source::Job => self
                .job_of_run(&envelope.id)
                .and_then(|job| job.next_at)
                .filter(|next| next.0 > now)
                .map_or(at, |next| at.min(next.0)),
            _ => at,
        }
    }

    /// Returns true for a run of a job that comes again.
    pub(super) fn recurs(&self, envelope: &Envelope) -> bool {
        envelope.source == Source::Job
            && self
                .job_of_run(&envelope.id)
                .is_some_and(|job| !matches!(job.schedule, When::At(_)))
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

    /// Tells the sender of an input that it waits behind a turn that waits.
    pub(super) fn tell_behind(self: &Arc<Self>, envelope: &Envelope, before: &Bundle) {
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
    fn tell_waiting(self: &Arc<Self>, envelope: &Envelope, suspended: &Suspended) {
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
                    tracing::warn!(%error, "a person could not be told what their message waits for");
                    // It may stand there; else the next try tells it.
                    if !matches!(error, SendError::Unknown(_)) {
                        pipeline.notices.0.lock().remove(&id);
                    }
                    return;
                }
            };
            if let Err(error) = pipeline.queue.shows_for(&route, &message, Some(&id)).await {
                tracing::warn!(%error, "a crash now would leave a notice in the chat");
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
    pub(super) fn hide_notices(self: &Arc<Self>, inbox_ids: &[String]) {
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
        for _ in 0..REMOVALS {
            let wait = match channel.remove(&route.chat, message).await {
                Ok(()) | Err(SendError::Never { .. }) => {
                    if let Err(error) = self.queue.hides(route, message).await {
                        tracing::warn!(%error, "a notice that is gone will be removed once more");
                    }
                    return;
                }
                Err(SendError::NotSent { retry_after, .. }) => retry_after,
                Err(SendError::Unknown(_) | SendError::Markup(_)) => None,
            };
            tokio::time::sleep(wait.unwrap_or(Duration::from_secs(2))).await;
        }
        tracing::warn!("a notice stays in its chat until the next start");
    }

    /// Takes over the notice of an input that still waits after a restart.
    pub(super) fn keep_notice(&self, inbox_id: String, route: Route, message: String) {
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

//! How long a turn waits for which resource, and when it is given up: a shorter time for HTTP callers, none for turns that
//! nobody requested, and ten minutes of retries after a suspend of the machine.

use std::time::Duration;

use parking_lot::Mutex;

use crate::clock::{self, Moment};
use crate::jobs::When;
use crate::llm::{Cause, Unavailable};
use crate::message::{Envelope, Source};
use crate::pipeline::Pipeline;
use crate::pipeline::schedule::debounce::TurnInputs;
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

/// Since when the machine is awake.
#[derive(Debug)]
pub(in crate::pipeline) struct Awake(Mutex<(Moment, i64)>);

impl Awake {
    /// Returns that of a daemon which starts now: nobody could try anything before.
    pub(in crate::pipeline) fn new() -> Self {
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
pub(in crate::pipeline) enum Denied {
    /// Waiting cannot help, or not in time. Carries the reason.
    AtOnce(String),
    /// It has waited as long as it may. Carries the reason.
    Late(String),
}

impl Pipeline {
    /// Returns how long a turn waits for what.
    pub(super) fn plan_wait(
        &self,
        inputs: &TurnInputs,
        model: &str,
        away: &Unavailable,
    ) -> Result<Suspended, Denied> {
        let (envelope, now) = (inputs.leader(), clock::now_ms());
        let before = inputs.suspended();
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
        // Callers that wait at a prompt or a socket are told at once.
        let no_chat = envelope.route.is_none();
        if away.cause == Cause::Capped && (no_chat || wake_at > give_up_at) {
            return Err(Denied::AtOnce(away.detail.clone()));
        }
        let on = match away.cause {
            Cause::Disk => WaitsOn::Time,
            Cause::Reserved => WaitsOn::Budget,
            Cause::Capped => WaitsOn::Settings,
            _ if faults >= FAULTS => WaitsOn::Time,
            // Another model is unreachable, such as the one that sums up: that this one answers helps nothing.
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
    pub(in crate::pipeline) fn recurs(&self, envelope: &Envelope) -> bool {
        envelope.source == Source::Job
            && self
                .job_of_run(&envelope.id)
                .is_some_and(|job| !matches!(job.schedule, When::At(_)))
    }
}

//! The heartbeat: whether the agent wakes, and the input of such a turn.

use std::path::Path;
use std::sync::Arc;

use chrono_tz::Tz;

use crate::config::{Config, Driver, Home, Models};
use crate::cost;
use crate::jobs::heartbeat_gate::{Asleep, World, gate, slot};
use crate::message::{Envelope, Sender, SessionKey, Source, Trust};
use crate::pipeline::intake::shell::Everybody;
use crate::pipeline::{Live, Pipeline};
use crate::{llm, prompt};

/// What the agent is told when it wakes; HEARTBEAT.md is in its system text.
const WORDS: &str =
    "Look after what HEARTBEAT.md lists. If nothing needs your owner now, answer HEARTBEAT_OK.";
/// The tools that every turn is offered.
const TOOLS_BYTES: usize = 6_000;
/// More of HEARTBEAT.md is not looked at.
const MAX_FILE: u64 = 1 << 20;

/// An agent that did not wake, because it was busy or outside its hours, is tried again after so long.
const AGAIN_MS: i64 = 60_000;
/// A start is not a reason to wake: what was left open comes first.
const AFTER_START_MS: i64 = 600_000;

/// When a heartbeat was thought of last.
#[derive(Debug, Clone, Copy)]
pub(super) struct Beat {
    /// In which stretch of time; see [`slot`].
    slot: i64,
    /// When, milliseconds since 1970 UTC.
    at: i64,
    /// When it is thought of again in the same stretch, so many milliseconds later; `None` when the agent woke in it.
    again_ms: Option<i64>,
}

impl Beat {
    /// Returns that of a daemon which starts at `at`.
    pub(super) fn at_start(slot: i64, at: i64) -> Self {
        Self {
            slot,
            at,
            again_ms: Some(AFTER_START_MS),
        }
    }

    /// Returns whether a heartbeat is to be thought of at `now`, in the stretch `slot`; a clock may be set back.
    fn is_due(self, slot: i64, now: i64) -> bool {
        let passed = now.saturating_sub(self.at).saturating_abs();
        self.slot != slot || self.again_ms.is_some_and(|again| passed >= again)
    }
}

/// What decides whether the agent wakes, as far as files tell it.
#[derive(Debug)]
pub struct Waking {
    /// What HEARTBEAT.md says.
    pub file: Option<String>,
    /// US dollars that heartbeats cost today, their sub-agents included, and may cost.
    pub spent: (f64, f64),
    /// Which limit of all spending is reached, if one is.
    pub is_capped: Option<String>,
}

/// Reads from the files of `home` what decides about a heartbeat at `now`.
pub fn waking(workspace: &Path, cost_db: &Path, config: &Config, now: i64) -> Waking {
    let file = workspace.join("HEARTBEAT.md");
    let small = std::fs::metadata(&file).is_ok_and(|meta| meta.is_file() && meta.len() <= MAX_FILE);
    let file = small
        .then(|| std::fs::read(&file).ok())
        .flatten()
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let zone: Tz = config.agent.timezone.0;
    let (day, month) = (
        cost::start_of_day(now, zone),
        cost::start_of_month(now, zone),
    );
    let limit = config.heartbeat.day_usd;
    let beats = if limit > 0.0 {
        cost::spent_by_runs_of(cost_db, (day, now), Source::Heartbeat.as_str()).unwrap_or_default()
    } else {
        0.0
    };
    let spent = |since| cost::by_model(cost_db, since, now).unwrap_or_default();
    let reached = |name: &str, limit: f64, since| {
        (limit > 0.0 && cost::total_usd(&spent(since)) >= limit)
            .then(|| format!("the limit is reached: [cost] {name} = {limit}"))
    };
    let is_capped = reached("day_usd", config.cost.day_usd, day)
        .or_else(|| reached("month_usd", config.cost.month_usd, month));
    Waking {
        file,
        spent: (beats, limit),
        is_capped,
    }
}

/// Returns the most that the shortest call of the turn of `envelope` can cost, US dollars, when the model `name` is asked:
/// a smaller limit holds none. `None` when it has no price, or is not there.
pub fn least_usd(
    sources: &prompt::Sources,
    (config, models): (&Config, &Models),
    name: &str,
    envelope: &Envelope,
) -> Option<f64> {
    let model = models.get(name, "the turn").ok()?;
    let system = sources.system(config, models, name, envelope, true);
    let text: usize = system.iter().map(|block| block.text.len()).sum();
    llm::least_usd(&model, text + envelope.text.len() + TOOLS_BYTES)
}

/// Returns the input that a heartbeat at `now` is, without a name and a way to anybody.
pub fn heartbeat(now: i64) -> Envelope {
    let sender = Sender::new("heartbeat", "heartbeat");
    let own = SessionKey(sender.id.clone());
    let envelope = Envelope::new(
        String::new(),
        Source::Heartbeat,
        sender,
        own,
        WORDS.to_owned(),
        now,
    );
    Envelope {
        from_owner: true,
        trust: Trust::Owner,
        ..envelope
    }
}

impl Pipeline {
    /// Wakes the agent once in each stretch of time, as soon as nothing speaks against it; returns when the next
    /// one begins. `None` when somebody else wakes it.
    pub(super) async fn beat(self: &Arc<Self>, live: &Arc<Live>, now: i64) -> Option<i64> {
        let heartbeat = &live.config.heartbeat;
        if heartbeat.driver != Driver::Internal {
            return None;
        }
        let zone = live.config.agent.timezone.0;
        let every = heartbeat.every.0;
        let now_slot = slot(now, every, zone);
        let last = *self.schedule.beat.lock();
        if last.is_due(now_slot, now) {
            // Outside its hours nothing is read.
            let hours = super::hours(live);
            let woke = match hours.contain(now, zone) {
                true => self.wake(now).await,
                false => Err(Asleep::Hours(hours)),
            };
            match &woke {
                Ok(()) => tracing::info!("woke"),
                Err(asleep) => tracing::debug!(%asleep, "did not wake"),
            }
            let is_over = matches!(woke, Ok(()) | Err(Asleep::Woke { .. }));
            *self.schedule.beat.lock() = Beat {
                slot: now_slot,
                at: now,
                again_ms: (!is_over).then_some(AGAIN_MS),
            };
        }
        Some(slot(now_slot + every, every, zone))
    }

    /// Wakes the agent, unless something speaks against it; at most once in a stretch of time, no matter who asks.
    ///
    /// # Errors
    /// Why it does not wake.
    pub(in crate::pipeline) async fn wake(self: &Arc<Self>, now: i64) -> Result<(), Asleep> {
        let live = self.live();
        let (zone, every_ms) = (live.config.agent.timezone.0, live.config.heartbeat.every.0);
        let key = format!("heartbeat:{}", slot(now, every_ms, zone));
        let unread = |_| Asleep::Down("the queue cannot be read".to_owned());
        let woke = self.queue.knows(&key).await.map_err(unread)?;
        let known = Everybody {
            people: self
                .people
                .read()
                .map_err(|_| Asleep::Down("people.json cannot be read".to_owned()))?,
            routes: self.queue.routes().await.map_err(unread)?,
            unanswered: Vec::new(),
        };
        let way = self.way_to_owner(&live.config, &known);
        let model = super::system_model(&live);
        let client = live.agent.client();
        let home: &Home = self.memory.home();
        let (workspace, cost_db, config) = (
            home.workspace().to_owned(),
            home.cost_db(),
            live.config.clone(),
        );
        let (prompt, live_now, name) = (self.prompt.clone(), live.clone(), model.clone());
        let read = move || {
            let settings = (&live_now.config, live_now.agent.client().models());
            let least = (config.heartbeat.day_usd > 0.0)
                .then(|| least_usd(&prompt, settings, &name, &heartbeat(now)))
                .flatten();
            (waking(&workspace, &cost_db, &config, now), least)
        };
        let (waking, least_usd) = crate::sys::blocking(read).await;
        let is_down = client
            .is_down(&model)
            .then(|| format!("the provider of `{model}` is down"));
        gate(&World {
            file: waking.file.as_deref(),
            hours: super::hours(&live),
            zone,
            now,
            every_ms,
            woke,
            is_busy: !self.runs().is_empty(),
            down: is_down.or(waking.is_capped),
            has_way: way.is_some(),
            spent: waking.spent,
            least_usd,
        })?;
        let (spent, limit) = waking.spent;
        let (heard_in, route) = way.unzip();
        let envelope = Envelope {
            id: key,
            route,
            heard_in,
            budget_usd: (limit > 0.0).then_some(limit - spent),
            ..heartbeat(now)
        };
        match self.accept_once(envelope).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(Asleep::Woke { every_ms }),
            Err(error) => Err(Asleep::Down(format!(
                "the queue cannot be written: {error}"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Kind, Ledger, NewCall, Outcome};
    use crate::message::Usage;

    const CENT: i64 = 10_000_000;

    #[test]
    fn a_stretch_in_which_it_was_busy_is_tried_again_until_it_woke() {
        const SLOT: i64 = 1_800_000;
        let start = Beat::at_start(SLOT, SLOT + 5_000);
        let check = |beat: Beat, slot, now, expected| assert_eq!(beat.is_due(slot, now), expected);
        check(start, SLOT, SLOT + 10_000, false);
        check(start, SLOT, SLOT + 605_000, true);
        check(start, 2 * SLOT, 2 * SLOT, true);
        let busy = Beat {
            at: SLOT,
            again_ms: Some(AGAIN_MS),
            ..start
        };
        check(busy, SLOT, SLOT + 5_000, false);
        check(busy, SLOT, SLOT + 60_000, true);
        let woke = Beat {
            again_ms: None,
            ..busy
        };
        check(woke, SLOT, 2 * SLOT - 1, false);
        check(woke, 2 * SLOT, 2 * SLOT, true);
        // A clock that was ahead and is right again.
        check(woke, 0, 10, true);
        check(Beat { slot: 0, ..busy }, 0, -60_000, true);
    }

    async fn pay(ledger: &Ledger, (source, run, session): (&'static str, &str, &str), now: i64) {
        let call = NewCall {
            call_id: uuid::Uuid::now_v7().to_string(),
            run_id: run.to_owned(),
            session_id: session.to_owned(),
            source,
            provider: "p".to_owned(),
            model: "m".to_owned(),
            kind: Kind::Chat,
            bound: Some(CENT),
            budget_usd: None,
            share_usd: None,
            of_others: false,
        };
        let caps = crate::config::Cost::default();
        let reserved = ledger.reserve(call, &caps, now).await.expect("ledger");
        let reserved = reserved.expect("no limit");
        let (usage, cost) = (Usage::default(), Some(CENT));
        let paid = ledger.settle(reserved, Outcome::Answered { usage, cost }, 1);
        paid.await.expect("ledger");
    }

    #[tokio::test]
    async fn what_sub_agents_of_a_heartbeat_cost_is_its_own_cost() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("cost.db");
        let ledger = Ledger::start(&path, chrono_tz::UTC).expect("ledger");
        let now = crate::clock::parse_rfc3339("2026-03-01T12:00:00Z").expect("a time");
        let yesterday = now - 86_400_000;
        for (call, at) in [
            (("heartbeat", "beat", "own"), now),
            (("subagent", "beat", "sub"), now),
            // Its conversation is summarized.
            (("subagent", "sum", "sub"), now),
            // One that began before midnight, and what it sent works on.
            (("heartbeat", "late", "own"), yesterday),
            (("subagent", "late", "sub-2"), now),
            // Of somebody else.
            (("telegram", "chat", "main"), now),
            (("subagent", "chat", "sub-3"), now),
            (("search", "", ""), now),
        ] {
            pay(&ledger, call, at).await;
        }
        let mut config = Config::default();
        config.heartbeat.day_usd = 0.05;
        let waking = waking(dir.path(), &path, &config, now);
        assert_eq!(waking.spent, (0.04, 0.05));
    }
}

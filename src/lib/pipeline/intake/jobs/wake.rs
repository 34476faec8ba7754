//! The heartbeat: whether the agent wakes by itself, and the input that it is then.

use std::path::Path;
use std::sync::Arc;

use chrono_tz::Tz;

use crate::config::{Config, Driver, Home};
use crate::cost;
use crate::jobs::heartbeat_gate::{Asleep, World, gate, slot};
use crate::message::{Envelope, Sender, SessionKey, Source, Trust};
use crate::pipeline::intake::shell::Everybody;
use crate::pipeline::{Live, Pipeline, Signal};
use crate::queue::{Arrival, Verdict};

/// What the agent is told when it wakes; HEARTBEAT.md stands in its system text.
const WORDS: &str =
    "Look after what HEARTBEAT.md lists. If nothing needs your owner now, answer HEARTBEAT_OK.";
/// More of HEARTBEAT.md is not looked at.
const MAX_FILE: u64 = 1 << 20;

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
        cost::spent_by_runs_of(cost_db, day, Source::Heartbeat.as_str()).unwrap_or_default()
    } else {
        0.0
    };
    let spent = |since| cost::by_model(cost_db, since).unwrap_or_default();
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

/// Returns the input that a heartbeat at `now` is, without a name and a way to anybody.
pub fn heartbeat(now: i64) -> Envelope {
    let sender = Sender {
        id: "heartbeat".to_owned(),
        name: "heartbeat".to_owned(),
        username: None,
    };
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
    /// Wakes the agent when a new stretch of time began and nothing speaks against it; returns when the next
    /// one begins. `None` when somebody else wakes it.
    pub(super) async fn beat(self: &Arc<Self>, live: &Arc<Live>, now: i64) -> Option<i64> {
        let heartbeat = &live.config.heartbeat;
        if heartbeat.driver != Driver::Internal {
            return None;
        }
        let zone = live.config.agent.timezone.0;
        let every = heartbeat.every.0;
        let now_slot = slot(now, every, zone);
        let last = std::mem::replace(&mut *self.schedule.slot.lock(), now_slot);
        if last < now_slot {
            match self.wake(now).await {
                Ok(()) => tracing::info!("woke"),
                Err(asleep) => tracing::debug!(%asleep, "did not wake"),
            }
        }
        Some(slot(now_slot + every, every, zone))
    }

    /// Wakes the agent, unless something speaks against it; at most once in a stretch of time, whoever asks.
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
        let read = crate::sys::blocking(move || waking(&workspace, &cost_db, &config, now)).await;
        let waking = read;
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
        })?;
        let (spent, limit) = waking.spent;
        let (heard_in, route) = way.unzip();
        let envelope = Envelope {
            id: key.clone(),
            route,
            heard_in,
            budget_usd: (limit > 0.0).then_some(limit - spent),
            ..heartbeat(now)
        };
        let arrival = Arrival {
            digest: None,
            key,
            verdict: Verdict::Accept(vec![envelope]),
        };
        let (accepted, _) = self
            .queue
            .accept(vec![arrival], None, now)
            .await
            .map_err(|error| Asleep::Down(format!("the queue cannot be written: {error}")))?;
        if accepted.is_empty() {
            return Err(Asleep::Woke { every_ms });
        }
        let _ = self.signals.send(Signal::Accepted(accepted));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{Kind, Ledger, NewCall, Outcome};
    use crate::message::Usage;

    const CENT: i64 = 10_000_000;

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
            // Its conversation is summed up.
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

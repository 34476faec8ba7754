//! A circuit breaker for each provider: all calls share the knowledge of which are down. While one is down, one call at a
//! time tests whether it is back.
//!
//! ```text
//! closed ─ a call failed ─→ open until the rest is over ─→ half-open: one call is a probe
//!    ↑ ─────────────── the probe answers ←──────────────────┘ └→ fails: open again, for longer
//! ```
//! A failure of one model (too busy, interrupted) counts against that model, a failure of the whole server against all its
//! models.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::unavailable::{Cause, Unavailable};
use crate::clock::Alarm;
use crate::config::Model;
use crate::{clock, net, provider};

/// Seconds a provider is left alone after its first failure, its second …: a short outage costs seconds.
const RESTS: [u64; 7] = [1, 2, 5, 10, 20, 40, 60];
/// The same where each failed call may have been charged: that must not continue every minute.
const CHARGED: [u64; 9] = [1, 2, 5, 10, 20, 60, 120, 300, 600];
/// The longest rest a server may ask for: by then somebody may have bought more.
const LONGEST: Duration = Duration::from_secs(60 * 60);
/// How long a call waits at least while another one is the probe.
const PROBE: Duration = Duration::from_secs(1);

/// What is known of the providers; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Circuits(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    known: Mutex<BTreeMap<String, Down>>,
    /// Names and addresses of the providers that answered since the start.
    right: Mutex<HashSet<(String, String)>>,
    /// Notified when a provider answers again, or a probe ended without a result.
    changed: Arc<Notify>,
}

#[derive(Debug)]
struct Down {
    /// Which of its models; empty = all.
    models: BTreeSet<String>,
    failures: u32,
    failed_at: Instant,
    until: Alarm,
    probing: bool,
    cause: Cause,
    since_ms: i64,
    retry_at_ms: i64,
    last_error: String,
}

/// The permission to call a model. Dropping it without a result lets another call be the probe.
#[derive(Debug)]
pub(crate) struct Permit {
    circuits: Circuits,
    model: Model,
    began: Instant,
    is_probe: bool,
    is_over: AtomicBool,
}

/// How a provider is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Its configured name.
    pub name: String,
    /// What is wrong; `None` = nothing known.
    pub down: Option<Outage>,
}

/// That a provider is down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outage {
    /// Since when, milliseconds since 1970 UTC.
    pub since: i64,
    /// When it is asked again at the earliest.
    pub retry_at: i64,
    /// How its last call failed.
    pub last_error: String,
}

impl Circuits {
    /// Returns the permission to call `model` now.
    ///
    /// # Errors
    /// What is waited for, when the model is down or another call is its probe.
    pub(crate) fn admit(&self, model: &Model) -> Result<Permit, Unavailable> {
        let now = Instant::now();
        let mut known = self.0.known.lock();
        let down = known
            .get_mut(&model.provider.name)
            .filter(|down| down.concerns(model));
        let is_probe = match down {
            None => false,
            Some(down) if down.probing || !down.until.has_come(now) => {
                let rest = down.until.left(now);
                return Err(Unavailable {
                    cause: down.cause,
                    detail: down.last_error.clone(),
                    rest: if down.probing { rest.max(PROBE) } else { rest },
                    opened: false,
                });
            }
            Some(down) => {
                down.probing = true;
                true
            }
        };
        Ok(Permit {
            circuits: self.clone(),
            model: model.clone(),
            began: now,
            is_probe,
            is_over: AtomicBool::new(false),
        })
    }

    /// Returns true when `model` may be asked, as a probe or without doubt.
    pub(crate) fn may_ask(&self, model: &Model) -> bool {
        let (known, now) = (self.0.known.lock(), Instant::now());
        known
            .get(&model.provider.name)
            .is_none_or(|down| !down.concerns(model) || (!down.probing && down.until.has_come(now)))
    }

    /// Returns true when nothing speaks against `model`.
    pub(crate) fn is_closed(&self, model: &Model) -> bool {
        let known = self.0.known.lock();
        known
            .get(&model.provider.name)
            .is_none_or(|down| !down.concerns(model))
    }

    /// Takes over what was known of `model` before a restart.
    pub(crate) fn was_down(&self, model: &Model, away: &Unavailable) {
        let (now, now_ms) = (Instant::now(), clock::now_ms());
        let rest = away.rest.min(LONGEST);
        let mut known = self.0.known.lock();
        let down = known
            .entry(model.provider.name.clone())
            .or_insert_with(|| Down {
                models: BTreeSet::from([model.name.clone()]),
                failures: 1,
                failed_at: now,
                until: Alarm::at(now + rest),
                probing: false,
                cause: away.cause,
                since_ms: now_ms,
                retry_at_ms: now_ms
                    .saturating_add(i64::try_from(rest.as_millis()).unwrap_or(i64::MAX)),
                last_error: away.detail.clone(),
            });
        if !down.models.is_empty() {
            down.models.insert(model.name.clone());
        }
    }

    /// Ends every rest: somebody may have repaired what was wrong.
    pub(crate) fn retry_now(&self) {
        let now = Instant::now();
        for down in self.0.known.lock().values_mut() {
            if !down.until.has_come(now) {
                down.until = Alarm::at(now);
            }
        }
    }

    /// Returns what is notified when a provider answers again.
    pub(crate) fn changed(&self) -> &Arc<Notify> {
        &self.0.changed
    }

    fn failed(&self, permit: &Permit, error: &provider::Error) -> Unavailable {
        let now = Instant::now();
        let mut known = self.0.known.lock();
        let (model, now_ms) = (&permit.model, clock::now_ms());
        let name = &model.provider.name;
        let new = !known.contains_key(name);
        let down = known.entry(name.clone()).or_insert_with(|| Down {
            models: BTreeSet::from([model.name.clone()]),
            failures: 0,
            failed_at: now,
            until: Alarm::at(now),
            probing: false,
            cause: Cause::of(error),
            since_ms: now_ms,
            retry_at_ms: now_ms,
            last_error: String::new(),
        });
        // Calls that ran side by side found out the same once.
        let is_known = !new && !permit.is_probe && permit.began <= down.failed_at;
        if matches!(error, provider::Error::Unreachable { .. }) {
            down.models.clear();
        } else if !down.models.is_empty() {
            down.models.insert(model.name.clone());
        }
        if permit.is_probe {
            down.probing = false;
        }
        if !is_known {
            let rest = rest(down.failures, error);
            down.failures += 1;
            (down.failed_at, down.until) = (now, Alarm::at(now + rest));
            down.retry_at_ms =
                now_ms.saturating_add(i64::try_from(rest.as_millis()).unwrap_or(i64::MAX));
            (down.cause, down.last_error) = (Cause::of(error), error.to_string());
            let (failures, rest_ms) = (down.failures, rest.as_millis());
            // Said once; the probes of a long outage would fill the log.
            if failures == 1 {
                tracing::warn!(provider = name, %error, rest_ms, "the provider is down");
            } else {
                tracing::debug!(provider = name, %error, failures, rest_ms, "the provider is still down");
            }
        }
        Unavailable {
            cause: down.cause,
            detail: down.last_error.clone(),
            rest: down.until.left(now),
            opened: new,
        }
    }

    fn succeeded(&self, model: &Model, was_probe: bool) {
        let mut known = self.0.known.lock();
        let name = &model.provider.name;
        let Some(down) = known.get_mut(name) else {
            return;
        };
        down.probing &= !was_probe;
        // One that answers says nothing about another that is too busy.
        if !down.models.is_empty() && (!down.models.remove(&model.name) || !down.models.is_empty())
        {
            drop(known);
            return self.0.changed.notify_waiters();
        }
        let secs = (clock::now_ms() - down.since_ms) / 1000;
        known.remove(name);
        drop(known);
        tracing::info!(
            provider = name,
            after_secs = secs,
            "the provider answers again"
        );
        self.0.changed.notify_waiters();
    }

    /// Returns how the providers called `names` are, in that order.
    pub(crate) fn health<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<Health> {
        let known = self.0.known.lock();
        let outage = |down: &Down| Outage {
            since: down.since_ms,
            retry_at: down.retry_at_ms,
            last_error: down.last_error.clone(),
        };
        names
            .map(|name| Health {
                name: name.to_owned(),
                down: known.get(name).map(outage),
            })
            .collect()
    }
}

impl Permit {
    /// Notes that the model answers, as soon as it does.
    pub(crate) fn answered(&self) {
        if !self.is_over.swap(true, Ordering::Relaxed) {
            self.circuits.succeeded(&self.model, self.is_probe);
        }
    }

    /// Notes that the address of the model is right.
    pub(crate) fn is_right_address(&self) {
        self.circuits.0.right.lock().insert(self.address());
    }

    /// Returns true when `error` shows that a server is not there now, although something answered: it was down, or it
    /// answered at this address before.
    pub(crate) fn is_away(&self, error: &provider::Error) -> bool {
        let is_right = || self.circuits.0.right.lock().contains(&self.address());
        error.is_in_the_way() && (self.is_probe || is_right())
    }

    fn address(&self) -> (String, String) {
        let provider = &self.model.provider;
        (provider.name.clone(), provider.base_url.clone())
    }

    /// Notes that the call failed in a way that another one need not; returns how long to wait.
    pub(crate) fn failed(self, error: &provider::Error) -> Unavailable {
        self.is_over.store(true, Ordering::Relaxed);
        self.circuits.failed(&self, error)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.is_over.load(Ordering::Relaxed) || !self.is_probe {
            return;
        }
        let mut known = self.circuits.0.known.lock();
        if let Some(down) = known.get_mut(&self.model.provider.name) {
            down.probing = false;
        }
        drop(known);
        self.circuits.0.changed.notify_waiters();
    }
}

impl Down {
    fn concerns(&self, model: &Model) -> bool {
        self.models.is_empty() || self.models.contains(&model.name)
    }
}

/// Returns how long a provider rests that failed `failures` times before: jittered, and never shorter than
/// it asks.
fn rest(failures: u32, error: &provider::Error) -> Duration {
    let rests: &[u64] = if error.may_be_charged() {
        &CHARGED
    } else {
        &RESTS
    };
    let at = usize::try_from(failures).unwrap_or(usize::MAX);
    let secs = rests.get(at).or(rests.last()).copied().unwrap_or(60);
    let grown = Duration::from_secs(secs);
    let grown = net::backoff(0, grown, grown);
    error
        .retry_after()
        .map_or(grown, |asked| asked.min(LONGEST).max(grown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llm::tests::model;

    fn busy(retry_after: Option<u64>) -> provider::Error {
        let retry_after = retry_after.map(Duration::from_secs);
        provider::Error::Busy {
            host: "h".into(),
            status: 529,
            message: "busy".into(),
            retry_after,
        }
    }

    fn fail(circuits: &Circuits, model: &Model, error: &provider::Error) -> u64 {
        let rest = circuits
            .admit(model)
            .expect("may be asked")
            .failed(error)
            .rest;
        (rest + Duration::from_millis(500)).as_secs()
    }

    #[tokio::test(start_paused = true)]
    async fn the_rest_grows_to_a_minute_and_is_never_shorter_than_the_server_asks() {
        let (circuits, model) = (Circuits::default(), model("primary"));
        for middle in [1.0, 2.0, 5.0, 10.0, 20.0, 40.0, 60.0, 60.0] {
            let rest = circuits
                .admit(&model)
                .expect("the rest is over")
                .failed(&busy(None))
                .rest;
            assert!(
                (middle * 0.7..middle * 1.3).contains(&rest.as_secs_f64()),
                "{middle}: {rest:?}"
            );
            assert!(!circuits.may_ask(&model));
            tokio::time::advance(rest).await;
            assert!(circuits.may_ask(&model) && !circuits.is_closed(&model));
        }
        assert_eq!(fail(&circuits, &model, &busy(Some(120))), 120);
        tokio::time::advance(Duration::from_secs(120)).await;
        assert_eq!(fail(&circuits, &model, &busy(Some(1 << 40))), 3600);
        tokio::time::advance(Duration::from_secs(3600)).await;
        circuits.admit(&model).expect("a probe").answered();
        assert!(circuits.is_closed(&model));
        assert!(
            fail(&circuits, &model, &busy(None)) <= 1,
            "the count starts over"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn one_call_at_a_time_is_the_probe_and_parallel_failures_count_once() {
        let (circuits, model) = (Circuits::default(), model("primary"));
        let permits: Vec<Permit> = (0..4)
            .map(|_| circuits.admit(&model).expect("closed"))
            .collect();
        for permit in permits {
            assert!(permit.failed(&busy(None)).rest < Duration::from_secs(2));
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        let probe = circuits.admit(&model).expect("a probe");
        assert_eq!(
            circuits.admit(&model).expect_err("one is enough").cause,
            Cause::Overloaded
        );
        drop(probe);
        let probe = circuits.admit(&model).expect("the first was cancelled");
        probe.answered();
        assert!(circuits.is_closed(&model));
    }

    #[tokio::test(start_paused = true)]
    async fn a_busy_model_does_not_hold_back_another_and_an_unreachable_server_does() {
        let circuits = Circuits::default();
        let (large, small) = (model("large"), model("small"));
        let may_ask = || [&large, &small].map(|model| circuits.may_ask(model));
        fail(&circuits, &large, &busy(None));
        assert_eq!(may_ask(), [false, true]);
        circuits.admit(&small).expect("up").answered();
        assert_eq!(may_ask(), [false, true]);
        let unreachable = provider::Error::Unreachable {
            host: "h".into(),
            reason: "refused".into(),
        };
        fail(&circuits, &small, &unreachable);
        assert_eq!(may_ask(), [false, false]);
        tokio::time::advance(Duration::from_secs(3)).await;
        circuits.admit(&small).expect("a probe").answered();
        assert_eq!(may_ask(), [true, true]);
    }

    #[tokio::test]
    async fn health_names_since_when_and_why() {
        let (circuits, model) = (Circuits::default(), model("primary"));
        fail(&circuits, &model, &busy(Some(60)));
        let health = circuits.health(["a", "b"].into_iter());
        let outage = health[0].down.as_ref().expect("down");
        assert_eq!(
            (outage.retry_at - outage.since, outage.last_error.as_str()),
            (60_000, "h answered 529: busy")
        );
        assert_eq!(
            health[1],
            Health {
                name: "b".into(),
                down: None
            }
        );
    }
}

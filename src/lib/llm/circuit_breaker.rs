//! Which providers are down: known for all calls at once, so that not each of them finds it out anew.
//!
//! After a call that failed although it was repeated, its provider counts as down until it said it would
//! be back, or for 30 s, then longer and longer. What only one model showed (too busy, broke off) is
//! held against that model, what the whole server showed against all.

use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock;
use crate::config::Model;
use crate::provider;

/// How long a provider is left alone at first, and at most while it does not say for how long itself.
const REST: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(5 * 60));
/// The longest rest a server may ask for: by then somebody may have bought more.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// What is known of the providers; clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Circuits(Arc<Mutex<BTreeMap<String, Down>>>);

#[derive(Debug)]
struct Down {
    /// Which of its models; empty = all.
    models: BTreeSet<String>,
    failures: u32,
    until: Instant,
    since_ms: i64,
    retry_at_ms: i64,
    last_error: String,
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
    /// Returns how long `model` should be left alone; `None` = it may be asked.
    pub(crate) fn rest(&self, model: &Model, now: Instant) -> Option<Duration> {
        let known = self.0.lock();
        let down = known
            .get(&model.provider.name)
            .filter(|down| down.concerns(model))?;
        Some(down.until.saturating_duration_since(now)).filter(|rest| !rest.is_zero())
    }

    /// Returns true when `model` failed last, although it may be asked again by now.
    pub(crate) fn is_doubtful(&self, model: &Model) -> bool {
        let known = self.0.lock();
        known
            .get(&model.provider.name)
            .is_some_and(|down| down.concerns(model))
    }

    /// Notes that a call of `model` failed with `error`, which another time need not happen.
    pub(crate) fn failed(&self, model: &Model, error: &provider::Error, now: Instant) {
        let mut known = self.0.lock();
        let name = &model.provider.name;
        let (whole, now_ms) = (
            matches!(error, provider::Error::Unreachable { .. }),
            clock::now_ms(),
        );
        let new = !known.contains_key(name);
        let down = known.entry(name.clone()).or_insert_with(|| Down {
            models: BTreeSet::from([model.name.clone()]),
            failures: 0,
            until: now,
            since_ms: now_ms,
            retry_at_ms: now_ms,
            last_error: String::new(),
        });
        if whole {
            down.models.clear();
        } else if !down.models.is_empty() {
            down.models.insert(model.name.clone());
        }
        let grown = REST
            .0
            .saturating_mul(2_u32.saturating_pow(down.failures))
            .min(REST.1);
        let rest = error
            .retry_after()
            .map_or(grown, |asked| asked.min(LONGEST));
        down.failures += 1;
        down.until = now + rest;
        down.retry_at_ms =
            now_ms.saturating_add(i64::try_from(rest.as_millis()).unwrap_or(i64::MAX));
        down.last_error = error.to_string();
        if new {
            tracing::warn!(provider = name, %error, rest_secs = rest.as_secs(), "the provider is down");
        }
    }

    /// Notes that `model` answered.
    pub(crate) fn succeeded(&self, model: &Model) {
        let mut known = self.0.lock();
        let name = &model.provider.name;
        let Some(down) = known.get_mut(name) else {
            return;
        };
        // One that answers says nothing about another that is too busy.
        if !down.models.is_empty() && (!down.models.remove(&model.name) || !down.models.is_empty())
        {
            return;
        }
        let secs = (clock::now_ms() - down.since_ms) / 1000;
        known.remove(name);
        tracing::info!(
            provider = name,
            after_secs = secs,
            "the provider answers again"
        );
    }

    /// Returns how the providers called `names` are, in that order.
    pub(crate) fn health<'a>(&self, names: impl Iterator<Item = &'a str>) -> Vec<Health> {
        let known = self.0.lock();
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

impl Down {
    fn concerns(&self, model: &Model) -> bool {
        self.models.is_empty() || self.models.contains(&model.name)
    }
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

    #[test]
    fn the_rest_grows_to_five_minutes_unless_the_server_says_how_long() {
        let (circuits, model, now) = (Circuits::default(), model("primary"), Instant::now());
        let after = |error: &provider::Error| {
            circuits.failed(&model, error, now);
            circuits.rest(&model, now).expect("a rest").as_secs()
        };
        let grown: Vec<u64> = (0..6).map(|_| after(&busy(None))).collect();
        assert_eq!(grown, [30, 60, 120, 240, 300, 300]);
        assert_eq!(
            [after(&busy(Some(7))), after(&busy(Some(1 << 40)))],
            [7, 3600]
        );
        assert_eq!(circuits.rest(&model, now + Duration::from_secs(3600)), None);
        assert!(
            circuits.is_doubtful(&model),
            "it may be asked again, and nobody knows more"
        );
        circuits.succeeded(&model);
        assert!(!circuits.is_doubtful(&model));
        assert_eq!(after(&busy(None)), 30, "an answer begins the count anew");
    }

    #[test]
    fn a_busy_model_does_not_hold_back_another_and_an_unreachable_server_does() {
        let (circuits, now) = (Circuits::default(), Instant::now());
        let (large, small) = (model("large"), model("small"));
        let resting = || [&large, &small].map(|model| circuits.rest(model, now).is_some());
        circuits.failed(&large, &busy(None), now);
        assert_eq!(resting(), [true, false]);
        circuits.succeeded(&small);
        assert_eq!(resting(), [true, false]);
        circuits.failed(
            &small,
            &provider::Error::Unreachable {
                host: "h".into(),
                reason: "refused".into(),
            },
            now,
        );
        assert_eq!(resting(), [true, true]);
        circuits.succeeded(&small);
        assert_eq!(resting(), [false, false]);
    }

    #[test]
    fn health_names_since_when_and_why() {
        let (circuits, model) = (Circuits::default(), model("primary"));
        circuits.failed(&model, &busy(Some(60)), Instant::now());
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

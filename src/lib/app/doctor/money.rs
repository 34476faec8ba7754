//! Checks whether the caps leave anything to spend.

use std::sync::Arc;

use super::Finding;
use super::context::DoctorContext;
use crate::app::daemon::build;
use crate::config;
use crate::config::Loaded;
use crate::cost;

pub(super) fn check(context: &DoctorContext, loaded: &Loaded) -> Vec<Finding> {
    let mut findings = unpriced(context, loaded);
    findings.extend(reached(context, loaded));
    findings.extend(cache(context, loaded));
    findings
}

/// Calls and input tokens of today from which on a share of them says something.
const ENOUGH: (i64, i64) = (10, 50_000);

/// Much less is read from the vendors' caches than in the days before: what is sent changes at its
/// beginning, and each turn is paid whole.
fn cache(context: &DoctorContext, loaded: &Loaded) -> Option<Finding> {
    let (ledger, zone) = (context.home.cost_db(), loaded.config.agent.timezone.0);
    let now = context.now;
    let since = |since: i64| Some(cost::Line::sum(&cost::by_model(&ledger, since, now).ok()?));
    let today = since(cost::start_of_day(context.now, zone))?;
    let week = since(cost::start_of_week(context.now, zone))?;
    let before = cost::Line {
        input_tokens: week.input_tokens - today.input_tokens,
        vector_tokens: week.vector_tokens - today.vector_tokens,
        cache_read_tokens: week.cache_read_tokens - today.cache_read_tokens,
        cache_write_tokens: week.cache_write_tokens - today.cache_write_tokens,
        ..cost::Line::default()
    };
    let enough = today.calls >= ENOUGH.0
        && today.all_input_tokens() >= ENOUGH.1
        && before.all_input_tokens() >= ENOUGH.1;
    let (now, then) = (today.cache_read_ratio()?, before.cache_read_ratio()?);
    // A tenth of a little is not a drop.
    (enough && then >= 0.3 && now < then / 2.0).then(|| {
        let evidence = format!(
            "today {:.0} % of the input was read from the vendor's cache, in the six days before {:.0} %: something at the \
             beginning of the requests changes (MEMORY.md, skills, [tools] enabled), or messages are farther apart",
            now * 100.0,
            then * 100.0
        );
        Finding::warning("cache-drop", evidence, context.program("agent-send", "--cost week --by day"))
    })
}

/// With a cap, a model without a price is refused every time.
pub(super) fn unpriced(context: &DoctorContext, loaded: &Loaded) -> Vec<Finding> {
    let finding = |(model, evidence): (Arc<config::Model>, String)| {
        let command = context.edit_provider(&model.provider);
        match loaded.models.is_in_use(&model) {
            true => Finding::error("model-unpriced", evidence, command),
            false => Finding::warning("model-unpriced", evidence, command),
        }
    };
    build::unpriced(loaded).into_iter().map(finding).collect()
}

/// The part of a limit from which on it is told.
const NEAR: f64 = 0.8;

/// A day's or month's cap that leaves nothing, or little.
fn reached(context: &DoctorContext, loaded: &Loaded) -> Vec<Finding> {
    let caps = &loaded.config.cost;
    let zone = loaded.config.agent.timezone.0;
    let periods = [
        (
            "day_usd",
            caps.day_usd,
            cost::start_of_day(context.now, zone),
            "today",
            "midnight",
        ),
        (
            "month_usd",
            caps.month_usd,
            cost::start_of_month(context.now, zone),
            "this month",
            "the end of the month",
        ),
    ];
    let passed = cost::alerts(&context.home.cost_db(), context.now, zone, caps).unwrap_or_default();
    let mut findings = Vec::new();
    for (key, cap, since, when, until) in periods {
        if cap <= 0.0 {
            continue;
        }
        // A ledger that cannot be read is told with the databases.
        let Ok(lines) = cost::by_model(&context.home.cost_db(), since, context.now) else {
            continue;
        };
        let spent = cost::total_usd(&lines);
        let refused = passed
            .iter()
            .any(|alert| alert.setting() == key && alert.is_refusal());
        let found = if spent >= cap {
            Some((
                "cap-reached",
                format!("calls are refused until {until} ({zone})"),
            ))
        } else if refused {
            Some((
                "cap-reached",
                format!(
                    "a call that could cost more than what is left was refused; the rest is open until {until} ({zone})"
                ),
            ))
        } else {
            (spent >= cap * NEAR).then(|| {
                (
                    "cap-near",
                    format!(
                        "{:.0} % are used up, until {until} ({zone})",
                        spent / cap * 100.0
                    ),
                )
            })
        };
        if let Some((id, what)) = found {
            let evidence = format!(
                "${spent:.4} were spent or are reserved {when} and [cost] {key} = {cap:.2}: {what}"
            );
            let line = match loaded.origin(&format!("cost.{key}")) {
                crate::config::Origin::File { line, .. } => Some(line),
                _ => None,
            };
            findings.push(Finding::warning(
                id,
                evidence,
                context.edit(context.home.config_file(), line),
            ));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::cost::{Ledger, NewCall, Outcome};
    use crate::message::Usage;

    /// Calls `days` ago, of 10,000 input tokens each, `read` of them from the cache.
    async fn spend(ledger: &Ledger, days: i64, calls: u32, read: u64) {
        for _ in 0..calls {
            let call_id = uuid::Uuid::now_v7().to_string();
            let call = NewCall {
                call_id,
                run_id: "r".to_owned(),
                session_id: "s".to_owned(),
                source: "cli",
                provider: "p".to_owned(),
                model: "m".to_owned(),
                kind: cost::Kind::Chat,
                bound: Some(1),
                budget_usd: None,
                share_usd: None,
                of_others: false,
            };
            let reserved = ledger
                .reserve(
                    call,
                    &config::Cost::default(),
                    clock::now_ms() - days * 86_400_000,
                )
                .await
                .expect("ledger")
                .expect("no limit");
            let usage = Usage {
                input_tokens: 10_000 - read,
                cache_read_tokens: read,
                ..Usage::default()
            };
            ledger
                .settle(
                    reserved,
                    Outcome::Answered {
                        usage,
                        cost: Some(1),
                    },
                    5,
                )
                .await
                .expect("settle");
        }
    }

    #[tokio::test]
    async fn a_limit_is_near_before_it_is_reached() {
        let dir = tempfile::tempdir().expect("dir");
        let context = DoctorContext::of(dir.path(), &[]);
        std::fs::create_dir_all(context.home.state()).expect("dir");
        let ledger = Ledger::start(&context.home.cost_db(), chrono_tz::UTC).expect("ledger");
        let mut loaded =
            config::load(&context.home, &config::Environment::of(&[]), &[]).expect("defaults");
        loaded.config.cost.day_usd = 1e-8;
        let ids = || {
            reached(&context, &loaded)
                .into_iter()
                .map(|finding| finding.id)
                .collect::<Vec<_>>()
        };
        let mut seen = Vec::new();
        // Each call costs a nano dollar of the ten.
        for _ in 0..10 {
            spend(&ledger, 0, 1, 0).await;
            seen.extend(ids());
        }
        assert_eq!(seen, ["cap-near", "cap-near", "cap-reached"]);
    }

    #[tokio::test]
    async fn a_cache_that_is_read_half_as_much_as_before_is_a_finding() {
        for (before, today, calls, expected) in [
            (9_000, 1_000, 12, true),
            (9_000, 6_000, 12, false),
            (9_000, 1_000, 4, false),
            (1_000, 100, 12, false),
        ] {
            let dir = tempfile::tempdir().expect("dir");
            let context = DoctorContext::of(dir.path(), &[]);
            std::fs::create_dir_all(context.home.state()).expect("dir");
            let ledger = Ledger::start(&context.home.cost_db(), chrono_tz::UTC).expect("ledger");
            spend(&ledger, 2, 20, before).await;
            spend(&ledger, 0, calls, today).await;
            let loaded = context.settings.as_ref().expect("defaults");
            let found = cache(&context, loaded);
            assert_eq!(
                found.is_some(),
                expected,
                "{before} {today} {calls}: {found:?}"
            );
        }
    }
}

//! `jobs`: the jobs, and whether a heartbeat would wake the agent now.

use serde::Serialize;
use serde_json::Value;

use crate::app::cli::Failure;
use crate::config;
use crate::config::{Environment, Home};
use crate::jobs::heartbeat_gate::{Hours, World, gate, slot};
use crate::jobs::run_log;
use crate::jobs::run_log::Run;
use crate::{clock, jobs, monitor_state, people, pipeline, prompt, queue, skills, text};

const RUNS: usize = 5;
/// Tokens of the tools that every turn is offered: 6,000 bytes at most.
const TOOLS_TOKENS: u64 = 1_800;
const ANSWER_TOKENS: u64 = 50;

/// `jobs`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Jobs {
    /// In the order in which they were added.
    pub jobs: Vec<Job>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<(String, String)>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Job {
    #[serde(flatten)]
    pub fields: Value,
    /// The results of its last runs, the newest last.
    pub runs: Vec<Run>,
}

/// Returns the jobs document; a daemon need not run.
pub(crate) fn jobs(home: &Home, env: &Environment) -> Result<Jobs, Failure> {
    let (zone, _) = super::zone(home, env);
    let known = jobs::read(&home.jobs())?;
    let one = |job: &jobs::Job| {
        let runs = run_log::newest(&home.job_runs(), &job.id, RUNS).unwrap_or_default();
        Job {
            fields: job.document(zone),
            runs,
        }
    };
    Ok(Jobs {
        jobs: known.iter().map(one).collect(),
        broken: known
            .broken()
            .map(|broken| (broken.id.clone(), broken.why.clone()))
            .collect(),
    })
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Wake {
    pub would_wake: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When it is thought of next, RFC 3339 UTC.
    pub next_at: String,
    pub(crate) model: String,
    pub input_tokens: u64,
    /// US dollars of a wake in which nothing needs the owner, by an estimate; absent when the model has no price.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub day_usd: Option<f64>,
}

pub(crate) fn wake(home: &Home, env: &Environment) -> Result<Wake, Failure> {
    let loaded = config::load(home, env, &[])?;
    let (config, models) = (&loaded.config, &loaded.models);
    let now = clock::now_ms();
    let zone = config.agent.timezone.0;
    let heartbeat = &config.heartbeat;
    let hours = Hours::of(heartbeat);
    let this_slot = slot(now, heartbeat.every.0, zone);
    let waking = pipeline::waking(home.workspace(), &home.cost_db(), config, now);
    let state = monitor_state::read(&home.monitor()).ok().flatten();
    let down = state.as_ref().and_then(|state| {
        let down = state
            .providers
            .iter()
            .find(|provider| provider.state == "down")?;
        Some(format!(
            "the provider {} is down",
            text::visible(&down.name)
        ))
    });
    let model = models
        .for_role("system")
        .ok_or_else(|| Failure::config("no model is configured"))?;
    let people = people::People::read(&home.people())?;
    let woke = queue::knows(&home.queue_db(), &format!("heartbeat:{this_slot}")).unwrap_or(false);
    let sources = prompt::Sources::new(
        home,
        std::sync::Arc::new(skills::Skills::new(home, config::share_dir(env).as_deref())),
    );
    let beat = pipeline::heartbeat(now);
    let asleep = gate(&World {
        file: waking.file.as_deref(),
        hours,
        zone,
        now,
        every_ms: heartbeat.every.0,
        woke,
        is_busy: state.as_ref().is_some_and(|state| !state.lanes.is_empty()),
        down: down.or(waking.is_capped),
        has_way: config.open_channels().next().is_some() && people.first_owner(config).is_some(),
        spent: waking.spent,
        least_usd: pipeline::least_usd(&sources, (config, models), &model.name, &beat),
    })
    .err();
    let system = sources.system(config, models, &model.name, &beat, true);
    let words = system
        .iter()
        .map(|block| text::estimate_tokens(&block.text))
        .sum::<u64>()
        + text::estimate_tokens(&beat.text);
    let input_tokens = words + TOOLS_TOKENS;
    let rate = |tokens: u64, rate: f64| tokens as f64 * rate / 1_000_000.0;
    let cost_usd = model
        .rates
        .map(|rates| rate(input_tokens, rates[0]) + rate(ANSWER_TOKENS, rates[1]));
    let day_usd = cost_usd.map(|usd| usd * f64::from(wakes_of_a_day(hours, heartbeat.every.0)));
    Ok(Wake {
        would_wake: asleep.is_none(),
        reason: asleep.map(|asleep| asleep.to_string()),
        next_at: clock::rfc3339(slot(this_slot + heartbeat.every.0, heartbeat.every.0, zone)),
        model: model.name.clone(),
        input_tokens,
        cost_usd,
        day_usd,
    })
}

/// Returns how often the agent may wake in a day, when nothing else speaks against it.
fn wakes_of_a_day(hours: Hours, every_ms: i64) -> u32 {
    let times = (0..)
        .map(|round| round * every_ms)
        .take_while(|at| *at < 24 * 3_600_000);
    u32::try_from(
        times
            .filter(|at| hours.contain(*at, chrono_tz::UTC))
            .count(),
    )
    .unwrap_or(u32::MAX)
}

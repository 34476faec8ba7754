//! Publishes the daemon's state: monitor.json, and status.json on SIGUSR1.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, broadcast};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::channel::Channel;
use crate::clock;
use crate::config::Home;
use crate::cost::Ledger;
use crate::message::AgentEvent;
use crate::monitor_state;
use crate::monitor_state::{ChannelState, ProviderState, Queue, State};
use crate::pipeline::{Pipeline, Waiting};
use crate::sys::clock_check;
use crate::sys::sd_notify::Systemd;
use crate::{cost, db, llm, sandbox};

/// Written at most this often, and at least this often (specification §20).
const PACE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(15));
/// Depths and cost are read from the databases at most this often, milliseconds.
const SUMS: i64 = 1000;
/// And so often, milliseconds, when this process changed nothing: others pay, too, and a day ends.
const SUMS_AT_REST: i64 = 60_000;
/// How long a write waits for them: longer when a database is held by somebody, and the next one has them.
const PATIENCE: Duration = Duration::from_millis(20);
/// And the last one, behind which there is none.
const LAST_PATIENCE: Duration = Duration::from_secs(1);

/// Depths of the queue, and the cost of the day; what could not be read is not there.
type Read = (Option<Queue>, Option<f64>);

/// When depths and cost were read, and [`db::commits`] then.
#[derive(Default)]
struct Sums {
    at: i64,
    commits: u64,
    /// They are being read.
    reading: Option<JoinHandle<Read>>,
}

impl Sums {
    /// Returns true when they are to be read again, and notes that they are.
    fn are_due(&mut self, now: i64, commits: u64) -> bool {
        let pace = if commits == self.commits {
            SUMS_AT_REST
        } else {
            SUMS
        };
        let due = (now - self.at).abs() >= pace;
        if due {
            (self.at, self.commits) = (now, commits);
        }
        due
    }

    /// Returns how long until monitor.json is written without a cause: sooner when this process changed a database since they were
    /// read, so that the last numbers of a turn do not stay out.
    fn rest(&self, now: i64, commits: u64) -> Duration {
        if commits == self.commits {
            return PACE.1;
        }
        let left = SUMS - (now - self.at).abs();
        Duration::from_millis(u64::try_from(left).unwrap_or_default()).clamp(PACE.0, PACE.1)
    }

    /// Waits until they are read, for ever when nobody is at it. Nothing is lost when it is broken off.
    async fn read(&mut self) -> Read {
        let Some(reading) = &mut self.reading else {
            return std::future::pending().await;
        };
        let read = reading.await;
        self.reading = None;
        // It ends with the process, or panicked.
        read.unwrap_or_default()
    }

    /// Waits until they are read, but no longer than `patience`.
    async fn read_within(&mut self, patience: Duration) -> Read {
        match self.reading {
            Some(_) => tokio::time::timeout(patience, self.read())
                .await
                .unwrap_or_default(),
            None => Read::default(),
        }
    }
}

/// Writes monitor.json until the daemon is `over`: after inputs and events of runs, when something else `changed` (the health
/// of a channel, a trouble), and from time to time. The last one says that the daemon ended by itself. What is wrong with a
/// channel is told to `systemd`, too.
pub(super) async fn show(
    pipeline: Arc<Pipeline>,
    (home, ledger): (Home, Ledger),
    mut events: broadcast::Receiver<AgentEvent>,
    (changed, systemd): (Arc<Notify>, Systemd),
    over: CancellationToken,
) {
    let mut troubles = Vec::new();
    let mut state = State {
        state: "idle".to_owned(),
        pid: std::process::id(),
        boot_id: monitor_state::boot_id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        started_at: clock::rfc3339(clock::now_ms()),
        ..State::default()
    };
    let mut sums = Sums::default();
    loop {
        refresh(&pipeline, &ledger, &mut state, &mut sums, PATIENCE).await;
        write(&home, &state).await;
        tell(&systemd, &state, &mut troubles);
        let rest = sums.rest(clock::now_ms(), db::commits());
        tokio::select! {
            () = over.cancelled() => break,
            () = pipeline.closing().cancelled(), if !state.stopping => state.stopping = true,
            () = tokio::time::sleep(rest) => {}
            () = changed.notified() => {}
            read = sums.read() => keep(&mut state, read),
            () = pipeline.input_came().notified() => gather(&mut state, &mut events, &over).await,
            event = events.recv() => {
                // When we were too slow, `refresh` takes out what ended meanwhile.
                if let Ok(event) = event {
                    state.apply(&event);
                }
                gather(&mut state, &mut events, &over).await;
            }
        }
    }
    sums = Sums::default();
    refresh(&pipeline, &ledger, &mut state, &mut sums, LAST_PATIENCE).await;
    // An interrupted turn is not running: it continues after the next start.
    state.lanes.clear();
    state.settle();
    state.ended_at = Some(state.updated_at.clone());
    write(&home, &state).await;
}

/// Waits for what follows at once, so that it is written together.
async fn gather(
    state: &mut State,
    events: &mut broadcast::Receiver<AgentEvent>,
    over: &CancellationToken,
) {
    over.run_until_cancelled(tokio::time::sleep(PACE.0)).await;
    while let Ok(event) = events.try_recv() {
        state.apply(&event);
    }
}

async fn write(home: &Home, state: &State) {
    let (home, mut state) = (home.clone(), state.clone());
    let write = move || {
        // Who reads the file has but the time of .env.
        if let Some(files) = &mut state.settings_files {
            files.renew(&home);
        }
        monitor_state::write(&home.monitor(), &state)
    };
    if let Err(error) = crate::sys::blocking(write).await {
        tracing::warn!(%error, "monitor.json could not be written");
    }
}

/// Says in `systemctl status` what is wrong with channels, and that nothing is any more.
fn tell(systemd: &Systemd, state: &State, told: &mut Vec<String>) {
    let is_wrong =
        |channel: &&ChannelState| !["ok", "connecting"].contains(&channel.state.as_str());
    let troubles: Vec<String> = state
        .channels
        .iter()
        .filter(is_wrong)
        .map(|channel| format!("{}: {}", channel.name, channel.state))
        .collect();
    if state.stopping || troubles == *told {
        return;
    }
    if troubles.is_empty() {
        systemd.status(&format!("open; sandbox of exec: {}", state.sandbox));
    } else {
        systemd.status(&format!("open; {}", troubles.join("; ")));
    }
    *told = troubles;
}

fn channel_state(channel: &dyn Channel) -> ChannelState {
    let health = channel.health();
    ChannelState {
        name: channel.name().to_owned(),
        state: health.state,
        mode: health.mode.to_owned(),
        last_ok_at: health.last_ok_at.map(clock::rfc3339),
        last_update_at: health.last_update_at.map(clock::rfc3339),
    }
}

fn provider(health: llm::Health) -> ProviderState {
    let llm::Health { name, down } = health;
    match down {
        None => ProviderState {
            name,
            state: "ok".to_owned(),
            ..ProviderState::default()
        },
        Some(outage) => ProviderState {
            name,
            state: "down".to_owned(),
            since: Some(clock::rfc3339(outage.since)),
            retry_at: Some(clock::rfc3339(outage.retry_at)),
            last_error: Some(outage.last_error),
        },
    }
}

/// Takes what was read; the rest stays as it was.
fn keep(state: &mut State, (queue, cost): Read) {
    state.queue = queue.unwrap_or(state.queue);
    state.today_cost_usd = cost.unwrap_or(state.today_cost_usd);
}

async fn refresh(
    pipeline: &Arc<Pipeline>,
    ledger: &Ledger,
    state: &mut State,
    sums: &mut Sums,
    patience: Duration,
) {
    let live = pipeline.live();
    let now = clock::now_ms();
    state.updated_at = clock::rfc3339(now);
    let (running, waiting) = (pipeline.running(), pipeline.waiting());
    state.keep(|lane| {
        running.contains(&lane.session) || waiting.iter().any(|one| one.run_id == lane.run_id)
    });
    for Waiting {
        session,
        run_id,
        suspended,
    } in waiting
    {
        if !running.contains(&session.0) {
            let reason = format!("{}: {}", suspended.waits_for, suspended.detail);
            state.waits(&session.0, &run_id, suspended.since, reason);
        }
    }
    state.settle();
    state.models = live
        .agent
        .client()
        .models()
        .names()
        .map(str::to_owned)
        .collect();
    state.active_sessions = pipeline.sessions().count();
    state.last_error = pipeline.last_troubles();
    state.settings_files = Some(live.settings_files.clone());
    state.newest_input = pipeline.newest_input();
    state.pruned_at = pipeline.pruned_at();
    if let Some(known) = clock_check::known() {
        state.known_at = Some(clock::rfc3339(known.at));
        state.doubted_ms = known.doubted_ms;
    }
    state.channels = pipeline
        .channels()
        .values()
        .map(|channel| channel_state(channel.as_ref()))
        .collect();
    state.providers = live
        .agent
        .client()
        .health()
        .into_iter()
        .map(provider)
        .collect();
    if sums.reading.is_some() || !sums.are_due(now, db::commits()) {
        return;
    }
    let day = cost::start_of_day(now, live.config.agent.timezone.0);
    sums.reading = Some(tokio::spawn(read(pipeline.clone(), ledger.clone(), day)));
    keep(state, sums.read_within(patience).await);
    let level = crate::sys::blocking(|| sandbox::level().clone()).await;
    let off = live.config.tools.exec.sandbox == crate::config::Sandbox::Off;
    let level = if off { sandbox::Level::Off } else { level };
    state.sandbox_risk = level.remaining_risk().to_owned();
    state.sandbox = level.to_string();
}

async fn read(pipeline: Arc<Pipeline>, ledger: Ledger, day: i64) -> Read {
    let counts = pipeline.queue().counts().await;
    let queue = counts.map(|counts| Queue {
        inbox: counts.inbox,
        outbox: counts.outbox,
        dead: counts.dead,
    });
    (
        queue.ok(),
        ledger.spent_since(day, clock::now_ms()).await.ok(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_database_that_is_held_holds_no_write_up_and_is_read_when_it_is_free() {
        let (free, held) = tokio::sync::oneshot::channel();
        let mut sums = Sums {
            reading: Some(tokio::spawn(async {
                held.await.expect("it is freed");
                (None, Some(0.5))
            })),
            ..Sums::default()
        };
        let began = tokio::time::Instant::now();
        assert_eq!(sums.read_within(PATIENCE).await, (None, None));
        let waited = began.elapsed();
        assert!(waited <= Duration::from_millis(21), "{waited:?}");
        free.send(()).expect("it waits");
        assert_eq!(sums.read().await, (None, Some(0.5)));
        assert!(sums.reading.is_none());
    }

    #[test]
    fn sums_are_read_after_a_change_and_now_and_then() {
        let mut sums = Sums::default();
        let due: Vec<bool> = [
            // now, commits
            (1_000_000, 5),
            (1_000_500, 6),
            (1_001_000, 6),
            (1_030_000, 6),
            (1_061_000, 6),
            // A clock that was set back.
            (900_000, 6),
        ]
        .map(|(now, commits)| sums.are_due(now, commits))
        .to_vec();
        assert_eq!(due, [true, false, true, false, true, true]);
    }
}

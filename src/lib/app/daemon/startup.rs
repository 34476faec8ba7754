//! The start of the daemon: lock → pending erasures → FIFO → stores → settings → recovered work.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, broadcast, mpsc};

use super::build;
use super::build::Kept;
use super::lost_writes::Losses;
use super::reload::Began;
use super::run_options::RunOptions;
use super::single_instance;
use super::stdio::Stdio;
use crate::app::cli::{Failure, Shared};
use crate::app::http;
use crate::audit;
use crate::auth::{Keys, Renewals, ServerSignIns};
use crate::channel::Channel;
use crate::channel::telegram::Telegram;
use crate::config;
use crate::config::{Environment, Home, Loaded, Secrets};
use crate::cost::Ledger;
use crate::forget;
use crate::llm::Outages;
use crate::mcp::{Servers, Trouble};
use crate::memory::{Memory, embedder};
use crate::message::AgentEvent;
use crate::pipeline::{Pipeline, SETTINGS, Services, Stores};
use crate::skills::Skills;
use crate::standby;
use crate::sys;
use crate::sys::sd_notify::Systemd;
use crate::sys::{fifo, lock};
use crate::{db, logging, monitor_state, prompt, queue, session, workspace};

/// Well within the 60 s and more that a supervisor waits for a sign of life.
const START_BEAT: Duration = Duration::from_secs(5);

/// What is there before the event loop.
pub(super) struct Prepared {
    pub(super) home: Home,
    pub(super) env: Environment,
    pub(super) options: RunOptions,
    pub(super) loaded: Loaded,
    pub(super) systemd: Systemd,
    pub(super) log: logging::Log,
    pub(super) doorbell: File,
}

/// A daemon that is ready to serve.
pub(super) struct Daemon {
    pub(super) home: Home,
    pub(super) env: Environment,
    pub(super) options: RunOptions,
    pub(super) systemd: Systemd,
    pub(super) log: logging::Log,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) kept: Kept,
    pub(super) began_with: Began,
}

/// What the parts of the daemon learn of each other.
pub(super) struct News {
    pub(super) telegram: Option<Arc<Telegram>>,
    pub(super) api: Option<http::BoundServer>,
    pub(super) doorbell: File,
    /// Events of runs, for monitor.json.
    pub(super) events: broadcast::Receiver<AgentEvent>,
    /// Notified when the health of a channel changed, or there is a trouble.
    pub(super) changed: Arc<Notify>,
    /// Troubles of tool servers.
    pub(super) troubles: mpsc::UnboundedReceiver<Trouble>,
}

/// Takes the lock, erases what was ordered, opens the log and the FIFO. The lock is to be held until the process
/// does nothing more.
pub(super) fn prepare(
    shared: &Shared,
    options: RunOptions,
) -> Result<(Prepared, lock::Lock), Failure> {
    let (env, home) = shared.home()?;
    crate::app::cli::must_be_whole(&home)?;
    crate::app::cli::may_write(&home)?;
    let is_new = make_new(&home, &env);
    let loaded = config::load(&home, &env, &options.settings())?;
    home.create()?;
    let lock = single_instance::lock(&home)?;
    standby::may_run(&home)?;
    let unseen = standby::check_successor(&home, &env)?;
    let systemd = Systemd::of(&|name| env.get(name), std::process::id());
    // Before the log is open, which is one of the places.
    let erased = erase(&home, &env, &systemd)?;
    workspace::create_protected(home.workspace()).map_err(sys::Error::at(
        "make the agent's files in",
        home.workspace(),
    ))?;
    // Before the first log file is deleted.
    let before = monitor_state::read(&home.monitor()).ok().flatten();
    sys::clock_check::begin(before.and_then(|state| state.known_time()));
    let log = logging::init(&logging::Options {
        level: loaded.config.log.level,
        verbose: shared.verbose,
        quiet: shared.quiet,
        journal: env.has("JOURNAL_STREAM"),
        dir: Some(home.logs()),
        zone: loaded.config.agent.timezone.0,
        keep_days: loaded.config.log.keep_days,
    });
    let log = log.map_err(|error| Failure::bug(error.to_string()))?;
    if is_new {
        tracing::info!(home = %home.config_dir().display(), "created a new home, like `agent-daemon init`");
        if let Some(agents) = crate::app::cli::beside(&home) {
            tracing::warn!("this is a new agent; there are others: {agents}");
        }
    }
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    if let Some(why) = unseen {
        tracing::warn!(
            "it is unknown whether the standby has taken over, so the agent runs here: {why}"
        );
    }
    for report in erased {
        tracing::info!("erasing (`forget --hard`): {report}");
    }
    let doorbell = fifo::open(&home.fifo())?;
    let prepared = Prepared {
        home,
        env,
        options,
        loaded,
        systemd,
        log,
        doorbell,
    };
    Ok((prepared, lock))
}

/// Makes a home that is not there at all as `init` does. Where the settings may not be written (a container, a system
/// unit) the built-in ones are as good; what else is wrong is told by who needs it.
fn make_new(home: &Home, env: &Environment) -> bool {
    let is_new = !home.config_file().exists() && !home.state().exists();
    is_new && !home.config_is_named() && workspace::init(home, config::machine_zone(env)).is_ok()
}

/// Erases what is ordered, and returns a report of each. A supervisor hears meanwhile that this process lives.
fn erase(home: &Home, env: &Environment, systemd: &Systemd) -> Result<Vec<String>, Failure> {
    let orders = forget::waiting(home)?;
    if orders.is_empty() {
        return Ok(Vec::new());
    }
    let carry_out = || {
        orders
            .into_iter()
            .map(|order| order.carry_out(home, env).map_err(Failure::from))
            .collect()
    };
    saying_alive(
        systemd,
        "erasing what is to be forgotten",
        START_BEAT,
        carry_out,
    )
}

/// Does `work`, which may take longer than a start may (90 s, `DefaultTimeoutStartSec` in systemd-system.conf(5)): every `beat` a
/// supervisor hears that this process lives.
fn saying_alive<T>(systemd: &Systemd, status: &str, beat: Duration, work: impl FnOnce() -> T) -> T {
    let (done, is_over) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while is_over.recv_timeout(beat) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                let words = format!("WATCHDOG=1\nEXTEND_TIMEOUT_USEC=60000000\nSTATUS={status}");
                systemd.say(&words);
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Opens a database. A corrupt one is quarantined and reported, never saved over. Its log goes with it
/// under the matching name, so that `sqlite3 … .recover` finds both.
fn or_quarantine<T>(
    path: &Path,
    open: impl Fn() -> Result<T, db::Error>,
) -> Result<(T, Option<String>), Failure> {
    match open() {
        Ok(value) => Ok((value, None)),
        Err(error @ db::Error::Damaged { .. }) => {
            let aside = db::set_aside(path)?;
            let trouble = format!(
                "{error}; it was moved aside as {}; its open messages are not handled",
                aside.display()
            );
            tracing::error!("{trouble}");
            Ok((open()?, Some(trouble)))
        }
        Err(error) => Err(error.into()),
    }
}

/// A damaged ledger with a cap set stops the daemon: nobody could say what is left to spend.
fn open_ledger(home: &Home, loaded: &Loaded) -> Result<(Ledger, Option<String>), Failure> {
    let path = home.cost_db();
    let open = || Ledger::start(&path, loaded.config.agent.timezone.0);
    if loaded.config.cost.capped() {
        Ok((open()?, None))
    } else {
        or_quarantine(&path, open)
    }
}

/// Opens the queue and the ledger; of an older version they are migrated, which takes minutes where they are large.
fn open_databases(home: &Home, loaded: &Loaded) -> Result<(queue::Store, Ledger, Losses), Failure> {
    let queue_db = home.queue_db();
    let mut losses = Losses::before_opening(home)?;
    let (queue, quarantined) = or_quarantine(&queue_db, || queue::Store::start(&queue_db))?;
    losses.add(quarantined);
    let (ledger, lost) = open_ledger(home, loaded)?;
    losses.add(lost);
    Ok((queue, ledger, losses))
}

/// Listens for requests, if the settings say so. With `--once` nobody has time for them.
async fn open_api(
    options: &RunOptions,
    loaded: &Loaded,
    secrets: &Secrets,
) -> Result<Option<http::BoundServer>, Failure> {
    let settings = http::settings(&loaded.config, secrets)?;
    let Some(settings) = settings.filter(|_| !options.once) else {
        return Ok(None);
    };
    for warning in &settings.warnings {
        tracing::warn!("{warning}");
    }
    http::BoundServer::open(settings).await.map(Some)
}

/// Opens the stores and the channels, puts the path together and resumes what was open.
pub(super) async fn open(prepared: Prepared) -> Result<(Daemon, News), Failure> {
    let Prepared {
        home,
        env,
        options,
        loaded,
        systemd,
        log,
        doorbell,
    } = prepared;
    let open = || open_databases(&home, &loaded);
    let words = "opening the databases, which are copied and migrated after an upgrade";
    let (queue, ledger, losses) = saying_alive(&systemd, words, START_BEAT, open)?;
    let zone = loaded.config.agent.timezone.0;
    let sessions =
        session::Store::open(home.sessions(), home.archive(), home.sessions_index(), zone)?;
    let secrets = Secrets::open(&home, &env)?;
    let changed = Arc::new(Notify::new());
    let telegram = build::telegram(&loaded.config, &secrets, changed.clone())?;
    let api = open_api(&options, &loaded, &secrets).await?;
    let silent = build::cannot_answer(&loaded, &Keys::open(&home, &env)?);
    let (tell, troubles) = mpsc::unbounded_channel();
    let (kept, events) = keep(&home, &env, ledger, tell)?;
    let live = build::live(&home, &env, loaded, kept.clone())?;
    let began_with = Began::with(live.config.clone(), &secrets)?;
    let mut channels: HashMap<String, Arc<dyn Channel>> = HashMap::new();
    if let Some(telegram) = &telegram {
        channels.insert(telegram.name().to_owned(), telegram.clone());
    }
    channels.extend(build::processes(&home, &live.config, &changed));
    if options.cli() {
        channels.insert(Stdio.name().to_owned(), Arc::new(Stdio));
    }
    if options.end() {
        queue.try_models_at(crate::clock::now_ms()).await?;
    }
    let stores = Stores {
        queue,
        sessions,
        undo: kept.undo.clone(),
        audit: kept.audit.clone(),
        memory: kept.memory.clone(),
    };
    let services = Services {
        prompt: Arc::new(prompt::Sources::new(&home, kept.skills.clone())),
        channels,
        changed: changed.clone(),
        live,
    };
    let pipeline = Pipeline::new(&home, stores, services);
    kept.audit.started();
    note_cannot_answer(&pipeline, &silent);
    pipeline.start().await?;
    losses.tell(&pipeline, &kept.ledger).await?;
    let daemon = Daemon {
        home,
        env,
        options,
        systemd,
        log,
        pipeline,
        kept,
        began_with,
    };
    let news = News {
        telegram,
        api,
        doorbell,
        events,
        changed,
        troubles,
    };
    Ok((daemon, news))
}

/// Returns what outlasts a reload, and the events of runs.
pub(super) fn keep(
    home: &Home,
    env: &Environment,
    ledger: Ledger,
    troubles: mpsc::UnboundedSender<Trouble>,
) -> Result<(Kept, broadcast::Receiver<AgentEvent>), Failure> {
    let (events, receiver) = broadcast::channel(1024);
    let memory = Memory::new(home).with(embedder::opener(home, env, Some(ledger.clone())));
    let renewals = Renewals::default();
    let sign_ins = ServerSignIns::new(&home.server_auth(), renewals.clone());
    let (seen, approved) = (home.tool_servers(), home.trusted_servers());
    let servers = Servers::new(&seen, &approved, sign_ins, troubles);
    let servers = servers.map_err(|error| {
        let why = format!("TLS cannot be set up: {}", error.without_url());
        Failure::failed(why)
    })?;
    let undo = Arc::new(build::undo(home));
    crate::tools::ChangedFiles::new(home.workspace(), undo.clone()).mark_unended();
    let kept = Kept {
        ledger,
        renewals,
        outages: Outages::default(),
        events,
        memory: Arc::new(memory),
        skills: Arc::new(Skills::new(home, config::share_dir(env).as_deref())),
        undo,
        servers: Arc::new(servers),
        audit: audit::Log::start(audit::Place::of(home)),
    };
    Ok((kept, receiver))
}

/// A sign-in that has ended or a price that is missing keeps nobody from starting: log and status say it.
pub(super) fn note_cannot_answer(pipeline: &Pipeline, silent: &[String]) {
    for words in silent {
        tracing::warn!("{words}");
        pipeline.note_trouble_of(SETTINGS, words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn a_supervisor_hears_of_a_long_start_until_it_is_over() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).expect("socket");
        let named = |name: &str| (name == "NOTIFY_SOCKET").then(|| OsString::from(&path));
        let systemd = Systemd::of(&named, std::process::id());
        let hear = || {
            let mut bytes = [0; 200];
            let count = socket.recv(&mut bytes)?;
            std::io::Result::Ok(String::from_utf8_lossy(&bytes[..count]).into_owned())
        };
        let heard = saying_alive(&systemd, "opening", Duration::from_millis(1), || {
            [hear().expect("a beat"), hear().expect("the next one")]
        });
        let words = "WATCHDOG=1\nEXTEND_TIMEOUT_USEC=60000000\nSTATUS=opening";
        assert_eq!(heard, [words, words]);
        socket.set_nonblocking(true).expect("set");
        while hear().is_ok() {}
        std::thread::sleep(Duration::from_millis(20));
        assert!(hear().is_err(), "the work is over");
    }
}

//! The composition root: puts the daemon together in the order in which its promises need it,
//! runs it, and takes it apart.
//!
//! lock → FIFO → stores → settings → recovered work → doors open → READY=1.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, broadcast, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::super::cli::{Exit, Failure, Shared};
use super::super::query;
use super::{build, ingress, watch};
use crate::channel::telegram::Telegram;
use crate::channel::{Batch, Channel};
use crate::config::{self, Environment, Home, Loaded, Secrets};
use crate::control::replies;
use crate::cost::Ledger;
use crate::pipeline::{self, Pipeline, Signal};
use crate::sys::{self, atomic, fifo, lock, notify};
use crate::{clock, control, db, logging, people, queue, sandbox, session, workspace};

/// A daemon that is ending may still hold the lock this long (specification §3).
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// Running turns may end within this after SIGTERM; with twice [`LAST_SENDS`] it stays below the
/// 30 s after which systemd kills.
const DRAIN: Duration = Duration::from_secs(20);
/// Sends that are under way may end within this.
const LAST_SENDS: Duration = Duration::from_secs(3);
/// Answer files are kept this long (specification §3).
const KEEP_REPLIES: Duration = Duration::from_secs(24 * 3600);
/// Snapshots are written this long after a turn; the transcript has everything before.
const FLUSH: Duration = Duration::from_secs(1);

pub(super) fn run(shared: &Shared) -> Result<Exit, Failure> {
    private_process();
    let (env, home) = shared.home()?;
    let loaded = config::load(&home, &env, &[])?;
    home.create()?;
    let _lock = take_lock(&home)?;
    workspace::make_shape(home.workspace()).map_err(sys::Error::at("make the agent's files in", home.workspace()))?;
    let log = logging::Options {
        level: loaded.config.log.level,
        verbose: shared.verbose,
        quiet: shared.quiet,
        journal: env.has("JOURNAL_STREAM"),
        dir: Some(home.logs()),
        zone: loaded.config.agent.timezone.0,
        keep_days: loaded.config.log.keep_days,
    };
    let _guard = logging::init(&log).map_err(|error| Failure::new(Exit::Bug, error.to_string()))?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    let doorbell = fifo::open(&home.fifo())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(16)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Io, format!("no event loop: {error}")))?;
    let socket = env.get("NOTIFY_SOCKET").and_then(|socket| socket.into_string().ok());
    runtime.block_on(Daemon { home, env, socket }.serve(loaded, doorbell))
}

/// Nothing we write is for others, and a crash leaves no memory image with keys in it.
fn private_process() {
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o077));
    if let Err(error) = nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_CORE, 0, 0) {
        tracing::warn!(%error, "core dumps stay on");
    }
}

fn take_lock(home: &Home) -> Result<lock::Lock, Failure> {
    let path = home.lock();
    let until = Instant::now() + LOCK_PATIENCE;
    loop {
        if let Some(lock) = lock::try_lock(&path)? {
            return Ok(lock);
        }
        if Instant::now() >= until {
            let pid = lock::holder(&path)?.unwrap_or(0);
            return Err(Failure::new(
                Exit::TryAgain,
                format!("another daemon (pid {pid}) has this home: {}", home.state().display()),
            )
            .hint("stop it first, or choose another home with --home or --instance"));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A corrupt canonical database is set aside and reported, never saved over. Its log goes with it
/// under the matching name, so that `sqlite3 … .recover` finds both.
fn or_set_aside<T>(path: &Path, open: impl Fn() -> Result<T, db::Error>) -> Result<(T, Option<String>), Failure> {
    match open() {
        Ok(value) => Ok((value, None)),
        Err(error @ db::Error::Damaged { .. }) => {
            let aside = atomic::set_aside(path)?;
            for suffix in ["-wal", "-shm"] {
                let with = |path: &Path| {
                    let mut name = path.as_os_str().to_owned();
                    name.push(suffix);
                    PathBuf::from(name)
                };
                // There is none after a clean end.
                let _ = std::fs::rename(with(path), with(&aside));
            }
            let trouble = format!("{error}; it was set aside as {}, what was open in it is not handled", aside.display());
            tracing::error!("{trouble}");
            Ok((open()?, Some(trouble)))
        }
        Err(error) => Err(error.into()),
    }
}

struct Daemon {
    home: Home,
    env: Environment,
    socket: Option<String>,
}

impl Daemon {
    async fn serve(self, loaded: Loaded, doorbell: File) -> Result<Exit, Failure> {
        let home = &self.home;
        let zone = loaded.config.agent.timezone.0;
        let (queue, trouble) = or_set_aside(&home.queue_db(), || queue::Store::start(&home.queue_db()))?;
        let (ledger, lost) = self.ledger(&loaded)?;
        let sessions = session::Store::open(home.sessions(), home.archive(), home.sessions_index(), zone)?;
        let secrets = Secrets::open(home, &self.env)?;
        let health = Arc::new(Notify::new());
        let telegram = build::telegram(&loaded.config, &secrets, health.clone())?;
        let (events, monitor_events) = broadcast::channel(1024);
        let live = build::live(home, &self.env, loaded, ledger.clone(), events.clone())?;
        let (signals, heard) = mpsc::unbounded_channel();
        let mut channels: HashMap<&'static str, Arc<dyn Channel>> = HashMap::new();
        if let Some(telegram) = &telegram {
            channels.insert(telegram.name(), telegram.clone());
        }
        let pipeline = Arc::new(Pipeline {
            queue,
            sessions,
            people: people::Store::new(&home.people()),
            files: workspace::ConventionFiles::new(home.workspace()),
            channels,
            replies: home.replies(),
            cost_db: home.cost_db(),
            live: RwLock::new(Arc::new(live)),
            signals,
            trouble: Mutex::new(trouble.or(lost)),
            runs: Mutex::default(),
            outgoing: pipeline::Outgoing::default(),
            closing: CancellationToken::new(),
            closed: CancellationToken::new(),
        });

        let recovered = pipeline.queue.recover().await?;
        tracing::info!(
            inbox = recovered.inbox.len(),
            outbox = recovered.outbox.len(),
            version = env!("CARGO_PKG_VERSION"),
            "started"
        );
        pipeline.deliver(recovered.outbox);
        let _ = pipeline.signals.send(Signal::Accepted(recovered.inbox));

        let mut terminate = listen(SignalKind::terminate())?;
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut hangup = listen(SignalKind::hangup())?;
        let mut dump = listen(SignalKind::user_defined1())?;
        // None of these ends before the daemon does; one that breaks down takes it along, and
        // systemd starts it anew.
        let mut rooms = JoinSet::new();
        rooms.spawn(pipeline::drive(pipeline.clone(), heard, DRAIN));
        if let Some(telegram) = telegram {
            self.open_telegram(&pipeline, telegram, &mut rooms).await?;
        }
        let (reload, mut reloads) = mpsc::channel(1);
        rooms.spawn(ingress::serve(pipeline.clone(), home.clone(), doorbell, reload));
        rooms.spawn(watch::show(pipeline.clone(), home.clone(), monitor_events, health));
        rooms.spawn(housekeeping(pipeline.clone(), home.clone()));
        tokio::task::spawn_blocking(|| {
            let level = sandbox::level();
            tracing::info!(%level, risk = level.remaining_risk(), "sandbox of exec");
        });
        notify::notify(self.socket.as_deref(), "READY=1");

        let exit = loop {
            tokio::select! {
                _ = terminate.recv() => break Exit::Ok,
                _ = interrupt.recv() => break Exit::Ok,
                _ = hangup.recv() => self.reload(&pipeline, &ledger, &events),
                Some(()) = reloads.recv() => self.reload(&pipeline, &ledger, &events),
                _ = dump.recv() => self.dump_status(),
                Some(ended) = rooms.join_next() => {
                    tracing::error!(?ended, "a part of the daemon ended by itself");
                    break Exit::Bug;
                }
            }
        };
        tracing::info!("ending: running turns may finish");
        notify::notify(self.socket.as_deref(), "STOPPING=1");
        pipeline.closing.cancel();
        while rooms.join_next().await.is_some() {}
        // What the last turns said goes out now, if it can; else after the next start. A send that
        // is under way when the time is over gets a little more, to be known as sent.
        pipeline.sends_end(LAST_SENDS).await;
        pipeline.closed.cancel();
        pipeline.sends_end(LAST_SENDS).await;
        if let Err(error) = pipeline.sessions.flush() {
            tracing::warn!(%error, "a snapshot could not be written; the transcript has everything");
        }
        Ok(exit)
    }

    /// A damaged ledger with a cap set stops the daemon: nobody could say what is left to spend.
    fn ledger(&self, loaded: &Loaded) -> Result<(Ledger, Option<String>), Failure> {
        let path = self.home.cost_db();
        let open = || Ledger::start(&path, loaded.config.agent.timezone.0);
        if loaded.config.cost.capped() { Ok((open()?, None)) } else { or_set_aside(&path, open) }
    }

    async fn open_telegram(
        &self,
        pipeline: &Arc<Pipeline>,
        telegram: Arc<Telegram>,
        rooms: &mut JoinSet<()>,
    ) -> Result<(), Failure> {
        let offset = pipeline.queue.offset(telegram.bot_id()).await?;
        let (batches, mut arriving) = mpsc::channel::<Batch>(1);
        let (poller, taker) = (telegram.clone(), pipeline.clone());
        let closing = pipeline.closing.clone();
        rooms.spawn(async move {
            // Dropped in the middle of a poll: what it would have brought comes again.
            closing.run_until_cancelled(poller.poll(offset, batches)).await;
        });
        rooms.spawn(async move {
            while let Some(Some(batch)) = taker.closing.run_until_cancelled(arriving.recv()).await {
                taker.take_batch(batch, "telegram").await;
            }
        });
        tokio::spawn(async move { telegram.introduce().await });
        Ok(())
    }

    /// Puts the configuration in force again; an invalid one changes nothing and is reported.
    fn reload(&self, pipeline: &Arc<Pipeline>, ledger: &Ledger, events: &broadcast::Sender<crate::message::AgentEvent>) {
        let built = config::load(&self.home, &self.env, &[])
            .map_err(Failure::from)
            .and_then(|loaded| build::live(&self.home, &self.env, loaded, ledger.clone(), events.clone()));
        match built {
            Ok(live) => {
                if live.config.telegram != pipeline.live().config.telegram {
                    tracing::warn!("changes of [telegram] beyond who may talk take effect at the next start");
                }
                pipeline.reload(live);
                tracing::info!("the configuration was read again");
            }
            Err(failure) => {
                tracing::error!(hint = failure.hint, "the configuration stays as it was: {}", failure.message);
                pipeline.note_trouble(&format!("the configuration was not read again: {}", failure.message));
            }
        }
    }

    fn dump_status(&self) {
        let dumped = query::status(&self.home, &self.env).and_then(|status| {
            let bytes = serde_json::to_vec_pretty(&status).unwrap_or_default();
            Ok(atomic::write(&self.home.status(), &bytes, atomic::Durability::Rename)?)
        });
        if let Err(failure) = dumped {
            tracing::error!("status.json could not be written: {}", failure.message);
        }
    }
}

fn listen(kind: SignalKind) -> Result<tokio::signal::unix::Signal, Failure> {
    signal(kind).map_err(|error| Failure::new(Exit::Io, format!("signals cannot be heard: {error}")))
}

/// What is done now and then: answers that are missing are written again, snapshots are brought
/// up to date, what is old is forgotten.
async fn housekeeping(pipeline: Arc<Pipeline>, home: Home) {
    let own = home.clone();
    match tokio::task::spawn_blocking(move || restore_files(&own)).await {
        Ok(Ok(())) => {}
        Ok(Err(failure)) => tracing::warn!("old answers are not written again: {}", failure.message),
        Err(panic) => tracing::error!(%panic, "old answers are not written again"),
    }
    let mut hours = tokio::time::interval(Duration::from_secs(3600));
    loop {
        tokio::select! {
            () = pipeline.closing.cancelled() => return,
            () = pipeline.sessions.changed() => {
                pipeline.closing.run_until_cancelled(tokio::time::sleep(FLUSH)).await;
                let pipeline = pipeline.clone();
                let flushed = tokio::task::spawn_blocking(move || pipeline.sessions.flush()).await;
                if let Ok(Err(error)) = flushed {
                    tracing::warn!(%error, "a snapshot could not be written; the transcript has everything");
                }
            }
            _ = hours.tick() => {
                if let Err(error) = pipeline.queue.prune(clock::now_ms()).await {
                    tracing::warn!(%error, "old rows stay");
                }
                if let Err(error) = replies::prune(&home.replies(), KEEP_REPLIES) {
                    tracing::warn!(%error, "old answers stay");
                }
            }
        }
    }
}

/// Answer files are not synced; those a power cut took come back from the queue. What a crash left
/// half written is removed.
fn restore_files(home: &Home) -> Result<(), Failure> {
    let since = clock::now_ms() - i64::try_from(KEEP_REPLIES.as_millis()).unwrap_or(0);
    for reply in queue::results(&home.queue_db(), since)? {
        let Some(id) = control::Id::parse(&reply.id) else { continue };
        if !replies::read(&home.replies(), &id).ok().flatten().is_some_and(|there| there.is_final()) {
            replies::write(&home.replies(), &reply)?;
        }
    }
    for dir in [home.state(), &home.replies(), &home.sessions(), &home.spool_tmp()] {
        atomic::remove_litter(dir)?;
    }
    Ok(())
}

//! The composition root: puts the daemon together in the order in which its promises need it,
//! runs it, and takes it apart.
//!
//! lock → FIFO → stores → settings → recovered work → doors open → READY=1.

use std::collections::HashMap;
use std::fs::File;
use std::sync::{Arc, Mutex, RwLock};
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{broadcast, mpsc};
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
use crate::sys::{atomic, fifo, lock, notify};
use crate::{clock, db, logging, people, queue, sandbox, session, workspace};

/// A daemon that is ending may still hold the lock this long (specification §3).
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// Running turns may end within this after SIGTERM; systemd kills after 30 s.
const DRAIN: Duration = Duration::from_secs(25);
/// Sends that are under way may end within this.
const LAST_SENDS: Duration = Duration::from_secs(3);
/// Answer files are kept this long (specification §3).
const KEEP_REPLIES: Duration = Duration::from_secs(24 * 3600);
/// Snapshots are written this long after a turn; the transcript has everything before.
const FLUSH: Duration = Duration::from_secs(1);
/// With no update for 6 days Telegram may begin to count anew (specification §6).
const OFFSET_LIFE_MS: i64 = 6 * 24 * 3600 * 1000;

pub(super) fn run(shared: &Shared) -> Result<Exit, Failure> {
    private_process();
    let (env, home) = shared.home()?;
    let loaded = config::load(&home, &env, &[])?;
    home.create()?;
    let _lock = take_lock(&home)?;
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

/// A corrupt canonical database is set aside and reported, never saved over.
fn or_set_aside<T>(path: &std::path::Path, open: impl Fn() -> Result<T, db::Error>) -> Result<(T, Option<String>), Failure> {
    match open() {
        Ok(value) => Ok((value, None)),
        Err(error @ db::Error::Damaged { .. }) => {
            let aside = atomic::set_aside(path)?;
            for suffix in ["-wal", "-shm"] {
                let mut name = path.as_os_str().to_owned();
                name.push(suffix);
                if std::path::Path::new(&name).exists() {
                    atomic::set_aside(std::path::Path::new(&name))?;
                }
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
        let ledger = self.ledger(&loaded)?;
        let sessions = session::Store::open(home.sessions(), home.archive(), home.sessions_index(), zone)?;
        let secrets = Secrets::open(home, &self.env)?;
        let telegram = build::telegram(&loaded.config, &secrets)?;
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
            trouble: Mutex::new(trouble),
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

        let lanes = tokio::spawn(pipeline::drive(pipeline.clone(), heard, DRAIN));
        if let Some(telegram) = telegram {
            self.open_telegram(&pipeline, telegram).await?;
        }
        let (reload, mut reloads) = mpsc::channel(1);
        tokio::spawn(ingress::serve(pipeline.clone(), home.clone(), doorbell, reload));
        tokio::spawn(watch::show(pipeline.clone(), home.clone(), monitor_events));
        tokio::spawn(housekeeping(pipeline.clone(), home.clone()));
        tokio::task::spawn_blocking(|| {
            let level = sandbox::level();
            tracing::info!(%level, "sandbox of exec");
        });
        notify::notify(self.socket.as_deref(), "READY=1");

        let mut terminate = listen(SignalKind::terminate())?;
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut hangup = listen(SignalKind::hangup())?;
        let mut dump = listen(SignalKind::user_defined1())?;
        loop {
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                _ = hangup.recv() => self.reload(&pipeline, &ledger, &events),
                Some(()) = reloads.recv() => self.reload(&pipeline, &ledger, &events),
                _ = dump.recv() => self.dump_status(),
            }
        }
        tracing::info!("ending: running turns may finish");
        notify::notify(self.socket.as_deref(), "STOPPING=1");
        pipeline.closing.cancel();
        if let Err(panic) = lanes.await {
            tracing::error!(%panic, "the lanes broke down");
        }
        // What the last turns said goes out now, if it can; else after the next start. A send that
        // is under way when the time is over gets a little more, to be known as sent.
        pipeline.sends_end(LAST_SENDS).await;
        pipeline.closed.cancel();
        pipeline.sends_end(LAST_SENDS).await;
        if let Err(error) = pipeline.sessions.flush() {
            tracing::warn!(%error, "a snapshot could not be written; the transcript has everything");
        }
        Ok(Exit::Ok)
    }

    /// A damaged ledger with a cap set stops the daemon: nobody could say what is left to spend.
    fn ledger(&self, loaded: &Loaded) -> Result<Ledger, Failure> {
        let path = self.home.cost_db();
        let open = || Ledger::start(&path, loaded.config.agent.timezone.0);
        if loaded.config.cost.capped() { Ok(open()?) } else { Ok(or_set_aside(&path, open)?.0) }
    }

    async fn open_telegram(&self, pipeline: &Arc<Pipeline>, telegram: Arc<Telegram>) -> Result<(), Failure> {
        let offset = pipeline.queue.offset(telegram.bot_id()).await?;
        let offset = offset.filter(|(_, moved)| clock::now_ms() - moved < OFFSET_LIFE_MS).map(|(next, _)| next);
        let (batches, mut arriving) = mpsc::channel::<Batch>(1);
        let poller = tokio::spawn(telegram.clone().poll(offset, batches));
        let pipeline = pipeline.clone();
        tokio::spawn(async move {
            loop {
                tokio::select! {
                    () = pipeline.closing.cancelled() => break,
                    Some(batch) = arriving.recv() => pipeline.take_batch(batch, "telegram").await,
                }
            }
            poller.abort();
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
    restore_replies(&pipeline, &home).await;
    let mut hours = tokio::time::interval(Duration::from_secs(3600));
    loop {
        tokio::select! {
            () = pipeline.closing.cancelled() => return,
            () = pipeline.sessions.changed() => {
                tokio::time::sleep(FLUSH).await;
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

/// Answer files are not synced; those a power cut took come back from the queue.
async fn restore_replies(pipeline: &Arc<Pipeline>, home: &Home) {
    let since = clock::now_ms() - i64::try_from(KEEP_REPLIES.as_millis()).unwrap_or(0);
    let kept = match pipeline.queue.results(since).await {
        Ok(kept) => kept,
        Err(error) => return tracing::warn!(%error, "old answers are not written again"),
    };
    for reply in kept {
        let there = crate::control::Id::parse(&reply.id).and_then(|id| replies::read(&home.replies(), &id).ok().flatten());
        if !there.is_some_and(|there| there.is_final())
            && let Err(error) = replies::write(&home.replies(), &reply)
        {
            tracing::warn!(%error, "an answer could not be written again");
        }
    }
}

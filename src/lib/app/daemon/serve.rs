//! The composition root: puts the daemon together in the order in which its promises need it,
//! runs it, and takes it apart.
//!
//! lock → what is to be erased → FIFO → stores → settings → recovered work → doors open → READY=1.

use parking_lot::{Mutex, RwLock};
use std::collections::HashMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, broadcast, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::listeners;
use super::listeners::Doors;
use super::stdio::Stdio;
use super::{assemble, background_tasks, command_intake, publish_state, ticker};
use crate::app::cli::{Exit, Failure, Shared};
use crate::app::documents;
use crate::app::forget;
use crate::app::http;
use crate::audit;
use crate::auth::{Keys, Renewals};
use crate::channel::Channel;
use crate::config;
use crate::config::{Environment, Home, Loaded, Secrets};

use crate::cost::Ledger;
use crate::llm::Outages;
use crate::mcp::Servers;
use crate::memory::{Memory, embedder};
use crate::pipeline;
use crate::pipeline::Pipeline;
use crate::skills::Skills;
use crate::sys;
use crate::sys::sd_notify::Systemd;
use crate::sys::{atomic, fifo, lock};
use crate::{db, logging, people, prompt, queue, sandbox, session, workspace};

/// A daemon that is ending may still hold the lock this long (specification §3).
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
/// Running turns may end within this after SIGTERM; with twice [`LAST_SENDS`] and [`LAST_RENEWALS`] it
/// stays below the 60 s after which systemd kills.
const DRAIN: Duration = Duration::from_secs(20);
/// Well within the 60 s and more that a supervisor waits for a sign of life.
const ERASE_BEAT: Duration = Duration::from_secs(5);
/// Sends that are under way may end within this.
const LAST_SENDS: Duration = Duration::from_secs(3);
/// A renewal of a token whose issuer was asked may end within this; an issuer is given as long.
const LAST_RENEWALS: Duration = Duration::from_secs(30);
/// The last entries of the audit log are on the disk within this.
const LAST_ENTRIES: Duration = Duration::from_secs(3);

/// How a daemon ends.
pub(super) enum End {
    /// For good.
    Exit(Exit),
    /// To begin anew at once, as another process would: nothing of it is left in memory.
    Anew,
}

pub(super) fn run(shared: &Shared, doors: Doors) -> Result<End, Failure> {
    let (env, home) = shared.home()?;
    let loaded = config::load(&home, &env, &doors.settings())?;
    home.create()?;
    let _lock = take_lock(&home)?;
    let systemd = Systemd::of(&|name| env.get(name), std::process::id());
    // Before the log is open, which is one of the places.
    let erased = erase(&home, &env, &systemd)?;
    workspace::create_protected(home.workspace()).map_err(sys::Error::at(
        "make the agent's files in",
        home.workspace(),
    ))?;
    let log = logging::Options {
        level: loaded.config.log.level,
        verbose: shared.verbose,
        quiet: shared.quiet,
        journal: env.has("JOURNAL_STREAM"),
        dir: Some(home.logs()),
        zone: loaded.config.agent.timezone.0,
        keep_days: loaded.config.log.keep_days,
    };
    logging::init(&log).map_err(|error| Failure::new(Exit::Bug, error.to_string()))?;
    for warning in &loaded.warnings {
        tracing::warn!("{warning}");
    }
    for told in erased {
        tracing::info!("what was to be forgotten for good: {told}");
    }
    let doorbell = fifo::open(&home.fifo())?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(16)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Io, format!("no event loop: {error}")))?;
    let skills = Arc::new(Skills::new(&home, config::share_dir(&env).as_deref()));
    let daemon = Daemon {
        home,
        env,
        doors,
        systemd,
        skills,
        renewals: Renewals::default(),
    };
    let end = runtime.block_on(daemon.serve(loaded, doorbell));
    // A thread may be waiting for a reader of standard output for ever.
    runtime.shutdown_timeout(Duration::from_secs(1));
    end
}

/// Erases what is ordered, and returns what came of it. A supervisor hears meanwhile that this process lives.
fn erase(home: &Home, env: &Environment, systemd: &Systemd) -> Result<Vec<String>, Failure> {
    let orders = forget::waiting(home)?;
    if orders.is_empty() {
        return Ok(Vec::new());
    }
    let (done, is_over) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            while is_over.recv_timeout(ERASE_BEAT) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                systemd.say("WATCHDOG=1\nEXTEND_TIMEOUT_USEC=60000000\nSTATUS=erasing what is to be forgotten");
            }
        });
        let told = orders
            .into_iter()
            .map(|order| order.carry_out(home, env))
            .collect();
        drop(done);
        told
    })
}

fn take_lock(home: &Home) -> Result<lock::Lock, Failure> {
    let path = home.lock();
    if let Some(lock) = lock::try_lock_for(&path, LOCK_PATIENCE)? {
        return Ok(lock);
    }
    let pid = lock::holder(&path)?.unwrap_or(0);
    Err(Failure::new(
        Exit::TryAgain,
        format!(
            "another daemon (pid {pid}) has this home: {}",
            home.state().display()
        ),
    )
    .hint("stop it first, or choose another home with --home or --instance"))
}

/// A corrupt canonical database is set aside and reported, never saved over. Its log goes with it
/// under the matching name, so that `sqlite3 … .recover` finds both.
fn or_set_aside<T>(
    path: &Path,
    open: impl Fn() -> Result<T, db::Error>,
) -> Result<(T, Option<String>), Failure> {
    match open() {
        Ok(value) => Ok((value, None)),
        Err(error @ db::Error::Damaged { .. }) => {
            let aside = db::set_aside(path)?;
            let trouble = format!(
                "{error}; it was set aside as {}, what was open in it is not handled",
                aside.display()
            );
            tracing::error!("{trouble}");
            Ok((open()?, Some(trouble)))
        }
        Err(error) => Err(error.into()),
    }
}

struct Daemon {
    home: Home,
    env: Environment,
    doors: Doors,
    systemd: Systemd,
    skills: Arc<Skills>,
    renewals: Renewals,
}

impl Daemon {
    async fn serve(self, loaded: Loaded, doorbell: File) -> Result<End, Failure> {
        let home = &self.home;
        let zone = loaded.config.agent.timezone.0;
        let (queue, trouble) =
            or_set_aside(&home.queue_db(), || queue::Store::start(&home.queue_db()))?;
        let (ledger, lost) = self.ledger(&loaded)?;
        let sessions =
            session::Store::open(home.sessions(), home.archive(), home.sessions_index(), zone)?;
        let secrets = Secrets::open(home, &self.env)?;
        let health = Arc::new(Notify::new());
        let telegram = assemble::telegram(&loaded.config, &secrets, health.clone())?;
        let api = self.api(&loaded, &secrets).await?;
        let (events, monitor_events) = broadcast::channel(1024);
        let memory = Arc::new(Memory::new(home).with(embedder::opener(
            home,
            &self.env,
            Some(ledger.clone()),
        )));
        let undo = Arc::new(assemble::undo(home));
        let audit = audit::Log::start(audit::Place::of(home));
        let signed_out = assemble::signed_out(&loaded.models, &Keys::open(home, &self.env)?);
        let (troubles, mut broken) = mpsc::unbounded_channel();
        let servers = Servers::new(&home.tool_servers(), &home.trusted_servers(), troubles)
            .map_err(|error| {
                Failure::new(
                    Exit::Failed,
                    format!("TLS cannot be set up: {}", error.without_url()),
                )
            })?;
        let servers = Arc::new(servers);
        let kept = assemble::Kept {
            ledger: ledger.clone(),
            renewals: self.renewals.clone(),
            outages: Outages::default(),
            events: events.clone(),
            memory: memory.clone(),
            skills: self.skills.clone(),
            undo: undo.clone(),
            servers: servers.clone(),
            audit: audit.clone(),
        };
        let live = assemble::live(home, &self.env, loaded, kept)?;
        let (signals, heard) = mpsc::unbounded_channel();
        let mut channels: HashMap<&'static str, Arc<dyn Channel>> = HashMap::new();
        if let Some(telegram) = &telegram {
            channels.insert(telegram.name(), telegram.clone());
        }
        if self.doors.cli() {
            channels.insert(Stdio.name(), Arc::new(Stdio));
        }
        let pipeline = Arc::new(Pipeline {
            queue,
            sessions,
            people: people::Store::new(&home.people()),
            undo,
            audit,
            memory,
            context: Arc::new(prompt::Sources::new(home, self.skills.clone())),
            channels,
            replies: home.replies(),
            downloads: home.downloads(),
            cost_db: home.cost_db(),
            signals,
            trouble: Mutex::new(trouble.or(lost)),
            changed: health.clone(),
            albums: Mutex::default(),
            unknown_groups: Mutex::default(),
            runs: Mutex::default(),
            parked: Mutex::default(),
            decided: Notify::new(),
            ended: Notify::new(),
            anew: Notify::new(),
            schedule: pipeline::Schedule::new(&home.jobs(), home.job_runs(), &live.config),
            live: RwLock::new(Arc::new(live)),
            outgoing: pipeline::Outgoing::default(),
            previews: TaskTracker::new(),
            answered: Notify::new(),
            unwritten: Notify::new(),
            closing: CancellationToken::new(),
            closed: CancellationToken::new(),
        });

        let told = Arc::downgrade(&pipeline);
        pipeline.audit.on_trouble(move |trouble| {
            if let Some(pipeline) = told.upgrade() {
                pipeline.note_trouble(trouble);
            }
        });
        pipeline.audit.started();
        note_signed_out(&pipeline, &signed_out);
        let recovered = pipeline.queue.recover().await?;
        tracing::info!(
            inbox = recovered.inbox.len(),
            outbox = recovered.outbox.len(),
            version = env!("CARGO_PKG_VERSION"),
            "started"
        );
        pipeline.clear_shown().await;
        pipeline.deliver(recovered.outbox);
        // A door that is closed today is no reason to answer into nowhere: what came through it waits.
        let open = |row: &queue::Accepted| {
            row.envelope
                .route
                .as_ref()
                .is_none_or(|route| pipeline.channels.contains_key(route.channel.as_str()))
        };
        let (inbox, waiting): (Vec<_>, Vec<_>) = recovered.inbox.into_iter().partition(open);
        if !waiting.is_empty() {
            tracing::warn!(
                count = waiting.len(),
                "messages wait for a channel that is off"
            );
        }
        pipeline.resume(inbox);

        let mut terminate = listen(SignalKind::terminate())?;
        let mut interrupt = listen(SignalKind::interrupt())?;
        let mut hangup = listen(SignalKind::hangup())?;
        let mut dump = listen(SignalKind::user_defined1())?;
        // None of these ends before the daemon does; one that breaks down takes it along, and
        // systemd starts it anew.
        let mut rooms = JoinSet::new();
        let drained = CancellationToken::new();
        let lanes = pipeline::drive(pipeline.clone(), heard, DRAIN);
        let end_of_turns = drained.clone().drop_guard();
        rooms.spawn(async move {
            lanes.await;
            drop(end_of_turns);
        });
        if let Some(api) = api {
            rooms.spawn(api.serve(
                pipeline.clone(),
                home.clone(),
                self.env.clone(),
                telegram.clone(),
                drained,
            )?);
        }
        let collected = match telegram {
            Some(telegram) => Some(
                listeners::open_telegram(&pipeline, telegram, self.doors.once, &mut rooms).await?,
            ),
            None => None,
        };
        let mut last_work = tokio::spawn(listeners::last_work(
            pipeline.clone(),
            home.clone(),
            self.doors.clone(),
            collected,
        ));
        let (reload, mut reloads) = mpsc::channel(1);
        let (pulse, pulses) = mpsc::channel(1);
        let (second_pulse, second_pulses) = mpsc::channel(1);
        rooms.spawn(command_intake::serve(
            pipeline.clone(),
            home.clone(),
            doorbell,
            reload,
            (pulses, second_pulse),
        ));
        rooms.spawn(ticker::serve(
            pipeline.clone(),
            (second_pulses, self.systemd.clone()),
        ));
        // It shows the end of all others, so it ends after them.
        let (mut watch, over) = (JoinSet::new(), CancellationToken::new());
        watch.spawn(publish_state::show(
            pipeline.clone(),
            home.clone(),
            monitor_events,
            (health, self.systemd.clone()),
            over.clone(),
        ));
        rooms.spawn(background_tasks::housekeeping(
            pipeline.clone(),
            home.clone(),
        ));
        rooms.spawn(background_tasks::remember(pipeline.clone()));
        rooms.spawn(background_tasks::tell_alerts(
            pipeline.clone(),
            ledger.clone(),
        ));
        self.systemd.say("READY=1\nSTATUS=open");
        self.name_the_sandbox(&pipeline, "start");

        let mut beat = self.systemd.beat().map(tokio::time::interval);
        // After a stop (SIGSTOP, a suspended machine) one beat, not all that were missed.
        if let Some(beat) = &mut beat {
            beat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        }
        let end = loop {
            tokio::select! {
                _ = terminate.recv() => break End::Exit(Exit::Ok),
                _ = interrupt.recv() => break End::Exit(Exit::Ok),
                () = pipeline.anew.notified() => break End::Anew,
                _ = hangup.recv() => self.reload(&pipeline, &ledger, &events, &servers),
                Some(()) = reloads.recv() => self.reload(&pipeline, &ledger, &events, &servers),
                _ = dump.recv() => self.dump_status(),
                Some(trouble) = broken.recv() => pipeline.note_trouble(&trouble),
                exit = &mut last_work => break End::Exit(exit.unwrap_or(Exit::Bug)),
                // The ingress, which looks at the spool every 5 s, passes the pulse on to the ticker of jobs:
                // systemd hears only what all loops have let through. Telegram is not asked; it may be silent.
                () = next(&mut beat) => { let _ = pulse.try_send(()); }
                Some(ended) = rooms.join_next() => {
                    tracing::error!(?ended, "a part of the daemon ended by itself");
                    break End::Exit(Exit::Bug);
                }
                Some(ended) = watch.join_next() => {
                    tracing::error!(?ended, "what writes monitor.json ended by itself");
                    break End::Exit(Exit::Bug);
                }
            }
        };
        tracing::info!("ending: running turns may finish");
        self.systemd.say(match end {
            End::Exit(_) => "STOPPING=1\nSTATUS=ending: running turns may finish",
            End::Anew => "STATUS=beginning anew, to forget: running turns may finish",
        });
        pipeline.closing.cancel();
        while rooms.join_next().await.is_some() {}
        servers.end().await;
        // What the last turns said goes out now, if it can; else after the next start. A send that
        // is under way when the time is over gets a little more, to be known as sent.
        tokio::join!(
            pipeline.sends_end(LAST_SENDS),
            pipeline.previews_end(LAST_SENDS)
        );
        pipeline.closed.cancel();
        pipeline.sends_end(LAST_SENDS).await;
        if let Err(error) = pipeline.sessions.flush() {
            tracing::warn!(%error, "a snapshot could not be written; the transcript has everything");
        }
        if tokio::time::timeout(LAST_RENEWALS, self.renewals.end())
            .await
            .is_err()
        {
            tracing::warn!(
                "a renewal of a sign-in was cut off; its issuer may ask for a new sign-in"
            );
        }
        last_work.abort();
        over.cancel();
        while watch.join_next().await.is_some() {}
        pipeline.audit.stopped(if let End::Exit(exit) = end {
            exit as u8
        } else {
            0
        });
        let last = pipeline.audit.clone();
        if !matches!(
            tokio::task::spawn_blocking(move || last.flush(LAST_ENTRIES)).await,
            Ok(true)
        ) {
            tracing::warn!("the last entries of the audit log may not be on the disk");
        }
        Ok(end)
    }

    /// Listens for requests, if the settings say so. Who handles what waits and ends has no time for them.
    async fn api(
        &self,
        loaded: &Loaded,
        secrets: &Secrets,
    ) -> Result<Option<http::BoundServer>, Failure> {
        let Some(settings) = http::settings(&loaded.config, secrets)?.filter(|_| !self.doors.once)
        else {
            return Ok(None);
        };
        if let Some(warning) = &settings.warning {
            tracing::warn!("{warning}");
        }
        http::BoundServer::open(settings).await.map(Some)
    }

    /// A damaged ledger with a cap set stops the daemon: nobody could say what is left to spend.
    fn ledger(&self, loaded: &Loaded) -> Result<(Ledger, Option<String>), Failure> {
        let path = self.home.cost_db();
        let open = || Ledger::start(&path, loaded.config.agent.timezone.0);
        if loaded.config.cost.capped() {
            Ok((open()?, None))
        } else {
            or_set_aside(&path, open)
        }
    }

    /// Puts the configuration in force again; an invalid one changes nothing and is reported.
    fn reload(
        &self,
        pipeline: &Arc<Pipeline>,
        ledger: &Ledger,
        events: &broadcast::Sender<crate::message::AgentEvent>,
        servers: &Arc<Servers>,
    ) {
        let mut signed_out = Vec::new();
        let built = config::load(&self.home, &self.env, &self.doors.settings())
            .map_err(Failure::from)
            .and_then(|loaded| {
                signed_out =
                    assemble::signed_out(&loaded.models, &Keys::open(&self.home, &self.env)?);
                let kept = assemble::Kept {
                    ledger: ledger.clone(),
                    renewals: self.renewals.clone(),
                    outages: pipeline.live().agent.client().outages(),
                    events: events.clone(),
                    memory: pipeline.memory.clone(),
                    skills: self.skills.clone(),
                    undo: pipeline.undo.clone(),
                    servers: servers.clone(),
                    audit: pipeline.audit.clone(),
                };
                assemble::live(&self.home, &self.env, loaded, kept)
            });
        match built {
            Ok(live) => {
                if live.config.telegram != pipeline.live().config.telegram {
                    tracing::warn!(
                        "changes of [telegram] beyond who may talk take effect at the next start"
                    );
                }
                if live.config.http != pipeline.live().config.http {
                    tracing::warn!("changes of [http] take effect at the next start");
                }
                pipeline.reload(live);
                tracing::info!("the configuration was read again");
                self.name_the_sandbox(pipeline, "reload");
                note_signed_out(pipeline, &signed_out);
            }
            Err(failure) => {
                self.systemd.status(&format!(
                    "open; the configuration stays as it was: {}",
                    failure.message
                ));
                pipeline.audit.configured(
                    "reload",
                    false,
                    "as before",
                    audit::settings(&self.home),
                );
                tracing::error!(
                    hint = failure.hint,
                    "the configuration stays as it was: {}",
                    failure.message
                );
                pipeline.note_trouble(&format!(
                    "the configuration was not read again: {}",
                    failure.message
                ));
            }
        }
    }

    /// Says what stands between a command and the machine, in the log, in `systemctl status` and, with the
    /// settings that are in force from now on, in the audit log.
    fn name_the_sandbox(&self, pipeline: &Pipeline, at: &'static str) {
        let (audit, files) = (pipeline.audit.clone(), audit::settings(&self.home));
        let (systemd, off) = (
            self.systemd.clone(),
            pipeline.live().config.tools.exec.sandbox == config::Sandbox::Off,
        );
        // The first time it is found out by trying.
        tokio::task::spawn_blocking(move || {
            let level = if off {
                &sandbox::Level::Off
            } else {
                sandbox::level()
            };
            audit.configured(at, true, &level.to_string(), files);
            tracing::info!(wall = %level, risk = level.remaining_risk(), "sandbox of exec");
            systemd.status(&format!("open; sandbox of exec: {level}"));
        });
    }

    fn dump_status(&self) {
        let dumped = documents::status(&self.home, &self.env).and_then(|status| {
            let bytes = serde_json::to_vec_pretty(&status).unwrap_or_default();
            Ok(atomic::write(
                &self.home.status(),
                &bytes,
                atomic::Durability::Rename,
            )?)
        });
        if let Err(failure) = dumped {
            tracing::error!("status.json could not be written: {}", failure.message);
        }
    }
}

/// A sign-in that has ended keeps nobody from starting: the log says it, and status, which has one line.
fn note_signed_out(pipeline: &Pipeline, signed_out: &[String]) {
    for words in signed_out {
        tracing::warn!("{words}");
        pipeline.note_trouble(words);
    }
}

/// Waits for the next beat; without a watchdog for ever.
async fn next(beat: &mut Option<Interval>) {
    match beat {
        Some(beat) => {
            beat.tick().await;
        }
        None => std::future::pending().await,
    }
}

fn listen(kind: SignalKind) -> Result<tokio::signal::unix::Signal, Failure> {
    signal(kind)
        .map_err(|error| Failure::new(Exit::Io, format!("signals cannot be heard: {error}")))
}

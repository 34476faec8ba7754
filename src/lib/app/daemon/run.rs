//! `agent-daemon run`: starts the daemon, serves until something ends it, and shuts it down.

use std::io::IsTerminal;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use super::replaced_databases::OpenDatabases;
use super::run_options::RunOptions;
use super::startup;
use super::startup::{Daemon, News};
use super::{
    command_intake, job_timer, maintenance, publish_state, run_until_done, standby, telegram,
    watchdog,
};
use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::app::documents;
use crate::config::ProviderType;
use crate::mcp;
use crate::pipeline;
use crate::sandbox;
use crate::sys;
use crate::sys::atomic;
use crate::sys::lock::Lock;

/// Running turns may end within this after SIGTERM; with twice [`LAST_SENDS`] and [`LAST_RENEWALS`] it
/// stays below the 60 s after which systemd kills.
const DRAIN: Duration = Duration::from_secs(20);
/// Sends that are under way may end within this.
const LAST_SENDS: Duration = Duration::from_secs(3);
/// A renewal of a token whose issuer was asked may end within this; an issuer is given as long.
const LAST_RENEWALS: Duration = Duration::from_secs(30);
/// The last entries of the audit log are on disk within this.
const LAST_ENTRIES: Duration = Duration::from_secs(3);

/// How often it is looked whether the lock's file is still there.
const LOOK_AT_LOCK: Duration = Duration::from_secs(5);

/// How a daemon ends.
pub(super) enum End {
    /// For good.
    Exit(Exit),
    /// To restart at once, as another process would: nothing of it is left in memory.
    Restart,
}

/// Runs the daemon until it ends.
pub(super) fn run(shared: &Shared, options: RunOptions) -> Result<End, Failure> {
    let (prepared, mut lock) = startup::prepare(shared, options)?;
    sandbox::take_control_group();
    sys::release_memory::keep_for_turns();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(16)
        .enable_all()
        .build()
        .map_err(|error| Failure::io(format!("no event loop: {error}")))?;
    let end = runtime.block_on(async {
        // A file that may not grow (ulimit -f) is an error of the write then, as on a full disk, and not the end.
        let _too_large = signal(SignalKind::from_raw(nix::libc::SIGXFSZ));
        let (daemon, news) = startup::open(prepared).await?;
        let signals = Signals::listen()?;
        let tasks = Tasks::spawn(&daemon, news).await?;
        daemon.serve(signals, tasks, &mut lock).await
    });
    // A thread may be waiting for a reader of standard output forever.
    runtime.shutdown_timeout(Duration::from_secs(1));
    end
}

/// The signals of the process.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    dump: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        let listen = |kind| {
            signal(kind).map_err(|error| Failure::io(format!("cannot listen for signals: {error}")))
        };
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
            dump: listen(SignalKind::user_defined1())?,
        })
    }
}

/// The tasks of the daemon. None of them ends before it does; one that breaks down takes it along, and
/// systemd restarts it.
struct Tasks {
    parts: JoinSet<()>,
    /// What writes monitor.json: it shows the end of all others, so it ends after them.
    state_writer: JoinSet<()>,
    /// Ends the state writer.
    over: CancellationToken,
    /// Ends when a daemon that ends by itself has nothing left to do.
    last_work: JoinHandle<Exit>,
    reloads: mpsc::Receiver<()>,
    pulse: watchdog::Pulse,
    troubles: mpsc::UnboundedReceiver<mcp::Trouble>,
}

impl Tasks {
    async fn spawn(daemon: &Daemon, news: News) -> Result<Self, Failure> {
        let (pipeline, home) = (&daemon.pipeline, &daemon.home);
        let mut parts = JoinSet::new();
        let drained = CancellationToken::new();
        let turns = pipeline::drive(pipeline.clone(), DRAIN);
        let end_of_turns = drained.clone().drop_guard();
        parts.spawn(async move {
            turns.await;
            drop(end_of_turns);
        });
        parts.spawn(pipeline::carry_out(pipeline.clone()));
        if let Some(api) = news.api {
            let (env, telegram) = (daemon.env.clone(), news.telegram.clone());
            parts.spawn(api.serve(pipeline.clone(), home.clone(), env, telegram, drained)?);
        }
        let collected = match news.telegram {
            Some(channel) => {
                Some(telegram::open(pipeline, channel, daemon.options.once, &mut parts).await?)
            }
            None => None,
        };
        let options = daemon.options.clone();
        let last_work =
            run_until_done::run_until_done(pipeline.clone(), home.clone(), options, collected);
        let last_work = tokio::spawn(last_work);
        let (reload, reloads) = mpsc::channel(1);
        let systemd = daemon.systemd.clone();
        let (pulse, link, last_link) = watchdog::chain(systemd.clone());
        parts.spawn(command_intake::serve(
            pipeline.clone(),
            home.clone(),
            news.doorbell,
            reload,
            link,
        ));
        parts.spawn(job_timer::serve(pipeline.clone(), last_link));
        let (mut state_writer, over) = (JoinSet::new(), CancellationToken::new());
        state_writer.spawn(publish_state::show(
            pipeline.clone(),
            (home.clone(), daemon.kept.ledger.clone()),
            news.events,
            (news.changed, systemd),
            over.clone(),
        ));
        parts.spawn(maintenance::housekeeping(pipeline.clone(), home.clone()));
        parts.spawn(maintenance::remember(pipeline.clone()));
        parts.spawn(standby::tell(pipeline.clone(), home.clone()));
        parts.spawn(maintenance::give_back_when_idle(pipeline.clone()));
        let ledger = daemon.kept.ledger.clone();
        parts.spawn(maintenance::tell_alerts(pipeline.clone(), ledger.clone()));
        parts.spawn(maintenance::watch_ledger(pipeline.clone(), ledger));
        Ok(Self {
            parts,
            state_writer,
            over,
            last_work,
            reloads,
            pulse,
            troubles: news.troubles,
        })
    }
}

impl Daemon {
    async fn serve(
        self,
        mut signals: Signals,
        mut tasks: Tasks,
        lock: &mut Lock,
    ) -> Result<End, Failure> {
        let pipeline = &self.pipeline;
        self.systemd.say("READY=1\nSTATUS=open");
        self.audit_configuration("start");
        self.greet();
        let mut beat = watchdog::Beat::of(&self.systemd);
        let mut look = tokio::time::interval(LOOK_AT_LOCK);
        let mut databases = OpenDatabases::of(&self.home);
        let lost = self.lost_database();
        tokio::pin!(lost);
        let end = loop {
            tokio::select! {
                _ = signals.terminate.recv() => break End::Exit(Exit::Ok),
                _ = signals.interrupt.recv() => break End::Exit(Exit::Ok),
                () = pipeline.restart_requested() => break End::Restart,
                _ = signals.hangup.recv() => self.reload(),
                Some(()) = tasks.reloads.recv() => self.reload(),
                _ = signals.dump.recv() => self.dump_status(),
                Some((server, trouble)) = tasks.troubles.recv() => {
                    pipeline.set_trouble(&format!("tool server {server}"), trouble.as_deref());
                }
                exit = &mut tasks.last_work => break End::Exit(exit.unwrap_or(Exit::Bug)),
                () = beat.next() => tasks.pulse.send(),
                _ = look.tick() => {
                    if !self.has_home(lock) {
                        break End::Exit(Exit::TryAgain);
                    }
                    databases.look(pipeline);
                }
                name = &mut lost => {
                    tracing::error!("{name} was damaged while the daemon ran: it ends, so that the next start sets the file aside");
                    break End::Exit(Exit::Io);
                }
                Some(ended) = tasks.parts.join_next() => {
                    tracing::error!(?ended, "a task of the daemon ended unexpectedly");
                    break End::Exit(Exit::Bug);
                }
                Some(ended) = tasks.state_writer.join_next() => {
                    tracing::error!(?ended, "the task that writes monitor.json ended unexpectedly");
                    break End::Exit(Exit::Bug);
                }
            }
        };
        self.shut_down(&end, tasks).await;
        Ok(end)
    }

    /// Waits until a database is damaged so that nothing can be recorded, and returns its name. The next start begins a new one;
    /// not so for the ledger while a limit is set, see [`startup`]: with that one the daemon stays and says what is wrong.
    async fn lost_database(&self) -> &'static str {
        let ledger = async {
            self.kept.ledger.lost().await;
            while self.pipeline.live().config.cost.capped() {
                tokio::time::sleep(LOOK_AT_LOCK).await;
            }
        };
        tokio::select! {
            () = self.pipeline.queue().lost() => "queue.db",
            () = ledger => "cost.db",
        }
    }

    /// Returns false when another daemon has this home now: somebody removed the lock's file. Without another one it is
    /// made again.
    fn has_home(&self, lock: &mut Lock) -> bool {
        match lock.keep(&self.home.lock()) {
            Ok(true) => true,
            Ok(false) => {
                tracing::error!(
                    "state/daemon.lock was replaced, and another daemon has this home: this one ends"
                );
                false
            }
            Err(error) => {
                tracing::debug!(%error, "the lock of the home cannot be checked");
                true
            }
        }
    }

    /// Tells who started it by hand what to do next.
    fn greet(&self) {
        if self.options.once || self.options.cli() || !std::io::stderr().is_terminal() {
            return;
        }
        let live = self.pipeline.live();
        let model = live.agent.client().models().for_role("cli");
        let answers = match model.filter(|model| model.provider.kind != ProviderType::Offline) {
            Some(model) => format!("{} of {} answers", model.model, model.provider.name),
            None => format!(
                "no model yet ({})",
                cli::command_elsewhere(&self.env, "agent-daemon", "login anthropic")
            ),
        };
        cli::err(&format!(
            "ready: {answers}; talk to it in another terminal with {}, end it with Ctrl-C",
            cli::command_elsewhere(&self.env, "agent-send", "--chat")
        ));
    }

    /// Lets running turns and sends end, and records what they did.
    async fn shut_down(&self, end: &End, mut tasks: Tasks) {
        tracing::info!("ending: running turns may finish");
        self.systemd.say(match end {
            End::Exit(_) => "STOPPING=1\nSTATUS=ending: running turns may finish",
            End::Restart => "STATUS=restarting, to erase: running turns may finish",
        });
        self.pipeline.closing().cancel();
        while tasks.parts.join_next().await.is_some() {}
        self.kept.servers.end().await;
        self.pipeline.close(LAST_SENDS).await;
        let renewals = tokio::time::timeout(LAST_RENEWALS, self.kept.renewals.end());
        if renewals.await.is_err() {
            tracing::warn!(
                "a renewal of a sign-in was cut off; its issuer may ask for a new sign-in"
            );
        }
        tasks.last_work.abort();
        tasks.over.cancel();
        while tasks.state_writer.join_next().await.is_some() {}
        let audit = self.kept.audit.clone();
        audit.stopped(match end {
            End::Exit(exit) => *exit as u8,
            End::Restart => 0,
        });
        let flushed = tokio::task::spawn_blocking(move || audit.flush(LAST_ENTRIES));
        if !matches!(flushed.await, Ok(true)) {
            tracing::warn!("the last entries of the audit log may not be on disk");
        }
        self.pipeline.queue().checkpoint().await;
        self.kept.ledger.checkpoint().await;
    }

    fn dump_status(&self) {
        let dumped = documents::status(&self.home, &self.env).and_then(|status| {
            let path = self.home.status();
            Ok(atomic::write_json(
                &path,
                &status,
                atomic::Durability::Rename,
            )?)
        });
        if let Err(failure) = dumped {
            tracing::error!("status.json could not be written: {}", failure.message);
        }
    }
}

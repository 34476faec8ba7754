//! The path of a message, one folder for each step:
//!
//! 1. [`intake`]: deduplication and access, one transaction; only then is the sender acknowledged
//! 2. [`schedule`]: messages that belong together become one turn; one lane a session, in order
//! 3. [`turn`]: session → prompt → agent loop, each step on disk before the next
//! 4. [`deliver`]: silence, then every part `pending → sending → sent`
//!
//! In plan mode the answer of a turn is a graph of tasks, which [`plan`] executes. [`approvals`] and [`start_subagent`] serve a
//! waiting turn, [`suspend`] ends one for a time; [`commands`] never reach the model; [`persist`] decides which failed write
//! is retried.

mod approvals;
mod audit_events;
mod commands;
mod deliver;
mod intake;
mod persist;
mod plan;
mod schedule;
mod skills;
mod start_subagent;
mod stickers;
mod suspend;
mod turn;

pub use commands::immediate::commands_for_owners;
use deliver::delivery::Outgoing;
pub use intake::channel_lines::Line;
pub use intake::http::Refusal;
use intake::jobs::Schedule;
pub use intake::jobs::{heartbeat, least_usd, waking};
pub use plan::rounds::carry_out;
use schedule::debounce::TurnInputs;
pub use schedule::scheduler::drive;
pub use turn::attachments::kept_files;

use persist::Recorded;
use schedule::slots::Handle;

use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::Agent;
use crate::channel::Channel;
use crate::config::{Config, FileDigests, Home};
use crate::control::replies;
use crate::control::replies::Reply;
use crate::media::Films;
use crate::memory::Memory;
use crate::message::{Address, Envelope, SessionKey};
use crate::queue::{Accepted, Suspended};
use crate::sandbox::Program;
use crate::workspace::PathPolicy;
use crate::{audit, db, people, prompt, queue, session, undo};

/// So many troubles are shown.
const TROUBLES: usize = 3;

/// Of troubles that a reload ends, if it does not find them again.
pub const SETTINGS: &str = "settings";

/// What the path keeps its records in.
pub struct Stores {
    /// `queue.db`.
    pub queue: queue::Store,
    /// The conversations.
    pub sessions: session::Store,
    /// What runs changed in files.
    pub undo: Arc<undo::Store>,
    /// What was done and who allowed it.
    pub audit: audit::Log,
    /// What the agent remembers.
    pub memory: Arc<Memory>,
}

/// What the path works with.
pub struct Services {
    /// What the system prompt is made of.
    pub prompt: Arc<prompt::Sources>,
    /// The channels, by name.
    pub channels: HashMap<String, Arc<dyn Channel>>,
    /// Notified when there is news for status and monitor that is not an event of a run.
    pub changed: Arc<Notify>,
    /// The settings and what is built from them.
    pub live: Live,
}

/// The path of a message, from its intake to its delivery.
pub struct Pipeline {
    queue: queue::Store,
    sessions: session::Store,
    /// Who may talk.
    people: people::Store,
    undo: Arc<undo::Store>,
    audit: audit::Log,
    memory: Arc<Memory>,
    prompt: Arc<prompt::Sources>,
    channels: HashMap<String, Arc<dyn Channel>>,
    /// Where answers to commands go.
    replies: PathBuf,
    /// Where files that came with messages lie.
    downloads: PathBuf,
    /// Where descriptions of files are kept.
    media_cache: PathBuf,
    /// `cost.db`, for `/cost`.
    cost_db: PathBuf,
    live: RwLock<Arc<Live>>,
    signals: mpsc::UnboundedSender<Signal>,
    /// What the scheduler takes, once.
    scheduled: Mutex<Option<mpsc::UnboundedReceiver<Signal>>>,
    /// The newest troubles, each with its time, below what they are of, the newest first; for status and monitor.
    troubles: Mutex<Vec<(String, String)>>,
    /// The newest input that was accepted: its row and when it was received.
    newest_input: Mutex<(i64, i64)>,
    /// When old rows were deleted from the queue last.
    pruned_at: AtomicI64,
    input_came: Notify,
    changed: Arc<Notify>,
    /// Albums of groups that are said to us, the newest last.
    albums: Mutex<Vec<String>>,
    /// Groups whose messages were refused, for the log.
    unknown_groups: Mutex<HashSet<String>>,
    /// Runs in progress by session.
    runs: Mutex<HashMap<SessionKey, Run>>,
    /// Turns that are suspended.
    waiting: Mutex<HashMap<SessionKey, Waiting>>,
    /// Notified when the owner has answered a request.
    decided: Notify,
    /// What is asked about skills at this moment.
    asking_skills: Mutex<HashSet<String>>,
    /// Notified when an input has ended.
    ended: Notify,
    /// Notified when there are tasks of a plan, or no longer.
    plan_news: Notify,
    /// Whether tasks of plans may be open.
    plans_open: AtomicBool,
    /// Whether places may continue in another conversation.
    continued: AtomicBool,
    /// By which settings and people it was last looked at whether they may.
    parted: Mutex<Option<(Arc<Live>, Arc<people::People>)>>,
    /// Notified when the daemon is to restart: something waits in the spool that only its start does.
    restart: Notify,
    schedule: Schedule,
    /// Parts that wait, a queue a chat.
    outgoing: Outgoing,
    /// What shows turns in chats, and takes back what it showed.
    previews: TaskTracker,
    /// What is said about turns that wait.
    notices: suspend::Notices,
    /// Since when what they wait for can be tried.
    awake: suspend::Awake,
    /// Notified when an answer file changed.
    answered: Notify,
    /// Notified when an answer file could not be written: it is to be written again from the queue.
    unwritten: Notify,
    /// The daemon is ending: no new input, no new turn.
    closing: CancellationToken,
    /// The daemon ends now: nothing is tried again, no new send begins.
    closed: CancellationToken,
}

/// The settings and what is built from them; replaced whole by a reload.
pub struct Live {
    /// The settings.
    pub config: Config,
    /// The files that they were read from.
    pub settings_files: FileDigests,
    /// The loop.
    pub agent: Agent,
    /// The program that puts recordings into words, when there is one.
    pub listener: Option<Program>,
    /// Where pictures are cut out of films.
    pub films: Films,
    /// Who speaks, when somebody does.
    pub speaker: Option<Arc<crate::tools::Speaker>>,
    /// Where file tools work, and an undo.
    pub path_policy: Arc<PathPolicy>,
    /// The receiver of the result of each message.
    pub callback: Option<crate::net::Callback>,
}

/// A run in progress.
#[derive(Debug, Clone)]
pub(crate) struct Run {
    /// The inputs it answers.
    pub inputs: TurnInputs,
    /// Ends it.
    pub cancel: CancellationToken,
    /// Whether it is ended by the same person's next message, and not permanently.
    pub interrupted: Arc<AtomicBool>,
    /// Whether its answer is on its way, and it only makes room for the next turn.
    pub answered: Arc<AtomicBool>,
    /// Its slot, which it lends while it waits.
    slot: Handle,
}

impl Run {
    fn new(inputs: TurnInputs, slot: Handle) -> Self {
        Self {
            inputs,
            slot,
            cancel: CancellationToken::new(),
            interrupted: Arc::new(AtomicBool::new(false)),
            answered: Arc::new(AtomicBool::new(false)),
        }
    }

    /// Returns true while it waits for an approval or a sub-agent.
    fn waits(&self) -> bool {
        self.slot.is_lent()
    }
}

/// A turn that is suspended, for status and monitor.
#[derive(Debug, Clone)]
pub struct Waiting {
    /// The session's key.
    pub session: SessionKey,
    /// The run.
    pub run_id: String,
    /// What it waits for.
    pub suspended: Suspended,
}

/// What the lanes are told.
#[derive(Debug)]
pub(crate) enum Signal {
    /// These inputs are in the queue now.
    Accepted(Vec<Accepted>),
    /// These turns were begun before the daemon last ended.
    Recovered(Vec<TurnInputs>),
    /// This turn goes on later.
    Suspended(TurnInputs),
    /// The turn of this session ended.
    Ended(SessionKey),
    /// A turn of this session that waits is to look now, because it was stopped or what it waits for changed.
    Wake(SessionKey),
    /// The settings changed: all that wait for more than a time are to look.
    Reloaded,
}

impl Pipeline {
    /// Returns the path of a message in `home`.
    pub fn new(home: &Home, stores: Stores, services: Services) -> Arc<Self> {
        let (signals, scheduled) = mpsc::unbounded_channel();
        let Stores {
            queue,
            sessions,
            undo,
            audit,
            memory,
        } = stores;
        let pipeline = Arc::new(Self {
            queue,
            sessions,
            people: people::Store::owning(&home.people()),
            undo,
            audit,
            memory,
            prompt: services.prompt,
            channels: services.channels,
            replies: home.replies(),
            downloads: home.downloads(),
            media_cache: home.media_cache(),
            cost_db: home.cost_db(),
            schedule: Schedule::new(&home.jobs(), home.job_runs(), &services.live.config),
            live: RwLock::new(Arc::new(services.live)),
            signals,
            scheduled: Mutex::new(Some(scheduled)),
            troubles: Mutex::default(),
            newest_input: Mutex::default(),
            pruned_at: AtomicI64::new(0),
            input_came: Notify::new(),
            changed: services.changed,
            albums: Mutex::default(),
            unknown_groups: Mutex::default(),
            runs: Mutex::default(),
            waiting: Mutex::default(),
            decided: Notify::new(),
            asking_skills: Mutex::default(),
            ended: Notify::new(),
            plan_news: Notify::new(),
            plans_open: AtomicBool::new(true),
            continued: AtomicBool::new(true),
            parted: Mutex::default(),
            restart: Notify::new(),
            outgoing: Outgoing::default(),
            previews: TaskTracker::new(),
            notices: suspend::Notices::default(),
            awake: suspend::Awake::new(),
            answered: Notify::new(),
            unwritten: Notify::new(),
            closing: CancellationToken::new(),
            closed: CancellationToken::new(),
        });
        pipeline.unlink_misled(&pipeline.live().config);
        let weak = Arc::downgrade(&pipeline);
        pipeline.audit.on_trouble(move |trouble| {
            if let Some(pipeline) = weak.upgrade() {
                pipeline.set_trouble("audit", trouble);
            }
        });
        pipeline
    }

    /// Resumes what was open when the daemon last ended: answers are sent, turns start.
    ///
    /// # Errors
    /// When the queue cannot be read.
    pub async fn start(self: &Arc<Self>) -> Result<(), db::Error> {
        let mut in_hand = Vec::new();
        for (name, channel) in &self.channels {
            let keys = tokio::task::block_in_place(|| channel.in_hand());
            let rows = keys.iter().filter_map(|key| queue::Part::of_key(key));
            in_hand.extend(rows.map(|(id, created_at)| (id, created_at, name.clone())));
        }
        let recovered = self.queue.recover(in_hand, crate::clock::now_ms()).await?;
        tracing::info!(
            inbox = recovered.inbox.len(),
            outbox = recovered.outbox.len(),
            version = env!("CARGO_PKG_VERSION"),
            "started"
        );
        *self.newest_input.lock() = recovered.newest;
        self.clear_shown().await;
        self.deliver(recovered.outbox);
        // A channel that is off today is not a reason to answer into nowhere: what came through it waits.
        let is_open = |row: &Accepted| {
            let route = row.envelope.route.as_ref();
            route.is_none_or(|route| self.channels.contains_key(route.channel.as_str()))
        };
        let (inbox, waiting): (Vec<_>, Vec<_>) = recovered.inbox.into_iter().partition(is_open);
        if !waiting.is_empty() {
            tracing::warn!(
                count = waiting.len(),
                "messages wait for a channel that is off"
            );
        }
        let (begun, rest) = TurnInputs::recovered(inbox);
        let _ = self.signals.send(Signal::Recovered(begun));
        let _ = self.signals.send(Signal::Accepted(rest));
        self.ask_about_skills(None);
        for loss in &recovered.unreadable {
            tracing::error!("{loss}");
            self.tell_loss(loss).await?;
        }
        Ok(())
    }

    /// Returns what is cancelled when the daemon ends: then there is no new input and no new turn.
    pub fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Ends what is being sent and shown: it may take `patience`, and once more as long to be recorded.
    pub async fn close(&self, patience: Duration) {
        // What the last turns said goes out now, if it can; else after the next start. A send that
        // is under way when the time is over gets a little more, to be known as sent.
        tokio::join!(self.sends_end(patience), self.previews_end(patience));
        self.closed.cancel();
        self.sends_end(patience).await;
        if let Err(error) = self.sessions.flush() {
            tracing::warn!(%error, "a snapshot could not be written; the transcript has everything");
        }
    }

    /// Waits until the daemon is to restart.
    pub async fn restart_requested(&self) {
        self.restart.notified().await;
    }

    /// Asks the daemon to restart, for what only its start does.
    pub fn request_restart(&self) {
        self.restart.notify_one();
    }

    /// Returns the conversations.
    pub fn sessions(&self) -> &session::Store {
        &self.sessions
    }

    /// Takes the conversation of an input out; it goes back with [`session::Store::put`].
    async fn take_session(&self, envelope: &Envelope) -> Recorded<session::Session> {
        let key = &envelope.session_key;
        self.persist("a session", || self.sessions.take(key, envelope.contact()))
            .await
    }

    /// Returns what is said to a command without words that names a conversation which is not there.
    fn names_no_session(&self, envelope: &Envelope) -> Option<String> {
        let key = &envelope.session_key;
        let names = envelope.wants_reply && envelope.text.is_empty();
        (names && !self.sessions.has(key)).then(|| format!("no session \"{key}\""))
    }

    /// Returns the queue.
    pub fn queue(&self) -> &queue::Store {
        &self.queue
    }

    /// Returns what the agent remembers.
    pub fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Returns what runs changed in files.
    pub fn undo(&self) -> &Arc<undo::Store> {
        &self.undo
    }

    /// Returns the channels, by name.
    pub fn channels(&self) -> &HashMap<String, Arc<dyn Channel>> {
        &self.channels
    }

    /// Returns the newest troubles, a line each, the newest first.
    pub fn last_troubles(&self) -> Option<String> {
        let troubles = self.troubles.lock();
        let lines: Vec<&str> = troubles.iter().map(|(_, line)| line.as_str()).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    /// Returns what is notified when an answer file changed.
    pub fn answered(&self) -> &Notify {
        &self.answered
    }

    /// Returns what is notified when an answer file could not be written.
    pub fn unwritten(&self) -> &Notify {
        &self.unwritten
    }

    /// Waits until a job was changed, or one of its runs ended.
    pub async fn job_news(&self) {
        self.schedule.news.notified().await;
    }

    /// Returns the owners: those of the settings and those who sent a code.
    pub fn owners(&self) -> Vec<Address> {
        // Nobody can be told here; who asks for something is answered with the error.
        let people = self.people.read().unwrap_or_default();
        people.owners(&self.live().config)
    }

    /// Returns the active settings.
    pub fn live(&self) -> Arc<Live> {
        self.live.read().clone()
    }

    /// Activates new settings; turns that run keep the old ones.
    pub fn reload(&self, live: Live) {
        self.unlink_misled(&live.config);
        live.agent.client().outages().retry_now();
        let zone = live.config.agent.timezone.0;
        let before = std::mem::replace(&mut *self.live.write(), Arc::new(live));
        if before.config.agent.timezone.0 != zone {
            self.note_other_zones(zone);
            self.schedule.news.notify_one();
        }
        let _ = self.signals.send(Signal::Reloaded);
        self.changed.notify_one();
    }

    fn unlink_misled(&self, config: &Config) {
        if let Err(error) = self.people.unlink_misled(config) {
            tracing::error!(%error, "cannot read the linked accounts");
        }
    }

    /// Returns the keys of the sessions in which a turn runs.
    pub fn running(&self) -> Vec<String> {
        self.runs().keys().map(|key| key.0.clone()).collect()
    }

    /// Returns the turns that are suspended, the oldest first.
    pub fn waiting(&self) -> Vec<Waiting> {
        let mut waiting: Vec<Waiting> = self.waiting.lock().values().cloned().collect();
        waiting.sort_by_key(|one| one.suspended.since);
        waiting
    }

    /// Returns the row of the newest input that was accepted and when it was received, milliseconds since 1970 UTC; zeros
    /// before the first.
    pub fn newest_input(&self) -> (i64, i64) {
        *self.newest_input.lock()
    }

    /// Forgets what is old in the queue at `now`, milliseconds since 1970 UTC.
    ///
    /// # Errors
    /// When the queue cannot be written.
    pub async fn prune(&self, now: i64) -> Result<(), db::Error> {
        // Noted before: who is killed in between has lost nothing.
        self.pruned_at.store(now, Ordering::Relaxed);
        self.queue.prune(now).await
    }

    /// Returns when this daemon deleted old rows from the queue last, milliseconds since 1970 UTC; 0 = not yet.
    pub fn pruned_at(&self) -> i64 {
        self.pruned_at.load(Ordering::Relaxed)
    }

    /// Notified when the newest input is another one.
    pub fn input_came(&self) -> &Notify {
        &self.input_came
    }

    fn note_newest(&self, row: &Accepted) {
        let mut newest = self.newest_input.lock();
        *newest = (*newest).max((row.seq, row.envelope.received_at));
        self.input_came.notify_one();
    }

    /// Notes what went wrong once, for status and monitor; the log has it too.
    pub fn note_trouble(&self, what: &str) {
        self.note_trouble_of("", what);
    }

    /// Notes a trouble of `part`, which continues until [`Self::end_troubles`].
    pub fn note_trouble_of(&self, part: &str, what: &str) {
        let what = crate::text::one_line(&crate::secret::redact(what));
        let line = format!("{} {what}", crate::clock::rfc3339(crate::clock::now_ms()));
        let mut troubles = self.troubles.lock();
        // What comes again and again must not hide what came once.
        troubles.retain(|(_, line)| line.split_once(' ').is_none_or(|(_, words)| words != what));
        troubles.insert(0, (part.to_owned(), line));
        troubles.truncate(TROUBLES);
        drop(troubles);
        self.changed.notify_one();
    }

    /// Notes how `part` is now: its trouble instead of those before, or none.
    pub fn set_trouble(&self, part: &str, what: Option<&str>) {
        self.end_troubles(part);
        if let Some(what) = what {
            self.note_trouble_of(part, what);
        }
    }

    /// Forgets the troubles of `part`: it is well again.
    pub fn end_troubles(&self, part: &str) {
        let mut troubles = self.troubles.lock();
        let before = troubles.len();
        troubles.retain(|(of, _)| of != part);
        if troubles.len() < before {
            self.changed.notify_one();
        }
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<SessionKey, Run>> {
        self.runs.lock()
    }

    /// Writes an answer file. The queue has the answer too, so after a failure it is written from there.
    fn answer(&self, reply: &Reply) {
        match replies::write(&self.replies, reply) {
            Ok(()) => self.end_troubles("answer files"),
            Err(error) => {
                tracing::error!(%error, "an answer file could not be written");
                self.note_trouble_of("answer files", &error.to_string());
                self.unwritten.notify_one();
            }
        }
        self.answered.notify_waiters();
    }
}

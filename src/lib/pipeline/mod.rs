//! The path of a message, one step a file, in this order:
//!
//! 1. [`intake`]: dedupe and access, one transaction; only now is the sender's side told
//! 2. [`gather`]: messages that belong together become one turn
//! 3. [`lanes`]: one lane a session, in order; lanes run side by side, fair and bounded
//! 4. [`turn`]: session → context → agent loop, each step on the disk before the next
//! 5. [`deliver`]: silence, then every part `pending → sending → sent`
//!
//! [`subagents`] are sent by a turn and answer to it. [`jobs`] makes what is done at its times an input like any other. [`progress`] shows a turn in its chat while it runs.
//! [`fresh`] is the conversation that a turn goes on with; [`between`] is what happens in a lane beside turns; [`commands`] answers what never goes to the model; [`undoing`] takes back what a run changed in files, [`forgetting`] lets facts and people count no more; [`orders`] is the intake of the shell, [`requests`] that of the HTTP API; [`alerts`] tells the owner what the limits leave.

mod approvals;
mod audit_events;
mod commands;
mod deliver;
mod intake;
mod persist;
mod schedule;
mod subagents;
mod turn;

pub use deliver::delivery::Outgoing;
pub use intake::http::Refusal;
pub use intake::jobs::{Schedule, heartbeat, waking};
pub use schedule::debounce::Bundle;
pub use schedule::scheduler::drive;
pub use turn::transcribe::Listener;

use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::agent::Agent;
use crate::channel::Channel;
use crate::config::Config;
use crate::control::replies;
use crate::control::replies::Reply;
use crate::memory::Memory;
use crate::message::SessionKey;
use crate::queue::Accepted;
use crate::workspace::PathPolicy;
use crate::{audit, people, prompt, queue, session, undo};

/// Everything the path needs; the daemon puts it together.
pub struct Pipeline {
    /// `queue.db`.
    pub queue: queue::Store,
    /// The conversations.
    pub sessions: session::Store,
    /// Who may talk.
    pub people: people::Store,
    /// What runs changed in files.
    pub undo: Arc<undo::Store>,
    /// What was done and who allowed it.
    pub audit: audit::Log,
    /// What the agent remembers.
    pub memory: Arc<Memory>,
    /// What the system text is made of.
    pub context: Arc<prompt::Sources>,
    /// The doors, by name.
    pub channels: HashMap<&'static str, Arc<dyn Channel>>,
    /// Where answers to commands go.
    pub replies: PathBuf,
    /// Where files that came with messages lie.
    pub downloads: PathBuf,
    /// `cost.db`, for `/cost`.
    pub cost_db: PathBuf,
    /// What can change while we run.
    pub live: RwLock<Arc<Live>>,
    /// What the lanes are told.
    pub signals: mpsc::UnboundedSender<Signal>,
    /// The newest trouble, for status and monitor.
    pub trouble: Mutex<Option<String>>,
    /// Told when there is news for status and monitor that is no event of a run.
    pub changed: Arc<Notify>,
    /// Albums of groups that are said to us, the newest last.
    pub albums: Mutex<Vec<String>>,
    /// Groups whose messages were refused, for the log.
    pub unknown_groups: Mutex<HashSet<String>>,
    /// Runs in progress by session.
    pub runs: Mutex<HashMap<SessionKey, Run>>,
    /// Turns that wait for the owner's word.
    pub parked: Mutex<HashSet<SessionKey>>,
    /// Told when the owner has said a word.
    pub decided: Notify,
    /// Told when an input has ended.
    pub ended: Notify,
    /// Told when the daemon is to begin anew: something waits in the spool that only its start does.
    pub anew: Notify,
    /// What is done at its times.
    pub schedule: Schedule,
    /// Parts that wait, a queue a chat.
    pub outgoing: Outgoing,
    /// What shows turns in chats, and takes back what it showed.
    pub previews: TaskTracker,
    /// Told when an answer got further.
    pub answered: Notify,
    /// Told when an answer file could not be written: it is to be written again from the queue.
    pub unwritten: Notify,
    /// The daemon is ending: no new input, no new turn.
    pub closing: CancellationToken,
    /// The daemon ends now: nothing is tried again, no new send begins.
    pub closed: CancellationToken,
}

/// The settings and what is built from them; replaced whole by a reload.
pub struct Live {
    /// The settings.
    pub config: Config,
    /// The loop.
    pub agent: Agent,
    /// The program that puts recordings into words, when there is one.
    pub listener: Option<Listener>,
    /// Where file tools work, and an undo.
    pub path_policy: Arc<PathPolicy>,
}

/// A run in progress.
#[derive(Debug, Clone)]
pub struct Run {
    /// The inputs it answers.
    pub bundle: Bundle,
    /// Ends it.
    pub cancel: CancellationToken,
    /// Whether it is ended by the same person's next message, and not for good.
    pub interrupted: Arc<AtomicBool>,
    /// Whether its answer is on its way, and it only makes room for the next turn.
    pub answered: Arc<AtomicBool>,
}

impl Run {
    fn new(bundle: Bundle) -> Self {
        Self {
            bundle,
            cancel: CancellationToken::new(),
            interrupted: Arc::new(AtomicBool::new(false)),
            answered: Arc::new(AtomicBool::new(false)),
        }
    }
}

/// What the lanes are told.
#[derive(Debug)]
pub enum Signal {
    /// These inputs are in the queue now.
    Accepted(Vec<Accepted>),
    /// These turns were begun before the daemon last ended.
    Recovered(Vec<Bundle>),
    /// The turn of this session ended.
    Ended(SessionKey),
    /// The turn of this session waits for its owner's word, and leaves its place to others.
    Parked(SessionKey),
    /// It goes on as soon as there is a place.
    Returning(SessionKey, oneshot::Sender<()>),
}

impl Pipeline {
    /// Returns the settings in force.
    pub fn live(&self) -> Arc<Live> {
        self.live.read().clone()
    }

    /// Puts new settings in force; turns that run keep the old ones.
    pub fn reload(&self, live: Live) {
        *self.live.write() = Arc::new(live);
    }

    /// Returns the keys of the sessions in which a turn runs.
    pub fn running(&self) -> Vec<String> {
        self.runs().keys().map(|key| key.0.clone()).collect()
    }

    /// Goes on with the inputs that were open when the daemon last ended.
    pub fn resume(&self, inbox: Vec<Accepted>) {
        let (begun, rest) = Bundle::recovered(inbox);
        let _ = self.signals.send(Signal::Recovered(begun));
        let _ = self.signals.send(Signal::Accepted(rest));
    }

    /// Notes a trouble for status and monitor; the log has it too.
    pub fn note_trouble(&self, what: &str) {
        let text = format!("{} {what}", crate::clock::rfc3339(crate::clock::now_ms()));
        *self.trouble.lock() = Some(crate::secret::redact(&text));
        self.changed.notify_one();
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<SessionKey, Run>> {
        self.runs.lock()
    }

    /// Writes an answer file. The queue has the answer too, so after a failure it is written from there.
    fn answer(&self, reply: &Reply) {
        if let Err(error) = replies::write(&self.replies, reply) {
            tracing::error!(%error, "an answer file could not be written");
            self.note_trouble(&error.to_string());
            self.unwritten.notify_one();
        }
        self.answered.notify_waiters();
    }
}

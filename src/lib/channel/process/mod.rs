//! A channel that is a separate process, in any language: it communicates with the daemon through the files of one directory.
//!
//! A message to be sent is a file in `out/`. The process claims it by renaming it into `sending/`, sends it, and reports the
//! result with a line in the spool. `queue.db` has the record; after the death of either process the files show what may
//! have been sent. A message in `out/` certainly was not.

mod capabilities;
mod events;
mod layout;
mod outgoing_files;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nix::fcntl::{Flock, FlockArg};
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

pub use capabilities::{Capabilities, Unit};
pub use layout::Layout;

use super::{Channel, Health, Outgoing, Rendered, SendError, SendFuture};
use crate::clock;
use crate::control::Outcome;
use crate::message::{ChatRef, OutFile};
use crate::provider::BoxFuture;
use crate::sys;
use crate::sys::lock;
use outgoing_files::{Message, Place};

/// Between looks at a message that is being sent: at first, and later.
const LOOK: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(5));
/// A process without a lock is gone when it claimed a message this long ago and said nothing.
const GONE: Duration = Duration::from_secs(30);
/// One that holds its lock hangs then.
const HANGS: Duration = Duration::from_secs(600);
/// A notice of no row is waited for so long, and then withdrawn.
const NOTICE: Duration = Duration::from_secs(60);
/// A message that nobody claimed for so long is a sign that nobody is there.
const UNCLAIMED: Duration = Duration::from_secs(60);
/// Who was heard so long ago is there, milliseconds.
const HEARD_MS: i64 = 60_000;
/// Outcomes that are kept for messages which are not being sent yet.
const MAX_EARLY: usize = 10_000;

/// The channel.
pub struct Process {
    name: String,
    layout: Layout,
    capabilities: Mutex<Known>,
    /// Who waits for the outcome of a message.
    waiting: Mutex<HashMap<String, oneshot::Sender<Outcome>>>,
    /// Outcomes of messages that nobody waits for yet.
    early: Mutex<HashMap<String, Outcome>>,
    /// When something was last sent, or came in, milliseconds since 1970 UTC.
    last: Mutex<(Option<i64>, Option<i64>)>,
    changed: Arc<Notify>,
}

/// What is known of `channel.json`.
#[derive(Default)]
struct Known {
    /// The file that was read: when it was changed, which it was, and its length: it may grow within one tick of the clock.
    version: Option<sys::Version>,
    capabilities: Capabilities,
    /// What is wrong with it.
    fault: Option<String>,
}

impl Process {
    /// Returns the channel `name` whose directory is `root`; `changed` is notified when its health changes. Directories that
    /// cannot be made are told in its health: one channel does not keep the others from starting.
    pub fn new(name: &str, root: PathBuf, changed: Arc<Notify>) -> Self {
        let layout = Layout::new(root);
        if let Err(error) = layout.create() {
            tracing::error!(%error, channel = name, "the channel does not work until this is repaired");
        }
        if let Err(error) = events::make(&layout.events()) {
            tracing::warn!(%error, channel = name, "cannot open the event FIFO; the channel process receives no events");
        }
        Self {
            name: name.to_owned(),
            layout,
            capabilities: Mutex::default(),
            waiting: Mutex::default(),
            early: Mutex::default(),
            last: Mutex::default(),
            changed,
        }
    }

    /// Returns its capabilities, as its process declared them last.
    pub fn capabilities(&self) -> Capabilities {
        let path = self.layout.capabilities();
        let version = std::fs::symlink_metadata(&path)
            .ok()
            .map(|meta| sys::Version::of(&meta));
        let mut known = self.capabilities.lock();
        if known.version == version {
            return known.capabilities.clone();
        }
        let read = sys::read_foreign(&path, capabilities::MAX_FILE);
        let parsed = match read {
            Ok(None) => Ok(Capabilities::default()),
            Ok(Some(bytes)) => Capabilities::parse(&bytes),
            Err(error) => Err(error.to_string()),
        };
        known.version = version;
        known.fault = match &parsed {
            Ok(read) => read.fault().map(|why| format!("channel.json: {why}")),
            Err(why) => Some(format!("channel.json is not understood: {why}")),
        };
        if let Some(fault) = &known.fault {
            tracing::warn!(channel = self.name, "{fault}");
        }
        known.capabilities = parsed.unwrap_or_default();
        known.capabilities.clone()
    }

    /// Returns true while a process holds the lock of the channel.
    pub fn is_held(&self) -> bool {
        is_held(&self.layout)
    }

    /// Gives the message to the process and waits for what becomes of it.
    async fn deliver(&self, message: Message<'_>) -> Result<String, SendError> {
        let key = message.key.to_owned();
        let (tell, told) = oneshot::channel();
        self.waiting.lock().insert(key.clone(), tell);
        let _forget = Forget(self, &key);
        if let Some(outcome) = self.early.lock().remove(&key) {
            outgoing_files::clear(&self.layout, &key);
            return result(outcome);
        }
        tokio::task::block_in_place(|| outgoing_files::offer(&self.layout, &message))?;
        let outcome = tokio::select! {
            told = told => match told {
                Ok(outcome) => outcome,
                // Another send of the same message took its place, and its files.
                Err(_) => {
                    let already = "it is being sent already".to_owned();
                    return result(Outcome::Again(already, LOOK.1));
                }
            },
            lost = self.watch(&key, message.is_notice) => lost,
        };
        outgoing_files::clear(&self.layout, &key);
        if matches!(outcome, Outcome::Arrived(_)) {
            self.last.lock().0 = Some(clock::now_ms());
        }
        self.changed.notify_one();
        result(outcome)
    }

    /// Looks after a message until it is clear that nobody will say what became of it.
    async fn watch(&self, key: &str, is_notice: bool) -> Outcome {
        let mut pause = LOOK.0;
        let mut waited = Duration::ZERO;
        let mut missing = Duration::ZERO;
        loop {
            tokio::time::sleep(pause).await;
            waited += pause;
            let layout = self.layout.clone();
            let look = {
                let key = key.to_owned();
                move || (outgoing_files::place(&layout, &key), is_held(&layout))
            };
            let (place, is_held) = crate::sys::blocking(look).await;
            missing = if place == Place::Nowhere {
                missing + pause
            } else {
                Duration::ZERO
            };
            match place {
                Place::Out
                    if is_notice
                        && waited > NOTICE
                        && outgoing_files::withdraw(&self.layout, key) =>
                {
                    return Outcome::Never("nobody took it".to_owned());
                }
                Place::Out => {}
                Place::Sending(since) if is_held && since > HANGS => {
                    return Outcome::Unknown(
                        "the process claimed it ten minutes ago and has reported nothing"
                            .to_owned(),
                    );
                }
                Place::Sending(since) if !is_held && since > GONE => {
                    return Outcome::Unknown("the process ended while it was sending".to_owned());
                }
                Place::Nowhere if missing > GONE => {
                    return Outcome::Unknown(
                        "the process claimed it and has reported nothing".to_owned(),
                    );
                }
                Place::Sending(_) | Place::Nowhere => {}
            }
            pause = (pause * 2).min(LOOK.1);
        }
    }
}

/// Forgets who waits for an outcome, however the waiting ends.
struct Forget<'a>(&'a Process, &'a str);

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        let mut waiting = self.0.waiting.lock();
        if waiting.get(self.1).is_some_and(oneshot::Sender::is_closed) {
            waiting.remove(self.1);
        }
    }
}

fn result(outcome: Outcome) -> Result<String, SendError> {
    match outcome {
        Outcome::Arrived(id) => Ok(id),
        Outcome::Again(reason, after) => Err(SendError::NotSent {
            reason,
            retry_after: Some(after),
        }),
        Outcome::Unknown(reason) => Err(SendError::Unknown(reason)),
        Outcome::Never(reason) => Err(SendError::Never {
            reason,
            chat_is_there: true,
        }),
    }
}

/// Returns true while a process holds the lock: by flock(2), as flock(1) takes it, or by fcntl(2).
pub fn is_held(layout: &Layout) -> bool {
    let path = layout.lock();
    if lock::holder(&path).is_ok_and(|holder| holder.is_some()) {
        return true;
    }
    let options = || {
        use std::os::unix::fs::OpenOptionsExt;
        let flags = nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK;
        std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&path)
    };
    let Ok(file) = options() else {
        return false;
    };
    // Given back at once; who wants the lock waits for it.
    matches!(
        Flock::lock(file, FlockArg::LockSharedNonblock),
        Err((_, nix::errno::Errno::EWOULDBLOCK))
    )
}

impl Channel for Process {
    fn name(&self) -> &str {
        &self.name
    }

    fn render(&self, markdown: &str) -> Vec<Rendered> {
        self.capabilities().render(markdown)
    }

    fn plain(&self, text: &str) -> Vec<Rendered> {
        self.capabilities().plain(text)
    }

    fn caption(&self, text: &str) -> Option<Rendered> {
        let mut parts = self.plain(text).into_iter();
        parts.next().filter(|_| parts.next().is_none())
    }

    fn takes_files(&self) -> bool {
        self.capabilities().files
    }

    fn albums(&self, files: Vec<OutFile>) -> Vec<Vec<OutFile>> {
        if files.is_empty() {
            Vec::new()
        } else {
            vec![files]
        }
    }

    fn send<'a>(&'a self, message: Outgoing<'a>) -> SendFuture<'a, String> {
        let can = self.capabilities();
        let unable = |what: &str| {
            let reason = format!("the channel {} {what}", self.name);
            Box::pin(std::future::ready(Err(SendError::Never {
                reason,
                chat_is_there: message.reaction.is_none(),
            })))
        };
        if !message.files.is_empty() && !can.files {
            return unable("takes no files");
        }
        if message.reaction.is_some() && !can.reactions {
            return unable("has no reactions");
        }
        Box::pin(async move {
            let own = format!("n-{}", uuid::Uuid::now_v7().simple());
            let is_notice = message.key.is_empty();
            let message = Message {
                key: if is_notice { &own } else { message.key },
                is_notice,
                buttons: if can.buttons { message.buttons } else { &[] },
                edit_of: None,
                outgoing: message,
            };
            self.deliver(message).await
        })
    }

    fn mark<'a>(&'a self, chat: &'a ChatRef, message: &'a str, emoji: &'a str) -> SendFuture<'a> {
        let event = serde_json::json!({"event": "mark", "chat": chat.chat, "thread": chat.topic, "message_id": message, "emoji": emoji});
        events::tell(&self.layout.events(), &event)
    }

    fn show<'a>(&'a self, chat: &'a ChatRef, text: &'a str) -> SendFuture<'a, String> {
        let id = uuid::Uuid::now_v7().simple().to_string();
        let told = self.preview(chat, &id, Some(text));
        Box::pin(async move { told.await.map(|()| id) })
    }

    fn change<'a>(&'a self, chat: &'a ChatRef, id: &'a str, text: &'a str) -> SendFuture<'a> {
        self.preview(chat, id, Some(text))
    }

    fn remove<'a>(&'a self, chat: &'a ChatRef, id: &'a str) -> SendFuture<'a> {
        self.preview(chat, id, None)
    }

    fn close<'a>(&'a self, chat: &'a ChatRef, message: &'a str, text: &'a str) -> SendFuture<'a> {
        if !self.capabilities().edits {
            return super::unable();
        }
        let key = format!("n-{}", uuid::Uuid::now_v7().simple());
        let offered = outgoing_files::offer(
            &self.layout,
            &Message {
                key: &key,
                is_notice: true,
                buttons: &[],
                edit_of: Some(message),
                outgoing: Outgoing {
                    key: &key,
                    chat,
                    reply_to: None,
                    markup: None,
                    plain: text,
                    files: &[],
                    reaction: None,
                    buttons: &[],
                    resent: false,
                },
            },
        );
        let done = offered.map_err(|error| SendError::NotSent {
            reason: error.to_string(),
            retry_after: None,
        });
        Box::pin(std::future::ready(done))
    }

    fn typing<'a>(&'a self, chat: &'a ChatRef) -> SendFuture<'a> {
        let event = serde_json::json!({"event": "typing", "chat": chat.chat, "thread": chat.topic});
        events::tell(&self.layout.events(), &event)
    }

    fn heard(&self) {
        self.last.lock().1 = Some(clock::now_ms());
        self.changed.notify_one();
    }

    fn read(&self, chat: &ChatRef, message: &str) {
        let event = serde_json::json!({"event": "read", "chat": chat.chat, "thread": chat.topic, "message_id": message});
        // Anyone who wants to know reads along.
        drop(events::write(&self.layout.events(), &event));
    }

    fn health(&self) -> Health {
        let (sent, heard) = *self.last.lock();
        let state = self.state();
        // Where nothing waits, silence is not trouble: it is well at this look.
        let last_ok_at = if state == "ok" {
            Some(clock::now_ms())
        } else {
            sent.max(heard)
        };
        Health {
            state,
            mode: "",
            last_ok_at,
            last_update_at: heard,
        }
    }

    fn outlives_us(&self) -> bool {
        true
    }

    fn in_hand(&self) -> Vec<String> {
        outgoing_files::reconcile(&self.layout)
    }

    fn acknowledge(&self, key: &str, outcome: Outcome) {
        let is_doubt = matches!(outcome, Outcome::Unknown(_));
        if is_doubt && !matches!(outgoing_files::place(&self.layout, key), Place::Sending(_)) {
            // A process that crashes repeatedly may report the same attempt several times.
            return;
        }
        outgoing_files::clear(&self.layout, key);
        if let Some(waiter) = self.waiting.lock().remove(key) {
            // Who waited is gone when the daemon ends.
            drop(waiter.send(outcome));
            return;
        }
        let mut early = self.early.lock();
        if early.len() < MAX_EARLY && !key.starts_with("n-") {
            early.insert(key.to_owned(), outcome);
        }
    }
}

impl Process {
    fn preview<'a>(&self, chat: &ChatRef, id: &str, text: Option<&str>) -> SendFuture<'a> {
        let event = |text: Option<&str>| serde_json::json!({"event": "preview", "chat": chat.chat, "thread": chat.topic, "id": id, "text": text});
        events::tell(&self.layout.events(), &event(text.map(events::fit)))
    }

    /// Returns `ok`, or what is wrong.
    fn state(&self) -> String {
        // It may have changed since a message was last sent.
        if let Some(problem) = self.capabilities().problem {
            return format!("its process says: {problem}");
        }
        if let Some(fault) = self.capabilities.lock().fault.clone() {
            return fault;
        }
        if !self.layout.is_whole() {
            return "its directory is damaged: out/, sending/, files/, replies/ or spool/new/ is no directory".to_owned();
        }
        let (count, oldest) = outgoing_files::unclaimed(&self.layout);
        let messages = crate::text::counted(count, "message");
        let waits = format!("{messages} not claimed for {} s", oldest.as_secs());
        match (self.is_held(), oldest > UNCLAIMED) {
            (true, false) => "ok".to_owned(),
            (true, true) => format!("its process hangs: {waits}"),
            (false, true) => format!("not running: {waits}"),
            // One that forgets the lock is known by what comes from it.
            (false, false) if self.was_heard() => "ok".to_owned(),
            (false, false) => "not running".to_owned(),
        }
    }

    /// Returns true when something came from the process a moment ago.
    fn was_heard(&self) -> bool {
        let (sent, heard) = *self.last.lock();
        let last = sent.max(heard);
        last.is_some_and(|at| clock::now_ms() - at <= HEARD_MS)
    }
}

/// What a call of a channel comes to.
type Told<'a> = BoxFuture<'a, Result<(), SendError>>;

#[cfg(test)]
mod tests;

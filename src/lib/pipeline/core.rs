//! What all steps of the path share: the queue, the people, the channels, the settings in force, and how it ends.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::Live;
use crate::channel::Channel;
use crate::control::replies;
use crate::control::replies::Reply;
use crate::{audit, people, queue};

/// What all steps of the path share.
pub struct Core {
    pub(super) queue: queue::Store,
    /// Who may talk.
    pub(super) people: people::Store,
    pub(super) audit: audit::Log,
    pub(super) channels: HashMap<&'static str, Arc<dyn Channel>>,
    /// Where answers to commands go.
    pub(super) replies: PathBuf,
    /// Where files that came with messages lie.
    pub(super) downloads: PathBuf,
    pub(super) live: RwLock<Arc<Live>>,
    /// The newest trouble, for status and monitor.
    pub(super) trouble: Mutex<Option<String>>,
    pub(super) changed: Arc<Notify>,
    /// Notified when an answer file changed.
    pub(super) answered: Notify,
    /// Notified when an answer file could not be written: it is to be written again from the queue.
    pub(super) unwritten: Notify,
    /// The daemon is ending: no new input, no new turn.
    pub(super) closing: CancellationToken,
    /// The daemon ends now: nothing is tried again, no new send begins.
    pub(super) closed: CancellationToken,
}

impl Core {
    /// Returns what is cancelled when the daemon ends: then there is no new input and no new turn.
    pub fn closing(&self) -> &CancellationToken {
        &self.closing
    }

    /// Returns the queue.
    pub fn queue(&self) -> &queue::Store {
        &self.queue
    }

    /// Returns the channels, by name.
    pub fn channels(&self) -> &HashMap<&'static str, Arc<dyn Channel>> {
        &self.channels
    }

    /// Returns the newest trouble.
    pub fn last_trouble(&self) -> Option<String> {
        self.trouble.lock().clone()
    }

    /// Returns what is notified when an answer file changed.
    pub fn answered(&self) -> &Notify {
        &self.answered
    }

    /// Returns what is notified when an answer file could not be written.
    pub fn unwritten(&self) -> &Notify {
        &self.unwritten
    }

    /// Returns the numeric ids of the owners: those of the settings and those who sent the owner code.
    pub fn owners(&self) -> Vec<i64> {
        let mut owners = self.live().config.telegram.owners().to_vec();
        // Nobody can be told here; who asks for something is answered with the error.
        let people = self.people.read().unwrap_or_default();
        owners.extend(people.owners.iter().map(|person| person.id));
        owners.sort_unstable();
        owners.dedup();
        owners
    }

    /// Returns the settings in force.
    pub fn live(&self) -> Arc<Live> {
        self.live.read().clone()
    }

    /// Puts new settings in force; turns that run keep the old ones.
    pub fn reload(&self, live: Live) {
        *self.live.write() = Arc::new(live);
    }

    /// Notes a trouble for status and monitor; the log has it too.
    pub fn note_trouble(&self, what: &str) {
        let text = format!("{} {what}", crate::clock::rfc3339(crate::clock::now_ms()));
        *self.trouble.lock() = Some(crate::secret::redact(&text));
        self.changed.notify_one();
    }

    /// Writes an answer file. The queue has the answer too, so after a failure it is written from there.
    pub(super) fn answer(&self, reply: &Reply) {
        if let Err(error) = replies::write(&self.replies, reply) {
            tracing::error!(%error, "an answer file could not be written");
            self.note_trouble(&error.to_string());
            self.unwritten.notify_one();
        }
        self.answered.notify_waiters();
    }
}

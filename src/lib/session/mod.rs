//! Conversations: append-only transcripts, the states derived from them, and the keys of sessions.
//!
//! ```text
//! sessions/<sid>.<YYYY-MM-DD>[.N].jsonl   authoritative: one event a line, fsynced in groups
//! sessions/<sid>.state.json               snapshot with `last_seq`; the tail is replayed on it
//! sessions/sessions.json                  key → session; rebuilt from the transcripts' heads
//! sessions/archive/                       what was reset, never deleted
//! ```
//!
//! A turn takes its [`Session`] out of the [`Store`] and puts it back: one lane, one owner, no
//! lock held while anything waits. A turn that panics loses only the copy in memory.

mod answer_text;
mod declined;
mod event;
mod expiry;
mod index;
mod log_rotation;
mod prompt_trace;
mod shorten_results;
mod snapshot;
mod state;
mod transcript;
mod untrusted;
mod view;

pub use answer_text::said;
pub use event::{Compaction, Event, Head, Kind, Spoken, SummaryBy};
pub use expiry::Over;
pub use index::{Entry as IndexEntry, Index};
pub use prompt_trace::{Prompt, PromptBlock, PromptTier, Recollection};
pub use snapshot::{Shortened, shortened};
pub use state::{Compacted, Entry, Heard, Position, Resume, SUMMARY_HEAD, State, Turn, cut_blocks};
pub use transcript::{Session, session_of, view};
pub use untrusted::{Exposure, addresses, names_address};
pub use view::{
    Gone, Listed, all_transcripts, archived, gone, head, heads, listing, transcript_files,
};

use parking_lot::{Mutex, MutexGuard};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Instant;

use chrono_tz::Tz;

use crate::clock;
use crate::message::SessionKey;
use crate::people::People;
use crate::sys;
use crate::sys::atomic;

/// Sessions kept in memory between turns.
const KEPT: usize = 64;
/// Between two writes of the index lies this many times as long as the last one took: it grows with every session there
/// ever was, and takes a fiftieth of a core at most.
const INDEX_PAUSE: u32 = 50;

/// All sessions of one agent, for the one process that owns them.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    archive: PathBuf,
    index_file: PathBuf,
    zone: Mutex<Tz>,
    inner: Mutex<Inner>,
    changed: tokio::sync::Notify,
}

#[derive(Debug, Default)]
struct Inner {
    index: Index,
    /// Sessions at rest by id, with the time of their last use.
    resting: BTreeMap<String, (u64, Session)>,
    /// How many files each session has, by id, whose newest file the index names: then they are known by name, and the
    /// directory of all sessions is not read. A session that a turn has is not among them until it is back.
    files: HashMap<String, usize>,
    uses: u64,
    index_dirty: bool,
    /// When the index may be written again.
    index_due: Option<Instant>,
}

impl Inner {
    /// Returns what is known of the files of the session `id` of `key`.
    fn known(&self, key: &SessionKey, id: &str) -> Option<transcript::Known> {
        self.index.known(&key.0, *self.files.get(id)?)
    }
}

impl Store {
    /// Opens the directory: reads `sessions.json` and makes it agree with the transcripts that
    /// are there.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn open(
        dir: PathBuf,
        archive: PathBuf,
        index_file: PathBuf,
        zone: Tz,
    ) -> Result<Self, sys::Error> {
        let mut index: Index = atomic::read_json(&index_file)?.unwrap_or_default();
        let all = transcript::all_files(&dir)?;
        let index_dirty = index.reconcile(&dir, &all)?;
        let files = index.counts(&all);
        Ok(Self {
            dir,
            archive,
            index_file,
            zone: Mutex::new(zone),
            inner: Mutex::new(Inner {
                index,
                files,
                index_dirty,
                ..Inner::default()
            }),
            changed: tokio::sync::Notify::new(),
        })
    }

    /// Names the files of transcripts by the dates of `zone` from now on.
    pub fn set_zone(&self, zone: Tz) {
        *self.zone.lock() = zone;
    }

    /// Takes the session of `key` out, beginning one when there is none.
    ///
    /// # Errors
    /// When its files cannot be read.
    pub async fn take(&self, key: &SessionKey, contact: &str) -> Result<Session, sys::Error> {
        let known = {
            let mut inner = self.lock();
            match inner.index.head_of(&key.0) {
                Some(head) => {
                    let files = inner.known(key, &head.session_id);
                    inner.files.remove(&head.session_id);
                    match inner.resting.remove(&head.session_id) {
                        Some((_, session)) => return Ok(session.in_zone(*self.zone.lock())),
                        None => Some((head, files)),
                    }
                }
                None => None,
            }
        };
        if let Some((head, files)) = known {
            let (dir, zone) = (self.dir.clone(), *self.zone.lock());
            let load = move || {
                let id = head.session_id.clone();
                Session::load(&dir, zone, &id, files.as_ref(), Some(head))
            };
            let loaded = crate::sys::blocking(load).await;
            if let Some(session) = loaded? {
                return Ok(session);
            }
        }
        let head = Head {
            session_id: uuid::Uuid::now_v7().to_string(),
            key: key.0.clone(),
            contact: contact.to_owned(),
            created_at: clock::rfc3339(clock::now_ms()),
        };
        Ok(Session::begin(&self.dir, *self.zone.lock(), head))
    }

    /// Puts a session back after its turn.
    pub fn put(&self, session: Session) {
        if session.state().last_seq == 0 {
            return;
        }
        let mut inner = self.lock();
        inner.index.update(&session);
        let count = session.files().len();
        inner.files.insert(session.id().to_owned(), count);
        inner.index_dirty = true;
        inner.uses += 1;
        let use_number = inner.uses;
        inner
            .resting
            .insert(session.id().to_owned(), (use_number, session));
        drop(inner);
        self.changed.notify_one();
    }

    /// Waits until a session was put back since the last call: then [`Store::flush`] has work.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// Writes the snapshots and the index that are behind, and forgets the sessions longest at
    /// rest. Blocking. What could not be written stays behind and is written the next time.
    ///
    /// # Errors
    /// The first failure; the transcripts still have everything.
    pub fn flush(&self) -> Result<(), sys::Error> {
        self.lock().index_due = None;
        self.flush_at_leisure()
    }

    /// Does [`Store::flush`], except for an index that is large and was written just now: its turn comes, and
    /// [`Store::changed`] returns until then.
    ///
    /// # Errors
    /// As [`Store::flush`].
    pub fn flush_at_leisure(&self) -> Result<(), sys::Error> {
        let snapshots = self.write_snapshots();
        snapshots.and(self.write_index())
    }

    fn write_snapshots(&self) -> Result<(), sys::Error> {
        let mut result = Ok(());
        let behind: Vec<String> = {
            let inner = self.lock();
            inner
                .resting
                .iter()
                .filter(|(_, (_, session))| session.is_behind())
                .map(|(id, _)| id.clone())
                .collect()
        };
        for id in behind {
            // One at a time, so that no turn waits for more than one.
            let snapshot = self
                .lock()
                .resting
                .get(&id)
                .map(|(_, session)| session.snapshot());
            let Some((path, bytes, seq)) = snapshot else {
                continue;
            };
            match atomic::write(&path, &bytes, atomic::Durability::Rename) {
                Ok(()) => {
                    if let Some((_, session)) = self.lock().resting.get_mut(&id) {
                        session.saved(seq);
                    }
                }
                Err(error) => result = result.and(Err(error)),
            }
        }
        let mut inner = self.lock();
        while inner.resting.len() > KEPT {
            let Some(oldest) = inner
                .resting
                .iter()
                .min_by_key(|(_, (used, _))| *used)
                .map(|(id, _)| id.clone())
            else {
                break;
            };
            inner.resting.remove(&oldest);
        }
        result
    }

    fn write_index(&self) -> Result<(), sys::Error> {
        let began = Instant::now();
        // A copy: nobody waits for the lock while it is turned into text.
        let index = {
            let mut inner = self.lock();
            if !inner.index_dirty {
                return Ok(());
            }
            if inner.index_due.is_some_and(|due| began < due) {
                self.changed.notify_one();
                return Ok(());
            }
            inner.index_dirty = false;
            inner.index.clone()
        };
        let text = index.to_json();
        let written = atomic::write(&self.index_file, &text, atomic::Durability::Rename);
        let mut inner = self.lock();
        inner.index_due = Some(Instant::now() + began.elapsed() * INDEX_PAUSE);
        inner.index_dirty |= written.is_err();
        written
    }

    /// Archives the session of `key`: its files move to `archive/`, the next message begins a
    /// new one. Returns the archived id, `None` when there was no session. Blocking.
    ///
    /// # Errors
    /// When a file cannot be moved; the session is then still there, and running it again
    /// finishes the job.
    pub fn reset(&self, key: &SessionKey) -> Result<Option<String>, sys::Error> {
        let (id, resting, known) = {
            let inner = self.lock();
            let Some(id) = inner.index.id_of(&key.0).map(str::to_owned) else {
                return Ok(None);
            };
            let resting = inner.resting.get(&id).map(|(_, session)| session.files());
            let known = inner.known(key, &id);
            (id, resting, known)
        };
        let files = match resting {
            Some(files) => files,
            None => transcript::files_by_snapshot(&self.dir, &id, known.as_ref())?,
        };
        // The oldest file first: who reads meanwhile finds no beginning, and knows.
        let snapshot = snapshot::path(&self.dir, &id);
        let snapshot = snapshot
            .file_name()
            .and_then(|name| name.to_str())
            .map(str::to_owned);
        for name in snapshot.into_iter().chain(files) {
            let from = self.dir.join(&name);
            match std::fs::rename(&from, self.archive.join(&name)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(sys::Error::at("archive", &from)(error));
                }
                _ => {}
            }
        }
        for dir in [&self.archive, &self.dir] {
            atomic::sync_dir(dir).map_err(sys::Error::at("sync", dir))?;
        }
        let mut inner = self.lock();
        inner.resting.remove(&id);
        inner.files.remove(&id);
        inner.index.remove(&key.0);
        inner.index_dirty = true;
        drop(inner);
        self.changed.notify_one();
        Ok(Some(id))
    }

    /// Returns the keys of the sessions that `target` may mean, see [`Index::find`].
    pub fn find(&self, people: &People, target: &str) -> Vec<SessionKey> {
        self.lock()
            .index
            .find(people, target)
            .into_iter()
            .map(|key| SessionKey(key.to_owned()))
            .collect()
    }

    /// Returns the key of the session that is called so by ourselves, see [`Index::named`].
    pub fn named(&self, target: &str) -> Option<SessionKey> {
        self.lock()
            .index
            .named(target)
            .map(|key| SessionKey(key.to_owned()))
    }

    /// Returns true when `key` has a session.
    pub fn has(&self, key: &SessionKey) -> bool {
        self.lock().index.id_of(&key.0).is_some()
    }

    /// Returns the keys of all sessions.
    pub fn keys(&self) -> Vec<SessionKey> {
        self.lock()
            .index
            .iter()
            .map(|(key, _)| SessionKey(key.to_owned()))
            .collect()
    }

    /// Returns the keys of all sessions, the one that was used last first.
    pub fn newest(&self) -> Vec<SessionKey> {
        let inner = self.lock();
        let mut all: Vec<_> = inner.index.iter().collect();
        all.sort_by(|(_, a), (_, b)| b.updated_at.cmp(&a.updated_at));
        all.into_iter()
            .map(|(key, _)| SessionKey(key.to_owned()))
            .collect()
    }

    /// Returns the keys of the sessions that were last used before `before` (RFC 3339 UTC).
    pub fn unused_since(&self, before: &str) -> Vec<SessionKey> {
        let inner = self.lock();
        let unused = inner
            .index
            .iter()
            .filter(|(_, entry)| entry.updated_at.as_str() < before);
        unused.map(|(key, _)| SessionKey(key.to_owned())).collect()
    }

    /// Returns how many sessions there are.
    pub fn count(&self) -> usize {
        self.lock().index.len()
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock()
    }
}

#[cfg(test)]
mod tests;

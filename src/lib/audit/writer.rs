//! The thread that writes: lines at once and in order, a sync once a second.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use super::Place;
use super::chain::Chain;
use super::entry::Event;
use crate::clock;

/// Entries that wait while the disk takes none; more are only counted. About 3 MB.
pub(super) const MOST: usize = 10_000;
/// Between two syncs, and between two tries.
const PAUSE: Duration = Duration::from_secs(1);

/// What the writer is told.
pub(super) enum Word {
    /// This happened then.
    Entry(i64, Event),
    /// Say when all is on disk, or that it is not.
    Flush(SyncSender<bool>),
}

type Tell = Box<dyn Fn(Option<&str>) + Send>;

/// What both sides know.
#[derive(Default)]
pub(super) struct Shared {
    /// Entries that are not written.
    pub(super) waiting: AtomicUsize,
    /// Entries that never will be.
    pub(super) lost: AtomicU64,
    /// Who is notified of problems, or the last problem that nobody was notified of.
    ear: Mutex<(Option<Tell>, Option<String>)>,
}

impl Shared {
    pub(super) fn trouble(&self, why: &str) {
        tracing::error!("the audit log cannot be written: {why}");
        let words = format!("the audit log cannot be written: {why}");
        let mut ear = self.ear.lock();
        match &ear.0 {
            Some(tell) => tell(Some(&words)),
            None => ear.1 = Some(words),
        }
    }

    fn clear_error(&self) {
        let mut ear = self.ear.lock();
        ear.1 = None;
        if let Some(tell) = &ear.0 {
            tell(None);
        }
    }

    pub(super) fn on_trouble(&self, tell: Tell) {
        let mut ear = self.ear.lock();
        if let Some(words) = ear.1.take() {
            tell(Some(&words));
        }
        ear.0 = Some(tell);
    }
}

/// The writing side.
pub(super) struct Writer {
    place: Place,
    shared: Arc<Shared>,
    chain: Option<Chain>,
    waiting: VecDeque<(i64, Event)>,
    /// When to sync what was written, or to try again.
    due: Option<Instant>,
    unsynced: bool,
    /// Trouble is told once, until it is over.
    failing: bool,
}

impl Writer {
    pub(super) fn new(place: Place, shared: Arc<Shared>) -> Self {
        Self {
            place,
            shared,
            chain: None,
            waiting: VecDeque::new(),
            due: None,
            unsynced: false,
            failing: false,
        }
    }

    /// Writes until nobody can say anything more.
    pub(super) fn run(mut self, words: &Receiver<Word>) {
        self.open();
        loop {
            let word = match self.due {
                None => words.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(due) => words.recv_timeout(due.saturating_duration_since(Instant::now())),
            };
            let is_over = matches!(word, Err(RecvTimeoutError::Disconnected));
            let mut flushes = Vec::new();
            for word in word.ok().into_iter().chain(words.try_iter()) {
                match word {
                    Word::Entry(at, event) => self.waiting.push_back((at, event)),
                    Word::Flush(done) => flushes.push(done),
                }
            }
            let is_due =
                self.due.is_some_and(|due| due <= Instant::now()) || is_over || !flushes.is_empty();
            // While the disk takes nothing, not each entry asks it again.
            if !self.failing || is_due {
                self.write();
            }
            if is_due {
                self.sync();
            }
            for done in flushes {
                let _ = done.send(self.waiting.is_empty() && !self.unsynced && !self.failing);
            }
            if is_over {
                return;
            }
        }
    }

    fn open(&mut self) {
        match Chain::open(&self.place) {
            Ok(chain) => {
                let last = chain.last();
                tracing::debug!(
                    entries = last.seq,
                    hash = last.hash,
                    "the audit log goes on"
                );
                self.chain = Some(chain);
                self.unsynced = true;
                self.due.get_or_insert_with(|| Instant::now() + PAUSE);
            }
            Err(error) => self.fail(&error.to_string()),
        }
    }

    fn write(&mut self) {
        if self.chain.is_none() {
            self.open();
        }
        let Some(chain) = &mut self.chain else { return };
        if !self.waiting.is_empty() {
            if let Err(error) = chain.append(self.waiting.iter()) {
                return self.fail(&error.to_string());
            }
            self.shared
                .waiting
                .fetch_sub(self.waiting.len(), Ordering::Relaxed);
            self.waiting.clear();
            self.unsynced = true;
        }
        let missing = self.shared.lost.swap(0, Ordering::Relaxed);
        if missing > 0 {
            if let Err(error) = chain.append([(clock::now_ms(), Event::Gap { missing })].iter()) {
                self.shared.lost.fetch_add(missing, Ordering::Relaxed);
                return self.fail(&error.to_string());
            }
            self.unsynced = true;
        }
        if self.unsynced {
            self.due.get_or_insert_with(|| Instant::now() + PAUSE);
        }
    }

    fn sync(&mut self) {
        let Some(chain) = self.chain.as_mut().filter(|_| self.unsynced) else {
            self.due = self.failing.then(|| Instant::now() + PAUSE);
            return;
        };
        match chain.sync() {
            Ok(()) => {
                self.unsynced = false;
                // What still waits is tried again.
                let waits =
                    !self.waiting.is_empty() || self.shared.lost.load(Ordering::Relaxed) > 0;
                self.due = waits.then(|| Instant::now() + PAUSE);
                if std::mem::replace(&mut self.failing, waits) && !waits {
                    self.shared.clear_error();
                }
            }
            Err(error) => self.fail(&error.to_string()),
        }
    }

    fn fail(&mut self, why: &str) {
        if !std::mem::replace(&mut self.failing, true) {
            self.shared.trouble(why);
        }
        self.chain = self.chain.take().filter(|chain| !chain.is_torn());
        self.due = Some(Instant::now() + PAUSE);
    }
}

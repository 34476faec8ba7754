//! Lines of channels that wait for their turn. Each pass takes a bounded number of lines of each channel, so that a busy
//! channel does not delay the others. Within a channel, delivery results do not wait for messages, and messages of one
//! chat do not wait for those of another.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::channel_spools::{Opened, SpoolDir, answer, open, own, take};
use super::command_intake;
use crate::config::Home;
use crate::control::spool::Entry;
use crate::control::{Command, Id, Order, spool};
use crate::pipeline::Pipeline;
use crate::{db, sys};

/// Lines of a channel that one look takes in.
const PER_LOOK: usize = 256;
/// Lines that are accepted with one commit.
const TOGETHER: usize = 64;
/// How long a chat waits for a line of it that cannot be read, before the later ones continue without it.
const PATIENCE: Duration = Duration::from_secs(60);
/// A spool in which many lie is looked through at most this part of the time.
const PART_OF_TIME: u32 = 20;

/// Lines that wait for their turn.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    /// In the common spool, by channel.
    common: HashMap<String, Waiting>,
    /// The names of those files.
    known: HashSet<Id>,
    /// In the spools of the channels.
    own: HashMap<String, Own>,
}

/// The spool of one channel.
#[derive(Debug, Default)]
struct Own {
    waiting: Waiting,
    known: HashSet<Id>,
    /// When it was last looked through, and how long that took.
    scanned: Option<(Instant, Duration)>,
}

/// The lines of one channel in one spool.
#[derive(Debug, Default)]
struct Waiting {
    /// Those that nobody looked at yet, in the order in which they came.
    unread: VecDeque<Entry>,
    /// Those that came while many were unread: word of what was sent may be among them, and is looked for first.
    late: VecDeque<Entry>,
    /// Messages by chat, each chat's in order.
    held: HashMap<String, VecDeque<Entry>>,
    /// The chats of them, in the order in which they take turns.
    turns: VecDeque<String>,
    /// Since when lines cannot be read.
    unreadable: HashMap<Id, Instant>,
}

impl Waiting {
    fn hold(&mut self, chat: String, entry: Entry) {
        self.queue_of(chat).push_back(entry);
    }

    /// Returns the messages of a chat; one that had none takes its turn behind the others.
    fn queue_of(&mut self, chat: String) -> &mut VecDeque<Entry> {
        let entries = self.held.entry(chat.clone()).or_default();
        if entries.is_empty() {
            self.turns.push_back(chat);
        }
        entries
    }

    /// Returns the next message of the chat whose turn it is, with the chat.
    fn next_message(&mut self) -> Option<(String, Entry)> {
        let chat = self.turns.pop_front()?;
        let entries = self.held.get_mut(&chat)?;
        let entry = entries.pop_front();
        if entries.is_empty() {
            self.held.remove(&chat);
        } else {
            self.turns.push_back(chat.clone());
        }
        Some((chat, entry?))
    }

    /// Puts messages back before the others of their chats.
    fn put_back(&mut self, messages: Vec<(String, Entry)>) {
        for (chat, entry) in messages.into_iter().rev() {
            self.queue_of(chat).push_front(entry);
        }
    }

    /// Returns whether what comes behind this line, which cannot be read now, still waits for it.
    fn waits_for(&mut self, id: &Id) -> bool {
        let since = self
            .unreadable
            .entry(id.clone())
            .or_insert_with(Instant::now);
        since.elapsed() < PATIENCE
    }

    fn is_empty(&self) -> bool {
        !self.has_unread() && self.turns.is_empty()
    }

    fn has_unread(&self) -> bool {
        !self.unread.is_empty() || !self.late.is_empty()
    }

    /// Returns the next entry to read, and whether it came late. Late and other entries alternate while there are both, so
    /// that a sender who never stops blocks no other.
    fn next_unread(&mut self, reads: usize) -> Option<(Entry, bool)> {
        let is_turn = reads.is_multiple_of(2) || self.unread.is_empty();
        let late = if is_turn { self.late.pop_front() } else { None };
        match late {
            Some(entry) => Some((entry, true)),
            None => self.unread.pop_front().map(|entry| (entry, false)),
        }
    }

    fn add(&mut self, entries: Vec<Entry>) {
        if !self.has_unread() {
            self.unread.extend(entries);
        } else {
            self.late.extend(entries);
        }
    }
}

impl Own {
    /// Finds what is new in the spool, behind what is known.
    async fn scan(&mut self, channel: &str, dir: &SpoolDir) {
        let is_early = |(at, took): (Instant, Duration)| at.elapsed() < took * PART_OF_TIME;
        if !self.waiting.is_empty() && self.scanned.is_some_and(is_early) {
            return;
        }
        let (dir, known, began) = (
            dir.new.clone(),
            std::mem::take(&mut self.known),
            Instant::now(),
        );
        let scan = move || (spool::scan_but(&dir, &known), known);
        let (found, known) = sys::blocking(scan).await;
        self.known = known;
        self.scanned = Some((Instant::now(), began.elapsed()));
        match found {
            Ok(entries) => {
                self.known
                    .extend(entries.iter().map(|entry| entry.id.clone()));
                self.waiting.add(entries);
            }
            Err(error) => tracing::warn!(%error, channel, "the channel's spool cannot be read"),
        }
    }
}

impl Backlog {
    /// Returns what is in the common spool and not kept here.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) async fn scan_common(&mut self, home: &Home) -> Result<Vec<Entry>, sys::Error> {
        let (dir, known) = (home.spool_new(), std::mem::take(&mut self.known));
        let scan = move || (spool::scan_but(&dir, &known), known);
        let (found, known) = sys::blocking(scan).await;
        self.known = known;
        found
    }

    /// Keeps a file of the common spool for the turn of its channel.
    pub(super) fn keep(&mut self, channel: &str, entry: Entry) {
        if self.known.insert(entry.id.clone()) {
            let waiting = self.common.entry(channel.to_owned()).or_default();
            waiting.unread.push_back(entry);
        }
    }

    /// Takes lines in, of each channel as many as one look takes. Returns whether more of them can be taken in at once. What
    /// is wrong at one channel holds up no other.
    pub(super) async fn work_off(
        &mut self,
        pipeline: &Arc<Pipeline>,
        home: &Home,
    ) -> Result<bool, db::Error> {
        let (mut is_more, mut trouble) = (false, None);
        let mut note = |took: Result<bool, db::Error>| match took {
            Ok(more) => is_more |= more,
            Err(error) => trouble = Some(error),
        };
        let common = SpoolDir::common(home);
        for (channel, waiting) in &mut self.common {
            let pass = ScanPass::new(pipeline, home, &common, &mut self.known);
            note(pass.take_some(channel, waiting).await);
        }
        self.common.retain(|_, waiting| !waiting.is_empty());
        for (channel, layout) in own(pipeline, home) {
            let dir = SpoolDir::of(&channel, &layout);
            let own = self.own.entry(channel.clone()).or_default();
            own.scan(&channel, &dir).await;
            let pass = ScanPass::new(pipeline, home, &dir, &mut own.known);
            note(pass.take_some(&channel, &mut own.waiting).await);
        }
        match trouble {
            None => Ok(is_more),
            Some(error) => {
                // What was not taken in is read again, in its order.
                *self = Self::default();
                Err(error)
            }
        }
    }
}

/// One look at the lines of one channel.
struct ScanPass<'a> {
    pipeline: &'a Arc<Pipeline>,
    home: &'a Home,
    dir: &'a SpoolDir,
    /// The names of what waits here.
    known: &'a mut HashSet<Id>,
    /// Messages that were read in this round.
    opened: HashMap<Id, Box<Order>>,
    /// What is accepted next, and its files.
    orders: Vec<Order>,
    taken: Vec<Entry>,
    /// How many may still be read, and how many messages taken.
    reads: usize,
    room: usize,
    /// Whether a line could not be read, and those behind it wait.
    is_stuck: bool,
}

impl<'a> ScanPass<'a> {
    fn new(
        pipeline: &'a Arc<Pipeline>,
        home: &'a Home,
        dir: &'a SpoolDir,
        known: &'a mut HashSet<Id>,
    ) -> Self {
        Self {
            pipeline,
            home,
            dir,
            known,
            opened: HashMap::new(),
            orders: Vec::new(),
            taken: Vec::new(),
            reads: PER_LOOK,
            room: 0,
            is_stuck: false,
        }
    }

    /// Takes some of what waits in; returns whether more can be taken in at once.
    async fn take_some(mut self, channel: &str, waiting: &mut Waiting) -> Result<bool, db::Error> {
        let room = self.pipeline.room_for(channel).await?;
        self.room = room.min(PER_LOOK);
        loop {
            self.read(waiting).await;
            self.take_turns(waiting).await;
            if self.taken.is_empty() && (self.reads == 0 || !waiting.has_unread()) {
                break;
            }
            let (orders, taken) = (
                std::mem::take(&mut self.orders),
                std::mem::take(&mut self.taken),
            );
            take(self.pipeline, self.home, self.dir, orders).await?;
            for entry in &taken {
                self.known.remove(&entry.id);
            }
            command_intake::remove(taken).await;
            self.opened.clear();
        }
        let has_room = room > PER_LOOK && !waiting.turns.is_empty();
        Ok(!self.is_stuck && (has_room || waiting.has_unread()))
    }

    /// Reads what nobody looked at: messages take their turns, and the rest is accepted.
    async fn read(&mut self, waiting: &mut Waiting) {
        while self.reads > 0 && self.orders.len() + self.opened.len() < TOGETHER {
            let Some((entry, is_late)) = waiting.next_unread(self.reads) else {
                return;
            };
            self.reads -= 1;
            let order = match self.open(&entry, waiting).await {
                Read::Order(order) => order,
                Read::Nothing => continue,
                Read::Later => {
                    // Nobody knows whose it is.
                    let first = match is_late {
                        true => &mut waiting.late,
                        false => &mut waiting.unread,
                    };
                    first.push_front(entry);
                    self.reads = 0;
                    return;
                }
            };
            match &order.command {
                // Behind what its chat said before.
                Command::Heard(_) if is_late => waiting.unread.push_back(entry),
                Command::Heard(heard) => {
                    waiting.hold(heard.chat.clone(), entry.clone());
                    self.opened.insert(entry.id, order);
                }
                _ => {
                    self.orders.push(*order);
                    self.taken.push(entry);
                }
            }
        }
    }

    /// Takes as many messages as there is room for, the chats in turn.
    async fn take_turns(&mut self, waiting: &mut Waiting) {
        let mut later: Vec<(String, Entry)> = Vec::new();
        while self.room > 0 && self.orders.len() < TOGETHER {
            let Some((chat, entry)) = waiting.next_message() else {
                break;
            };
            if later.iter().any(|(other, _)| *other == chat) {
                later.push((chat, entry));
                continue;
            }
            let order = match self.opened.remove(&entry.id) {
                Some(order) => Read::Order(order),
                None => self.open(&entry, waiting).await,
            };
            match order {
                Read::Order(order) => {
                    self.room -= 1;
                    self.orders.push(*order);
                    self.taken.push(entry);
                }
                Read::Nothing => {}
                Read::Later => later.push((chat, entry)),
            }
        }
        waiting.put_back(later);
    }

    /// Reads a line; what is none is answered.
    async fn open(&mut self, entry: &Entry, waiting: &mut Waiting) -> Read {
        let read = match open(self.dir, entry).await {
            Opened::Order(order) => Read::Order(order),
            Opened::Later if waiting.waits_for(&entry.id) => {
                self.is_stuck = true;
                return Read::Later;
            }
            // A later look finds it again.
            Opened::Gone | Opened::Later => {
                self.known.remove(&entry.id);
                Read::Nothing
            }
            Opened::Bad(reason) => {
                answer(self.pipeline, self.home, self.dir, &entry.id, &reason).await;
                self.taken.push(entry.clone());
                Read::Nothing
            }
        };
        waiting.unreadable.remove(&entry.id);
        read
    }
}

/// What became of reading a line.
enum Read {
    /// What it says.
    Order(Box<Order>),
    /// It is none, or it went.
    Nothing,
    /// It cannot be read now, and what comes behind it waits.
    Later,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chats_take_turns_and_each_keeps_its_order() {
        let mut waiting = Waiting::default();
        let entry = |id: &str| Entry {
            id: Id::parse(id).expect("id"),
            path: id.into(),
        };
        for (chat, id) in [
            ("bot", "b1"),
            ("bot", "b2"),
            ("bot", "b3"),
            ("eve", "e1"),
            ("ada", "a1"),
            ("eve", "e2"),
        ] {
            waiting.hold(chat.to_owned(), entry(id));
        }
        let order: Vec<String> = std::iter::from_fn(|| waiting.next_message())
            .map(|(_, entry)| entry.id.to_string())
            .collect();
        assert_eq!(order, ["b1", "e1", "a1", "b2", "e2", "b3"]);
        assert!(waiting.is_empty() && waiting.held.is_empty());
        // What could not be read stays before what its chat said after it.
        let held = |chat: &str, id: &str| (chat.to_owned(), entry(id));
        waiting.hold("ada".to_owned(), entry("a3"));
        waiting.put_back(vec![
            held("ada", "a1"),
            held("eve", "e1"),
            held("ada", "a2"),
        ]);
        let order: Vec<String> = std::iter::from_fn(|| waiting.next_message())
            .map(|(_, entry)| entry.id.to_string())
            .collect();
        assert_eq!(order, ["a1", "e1", "a2", "a3"]);
    }

    #[test]
    fn what_comes_late_is_looked_at_among_what_is_unread() {
        let mut waiting = Waiting::default();
        let entries = |ids: &[&str]| -> Vec<Entry> {
            let entry = |id: &&str| Entry {
                id: Id::parse(id).expect("id"),
                path: id.into(),
            };
            ids.iter().map(entry).collect()
        };
        waiting.add(entries(&["a", "b", "c"]));
        waiting.add(entries(&["x", "y"]));
        let next = |waiting: &mut Waiting, reads| {
            let next = waiting.next_unread(reads);
            next.map(|(entry, is_late)| (entry.id.to_string(), is_late))
        };
        let of = |id: &str, is_late| Some((id.to_owned(), is_late));
        assert_eq!(next(&mut waiting, 4), of("x", true));
        assert_eq!(next(&mut waiting, 3), of("a", false));
        assert_eq!(next(&mut waiting, 1), of("b", false));
        assert_eq!(next(&mut waiting, 1), of("c", false));
        // Still behind what was there before it.
        waiting.add(entries(&["z"]));
        assert_eq!(next(&mut waiting, 1), of("y", true));
        assert_eq!(next(&mut waiting, 1), of("z", true));
        assert!(waiting.is_empty());
    }
}

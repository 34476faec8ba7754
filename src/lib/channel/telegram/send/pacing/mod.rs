//! How fast we may talk: what Telegram asks of a bot, and what it tells one that was too fast
//! (core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this).
//!
//! A chat takes three calls at once and one a second after that, a group (a negative id) besides at
//! most 20 in any minute, and all chats together at most 30 in any second. Those who wait for one
//! chat go in the order they came; no chat waits for another, except for the common 30. Who gives up
//! waiting has used up nothing. `retry_after` closes a chat for everybody, also where nothing is paced.

use parking_lot::{Mutex, MutexGuard};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Calls that a rested chat takes at once.
const BURST: u32 = 3;
/// What a chat takes after them: one in this time.
const INTERVAL: Duration = Duration::from_secs(1);
const GROUP: (usize, Duration) = (20, Duration::from_secs(60));
const EVERYBODY: (usize, Duration) = (30, Duration::from_secs(1));

/// The pace of all calls of one bot.
pub(crate) struct Pace {
    on: bool,
    lines: Mutex<Lines>,
}

impl Pace {
    /// Begins rested; when it is not `on`, only `retry_after` makes anybody wait.
    pub(crate) fn new(on: bool) -> Self {
        let everybody = Line::new(Instant::now(), None, on.then_some(EVERYBODY));
        Self {
            on,
            lines: Mutex::new(Lines {
                everybody,
                chats: HashMap::new(),
            }),
        }
    }

    /// Returns whether calls are paced.
    #[cfg(test)]
    pub(crate) fn is_on(&self) -> bool {
        self.on
    }

    /// Waits until it is the caller's turn to call about `chat`, or about none.
    pub(crate) async fn turn(&self, chat: Option<i64>) {
        let (mine, all) = self.gates(chat);
        let _first = mine.lock().await;
        loop {
            let wait = self.lines().wait_for_chat(chat, 1, Instant::now());
            pause(wait).await;
            // Held only while all chats wait for the same: nobody stands in the way of another chat.
            let _next = all.lock().await;
            let wait = self.lines().everybody.wait(1, Instant::now());
            pause(wait).await;
            if self.lines().take(chat, 1, Instant::now()) {
                return;
            }
        }
    }

    /// Waits until there is room for a call about `chat`, and takes none: whoever calls then waits no
    /// more, unless others came first.
    pub(crate) async fn room(&self, chat: i64) {
        self.gates(Some(chat));
        loop {
            let wait = self.lines().wait(Some(chat), 1, Instant::now());
            if wait.is_zero() {
                return;
            }
            sleep(wait).await;
        }
    }

    /// Returns whether there is room for a call about `chat` that may as well not be made, waiting for
    /// at most `patience`. It never takes the last room: an answer that comes now must not wait for it.
    pub(crate) async fn spare(&self, chat: i64, patience: Duration) -> bool {
        let (mine, _) = self.gates(Some(chat));
        let wait = self.lines().wait(Some(chat), 2, Instant::now());
        if wait > patience {
            return false;
        }
        pause(wait).await;
        // Somebody waits for it who must be heard.
        let Ok(_first) = mine.try_lock() else {
            return false;
        };
        let mut lines = self.lines();
        let now = Instant::now();
        lines.wait(Some(chat), 2, now).is_zero() && lines.take(Some(chat), 1, now)
    }

    /// Lets nobody call about `chat`, or about anything, for so long.
    pub(crate) fn close(&self, chat: Option<i64>, time: Duration) {
        self.gates(chat);
        let mut lines = self.lines();
        let line = match chat {
            Some(chat) => lines.chats.get_mut(&chat),
            None => Some(&mut lines.everybody),
        };
        if let (Some(line), Some(until)) = (line, Instant::now().checked_add(time)) {
            line.closed = line.closed.max(until);
        }
    }

    /// Returns what those hold whose turn is next, in the chat and of all, and knows the chat from now on.
    fn gates(&self, chat: Option<i64>) -> (Gate, Gate) {
        let mut lines = self.lines();
        let all = lines.everybody.gate.clone();
        let Some(chat) = chat else {
            return (Gate::default(), all);
        };
        if !lines.chats.contains_key(&chat) {
            let now = Instant::now();
            lines.chats.retain(|_, line| !line.is_rested(now));
            let interval = self.on.then_some(INTERVAL);
            lines.chats.insert(
                chat,
                Line::new(now, interval, (self.on && chat < 0).then_some(GROUP)),
            );
        }
        (lines.chats[&chat].gate.clone(), all)
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.lines.lock()
    }
}

/// Sleeps for so long; a timer makes a millisecond of no time at all, which every message would pay.
async fn pause(wait: Duration) {
    if !wait.is_zero() {
        sleep(wait).await;
    }
}

type Gate = Arc<tokio::sync::Mutex<()>>;

/// Everybody's line, and that of each chat which is not rested.
struct Lines {
    everybody: Line,
    chats: HashMap<i64, Line>,
}

impl Lines {
    fn chat(&mut self, chat: Option<i64>) -> Option<&mut Line> {
        self.chats.get_mut(&chat?)
    }

    /// Returns how long it takes until there is room for `calls`.
    fn wait(&mut self, chat: Option<i64>, calls: u32, now: Instant) -> Duration {
        self.wait_for_chat(chat, calls, now)
            .max(self.everybody.wait(calls, now))
    }

    fn wait_for_chat(&mut self, chat: Option<i64>, calls: u32, now: Instant) -> Duration {
        self.chat(chat)
            .map_or(Duration::ZERO, |line| line.wait(calls, now))
    }

    /// Takes the room for `calls`, if it is there.
    fn take(&mut self, chat: Option<i64>, calls: u32, now: Instant) -> bool {
        let room = self.wait(chat, calls, now).is_zero();
        if room {
            self.everybody.take(calls, now);
            if let Some(line) = self.chat(chat) {
                line.take(calls, now);
            }
        }
        room
    }
}

/// What one chat, or all of them, still take.
struct Line {
    /// The bucket: when it is full again, and how long one call takes to fill in.
    full: Instant,
    interval: Option<Duration>,
    /// The most calls in a time, and when the last ones were.
    most: Option<(usize, Duration)>,
    calls: VecDeque<Instant>,
    closed: Instant,
    gate: Gate,
}

impl Line {
    fn new(now: Instant, interval: Option<Duration>, most: Option<(usize, Duration)>) -> Self {
        Self {
            full: now,
            interval,
            most,
            calls: VecDeque::new(),
            closed: now,
            gate: Gate::default(),
        }
    }

    fn wait(&mut self, calls: u32, now: Instant) -> Duration {
        let closed = self.closed.saturating_duration_since(now);
        let bucket = self.interval.map_or(Duration::ZERO, |interval| {
            let missing = self.full.saturating_duration_since(now) + interval * calls;
            missing.saturating_sub(interval * BURST)
        });
        let most = self.most.map_or(Duration::ZERO, |(most, time)| {
            while self.calls.front().is_some_and(|call| *call + time <= now) {
                self.calls.pop_front();
            }
            let over = (self.calls.len() + calls as usize).saturating_sub(most);
            let last = over.checked_sub(1).and_then(|last| self.calls.get(last));
            last.map_or(Duration::ZERO, |call| {
                (*call + time).saturating_duration_since(now)
            })
        });
        closed.max(bucket).max(most)
    }

    fn take(&mut self, calls: u32, now: Instant) {
        if let Some(interval) = self.interval {
            self.full = self.full.max(now) + interval * calls;
        }
        if self.most.is_some() {
            self.calls.extend((0..calls).map(|_| now));
        }
    }

    /// Returns whether it is as if nobody had ever called, and nobody waits.
    fn is_rested(&mut self, now: Instant) -> bool {
        let waits = Arc::strong_count(&self.gate) > 1;
        !waits && self.wait(0, now).is_zero() && self.full <= now && self.calls.is_empty()
    }
}

#[cfg(test)]
mod tests;

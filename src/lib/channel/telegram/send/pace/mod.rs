//! The rate limits of Telegram: its documented limits for bots, and its 429 answers
//! (core.telegram.org/bots/faq#my-bot-is-hitting-limits-how-do-i-avoid-this).
//!
//! A chat takes three calls at once and then one a second, a group (a negative id) in addition at most 20 in any minute, and
//! all chats together at most 30 in any second. Calls for one chat go in the order of their arrival; no chat waits for
//! another, except for the common 30. A call that stops waiting has used nothing up. `retry_after` closes a chat for all
//! calls, also without pacing; of a call about no chat it closes the method.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

/// Calls that a rested chat takes at once.
const BURST: u32 = 3;
/// What a chat takes after them: one in this time.
const INTERVAL: Duration = Duration::from_secs(1);
/// The most calls of a group, and of all chats, in a time.
const GROUP: (usize, Duration) = (20, Duration::from_secs(60));
const ALL: (usize, Duration) = (30, Duration::from_secs(1));

/// A method that is closed for longer is not waited for.
const PATIENCE: Duration = Duration::from_secs(30);

/// The pace of all calls of one bot.
pub(crate) struct Pace {
    on: bool,
    limits: Mutex<Limits>,
    /// Until when methods of calls about no chat are closed.
    closed_methods: Mutex<HashMap<&'static str, Instant>>,
}

impl Pace {
    /// Begins rested; when it is not `on`, only `retry_after` makes anybody wait.
    pub(crate) fn new(on: bool) -> Self {
        let all = Limit::new(Instant::now(), None, on.then_some(ALL));
        Self {
            on,
            limits: Mutex::new(Limits(HashMap::from([(None, all)]))),
            closed_methods: Mutex::default(),
        }
    }

    /// Waits until it is the caller's turn to call about `chat`, or about none.
    pub(crate) async fn turn(&self, chat: Option<i64>) {
        let (mine, all) = self.queues(chat);
        let _first = mine.lock().await;
        loop {
            let wait = self.limits.lock().wait(chat, 1, Instant::now());
            pause(wait).await;
            // Held only while all chats wait for the same: nobody blocks another chat.
            let _next = all.lock().await;
            let wait = self.limits.lock().wait(None, 1, Instant::now());
            pause(wait).await;
            if self.limits.lock().take(chat, Instant::now()) {
                return;
            }
        }
    }

    /// Waits until there is room for a call about `chat`, and takes none: a caller then waits no
    /// more, unless others came first.
    pub(crate) async fn ready(&self, chat: i64) {
        self.queues(Some(chat));
        loop {
            let wait = self.limits.lock().wait_both(chat, 1, Instant::now());
            if wait.is_zero() {
                return;
            }
            sleep(wait).await;
        }
    }

    /// Takes the room for a call about `chat` that can be left out, waiting for at most `time`; false
    /// when there is none. It never takes the last room: an answer that comes now must not wait for it.
    pub(crate) async fn turn_within(&self, chat: i64, time: Duration) -> bool {
        let (mine, _) = self.queues(Some(chat));
        let wait = self.limits.lock().wait_both(chat, 2, Instant::now());
        if wait > time {
            return false;
        }
        pause(wait).await;
        // Somebody waits for it whose call cannot be left out.
        let Ok(_first) = mine.try_lock() else {
            return false;
        };
        let (mut limits, now) = (self.limits.lock(), Instant::now());
        limits.wait_both(chat, 2, now).is_zero() && limits.take(Some(chat), now)
    }

    /// Lets nobody call about `chat` for so long.
    pub(crate) fn close(&self, chat: i64, time: Duration) {
        self.queues(Some(chat));
        let until = Instant::now().checked_add(time);
        let mut limits = self.limits.lock();
        if let (Some(limit), Some(until)) = (limits.0.get_mut(&Some(chat)), until) {
            limit.closed = limit.closed.max(until);
        }
    }

    /// Lets nobody call `method` about no chat for so long.
    pub(crate) fn close_method(&self, method: &'static str, time: Duration) {
        if let Some(until) = Instant::now().checked_add(time) {
            self.closed_methods.lock().insert(method, until);
        }
    }

    /// Waits until `method` is open for calls about no chat.
    ///
    /// # Errors
    /// How long it is closed, when that is longer than [`PATIENCE`].
    pub(crate) async fn rested(&self, method: &'static str) -> Result<(), Duration> {
        let until = self.closed_methods.lock().get(method).copied();
        let rest = until.map(|until| until.saturating_duration_since(Instant::now()));
        match rest.unwrap_or_default() {
            rest if rest > PATIENCE => Err(rest),
            rest => {
                pause(rest).await;
                Ok(())
            }
        }
    }

    /// Returns the queues of the chat and of all; whoever is next holds them. The chat is known from now
    /// on.
    fn queues(&self, chat: Option<i64>) -> (Queue, Queue) {
        let mut limits = self.limits.lock();
        if let Some(id) = chat
            && !limits.0.contains_key(&chat)
        {
            let now = Instant::now();
            let is_used =
                |key: &Option<i64>, limit: &mut Limit| key.is_none() || !limit.is_rested(now);
            limits.0.retain(is_used);
            let most = (self.on && id < 0).then_some(GROUP);
            let limit = Limit::new(now, self.on.then_some(INTERVAL), most);
            limits.0.insert(chat, limit);
        }
        let mine = chat.map(|_| limits.0[&chat].queue.clone());
        (mine.unwrap_or_default(), limits.0[&None].queue.clone())
    }
}

/// Sleeps for so long; a timer makes a millisecond of no time at all, which every message would pay.
async fn pause(wait: Duration) {
    if !wait.is_zero() {
        sleep(wait).await;
    }
}

type Queue = Arc<tokio::sync::Mutex<()>>;

/// The limit of all chats (`None`), and that of each chat which is not rested.
struct Limits(HashMap<Option<i64>, Limit>);

impl Limits {
    /// Returns how long it takes until there is room for `calls` about a chat and in all.
    fn wait_both(&mut self, chat: i64, calls: u32, now: Instant) -> Duration {
        let mine = self.wait(Some(chat), calls, now);
        mine.max(self.wait(None, calls, now))
    }

    /// Returns how long it takes by the limit of `chat` alone, or of all.
    fn wait(&mut self, chat: Option<i64>, calls: u32, now: Instant) -> Duration {
        let limit = self.0.get_mut(&chat);
        limit.map_or(Duration::ZERO, |limit| limit.wait(calls, now))
    }

    /// Takes the room for a call, if it is there.
    fn take(&mut self, chat: Option<i64>, now: Instant) -> bool {
        let room = [chat, None].map(|chat| self.wait(chat, 1, now).is_zero());
        if room != [true; 2] {
            return false;
        }
        let chats = [None].into_iter().chain(chat.map(Some));
        for chat in chats {
            if let Some(limit) = self.0.get_mut(&chat) {
                limit.take(now);
            }
        }
        true
    }
}

/// What one chat, or all of them, still take.
struct Limit {
    /// The bucket: when it is full again, and how long one call takes to fill in.
    full: Instant,
    interval: Option<Duration>,
    /// The most calls in a time, and when the last ones were.
    most: Option<(usize, Duration)>,
    calls: VecDeque<Instant>,
    closed: Instant,
    queue: Queue,
}

impl Limit {
    fn new(now: Instant, interval: Option<Duration>, most: Option<(usize, Duration)>) -> Self {
        Self {
            full: now,
            interval,
            most,
            calls: VecDeque::new(),
            closed: now,
            queue: Queue::default(),
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

    fn take(&mut self, now: Instant) {
        if let Some(interval) = self.interval {
            self.full = self.full.max(now) + interval;
        }
        if self.most.is_some() {
            self.calls.push_back(now);
        }
    }

    /// Returns whether it is as if nobody had ever called, and nobody waits.
    fn is_rested(&mut self, now: Instant) -> bool {
        let waits = Arc::strong_count(&self.queue) > 1;
        !waits && self.wait(0, now).is_zero() && self.full <= now && self.calls.is_empty()
    }
}

#[cfg(test)]
mod tests;

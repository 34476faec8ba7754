//! Step 4, deliver: stored parts are sent, each chat's in order, chats side by side.
//!
//! | what happened to a send | what is done |
//! |---|---|
//! | never written, or an error status | again, as long as it takes |
//! | markup refused | the same part as plain text |
//! | written, no answer; or we died meanwhile | `unknown`: once more, marked "(resent)" |
//! | the same a third time, or 15 minutes after it was written | dead letter, the chat is told |
//! | refused permanently | dead letter, the chat is told unless it is what refuses |
//! | never written, of a task of a plan | the task is tried again, at most ten times; see `queue::tasks` |
//! | a panic | dead letter "internal error while sending", the chat is told |

use futures_util::FutureExt;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;

use super::retry::Next;
use super::unknown_outcome;
use crate::channel;
use crate::channel::Channel;
use crate::clock;
use crate::message::{OutFile, Route};
use crate::pipeline::Pipeline;
use crate::pipeline::persist::{Unrecorded, isolated};
use crate::queue::{Aftermath, NewPart, Part};

/// The reason of a dead letter whose sending panicked.
pub(crate) const SENDING_BROKE: &str = "internal error while sending";

/// Chats of one channel that is a process whose messages are offered at the same time; the others wait in memory. A channel
/// that is gone for days has at most so many files, and tasks that look after them.
const CHATS_AT_ONCE: usize = 1_000;

/// Parts that wait, a queue a chat.
#[derive(Debug, Clone, Default)]
pub(crate) struct Outgoing(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    chats: HashMap<Route, Chat>,
    /// By channel.
    limits: HashMap<String, ChannelLimit>,
}

#[derive(Debug, Default)]
struct Chat {
    waiting: VecDeque<Queued>,
    is_busy: bool,
}

/// A part that waits.
#[derive(Debug)]
struct Queued {
    part: Part,
    /// Takes back that it is noted as being sent; its turn is after that.
    unclaiming: Option<JoinHandle<()>>,
}

/// The chats of a channel that sends to so many at once.
#[derive(Debug, Default)]
struct ChannelLimit {
    working: usize,
    /// Chats that wait for one of the others to be over.
    waiting: VecDeque<Route>,
}

impl Outgoing {
    /// Adds a part; returns the work of its chat, or of one that waits longer, when nobody is at it. `is_limited` says that
    /// only so many chats of its channel have their turn at once. A part that is noted as being sent and has to wait for
    /// others is taken back by `unclaim`.
    fn push(
        &self,
        part: Part,
        is_limited: bool,
        unclaim: impl FnOnce(&Part) -> JoinHandle<()>,
    ) -> Option<ChatWork> {
        let key = part.content.route.clone();
        let mut all = self.0.lock();
        let chat = all.chats.entry(key.clone()).or_default();
        let has_to_wait = chat.is_busy || !chat.waiting.is_empty();
        let unclaiming = (part.is_claimed && has_to_wait).then(|| unclaim(&part));
        chat.waiting.push_back(Queued { part, unclaiming });
        if std::mem::replace(&mut chat.is_busy, true) {
            return None;
        }
        let key = if is_limited {
            let limit = all.limits.entry(key.channel.clone()).or_default();
            limit.waiting.push_back(key);
            if limit.working >= CHATS_AT_ONCE {
                return None;
            }
            limit.working += 1;
            limit.waiting.pop_front()?
        } else {
            key
        };
        Some(ChatWork {
            outgoing: self.clone(),
            key,
            is_limited,
            is_over: false,
        })
    }

    /// Forgets what waits of a task.
    pub(super) fn forget_task(&self, route: &Route, task: i64) {
        if let Some(chat) = self.0.lock().chats.get_mut(route) {
            chat.waiting.retain(|queued| queued.part.task != Some(task));
        }
    }

    /// Returns true when nothing of a chat waits and nothing is being sent.
    fn is_idle(&self, route: &Route) -> bool {
        !self.0.lock().chats.contains_key(route)
    }

    /// Returns true when nothing waits and nothing is being sent through a channel that `counts`.
    fn is_empty(&self, counts: impl Fn(&str) -> bool) -> bool {
        let all = self.0.lock();
        !all.chats.keys().any(|route| counts(&route.channel))
    }
}

/// The right to send what waits for a chat. Dropping it, for whatever reason, lets the next part's sender have it.
struct ChatWork {
    outgoing: Outgoing,
    key: Route,
    is_limited: bool,
    /// Nothing was left; the chat may be somebody else's by now.
    is_over: bool,
}

impl ChatWork {
    /// Takes the next part; where nothing is left of a chat, that of the chat of the channel that waits longest.
    fn next(&mut self) -> Option<Queued> {
        let mut all = self.outgoing.0.lock();
        loop {
            let chat = all.chats.get_mut(&self.key)?;
            if let Some(queued) = chat.waiting.pop_front() {
                return Some(queued);
            }
            // Under the same lock: what is pushed from now on finds nobody at work.
            all.chats.remove(&self.key);
            let limit = all.limits.get_mut(&self.key.channel);
            let limit = limit.filter(|_| self.is_limited);
            let Some(next) = limit.and_then(|limit| limit.waiting.pop_front()) else {
                all.leave(self);
                self.is_over = true;
                return None;
            };
            self.key = next;
        }
    }
}

impl Waiting {
    /// One chat of a channel less is at work.
    fn leave(&mut self, work: &ChatWork) {
        if let Some(limit) = self.limits.get_mut(&work.key.channel)
            && work.is_limited
        {
            limit.working = limit.working.saturating_sub(1);
        }
    }
}

impl Drop for ChatWork {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        let mut all = self.outgoing.0.lock();
        all.leave(self);
        if let Some(chat) = all.chats.get_mut(&self.key) {
            chat.is_busy = false;
        }
    }
}

impl Pipeline {
    /// Sends stored parts, after what waits for the same chats already.
    pub fn deliver(self: &Arc<Self>, parts: Vec<Part>) {
        for part in parts {
            let channel = self.channels.get(part.content.route.channel.as_str());
            let is_limited = channel.is_some_and(|channel| channel.outlives_us());
            let unclaim = |part: &Part| {
                let (sender, mut part) = (self.clone(), part.clone());
                tokio::spawn(async move { sender.unclaim(&mut part).await })
            };
            if let Some(work) = self.outgoing.push(part, is_limited, unclaim) {
                tokio::spawn(self.clone().work_off(work));
            }
        }
    }

    /// Returns true when the first of `parts` would leave as soon as it is stored: it can then be noted as being sent in the
    /// transaction that stores it. What comes in between (another message to the chat, a pause that the channel asks for)
    /// only makes it leave later.
    pub(crate) fn leaves_at_once(&self, parts: &[NewPart]) -> bool {
        let Some(NewPart { route, .. }) = parts.first() else {
            return false;
        };
        let channel = self.channels.get(route.channel.as_str());
        channel.is_some_and(|channel| {
            !self.closed.is_cancelled()
                && !channel.outlives_us()
                && self.outgoing.is_idle(route)
                && channel.ready(&route.chat).now_or_never().is_some()
        })
    }

    /// Waits until nothing is left to send, but no longer than `patience`.
    pub async fn sends_end(&self, patience: Duration) {
        let empty = async {
            let counts = |name: &str| {
                let channel = self.channels.get(name);
                channel.is_none_or(|channel| !channel.outlives_us())
            };
            while !self.outgoing.is_empty(counts) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        // What is left is in the queue.
        let _ = tokio::time::timeout(patience, empty).await;
    }

    /// Sends what waits for one chat. A part whose sending panics becomes a dead letter; the next one follows.
    async fn work_off(self: Arc<Self>, mut work: ChatWork) {
        while let Some(Queued {
            mut part,
            unclaiming,
        }) = work.next()
        {
            if let Some(unclaiming) = unclaiming {
                // Whatever came of it, it is noted again before it is sent.
                let _ = unclaiming.await;
                part.is_claimed = false;
            }
            let Some(channel) = self.channels.get(work.key.channel.as_str()).cloned() else {
                // The channel is switched off: its parts stay pending until it is on again.
                let channel = &work.key.channel;
                tracing::warn!(channel, "an answer waits for a disabled channel");
                self.unclaim(&mut part).await;
                continue;
            };
            let (sender, sent) = (self.clone(), part.clone());
            if isolated(async move { sender.send(channel, sent).await })
                .await
                .is_err()
            {
                self.dead_letter(&part, SENDING_BROKE).await;
                // Aside: it may panic, too.
                let teller = self.clone();
                tokio::spawn(async move { teller.say_part_missing(&part).await });
            }
        }
    }

    /// Sends a part until that is over.
    async fn send(self: Arc<Self>, channel: Arc<dyn Channel>, mut part: Part) {
        let mut failures = 0;
        while !self.closed.is_cancelled() {
            let Next::Again(wait) = self.try_send(channel.as_ref(), &mut part, failures).await
            else {
                break;
            };
            failures += 1;
            tokio::select! {
                () = self.closed.cancelled() => break,
                () = tokio::time::sleep(wait) => {}
            }
        }
        self.unclaim(&mut part).await;
        if let Some(batch) = &part.content.asks {
            // Its end may have come before it was known under which id it arrived.
            self.show_end(batch).await;
        }
    }

    /// Takes back that a part is noted as being sent, when it waits or was not even tried: the next daemon is to know that.
    async fn unclaim(&self, part: &mut Part) {
        if std::mem::take(&mut part.is_claimed) {
            self.settle(part, Aftermath::NotSent).await;
        }
    }

    async fn try_send(&self, channel: &dyn Channel, part: &mut Part, failures: u32) -> Next {
        // Not while it is noted as being sent: a crash in a long wait is no doubt about its arrival.
        let chat = part.content.route.chat.clone();
        let mut ready = channel.ready(&chat);
        if (&mut ready).now_or_never().is_none() {
            self.unclaim(part).await;
            if self.closed.run_until_cancelled(ready).await.is_none() {
                return Next::Over;
            }
        }
        let now = clock::now_ms();
        if unknown_outcome::is_given_up(part, channel.outlives_us(), now) {
            self.dead_letter(part, "it is unknown whether it arrived")
                .await;
            self.say_part_missing(part).await;
            return Next::Over;
        }
        if !std::mem::take(&mut part.is_claimed) {
            let note = || self.queue.sending(part.id, now);
            match self.persist("a send", note).await {
                Ok(()) => {}
                Err(Unrecorded::Ending) => return Next::Over,
                // Sent unrecorded it would be sent again by every start.
                Err(Unrecorded::Failed(why)) => {
                    self.dead_letter(part, &why).await;
                    self.say_part_missing(part).await;
                    return Next::Over;
                }
            }
        }
        if part.unknowns == 0 {
            part.sending_at = Some(now);
        }
        // Nobody is to say yes at the press of a button to a question that they have not read whole.
        if part.content.asks.is_some()
            && !self
                .queue
                .all_parts_delivered(part.id)
                .await
                .unwrap_or_default()
        {
            part.content.buttons.clear();
        }
        let (key, files) = (part.key(), self.files(part));
        let send = channel.send(self.message(part, &key, &files));
        let sent = if channel.outlives_us() {
            match self.closed.run_until_cancelled(send).await {
                Some(sent) => sent,
                // It continues without us; what became of it is known after the next start.
                None => return Next::Over,
            }
        } else {
            send.await
        };
        let next = self.after_send(part, sent, failures).await;
        unknown_outcome::slow_down(next, part, channel.outlives_us())
    }

    /// Returns the files of a part with where each lies.
    fn files(&self, part: &Part) -> Vec<(OutFile, PathBuf)> {
        let files = part.content.files.iter();
        files
            .map(|file| (file.clone(), self.downloads.join(&file.path)))
            .collect()
    }

    fn message<'a>(
        &self,
        part: &'a Part,
        key: &'a str,
        files: &'a [(OutFile, PathBuf)],
    ) -> channel::Outgoing<'a> {
        channel::Outgoing {
            key,
            chat: &part.content.route.chat,
            reply_to: part.content.reply_to.as_deref(),
            markup: part.content.markup.as_deref(),
            plain: &part.content.plain,
            files,
            reaction: part.content.reaction.as_deref(),
            buttons: &part.content.buttons,
            resent: unknown_outcome::is_resent(part),
        }
    }

    pub(super) async fn settle(&self, part: &Part, aftermath: Aftermath) {
        let now = clock::now_ms();
        self.audit_send(part, &aftermath);
        let settle = || self.queue.settle(part.id, aftermath.clone(), now);
        // Unrecorded, it is in the log and the status; the chat's next part is not held up by it.
        let _ = self.persist("what became of a send", settle).await;
        if part.task.is_some() {
            self.plan_news.notify_one();
        }
    }

    pub(super) async fn dead_letter(&self, part: &Part, reason: &str) {
        tracing::error!(part = part.id, reason, "an answer is a dead letter");
        self.note_trouble(&format!("an answer is a dead letter: {reason}"));
        let reason = reason.to_owned();
        self.settle(part, Aftermath::Dead { reason }).await;
    }

    /// Tells the chat of a part that it may be missing.
    pub(super) async fn say_part_missing(&self, part: &Part) {
        // Nobody misses an emoji.
        if part.content.reaction.is_some() {
            return;
        }
        let route = &part.content.route;
        if let Some(channel) = self.channels.get(route.channel.as_str())
            && let Some(id) = self.say_missing(channel, route, part.created_at).await
        {
            self.audit_notice(part, &id);
        }
    }

    /// Tells a chat that an answer of the time `at` may be missing, and returns the id of the message. One try: it is
    /// a courtesy, the dead letter is the record.
    pub(crate) async fn say_missing(
        &self,
        channel: &Arc<dyn Channel>,
        route: &Route,
        at: i64,
    ) -> Option<String> {
        let text = format!(
            "An answer of mine from {} may not have reached you. Ask again if something is missing.",
            clock::local_text(at, self.live().config.agent.timezone.0)
        );
        let notice = channel::Outgoing {
            key: "",
            chat: &route.chat,
            reply_to: None,
            markup: None,
            plain: &text,
            files: &[],
            reaction: None,
            buttons: &[],
            resent: false,
        };
        match channel.send(notice).await {
            Ok(message_id) => Some(message_id),
            Err(error) => {
                tracing::warn!(%error, "cannot notify the chat of a dead letter");
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::ChatRef;

    fn part(id: i64) -> Part {
        let route = Route {
            channel: "telegram".to_owned(),
            chat: ChatRef::default(),
        };
        Part {
            id,
            content: NewPart::plain(route, "hi".to_owned()),
            unknowns: 0,
            sending_at: None,
            created_at: 0,
            task: None,
            is_claimed: false,
        }
    }

    /// Adds a part that is not noted as being sent.
    fn push(outgoing: &Outgoing, part: Part, is_limited: bool) -> Option<ChatWork> {
        let unclaim = |part: &Part| panic!("{part:?} is not noted as being sent");
        outgoing.push(part, is_limited, unclaim)
    }

    #[test]
    fn a_chat_has_one_sender_also_when_the_last_one_is_only_just_over() {
        let outgoing = Outgoing::default();
        let mut first = push(&outgoing, part(1), false).expect("nobody is at it");
        assert!(push(&outgoing, part(2), false).is_none());
        assert_eq!(first.next().map(|queued| queued.part.id), Some(1));
        assert_eq!(first.next().map(|queued| queued.part.id), Some(2));
        assert!(first.next().is_none());
        let second = push(&outgoing, part(3), false).expect("the first one is over");
        drop(first);
        assert!(
            push(&outgoing, part(4), false).is_none(),
            "the second one is at it"
        );
        drop(second);
        assert!(push(&outgoing, part(5), false).is_some(), "it was given up");
    }

    #[test]
    fn of_many_chats_so_many_have_their_turn_and_each_keeps_its_order() {
        let outgoing = Outgoing::default();
        let of_chat = |chat: usize, id: i64| {
            let mut part = part(id);
            part.content.route.chat.chat = chat.to_string();
            part
        };
        let mut at_work = Vec::new();
        for id in [0, 1] {
            let chats = 0..CHATS_AT_ONCE + 2;
            at_work.extend(chats.filter_map(|chat| push(&outgoing, of_chat(chat, id), true)));
        }
        assert_eq!(at_work.len(), CHATS_AT_ONCE);
        // What is over continues with the chat that waits longest; what breaks off is made up for by the next part.
        let mut first = at_work.remove(0);
        let next = |work: &mut ChatWork| {
            work.next()
                .map(|queued| (queued.part.content.route.chat.chat, queued.part.id))
        };
        let (one, two) = (CHATS_AT_ONCE.to_string(), (CHATS_AT_ONCE + 1).to_string());
        assert_eq!(next(&mut first), Some(("0".to_owned(), 0)));
        assert_eq!(next(&mut first), Some(("0".to_owned(), 1)));
        assert_eq!(next(&mut first), Some((one.clone(), 0)));
        drop(at_work.remove(0));
        let mut other = push(&outgoing, of_chat(CHATS_AT_ONCE + 2, 0), true).expect("room");
        assert_eq!(next(&mut other), Some((two, 0)));
        assert_eq!(next(&mut first), Some((one, 1)));
        drop(at_work);
        while first.next().is_some() || other.next().is_some() {}
        assert!(
            outgoing
                .0
                .lock()
                .limits
                .values()
                .all(|limit| limit.working == 0)
        );
    }
}

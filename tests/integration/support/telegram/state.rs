//! What the fake Telegram remembers: updates not confirmed, messages shown, everything recorded, faults due.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex},
};

use serde_json::Value;
use tokio::sync::watch;

use super::{super::server::lock, Call, Fault, FaultKind, Sent, api::Shown, media::Offered};

/// What the tests and the server share.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// Bumped when updates or polls come, so that a waiting poll looks again.
    pub(super) changed: watch::Sender<u64>,
}

/// Says what goes wrong with a call, by its method and its parameters.
pub(super) type Plan = Box<dyn FnMut(&str, &Value) -> Option<FaultKind> + Send>;

#[derive(Default)]
pub(super) struct State {
    pub(super) updates: VecDeque<Value>,
    again: Vec<Value>,
    pub(super) last_update_id: i64,
    last_message_ids: BTreeMap<i64, i64>,
    pub(super) messages: BTreeMap<(i64, i64), Shown>,
    /// The update kinds the bot asked for; empty is all.
    pub(super) allowed: Vec<String>,
    /// The address of the webhook; empty is none.
    pub(super) webhook: String,
    /// How often getUpdates was called, answered or not.
    pub(super) polls: u64,
    /// The newest poll that waits or waited; an older one that still waits is over.
    pub(super) poll: u64,
    pub(super) sent: Vec<Sent>,
    pub(super) calls: Vec<Call>,
    pub(super) faults: Vec<Fault>,
    pub(super) plan: Option<Plan>,
    pub(super) offered: Vec<Offered>,
    /// Sets of stickers, each with its emoji in order.
    pub(super) sticker_sets: Vec<(String, Vec<String>)>,
    /// What was said to each press of a button; nothing yet, or the empty text.
    pub(super) presses: BTreeMap<String, Option<String>>,
    /// The bot's reactions.
    pub(super) reactions: BTreeMap<(i64, i64), String>,
}

/// Counts the polls, for who waits for the first one.
#[derive(Clone)]
pub(in super::super) struct Polls(pub(super) Arc<Shared>);

impl Polls {
    /// Returns how often getUpdates was called.
    pub(in super::super) fn count(&self) -> u64 {
        lock(&self.0.state).polls
    }
}

impl Shared {
    /// Makes a waiting poll look again.
    pub(super) fn wake(&self) {
        self.changed.send_modify(|version| *version += 1);
    }

    /// Writes down how a recorded call was answered.
    pub(super) fn settle(&self, call: usize, status: u16) {
        // It may be forgotten by now.
        if let Some(call) = lock(&self.state).calls.get_mut(call) {
            call.status = status;
        }
    }
}

impl State {
    /// Returns the next id in a chat; users' and bot's messages share one count.
    pub(super) fn new_message_id(&mut self, chat_id: i64) -> i64 {
        let last = self.last_message_ids.entry(chat_id).or_insert(1000);
        *last += 1;
        *last
    }

    /// Returns whether anybody ever wrote in a chat.
    pub(super) fn knows(&self, chat_id: i64) -> bool {
        self.last_message_ids.contains_key(&chat_id)
    }

    /// Returns the fault that is due for a call; those that are about what a poll delivers wait for that.
    pub(super) fn due(&mut self, method: &str, params: &Value) -> Option<FaultKind> {
        match self.plan.as_mut().and_then(|plan| plan(method, params)) {
            Some(kind @ (FaultKind::DupUpdates | FaultKind::Backwards)) => {
                self.faults.push(Fault {
                    method: "getUpdates",
                    kind,
                    count: 1,
                });
                None
            }
            Some(kind) => Some(kind),
            None => self.take_fault(method, |kind| {
                !matches!(kind, FaultKind::DupUpdates | FaultKind::Backwards)
            }),
        }
    }

    /// Returns the fault that is due for `method` and uses it up once.
    pub(super) fn take_fault(
        &mut self,
        method: &str,
        wanted: impl Fn(FaultKind) -> bool,
    ) -> Option<FaultKind> {
        let fault = self.faults.iter_mut().find(|fault| {
            fault.count > 0
                && wanted(fault.kind)
                && (fault.method == "*" || fault.method.eq_ignore_ascii_case(method))
        })?;
        fault.count -= 1;
        Some(fault.kind)
    }

    /// Drops what a poll with `offset` confirms; a negative one keeps only that many of the newest.
    pub(super) fn confirm(&mut self, offset: i64) {
        let newest = usize::try_from(offset.saturating_neg()).unwrap_or_default();
        let first_kept = if newest > 0 {
            self.updates.len().saturating_sub(newest)
        } else {
            0
        };
        let mut confirmed: Vec<Value> = self.updates.drain(..first_kept).collect();
        let (below, kept) = self
            .updates
            .drain(..)
            .partition(|update| update["update_id"].as_i64() < Some(offset));
        self.updates = kept;
        confirmed.extend::<VecDeque<_>>(below);
        if !confirmed.is_empty()
            && self
                .take_fault("getUpdates", |kind| kind == FaultKind::DupUpdates)
                .is_some()
        {
            self.again.extend(confirmed);
        }
    }

    /// Returns the next updates of an allowed kind; the others are gone, as on the service.
    pub(super) fn batch(&mut self, limit: usize) -> Vec<Value> {
        let allowed = self.allowed.as_slice();
        let is_allowed = |update: &Value| {
            allowed.is_empty() || allowed.iter().any(|kind| update.get(kind).is_some())
        };
        self.updates.retain(is_allowed);
        let mut batch: Vec<Value> = self
            .again
            .drain(..)
            .chain(self.updates.iter().cloned())
            .take(limit)
            .collect();
        if batch.len() > 1
            && self
                .take_fault("getUpdates", |kind| kind == FaultKind::Backwards)
                .is_some()
        {
            batch.reverse();
        }
        batch
    }
}

//! Slots: at most `[agent] max_concurrent_runs` turns work at once. A turn that waits (for an approval, for a
//! sub-agent) lends its slot to others and reclaims it before it continues. Who gets a free one: `lanes::Lanes::next`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The slots of all turns.
#[derive(Debug, Clone, Default)]
pub(crate) struct Slots(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// Notified when the scheduler has something to decide.
    changed: Notify,
    /// Notified when a turn that reclaims its slot should look again.
    granted: Notify,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    turns: HashMap<u64, Turn>,
    /// Turns that reclaim their slot, the oldest first.
    reclaiming: VecDeque<u64>,
    next_id: u64,
}

#[derive(Debug, Default)]
struct Turn {
    holds: bool,
    /// How many of its calls wait.
    waits: usize,
}

/// The slot of one turn; dropping it ends its use, also when it is lent.
#[derive(Debug)]
pub(crate) struct Slot(Handle);

/// Names the slot of a turn to what waits within it.
#[derive(Debug, Clone)]
pub(crate) struct Handle {
    slots: Slots,
    id: u64,
}

/// A wait within a turn. The slot is lent while at least one lasts.
#[derive(Debug)]
pub(crate) struct Wait {
    handle: Handle,
    is_over: bool,
}

impl Slots {
    /// Takes a slot for a new turn. The caller has checked that one is free.
    pub(crate) fn take(&self) -> Slot {
        let mut state = self.0.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.used += 1;
        let turn = Turn {
            holds: true,
            waits: 0,
        };
        state.turns.insert(id, turn);
        Slot(Handle {
            slots: self.clone(),
            id,
        })
    }

    /// Returns how many slots are in use.
    pub(crate) fn used(&self) -> usize {
        self.0.state.lock().used
    }

    /// Gives free slots back to turns that reclaim theirs, before any new turn starts.
    pub(crate) fn give_back(&self, limit: usize) {
        let mut state = self.0.state.lock();
        while state.used < limit
            && let Some(id) = state.reclaiming.pop_front()
        {
            let reclaims = state
                .turns
                .get_mut(&id)
                .filter(|turn| !turn.holds && turn.waits == 0);
            if let Some(turn) = reclaims {
                turn.holds = true;
                state.used += 1;
            }
        }
        drop(state);
        self.0.granted.notify_waiters();
    }

    /// Waits until a slot was released, lent or reclaimed since the last call.
    pub(crate) async fn changed(&self) {
        self.0.changed.notified().await;
    }
}

impl Slot {
    /// Returns what lends it.
    pub(crate) fn handle(&self) -> Handle {
        self.0.clone()
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let Handle { slots, id } = &self.0;
        let mut state = slots.0.state.lock();
        if state.turns.remove(id).is_some_and(|turn| turn.holds) {
            state.used -= 1;
        }
        state.reclaiming.retain(|other| other != id);
        drop(state);
        slots.0.changed.notify_one();
        slots.0.granted.notify_waiters();
    }
}

impl Handle {
    /// Lends the slot until the wait ends.
    pub(crate) fn wait(&self) -> Wait {
        let mut state = self.slots.0.state.lock();
        let state = &mut *state;
        if let Some(turn) = state.turns.get_mut(&self.id) {
            turn.waits += 1;
            if std::mem::take(&mut turn.holds) {
                state.used -= 1;
            }
        }
        self.slots.0.changed.notify_one();
        self.slots.0.granted.notify_waiters();
        Wait {
            handle: self.clone(),
            is_over: false,
        }
    }

    /// Returns true while the turn waits.
    pub(crate) fn is_lent(&self) -> bool {
        let state = self.slots.0.state.lock();
        state.turns.get(&self.id).is_some_and(|turn| !turn.holds)
    }

    /// Asks for the slot; true when there is no need to wait for it.
    fn asks(&self) -> bool {
        let mut state = self.slots.0.state.lock();
        let lacks_slot = state.turns.get(&self.id).is_some_and(Turn::lacks_slot);
        if lacks_slot && !state.reclaiming.contains(&self.id) {
            state.reclaiming.push_back(self.id);
        }
        !lacks_slot
    }
}

impl Turn {
    /// Returns true when nothing of it waits any more and its slot is still lent.
    fn lacks_slot(&self) -> bool {
        self.waits == 0 && !self.holds
    }
}

impl Wait {
    /// Ends the wait. The last one of its turn waits for a slot; a scheduler that has ended gives none, and the
    /// turn ends with it.
    pub(crate) async fn reclaim(mut self) {
        self.end();
        let handle = self.handle.clone();
        loop {
            let granted = handle.slots.0.granted.notified();
            tokio::pin!(granted);
            granted.as_mut().enable();
            if handle.asks() {
                return;
            }
            handle.slots.0.changed.notify_one();
            granted.await;
        }
    }

    fn end(&mut self) {
        let mut state = self.handle.slots.0.state.lock();
        if let Some(turn) = state.turns.get_mut(&self.handle.id)
            && !std::mem::replace(&mut self.is_over, true)
        {
            turn.waits -= 1;
        }
    }
}

impl Drop for Wait {
    /// A wait that was given up takes the slot back at once, over the limit if it must: the turn continues, if
    /// only to end.
    fn drop(&mut self) {
        self.end();
        let mut state = self.handle.slots.0.state.lock();
        let state = &mut *state;
        if let Some(turn) = state.turns.get_mut(&self.handle.id)
            && turn.lacks_slot()
        {
            turn.holds = true;
            state.used += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Grants slots as the scheduler does, until it is dropped.
    fn scheduler(slots: &Slots, limit: usize) -> tokio_util::task::AbortOnDropHandle<()> {
        let slots = slots.clone();
        tokio_util::task::AbortOnDropHandle::new(tokio::spawn(async move {
            loop {
                slots.give_back(limit);
                slots.changed().await;
            }
        }))
    }

    async fn soon<T>(work: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout(Duration::from_millis(200), work)
            .await
            .ok()
    }

    #[tokio::test]
    async fn two_waits_that_end_at_once_reclaim_exactly_one_slot() {
        let slots = Slots::default();
        let _scheduler = scheduler(&slots, 1);
        let turn = slots.take();
        let (one, other) = (turn.handle().wait(), turn.handle().wait());
        assert_eq!(slots.used(), 0);
        tokio::join!(one.reclaim(), other.reclaim());
        assert_eq!((slots.used(), turn.handle().is_lent()), (1, false));
        drop(turn);
        assert_eq!(slots.used(), 0);
    }

    #[tokio::test]
    async fn a_parent_and_its_children_share_the_only_slot_without_blocking() {
        let slots = Slots::default();
        let _scheduler = scheduler(&slots, 1);
        let parent = slots.take();
        let first = parent.handle().wait();
        let child = slots.take();
        // The first child has ended, and its wait reclaims; the second call begins to wait meanwhile.
        let mut reclaim = Box::pin(first.reclaim());
        assert!(soon(&mut reclaim).await.is_none(), "the child has the slot");
        let second = parent.handle().wait();
        assert!(
            soon(&mut reclaim).await.is_some(),
            "the turn waits anyway: this call needs no slot"
        );
        drop(child);
        assert_eq!(slots.used(), 0, "the second child can start");
        let child = slots.take();
        drop(child);
        assert!(soon(second.reclaim()).await.is_some());
        assert_eq!(slots.used(), 1);
    }

    #[tokio::test]
    async fn whatever_is_dropped_gives_its_slot_back() {
        let slots = Slots::default();
        let turn = slots.take();
        let wait = turn.handle().wait();
        drop(wait);
        assert_eq!(slots.used(), 1, "a wait that was given up lends nothing");
        let wait = turn.handle().wait();
        let mut reclaim = Box::pin(wait.reclaim());
        assert!(soon(&mut reclaim).await.is_none(), "no scheduler");
        drop(turn);
        drop(reclaim);
        assert_eq!(slots.used(), 0);
    }
}

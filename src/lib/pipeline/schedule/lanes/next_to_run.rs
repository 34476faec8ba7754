//! Which lane runs next: the owner before other people, and both before events. The last free slot is for the owner, and no
//! other person has more than half of the slots.

use super::Lanes;
use crate::message::SessionKey;
use crate::pipeline::schedule::debounce::TurnInputs;
use crate::pipeline::schedule::slots::Slot;

impl Lanes {
    /// Returns the next turn and its slot while fewer than `limit` are in use; each session in its order, the owner before
    /// other people, people before events. Only the owner takes the last free place, unless there is only one, and
    /// another person has at most half of the places, for whoever writes in many chats at once. With `collect`
    /// everything of one person that waits in the lane is one turn.
    pub(in crate::pipeline::schedule) fn next(
        &mut self,
        limit: usize,
        collect: bool,
    ) -> Option<(TurnInputs, Slot)> {
        let free = limit.saturating_sub(self.slots.used());
        if free == 0 {
            return None;
        }
        // Also when an event stands before the person in their own lane.
        let of_owner = |key: &SessionKey| {
            self.behind(key)
                .any(|inputs| inputs.leader().source.is_person() && inputs.leader().from_owner)
        };
        let owner = self.round.iter().position(of_owner);
        let at = owner.or_else(|| {
            let may = free > 1 || limit == 1;
            may.then(|| self.next_of_others((limit / 2).max(1)))?
        })?;
        let key = self.round.remove(at)?;
        let lane = self.waiting.get_mut(&key)?;
        let mut inputs = lane.pop_front()?;
        while collect && let Some(more) = lane.pop_front() {
            if let Err(other) = inputs.join(more) {
                lane.push_front(other);
                break;
            }
        }
        self.running.insert(key, guest(&inputs));
        Some((inputs, self.slots.take()))
    }

    /// Returns where the lane stands whose turn is next when none of the owner's waits; no guest runs more than `most`.
    fn next_of_others(&self, most: usize) -> Option<usize> {
        let is_free = |key: &SessionKey| {
            let first = self.behind(key).next().and_then(guest);
            let running = self.running.values().flatten();
            first.is_none_or(|first| running.filter(|other| **other == first).count() < most)
        };
        let is_person = |key: &SessionKey| {
            self.behind(key)
                .any(|inputs| inputs.leader().source.is_person())
        };
        let person = self
            .round
            .iter()
            .position(|key| is_person(key) && is_free(key));
        person.or_else(|| self.round.iter().position(is_free))
    }
}

/// Returns who writes, when that is a person and not the owner.
fn guest(inputs: &TurnInputs) -> Option<String> {
    let leader = inputs.leader();
    let is_guest = leader.source.is_person() && !leader.from_owner;
    is_guest.then(|| leader.sender.id.clone())
}

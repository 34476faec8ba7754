//! Which lane runs next: people before events, an event never in the last free place.

use super::Lanes;
use crate::message::SessionKey;
use crate::pipeline::schedule::debounce::Bundle;
use crate::pipeline::schedule::slots::Slot;

impl Lanes {
    /// Returns the next turn and its slot while fewer than `limit` are in use; each session in its order, people
    /// before events. An event never takes the last free place, unless there is only one. With
    /// `collect` everything of one person that waits in the lane is one turn.
    pub(in crate::pipeline::schedule) fn next(
        &mut self,
        limit: usize,
        collect: bool,
    ) -> Option<(Bundle, Slot)> {
        let free = limit.saturating_sub(self.slots.used());
        if free == 0 {
            return None;
        }
        // Also when an event stands before the person in their own lane.
        let of_person = |key: &SessionKey| {
            self.waiting
                .get(key)
                .is_some_and(|lane| lane.iter().any(|bundle| bundle.leader().source.is_person()))
        };
        let person = self.round.iter().position(of_person);
        let at = person.or_else(|| (free > 1 || limit == 1).then_some(0))?;
        let key = self.round.remove(at)?;
        let lane = self.waiting.get_mut(&key)?;
        let mut bundle = lane.pop_front()?;
        while collect && let Some(more) = lane.pop_front() {
            if let Err(other) = bundle.join(more) {
                lane.push_front(other);
                break;
            }
        }
        self.running.insert(key);
        Some((bundle, self.slots.take()))
    }
}

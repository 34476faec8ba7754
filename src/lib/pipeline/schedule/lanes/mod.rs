//! Pure bookkeeping of lanes and of turns that are suspended.

mod next_to_run;

use std::collections::{HashMap, HashSet, VecDeque};

use tokio::time::Instant;

use super::debounce::{TurnInputs, is_chat_message};
use super::slots::Slots;
use crate::clock::Alarm;
use crate::message::SessionKey;
use crate::queue::WaitsOn;

/// The lanes.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    waiting: HashMap<SessionKey, VecDeque<TurnInputs>>,
    /// Sessions with waiting inputs, in the order of their next turn.
    round: VecDeque<SessionKey>,
    /// Sessions whose turn runs, each with whom it answers unless that is the owner or nobody.
    running: HashMap<SessionKey, Option<String>>,
    /// Turns that are suspended, one a lane: it stands before all others of its lane.
    suspended: HashMap<SessionKey, Sleeper>,
    /// Who tries a model for all that wait for it.
    probes: HashMap<String, SessionKey>,
    /// Lanes in which a command runs ahead of the turn that waits.
    ahead: HashSet<SessionKey>,
    /// Lanes that were woken while their turn ran: that it is suspended may not be known yet.
    woken: HashSet<SessionKey>,
    slots: Slots,
}

#[derive(Debug)]
struct Sleeper {
    inputs: TurnInputs,
    wake: Alarm,
}

impl Sleeper {
    fn on(&self) -> &WaitsOn {
        self.inputs
            .suspended()
            .map_or(&WaitsOn::Time, |suspended| &suspended.on)
    }

    fn model(&self) -> Option<&str> {
        match self.on() {
            WaitsOn::Model(model) => Some(model),
            WaitsOn::Time | WaitsOn::Budget | WaitsOn::Settings => None,
        }
    }

    /// Who was tried least goes first, so that a message that fails by itself is not the only probe.
    fn order(&self) -> (u32, i64) {
        let tries = self.inputs.suspended().map_or(0, |known| known.tries);
        (tries, self.inputs.seq())
    }
}

impl Lanes {
    /// Returns the slots of turns that run.
    pub(super) fn slots(&self) -> Slots {
        self.slots.clone()
    }

    /// Adds a turn to its lane.
    pub(super) fn push(&mut self, inputs: TurnInputs) {
        let key = inputs.key().clone();
        let lane = self.waiting.entry(key.clone()).or_default();
        if self.suspended.contains_key(&key) {
            // Another model may answer what waits for this one.
            if inputs.is_choice() {
                lane.push_front(inputs);
                self.ahead.insert(key.clone());
                self.enter_round(key);
            } else {
                lane.push_back(inputs);
            }
            return;
        }
        lane.push_back(inputs);
        if lane.len() == 1 {
            self.enter_round(key);
        }
    }

    fn enter_round(&mut self, key: SessionKey) {
        if !self.running.contains_key(&key) && !self.round.contains(&key) {
            self.round.push_back(key);
        }
    }

    /// Returns true while a turn of the lane runs or waits.
    pub(super) fn is_busy(&self, key: &SessionKey) -> bool {
        self.running.contains_key(key) || self.suspended.contains_key(key)
    }

    /// Returns true when a newer message waits behind the turn of `key` that starts.
    pub(super) fn is_superseded(&self, key: &SessionKey) -> bool {
        let lane = self.waiting.get(key);
        lane.is_some_and(|lane| lane.iter().any(|inputs| is_chat_message(inputs.leader())))
    }

    /// Returns the turn of the lane that is suspended.
    pub(super) fn suspended(&self, key: &SessionKey) -> Option<&TurnInputs> {
        self.suspended.get(key).map(|sleeper| &sleeper.inputs)
    }

    /// Returns the first message of a person that waits in a lane, but for a choice of the model, which goes ahead.
    pub(super) fn first_person(&self, key: &SessionKey) -> Option<&TurnInputs> {
        self.behind(key)
            .find(|inputs| inputs.leader().source.is_person() && !inputs.is_choice())
    }

    /// Returns what waits in a lane.
    pub(super) fn behind(&self, key: &SessionKey) -> impl Iterator<Item = &TurnInputs> {
        self.waiting.get(key).into_iter().flatten()
    }

    /// Frees a lane whose turn ended, or was suspended.
    pub(super) fn ended(&mut self, key: &SessionKey) {
        self.running.remove(key);
        self.woken.remove(key);
        self.probes.retain(|_, probe| probe != key);
        if self.suspended.contains_key(key) {
            if self.ahead.remove(key) {
                self.wake(key);
            } else if let Some(choice) = self.take_choice(key) {
                self.push(choice);
            }
            return;
        }
        match self.waiting.get(key) {
            Some(lane) if !lane.is_empty() => self.round.push_back(key.clone()),
            _ => {
                self.waiting.remove(key);
            }
        }
    }

    /// Takes a `/model` out of a lane that came while the turn before it ran.
    fn take_choice(&mut self, key: &SessionKey) -> Option<TurnInputs> {
        let lane = self.waiting.get_mut(key)?;
        let at = lane.iter().position(TurnInputs::is_choice)?;
        lane.remove(at)
    }

    /// Lets the lane of `inputs` wait until `wake`. In a lane that waits already they are behind what it waits with, as any
    /// other turn: a crash may have broken off a choice of the model that ran ahead.
    pub(super) fn suspend(&mut self, inputs: TurnInputs, wake: Alarm) {
        if self.suspended.contains_key(inputs.key()) {
            return self.push(inputs);
        }
        let key = inputs.key().clone();
        self.probes.retain(|_, probe| *probe != key);
        self.round.retain(|other| *other != key);
        let sleeper = Sleeper { inputs, wake };
        // What one found out of a model holds for all that wait for it.
        if let Some(model) = sleeper.model() {
            let others = self
                .suspended
                .values_mut()
                .filter(|other| other.model() == Some(model));
            others.for_each(|other| other.wake = other.wake.or_later(wake));
        }
        self.suspended.insert(key.clone(), sleeper);
        if self.woken.remove(&key) {
            self.wake(&key);
        }
    }

    /// Lets the suspended turn of a lane continue now, if there is one; also one that runs and is about to be suspended.
    pub(super) fn wake(&mut self, key: &SessionKey) {
        if let Some(sleeper) = self.suspended.remove(key) {
            let lane = self.waiting.entry(key.clone()).or_default();
            lane.push_front(sleeper.inputs);
            self.enter_round(key.clone());
        } else if self.running.contains_key(key) {
            self.woken.insert(key.clone());
        }
    }

    /// Wakes the turns whose time has come at `now`, one a model, and all whose model `answers`.
    pub(super) fn wake_due(&mut self, now: Instant, answers: &dyn Fn(&str) -> bool) {
        let mut sleepers: Vec<&Sleeper> = self.suspended.values().collect();
        sleepers.sort_by_key(|sleeper| sleeper.order());
        let mut woken = Vec::new();
        for sleeper in sleepers {
            let key = sleeper.inputs.key();
            let is_due = sleeper.wake.has_come(now);
            let wakes = match sleeper.model() {
                None => is_due,
                Some(model) if answers(model) => true,
                Some(model) => {
                    let probes = is_due && !self.probes.contains_key(model);
                    if probes {
                        self.probes.insert(model.to_owned(), key.clone());
                    }
                    probes
                }
            };
            if wakes {
                woken.push(key.clone());
            }
        }
        woken.iter().for_each(|key| self.wake(key));
    }

    /// Returns true while a turn is suspended.
    pub(super) fn somebody_waits(&self) -> bool {
        !self.suspended.is_empty()
    }

    /// Returns when the next suspended turn may be woken, on a machine that stays awake.
    pub(super) fn due(&self) -> Option<Instant> {
        let may_wake = |sleeper: &&Sleeper| {
            sleeper
                .model()
                .is_none_or(|model| !self.probes.contains_key(model))
        };
        let due = self.suspended.values().filter(may_wake);
        due.map(|sleeper| sleeper.wake.instant()).min()
    }

    /// Wakes what waits for money that others had reserved.
    pub(super) fn budget_changed(&mut self) {
        self.wake_all(|on| *on == WaitsOn::Budget);
    }

    /// Wakes what new settings may help.
    pub(super) fn settings_changed(&mut self) {
        self.wake_all(|on| *on != WaitsOn::Time);
    }

    fn wake_all(&mut self, which: impl Fn(&WaitsOn) -> bool) {
        let mut woken: Vec<(i64, SessionKey)> = self
            .suspended
            .values()
            .filter(|sleeper| which(sleeper.on()))
            .map(|sleeper| (sleeper.inputs.seq(), sleeper.inputs.key().clone()))
            .collect();
        woken.sort();
        woken.iter().for_each(|(_, key)| self.wake(key));
    }
}

#[cfg(test)]
mod tests;

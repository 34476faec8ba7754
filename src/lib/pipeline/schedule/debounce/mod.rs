//! Between intake and lanes: messages that belong together become one turn.
//!
//! | what | waits for more | joined how |
//! |---|---|---|
//! | an album | 500 ms after its last picture | its files in one message |
//! | a text that the app cut at its limit | 1.5 s after a full piece | seamlessly; between words by a line end |
//! | short messages in a row | `[pipeline] debounce_ms` after the last, at most 5 s | line by line |
//!
//! All messages were accepted before: those that wait here are in the queue, and wait here again after a crash. Commands and
//! inputs with a waiting caller do not wait.

use std::collections::HashMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::message::{Command, Envelope, SessionKey};
use crate::queue::{Accepted, Deaths, Suspended};

/// How long after its last picture an album is taken for whole (specification §5).
const ALBUM: Duration = Duration::from_millis(500);
/// How long after a full piece of text the next one may come (specification §5).
const FRAGMENT: Duration = Duration::from_millis(1500);
/// What a piece has that the app cut off, UTF-16 units: it cuts at 4096, between words.
const FULL: std::ops::RangeInclusive<usize> = 4000..=4096;
/// The longest that short messages wait for each other (specification §5).
const PATIENCE: Duration = Duration::from_secs(5);
/// The most messages and characters of one turn (specification §5).
const MOST: (usize, usize) = (12, 50_000);

/// Inputs that are one turn, at least one, in the order in which they came.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TurnInputs(Vec<Accepted>);

impl TurnInputs {
    /// Returns a turn of one input.
    pub(crate) fn of(row: Accepted) -> Self {
        Self(vec![row])
    }

    /// Sorts what a crash left: inputs of a run that had begun stay together, the rest is new.
    pub(crate) fn recovered(rows: Vec<Accepted>) -> (Vec<Self>, Vec<Accepted>) {
        let mut begun: Vec<Self> = Vec::new();
        let mut rest = Vec::new();
        for row in rows {
            let run = begun
                .iter_mut()
                .find(|inputs| inputs.last().run_id == row.run_id);
            match (&row.run_id, run) {
                (None, _) => rest.push(row),
                (Some(_), Some(inputs)) => inputs.0.push(row),
                (Some(_), None) => begun.push(Self::of(row)),
            }
        }
        (begun, rest)
    }

    /// Returns the run that was begun for it before the daemon last ended.
    pub(crate) fn run_id(&self) -> Option<&str> {
        self.0.iter().find_map(|row| row.run_id.as_deref())
    }

    /// Returns when the first and the last of it were taken, milliseconds since 1970 UTC.
    pub(crate) fn received(&self) -> (i64, i64) {
        (self.leader().received_at, self.last().envelope.received_at)
    }

    /// Returns the input whose id, sender and place stand for all.
    pub(crate) fn leader(&self) -> &Envelope {
        &self.0.first().expect("a inputs is never empty").envelope
    }

    /// Returns the input that came last.
    pub(crate) fn newest(&self) -> &Envelope {
        &self.last().envelope
    }

    fn last(&self) -> &Accepted {
        self.0.last().expect("a inputs is never empty")
    }

    /// Returns the conversation.
    pub(crate) fn key(&self) -> &SessionKey {
        &self.leader().session_key
    }

    /// Returns true when a turn of it was begun before, also one that a restart broke off in good order.
    pub(crate) fn has_begun(&self) -> bool {
        self.0
            .iter()
            .any(|row| row.run_id.is_some() || row.attempts > 0)
    }

    /// Returns what it waits for, or last waited for.
    pub(crate) fn suspended(&self) -> Option<&Suspended> {
        self.0.iter().find_map(|row| row.suspended.as_ref())
    }

    /// Returns the time at which it continues, milliseconds since 1970 UTC; `None` = it is not suspended.
    pub(crate) fn wake_at(&self) -> Option<i64> {
        self.0.iter().filter_map(|row| row.wake_at).max()
    }

    /// Returns it as one that is suspended.
    pub(crate) fn suspended_as(mut self, run_id: &str, suspended: &Suspended) -> Self {
        for row in &mut self.0 {
            row.run_id = Some(run_id.to_owned());
            row.wake_at = Some(suspended.wake_at);
            row.suspended = Some(suspended.clone());
        }
        self
    }

    /// Returns how often it died with the daemon.
    pub(crate) fn deaths(&self) -> Deaths {
        let most = self.0.iter().max_by_key(|row| row.deaths.count);
        most.map(|row| row.deaths).unwrap_or_default()
    }

    /// Returns the order of its arrival.
    pub(crate) fn seq(&self) -> i64 {
        self.0.first().map_or(0, |row| row.seq)
    }

    /// Returns the ids of its inputs.
    pub(crate) fn ids(&self) -> Vec<String> {
        self.0.iter().map(|row| row.envelope.id.clone()).collect()
    }

    /// Returns true when all of it was accepted before input `seq`.
    pub(crate) fn came_before(&self, seq: i64) -> bool {
        self.0.iter().all(|row| row.seq < seq)
    }

    /// Returns true for a choice of the model.
    pub(crate) fn is_choice(&self) -> bool {
        matches!(self.leader().command, Some(Command::Model { .. }))
    }

    /// Returns the inputs.
    pub(crate) fn envelopes(&self) -> impl Iterator<Item = &Envelope> {
        self.0.iter().map(|row| &row.envelope)
    }

    /// Returns it as a message that says `words`, and no command.
    pub(crate) fn saying(mut self, words: &str) -> Self {
        for row in &mut self.0 {
            row.envelope.command = None;
            words.clone_into(&mut row.envelope.text);
        }
        self
    }

    /// Leaves only the inputs of these ids; `None` when that is none.
    pub(crate) fn only(mut self, ids: &[String]) -> Option<Self> {
        self.0.retain(|row| ids.contains(&row.envelope.id));
        (!self.0.is_empty()).then_some(self)
    }

    /// Adds `other`, which waits in the same lane, when both are the same person's words in one
    /// place; else it is given back.
    pub(crate) fn join(&mut self, other: Self) -> Result<(), Self> {
        let fits = self.0.len() + other.0.len() <= MOST.0 && self.chars() + other.chars() <= MOST.1;
        let is_new = |inputs: &Self| inputs.0.iter().all(|row| row.run_id.is_none());
        if !fits || !is_new(self) || !is_new(&other) || !go_together(self.leader(), other.leader())
        {
            return Err(other);
        }
        self.0.extend(other.0);
        Ok(())
    }

    fn chars(&self) -> usize {
        self.envelopes()
            .map(|envelope| envelope.text.chars().count())
            .sum()
    }

    /// Returns the messages as the model is to read them: the pieces of one text are one, an album is
    /// one, and plain words in a row are the lines of one.
    pub(crate) fn messages(&self) -> Vec<Envelope> {
        let mut messages: Vec<Envelope> = Vec::with_capacity(self.0.len());
        let mut before: Option<&Envelope> = None;
        for next in self.envelopes() {
            match (messages.last_mut(), before) {
                (Some(whole), Some(piece)) if goes_on(piece, next) => {
                    add_rest(&mut whole.text, &piece.text, &next.text)
                }
                (Some(whole), Some(item)) if next.album.is_some() && item.album == next.album => {
                    whole.media.extend(next.media.iter().cloned());
                    add_line(&mut whole.text, &next.text);
                }
                (Some(whole), Some(line))
                    if is_plain(line) && is_plain(next) && whose(line) == whose(next) =>
                {
                    add_line(&mut whole.text, &next.text);
                }
                _ => messages.push(next.clone()),
            }
            before = Some(next);
        }
        messages
    }
}

/// Adds the `rest` of a text to its whole, which ends with `piece`. An app that cuts between words sends neither piece with
/// what was there: a blank or a line end, nobody can tell which. One that found none cuts at the limit.
fn add_rest(whole: &mut String, piece: &str, rest: &str) {
    let is_hard = piece.encode_utf16().count() >= *FULL.end();
    let is_open = piece.ends_with(char::is_whitespace) || rest.starts_with(char::is_whitespace);
    if !is_hard && !is_open {
        whole.push('\n');
    }
    whole.push_str(rest);
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() && !line.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

/// Returns true for words and nothing else.
fn is_plain(envelope: &Envelope) -> bool {
    let Envelope {
        media,
        attachments,
        kind,
        quoted,
        edited,
        ..
    } = envelope;
    media.is_empty() && attachments.is_empty() && kind.is_none() && quoted.is_none() && !edited
}

/// Returns what tells words of one origin from words of another.
fn whose(envelope: &Envelope) -> (crate::message::Trust, Option<&str>) {
    (envelope.trust, envelope.forwarded_from.as_deref())
}

/// Returns true for a message of a person in a chat, for the model: in plan mode a newer one of these takes its place.
pub(crate) fn is_chat_message(envelope: &Envelope) -> bool {
    envelope.source.is_person()
        && envelope.reply_to.is_some()
        && !envelope.wants_reply
        && envelope.command.is_none()
}

/// Returns true when both may be parts of one turn.
pub(crate) fn go_together(one: &Envelope, other: &Envelope) -> bool {
    let place = |envelope: &Envelope| {
        (
            envelope.session_key.clone(),
            envelope.sender.id.clone(),
            envelope.route.clone(),
        )
    };
    is_chat_message(one) && is_chat_message(other) && place(one) == place(other)
}

/// Returns true when `next` is the rest of the text that `piece` begins.
fn goes_on(piece: &Envelope, next: &Envelope) -> bool {
    let number = |envelope: &Envelope| {
        envelope
            .reply_to
            .as_deref()
            .and_then(|id| id.parse::<i64>().ok())
    };
    let consecutive = number(piece)
        .zip(number(next))
        .is_some_and(|(one, other)| other == one + 1);
    let gap = next.received_at - piece.received_at;
    is_full(piece)
        && is_plain(next)
        && whose(piece) == whose(next)
        && consecutive
        && (0..=FRAGMENT.as_millis()).contains(&u128::try_from(gap).unwrap_or(u128::MAX))
}

fn is_full(envelope: &Envelope) -> bool {
    envelope.quoted.is_none()
        && envelope.media.is_empty()
        && FULL.contains(&envelope.text.encode_utf16().count())
}

/// What waits for more, at most one turn a session.
#[derive(Debug, Default)]
pub(crate) struct Gather {
    open: HashMap<SessionKey, Open>,
}

#[derive(Debug)]
struct Open {
    inputs: TurnInputs,
    since: Instant,
    until: Instant,
}

impl Gather {
    /// Takes an input in and returns what need not wait any more, in order.
    pub(crate) fn push(
        &mut self,
        row: Accepted,
        debounce: Duration,
        now: Instant,
    ) -> Vec<TurnInputs> {
        let mut ready = Vec::new();
        let open = self.open.remove(&row.envelope.session_key);
        let (inputs, since) = match open {
            None => (TurnInputs::of(row), now),
            Some(Open {
                mut inputs, since, ..
            }) => {
                let of_one_text = goes_on(&inputs.last().envelope, &row.envelope);
                let album = row.envelope.album.is_some()
                    && inputs.last().envelope.album == row.envelope.album;
                let in_a_row = !debounce.is_zero() && now < since + PATIENCE;
                if of_one_text || album || in_a_row {
                    if let Err(other) = inputs.join(TurnInputs::of(row)) {
                        ready.push(std::mem::replace(&mut inputs, other));
                    }
                } else {
                    ready.push(std::mem::replace(&mut inputs, TurnInputs::of(row)));
                }
                let since = if ready.is_empty() { since } else { now };
                (inputs, since)
            }
        };
        match wait(&inputs, debounce, since + PATIENCE - now.max(since)) {
            Some(wait) => {
                self.open.insert(
                    inputs.key().clone(),
                    Open {
                        inputs,
                        since,
                        until: now + wait,
                    },
                );
            }
            None => ready.push(inputs),
        }
        ready
    }

    /// Returns true when something of a conversation waits for more.
    pub(crate) fn waits(&self, key: &SessionKey) -> bool {
        self.open.contains_key(key)
    }

    /// Returns when something need not wait any more.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.open.values().map(|open| open.until).min()
    }

    /// Returns what need not wait any more.
    pub(crate) fn ready(&mut self, now: Instant) -> Vec<TurnInputs> {
        self.open
            .extract_if(|_, open| open.until <= now)
            .map(|(_, open)| open.inputs)
            .collect()
    }
}

/// Returns how long more may come after the last input of `inputs`; `None` when nothing will.
fn wait(inputs: &TurnInputs, debounce: Duration, patience: Duration) -> Option<Duration> {
    let last = &inputs.last().envelope;
    let again = inputs.last().run_id.is_some();
    if again || !is_chat_message(last) || inputs.0.len() >= MOST.0 {
        None
    } else if last.album.is_some() {
        Some(ALBUM)
    } else if is_full(last) {
        Some(FRAGMENT)
    } else {
        Some(debounce.min(patience)).filter(|wait| !wait.is_zero() && last.media.is_empty())
    }
}

#[cfg(test)]
mod tests;

//! Pairing: the codes that let people in. A stranger's code is created when they first write, and approved by the owner; the
//! owner code makes its sender an owner. Both expire, and the numbers of open codes and attempts are limited.

use serde::{Deserialize, Serialize};

use super::{Access, People, Person};
use crate::message::Address;
use crate::text;

/// Letters of a code: none that looks like another.
pub(super) const ALPHABET: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";
/// Length and life of a stranger's code (specification §6).
const CODE: (usize, i64) = (8, 3_600_000);
/// Length and life of the owner code (specification §6).
pub(super) const OWNER_CODE: (usize, i64) = (16, 600_000);
/// Requests of one server of a channel that may wait, and wrong owner codes that are allowed (specification §6). A channel
/// whose ids name no servers is one.
pub(super) const MAX_PENDING: usize = 3;
pub(super) const MAX_TRIES: u32 = 5;
/// And requests of all servers of a channel: who has one may name as many people there as they like, and is not to keep out
/// everybody else; but neither is everybody to be answered.
const MAX_PENDING_IN_ALL: usize = 4 * MAX_PENDING;
/// Somebody who asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pending {
    /// What the owner approves.
    pub code: String,
    /// The person.
    pub id: Address,
    /// What they call themselves.
    pub name: String,
    /// When they asked, milliseconds since 1970 UTC.
    pub at: i64,
}

/// A code that makes its sender an owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OwnerCode {
    /// The code.
    pub code: String,
    /// When it was made, milliseconds since 1970 UTC.
    pub at: i64,
    /// Wrong codes so far.
    pub tries: u32,
}

impl Pending {
    /// Returns true while the code can be approved.
    pub(super) fn is_in_force(&self, now: i64) -> bool {
        now - self.at < CODE.1
    }
}

impl OwnerCode {
    fn is_in_force(&self, now: i64) -> bool {
        now - self.at < OWNER_CODE.1 && self.tries < MAX_TRIES
    }
}

impl People {
    /// Returns whether one more stranger, `id`, may be given a code beside those who wait and those who are `asking` now:
    /// those of one channel, or of one server of it, do not keep out those of another.
    pub fn is_room_for<'a>(
        &self,
        id: &Address,
        asking: impl IntoIterator<Item = &'a Address>,
        now: i64,
    ) -> bool {
        let (mut of_server, mut in_all) = (0, 0);
        let mut count = |one: &Address| {
            if one.channel() == id.channel() {
                in_all += 1;
                of_server += usize::from(server_of(one) == server_of(id));
            }
        };
        let waiting = self.pending.iter().filter(|one| one.is_in_force(now));
        waiting.for_each(|one| count(&one.id));
        asking.into_iter().for_each(count);
        of_server < MAX_PENDING && in_all < MAX_PENDING_IN_ALL
    }

    /// Lets the person with this code in; `None` when no such request waits.
    pub fn approve(&mut self, code: &str, now: i64) -> Option<Person> {
        self.pending.retain(|pending| pending.is_in_force(now));
        let at = self
            .pending
            .iter()
            .position(|pending| pending.code.eq_ignore_ascii_case(code.trim()))?;
        let pending = self.pending.remove(at);
        let person = Person {
            id: pending.id,
            name: pending.name,
            since: now,
        };
        self.allowed.retain(|other| other.id != person.id);
        self.unlink(&person.id, false);
        self.allowed.push(person.clone());
        Some(person)
    }

    /// Makes a new owner code; the one before is void.
    pub fn new_owner_code(&mut self, now: i64) -> String {
        let code = random_code(OWNER_CODE.0);
        self.owner_code = Some(OwnerCode {
            code: code.clone(),
            at: now,
            tries: 0,
        });
        code
    }

    /// Returns what it means that somebody sent `text`, when it has the form of an owner code and one is in force.
    pub(super) fn owner_code_in(&self, text: &str, now: i64) -> Option<Access> {
        let code = self
            .owner_code
            .as_ref()
            .filter(|code| code.is_in_force(now))?;
        if code.code == as_code(text) {
            return Some(Access::SentOwnerCode);
        }
        is_code(text.trim()).then_some(Access::SentWrongCode)
    }

    /// Takes an owner code that `id` sent, see [`super::Store::redeem`].
    pub fn redeem(&mut self, id: &Address, name: &str, text: &str, now: i64) -> bool {
        let in_force = self
            .owner_code
            .as_mut()
            .filter(|code| code.is_in_force(now));
        let Some(code) = in_force else {
            return false;
        };
        if code.code != as_code(text) {
            code.tries += 1;
            return false;
        }
        self.owner_code = None;
        self.pending.retain(|pending| pending.id != *id);
        // Neither does an owner count as a guest, nor what a guest linked as an owner.
        self.unlink(id, true);
        self.owners.push(Person {
            id: id.clone(),
            name: name.to_owned(),
            since: now,
        });
        true
    }

    pub(super) fn ask(&mut self, id: &Address, name: &str, code: &str, now: i64) {
        self.pending
            .retain(|pending| pending.is_in_force(now) && pending.id != *id);
        let name = text::shorten(&text::visible(name), 64);
        self.pending.push(Pending {
            code: code.to_owned(),
            id: id.clone(),
            name,
            at: now,
        });
    }
}

/// Returns the server that an id names: `ada@example.org`, `@ada:example.org`; none for a number.
fn server_of(id: &Address) -> Option<String> {
    let id = id.id();
    let (_, server) = id.trim_start_matches('@').split_once(['@', ':'])?;
    Some(server.to_owned())
}

/// Returns a new code for somebody who asks; 40 random bits, so that two never meet.
pub fn new_code() -> String {
    random_code(CODE.0)
}

/// Returns the code that `text` may be, as it was printed: telephones write small letters, blanks and full stops.
pub(super) fn as_code(text: &str) -> String {
    let is_mark = |c: &char| !c.is_whitespace() && !c.is_ascii_punctuation();
    text.chars()
        .filter(is_mark)
        .collect::<String>()
        .to_ascii_uppercase()
}

/// Returns true when `text` has the form of an owner code or of one that links accounts.
fn is_code(text: &str) -> bool {
    text.len() == OWNER_CODE.0 && text.bytes().all(|byte| ALPHABET.contains(&byte))
}

/// Five random bits a letter, from the operating system's generator.
pub(super) fn random_code(length: usize) -> String {
    let mut letters = String::with_capacity(length);
    while letters.len() < length {
        // Of a version 4 UUID the first six bytes are random in every bit.
        for byte in uuid::Uuid::new_v4().as_bytes().iter().take(6) {
            let letter = ALPHABET
                .get(usize::from(byte & 31))
                .copied()
                .unwrap_or(b'2');
            letters.push(char::from(letter));
        }
    }
    letters.truncate(length);
    letters
}

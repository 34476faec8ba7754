//! Who may talk to the agent: `people.json`, written under its lock by the daemon (new requests)
//! and by `agent-send --pair` (the owner's answers), re-read when it changed.
//!
//! A stranger gets one code; the owner approves it in a terminal. Who sends the owner code, which
//! is printed in a terminal, *to* the bot becomes an owner. A damaged file is set aside: then only
//! those in `agent.toml` may talk, and strangers may ask again.
//!
//! It is also the address book: whoever was let in and wrote is known by name from then on.

use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::config;
use crate::config::{Config, DmPolicy, GroupRules, Members};
use crate::message::Address;
use crate::sys;
use crate::sys::{atomic, lock};

/// Letters of a code: none that looks like another.
const ALPHABET: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";
/// Length and life of a stranger's code (specification §6).
const CODE: (usize, i64) = (8, 3_600_000);
/// Length and life of the owner code (specification §6).
const OWNER_CODE: (usize, i64) = (16, 600_000);
/// Requests of one channel that may wait, and wrong owner codes that are allowed (specification §6).
const MAX_PENDING: usize = 3;
const MAX_TRIES: u32 = 5;
/// Strangers of one channel in the address book; where everybody may write, anybody could fill it.
const MAX_STRANGERS: usize = 1_000;

/// What is known of people.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct People {
    /// Who has several ids, as the settings say; not part of the file.
    #[serde(skip)]
    pub(crate) links: config::Session,
    v: u32,
    /// Those the owner let in.
    pub allowed: Vec<Person>,
    /// Those who sent the owner code.
    pub owners: Vec<Person>,
    /// Those who wait.
    pub pending: Vec<Pending>,
    /// The owner code in force.
    pub owner_code: Option<OwnerCode>,
    /// Those who were let in and wrote: the address book.
    pub contacts: Vec<Contact>,
    /// Those who are refused, whatever lets them in otherwise; owners never are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<Address>,
    /// Those who are heard in groups and answered nowhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub muted: Vec<Address>,
}

/// Somebody who can be written to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// The chat; of a private one it is the person's.
    pub id: Address,
    /// What they call themselves.
    pub name: String,
    /// Their @username, without the @.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
}

impl Contact {
    /// Returns true when `who` means this contact: the numeric id, the @username or the name, in any
    /// letter case.
    pub fn is(&self, who: &str) -> bool {
        let same = |name: &str, who: &str| name.to_lowercase() == who.to_lowercase();
        let username = |who: &str| self.username.as_ref().is_some_and(|name| same(name, who));
        match who.strip_prefix('@') {
            Some(name) => username(name),
            None => who == self.id.to_string() || same(&self.name, who) || username(who),
        }
    }
}

/// Somebody who may talk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Person {
    /// The person.
    pub id: Address,
    /// What they call themselves.
    pub name: String,
    /// Since when, milliseconds since 1970 UTC.
    pub since: i64,
}

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

impl OwnerCode {
    fn is_in_force(&self, now: i64) -> bool {
        now - self.at < OWNER_CODE.1 && self.tries < MAX_TRIES
    }
}

/// What a sender may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    /// Everything.
    Owner,
    /// Talk.
    Allowed,
    /// Be heard as part of a group's talk, without an answer.
    Muted,
    /// Nothing; they may be given a code with [`Store::ask`].
    MayAsk,
    /// They sent the owner code; [`Store::redeem`] makes them an owner.
    SentOwnerCode,
    /// They sent a wrong owner code, which [`Store::redeem`] counts.
    SentWrongCode,
    /// Nothing, silently.
    Refused,
}

/// `people.json` in the hands of one process.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    cached: Mutex<Cached>,
}

#[derive(Debug, Default)]
struct Cached {
    version: Option<Version>,
    /// `None` until it was read for the first time.
    people: Option<Arc<People>>,
}

/// What changes when the file does. The time alone does not: two writes may share a tick.
type Version = (SystemTime, u64);

impl Store {
    /// Returns the store of the file at `path`, which need not exist.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            cached: Mutex::default(),
        }
    }

    /// Returns what is known now; it is read once for each change of the file. While it cannot be read, what was
    /// known before holds: nobody's message is refused because the disk did not answer for a moment.
    ///
    /// # Errors
    /// When the file could not be read yet; a damaged one is set aside and counts as empty: nobody that
    /// was let in by it is in any more.
    pub fn read(&self) -> Result<Arc<People>, sys::Error> {
        let version = self.version();
        let mut cached = self.cached.lock();
        if let Some(people) = &cached.people
            && version.is_some()
            && cached.version == version
        {
            return Ok(people.clone());
        }
        match (atomic::read_json(&self.path), &cached.people) {
            (Ok(people), _) => {
                let people: Arc<People> = Arc::new(people.unwrap_or_default());
                *cached = Cached {
                    version,
                    people: Some(people.clone()),
                };
                Ok(people)
            }
            (Err(error), Some(people)) => {
                tracing::error!(%error, "those are let in who were before");
                Ok(people.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    fn version(&self) -> Option<Version> {
        let meta = std::fs::metadata(&self.path).ok()?;
        Some((meta.modified().ok()?, meta.ino()))
    }

    /// Changes the file under its lock.
    ///
    /// # Errors
    /// When it cannot be locked, read or written.
    pub fn change<T>(&self, change: impl FnOnce(&mut People) -> T) -> Result<T, sys::Error> {
        let _lock = lock::lock(&self.path.with_extension("lock"))?;
        let mut people: People = atomic::read_json(&self.path)?.unwrap_or_default();
        let before = people.clone();
        let value = change(&mut people);
        if people != before {
            people.v = 1;
            let bytes =
                serde_json::to_vec_pretty(&people).expect("people are plain data with string keys");
            atomic::write(&self.path, &bytes, atomic::Durability::Full)?;
            // Nobody else writes while the lock is held.
            let version = self.version();
            *self.cached.lock() = Cached {
                version,
                people: Some(Arc::new(people)),
            };
        }
        Ok(value)
    }

    /// Decides about a direct message; changes nothing.
    pub fn decide(&self, config: &Config, id: &Address, text: &str, now: i64) -> Access {
        let policy = config.dm_policy(id.channel());
        if policy == DmPolicy::Disabled {
            return Access::Refused;
        }
        if config.is_owner(id) {
            return Access::Owner;
        }
        let people = match self.read() {
            Ok(people) => people,
            Err(error) => {
                tracing::error!(%error, "only the owners of agent.toml are let in");
                return Access::Refused;
            }
        };
        if people.is_owner(config, id) {
            return Access::Owner;
        }
        if people.blocked.contains(id) || people.muted.contains(id) {
            return Access::Refused;
        }
        let listed = config.is_allowed(id) || people.allowed.iter().any(|person| person.id == *id);
        if listed || policy == DmPolicy::Open {
            return people.owner_code_in(text, now).unwrap_or(Access::Allowed);
        }
        if let Some(access) = people.owner_code_in(text, now) {
            return access;
        }
        let full = self.free_requests(id.channel(), now) == 0;
        let waiting = people
            .pending
            .iter()
            .any(|pending| pending.id == *id && now - pending.at < CODE.1);
        if policy != DmPolicy::Pairing || waiting || full {
            return Access::Refused;
        }
        Access::MayAsk
    }

    /// Decides about a message in the group `chat`: it must be allowed, and its sender in it. Nobody can
    /// ask to be let in there.
    pub fn decide_in_group(&self, config: &Config, chat: &Address, id: &Address) -> Access {
        let Some(group) = config.group(chat.channel(), &chat.id()) else {
            return Access::Refused;
        };
        let people = match self.read() {
            Ok(people) => people,
            Err(error) => {
                tracing::error!(%error, "only the owners of agent.toml are let in");
                Arc::default()
            }
        };
        if people.is_owner(config, id) {
            return Access::Owner;
        }
        let listed = people.is_listed_in(config, &group, id);
        match group.members == Members::Any || listed {
            _ if people.blocked.contains(id) => Access::Refused,
            false => Access::Refused,
            true if people.muted.contains(id) => Access::Muted,
            true => Access::Allowed,
        }
    }

    /// Returns true for an owner, and for somebody who is let into the group `chat` by their id and not
    /// because everybody is.
    pub fn is_named_in_group(&self, config: &Config, chat: &Address, id: &Address) -> bool {
        let people = self.read().unwrap_or_default();
        let listed = config
            .group(chat.channel(), &chat.id())
            .is_some_and(|group| people.is_listed_in(config, &group, id));
        people.is_owner(config, id) || listed
    }

    /// Returns how many more strangers of `channel` may be given a code: those of one channel do not keep out those of
    /// another.
    pub fn free_requests(&self, channel: &str, now: i64) -> usize {
        let waiting = self.read().map(|people| {
            people
                .pending
                .iter()
                .filter(|pending| pending.id.channel() == channel && now - pending.at < CODE.1)
                .count()
        });
        MAX_PENDING.saturating_sub(waiting.unwrap_or(MAX_PENDING))
    }

    /// Writes down that somebody asked and was given `code`. To be called when the message that
    /// tells them is safe: without it they can ask again, without the message they never could.
    ///
    /// # Errors
    /// When the file cannot be locked, read or written.
    pub fn ask(&self, id: &Address, name: &str, code: &str, now: i64) -> Result<(), sys::Error> {
        self.change(|people| people.ask(id, name, code, now))
    }

    /// Writes down how these people are called. Of strangers the newest [`MAX_STRANGERS`] are kept. Blocking.
    ///
    /// # Errors
    /// When the file cannot be locked, read or written.
    pub fn know(&self, config: &Config, contacts: &[Contact]) -> Result<(), sys::Error> {
        self.change(|people| people.know(config, contacts))
    }

    /// Takes an owner code that `id` sent: the right one makes them an owner, a wrong one is counted. To be called
    /// when the message is taken in: without that it comes again. Returns true for an owner. Blocking.
    ///
    /// # Errors
    /// When the file cannot be locked, read or written.
    pub fn redeem(
        &self,
        id: &Address,
        name: &str,
        code: &str,
        now: i64,
    ) -> Result<bool, sys::Error> {
        self.change(|people| people.redeem(id, name, code.trim(), now))
    }
}

impl People {
    /// Returns it with who has several ids.
    pub fn knowing(self, links: config::Session) -> Self {
        Self { links, ..self }
    }

    /// Returns what is known, for those who only read; nobody when there is no file or it cannot be
    /// understood.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn read(path: &Path) -> Result<Self, sys::Error> {
        Ok(atomic::read(path)?
            .and_then(|bytes| serde_json::from_slice(&bytes).ok())
            .unwrap_or_default())
    }

    /// Lets the person with this code in; `None` when no such request waits.
    pub fn approve(&mut self, code: &str, now: i64) -> Option<Person> {
        self.pending.retain(|pending| now - pending.at < CODE.1);
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
        self.allowed.push(person.clone());
        Some(person)
    }

    fn is_listed_in(&self, config: &Config, group: &GroupRules, id: &Address) -> bool {
        match &group.allow_from {
            Some(ids) => ids.contains(id),
            None => config.is_allowed(id) || self.allowed.iter().any(|person| person.id == *id),
        }
    }

    /// Returns true when `id` is an owner's.
    pub fn is_owner(&self, config: &Config, id: &Address) -> bool {
        config.is_owner(id) || self.owners.iter().any(|person| person.id == *id)
    }

    /// Returns the ids of those who were let in and are no owners.
    pub fn guests<'a>(&'a self, config: &'a Config) -> impl Iterator<Item = Address> + 'a {
        let allowed = self.allowed.iter().map(|person| person.id.clone());
        let all = config.allowed().into_iter().chain(allowed);
        all.filter(|id| !self.is_owner(config, id))
    }

    /// Returns the owner who is asked when none was heard yet.
    pub fn first_owner(&self, config: &Config) -> Option<Address> {
        let named = config.owners().into_iter().next();
        named.or_else(|| self.owners.first().map(|person| person.id.clone()))
    }

    /// Returns those whom `who` may mean: an address, an @username or a name.
    pub fn find(&self, who: &str) -> Vec<Contact> {
        let mut all = self.contacts.clone();
        for person in self.allowed.iter().chain(&self.owners) {
            if !all.iter().any(|contact| contact.id == person.id) {
                all.push(Contact {
                    id: person.id.clone(),
                    name: person.name.clone(),
                    username: None,
                });
            }
        }
        all.retain(|contact| contact.is(who));
        all
    }

    /// Returns what those are called whom `who` may mean and who have several ids.
    pub fn with_several_ids(&self, who: &str) -> Vec<&str> {
        let found = self.find(who);
        let contacts = found
            .iter()
            .filter_map(|contact| self.links.person_of(contact.id.channel(), &contact.id.id()));
        let by_id = who
            .split_once(':')
            .and_then(|(channel, id)| self.links.person_of(channel, id));
        contacts.chain(by_id).collect()
    }

    /// Takes back what was granted here to `id`; false when nothing was.
    pub fn revoke(&mut self, id: &Address) -> bool {
        let before = self.allowed.len() + self.owners.len();
        self.allowed.retain(|person| person.id != *id);
        self.owners.retain(|person| person.id != *id);
        // A name that is nobody's any more must not be somebody's by mistake.
        self.contacts.retain(|contact| contact.id != *id);
        self.allowed.len() + self.owners.len() != before
    }

    /// Refuses `id` from now on, or no more; false when that was so before.
    pub fn block(&mut self, id: &Address, on: bool) -> bool {
        put(&mut self.blocked, id, on)
    }

    /// Lets `id` be heard and answers nothing from now on, or answers again; false when that was so
    /// before.
    pub fn mute(&mut self, id: &Address, on: bool) -> bool {
        put(&mut self.muted, id, on)
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
    fn owner_code_in(&self, text: &str, now: i64) -> Option<Access> {
        let code = self
            .owner_code
            .as_ref()
            .filter(|code| code.is_in_force(now))?;
        let text = text.trim();
        let is_code =
            text.len() == OWNER_CODE.0 && text.bytes().all(|byte| ALPHABET.contains(&byte));
        is_code.then_some(if code.code == text {
            Access::SentOwnerCode
        } else {
            Access::SentWrongCode
        })
    }

    fn redeem(&mut self, id: &Address, name: &str, text: &str, now: i64) -> bool {
        let in_force = self
            .owner_code
            .as_mut()
            .filter(|code| code.is_in_force(now));
        let Some(code) = in_force else {
            return false;
        };
        if code.code != text {
            code.tries += 1;
            return false;
        }
        self.owner_code = None;
        self.pending.retain(|pending| pending.id != *id);
        self.owners.push(Person {
            id: id.clone(),
            name: name.to_owned(),
            since: now,
        });
        true
    }

    fn know(&mut self, config: &Config, contacts: &[Contact]) {
        let new: HashSet<&Address> = contacts.iter().map(|one| &one.id).collect();
        self.contacts.retain(|one| !new.contains(&one.id));
        self.contacts.extend_from_slice(contacts);
        let granted = self.allowed.iter().chain(&self.owners).map(|one| &one.id);
        let refused = self.blocked.iter().chain(&self.muted);
        let is_kept: HashSet<Address> = granted.chain(refused).cloned().collect();
        let is_stranger = |one: &Contact| {
            // The settings name the groups that are heard.
            let is_group = matches!(one.id, Address::Number(..0))
                || config.group(one.id.channel(), &one.id.id()).is_some();
            let is_named = config.is_owner(&one.id) || config.is_allowed(&one.id);
            !is_group && !is_named && !is_kept.contains(&one.id)
        };
        // The newest of each channel stay: those of one do not crowd out those of another.
        let mut kept: HashMap<String, usize> = HashMap::new();
        let mut goes: HashSet<Address> = HashSet::new();
        for one in self.contacts.iter().rev().filter(|one| is_stranger(one)) {
            let count = kept.entry(one.id.channel().to_owned()).or_default();
            *count += 1;
            if *count > MAX_STRANGERS {
                goes.insert(one.id.clone());
            }
        }
        self.contacts.retain(|one| !goes.contains(&one.id));
    }

    fn ask(&mut self, id: &Address, name: &str, code: &str, now: i64) {
        self.pending
            .retain(|pending| now - pending.at < CODE.1 && pending.id != *id);
        let name = crate::text::shorten(&crate::text::visible(name), 64);
        self.pending.push(Pending {
            code: code.to_owned(),
            id: id.clone(),
            name,
            at: now,
        });
    }
}

fn put(list: &mut Vec<Address>, id: &Address, on: bool) -> bool {
    let there = list.contains(id);
    list.retain(|other| other != id);
    if on {
        list.push(id.clone());
    }
    there != on
}

/// Returns a new code for somebody who asks; 40 random bits, so that two never meet.
pub fn new_code() -> String {
    random_code(CODE.0)
}

/// Five random bits a letter, from the operating system's generator.
fn random_code(length: usize) -> String {
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

#[cfg(test)]
mod tests;

//! `people.json` in the hands of one process, and what it lets a sender do.

use parking_lot::Mutex;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::{Contact, People};
use crate::config::{Config, DmPolicy, Members};
use crate::message::Address;
use crate::sys;
use crate::sys::{atomic, lock};

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
    /// They sent the code that a person asked for to link another account; [`Store::link`] makes theirs that person's.
    SentLinkCode(Address),
    /// Nothing, silently.
    Refused,
}

/// `people.json` in the hands of one process.
#[derive(Debug)]
pub struct Store {
    pub(super) path: PathBuf,
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

    /// Decides about a direct message, see [`People::decide`]; while nobody can tell who was let in, those of the settings are.
    pub fn decide(&self, config: &Config, id: &Address, text: &str, now: i64) -> Access {
        match self.read() {
            Ok(people) => people.decide(config, id, text, now),
            Err(error) => {
                tracing::error!(%error, "only the owners of agent.toml are let in");
                let is_open = config.dm_policy(id.channel()) != DmPolicy::Disabled;
                match is_open && config.is_owner(id) {
                    true => Access::Owner,
                    false => Access::Refused,
                }
            }
        }
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
            _ if people.is_blocked(id) => Access::Refused,
            false => Access::Refused,
            true if people.is_refused(id) => Access::Muted,
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

    /// Returns whether one more stranger, `id`, may be given a code beside those who wait and those who are `asking` now;
    /// no while that is not known.
    pub fn is_room_for<'a>(
        &self,
        id: &Address,
        asking: impl IntoIterator<Item = &'a Address>,
        now: i64,
    ) -> bool {
        self.read()
            .is_ok_and(|people| people.is_room_for(id, asking, now))
    }

    /// Writes down that somebody asked and was given `code`. To be called when the message that
    /// tells them is safe: without it they can ask again, without the message they never could.
    ///
    /// # Errors
    /// When the file cannot be locked, read or written.
    pub fn ask(&self, id: &Address, name: &str, code: &str, now: i64) -> Result<(), sys::Error> {
        self.change(|people| people.ask(id, name, code, now))
    }

    /// Writes down how these people are called. Of strangers only the newest are kept. Blocking.
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

    /// Takes a code that `id` sent to be linked with: from then on it is an account of the person who asked for the code,
    /// whose first address is returned. `None` when the code is in force no more. To be called as [`Store::redeem`]
    /// is. Blocking.
    ///
    /// # Errors
    /// When the file cannot be locked, read or written.
    pub fn link(
        &self,
        id: &Address,
        name: &str,
        code: &str,
        now: i64,
    ) -> Result<Option<Address>, sys::Error> {
        self.change(|people| people.link(id, name, code, now))
    }
}

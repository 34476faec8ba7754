//! `people.json` in the hands of one process, and access: what the allowlist and the pairing let a sender do.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{Contact, People};
use crate::config::{Config, DmPolicy, Members};
use crate::message::Address;
use crate::sys;
use crate::sys::{Version, atomic, lock, quarantine_file};
use crate::text;

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
    /// Whether a damaged file is renamed.
    is_owner: bool,
    cached: Mutex<Cached>,
}

#[derive(Debug, Default)]
struct Cached {
    version: Option<Version>,
    /// `None` until it was read for the first time.
    people: Option<Arc<People>>,
}

/// A people.json that the daemon renamed because it is no JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aside {
    /// Where it is now: `people.json.corrupt-<milliseconds>`.
    pub path: PathBuf,
    /// What is wrong and what to do.
    pub words: String,
}

/// Returns the newest damaged file that was renamed, while no people.json replaces it. Until then only the owners of agent.toml
/// are heard, or whoever a running daemon knew before.
pub fn set_aside(path: &Path) -> Option<Aside> {
    if path.exists() {
        return None;
    }
    let aside = sys::newest_quarantined(path)?;
    let bytes = std::fs::read(&aside).unwrap_or_default();
    let error = serde_json::from_slice::<People>(&bytes).err();
    let words = words(&aside, error.as_ref());
    Some(Aside { path: aside, words })
}

fn words(damaged: &Path, error: Option<&serde_json::Error>) -> String {
    let why = error.map_or_else(String::new, |error| format!(" ({error})"));
    let words = format!(
        "the list of people was no JSON{why}: until it is mended only the owners in agent.toml are heard, or those that a running daemon knew before; correct {} and rename it to people.json, or delete it to begin with nobody let in and nobody blocked",
        damaged.display()
    );
    text::visible(&words)
}

impl Store {
    /// Returns the store of the file at `path`, which need not exist.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            is_owner: false,
            cached: Mutex::default(),
        }
    }

    /// Returns the store for the daemon, which owns the file: it renames a damaged one.
    pub fn owning(path: &Path) -> Self {
        Self {
            is_owner: true,
            ..Self::new(path)
        }
    }

    /// Returns what is known now; it is read once for each change of the file. While it cannot be read, what was
    /// known before holds: nobody's message is refused because the disk did not answer for a moment.
    ///
    /// # Errors
    /// When the file could not be read yet, or is damaged ([`set_aside`]): an empty list would lift every block.
    pub fn read(&self) -> Result<Arc<People>, sys::Error> {
        let version = Version::at(&self.path);
        let mut cached = self.cached.lock();
        if let Some(people) = &cached.people
            && version.is_some()
            && cached.version == version
        {
            return Ok(people.clone());
        }
        match (self.load(), &cached.people) {
            (Ok(people), _) => {
                let people = Arc::new(people);
                *cached = Cached {
                    version,
                    people: Some(people.clone()),
                };
                Ok(people)
            }
            (Err(error), Some(people)) => {
                tracing::error!(%error, "the last known people stay let in or blocked");
                Ok(people.clone())
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Reads the file; it may not exist.
    fn load(&self) -> Result<People, sys::Error> {
        let Some(bytes) = atomic::read(&self.path)? else {
            return match set_aside(&self.path) {
                None => Ok(People::default()),
                Some(aside) => Err(self.damaged(aside.words)),
            };
        };
        serde_json::from_slice(&bytes).map_err(|error| {
            if self.is_owner && !sys::is_being_written(&self.path) {
                match quarantine_file(&self.path) {
                    Ok(aside) => return self.damaged(words(&aside, Some(&error))),
                    Err(error) => return error,
                }
            }
            self.damaged(words(&self.path, Some(&error)))
        })
    }

    fn damaged(&self, words: String) -> sys::Error {
        sys::Error::at("read", &self.path)(std::io::Error::new(ErrorKind::InvalidData, words))
    }

    /// Returns what to do about a file that was renamed because it is no JSON, see [`set_aside`].
    pub fn aside(&self) -> Option<Aside> {
        set_aside(&self.path)
    }

    /// Changes the file under its lock.
    ///
    /// # Errors
    /// When it cannot be locked, read or written, or is damaged: a new one would lift every block of the old.
    pub fn change<T>(&self, change: impl FnOnce(&mut People) -> T) -> Result<T, sys::Error> {
        let _lock = lock::lock_beside(&self.path)?;
        let mut people = self.load()?;
        let before = people.clone();
        let value = change(&mut people);
        if people != before {
            people.v = 1;
            atomic::write_json(&self.path, &people, atomic::Durability::Full)?;
            // Nobody else writes while the lock is held.
            let version = Version::at(&self.path);
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
                tracing::error!(%error, "people.json is unreadable and no allowlist is known: only the owners in agent.toml are let in");
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
                return match config.is_owner(id) {
                    true => Access::Owner,
                    false => Access::Refused,
                };
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

    /// Returns whether one more stranger, `id`, may be given a code in addition to those who wait and those who are `asking` now;
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
    /// when the message is accepted: without that it comes again. Returns true for an owner. Blocking.
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

//! `sessions.json`: which key means which session, and what a listing shows of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::event::{Event, Head, Kind};
use super::state::{Position, State};
use super::transcript::{Known, Session, all_files};
use crate::message::{Address, SessionKey, own_name};
use crate::people::People;
use crate::sys;
use crate::sys::{atomic, jsonl};

/// The index: key → entry.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Index {
    v: u32,
    sessions: BTreeMap<String, Entry>,
}

/// What is known of a session without opening it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Entry {
    /// Its id.
    pub session_id: String,
    /// Whom we talk to.
    pub contact: String,
    /// When it began, RFC 3339 UTC.
    pub created_at: String,
    /// When it was last used, RFC 3339 UTC.
    pub updated_at: String,
    /// Messages of people and of the model.
    pub message_count: u64,
    /// All tokens ever used in it.
    pub token_count: u64,
    /// How often it was compacted.
    pub compaction_count: u64,
    /// Tokens of the newest model call.
    pub context_tokens: u64,
    /// The configured name of the model that spoke last.
    pub model: Option<String>,
    /// Nano US dollars spent in it.
    pub cost_nano_usd: i64,
    /// Where the newest event ends that is counted here.
    pub position: Position,
}

impl Entry {
    /// Returns the entry of a session.
    pub(super) fn of(head: &Head, state: &State) -> Self {
        Self {
            session_id: head.session_id.clone(),
            contact: head.contact.clone(),
            created_at: head.created_at.clone(),
            updated_at: state.updated_at.clone(),
            message_count: state.message_count,
            token_count: state.usage.total(),
            compaction_count: state.compaction_count,
            context_tokens: state.context_tokens,
            model: state.model.clone(),
            cost_nano_usd: state.cost_nano_usd,
            position: state.position.clone(),
        }
    }
}

/// Whom or what somebody's word may mean: the name of a conversation for the shell, a contact.
pub(super) struct Wanted<'a> {
    target: &'a str,
    /// Ids of the contacts that go by the word, and what those are called who have several.
    ids: Vec<String>,
}

impl<'a> Wanted<'a> {
    pub(super) fn new(people: &People, target: &'a str) -> Self {
        let mut ids: Vec<String> = people
            .find(target)
            .iter()
            .map(|contact| people.first_of(&contact.id).to_string())
            .collect();
        ids.extend(
            people
                .with_several_ids(target)
                .into_iter()
                .map(str::to_owned),
        );
        Self { target, ids }
    }

    /// Returns true when the session of `key`, with `contact`, may be meant.
    pub(super) fn means(&self, key: &str, contact: &str) -> bool {
        own_name(key) == Some(self.target)
            || is_person(key, self.target)
            || contact.to_lowercase() == self.target.to_lowercase()
            || self.ids.iter().any(|id| match Address::parse(id) {
                Some(address) => SessionKey(key.to_owned()).is_with(&address),
                None => key.split(':').any(|part| part == id),
            })
    }
}

/// Returns true for the one conversation of the person `name`, who has several ids.
fn is_person(key: &str, name: &str) -> bool {
    SessionKey(key.to_owned()).person() == Some(name) && !key.contains(":topic:")
}

impl Index {
    /// Returns the index as it is on disk, for those who only read: `sessions.json`, made to
    /// agree with the transcripts in `dir`. Empty when there is none.
    ///
    /// # Errors
    /// When it exists and cannot be read.
    pub fn read(file: &Path, dir: &Path) -> Result<Self, sys::Error> {
        let mut index: Self = atomic::read_valid_json(file)?.unwrap_or_default();
        if dir.is_dir() {
            index.reconcile(dir, &all_files(dir)?)?;
        }
        Ok(index)
    }

    /// Returns the id of the session of `key`.
    pub fn id_of(&self, key: &str) -> Option<&str> {
        self.sessions
            .get(key)
            .map(|entry| entry.session_id.as_str())
    }

    /// Returns whose session that of `key` is, as the first line of its transcript says it.
    pub(super) fn head_of(&self, key: &str) -> Option<Head> {
        self.sessions.get(key).map(|entry| Head {
            session_id: entry.session_id.clone(),
            key: key.to_owned(),
            contact: entry.contact.clone(),
            created_at: entry.created_at.clone(),
        })
    }

    /// Returns the key of the session that is called `target` by ourselves: by its id, its key, the name of
    /// a person with several ids, or its name in the shell (`cli:NAME`)
    /// or in the HTTP API (`http:NAME`).
    pub fn named(&self, target: &str) -> Option<&str> {
        let first = |is: &dyn Fn(&str, &Entry) -> bool| {
            self.sessions.iter().find(|(key, entry)| is(key, entry))
        };
        let found = first(&|key, entry| key == target || entry.session_id == target)
            .or_else(|| first(&|key, _| is_person(key, target)))
            .or_else(|| first(&|key, _| key.strip_prefix("cli:") == Some(target)))
            .or_else(|| first(&|key, _| own_name(key) == Some(target)));
        found.map(|(key, _)| key.as_str())
    }

    /// Returns the keys of the sessions that `target` may mean. What is so [`Self::named`] is meant;
    /// else it is what a contact is called, or whom `people` knows so.
    pub fn find(&self, people: &People, target: &str) -> Vec<&str> {
        if let Some(key) = self.named(target) {
            return vec![key];
        }
        let wanted = Wanted::new(people, target);
        self.sessions
            .iter()
            .filter(|(key, entry)| wanted.means(key, &entry.contact))
            .map(|(key, _)| key.as_str())
            .collect()
    }

    /// Returns all sessions by key.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Entry)> {
        self.sessions
            .iter()
            .map(|(key, entry)| (key.as_str(), entry))
    }

    /// Returns how many sessions there are.
    pub fn len(&self) -> usize {
        self.sessions.len()
    }

    /// Returns true when there is no session.
    pub fn is_empty(&self) -> bool {
        self.sessions.is_empty()
    }

    pub(super) fn update(&mut self, session: &Session) {
        self.v = 1;
        self.sessions
            .insert(session.head().key.clone(), session.entry());
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<String> {
        self.sessions.remove(key).map(|entry| entry.session_id)
    }

    pub(super) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("the index is plain data with string keys")
    }

    /// Returns how many of the `files`, see [`all_files`], each session has whose newest one the index names, by id. After
    /// a kill there may be newer ones.
    pub(super) fn counts(&self, files: &BTreeMap<String, Vec<String>>) -> HashMap<String, usize> {
        let counted = self.sessions.values().filter_map(|entry| {
            let names = files.get(&entry.session_id)?;
            (names.last() == Some(&entry.position.file))
                .then(|| (entry.session_id.clone(), names.len()))
        });
        counted.collect()
    }

    /// Returns what is known of the `count` files of the session of `key`.
    pub(super) fn known(&self, key: &str, count: usize) -> Option<Known> {
        let newest = self.sessions.get(key)?.position.file.clone();
        Some(Known { newest, count })
    }

    /// Makes the index agree with the transcripts `files` in `dir`: entries without files go, files
    /// without an entry are adopted by the head of their first line. Returns true when it changed.
    pub(super) fn reconcile(
        &mut self,
        dir: &Path,
        files: &BTreeMap<String, Vec<String>>,
    ) -> Result<bool, sys::Error> {
        let before = self.sessions.len();
        self.sessions
            .retain(|_, entry| files.contains_key(&entry.session_id));
        let mut changed = self.sessions.len() != before;
        let known: BTreeSet<String> = self
            .sessions
            .values()
            .map(|entry| entry.session_id.clone())
            .collect();
        let unknown = files.iter().filter(|(id, _)| !known.contains(*id));
        for name in unknown.flat_map(|(_, names)| names) {
            let Some(line) = jsonl::first_line(&dir.join(name))? else {
                continue;
            };
            let Ok(event) = serde_json::from_slice::<Event>(&line) else {
                continue;
            };
            let Kind::Session(head) = event.kind else {
                continue;
            };
            // Ids sort by time: of two sessions of one key the newer one is current.
            let current = self
                .sessions
                .get(&head.key)
                .is_none_or(|entry| entry.session_id <= head.session_id);
            if current {
                let entry = Entry {
                    session_id: head.session_id,
                    contact: head.contact,
                    created_at: head.created_at,
                    updated_at: event.ts,
                    ..Entry::default()
                };
                self.sessions.insert(head.key, entry);
                changed = true;
            }
        }
        Ok(changed)
    }
}

//! Collections: shared documents, in a PostgreSQL server with pgvector.
//!
//! ```text
//! directories of several hosts → fill/   listing (what changed?) → the chunks of `memory/index` → the tables of schema.sql
//! query → search  chunks by words and by vectors, from the server → the ranker of `memory/index` → Hit
//! ```
//! Each collection is a schema `collection_NAME` (store.rs). The server controls who sees which scope, by row level security.
//! The texts are other people's: callers mark them as untrusted. A slow or unreachable server delays nothing: after a few
//! seconds it is skipped for a while, and the answer says what was not searched.

pub mod fill;
mod search;
mod show;
mod status;
mod store;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

pub use status::{Fill, Status};
pub use store::Store;

use crate::config::{self, Readers, Secrets};
use crate::db::postgres;
use crate::language::tokenize::Words;
use crate::memory::Viewer;
use crate::memory::index::query::query_vector::QueryEmbedder;
use crate::memory::index::{Found, Hit, Place, Query};
use crate::memory::scope::Scope;

/// How long a search may take, and one that goes before a message.
const PATIENCE: Duration = Duration::from_secs(3);
const BEFORE_A_MESSAGE: Duration = Duration::from_secs(1);
/// How long somebody at the shell waits for a server that says nothing.
const CONNECTING: Duration = Duration::from_secs(20);
/// A server that had less time than this, because of those that were asked before it, is not taken for one that is away.
const ENOUGH: Duration = Duration::from_millis(500);
/// How long a server is left alone after it failed.
const PAUSE: Duration = Duration::from_secs(60);
/// What the path of a hit begins with.
pub const PREFIX: &str = "collections/";

/// A collection cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The settings have no such one.
    #[error("no collection `{0}` in the settings")]
    Unknown(String),
    /// Its password is nowhere.
    #[error(
        "the password of the collection {name} is not there: `{variable}` is in no place for secrets"
    )]
    NoPassword {
        /// The collection.
        name: String,
        /// What the settings call the password.
        variable: String,
    },
    /// A secret cannot be read.
    #[error(transparent)]
    Secret(#[from] config::Error),
    /// The server.
    #[error("collection {name}: {source}")]
    Server {
        /// The collection.
        name: String,
        /// What it said.
        source: postgres::Error,
    },
    /// Nobody made its tables.
    #[error("the collection {0} does not exist yet")]
    Absent(String),
    /// Its tables are those of another version of this program.
    #[error("the collection {name} was made by {other} version of this program")]
    Version {
        /// The collection.
        name: String,
        /// `an older` or `a newer`.
        other: &'static str,
    },
    /// The database has no usable pgvector.
    #[error("collection {name}: {why}")]
    NoVectorType {
        /// The collection.
        name: String,
        /// Whether it is missing or too old.
        why: String,
    },
    /// The role may not do this.
    #[error("collection {name}: {why}")]
    Denied {
        /// The collection.
        name: String,
        /// What the server said.
        why: String,
    },
    /// What was to be filled in cannot be.
    #[error("{0}")]
    Directory(String),
    /// Nothing can make vectors, although the collection has some.
    #[error("collection {name}: {why}")]
    NoVectors {
        /// The collection.
        name: String,
        /// Why.
        why: String,
    },
}

impl Error {
    /// Returns the next step, for somebody at the shell.
    pub fn hint(&self) -> String {
        match self {
            Self::Unknown(name) => {
                format!("agent.toml: [memory.collections.{name}] with its `url`")
            }
            Self::NoPassword { variable, .. } => format!("write {variable}=… in .env"),
            Self::Secret(_) => "agent-daemon check".to_owned(),
            Self::Server {
                name,
                source: postgres::Error::Certificate { .. },
            } => format!(
                "[memory.collections.{name}]: `url` with the host that the certificate names, and ?sslrootcert=FILE with the authority that signed it"
            ),
            Self::Server { name, .. } => {
                format!("psql with the `url` of [memory.collections.{name}]; agent-daemon doctor")
            }
            Self::Absent(name) => format!("agent-index --collection {name} --create"),
            Self::Version { name, .. } => format!(
                "use the same version everywhere; what an older one made is made again from its directories, after: DROP SCHEMA collection_{name} CASCADE"
            ),
            Self::NoVectorType { .. } => {
                "as a superuser, in that database: CREATE EXTENSION vector (pgvector 0.7 or later)"
                    .to_owned()
            }
            Self::Denied { name, .. } => format!(
                "as the owner of its tables: SELECT collection_{name}.admit('ROLE', 'SCOPE'), and `, true` for one that fills it"
            ),
            Self::Directory(_) => "agent-index --help".to_owned(),
            Self::NoVectors { .. } => "every host needs the same [memory.embeddings]".to_owned(),
        }
    }
}

impl Error {
    /// Returns true when the server does not answer in time.
    pub fn is_unreachable(&self) -> bool {
        matches!(
            self,
            Self::Server {
                source: postgres::Error::TimedOut { .. }
                    | postgres::Error::Failed { code: None, .. },
                ..
            }
        )
    }

    /// Returns true when the server did not answer in time.
    fn is_late(&self) -> bool {
        matches!(
            self,
            Self::Server {
                source: postgres::Error::TimedOut { .. },
                ..
            }
        )
    }
}

/// Says which collection an error of the server is about, and what it means.
fn about(name: &str) -> impl Fn(postgres::Error) -> Error + Clone + '_ {
    move |source| {
        let name = name.to_owned();
        match source {
            source if source.is_absent() => Error::Absent(name),
            source if source.is_denied() => Error::Denied {
                name,
                why: source.to_string(),
            },
            source => Error::Server { name, source },
        }
    }
}

/// Opens the collection called `name` for a program at the shell, each call of which has `patience`.
///
/// # Errors
/// See [`Error`].
pub fn open(
    name: &str,
    settings: &BTreeMap<String, config::Collection>,
    secrets: &Secrets,
    patience: Duration,
) -> Result<Store, Error> {
    let settings = settings.get(name);
    let settings = settings.ok_or_else(|| Error::Unknown(name.to_owned()))?;
    let address = store::address(name, settings, secrets)?;
    let mut store = Store::open(name, &address, (patience.min(CONNECTING), patience))?;
    store.set_patience(patience);
    Ok(store)
}

/// Searches one collection after another, or the same one several times.
pub struct Searcher {
    embedder: QueryEmbedder,
    words: Words,
}

impl Searcher {
    /// Returns one whose vectors of questions are made as those of the index at `place`.
    pub fn new(place: &Place) -> Self {
        Self {
            embedder: QueryEmbedder::new(place),
            words: Words::new(),
        }
    }

    /// Returns what `query` finds in `store`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn search(&mut self, store: &mut Store, query: &Query) -> Result<Found, Error> {
        search::search(store, &mut self.embedder, &mut self.words, query)
    }
}

/// What was found in several, and what could not be searched: the name of a collection, and why.
#[derive(Debug, Default)]
pub struct Searched {
    /// Of each collection what it found.
    pub found: Vec<Found>,
    /// What was not searched.
    pub missed: Vec<(String, String)>,
}

impl Searched {
    /// Adds what was found to `hits`, at most `most` together: each search has an order of its own, and of the next ones
    /// the best comes first.
    pub fn merge_into(self, hits: &mut Vec<Hit>, most: usize) -> Vec<(String, String)> {
        let mut lists: Vec<_> = self.found.into_iter().map(|found| found.hits).collect();
        if lists.iter().any(|list| !list.is_empty()) {
            lists.insert(0, std::mem::take(hits));
            let mut lists: Vec<_> = lists
                .into_iter()
                .map(|list| list.into_iter().peekable())
                .collect();
            while hits.len() < most {
                let heads = lists.iter_mut().enumerate().rev();
                let heads = heads.filter_map(|(at, list)| Some((list.peek()?.score, at)));
                let Some((_, at)) = heads.max_by(|a, b| a.0.total_cmp(&b.0)) else {
                    break;
                };
                hits.extend(lists.get_mut(at).and_then(Iterator::next));
            }
        }
        self.missed
    }
}

/// The collections of one agent, for a process that stays. Nothing is connected before the first search.
pub struct Collections {
    slots: Vec<Slot>,
    searcher: Mutex<Searcher>,
}

struct Slot {
    name: String,
    settings: config::Collection,
    address: Result<postgres::Address, Error>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    store: Option<Store>,
    /// Until when the server is left alone, and why.
    paused: Option<(Instant, String)>,
}

impl Collections {
    /// Returns those of `settings`. `place` is the index whose embedder makes the vectors of questions.
    pub fn new(
        settings: &BTreeMap<String, config::Collection>,
        secrets: &Secrets,
        place: &Place,
    ) -> Self {
        let slot = |(name, settings): (&String, &config::Collection)| Slot {
            name: name.clone(),
            settings: settings.clone(),
            address: store::address(name, settings, secrets),
            state: Mutex::default(),
        };
        Self {
            slots: settings.iter().map(slot).collect(),
            searcher: Mutex::new(Searcher::new(place)),
        }
    }

    /// Returns no collections.
    pub(super) fn none(place: &Place) -> Self {
        Self {
            slots: Vec::new(),
            searcher: Mutex::new(Searcher::new(place)),
        }
    }

    /// Returns their names, and for whom each is searched.
    pub fn names(&self) -> impl Iterator<Item = (&str, Readers)> {
        let slots = self.slots.iter();
        slots.map(|slot| (slot.name.as_str(), slot.settings.readers))
    }

    /// Returns what `query` finds in those that `viewer` may see. Its scopes and sources are those of the own memory: a
    /// query that names some finds nothing here.
    pub fn search(&self, viewer: &Viewer, query: &Query) -> Searched {
        self.search_in(viewer, query, PATIENCE, |_| true)
    }

    /// As [`Collections::search`], in those that are searched before a message, and within the time that a message has.
    pub fn recall(&self, viewer: &Viewer, query: &Query) -> Searched {
        self.search_in(viewer, query, BEFORE_A_MESSAGE, |slot| slot.settings.recall)
    }

    fn search_in(
        &self,
        viewer: &Viewer,
        query: &Query,
        patience: Duration,
        wanted: impl Fn(&Slot) -> bool,
    ) -> Searched {
        let mut searched = Searched::default();
        if query.filter.scopes.is_some() || query.filter.sources.is_some() {
            return searched;
        }
        let until = Instant::now() + patience;
        for slot in self
            .slots
            .iter()
            .filter(|slot| slot.is_for(viewer) && wanted(slot))
        {
            let done = slot.with(until, |store| {
                let Some(mut searcher) = self.searcher.try_lock_until(until) else {
                    return Ok(None);
                };
                searcher.search(store, query).map(Some)
            });
            match done {
                Ok(Some(found)) => searched.found.push(found),
                Ok(None) => searched.missed.push((slot.name.clone(), BUSY.to_owned())),
                Err(why) => searched.missed.push((slot.name.clone(), why)),
            }
        }
        searched
    }

    /// Returns lines `first` to `last` of the text at `path`, as a hit names it, where `viewer` may see it: the whole text,
    /// as far as a result may be long, without them. `None` for what is not there, or not for them.
    ///
    /// # Errors
    /// Why the collection cannot be asked.
    pub fn lines(
        &self,
        viewer: &Viewer,
        path: &str,
        (first, last): (Option<u32>, Option<u32>),
    ) -> Result<Option<String>, String> {
        let Some(document) = show::Document::parse(path) else {
            return Ok(None);
        };
        let mut slots = self.slots.iter().filter(|slot| slot.is_for(viewer));
        let Some(slot) = slots.find(|slot| slot.name == document.collection) else {
            return Ok(None);
        };
        let until = Instant::now() + PATIENCE;
        slot.with(until, |store| show::lines(store, &document, (first, last)))
    }
}

/// What is said of a collection that somebody else is just searching.
const BUSY: &str = "it is busy";
/// What is said of one that others left no time for.
const NO_TIME: &str = "no time was left";

impl Slot {
    fn is_for(&self, viewer: &Viewer) -> bool {
        match self.settings.readers {
            Readers::Owner => viewer.may_see(&Scope::Owner),
            Readers::Everybody => true,
        }
    }

    /// Does `work` with the open collection, or says why not. A connection that was closed meanwhile is opened again, once.
    fn with<T>(
        &self,
        until: Instant,
        mut work: impl FnMut(&mut Store) -> Result<T, Error>,
    ) -> Result<T, String> {
        let Some(mut state) = self.state.try_lock_until(until) else {
            return Err(BUSY.to_owned());
        };
        if let Some((resume_at, why)) = &state.paused
            && Instant::now() < *resume_at
        {
            return Err(why.clone());
        }
        state.paused = None;
        let address = self.address.as_ref().map_err(ToString::to_string)?;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NO_TIME.to_owned());
            }
            let open = state.store.take().filter(|store| !store.is_closed());
            let was_open = open.is_some();
            let opened = match open {
                Some(store) => Ok(store),
                None => Store::open(&self.name, address, (left, PATIENCE)),
            };
            let done = opened.and_then(|mut store| {
                store.set_deadline(until);
                let done = work(&mut store);
                if !store.is_closed() {
                    state.store = Some(store);
                }
                done
            });
            match done {
                Ok(done) => return Ok(done),
                // The server was started again, or closed what rested too long.
                Err(error) if was_open && state.store.is_none() && !error.is_late() => {}
                Err(error) if error.is_late() && left < ENOUGH => return Err(NO_TIME.to_owned()),
                Err(error) => {
                    let why = error.to_string();
                    let prefix = format!("collection {}: ", self.name);
                    let why = why.strip_prefix(&prefix).unwrap_or(&why).to_owned();
                    tracing::warn!(
                        collection = self.name,
                        why,
                        "a collection cannot be searched"
                    );
                    state.paused = Some((Instant::now() + PAUSE, why.clone()));
                    return Err(why);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;

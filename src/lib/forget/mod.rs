//! `forget --hard`: erases text from all data of the agent, and proves it.
//!
//! ```text
//! names of the target, and what states it (memory.db, people.json)
//!   → survey: how much is in each place                    nothing is changed yet
//!   → downloads, files, transcripts, queue.db, index.db    each completely or not at all
//!   → memory.db, people.json                               last: an interrupted run can find the target again
//!   → proof: everything is searched once more, including the bytes of the databases; the index is rebuilt
//! ```
//! It holds the locks of the daemon and of `agent-consolidate`, because a running daemon would write back what it has in
//! memory. A daemon that is asked to erase ends its turns, restarts, and erases before it opens anything (`at_restart.rs`).
//! Forgetting without `--hard` is in `memory::consolidate::forget`.

mod at_restart;
mod files;
mod matcher;
mod target;

pub use at_restart::waiting;
pub use target::{Named, named, nothing};

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use chrono_tz::Tz;
use serde_json::Value;

use crate::config;
use crate::config::{Environment, Home};
use crate::db;
use crate::db::Hit;
use crate::memory::consolidate;
use crate::memory::consolidate::{Means, Options};
use crate::memory::embedder;
use crate::memory::facts;
use crate::memory::facts::{Evidence, Fact, Target};
use crate::memory::index;
use crate::memory::index::Place;
use crate::memory::person_profile;
use crate::message::Address;
use crate::people;
use crate::people::People;
use crate::sys;
use crate::sys::{jsonl, lock};
use crate::workspace::Marks;
use crate::{clock, monitor_state, queue, session, text};
use files::Files;
use matcher::Words;

/// Bytes of a database that are looked at at a time, and how many of them twice.
const BLOCK: usize = 1 << 20;
const OVERLAP: usize = 4096;

const INDEX: &str = "agent-index";

/// Nothing is forgotten, or not all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Facts(#[from] facts::Error),
    #[error(transparent)]
    Database(#[from] db::Error),
    #[error(transparent)]
    Index(#[from] index::Error),
    #[error(transparent)]
    File(#[from] sys::Error),
    /// The program, and its process where that is known.
    #[error("{program} is running{}", pid.map_or_else(String::new, |pid| format!(" (pid {pid})")))]
    Busy {
        program: &'static str,
        pid: Option<i32>,
    },
    /// Where the words are after all.
    #[error("it still occurs in {0}")]
    Left(String),
    /// The words mean nothing, or several things.
    #[error("{0}")]
    Unclear(String),
}

impl Error {
    /// Returns what to do.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Busy { program: INDEX, .. } => {
                Some("run the same once more: it finishes the work")
            }
            Self::Busy { .. } => Some("try again in a moment"),
            Self::Left(_) => Some("run the same once more"),
            Self::Facts(_) | Self::Database(_) | Self::Index(_) | Self::File(_) => None,
            Self::Unclear(_) => None,
        }
    }
}

/// Everything that is to be erased.
pub struct Erasure<'a> {
    home: &'a Home,
    env: &'a Environment,
    target: &'a Target,
    words: Arc<Words>,
    /// The order that is being carried out, a file of the spool: it goes when all else is gone.
    order: Option<PathBuf>,
}

/// How much is where: rows, lines or files by store, and what is not the agent's to change.
#[derive(Debug, Default)]
pub struct Survey {
    pub counts: BTreeMap<String, usize>,
    /// Of notes each line, or the name of a file that goes as a whole.
    pub notes: Vec<String>,
    /// Files that are left as they are, and why.
    pub left: BTreeMap<String, &'static str>,
    /// Files that were read.
    pub searched: usize,
    /// Those of the agent's with the value of the fact, whoever it is of and in whatever words.
    pub with_value: usize,
    /// Why the index was not made again.
    pub index_error: Option<String>,
}

impl Survey {
    fn count(&mut self, store: &str, count: usize) {
        if count > 0 {
            *self.counts.entry(store.to_owned()).or_default() += count;
        }
    }

    fn count_rows(&mut self, database: &str, counts: BTreeMap<String, usize>) {
        for (table, count) in counts {
            self.count(&format!("{database} {table}"), count);
        }
    }

    fn leave(&mut self, path: String, why: &'static str) {
        self.left.insert(path, why);
    }

    /// Returns what a proof says.
    ///
    /// # Errors
    /// [`Error::Left`] where something still stands.
    pub fn proved(&self) -> Result<String, Error> {
        let stores: Vec<&str> = self.counts.keys().map(String::as_str).collect();
        if !stores.is_empty() {
            return Err(Error::Left(stores.join("; ")));
        }
        let index = self.index_error.as_ref();
        let value = match self.with_value {
            0 => String::new(),
            // Nobody but a person can tell which of these it is.
            count => format!(
                "its value is still in {}, for another subject or in another wording; ",
                text::counted(count, "file")
            ),
        };
        Ok(format!(
            "nothing left in {} files; {value}backups are yours to look through{}",
            self.searched,
            index.map_or_else(String::new, |why| format!("; {why}"))
        ))
    }
}

/// Keeps everybody away from what is being erased.
pub struct Locks {
    _daemon: Option<lock::Lock>,
    _consolidate: lock::Lock,
}

impl Locks {
    /// Takes the locks; `None` when a daemon runs.
    ///
    /// # Errors
    /// [`Error::Busy`] while `agent-consolidate` runs.
    pub fn without_daemon(home: &Home) -> Result<Option<Self>, Error> {
        match lock::try_lock(&home.lock())? {
            Some(daemon) => Self::take(home, Some(daemon)).map(Some),
            None => Ok(None),
        }
    }

    /// Takes the locks but the daemon's, which it has.
    fn as_daemon(home: &Home) -> Result<Self, Error> {
        Self::take(home, None)
    }

    fn take(home: &Home, daemon: Option<lock::Lock>) -> Result<Self, Error> {
        Ok(Self {
            _daemon: daemon,
            _consolidate: consolidate::alone(home)?.map_err(busy)?,
        })
    }
}

/// Returns the error of what waits for `agent-consolidate`.
pub fn busy(pid: i32) -> Error {
    Error::Busy {
        program: "agent-consolidate",
        pid: Some(pid),
    }
}

/// Returns the person or fact that `words` mean.
///
/// # Errors
/// When people.json or memory.db cannot be read.
pub fn meant(home: &Home, env: &Environment, words: &str) -> Result<Named, Error> {
    let people = People::read(&home.people())?;
    let config = config::load(home, env, &[]).map(|loaded| loaded.config);
    let is_owner = |id: &Address| match &config {
        Ok(config) => people.is_owner(config, id),
        Err(_) => people.owners.iter().any(|owner| owner.id == *id),
    };
    Ok(named(home, &people, &is_owner, words)?)
}

/// Reads by rules what nobody has read yet: what is not known to state it would stay, and state it again.
///
/// # Errors
/// When memory.db cannot be used.
pub fn read_rest(home: &Home, env: &Environment) -> Result<(), Error> {
    let config = config::load_config(home, env);
    read_rest_in(
        home,
        config.map_or(Tz::UTC, |config| config.agent.timezone.0),
    )
}

/// As [`read_rest`], with days of `zone`.
///
/// # Errors
/// As [`read_rest`].
pub fn read_rest_in(home: &Home, zone: Tz) -> Result<(), Error> {
    if !facts::database(home).exists() {
        return Ok(());
    }
    let options = Options {
        to_the_end: true,
        ..Options::default()
    };
    // Where it is busy another run reads it now.
    consolidate::run(home, Means::rules(zone), options, &mut |_| {})?;
    Ok(())
}

/// Writes memory.db again, so that nothing is left in it of what was being erased when a run was killed.
///
/// # Errors
/// When it cannot be used now.
pub fn vacuum(home: &Home) -> Result<(), Error> {
    if facts::database(home).exists() {
        consolidate::vacuum(home)?.map_err(busy)?;
    }
    Ok(())
}

impl<'a> Erasure<'a> {
    /// Determines the words that identify `target`.
    ///
    /// # Errors
    /// When memory.db or a transcript cannot be read.
    pub fn of(home: &'a Home, env: &'a Environment, target: &'a Target) -> Result<Self, Error> {
        let words = match target {
            Target::Person(person) => {
                // As the names of their files are written, in conversations, too.
                let stems = person
                    .ids
                    .iter()
                    .filter_map(|id| person_profile::file_stem(id));
                let stems: Vec<String> = stems.collect();
                let ids = person.ids.iter().chain(&stems);
                Words::of_person(person.names.iter().chain(ids))
            }
            Target::Fact(fact) => of_fact(home, fact)?,
        };
        let downloads = std::fs::read_dir(home.downloads());
        let downloads = downloads.into_iter().flatten().flatten();
        let mut names: Vec<String> = downloads
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.extend(files::of_servers(home));
        Ok(Self {
            home,
            env,
            target,
            words: Arc::new(words.noting(names)),
            order: None,
        })
    }

    /// Counts what is where.
    ///
    /// # Errors
    /// When a store cannot be read.
    pub fn survey(&self) -> Result<Survey, Error> {
        self.go_through(false)
    }

    /// Erases it and proves that: returns what still is where.
    ///
    /// # Errors
    /// When a store cannot be read or written; erasing once more finishes the work.
    pub fn erase(&self, _locks: &Locks) -> Result<Survey, Error> {
        self.go_through(true)?;
        self.prove()
    }

    /// What is erased is not lost: the next start looks for the newest input that monitor.json knows.
    fn note_newest_input(&self) -> Result<(), Error> {
        let path = self.home.monitor();
        if let Some(mut state) = monitor_state::read(&path)? {
            state.newest_input = queue::newest(&self.home.queue_db())?;
            monitor_state::write(&path, &state)?;
        }
        Ok(())
    }

    /// The order of erasing: what the rest is known by goes last.
    fn go_through(&self, erase: bool) -> Result<Survey, Error> {
        let (home, words) = (self.home, &self.words);
        let hit = |find: fn(&Words, &str) -> bool| -> Hit {
            let words = words.clone();
            Arc::new(move |text| find(&words, text))
        };
        let mut survey = Survey::default();
        // Which downloads belong to rows is known before they go, and they go before the rows.
        let rows = queue::erase(&home.queue_db(), &hit(Words::are_in), true)?;
        survey.count_rows("queue.db", rows);
        Files {
            home,
            words,
            erase,
            survey: &mut survey,
        }
        .go_through(self.order.as_deref())?;
        if erase {
            queue::erase(&home.queue_db(), &hit(Words::are_in), false)?;
            self.note_newest_input()?;
        }
        self.marks(erase, &mut survey)?;
        let place = Place::of(home);
        let chunks = index::holds(&place, &hit(Words::stand_alone_in))?;
        survey.count("index.db chunks", chunks);
        if erase && !index::remove(&place)? {
            return Err(Error::Busy {
                program: INDEX,
                pid: None,
            });
        }
        let fact: Option<&Fact> = match self.target {
            Target::Fact(fact) => Some(fact),
            Target::Person(_) => None,
        };
        let (path, now) = (facts::database(home), clock::now_ms());
        let rows = facts::erase(&path, &hit(Words::are_in), fact, !erase, now)?;
        survey.count_rows("memory.db", rows);
        self.people(erase, &mut survey)?;
        for name in words.words_too() {
            let why = "a word of every day, too";
            survey.leave(format!("\"{name}\" in small letters"), why);
        }
        let config = config::load(home, self.env, &[]).map(|loaded| loaded.config);
        let collections = config
            .iter()
            .flat_map(|config| config.memory.collections.keys());
        for name in collections {
            let why = "documents that many share, which are not searched";
            survey.leave(format!("collection {name}"), why);
        }
        Ok(survey)
    }

    /// Marks of files that are gone go; a mark of one that stays says that its words are untrusted.
    fn marks(&self, erase: bool, survey: &mut Survey) -> Result<(), Error> {
        let home = self.home;
        let marks = Marks::new(&home.untrusted());
        for key in marks.all().unwrap_or_default() {
            if !self.words.are_in(&key) {
                continue;
            }
            if home.workspace().join(&key).exists() && !key.starts_with("memory/") {
                let path = "state/untrusted.json".to_owned();
                survey.leave(path, "the name of a file of yours");
                continue;
            }
            survey.count("untrusted.json", 1);
            if erase {
                marks.clear(&key)?;
            }
        }
        Ok(())
    }

    /// Who is forgotten may not talk any more; who is blocked or muted stays so.
    fn people(&self, erase: bool, survey: &mut Survey) -> Result<(), Error> {
        let path = self.home.people();
        let is_meant = |id: &Address, name: &str| {
            self.words.are_in(&id.to_string()) || self.words.are_in(name)
        };
        let without = |people: &mut People| {
            let count = |people: &People| {
                let let_in = people.allowed.len() + people.linked.len();
                let asked = people.pending.len() + people.link_codes.len();
                let_in + asked + people.contacts.len()
            };
            let before = count(people);
            people.allowed.retain(|one| !is_meant(&one.id, &one.name));
            people
                .linked
                .retain(|one| !is_meant(&one.id, &one.name) && !is_meant(&one.first, ""));
            people.pending.retain(|one| !is_meant(&one.id, &one.name));
            // Anyone who sends it would be that person again.
            people.link_codes.retain(|one| !is_meant(&one.first, ""));
            people.contacts.retain(|one| {
                let username = one.username.as_deref().unwrap_or_default();
                !is_meant(&one.id, &format!("{} {username}", one.name))
            });
            before - count(people)
        };
        let mut people = People::read(&path)?;
        let mut refused = people.blocked.iter().chain(&people.muted);
        if refused.any(|id| self.words.are_in(&id.to_string())) {
            let path = "state/people.json".to_owned();
            survey.leave(path, "who is blocked or muted stays so");
        }
        survey.count("people.json", without(&mut people));
        if erase {
            people::Store::new(&path).change(without)?;
        }
        Ok(())
    }

    /// Searches everything once more, the bytes of the databases too, and makes the index again.
    fn prove(&self) -> Result<Survey, Error> {
        let home = self.home;
        let place = Place::of(home).with(embedder::opener(home, self.env, None));
        let synced = index::sync(&place, index::Mode::default(), &mut |_| {});
        let mut survey = self.survey()?;
        survey.index_error = synced
            .err()
            .map(|error| format!("the index was not made again: {error}; agent-index does it"));
        for name in ["queue.db", "memory.db", "index.db", "cost.db"] {
            let is_in = |text: &str| match name {
                "index.db" => self.words.stand_in_numbers(text),
                _ => self.words.stand_in(text),
            };
            for end in [""].into_iter().chain(db::BESIDE) {
                let path = db::beside(&home.state().join(name), end);
                survey.searched += usize::from(path.exists());
                if !stands_in_bytes(&path, &is_in)? {
                    continue;
                }
                if name == "cost.db" {
                    survey.leave(home.display(&path), "the ledger of what was paid");
                } else {
                    survey.count(&format!("{name}{end}, as bytes"), 1);
                }
            }
        }
        Ok(survey)
    }
}

/// Returns true when `is_in` finds something in the bytes of a file.
fn stands_in_bytes(path: &Path, is_in: &dyn Fn(&str) -> bool) -> Result<bool, Error> {
    let mut file = match std::fs::File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        file => file.map_err(sys::Error::at("open", path))?,
    };
    let mut block = Vec::new();
    loop {
        let before = block.len();
        let count = file
            .by_ref()
            .take(BLOCK as u64)
            .read_to_end(&mut block)
            .map_err(sys::Error::at("read", path))?;
        if count == 0 {
            return Ok(false);
        }
        // A word at the edge may be the rest of another: it is whole in the next block, or was in the last.
        let is_last = count < BLOCK;
        let text = String::from_utf8_lossy(&block);
        let text = if before > 0 {
            text.trim_start_matches(char::is_alphanumeric)
        } else {
            &text
        };
        let text = if is_last {
            text
        } else {
            text.trim_end_matches(char::is_alphanumeric)
        };
        if is_in(text) {
            return Ok(true);
        }
        block.drain(..block.len().saturating_sub(OVERLAP));
    }
}

/// Returns the words of a fact, and the runs in which it was said.
fn of_fact(home: &Home, fact: &Fact) -> Result<Words, Error> {
    let Evidence { origins, others } = facts::evidence(&facts::database(home), fact)?;
    let mut runs = Vec::new();
    for (id, seq) in origins
        .iter()
        .filter_map(|origin| origin.session_id.as_deref().zip(origin.seq))
    {
        for file in session::transcript_files(&home.sessions(), &home.archive(), id)? {
            // As it stands there: a run that was broken off left a tombstone, which names its run, too.
            jsonl::for_each_line(&file, 0, |line, _| {
                let event = serde_json::from_slice::<Value>(line).unwrap_or_default();
                let run = event
                    .get("run_id")
                    .and_then(Value::as_str)
                    .filter(|run| !run.is_empty());
                if event.get("seq").and_then(Value::as_i64) == Some(seq) {
                    runs.extend(run.map(str::to_owned));
                }
            })?;
        }
    }
    // Their names are made of their words.
    let items = origins
        .iter()
        .filter_map(|origin| origin.path.strip_prefix("workspace/"));
    let items = items.filter(|path| path.starts_with("memory/items/"));
    let quotes = origins.iter().map(|origin| &origin.quote);
    let words = Words::of_fact(quotes, runs, [&fact.entity, &fact.attribute, &fact.value]);
    Ok(words.named(items).but(others.iter()))
}

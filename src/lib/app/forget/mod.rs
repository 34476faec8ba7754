//! `forget --hard`: erases words from everything the agent keeps, and proves it.
//!
//! ```text
//! what is it called, what states it (memory.db, people.json)
//!   → survey: how much stands where                       nothing is changed yet
//!   → downloads, files, transcripts, queue.db, index.db    each whole or not at all
//!   → memory.db, people.json                               last: a run that was broken off finds again what is meant
//!   → proof: everything is searched once more, the bytes of the databases too; the index is made anew
//! ```
//! It holds the locks of the daemon and of `agent-consolidate`: a daemon that runs would write back what it has in memory.
//! One that is asked ends its turns and begins anew, and erases before it opens anything (`ordered.rs`).

mod at_restart;
mod files;
mod matcher;

pub(crate) use at_restart::waiting;

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use matcher::Words;
use serde_json::Value;

use crate::app::cli::{Exit, Failure};
use crate::app::documents;
use crate::config;
use crate::config::{Environment, Home};
use crate::db;
use crate::db::Hit;
use crate::memory::consolidate;
use crate::memory::consolidate::{Means, Named, Options};
use crate::memory::embedder;
use crate::memory::facts;
use crate::memory::facts::{Fact, Target};
use crate::memory::index;
use crate::memory::index::Place;
use crate::people;
use crate::people::People;
use crate::sys;
use crate::sys::{jsonl, lock};
use crate::workspace::Marks;
use crate::{clock, queue, session};

/// Bytes of a database that are looked at at a time, and how many of them twice.
const BLOCK: usize = 1 << 20;
const OVERLAP: usize = 4096;

/// Everything that is to be erased.
pub(crate) struct Erasing<'a> {
    home: &'a Home,
    env: &'a Environment,
    target: &'a Target,
    words: Arc<Words>,
    /// The order that is being carried out, a file of the spool: it goes when all else is gone.
    order: Option<PathBuf>,
}

/// How much stands where: rows, lines or files by store, and what is not the agent's to change.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub counts: BTreeMap<String, usize>,
    /// Lines of notes, and notes that go as a whole.
    pub notes: Vec<String>,
    pub left: BTreeMap<String, &'static str>,
    pub searched: usize,
    /// What was not made anew, and why.
    pub unmade: Option<String>,
}

impl Survey {
    /// Returns what a proof says.
    ///
    /// # Errors
    /// Where something still stands.
    pub(crate) fn proved(&self) -> Result<String, Failure> {
        let places: Vec<&str> = self.counts.keys().map(String::as_str).collect();
        if places.is_empty() {
            let unmade = self
                .unmade
                .as_ref()
                .map_or_else(String::new, |why| format!("; {why}"));
            return Ok(format!(
                "nothing left in {} files; backups are yours to look through{unmade}",
                self.searched
            ));
        }
        Err(Failure::new(
            Exit::Failed,
            format!("it still stands in {}", places.join("; ")),
        )
        .hint("run the same once more"))
    }
}

/// Keeps everybody away from what is being erased.
pub(crate) struct Alone {
    _locks: Vec<lock::Lock>,
}

impl Alone {
    /// Takes the locks; `None` when a daemon runs.
    ///
    /// # Errors
    /// [`Exit::TryAgain`] while `agent-consolidate` runs.
    pub(crate) fn without_daemon(home: &Home) -> Result<Option<Self>, Failure> {
        let Some(held) = lock::try_lock(&home.lock())? else {
            return Ok(None);
        };
        let mut alone = Self::as_daemon(home)?;
        alone._locks.push(held);
        Ok(Some(alone))
    }

    /// Takes the locks but the daemon's, which it has.
    ///
    /// # Errors
    /// As [`Alone::without_daemon`].
    fn as_daemon(home: &Home) -> Result<Self, Failure> {
        Ok(Self {
            _locks: vec![consolidate::alone(home)?.map_err(busy)?],
        })
    }
}

/// The failure of what waits for `agent-consolidate`.
pub(crate) fn busy(pid: i32) -> Failure {
    Failure::new(
        Exit::TryAgain,
        format!("agent-consolidate is running (pid {pid})"),
    )
    .hint("try again in a moment")
}

/// Returns whom or what `words` mean.
///
/// # Errors
/// When people.json or memory.db cannot be read.
pub(crate) fn meant(home: &Home, env: &Environment, words: &str) -> Result<Named, Failure> {
    let people = People::read(&home.people())?;
    let telegram = config::load(home, env, &[]).map(|loaded| loaded.config.telegram);
    let is_owner = |id: i64| match &telegram {
        Ok(telegram) => people.is_owner(telegram, id),
        Err(_) => people.owners.iter().any(|owner| owner.id == id),
    };
    Ok(consolidate::named(home, &people, &is_owner, words)?)
}

/// Reads by rules what nobody has read yet: what is not known to state it would stay, and state it again.
///
/// # Errors
/// When memory.db cannot be used.
pub(crate) fn read_the_rest(home: &Home, env: &Environment) -> Result<(), Failure> {
    if !facts::database(home).exists() {
        return Ok(());
    }
    let (zone, _) = documents::zone(home, env);
    let options = Options {
        to_the_end: true,
        ..Options::default()
    };
    // Another run reads it now.
    consolidate::run(home, Means::rules(zone), options, &mut |_| {})
        .map(drop)
        .map_err(Failure::from)
}

/// Writes memory.db anew, so that nothing is left in it of what was being erased when a run was killed.
///
/// # Errors
/// When it cannot be used now.
pub(crate) fn wring_out(home: &Home) -> Result<(), Failure> {
    if facts::database(home).exists() {
        consolidate::wring_out(home)?.map_err(busy)?;
    }
    Ok(())
}

impl<'a> Erasing<'a> {
    /// Finds out by which words `target` is known.
    pub(crate) fn of(
        home: &'a Home,
        env: &'a Environment,
        target: &'a Target,
    ) -> Result<Self, Failure> {
        let words = match target {
            Target::Person(person) => Words::of_person(person.names.iter().chain(&person.ids)),
            Target::Fact(fact) => of_fact(home, fact)?,
        };
        let downloads = std::fs::read_dir(home.downloads())
            .into_iter()
            .flatten()
            .flatten();
        let names = downloads
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        Ok(Self {
            home,
            env,
            target,
            words: Arc::new(words.noting(names)),
            order: None,
        })
    }

    fn hit(&self) -> Hit {
        let words = self.words.clone();
        Arc::new(move |text| words.are_in(text))
    }

    fn fact(&self) -> Option<&Fact> {
        match self.target {
            Target::Fact(fact) => Some(fact),
            Target::Person(_) => None,
        }
    }

    /// Counts what stands where.
    pub(crate) fn survey(&self) -> Result<Survey, Failure> {
        self.go_through(false)
    }

    /// Erases it and proves that: returns what still stands where.
    pub(crate) fn erase(&self, _alone: &Alone) -> Result<Survey, Failure> {
        self.go_through(true)?;
        self.prove()
    }

    fn go_through(&self, erase: bool) -> Result<Survey, Failure> {
        let home = self.home;
        let mut all = Survey::default();
        let rows = |all: &mut Survey, name: &str, counts: BTreeMap<String, usize>| {
            all.counts.extend(
                counts
                    .into_iter()
                    .map(|(table, count)| (format!("{name} {table}"), count)),
            );
        };
        // Which downloads belong to rows is known before they go, and they go before the rows.
        let waiting = queue::erase(&home.queue_db(), &self.hit(), true)?;
        let found = files::go_through(home, &self.words, self.order.as_deref(), erase)?;
        if erase {
            queue::erase(&home.queue_db(), &self.hit(), false)?;
        }
        rows(&mut all, "queue.db", waiting);
        all.counts.extend(
            found
                .counts
                .into_iter()
                .map(|(store, count)| (store.to_owned(), count)),
        );
        (all.left, all.notes, all.searched) = (found.left, found.notes, found.searched);
        self.marks(erase, &mut all)?;
        let place = Place::of(home);
        let words = self.words.clone();
        let chunks = index::holds(
            &place,
            &(Arc::new(move |text: &str| words.stand_alone_in(text)) as Hit),
        )?;
        rows(
            &mut all,
            "index.db",
            BTreeMap::from([("chunks".to_owned(), chunks)]),
        );
        if erase && !index::remove(&place)? {
            return Err(Failure::new(Exit::TryAgain, "agent-index is running")
                .hint("run the same once more: it finishes the work"));
        }
        let kept = facts::erase(
            &facts::database(home),
            &self.hit(),
            self.fact(),
            !erase,
            clock::now_ms(),
        )?;
        rows(&mut all, "memory.db", kept);
        self.people(erase, &mut all)?;
        all.counts.retain(|_, count| *count > 0);
        Ok(all)
    }

    /// Marks of files that are gone go; a mark of one that stays says that its words are somebody else's.
    fn marks(&self, erase: bool, all: &mut Survey) -> Result<(), Failure> {
        let home = self.home;
        let marks = Marks::new(&home.untrusted());
        for key in marks
            .all()
            .unwrap_or_default()
            .into_iter()
            .filter(|key| self.words.are_in(key))
        {
            if home.workspace().join(&key).exists() && !key.starts_with("memory/") {
                all.left.insert(
                    "state/untrusted.json".to_owned(),
                    "the name of a file of yours",
                );
                continue;
            }
            *all.counts.entry("untrusted.json".to_owned()).or_default() += 1;
            if erase {
                marks.clear(&key)?;
            }
        }
        Ok(())
    }

    /// Who is forgotten may not talk any more; who is blocked or muted stays so.
    fn people(&self, erase: bool, all: &mut Survey) -> Result<(), Failure> {
        let path = self.home.people();
        let is_meant =
            |id: i64, name: &str| self.words.are_in(&id.to_string()) || self.words.are_in(name);
        let without = |people: &mut People| {
            let before = people.allowed.len() + people.pending.len() + people.contacts.len();
            people.allowed.retain(|one| !is_meant(one.id, &one.name));
            people.pending.retain(|one| !is_meant(one.id, &one.name));
            people.contacts.retain(|one| {
                !is_meant(
                    one.id,
                    &format!(
                        "{} {}",
                        one.name,
                        one.username.as_deref().unwrap_or_default()
                    ),
                )
            });
            before - (people.allowed.len() + people.pending.len() + people.contacts.len())
        };
        let mut people = People::read(&path)?;
        let refused = people
            .blocked
            .iter()
            .chain(&people.muted)
            .any(|id| self.words.are_in(&id.to_string()));
        if refused {
            all.left.insert(
                "state/people.json".to_owned(),
                "who is blocked or muted stays so",
            );
        }
        all.counts
            .insert("people.json".to_owned(), without(&mut people));
        if erase {
            people::Store::new(&path).change(without)?;
        }
        Ok(())
    }

    /// Searches everything once more, the bytes of the databases too. Returns what still stands where, and makes the index anew.
    fn prove(&self) -> Result<Survey, Failure> {
        let home = self.home;
        let place = Place::of(home).with(embedder::opener(home, self.env, None));
        let unmade = index::sync(&place, index::Mode::default(), &mut |_| {}).err();
        let unmade = unmade
            .map(|error| format!("the index was not made anew: {error}; agent-index does it"));
        let mut all = Survey {
            unmade,
            ..self.survey()?
        };
        for name in ["queue.db", "memory.db", "index.db", "cost.db"] {
            let is_in = |text: &str| match name {
                "index.db" => self.words.stand_in_numbers(text),
                _ => self.words.stand_in(text),
            };
            for end in [""].into_iter().chain(db::BESIDE) {
                let path = db::beside(&home.state().join(name), end);
                all.searched += usize::from(path.exists());
                match stands_in_bytes(&path, &is_in)? {
                    true if name == "cost.db" => drop(
                        all.left
                            .insert(home.display(&path), "the ledger of what was paid"),
                    ),
                    true => drop(all.counts.insert(format!("{name}{end}, as bytes"), 1)),
                    false => {}
                }
            }
        }
        Ok(all)
    }
}

/// Returns true when `is_in` finds something in the bytes of a file.
fn stands_in_bytes(path: &Path, is_in: &dyn Fn(&str) -> bool) -> Result<bool, Failure> {
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
fn of_fact(home: &Home, fact: &Fact) -> Result<Words, Failure> {
    let facts::Evidence { origins, others } = facts::evidence(&facts::database(home), fact)?;
    let mut runs = Vec::new();
    for (id, seq) in origins
        .iter()
        .filter_map(|origin| origin.session_id.as_deref().zip(origin.seq))
    {
        for file in session::transcript_files(&home.sessions(), &home.archive(), id)? {
            // As it stands there: a run that was broken off left a placeholder, which names its run, too.
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

//! Reads notes: changed files, in batches, and deleted ones.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Run, says_enough};
use crate::clock;
use crate::memory::consolidate::model_reader::Extracted;
use crate::memory::consolidate::{Asks, Error, NoAnswer, notes, watermarks};
use crate::memory::facts::store::{Part, Statement};
use crate::memory::facts::{folded, store, value_key};
use crate::memory::scope::Scope;
use crate::memory::sources;
use crate::memory::sources::{Candidate, Reader, Skipped, Source, Stamp, Unread};

/// Files that are committed together, at most, and their bytes.
const BATCH_FILES: usize = 64;
const BATCH_BYTES: usize = 1 << 20;

/// No facts are drawn from a longer file: nobody states so much, and each line of a dump looks like one.
const MAX_FILE: i64 = 1 << 20;

/// What is added to the content of a file that a model has read, before it is hashed.
const BY_MODEL: &[u8] = b"\0by a model";
/// Under which name its calls are in the ledger.
const NOTES: &str = "notes";

/// A file that changed or is gone.
struct Changed {
    path: String,
    /// The SHA-256 of what it was when it was read last.
    before: Option<Vec<u8>>,
    /// What it is now; `None` when it is gone.
    now: Option<(Stamp, Vec<u8>)>,
    lines: i64,
    statements: Vec<Statement>,
}

impl Changed {
    fn gone(path: String, before: Option<Vec<u8>>) -> Self {
        Self {
            path,
            before,
            now: None,
            lines: 0,
            statements: Vec::new(),
        }
    }
}

/// What lines said that may stand elsewhere now, each since when: a line that only moved is no newer.
#[derive(Default)]
struct Moved(HashMap<Line, i64>);

/// The scope, the words, and the fact that is stated: of whom, what, and its value.
type Line = (Scope, String, [String; 3]);

impl Moved {
    fn key(statement: &Statement) -> Line {
        let said_of = statement.said_of.as_ref().unwrap_or(&statement.entity);
        let fact = [
            folded(said_of),
            folded(&statement.attribute),
            value_key(&statement.value),
        ];
        (statement.scope.clone(), statement.quote.clone(), fact)
    }

    fn add(&mut self, statements: &[Statement]) {
        for statement in statements {
            let at = self.0.entry(Self::key(statement)).or_insert(statement.at);
            *at = statement.at.min(*at);
        }
    }

    /// Dates what moved back to when it was first read.
    fn date_back(&self, statements: &mut [Statement]) {
        if self.0.is_empty() {
            return;
        }
        for statement in statements {
            let since = self.0.get(&Self::key(statement));
            statement.at = since.map_or(statement.at, |at| statement.at.min(*at));
        }
    }
}

impl Run<'_, '_> {
    pub(super) fn notes(
        &mut self,
        files: &[Candidate],
        count: &mut dyn FnMut(),
    ) -> Result<(), Error> {
        let mut known = watermarks::files(&self.connection).map_err(self.fail())?;
        let mut moved = self.left_behind(files, &known)?;
        let reader = Reader::new(self.home);
        let now = clock::now_ms();
        let (mut restamped, mut batch, mut bytes_of_batch) = (Vec::new(), Vec::new(), 0);
        for file in files {
            count();
            let row = known.remove(&file.shown).unwrap_or_default();
            let stated = self.stated_in_long(file)?;
            if stated.as_ref().is_some_and(Vec::is_empty) {
                continue;
            }
            let by_model = stated.is_none() && self.reads_by_model(file);
            if row.sha256.is_some() && row.stamp == file.stamp && !by_model {
                self.report.unchanged += 1;
                continue;
            }
            let bytes = match reader.read(file) {
                Ok(bytes) => bytes,
                // What it said before still holds.
                Err(Unread::Failed(skipped)) => {
                    self.report.skipped.push(skipped);
                    continue;
                }
                Err(Unread::Gone) => {
                    batch.push(Changed::gone(file.shown.clone(), row.sha256));
                    continue;
                }
            };
            let (stamp, sha256) = (file.stamp.settled(now), sources::sha256(&bytes));
            // What a model has read stays read, also for the rules of another process.
            let of_model = sources::sha256(&[bytes.as_slice(), BY_MODEL].concat());
            let known_as = [(&of_model, true), (&sha256, !by_model)]
                .into_iter()
                .find(|(known, counts)| *counts && row.sha256.as_ref() == Some(*known));
            if let Some((known, _)) = known_as {
                self.report.unchanged += 1;
                if row.stamp != stamp {
                    restamped.push((file.shown.clone(), stamp, known.clone()));
                }
                continue;
            }
            let read_as = (stamp, sha256, of_model);
            let rules = match stated {
                Some(stated) => notes::left_of(stated, &bytes),
                None => notes::statements(file, &bytes),
            };
            batch.push(self.changed(file, &bytes, rules, row.sha256, read_as, by_model)?);
            bytes_of_batch += bytes.len();
            if batch.len() >= BATCH_FILES || bytes_of_batch >= BATCH_BYTES {
                self.date_back(&mut moved, &mut batch)?;
                self.commit(&batch)?;
                batch.clear();
                bytes_of_batch = 0;
            }
        }
        batch.extend(self.lost_notes(known));
        self.date_back(&mut moved, &mut batch)?;
        self.commit(&batch)?;
        if !restamped.is_empty() {
            self.write(|connection| {
                restamped.iter().try_for_each(|(path, stamp, sha256)| {
                    watermarks::file_done(connection, path, Some((*stamp, sha256)))
                })
            })?;
        }
        Ok(())
    }

    /// Returns what is known from a file that has grown too long to draw facts from; `None` for one that is not.
    fn stated_in_long(&mut self, file: &Candidate) -> Result<Option<Vec<Statement>>, Error> {
        if file.stamp.size <= MAX_FILE {
            return Ok(None);
        }
        self.skip(
            &file.shown,
            &format!(
                "no facts are extracted from more than {MAX_FILE} bytes; agent-index still indexes it"
            ),
        );
        self.stated(&file.shown).map(Some)
    }

    /// Returns what is known from the file `path`.
    fn stated(&mut self, path: &str) -> Result<Vec<Statement>, Error> {
        store::stated(&self.connection, Part::File(path)).map_err(self.fail())
    }

    /// Dates lines back that left one file of a batch for another.
    fn date_back(&mut self, moved: &mut Moved, batch: &mut [Changed]) -> Result<(), Error> {
        for file in &*batch {
            let still: HashSet<Line> = file.statements.iter().map(Moved::key).collect();
            let mut left = self.stated(&file.path)?;
            left.retain(|statement| !still.contains(&Moved::key(statement)));
            moved.add(&left);
        }
        for file in batch {
            moved.date_back(&mut file.statements);
        }
        Ok(())
    }

    /// Returns what was said in files that are not among `files` any more: others may have their lines now.
    fn left_behind(
        &mut self,
        files: &[Candidate],
        known: &BTreeMap<String, watermarks::File>,
    ) -> Result<Moved, Error> {
        let there: HashSet<&str> = files.iter().map(|file| file.shown.as_str()).collect();
        let mut moved = Moved::default();
        for path in known.keys().filter(|path| !there.contains(path.as_str())) {
            moved.add(&self.stated(path)?);
        }
        Ok(moved)
    }

    /// Returns what a changed file says, by a model where it is to read it, else by `rules`; `sha256` and `of_model` are what
    /// it is known as once rules or a model have read it.
    fn changed(
        &mut self,
        file: &Candidate,
        bytes: &[u8],
        rules: Vec<Statement>,
        before: Option<Vec<u8>>,
        (stamp, sha256, of_model): (Stamp, Vec<u8>, Vec<u8>),
        by_model: bool,
    ) -> Result<Changed, Error> {
        let (statements, sha256) = match by_model {
            false => (rules, sha256),
            true => match self.ask_about(file, bytes, rules)? {
                (statements, true) => (statements, of_model),
                (statements, false) => (statements, sha256),
            },
        };
        let lines = bytes.split(|byte| *byte == b'\n').count();
        Ok(Changed {
            path: file.shown.clone(),
            before,
            now: Some((stamp, sha256)),
            lines: i64::try_from(lines).unwrap_or(i64::MAX),
            statements,
        })
    }

    /// Returns the files of `known`, none of which was found, that are gone permanently.
    fn lost_notes(&mut self, mut known: BTreeMap<String, watermarks::File>) -> Vec<Changed> {
        // A disk that is not there is no reason to forget what is on it.
        if !known.is_empty()
            && std::fs::read_dir(self.home.workspace())
                .is_ok_and(|mut entries| entries.next().is_none())
        {
            self.skip(
                "workspace",
                "it is empty; the facts of its files are kept until it contains a file again",
            );
        }
        let skipped = &self.report.skipped;
        known.retain(|path, _| !skipped.iter().any(|skipped| skipped.hides(path)));
        known
            .into_iter()
            .map(|(path, row)| Changed::gone(path, row.sha256))
            .collect()
    }

    /// Returns true for a note of the owner's that a model is asked about in this run.
    fn reads_by_model(&self, file: &Candidate) -> bool {
        self.options.notes_by_model
            && self.means.model.is_some()
            && self.means.asks == Asks::Now
            && file.source == Source::Memory
            && sources::scope_of(&file.shown) == Scope::Owner
    }

    /// Adds what a model finds in a note to what rules did; false when it is to be asked again another time.
    fn ask_about(
        &mut self,
        file: &Candidate,
        bytes: &[u8],
        rules: Vec<Statement>,
    ) -> Result<(Vec<Statement>, bool), Error> {
        let lines = notes::lines(file, bytes);
        if !says_enough(&lines) {
            return Ok((rules, true));
        }
        Ok(match self.ask_model(NOTES, &lines)? {
            Ok(mut found) => {
                // A note is not a conversation: it holds as long as it is there, and promises nothing.
                for statement in &mut found.statements {
                    statement.session = None;
                }
                let rules = Extracted {
                    statements: rules,
                    ..Extracted::default()
                };
                (found.beside(rules).statements, true)
            }
            Err(why) => {
                let (why, is_over) = match why {
                    // It must not be paid for again.
                    NoAnswer::Failed(why) => (why, true),
                    NoAnswer::Later(why) => (why, false),
                    NoAnswer::NotYet => return Ok((rules, false)),
                };
                self.report
                    .waits
                    .push(Skipped::new(file.shown.clone(), why));
                (rules, is_over)
            }
        })
    }

    /// Commits what files state, together; one that another run read meanwhile is left to that.
    fn commit(&mut self, batch: &[Changed]) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        let owner = self.owner.clone();
        let done = self.write(|connection| {
            let (mut done, now) = (Vec::new(), clock::now_ms());
            for file in batch {
                if !watermarks::is_as_read(connection, &file.path, file.before.as_deref())? {
                    continue;
                }
                let part = Part::File(&file.path);
                let applied = store::restate(connection, &owner.run, part, &file.statements, now)?;
                let read = file.now.as_ref();
                let read = read.map(|(stamp, sha256)| (*stamp, sha256.as_slice()));
                watermarks::file_done(connection, &file.path, read)?;
                let lines = (1, file.lines);
                watermarks::done(connection, &owner, &file.path, lines, &applied, now)?;
                done.push(applied);
            }
            Ok(done)
        })?;
        self.report.left += batch.len() - done.len();
        self.report.files += done.len();
        done.into_iter().for_each(|applied| self.take(applied));
        Ok(())
    }
}

//! One run: every note, every conversation.

use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, TransactionBehavior};

use super::claim::Owner;
use super::model_reader;
use super::model_reader::{Found, Line, Trouble, Who};
use super::transcripts::{Span, Talk};
use super::{Asks, Error, Means, Options, Report, notes, watermarks};
use crate::config::Home;
use crate::memory::Progress;
use crate::memory::facts;
use crate::memory::facts::store;
use crate::memory::facts::store::{Applied, Part, Statement};
use crate::memory::facts::{Change, Places, commitments, episodes};
use crate::memory::scope::Scope;
use crate::memory::sources;
use crate::memory::sources::{Candidate, Reader, Skipped, Stamp, Unread};
use crate::{clock, db, session};

/// Files that are claimed and committed together, at most, and their bytes.
const BATCH_FILES: usize = 64;
const BATCH_BYTES: usize = 1 << 20;

/// No facts are drawn from a longer file: nobody states so much, and each line of a dump looks like one.
const MAX_FILE: i64 = 1 << 20;

/// Failures in a row after which a span is left to the rules (specification §13).
const MAX_FAILURES: i64 = 3;
/// Words of the owner's below which rules read a span as well as any model.
const LEAST_WORDS: usize = 8;
/// Names that a model is told.
const MAX_NAMES: usize = 60;

/// Works through everything with `connection`.
pub(super) fn all(
    home: &Home,
    connection: Connection,
    means: Means<'_>,
    options: Options<'_>,
    each: &mut dyn FnMut(Progress),
) -> Result<Report, Error> {
    let places = Places::of(&facts::database(home));
    let report = Report {
        cost_usd: Some(0.0),
        ..Report::default()
    };
    let mut run = Run {
        home,
        connection,
        owner: Owner::new(),
        places,
        report,
        means,
        options,
        later: None,
    };
    let worked = run.all(each);
    if worked.is_err() {
        // The process may live on; where this fails, too, its claims end by themselves.
        let owner = run.owner.clone();
        let _ = run.write(|connection| watermarks::release(connection, &owner));
    }
    worked.map(|()| run.report)
}

struct Run<'a, 'm> {
    home: &'a Home,
    connection: Connection,
    owner: Owner,
    places: Places,
    report: Report,
    means: Means<'m>,
    options: Options<'a>,
    /// Why no model is asked any more in this run.
    later: Option<String>,
}

/// What became of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Worked {
    Done,
    /// Another run is at it, or did it.
    Left,
    /// It is tried again by another run.
    Waits,
    /// It is not tried again, although no model could read it.
    Parked,
}

/// A file that is to be worked through.
struct Work {
    path: String,
    /// What it was when it was worked through last.
    before: Option<Vec<u8>>,
    /// What it is now, and says; `None` when it is gone.
    now: Option<(Stamp, Vec<u8>)>,
    lines: i64,
    file: Option<(Candidate, Vec<u8>)>,
}

impl Run<'_, '_> {
    fn all(&mut self, each: &mut dyn FnMut(Progress)) -> Result<(), Error> {
        let Options {
            backfill, session, ..
        } = self.options;
        if backfill {
            self.write(watermarks::forget)?;
        }
        let is_wanted = |id: &String| session.is_none_or(|wanted| wanted == id);
        let talks = session::all_transcripts(&self.home.sessions(), &self.home.archive())
            .map_err(Error::File);
        let talks = talks.map(|talks| {
            talks
                .into_iter()
                .filter(|(id, _)| is_wanted(id))
                .collect::<Vec<_>>()
        });
        let (files, skipped) = if session.is_none() {
            sources::notes(self.home)
        } else {
            Default::default()
        };
        self.report.skipped = skipped;
        let total = files.len() + talks.as_ref().map_or(0, Vec::len);
        let mut done = 0;
        let mut count = || {
            done += 1;
            each(Progress { done, total });
        };
        if session.is_none() {
            self.notes(&files, &mut count)?;
        }
        match talks {
            Ok(talks) => self.talks(&talks, &mut count)?,
            Err(error) => self.skip("state/sessions", &error.to_string()),
        }
        Ok(())
    }

    fn write<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let transaction = self
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate);
        let done = transaction.and_then(|transaction| {
            let value = work(&transaction)?;
            transaction.commit().map(|()| value)
        });
        done.map_err(|error| db::Error::of(&facts::database(self.home), error).into())
    }

    fn skip(&mut self, path: &str, why: &str) {
        self.report.skipped.push(Skipped {
            path: path.to_owned(),
            why: why.to_owned(),
        });
    }

    fn fail(&self) -> impl Fn(rusqlite::Error) -> Error + use<> {
        let path = facts::database(self.home);
        move |error| db::Error::of(&path, error).into()
    }

    // ------------------------------------------------------------------ notes

    fn notes(&mut self, files: &[Candidate], count: &mut dyn FnMut()) -> Result<(), Error> {
        let mut known = watermarks::files(&self.connection).map_err(self.fail())?;
        let reader = Reader::new(self.home);
        let now = clock::now_ms();
        let (mut restamped, mut batch, mut bytes_of_batch) = (Vec::new(), Vec::new(), 0);
        for file in files {
            count();
            let row = known.remove(&file.shown).unwrap_or_default();
            let dead = row.left_by(&self.owner, now);
            if row.sha256.is_some() && row.stamp == file.stamp && dead.is_none() {
                self.report.unchanged += 1;
                continue;
            }
            if file.stamp.size > MAX_FILE {
                self.skip(
                    &file.shown,
                    &format!("no facts are drawn from more than {MAX_FILE} bytes; agent-index finds what it says"),
                );
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
                    batch.push(Work {
                        path: file.shown.clone(),
                        before: row.sha256,
                        now: None,
                        lines: 0,
                        file: None,
                    });
                    continue;
                }
            };
            let (stamp, sha256) = (file.stamp.settled(now), sources::sha256(&bytes));
            if row.sha256.as_ref() == Some(&sha256) {
                self.report.unchanged += 1;
                if row.stamp != stamp || dead.is_some() {
                    restamped.push((file.shown.clone(), stamp, dead.map(str::to_owned)));
                }
                continue;
            }
            bytes_of_batch += bytes.len();
            let lines = bytes.split(|byte| *byte == b'\n').count();
            batch.push(Work {
                path: file.shown.clone(),
                before: row.sha256,
                now: Some((stamp, sha256)),
                lines: i64::try_from(lines).unwrap_or(i64::MAX),
                file: Some((file.clone(), bytes)),
            });
            if batch.len() >= BATCH_FILES || bytes_of_batch >= BATCH_BYTES {
                self.batch(std::mem::take(&mut batch))?;
                bytes_of_batch = 0;
            }
        }
        // A disk that is not there is no reason to forget what stands on it.
        if !known.is_empty()
            && std::fs::read_dir(self.home.workspace())
                .is_ok_and(|mut entries| entries.next().is_none())
        {
            self.skip(
                "workspace",
                "it is empty; what its files stated is kept until there is a file in it again",
            );
        }
        known.retain(|path, _| {
            !self
                .report
                .skipped
                .iter()
                .any(|skipped| skipped.hides(path))
        });
        batch.extend(known.into_iter().map(|(path, row)| Work {
            path,
            before: row.sha256,
            now: None,
            lines: 0,
            file: None,
        }));
        self.batch(batch)?;
        if !restamped.is_empty() {
            self.write(|connection| {
                let mut all = restamped.iter();
                all.try_for_each(|(path, stamp, dead)| {
                    watermarks::restamp(connection, path, *stamp, dead.as_deref())
                })
            })?;
        }
        Ok(())
    }

    /// Claims, extracts and commits files together.
    fn batch(&mut self, mut batch: Vec<Work>) -> Result<(), Error> {
        if batch.is_empty() {
            return Ok(());
        }
        let (owner, all) = (self.owner.clone(), batch.len());
        let mut ours = Vec::with_capacity(all);
        self.write(|connection| {
            for work in &batch {
                ours.push(watermarks::claim_file(
                    connection,
                    &work.path,
                    work.before.as_deref(),
                    &owner,
                    clock::now_ms(),
                )?);
            }
            Ok(())
        })?;
        let mut ours = ours.into_iter();
        batch.retain(|_| ours.next().unwrap_or(false));
        let stated: Vec<(Work, Vec<Statement>)> = batch
            .into_iter()
            .map(|mut work| {
                let statements = work
                    .file
                    .take()
                    .map_or_else(Vec::new, |(file, bytes)| notes::statements(&file, &bytes));
                (work, statements)
            })
            .collect();
        let done = self.write(|connection| {
            let (mut done, now) = (Vec::new(), clock::now_ms());
            for (work, statements) in &stated {
                if !watermarks::holds_file(connection, &work.path, work.before.as_deref(), &owner)?
                {
                    continue;
                }
                let applied = store::restate(
                    connection,
                    &owner.run,
                    Part::File(&work.path),
                    statements,
                    now,
                )?;
                let state = work
                    .now
                    .as_ref()
                    .map(|(stamp, sha256)| (*stamp, sha256.as_slice()));
                watermarks::file_done(connection, &work.path, state)?;
                watermarks::done(
                    connection,
                    &owner,
                    &work.path,
                    (1, work.lines),
                    &applied,
                    now,
                )?;
                done.push(applied);
            }
            Ok(done)
        })?;
        self.report.left += all - done.len();
        self.report.files += done.len();
        done.into_iter().for_each(|applied| self.take(applied));
        Ok(())
    }

    fn take(&mut self, mut applied: Applied) {
        for change in &mut applied.changes {
            match change {
                Change::New(fact) | Change::Gone(fact) => {
                    self.places.bring_up_to_date(&mut fact.source)
                }
                Change::Superseded { old, new } => {
                    [old, new]
                        .into_iter()
                        .for_each(|fact| self.places.bring_up_to_date(&mut fact.source));
                }
            }
        }
        self.report.changes.extend(applied.changes);
        self.report.touched += applied.touched;
    }

    // ------------------------------------------------------------------ conversations

    fn talks(
        &mut self,
        talks: &[(String, Vec<PathBuf>)],
        count: &mut dyn FnMut(),
    ) -> Result<(), Error> {
        let known = watermarks::sessions(&self.connection).map_err(self.fail())?;
        let mut seen = Vec::new();
        for (id, files) in talks {
            count();
            let row = known.get(id).cloned().unwrap_or_default();
            let (looks, is_settled) = self.looks(files);
            let is_archived = files
                .iter()
                .all(|file| file.parent() == Some(self.home.archive().as_path()));
            let to_the_end = self.options.to_the_end && !is_archived;
            if row.seen.as_ref() == Some(&looks) && !to_the_end {
                self.report.unchanged += 1;
                continue;
            }
            let talk = match Talk::read(files, row.watermark, is_archived || to_the_end) {
                Ok(talk) => talk,
                Err(error) => {
                    self.skip(&format!("state/sessions/{id}"), &error.to_string());
                    continue;
                }
            };
            self.report.unchanged += usize::from(!talk.is_owners);
            let is_done = !talk.is_owners || self.talk(id, &talk, row.watermark)?;
            if is_done && is_settled {
                seen.push((id, looks));
            }
        }
        if !seen.is_empty() {
            self.write(|connection| {
                seen.iter()
                    .try_for_each(|(id, looks)| watermarks::seen(connection, id, looks))
            })?;
        }
        if self.options.backfill && !talks.is_empty() {
            self.gone_talks(talks)?;
        }
        Ok(())
    }

    /// Works through a conversation; false when something of it is left.
    fn talk(&mut self, id: &str, talk: &Talk, mut watermark: i64) -> Result<bool, Error> {
        let mut spans = 0;
        while let Some(span) = talk.next_span(watermark) {
            match self.span(id, talk, watermark, &span)? {
                Worked::Done | Worked::Parked => {}
                Worked::Left => {
                    self.report.left += 1;
                    return Ok(false);
                }
                Worked::Waits => return Ok(false),
            }
            watermark = span.to;
            spans += 1;
        }
        self.report.spans += spans;
        self.report.sessions += usize::from(spans > 0);
        self.report.unchanged += usize::from(spans == 0);
        Ok(true)
    }

    fn span(
        &mut self,
        id: &str,
        talk: &Talk,
        watermark: i64,
        span: &Span,
    ) -> Result<Worked, Error> {
        let owner = self.owner.clone();
        if !self.write(|connection| {
            watermarks::claim_span(connection, id, watermark, span.to, &owner, clock::now_ms())
        })? {
            return Ok(Worked::Left);
        }
        let rules = talk.by_rules(id, span, self.means.zone);
        let (found, trouble) = match self.ask(id, talk, span)? {
            Ok(found) => (found.beside(rules), None),
            Err(trouble) => (rules, Some(trouble)),
        };
        // A model that has not read it may add to this later.
        let applied = self.write(|connection| {
            if !watermarks::holds_span(connection, id, watermark, &owner)? {
                return Ok(None);
            }
            let (run, now) = (owner.run.as_str(), clock::now_ms());
            let part = Part::Span {
                session: id,
                from: span.from,
                to: span.to,
            };
            let applied = store::restate(connection, run, part, &found.statements, now)?;
            let stretch = episodes::Stretch {
                session: id,
                first: span.from,
                last: span.to,
            };
            let episode = episodes::restate(
                connection,
                run,
                &Scope::Owner,
                stretch,
                found.episode.as_ref(),
                now,
            )?;
            let promises =
                commitments::restate(connection, run, part, &found.promises, episode, now)?;
            let ended = match &trouble {
                None => Worked::Done,
                Some(Trouble::NotYet | Trouble::Later(_)) => {
                    watermarks::let_go(connection, id, false).map(|_| Worked::Waits)?
                }
                Some(Trouble::Failed(_))
                    if watermarks::let_go(connection, id, true)? < MAX_FAILURES =>
                {
                    Worked::Waits
                }
                Some(Trouble::Failed(why)) => {
                    watermarks::park(connection, id, (span.from, span.to), why, now)?;
                    Worked::Parked
                }
            };
            if ended != Worked::Waits {
                watermarks::span_done(connection, id, span.to)?;
                watermarks::done(connection, &owner, id, (span.from, span.to), &applied, now)?;
            }
            Ok(Some((applied, promises, ended)))
        })?;
        let Some((applied, promises, ended)) = applied else {
            return Ok(Worked::Left);
        };
        self.take(applied);
        self.report.promises += promises;
        if let Some(Trouble::Later(why) | Trouble::Failed(why)) = trouble {
            let told = if ended == Worked::Parked {
                &mut self.report.parked
            } else {
                &mut self.report.waits
            };
            told.push(Skipped {
                path: id.to_owned(),
                why,
            });
        }
        Ok(ended)
    }

    /// Returns what a model finds in a span; nothing where none is to be asked.
    fn ask(&mut self, id: &str, talk: &Talk, span: &Span) -> Result<Result<Found, Trouble>, Error> {
        if self.options.to_the_end {
            return Ok(Err(Trouble::NotYet));
        }
        let (zone, fail) = (self.means.zone, self.fail());
        let Some(model) = self.means.model.as_mut() else {
            return Ok(Ok(Found::default()));
        };
        let lines = talk.lines(span);
        let own = lines.iter().filter(|line| line.who == Who::Owner);
        let words: usize = own
            .map(|line: &Line| line.words.split_whitespace().count())
            .sum();
        if words < LEAST_WORDS {
            return Ok(Ok(Found::default()));
        }
        let names = watermarks::names(&self.connection, &Scope::Owner.to_string(), MAX_NAMES)
            .map_err(fail)?;
        let question = model_reader::question(&lines, &names, zone);
        if self.options.dry_run {
            self.report.asked += 1;
            let cost = model.cost_usd(model_reader::SYSTEM, &question);
            self.report.cost_usd = self.report.cost_usd.zip(cost).map(|(sum, one)| sum + one);
            return Ok(Ok(Found::default()));
        }
        let is_time = match self.means.asks {
            Asks::Now => true,
            Asks::AtTheEnd => talk.is_archived,
            Asks::Later => false,
        };
        if !is_time {
            return Ok(Err(Trouble::NotYet));
        }
        if let Some(why) = &self.later {
            return Ok(Err(Trouble::Later(why.clone())));
        }
        self.report.asked += 1;
        let answer = model.ask(id, model_reader::SYSTEM, &question);
        if let Err(Trouble::Later(why)) = &answer {
            self.later = Some(why.clone());
        }
        Ok(answer.and_then(|answer| {
            model_reader::read(&answer, &lines, id, &Scope::Owner, zone).map_err(Trouble::Failed)
        }))
    }

    /// What was said in transcripts that were deleted is withdrawn, when everything is gone through.
    fn gone_talks(&mut self, talks: &[(String, Vec<PathBuf>)]) -> Result<(), Error> {
        let mut gone = watermarks::sessions_of_facts(&self.connection).map_err(self.fail())?;
        gone.retain(|id| talks.binary_search_by(|(known, _)| known.cmp(id)).is_err());
        for id in gone {
            let part = Part::Span {
                session: &id,
                from: 0,
                to: i64::MAX,
            };
            let stretch = episodes::Stretch {
                session: &id,
                first: 0,
                last: i64::MAX,
            };
            let run = self.owner.run.clone();
            let applied = self.write(|connection| {
                let now = clock::now_ms();
                episodes::restate(connection, &run, &Scope::Owner, stretch, None, now)?;
                commitments::restate(connection, &run, part, &[], None, now)?;
                store::restate(connection, &run, part, &[], now)
            })?;
            self.take(applied);
        }
        Ok(())
    }

    /// Returns what the files of a conversation look like, and whether that will tell a change.
    fn looks(&self, files: &[PathBuf]) -> (String, bool) {
        let (mut looks, mut is_settled, now) = (String::new(), true, clock::now_ms());
        let name = |path: &Path| {
            path.strip_prefix(self.home.sessions())
                .unwrap_or(path)
                .display()
                .to_string()
        };
        for file in files {
            let Ok(meta) = std::fs::metadata(file) else {
                return (String::new(), false);
            };
            let stamp = Stamp::of(&meta);
            is_settled &= stamp.settled(now) == stamp;
            // Writing to a String cannot fail.
            let _ = writeln!(
                looks,
                "{} {} {} {} {}",
                name(file),
                meta.ino(),
                stamp.size,
                stamp.times.0,
                stamp.times.1
            );
        }
        (looks, is_settled)
    }
}

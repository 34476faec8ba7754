//! Reads conversations, a span at a time: claimed, read by rules and a model, committed.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rusqlite::Connection;

use super::{Run, says_enough};
use crate::clock;
use crate::memory::consolidate::model_reader::Extracted;
use crate::memory::consolidate::transcripts::{Span, Transcript};
use crate::memory::consolidate::watermarks::SpanEnd;
use crate::memory::consolidate::{Asks, Error, NoAnswer, watermarks};
use crate::memory::facts::store;
use crate::memory::facts::store::{Applied, Part};
use crate::memory::facts::{commitments, episodes};
use crate::memory::scope::Scope;
use crate::memory::sources::{Skipped, Stamp};

/// Failures in a row after which a span is left to the rules (specification §13).
const MAX_FAILURES: i64 = 3;

/// What became of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpanResult {
    Done,
    /// Another run is at it, or did it.
    Left,
    /// It is tried again by another run.
    Waits,
    /// It is not tried again, although no model could read it.
    Parked,
}

/// Conversations and their files.
type Files = BTreeMap<String, Vec<PathBuf>>;

impl Run<'_, '_> {
    pub(super) fn sessions(&mut self, all: &Files, count: &mut dyn FnMut()) -> Result<(), Error> {
        let known = watermarks::sessions(&self.connection).map_err(self.fail())?;
        let mut seen = Vec::new();
        for (id, files) in all {
            count();
            let (watermark, seen_before) = known.get(id).cloned().unwrap_or_default();
            let (looks, is_settled) = self.looks(files);
            let archive = self.home.archive();
            let is_archived = files.iter().all(|file| file.parent() == Some(&archive));
            let to_the_end = self.options.to_the_end && !is_archived;
            if seen_before.as_ref() == Some(&looks) && !to_the_end {
                self.report.unchanged += 1;
                continue;
            }
            let transcript = match Transcript::read(files, watermark, is_archived || to_the_end) {
                Ok(transcript) => transcript,
                Err(error) => {
                    self.skip(&format!("state/sessions/{id}"), &error.to_string());
                    continue;
                }
            };
            self.report.unchanged += usize::from(transcript.scope.is_none());
            let is_done = transcript.scope.is_none() || self.session(id, &transcript, watermark)?;
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
        if self.options.backfill && !all.is_empty() {
            self.gone(all)?;
        }
        Ok(())
    }

    /// Reads a conversation; false when something of it is left.
    fn session(
        &mut self,
        id: &str,
        transcript: &Transcript,
        mut watermark: i64,
    ) -> Result<bool, Error> {
        let mut spans = 0;
        while let Some(span) = transcript.next_span(watermark) {
            match self.span(id, transcript, watermark, &span)? {
                SpanResult::Done | SpanResult::Parked => {}
                SpanResult::Left => {
                    self.report.left += 1;
                    return Ok(false);
                }
                SpanResult::Waits => {
                    self.rest(id, transcript, watermark, span.to)?;
                    return Ok(false);
                }
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
        transcript: &Transcript,
        watermark: i64,
        span: &Span,
    ) -> Result<SpanResult, Error> {
        let owner = self.owner.clone();
        if !self.write(|connection| {
            watermarks::claim_span(connection, id, watermark, span.to, &owner, clock::now_ms())
        })? {
            return Ok(SpanResult::Left);
        }
        let rules = transcript.by_rules(id, span, self.means.zone);
        let (found, trouble) = match self.ask(id, transcript, span)? {
            Ok(found) => (found.beside(rules), None),
            // A model that has not read it may add to this later.
            Err(trouble) => (rules, Some(trouble)),
        };
        let dry_run = self.options.dry_run;
        let written = self.write(|connection| {
            if !watermarks::holds_span(connection, id, watermark, &owner)? {
                return Ok(None);
            }
            let (run, now) = (owner.run.as_str(), clock::now_ms());
            let Span { from, to, .. } = *span;
            let is_read = trouble.is_none();
            let of = (id, transcript, span);
            let (applied, promises) = restate(connection, run, of, found, is_read, now)?;
            let release = |end| watermarks::release_span(connection, id, end);
            let result = match &trouble {
                None => SpanResult::Done,
                // The model would be asked about the next span, too.
                Some(NoAnswer::NotYet) if dry_run => SpanResult::Done,
                Some(NoAnswer::NotYet | NoAnswer::Later(_)) => {
                    release(SpanEnd::Waits).map(|_| SpanResult::Waits)?
                }
                Some(NoAnswer::Failed(why)) => {
                    if release(SpanEnd::Failed)? < MAX_FAILURES {
                        SpanResult::Waits
                    } else {
                        watermarks::park(connection, id, (from, to), why, now)?;
                        SpanResult::Parked
                    }
                }
            };
            if result != SpanResult::Waits {
                release(SpanEnd::ReadTo(to))?;
                watermarks::done(connection, &owner, id, (from, to), &applied, now)?;
            }
            Ok(Some((applied, promises, result)))
        })?;
        let Some((applied, promises, result)) = written else {
            return Ok(SpanResult::Left);
        };
        self.take(applied);
        self.report.promises += promises;
        if let Some(NoAnswer::Later(why) | NoAnswer::Failed(why)) = trouble {
            let list = match result {
                SpanResult::Parked => &mut self.report.parked,
                _ => &mut self.report.waits,
            };
            list.push(Skipped::new(id, why));
        }
        Ok(result)
    }

    /// Has the rules read all that comes after event `after`, the last of a span that waits at `watermark`. With that span
    /// it is read again.
    fn rest(
        &mut self,
        id: &str,
        transcript: &Transcript,
        watermark: i64,
        after: i64,
    ) -> Result<(), Error> {
        let Some(rest) = transcript
            .rest(after)
            .filter(|_| transcript.scope.is_some())
        else {
            return Ok(());
        };
        let found = transcript.by_rules(id, &rest, self.means.zone);
        let owner = self.owner.clone();
        let written = self.write(|connection| {
            let now = clock::now_ms();
            if !watermarks::claim_span(connection, id, watermark, rest.to, &owner, now)? {
                return Ok(None);
            }
            let of = (id, transcript, &rest);
            let done = restate(connection, &owner.run, of, found, false, now)?;
            watermarks::release_span(connection, id, SpanEnd::Waits)?;
            Ok(Some(done))
        })?;
        // Another run that is at it, or did it, reads the rest, too.
        if let Some((applied, promises)) = written {
            self.take(applied);
            self.report.promises += promises;
        }
        Ok(())
    }

    /// Returns what a model finds in a span; nothing where none is to be asked.
    fn ask(
        &mut self,
        id: &str,
        transcript: &Transcript,
        span: &Span,
    ) -> Result<Result<Extracted, NoAnswer>, Error> {
        if self.options.to_the_end {
            return Ok(Err(NoAnswer::NotYet));
        }
        // What guests say costs the owner nothing.
        if transcript.scope != Some(Scope::Owner) || self.means.model.is_none() {
            return Ok(Ok(Extracted::default()));
        }
        let lines = transcript.lines(span);
        if !says_enough(&lines) {
            return Ok(Ok(Extracted::default()));
        }
        let is_time = match self.means.asks {
            _ if self.options.dry_run => true,
            Asks::Now => true,
            Asks::AtTheEnd => transcript.is_archived,
            Asks::Later => false,
        };
        if !is_time {
            return Ok(Err(NoAnswer::NotYet));
        }
        if let Some(why) = &self.later {
            return Ok(Err(NoAnswer::Later(why.clone())));
        }
        let answer = self.ask_model(id, &lines)?;
        if let Err(NoAnswer::Later(why)) = &answer {
            self.later = Some(why.clone());
        }
        Ok(answer)
    }

    /// What was said in transcripts that were deleted is withdrawn, when everything is read again.
    fn gone(&mut self, all: &Files) -> Result<(), Error> {
        let mut gone = watermarks::sessions_of_facts(&self.connection).map_err(self.fail())?;
        gone.retain(|id| !all.contains_key(id));
        for id in gone {
            let part = Part::Span {
                session: &id,
                from: 0,
                to: i64::MAX,
            };
            let run = self.owner.run.clone();
            let applied = self.write(|connection| {
                let now = clock::now_ms();
                episodes::restate(connection, &run, &Scope::Owner, part, None, now)?;
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
        let sessions = self.home.sessions();
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
                file.strip_prefix(&sessions).unwrap_or(file).display(),
                meta.ino(),
                stamp.size,
                stamp.times.0,
                stamp.times.1
            );
        }
        (looks, is_settled)
    }
}

/// Makes what is known of a span of a conversation follow from `found`, and returns what that changed. Until it `is_read` by
/// whoever is to read it, what was found there before stays next to it.
fn restate(
    connection: &Connection,
    run: &str,
    (session, transcript, span): (&str, &Transcript, &Span),
    mut found: Extracted,
    is_read: bool,
    now: i64,
) -> rusqlite::Result<(Applied, usize)> {
    let scope = transcript.scope.as_ref().unwrap_or(&Scope::Owner);
    let part = |from, to| Part::Span { session, from, to };
    let mut withdrawn = Applied::default();
    if let Some(seq) = transcript.taken_back_before(span) {
        withdrawn = store::restate(connection, run, part(seq, seq), &[], now)?;
        commitments::restate(connection, run, part(seq, seq), &[], None, now)?;
    }
    let part = part(span.from, span.to);
    let stays = |said: &Option<(String, i64)>| {
        let seq = said.as_ref().map(|(_, seq)| *seq);
        seq.is_some_and(|seq| transcript.keeps(seq, is_read))
    };
    let mut known = Extracted {
        statements: store::stated(connection, part)?,
        promises: commitments::stated(connection, part)?,
        episode: None,
    };
    known.statements.retain(|one| stays(&one.session));
    known.promises.retain(|one| stays(&one.session));
    let episode = found.episode.take();
    let mut found = known.beside(found);
    let is_scheduled = |(_, seq): &(String, i64)| transcript.is_scheduled(*seq);
    let promises = &mut found.promises;
    promises.retain(|one| !one.session.as_ref().is_some_and(is_scheduled));
    let mut applied = store::restate(connection, run, part, &found.statements, now)?;
    applied.changes.extend(withdrawn.changes);
    let episode = match is_read {
        true => episodes::restate(connection, run, scope, part, episode.as_ref(), now)?,
        false => None,
    };
    let promises = commitments::restate(connection, run, part, &found.promises, episode, now)?;
    Ok((applied, promises))
}

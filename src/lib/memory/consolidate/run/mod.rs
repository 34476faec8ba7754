//! One run: every note, every conversation.

mod notes;
mod sessions;

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::lease::Owner;
use super::model_reader::Extracted;
use super::transcripts::{Speaker, Utterance};
use super::{Error, Means, NoAnswer, Options, Report, model_reader, watermarks};
use crate::config::Home;
use crate::memory::Progress;
use crate::memory::facts;
use crate::memory::facts::store::Applied;
use crate::memory::facts::{Change, Fact, Places};
use crate::memory::scope::Scope;
use crate::memory::sources;
use crate::memory::sources::Skipped;
use crate::{db, session};

/// Works through everything with `connection`.
pub(super) fn all(
    home: &Home,
    connection: Connection,
    means: Means<'_>,
    options: Options<'_>,
    each: &mut dyn FnMut(Progress),
) -> Result<Report, Error> {
    let mut run = Run {
        home,
        connection,
        owner: Owner::new(),
        places: Places::of(&facts::database(home)),
        report: Report {
            cost_usd: Some(0.0),
            ..Report::default()
        },
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

/// Words of the owner's below which rules read as well as any model.
const LEAST_WORDS: usize = 8;
/// Names that a model is told.
const MAX_NAMES: usize = 60;

fn says_enough(lines: &[Utterance]) -> bool {
    let own = lines.iter().filter(|line| line.speaker == Speaker::Owner);
    let words: usize = own.map(|line| line.words.split_whitespace().count()).sum();
    words >= LEAST_WORDS
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

impl Run<'_, '_> {
    fn all(&mut self, each: &mut dyn FnMut(Progress)) -> Result<(), Error> {
        let wanted = self.options.session;
        if self.options.backfill {
            self.write(watermarks::reset)?;
        }
        let transcripts = session::all_transcripts(&self.home.sessions(), &self.home.archive());
        let (mut transcripts, trouble) = match transcripts {
            Ok(transcripts) => (transcripts, None),
            Err(error) => (BTreeMap::new(), Some(error)),
        };
        transcripts.retain(|id, _| wanted.is_none_or(|wanted| wanted == id));
        let (files, skipped) = if wanted.is_none() {
            sources::notes(self.home)
        } else {
            Default::default()
        };
        self.report.skipped = skipped;
        let (mut done, total) = (0, files.len() + transcripts.len());
        let mut count = || {
            done += 1;
            each(Progress { done, total });
        };
        if wanted.is_none() {
            self.notes(&files, &mut count)?;
        }
        match trouble {
            None => self.sessions(&transcripts, &mut count)?,
            Some(error) => self.skip("state/sessions", &error.to_string()),
        }
        Ok(())
    }

    /// Has the model read lines; `source` is in the ledger. A dry run only counts what it would cost.
    fn ask_model(
        &mut self,
        source: &str,
        lines: &[Utterance],
    ) -> Result<Result<Extracted, NoAnswer>, Error> {
        let (zone, owner) = (self.means.zone, Scope::Owner.to_string());
        let names = watermarks::names(&self.connection, &owner, MAX_NAMES).map_err(self.fail())?;
        let Some(model) = self.means.model.as_mut() else {
            return Ok(Err(NoAnswer::NotYet));
        };
        let question = model_reader::question(lines, &names, zone);
        self.report.asked += 1;
        if self.options.dry_run {
            let cost = model.cost_usd(model_reader::SYSTEM, &question);
            self.report.cost_usd = self.report.cost_usd.zip(cost).map(|(sum, one)| sum + one);
            return Ok(Err(NoAnswer::NotYet));
        }
        let answer = model.ask(source, model_reader::SYSTEM, &question);
        Ok(answer.and_then(|answer| {
            model_reader::read(&answer, lines, source, zone).map_err(NoAnswer::Failed)
        }))
    }

    fn write<T>(
        &mut self,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let path = facts::database(self.home);
        facts::transact(&mut self.connection, &path, |connection| {
            Ok(work(connection).map_err(|error| db::Error::of(&path, error))?)
        })
    }

    fn skip(&mut self, path: &str, why: &str) {
        self.report.skipped.push(Skipped::new(path, why));
    }

    fn fail(&self) -> impl Fn(rusqlite::Error) -> Error + use<> {
        let path = facts::database(self.home);
        move |error| db::Error::of(&path, error).into()
    }

    fn take(&mut self, mut applied: Applied) {
        let mut update = |fact: &mut Fact| self.places.bring_up_to_date(&mut fact.source);
        for change in &mut applied.changes {
            match change {
                Change::New(fact) | Change::Gone(fact) => update(fact),
                Change::Superseded { old, new } => {
                    [old, new].into_iter().for_each(|fact| update(fact))
                }
            }
        }
        self.report.changes.extend(applied.changes);
        self.report.touched += applied.touched;
    }
}

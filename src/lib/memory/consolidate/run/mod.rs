//! One run: every note, every conversation.

mod notes;
mod sessions;

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::claim::Owner;
use super::{Error, Means, Options, Report, watermarks};
use crate::config::Home;
use crate::memory::Progress;
use crate::memory::facts;
use crate::memory::facts::store::Applied;
use crate::memory::facts::{Change, Fact, Places};
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
        self.report.skipped.push(Skipped {
            path: path.to_owned(),
            why: why.to_owned(),
        });
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

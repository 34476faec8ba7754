//! Fills a collection from a directory. Several hosts may do it at once, and each may be killed at any moment: a file is
//! written in one transaction, and what a host knows of a file is next to it (`looks`).
//!
//! ```text
//! unchanged for this host      nothing is read
//! same content                 its entry in `looks` is updated
//! other content                one transaction replaces the rows, under a lock of that path
//! deleted                      its entry is removed; when no host has the file any more, so is the file
//! then                         removal of unused rows; word counts; missing vectors
//! ```

mod listing;
mod upkeep;
mod write;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Error;
use super::store::Store;
use crate::clock;
use crate::db::postgres::{Parameter, ServerError, Type};
use crate::embedding::Embedder;
use crate::language::tokenize::Words;
use crate::memory::Progress;
use crate::memory::index::{Made, Place, Report, rules};
use crate::memory::sources::{Skipped, Stamp};
use crate::sandbox::Root;

/// How long one step may take: a large file with all its chunks.
pub const PATIENCE: Duration = Duration::from_secs(120);
/// The scope of what everybody who reads the collection may see.
pub const EVERYBODY: &str = "shared";

/// What is to be filled in.
#[derive(Debug, Clone)]
pub struct Source<'a> {
    /// The directory.
    pub directory: &'a Path,
    /// What it is called in the collection; by itself as the directory is.
    pub name: Option<&'a str>,
    /// Who may see it.
    pub scope: &'a str,
    /// What this host is called; by itself its name, which changes with each start of a container.
    pub host: Option<&'a str>,
    /// Read every file again.
    pub full: bool,
    /// Whether a directory without a document may empty what was filled in before.
    pub may_be_empty: bool,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Filled {
    /// What the directory is called there.
    pub source: String,
    /// What was done with its files.
    pub report: Report,
}

/// A file as the collection has it.
struct Known {
    id: i64,
    scope: String,
    sha256: Vec<u8>,
    rules: String,
    /// How it looked to this host, when it had it.
    look: Option<Stamp>,
}

/// Fills `store` from a directory. `each` is called after every file.
///
/// # Errors
/// See [`Error`]. What was written until then stays, and the next fill continues.
pub fn fill(
    store: &mut Store,
    place: &Place,
    source: &Source<'_>,
    each: &mut dyn FnMut(Progress),
) -> Result<Filled, Error> {
    let here = Here::of(source)?;
    let model = store.about()?;
    let root = Root::open(&here.directory);
    let root = root.map_err(|error| Error::Directory(error.to_string()))?;
    let (documents, skipped) = listing::list(&root);
    let known = here.known(store)?;
    if documents.is_empty() && !known.is_empty() && !source.may_be_empty {
        return Err(Error::Directory(format!(
            "no document is in {}, and the collection has {} of it: is it mounted? --empty removes them",
            here.directory.display(),
            known.len()
        )));
    }
    let was_whole = here.begin(store, source.name.is_some())?;
    let mut run = Run {
        store,
        here: &here,
        root: &root,
        words: Words::new(),
        rules: rules(),
        now: clock::now_ms(),
        first_new: None,
        report: Report {
            full: source.full,
            skipped,
            ..Report::default()
        },
    };
    run.files(&documents, known, each)?;
    let (first_new, mut report) = (run.first_new, run.report);
    let is_changed = first_new.is_some() || report.removed > 0 || !was_whole;
    if is_changed {
        // Before the vectors: another host may be removing those of a text that was nowhere until now. This waits for it.
        upkeep::tidy(store, &here.scope, report.chunks)?;
    }
    let from = match was_whole && !source.full {
        true => first_new,
        false => Some(0),
    };
    if let Some(from) = from {
        report.vectors = match place.embedder() {
            Err(error) => Made {
                failed: Some(error.to_string()),
                ..Made::default()
            },
            Ok(None) => Made::default(),
            Ok(Some(embedder)) => make_vectors(store, &model, embedder, &here, from, each)?,
        };
    }
    here.end(store, documents.len(), &report)?;
    Ok(Filled {
        source: here.name,
        report,
    })
}

fn make_vectors(
    store: &mut Store,
    model: &super::store::About,
    embedder: Embedder,
    here: &Here,
    from: i64,
    each: &mut dyn FnMut(Progress),
) -> Result<Made, Error> {
    if embedder.name() != model.model {
        let other = match model.model.is_empty() {
            true => "no vectors".to_owned(),
            false => format!("vectors of {}", model.model),
        };
        return Ok(Made {
            failed: Some(format!(
                "the collection has {other}, and the settings name {}",
                embedder.name()
            )),
            ..Made::default()
        });
    }
    upkeep::make_vectors(store, (model.dims, &here.scope), embedder, from, each)
}

/// Which host fills what under which name.
struct Here {
    directory: PathBuf,
    name: String,
    scope: String,
    host: String,
}

impl Here {
    fn of(source: &Source<'_>) -> Result<Self, Error> {
        let shown = source.directory.display();
        let directory = source.directory.canonicalize();
        let directory = directory
            .map_err(|error| Error::Directory(format!("{shown} cannot be used: {error}")))?;
        let own = directory.file_name().map(|name| name.to_string_lossy());
        let name = source.name.map(str::to_owned);
        let name = name.or(own.map(Into::into)).unwrap_or_default();
        let own = nix::unistd::gethostname().ok();
        let own = own.and_then(|name| name.into_string().ok());
        let host = source.host.map(str::to_owned).or(own);
        let host = host.unwrap_or_else(|| "localhost".to_owned());
        for (what, word) in [
            ("--as", name.as_str()),
            ("--scope", source.scope),
            ("--host", &host),
        ] {
            if !is_label(word) {
                return Err(Error::Directory(format!(
                    "`{word}` cannot be a name in a collection: {what} NAME takes 1 to 60 letters, digits, `.`, `_`, `-` or blanks"
                )));
            }
        }
        Ok(Self {
            directory,
            name,
            scope: source.scope.to_owned(),
            host,
        })
    }

    /// Returns the files of this source that the collection has, by path.
    fn known(&self, store: &mut Store) -> Result<BTreeMap<String, Known>, Error> {
        let sql =
            "SELECT f.path, f.id, f.scope, f.sha256, f.rules, l.size, l.mtime, l.ctime FROM files f
                   LEFT JOIN looks l ON l.file = f.id AND l.host = $2 WHERE f.source = $1
                   ORDER BY f.scope = $3";
        // Of one path in two scopes the row in the own one counts: it comes last.
        let parameters: [Parameter<'_>; 3] = [
            (&self.name, Type::TEXT),
            (&self.host, Type::TEXT),
            (&self.scope, Type::TEXT),
        ];
        let files = store.query(sql, &parameters, |row| {
            let size: Option<i64> = row.try_get(5)?;
            let times = || Ok::<_, ServerError>((row.try_get(6)?, row.try_get(7)?));
            let look = size.map(|size| {
                Ok::<_, ServerError>(Stamp {
                    size,
                    times: times()?,
                })
            });
            let file = Known {
                id: row.try_get(1)?,
                scope: row.try_get(2)?,
                sha256: row.try_get(3)?,
                rules: row.try_get(4)?,
                look: look.transpose()?,
            };
            Ok((row.try_get(0)?, file))
        })?;
        Ok(files.into_iter().collect())
    }

    /// Notes that this host fills, and returns whether its last fill came to its end with nothing missing. A name that was
    /// not chosen belongs to the directory that had it first.
    fn begin(&self, store: &mut Store, is_chosen: bool) -> Result<bool, Error> {
        let directory = self.directory.display().to_string();
        let sql = "SELECT host, directory, ended_at IS NOT NULL AND lacking = '' FROM fills WHERE source = $1";
        let rows: Vec<(String, String, bool)> =
            store.query(sql, &[(&self.name, Type::TEXT)], |row| {
                Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?))
            })?;
        let own = rows.iter().find(|(host, ..)| *host == self.host);
        let other = match own {
            Some((_, before, _)) => (*before != directory).then_some(("this host", before)),
            None => rows
                .first()
                .map(|(host, before, _)| (host.as_str(), before)),
        };
        if let Some((host, before)) = other.filter(|_| !is_chosen) {
            return Err(Error::Directory(format!(
                "`{}` is filled from {before} on {host}: give this directory a name of its own with --as, or the same if both have the same documents",
                self.name
            )));
        }
        let was_whole = own.is_some_and(|(.., whole)| *whole);
        let sql = "INSERT INTO fills(scope, source, host, directory, skew_ms)
                   VALUES ($1, $2, $3, $4, $5 - (extract(epoch FROM clock_timestamp()) * 1000)::int8)
                   ON CONFLICT (scope, source, host) DO UPDATE
                   SET directory = excluded.directory, began_at = now(), ended_at = NULL, skew_ms = excluded.skew_ms,
                     times = fills.times + 1,
                     pause_ms = (extract(epoch FROM now() - fills.began_at) * 1000
                       + fills.pause_ms * least(fills.times - 1, 3)) / least(fills.times, 4)";
        let now = clock::now_ms();
        let parameters: [Parameter<'_>; 5] = [
            (&self.scope, Type::TEXT),
            (&self.name, Type::TEXT),
            (&self.host, Type::TEXT),
            (&directory, Type::TEXT),
            (&now, Type::INT8),
        ];
        store.execute(sql, &parameters)?;
        Ok(was_whole)
    }

    fn end(&self, store: &mut Store, files: usize, report: &Report) -> Result<(), Error> {
        let sql = "UPDATE fills SET ended_at = clock_timestamp(), files = $4, lacking = $5
                   WHERE scope = $1 AND source = $2 AND host = $3";
        let files = i64::try_from(files).unwrap_or(i64::MAX);
        let lacking = report.vectors.failed.as_deref().unwrap_or_default();
        let parameters: [Parameter<'_>; 5] = [
            (&self.scope, Type::TEXT),
            (&self.name, Type::TEXT),
            (&self.host, Type::TEXT),
            (&files, Type::INT8),
            (&lacking, Type::TEXT),
        ];
        store.execute(sql, &parameters)
    }
}

/// Returns true for a word that may be part of a path that people read.
fn is_label(word: &str) -> bool {
    (1..=60).contains(&word.chars().count())
        && word.trim() == word
        && !word.starts_with('.')
        && word
            .chars()
            .all(|c| c.is_alphanumeric() || "._- ".contains(c))
}

/// One fill.
struct Run<'a> {
    store: &'a mut Store,
    here: &'a Here,
    root: &'a Root,
    words: Words,
    rules: String,
    now: i64,
    /// The first chunk that was written.
    first_new: Option<i64>,
    report: Report,
}

impl Run<'_> {
    fn files(
        &mut self,
        documents: &[listing::Document],
        mut known: BTreeMap<String, Known>,
        each: &mut dyn FnMut(Progress),
    ) -> Result<(), Error> {
        let total = documents.len();
        for (done, document) in documents.iter().enumerate() {
            each(Progress { done, total });
            let before = known.remove(&document.path);
            self.file(document, before.as_ref())?;
        }
        let hidden: Vec<Skipped> = self.report.skipped.clone();
        let is_hidden = |path: &str| hidden.iter().any(|skipped| skipped.hides(path));
        let is_whole = !hidden.iter().any(|skipped| skipped.path.is_empty());
        for (path, file) in known {
            if file.look.is_some() && is_whole && !is_hidden(&path) {
                let is_removed = write::remove(self.store, file.id, &self.here.host)?;
                self.report.removed += usize::from(is_removed);
            }
        }
        Ok(())
    }

    fn file(&mut self, document: &listing::Document, before: Option<&Known>) -> Result<(), Error> {
        let as_before =
            before.filter(|file| file.rules == self.rules && file.scope == self.here.scope);
        if !self.report.full && as_before.is_some_and(|file| file.look == Some(document.stamp)) {
            self.report.unchanged += 1;
            return Ok(());
        }
        let text = match listing::read(self.root, &document.path) {
            Ok(text) => text,
            Err(listing::Unread::Gone) => {
                if let Some(file) = before.filter(|file| file.look.is_some()) {
                    let is_removed = write::remove(self.store, file.id, &self.here.host)?;
                    self.report.removed += usize::from(is_removed);
                }
                return Ok(());
            }
            // Its old text can still be found.
            Err(listing::Unread::Failed(why)) => {
                let path = document.path.clone();
                self.report.skipped.push(Skipped::new(path, why));
                return Ok(());
            }
        };
        let file = write::File::of(document, &text, self.now);
        if let Some(same) =
            as_before.filter(|before| before.sha256 == file.sha256 && !self.report.full)
        {
            self.report.unchanged += 1;
            return write::look(self.store, same.id, &self.here.host, file.stamp);
        }
        let written = write::replace(self.store, self.here, &self.rules, &mut self.words, &file)?;
        match (written, before) {
            (None, _) => self.report.unchanged += 1,
            (Some(_), None) => self.report.added += 1,
            (Some(_), Some(_)) => self.report.changed += 1,
        }
        if let Some((first, count)) = written {
            self.report.chunks += count;
            self.first_new = Some(self.first_new.map_or(first, |before| before.min(first)));
        }
        Ok(())
    }
}

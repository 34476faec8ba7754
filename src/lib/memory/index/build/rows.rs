//! The rows of `index.db`: reads what is known of files, writes what they say.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::chunk;
use super::document;
use super::document::Document;
use super::summaries;
use crate::language::tokenize::{Word, Words};
use crate::memory::index::blocks;
use crate::memory::index::blocks::{Changes, Entry};
use crate::memory::index::schema;
use crate::memory::scope::Scope;
use crate::memory::session_prefix::Past;
use crate::memory::sources;
use crate::memory::sources::{Candidate, Source, Stamp};

/// A row of `files`.
pub(crate) struct Row {
    pub id: i64,
    pub stamp: Stamp,
    pub sha256: Vec<u8>,
}

/// Returns the files that are indexed, by path.
pub(crate) fn known(connection: &Connection) -> rusqlite::Result<BTreeMap<String, Row>> {
    let sql = "SELECT path, id, size, mtime, ctime, sha256 FROM files WHERE source NOT IN ('summary', 'fact')";
    let mut query = connection.prepare(sql)?;
    let rows = query.query_map([], |row| {
        let stamp = Stamp {
            size: row.get(2)?,
            times: (row.get(3)?, row.get(4)?),
        };
        Ok((
            row.get(0)?,
            Row {
                id: row.get(1)?,
                stamp,
                sha256: row.get(5)?,
            },
        ))
    })?;
    rows.collect()
}

/// Returns the rows of facts by the SHA-256 of what they say.
pub(crate) fn known_facts(connection: &Connection) -> rusqlite::Result<HashMap<Vec<u8>, i64>> {
    let mut query = connection.prepare("SELECT sha256, id FROM files WHERE source = 'fact'")?;
    query
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect()
}

/// Returns what `memory.db` looked like when its facts were read, see [`super::fact_lines::look`].
pub(crate) fn facts_seen(connection: &Connection) -> rusqlite::Result<String> {
    connection.query_row("SELECT facts_seen FROM totals", [], |row| row.get(0))
}

/// Returns the rules by which the rows were made.
pub(crate) fn rules(connection: &Connection) -> rusqlite::Result<String> {
    Ok(connection
        .query_row("SELECT rules FROM totals", [], |row| row.get(0))
        .optional()?
        .unwrap_or_default())
}

/// Makes rows of files.
pub(crate) struct Writer {
    words: Words,
    changes: Changes,
    /// The number of the next chunk. Those of a file follow each other.
    next: i64,
    committed: i64,
}

impl Writer {
    pub(crate) fn new() -> Self {
        Self {
            words: Words::new(),
            changes: Changes::default(),
            next: 0,
            committed: 0,
        }
    }

    /// Returns how many chunks were written since the transaction began.
    pub(crate) fn since_commit(&self) -> i64 {
        self.next - self.committed
    }

    pub(crate) fn begin(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        self.next =
            transaction.query_row("SELECT coalesce(max(id), 0) + 1 FROM chunks", [], |row| {
                row.get(0)
            })?;
        self.committed = self.next;
        self.changes = Changes::new(blocks::state(transaction)?.dims);
        Ok(())
    }

    /// Writes the rows of what a file says, the words themselves first, and returns how many chunks they are.
    pub(crate) fn add(
        &mut self,
        transaction: &Transaction<'_>,
        texts: &[Text],
        stamp: Stamp,
        sha256: &[u8],
    ) -> rusqlite::Result<usize> {
        let mut written = 0;
        for (at, text) in texts.iter().enumerate() {
            // The others come and go with the first.
            let stamp = if at == 0 { stamp } else { Stamp::default() };
            written += self.add_one(transaction, text, stamp, sha256)?;
        }
        Ok(written)
    }

    fn add_one(
        &mut self,
        transaction: &Transaction<'_>,
        text: &Text,
        stamp: Stamp,
        sha256: &[u8],
    ) -> rusqlite::Result<usize> {
        let Text {
            path,
            source,
            scope,
            time,
            document,
        } = text;
        let (source, scope) = (source.as_str(), scope.to_string());
        let words: Vec<Vec<Word>> = document
            .units
            .iter()
            .map(|unit| self.words.of(&unit.text))
            .collect();
        let count = words.iter().map(Vec::len).sum::<usize>();
        transaction
            .prepare_cached(
                "INSERT INTO files(path, source, scope, size, mtime, ctime, sha256, time, units, words)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute((
                path,
                source,
                &scope,
                stamp.size,
                stamp.times.0,
                stamp.times.1,
                sha256,
                time,
                i64::try_from(document.units.len()).unwrap_or(i64::MAX),
                i64::try_from(count).unwrap_or(i64::MAX),
            ))?;
        let id = transaction.last_insert_rowid();
        let named = self.words.of(&document::date_words(name_of(path)));
        let group = self.changes.group(transaction, &scope, source)?;
        let entry = Entry {
            group,
            day: blocks::day_of(*time),
        };
        let mut written = 0;
        for range in chunks(document, &words) {
            let (Some(units), Some(words)) =
                (document.units.get(range.clone()), words.get(range.clone()))
            else {
                continue;
            };
            let mut context = named.clone();
            context.extend(self.words.of(document.section(range.start)));
            let packed = schema::pack(
                range.start,
                &context,
                units.iter().zip(words.iter().map(Vec::as_slice)),
            );
            self.changes.set(transaction, self.next, entry)?;
            self.insert(transaction, id, packed, &context, units, words)?;
            written += 1;
        }
        Ok(written)
    }

    /// Removes the rows of a file: of its own words, and of its summaries.
    pub(crate) fn remove(
        &mut self,
        transaction: &Transaction<'_>,
        path: &str,
    ) -> rusqlite::Result<()> {
        let mut query = transaction
            .prepare_cached("SELECT id FROM files WHERE path = ?1 AND source <> 'fact'")?;
        let ids: Vec<i64> = query
            .query_map([path], |row| row.get(0))?
            .collect::<rusqlite::Result<_>>()?;
        ids.into_iter()
            .try_for_each(|id| self.remove_one(transaction, id))
    }

    /// Removes row `id` of `files` and what belongs to it.
    pub(crate) fn remove_one(
        &mut self,
        transaction: &Transaction<'_>,
        id: i64,
    ) -> rusqlite::Result<()> {
        for chunk in chunks_of(transaction, id)? {
            self.changes.set(transaction, chunk, Entry::default())?;
            transaction
                .prepare_cached("DELETE FROM chunks_fts WHERE rowid = ?1")?
                .execute([chunk])?;
            transaction
                .prepare_cached("DELETE FROM vectors WHERE chunk = ?1")?
                .execute([chunk])?;
        }
        transaction
            .prepare_cached("DELETE FROM chunks WHERE file = ?1")?
            .execute([id])?;
        transaction
            .prepare_cached("DELETE FROM files WHERE id = ?1")?
            .execute([id])?;
        Ok(())
    }

    /// Notes that file number `id` says what it said when it was last changed: its times alone are others.
    pub(crate) fn restamp(
        &mut self,
        transaction: &Transaction<'_>,
        id: i64,
        file: &Candidate,
        stamp: Stamp,
    ) -> rusqlite::Result<()> {
        let Stamp {
            size,
            times: (mtime, ctime),
        } = stamp;
        transaction
            .prepare_cached(
                "UPDATE files SET size = ?2, mtime = ?3, ctime = ?4, time = ?5 WHERE id = ?1",
            )?
            .execute((id, size, mtime, ctime, time_of(file)))?;
        for chunk in chunks_of(transaction, id)? {
            self.changes
                .set_day(transaction, chunk, blocks::day_of(time_of(file)))?;
        }
        Ok(())
    }

    /// Sums up what there is and notes the rules it was made by, and what `memory.db` looked like. Facts say
    /// what is said elsewhere: they are not counted among the texts, which would make words of facts frequent and
    /// texts short.
    pub(crate) fn total(
        &mut self,
        transaction: &Transaction<'_>,
        now: i64,
        facts_seen: &str,
    ) -> rusqlite::Result<()> {
        let version = next_version(transaction, now)?;
        self.changes.write(transaction, version)?;
        transaction.execute(
            "UPDATE totals SET rules = ?1, indexed_at = ?2, version = ?3, facts_seen = ?4,
               chunks = (SELECT count(*) FROM chunks), vectors = (SELECT count(*) FROM vectors),
               facts = (SELECT count(*) FROM chunks WHERE file IN (SELECT id FROM files WHERE source = 'fact')),
               (files, bytes, words, units) = (SELECT count(*), coalesce(sum(size), 0), coalesce(sum(words), 0),
                 coalesce(sum(units), 0) FROM files WHERE source <> 'fact')",
            (schema::rules(), now, version, facts_seen),
        )?;
        Ok(())
    }

    fn insert(
        &mut self,
        transaction: &Transaction<'_>,
        file: i64,
        packed: Vec<u8>,
        context: &[Word],
        units: &[chunk::Unit],
        words: &[Vec<Word>],
    ) -> rusqlite::Result<()> {
        let text = text_of(units);
        let line = |unit: Option<&chunk::Unit>| unit.map_or(0, |unit| unit.line);
        transaction
            .prepare_cached("INSERT INTO chunks(id, file, start_line, end_line, units, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)")?
            .execute((self.next, file, line(units.first()), line(units.last()), packed, text))?;
        let mut distinct: Vec<&Word> = context.iter().chain(words.iter().flatten()).collect();
        distinct.sort_unstable_by_key(|word| word.code);
        distinct.dedup_by_key(|word| word.code);
        let distinct: Vec<&str> = distinct.iter().map(|word| &*word.text).collect();
        transaction
            .prepare_cached("INSERT INTO chunks_fts(rowid, words) VALUES (?1, ?2)")?
            .execute((self.next, distinct.join(" ")))?;
        self.next += 1;
        Ok(())
    }
}

/// Returns the chunks of a document with these words; of one without any nothing can be asked for.
fn chunks(document: &Document, words: &[Vec<Word>]) -> impl Iterator<Item = Range<usize>> {
    let has_words = |range: &Range<usize>| {
        words
            .get(range.clone())
            .is_some_and(|words| words.iter().any(|line| !line.is_empty()))
    };
    chunk::chunks(&document.units).into_iter().filter(has_words)
}

fn text_of(units: &[chunk::Unit]) -> String {
    units.iter().map(|unit| unit.text.as_str()).collect()
}

/// Returns the chunks that [`Writer::add`] makes of a text.
pub(crate) fn texts_of_chunks(known: &mut Words, text: &Text) -> Vec<String> {
    let units = &text.document.units;
    let words: Vec<Vec<Word>> = units.iter().map(|unit| known.of(&unit.text)).collect();
    chunks(&text.document, &words)
        .filter_map(|range| units.get(range))
        .map(text_of)
        .collect()
}

/// Returns the part of a path that was given with thought: `workspace/memory/` and the like say
/// nothing, and the name of a transcript is a number.
fn name_of(shown: &str) -> &str {
    let name = shown.strip_prefix("workspace/memory/").unwrap_or(shown);
    if shown.starts_with("workspace/") {
        name.strip_suffix(".md").unwrap_or(name)
    } else {
        ""
    }
}

/// What a file says, or one of the summaries in it, or what is stated on one of its lines.
pub(crate) struct Text {
    /// As printed.
    pub path: String,
    pub source: Source,
    pub scope: Scope,
    /// When it was about, milliseconds since 1970 UTC.
    pub time: i64,
    pub document: Document,
}

/// Returns what a file says, the words themselves first; `before` is what was said before it where there are
/// summaries in it. Bytes that are no UTF-8 are replaced.
pub(crate) fn texts_of(file: &Candidate, bytes: &[u8], before: Option<Past>) -> Vec<Text> {
    let text = String::from_utf8_lossy(bytes);
    let one = |source, scope, time, document| Text {
        path: file.shown.clone(),
        source,
        scope,
        time,
        document,
    };
    if file.source != Source::Session {
        return vec![one(
            file.source,
            sources::scope_of(&file.shown),
            time_of(file),
            Document::of_markdown(&text),
        )];
    }
    let document = Document::of_transcript(&text, file.gone.and_then(|gone| gone.but));
    let key = document.head.as_ref().map_or("", |head| head.key.as_str());
    let scope = Scope::of_session(key, document.owner_spoke);
    let mut texts = vec![one(Source::Session, scope, time_of(file), document)];
    for summary in before
        .map(|before| summaries::of_transcript(&text, before))
        .unwrap_or_default()
    {
        texts.push(one(
            Source::Summary,
            summary.scope,
            summary.time,
            summary.document,
        ));
    }
    texts
}

/// Returns when a file was about, milliseconds since 1970 UTC: the date in its name, else when it
/// was last changed.
fn time_of(file: &Candidate) -> i64 {
    let named = sources::date_in(file.shown.rsplit('/').next().unwrap_or_default());
    let midnight = named
        .and_then(|date| date.and_hms_opt(0, 0, 0))
        .map(|time| time.and_utc().timestamp_millis());
    midnight.unwrap_or(file.stamp.times.0 / 1_000_000)
}

fn chunks_of(transaction: &Transaction<'_>, file: i64) -> rusqlite::Result<Vec<i64>> {
    let mut query = transaction.prepare_cached("SELECT id FROM chunks WHERE file = ?1")?;
    query.query_map([file], |row| row.get(0))?.collect()
}

/// Returns the number of the next change: it grows, also when the tables were made anew.
pub(crate) fn next_version(transaction: &Transaction<'_>, now: i64) -> rusqlite::Result<i64> {
    Ok(now.max(blocks::state(transaction)?.version + 1))
}

//! The rows of `index.db`: reads what is known of files, writes what they say.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::super::scope::Scope;
use super::super::sources::{self, Candidate, Source, Stamp};
use super::blocks::{self, Changes, Entry};
use super::chunk;
use super::document::{self, Document};
use super::schema;
use super::words::{Word, Words};

/// A row of `files`.
pub(super) struct Row {
    pub id: i64,
    pub stamp: Stamp,
    pub sha256: Vec<u8>,
}

/// Returns the files that are indexed, by path.
pub(super) fn known(connection: &Connection) -> rusqlite::Result<BTreeMap<String, Row>> {
    let mut query = connection.prepare("SELECT path, id, size, mtime, ctime, sha256 FROM files")?;
    let rows = query.query_map([], |row| {
        let stamp = Stamp { size: row.get(2)?, times: (row.get(3)?, row.get(4)?) };
        Ok((row.get(0)?, Row { id: row.get(1)?, stamp, sha256: row.get(5)? }))
    })?;
    rows.collect()
}

/// Returns the rules by which the rows were made.
pub(super) fn rules(connection: &Connection) -> rusqlite::Result<String> {
    Ok(connection.query_row("SELECT rules FROM totals", [], |row| row.get(0)).optional()?.unwrap_or_default())
}

/// Makes rows of files.
pub(super) struct Writer {
    words: Words,
    changes: Changes,
    /// The number of the next chunk. Those of a file follow each other.
    next: i64,
    committed: i64,
}

impl Writer {
    pub(super) fn new() -> Self {
        Self { words: Words::new(), changes: Changes::default(), next: 0, committed: 0 }
    }

    /// Returns how many chunks were written since the transaction began.
    pub(super) fn since_commit(&self) -> i64 {
        self.next - self.committed
    }

    pub(super) fn begin(&mut self, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
        self.next = transaction.query_row("SELECT coalesce(max(id), 0) + 1 FROM chunks", [], |row| row.get(0))?;
        self.committed = self.next;
        self.changes = Changes::new(blocks::state(transaction)?.dims);
        Ok(())
    }

    /// Writes the rows of a file and returns how many chunks they are.
    pub(super) fn add(
        &mut self,
        transaction: &Transaction<'_>,
        file: &Candidate,
        stamp: Stamp,
        sha256: &[u8],
        bytes: &[u8],
    ) -> rusqlite::Result<usize> {
        let document = document_of(file, bytes);
        let scope = scope_of(file, &document).to_string();
        let words: Vec<Vec<Word>> = document.units.iter().map(|unit| self.words.of(&unit.text)).collect();
        let count = words.iter().map(Vec::len).sum::<usize>();
        transaction
            .prepare_cached(
                "INSERT INTO files(path, source, scope, size, mtime, ctime, sha256, time, units, words)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?
            .execute((
                &file.shown,
                file.source.as_str(),
                &scope,
                stamp.size,
                stamp.times.0,
                stamp.times.1,
                sha256,
                time_of(file),
                i64::try_from(document.units.len()).unwrap_or(i64::MAX),
                i64::try_from(count).unwrap_or(i64::MAX),
            ))?;
        let id = transaction.last_insert_rowid();
        let named = self.words.of(&document::date_words(name_of(&file.shown)));
        let group = self.changes.group(transaction, &scope, file.source.as_str())?;
        let entry = Entry { group, day: blocks::day_of(time_of(file)) };
        let chunks = chunk::chunks(&document.units);
        let mut written = 0;
        for range in chunks {
            let (Some(units), Some(words)) = (document.units.get(range.clone()), words.get(range.clone())) else { continue };
            if words.iter().all(Vec::is_empty) {
                // Nothing in it can be asked for.
                continue;
            }
            let mut context = named.clone();
            context.extend(self.words.of(document.section(range.start)));
            let packed = schema::pack(range.start, &context, units.iter().zip(words.iter().map(Vec::as_slice)));
            self.changes.set(transaction, self.next, entry)?;
            self.insert(transaction, id, packed, &context, units, words)?;
            written += 1;
        }
        Ok(written)
    }

    /// Removes the rows of a file.
    pub(super) fn remove(&mut self, transaction: &Transaction<'_>, file: i64) -> rusqlite::Result<()> {
        for id in chunks_of(transaction, file)? {
            self.changes.set(transaction, id, Entry::default())?;
            transaction.prepare_cached("DELETE FROM chunks_fts WHERE rowid = ?1")?.execute([id])?;
            transaction.prepare_cached("DELETE FROM vectors WHERE chunk = ?1")?.execute([id])?;
        }
        transaction.prepare_cached("DELETE FROM chunks WHERE file = ?1")?.execute([file])?;
        transaction.prepare_cached("DELETE FROM files WHERE id = ?1")?.execute([file])?;
        Ok(())
    }

    /// Notes that file number `id` says what it said when it was last changed: its times alone are others.
    pub(super) fn restamp(
        &mut self,
        transaction: &Transaction<'_>,
        id: i64,
        file: &Candidate,
        stamp: Stamp,
    ) -> rusqlite::Result<()> {
        let Stamp { size, times: (mtime, ctime) } = stamp;
        transaction.prepare_cached("UPDATE files SET size = ?2, mtime = ?3, ctime = ?4, time = ?5 WHERE id = ?1")?.execute((
            id,
            size,
            mtime,
            ctime,
            time_of(file),
        ))?;
        for chunk in chunks_of(transaction, id)? {
            self.changes.set_day(transaction, chunk, blocks::day_of(time_of(file)))?;
        }
        Ok(())
    }

    /// Sums up what there is and notes the rules it was made by.
    pub(super) fn total(&mut self, transaction: &Transaction<'_>, now: i64) -> rusqlite::Result<()> {
        let version = next_version(transaction, now)?;
        self.changes.write(transaction, version)?;
        transaction.execute(
            "UPDATE totals SET rules = ?1, indexed_at = ?2, version = ?3, files = (SELECT count(*) FROM files),
               chunks = (SELECT count(*) FROM chunks), vectors = (SELECT count(*) FROM vectors),
               bytes = (SELECT coalesce(sum(size), 0) FROM files),
               words = (SELECT coalesce(sum(words), 0) FROM files),
               units = (SELECT coalesce(sum(units), 0) FROM files)",
            (schema::rules(), now, version),
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
        let text: String = units.iter().map(|unit| unit.text.as_str()).collect();
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

/// Returns the part of a path that was given with thought: `workspace/memory/` and the like say
/// nothing, and the name of a transcript is a number.
fn name_of(shown: &str) -> &str {
    let name = shown.strip_prefix("workspace/memory/").unwrap_or(shown);
    if shown.starts_with("workspace/") { name.strip_suffix(".md").unwrap_or(name) } else { "" }
}

/// Returns what the file says; bytes that are no UTF-8 are replaced.
pub(in crate::memory) fn document_of(file: &Candidate, bytes: &[u8]) -> Document {
    let text = String::from_utf8_lossy(bytes);
    match file.source {
        Source::Session => Document::of_transcript(&text, file.gone.and_then(|gone| gone.but)),
        Source::Memory | Source::Item | Source::Summary | Source::Fact => Document::of_markdown(&text),
    }
}

/// Returns who may see what the file says.
pub(in crate::memory) fn scope_of(file: &Candidate, document: &Document) -> Scope {
    match file.source {
        Source::Session => {
            let key = document.head.as_ref().map_or("", |head| head.key.as_str());
            Scope::of_session(key, document.owner_spoke)
        }
        Source::Memory | Source::Item | Source::Summary | Source::Fact => sources::scope_of(&file.shown),
    }
}

/// Returns when a file was about, milliseconds since 1970 UTC: the date in its name, else when it
/// was last changed.
fn time_of(file: &Candidate) -> i64 {
    let named = sources::date_in(file.shown.rsplit('/').next().unwrap_or_default());
    let midnight = named.and_then(|date| date.and_hms_opt(0, 0, 0)).map(|time| time.and_utc().timestamp_millis());
    midnight.unwrap_or(file.stamp.times.0 / 1_000_000)
}

fn chunks_of(transaction: &Transaction<'_>, file: i64) -> rusqlite::Result<Vec<i64>> {
    let mut query = transaction.prepare_cached("SELECT id FROM chunks WHERE file = ?1")?;
    query.query_map([file], |row| row.get(0))?.collect()
}

/// Returns the number of the next change: it grows, also when the tables were made anew.
pub(super) fn next_version(transaction: &Transaction<'_>, now: i64) -> rusqlite::Result<i64> {
    Ok(now.max(blocks::state(transaction)?.version + 1))
}

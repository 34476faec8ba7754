//! The rows of `index.db` for files: reads, writes and removes them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use rusqlite::Connection;

use super::chunk;
use super::document;
use super::document::Document;
use super::summaries;
use crate::db::Statements;
use crate::language::tokenize::{Word, Words};
use crate::memory::index::chunk_columns;
use crate::memory::index::chunk_columns::{BlockWriter, Entry};
use crate::memory::index::schema;
use crate::memory::scope::Scope;
use crate::memory::session_prefix::SessionPrefix;
use crate::memory::sources;
use crate::memory::sources::{Candidate, Source, Stamp};
use crate::workspace;

/// A row of `files`.
pub(crate) struct FileRow {
    pub id: i64,
    pub stamp: Stamp,
    pub sha256: Vec<u8>,
}

/// Returns the indexed files by path.
pub(crate) fn known(connection: &Connection) -> rusqlite::Result<BTreeMap<String, FileRow>> {
    let sql = "SELECT path, id, size, mtime, ctime, sha256 FROM files WHERE source NOT IN ('summary', 'fact')";
    connection.all(sql, [], |row| {
        let stamp = Stamp {
            size: row.get(2)?,
            times: (row.get(3)?, row.get(4)?),
        };
        let (id, sha256) = (row.get(1)?, row.get(5)?);
        Ok((row.get(0)?, FileRow { id, stamp, sha256 }))
    })
}

/// Returns the rows of facts by the SHA-256 of what they say.
pub(crate) fn known_facts(connection: &Connection) -> rusqlite::Result<HashMap<Vec<u8>, i64>> {
    let sql = "SELECT sha256, id FROM files WHERE source = 'fact'";
    connection.all(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
}

/// Returns the stamp of `memory.db` when its facts were read, see [`super::fact_lines::stamp`].
pub(crate) fn facts_seen(connection: &Connection) -> rusqlite::Result<String> {
    connection.query_row("SELECT facts_seen FROM totals", [], |row| row.get(0))
}

/// Returns the rules by which the rows were made.
pub(crate) fn rules(connection: &Connection) -> rusqlite::Result<String> {
    let rules = connection.first("SELECT rules FROM totals", [], |row| row.get(0));
    rules.map(Option::unwrap_or_default)
}

/// So many numbers of chunks may have nothing behind them, and three times as many as there are chunks.
const SPARE: i64 = 1 << 16;

/// Returns true when most numbers of chunks belong to chunks that are gone. Numbers are never given again, and who searches
/// keeps 36 bytes for each in memory.
pub(crate) fn is_sparse(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT (SELECT coalesce(max(id), 0) FROM chunks) > 4 * chunks + ?1 FROM totals";
    connection.one(sql, [SPARE], |row| row.get(0))
}

/// Writes rows, in the transaction that its connection has open.
pub(crate) struct Writer<'c> {
    connection: &'c Connection,
    now: i64,
    words: Words,
    blocks: BlockWriter<'c>,
    /// The number of the next chunk. Those of a file follow each other.
    next: i64,
    committed: i64,
}

impl<'c> Writer<'c> {
    pub(crate) fn new(connection: &'c Connection, now: i64) -> rusqlite::Result<Self> {
        let sql = "SELECT coalesce(max(id), 0) + 1 FROM chunks";
        let next = connection.query_row(sql, [], |row| row.get(0))?;
        Ok(Self {
            connection,
            now,
            words: Words::new(),
            blocks: BlockWriter::new(connection, chunk_columns::state(connection)?.dims),
            next,
            committed: next,
        })
    }

    /// Returns how many chunks were written since the last commit.
    pub(crate) fn uncommitted(&self) -> i64 {
        self.next - self.committed
    }

    /// Commits what is there and begins the next transaction.
    pub(crate) fn commit(&mut self) -> rusqlite::Result<()> {
        self.total("")?;
        self.committed = self.next;
        self.connection.execute_batch("COMMIT; BEGIN IMMEDIATE")
    }

    /// Writes the texts of a file, its own first, and returns the number of chunks.
    pub(crate) fn add(
        &mut self,
        texts: &[Text],
        stamp: Stamp,
        sha256: &[u8],
    ) -> rusqlite::Result<usize> {
        let first = self.next;
        for (at, text) in texts.iter().enumerate() {
            // Summaries come and go with the file.
            let stamp = if at == 0 { stamp } else { Stamp::default() };
            self.add_text(text, stamp, sha256)?;
        }
        Ok(usize::try_from(self.next - first).unwrap_or(0))
    }

    fn add_text(&mut self, text: &Text, stamp: Stamp, sha256: &[u8]) -> rusqlite::Result<()> {
        let document = &text.document;
        let (source, scope) = (text.source.as_str(), text.scope.to_string());
        let (count, chunks) = chunk_rows(&mut self.words, document, name_of(&text.path));
        let sql = "INSERT INTO files(path, source, scope, size, mtime, ctime, sha256, time, units, words, kind, tags)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)";
        self.connection.run(
            sql,
            (
                &text.path,
                source,
                &scope,
                stamp.size,
                stamp.times.0,
                stamp.times.1,
                sha256,
                text.time,
                i64::try_from(document.units.len()).unwrap_or(i64::MAX),
                i64::try_from(count).unwrap_or(i64::MAX),
                &document.kind,
                tags_column(&document.tags),
            ),
        )?;
        let file = self.connection.last_insert_rowid();
        let entry = Entry {
            group: self.blocks.group(&scope, source)?,
            day: chunk_columns::day_of(text.time),
        };
        for chunk in chunks {
            self.blocks.set(self.next, entry)?;
            self.add_chunk(file, &chunk)?;
        }
        Ok(())
    }

    fn add_chunk(&mut self, file: i64, chunk: &ChunkRow) -> rusqlite::Result<()> {
        let (first, last) = chunk.lines;
        let sql = "INSERT INTO chunks(id, file, start_line, end_line, units, text) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        self.connection.run(
            sql,
            (self.next, file, first, last, &chunk.packed, &chunk.text),
        )?;
        let sql = "INSERT INTO chunks_fts(rowid, words) VALUES (?1, ?2)";
        self.connection.run(sql, (self.next, &chunk.words))?;
        self.next += 1;
        Ok(())
    }

    /// Removes the rows of a file and of its summaries.
    pub(crate) fn remove_file(&mut self, path: &str) -> rusqlite::Result<()> {
        let sql = "SELECT id FROM files WHERE path = ?1 AND source <> 'fact'";
        ids(self.connection, sql, path)?
            .into_iter()
            .try_for_each(|id| self.remove(id))
    }

    /// Removes row `id` of `files` with its chunks.
    pub(crate) fn remove(&mut self, id: i64) -> rusqlite::Result<()> {
        let run = |sql, id: i64| self.connection.change(sql, [id]);
        for chunk in ids(self.connection, CHUNKS_OF, id)? {
            self.blocks.set(chunk, Entry::default())?;
            run("DELETE FROM chunks_fts WHERE rowid = ?1", chunk)?;
            run("DELETE FROM vectors WHERE chunk = ?1", chunk)?;
        }
        run("DELETE FROM chunks WHERE file = ?1", id)?;
        run("DELETE FROM files WHERE id = ?1", id)?;
        Ok(())
    }

    /// Updates the stamp of row `id` of `files`, whose content is the same.
    pub(crate) fn restamp(
        &mut self,
        id: i64,
        file: &Candidate,
        stamp: Stamp,
    ) -> rusqlite::Result<()> {
        let (mtime, ctime) = stamp.times;
        // An item says itself when it was made.
        let time = (file.source != Source::Item).then(|| time_of(file));
        let sql = "UPDATE files SET size = ?2, mtime = ?3, ctime = ?4, time = coalesce(?5, time) WHERE id = ?1";
        self.connection
            .run(sql, (id, stamp.size, mtime, ctime, time))?;
        let Some(time) = time else {
            return Ok(());
        };
        for chunk in ids(self.connection, CHUNKS_OF, id)? {
            self.blocks.set_day(chunk, chunk_columns::day_of(time))?;
        }
        Ok(())
    }

    /// Updates `totals`. Facts repeat what is said elsewhere and are not counted among the texts: that would make their
    /// words frequent and the average text short.
    pub(crate) fn total(&mut self, facts_seen: &str) -> rusqlite::Result<()> {
        let version = next_version(self.connection, self.now)?;
        self.blocks.write(version)?;
        self.connection.execute(
            "UPDATE totals SET rules = ?1, indexed_at = ?2, version = ?3, facts_seen = ?4,
               chunks = (SELECT count(*) FROM chunks), vectors = (SELECT count(*) FROM vectors),
               facts = (SELECT count(*) FROM chunks WHERE file IN (SELECT id FROM files WHERE source = 'fact')),
               (files, bytes, words, units) = (SELECT count(*), coalesce(sum(size), 0), coalesce(sum(words), 0),
                 coalesce(sum(units), 0) FROM files WHERE source <> 'fact')",
            (schema::rules(), self.now, version, facts_seen),
        )?;
        Ok(())
    }
}

/// A chunk as a row, of whatever database.
pub(crate) struct ChunkRow {
    /// Its first and its last line.
    pub lines: (u32, u32),
    /// See [`schema::pack`].
    pub packed: Vec<u8>,
    pub text: String,
    /// Its words and those that belong to it, stemmed, each once, apart by blanks.
    pub words: String,
}

/// Returns how many words a document of this name has, and its chunks.
pub(crate) fn chunk_rows(
    known: &mut Words,
    document: &Document,
    name: &str,
) -> (usize, Vec<ChunkRow>) {
    let units = &document.units;
    let words: Vec<Vec<Word>> = units.iter().map(|unit| known.of(&unit.text)).collect();
    let name = known.of(&document::date_words(name));
    let line = |unit: Option<&chunk::Unit>| unit.map_or(0, |unit| unit.line);
    let row = |range: Range<usize>| {
        let mut context = name.clone();
        context.extend(known.of(document.section(range.start)));
        let (units, words) = (&units[range.clone()], &words[range.clone()]);
        let lists = words.iter().map(Vec::as_slice);
        let mut distinct: Vec<&Word> = context.iter().chain(words.iter().flatten()).collect();
        distinct.sort_unstable_by_key(|word| word.code);
        distinct.dedup_by_key(|word| word.code);
        let distinct: Vec<&str> = distinct.iter().map(|word| &*word.text).collect();
        ChunkRow {
            lines: (line(units.first()), line(units.last())),
            packed: schema::pack(range.start, &context, units.iter().zip(lists)),
            text: text_of(units),
            words: distinct.join(" "),
        }
    };
    let count = words.iter().map(Vec::len).sum();
    let rows = chunks(document, &words).map(row).collect();
    (count, rows)
}

/// Returns tags as the column has them: each between two line feeds.
fn tags_column(tags: &[String]) -> String {
    let tags: String = tags.iter().map(|tag| format!("{tag}\n")).collect();
    match tags.is_empty() {
        true => tags,
        false => format!("\n{}", tags.to_lowercase()),
    }
}

const CHUNKS_OF: &str = "SELECT id FROM chunks WHERE file = ?1";

fn ids(
    connection: &Connection,
    sql: &str,
    key: impl rusqlite::ToSql,
) -> rusqlite::Result<Vec<i64>> {
    connection.all(sql, [key], |row| row.get(0))
}

/// Returns the chunks of a document that have words: the others cannot be found.
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

/// Returns the text of the chunks that [`Writer::add`] makes.
pub(crate) fn texts_of_chunks(known: &mut Words, text: &Text) -> Vec<String> {
    let units = &text.document.units;
    let words: Vec<Vec<Word>> = units.iter().map(|unit| known.of(&unit.text)).collect();
    chunks(&text.document, &words)
        .filter_map(|range| units.get(range))
        .map(text_of)
        .collect()
}

/// Returns the telling part of a path: `workspace/memory/` and `.md` tell nothing, and the name of a transcript is a
/// number.
fn name_of(shown: &str) -> &str {
    let name = shown.strip_prefix("workspace/memory/").unwrap_or(shown);
    if shown.starts_with("workspace/") {
        name.strip_suffix(".md").unwrap_or(name)
    } else {
        ""
    }
}

/// The own text of a file, one of the summaries in it, or the facts stated on one of its lines.
pub(crate) struct Text {
    /// As printed.
    pub path: String,
    pub source: Source,
    pub scope: Scope,
    /// Milliseconds since 1970 UTC.
    pub time: i64,
    pub document: Document,
}

/// Returns the texts of a file, its own first, then its summaries; `before` is what its conversation has before it, for
/// a file with summaries.
pub(crate) fn texts_of(file: &Candidate, bytes: &[u8], before: Option<SessionPrefix>) -> Vec<Text> {
    let text = if file.source == Source::Session {
        String::from_utf8_lossy(bytes)
    } else {
        sources::text_of(bytes)
    };
    let one = |source, scope, time, document| Text {
        path: file.shown.clone(),
        source,
        scope,
        time,
        document,
    };
    if file.source != Source::Session {
        // What every new home has in the file is nobody's words.
        let own = workspace::without_template(&file.shown, &text);
        let document = Document::of_markdown(&own);
        let time = document.created_at.unwrap_or_else(|| time_of(file));
        return vec![one(
            file.source,
            sources::scope_of(&file.shown),
            time,
            document,
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

/// Returns the time of a file, milliseconds since 1970 UTC: the date in its name, else its last change.
fn time_of(file: &Candidate) -> i64 {
    sources::day_of(&file.shown).unwrap_or(file.stamp.times.0 / 1_000_000)
}

/// Returns the next version of the blocks: it increases, also when the tables are recreated.
pub(crate) fn next_version(connection: &Connection, now: i64) -> rusqlite::Result<i64> {
    Ok(now.max(chunk_columns::state(connection)?.version + 1))
}

//! What an index says, whatever the numbers of its rows: two indexes of the same files say the same.

use std::collections::BTreeMap;

use rusqlite::Connection;
use rusqlite::types::Value as Sql;

use crate::support::Sandbox;

/// Everything that `index.db` holds of the files, by content.
pub(super) struct Rows {
    /// Path, source, scope, size, SHA-256, time, lines, words.
    files: Vec<Vec<Sql>>,
    /// Path, source, place among those of the text, lines, words line by line, text, vector.
    chunks: Vec<Vec<Sql>>,
    /// Path, source and place of the chunks in which a word stands.
    postings: BTreeMap<String, Vec<Vec<Sql>>>,
    totals: Vec<Vec<Sql>>,
}

impl Rows {
    /// Reads them; `words` are those that are looked up, in the form in which they are compared.
    pub(super) fn of(sandbox: &Sandbox, words: &[String]) -> Self {
        let rows = |sql: &str| sandbox.query("index", sql);
        let files = rows(
            "SELECT path, source, scope, size, sha256, time, units, words FROM files ORDER BY path, source, sha256",
        );
        let place = "(SELECT count(*) FROM chunks o WHERE o.file = c.file AND o.id < c.id)";
        let chunks = format!(
            "SELECT f.path, f.source, {place}, c.start_line, c.end_line, c.units, c.text, v.numbers
             FROM chunks c LEFT JOIN files f ON f.id = c.file LEFT JOIN vectors v ON v.chunk = c.id ORDER BY f.path, f.source, f.sha256, c.id"
        );
        let found = |word: &String| {
            let sql = format!(
                "SELECT f.path, f.source, {place} FROM chunks_fts LEFT JOIN chunks c ON c.id = chunks_fts.rowid
                 LEFT JOIN files f ON f.id = c.file WHERE chunks_fts MATCH '\"{word}\"' ORDER BY f.path, f.source, f.sha256, c.id"
            );
            (word.clone(), rows(&sql))
        };
        let totals = rows(
            "SELECT rules, files, chunks, facts, bytes, units, words, model, dims, vectors FROM totals",
        );
        Self {
            files,
            chunks: rows(&chunks),
            postings: words.iter().map(found).collect(),
            totals,
        }
    }

    /// Returns the first row that the other has not, in the words of a person who looks for it.
    pub(super) fn difference(&self, other: &Self) -> Option<String> {
        let parts = [
            ("files", &self.files, &other.files),
            ("chunks", &self.chunks, &other.chunks),
            ("totals", &self.totals, &other.totals),
        ];
        let words = self
            .postings
            .iter()
            .map(|(word, rows)| (word.as_str(), rows, &other.postings[word]));
        parts
            .into_iter()
            .chain(words)
            .find(|(_, ours, theirs)| ours != theirs)
            .map(|(what, ours, theirs)| {
                let only = |ours: &[Vec<Sql>], theirs: &[Vec<Sql>]| {
                    ours.iter().find(|row| !theirs.contains(row)).cloned()
                };
                format!(
                    "{what}: {:?} against {:?}",
                    only(ours, theirs),
                    only(theirs, ours)
                )
            })
    }

    /// Returns how many files and chunks, and how often the words stand in one.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        (
            self.files.len(),
            self.chunks.len(),
            self.postings.values().map(Vec::len).sum(),
        )
    }
}

/// Panics when pages or the words' own structure do not fit together.
pub(super) fn check_whole(sandbox: &Sandbox) {
    let connection = Connection::open(sandbox.path("state/index.db")).expect("open");
    let said: String = connection
        .query_row("PRAGMA integrity_check", [], |row| row.get(0))
        .expect("a check");
    assert_eq!(said, "ok");
    connection
        .execute(
            "INSERT INTO chunks_fts(chunks_fts) VALUES ('integrity-check')",
            [],
        )
        .expect("the words fit together");
}

//! One file of a collection, in one transaction.

use ring::digest;

use super::Here;
use super::listing;
use crate::db::postgres::{Client, Parameter, Row, ServerError, Type};
use crate::language::tokenize::Words;
use crate::memory::collections::Error;
use crate::memory::collections::store::Store;
use crate::memory::index::{Document, chunk_rows, day_of};
use crate::memory::sources;
use crate::memory::sources::Stamp;

/// Chunks of a file are numbered from its number times this on.
const CHUNKS: i64 = 1 << 20;
/// The longest word that is found, bytes: the server takes none above 2,046.
const MAX_WORD: usize = 1_000;

/// A file as it is to be written.
pub(super) struct File {
    path: String,
    pub stamp: Stamp,
    pub sha256: Vec<u8>,
    /// Milliseconds since 1970 UTC.
    time: i64,
    document: Document,
}

impl File {
    pub(super) fn of(document: &listing::Document, text: &str, now: i64) -> Self {
        let path = document.path.clone();
        let day = sources::day_of(&path);
        let read = Document::of_markdown(text);
        let changed = document.stamp.times.0 / 1_000_000;
        Self {
            stamp: document.stamp.settled(now),
            sha256: sources::sha256(text.as_bytes()),
            time: read.created_at.or(day).unwrap_or(changed),
            document: read,
            path,
        }
    }

    /// Returns the telling part of its path.
    fn name(&self) -> &str {
        self.path
            .rsplit_once('.')
            .map_or(&self.path, |(name, _)| name)
    }
}

/// The columns of the chunks of a file.
#[derive(Default)]
struct Columns {
    ids: Vec<i64>,
    first_lines: Vec<i64>,
    last_lines: Vec<i64>,
    units: Vec<Vec<u8>>,
    texts: Vec<String>,
    hashes: Vec<Vec<u8>>,
    words: Vec<String>,
}

/// Writes a file instead of what is there under its path, and returns the number of its first chunk and of all; `None` when
/// another host has just written the same.
pub(super) fn replace(
    store: &mut Store,
    here: &Here,
    rules: &str,
    known: &mut Words,
    file: &File,
) -> Result<Option<(i64, usize)>, Error> {
    let (count, rows) = chunk_rows(known, &file.document, file.name());
    let mut columns = Columns::default();
    for row in rows {
        columns.first_lines.push(row.lines.0.into());
        columns.last_lines.push(row.lines.1.into());
        columns.units.push(row.packed);
        let hash = digest::digest(&digest::SHA256, row.text.as_bytes());
        columns.hashes.push(hash.as_ref().to_vec());
        columns.texts.push(row.text);
        let words = row.words.split(' ').filter(|word| word.len() <= MAX_WORD);
        columns.words.push(words.collect::<Vec<_>>().join(" "));
    }
    let chunks = columns.texts.len();
    // One path at a time, no matter who writes; the lock goes with the transaction.
    let key = format!("{} {} {}", store.schema(), here.name, file.path);
    let first = store.transact("BEGIN", async |client| {
        replace_within(client, here, rules, file, (&key, count), columns).await
    })?;
    Ok(first.map(|first| (first, chunks)))
}

async fn replace_within(
    client: &Client,
    here: &Here,
    rules: &str,
    file: &File,
    (key, words): (&str, usize),
    mut columns: Columns,
) -> Result<Option<i64>, ServerError> {
    client
        .query_typed(
            "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))",
            &[(&key, Type::TEXT)],
        )
        .await?;
    let same = client
        .query_typed_opt(
            "SELECT id FROM files WHERE source = $1 AND path = $2 AND scope = $3 AND sha256 = $4 AND rules = $5",
            &[
                (&here.name, Type::TEXT),
                (&file.path, Type::TEXT),
                (&here.scope, Type::TEXT),
                (&file.sha256, Type::BYTEA),
                (&rules, Type::TEXT),
            ],
        )
        .await?;
    if let Some(row) = same {
        look_within(client, row.try_get(0)?, &here.host, file.stamp).await?;
        return Ok(None);
    }
    let gone = client
        .query_typed(
            "DELETE FROM files WHERE source = $1 AND path = $2 RETURNING id",
            &[(&here.name, Type::TEXT), (&file.path, Type::TEXT)],
        )
        .await?;
    delete_chunks(client, &gone).await?;
    let id = insert_file(client, here, rules, file, (words, columns.texts.len())).await?;
    look_within(client, id, &here.host, file.stamp).await?;
    columns.ids = (id * CHUNKS..).take(columns.texts.len()).collect();
    let day = i32::from(day_of(file.time));
    let parameters: [Parameter<'_>; 10] = [
        (&id, Type::INT8),
        (&here.scope, Type::TEXT),
        (&day, Type::INT4),
        (&columns.ids, Type::INT8_ARRAY),
        (&columns.first_lines, Type::INT8_ARRAY),
        (&columns.last_lines, Type::INT8_ARRAY),
        (&columns.units, Type::BYTEA_ARRAY),
        (&columns.texts, Type::TEXT_ARRAY),
        (&columns.hashes, Type::BYTEA_ARRAY),
        (&columns.words, Type::TEXT_ARRAY),
    ];
    let sql = "INSERT INTO chunks(id, file, scope, day, start_line, end_line, units, text, hash, words)
               SELECT c.id, $1, $2, $3, c.first, c.last, c.units, c.text, c.hash, array_to_tsvector(string_to_array(c.words, ' '))
               FROM unnest($4, $5, $6, $7, $8, $9, $10) AS c(id, first, last, units, text, hash, words)";
    client.execute_typed(sql, &parameters).await?;
    Ok(Some(id * CHUNKS))
}

async fn insert_file(
    client: &Client,
    here: &Here,
    rules: &str,
    file: &File,
    (words, chunks): (usize, usize),
) -> Result<i64, ServerError> {
    let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
    let (units, words, chunks) = (
        number(file.document.units.len()),
        number(words),
        number(chunks),
    );
    let tags: Vec<String> = file
        .document
        .tags
        .iter()
        .map(|tag| tag.to_lowercase())
        .collect();
    let parameters: [Parameter<'_>; 12] = [
        (&here.scope, Type::TEXT),
        (&here.name, Type::TEXT),
        (&file.path, Type::TEXT),
        (&file.sha256, Type::BYTEA),
        (&rules, Type::TEXT),
        (&file.time, Type::INT8),
        (&file.stamp.size, Type::INT8),
        (&units, Type::INT8),
        (&words, Type::INT8),
        (&chunks, Type::INT8),
        (&file.document.kind, Type::TEXT),
        (&tags, Type::TEXT_ARRAY),
    ];
    let sql = "INSERT INTO files(scope, source, path, sha256, rules, time, bytes, units, words, chunks, kind, tags)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12) RETURNING id";
    client.query_typed_one(sql, &parameters).await?.try_get(0)
}

/// Notes how a file looks to a host.
pub(super) fn look(store: &mut Store, file: i64, host: &str, stamp: Stamp) -> Result<(), Error> {
    store.run(async |client| look_within(client, file, host, stamp).await)
}

async fn look_within(
    client: &Client,
    file: i64,
    host: &str,
    stamp: Stamp,
) -> Result<(), ServerError> {
    let (mtime, ctime) = stamp.times;
    let parameters: [Parameter<'_>; 5] = [
        (&file, Type::INT8),
        (&host, Type::TEXT),
        (&stamp.size, Type::INT8),
        (&mtime, Type::INT8),
        (&ctime, Type::INT8),
    ];
    // The file may have gone meanwhile: then there is nothing to note.
    let sql = "INSERT INTO looks(file, host, size, mtime, ctime)
               SELECT id, $2, $3, $4, $5 FROM files WHERE id = $1
               ON CONFLICT (file, host) DO UPDATE
               SET size = excluded.size, mtime = excluded.mtime, ctime = excluded.ctime";
    client.execute_typed(sql, &parameters).await.map(drop)
}

/// Notes that a host has a file no more, and removes it when none has it; returns whether it is gone.
pub(super) fn remove(store: &mut Store, file: i64, host: &str) -> Result<bool, Error> {
    store.transact("BEGIN", async |client| {
        remove_within(client, file, host).await
    })
}

async fn remove_within(client: &Client, file: i64, host: &str) -> Result<bool, ServerError> {
    client
        .execute_typed(
            "DELETE FROM looks WHERE file = $1 AND host = $2",
            &[(&file, Type::INT8), (&host, Type::TEXT)],
        )
        .await?;
    let gone = client
        .query_typed(
            "DELETE FROM files WHERE id = $1 AND NOT EXISTS (SELECT 1 FROM looks WHERE file = $1) RETURNING id",
            &[(&file, Type::INT8)],
        )
        .await?;
    delete_chunks(client, &gone).await?;
    Ok(!gone.is_empty())
}

async fn delete_chunks(client: &Client, files: &[Row]) -> Result<(), ServerError> {
    for row in files {
        let file: i64 = row.try_get(0)?;
        client
            .execute_typed(
                "DELETE FROM chunks WHERE id >= $1 << 20 AND id < ($1 + 1) << 20",
                &[(&file, Type::INT8)],
            )
            .await?;
    }
    Ok(())
}

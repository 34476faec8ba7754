//! The last steps of a fill: removal of unused rows, word counts, and missing vectors.

use std::time::Duration;

use crate::db::postgres::{Client, Parameter, ServerError, Type};
use crate::embedding::Embedder;
use crate::memory::Progress;
use crate::memory::collections::Error;
use crate::memory::collections::search::shown;
use crate::memory::collections::store::Store;
use crate::memory::index::{Made, embed};

/// Texts of a batch: a server takes 100 a call (specification §12).
const BATCH: i64 = 100;
const TABLE_BATCH: i64 = 2_000;
/// Counting all words of a million chunks takes minutes.
const COUNTING: Duration = Duration::from_secs(3_600);
/// Words are counted again when so large a part of all chunks came or went (one in so many), or after so long.
const PART: i64 = 50;
const DAYS: i32 = 7;

/// A text without a vector.
struct Pending {
    chunk: i64,
    hash: Vec<u8>,
    text: String,
}

/// Makes the missing vectors of the chunks from `from` on. A model that fails is not an error: those without vectors are found
/// by their words, and the next fill tries again.
pub(super) fn make_vectors(
    store: &mut Store,
    (dims, scope): (i32, &str),
    mut embedder: Embedder,
    from: i64,
    each: &mut dyn FnMut(Progress),
) -> Result<Made, Error> {
    let mut made = Made::default();
    let batch = match &embedder {
        Embedder::Table(_) => TABLE_BATCH,
        Embedder::Model(_) => BATCH,
    };
    let mut last = from - 1;
    loop {
        let pending = pending(store, scope, last, batch)?;
        let Some(next) = pending.last().map(|one| one.chunk) else {
            break;
        };
        last = next;
        let texts: Vec<&str> = pending.iter().map(|one| one.text.as_str()).collect();
        let vectors = match embed(&mut embedder, &texts) {
            Ok(vectors) => vectors,
            Err(error) => {
                made.failed = Some(error.to_string());
                break;
            }
        };
        let fits = |vector: &Vec<f32>| i32::try_from(vector.len()) == Ok(dims);
        if !vectors.iter().flatten().all(fits) {
            made.failed = Some(format!(
                "the model gives no vectors of {dims} numbers any more"
            ));
            break;
        }
        keep(store, scope, &pending, &vectors)?;
        made.made += pending.len();
        each(Progress {
            done: made.made,
            total: made.made,
        });
    }
    if let Embedder::Model(model) = &embedder {
        made.cost_usd = model.spent_usd();
    }
    Ok(made)
}

/// Returns texts without a vector, of chunks after `last`.
fn pending(store: &mut Store, scope: &str, last: i64, count: i64) -> Result<Vec<Pending>, Error> {
    let sql = "SELECT c.id, c.hash, c.text FROM chunks c
               WHERE c.id > $1 AND c.scope = $2
                 AND NOT EXISTS (SELECT 1 FROM vectors v WHERE v.scope = c.scope AND v.hash = c.hash)
               ORDER BY c.id LIMIT $3";
    let parameters: [Parameter<'_>; 3] = [
        (&last, Type::INT8),
        (&scope, Type::TEXT),
        (&count, Type::INT8),
    ];
    store.query(sql, &parameters, |row| {
        Ok(Pending {
            chunk: row.try_get(0)?,
            hash: row.try_get(1)?,
            text: row.try_get(2)?,
        })
    })
}

/// Writes vectors; what another host has written meanwhile is the same.
fn keep(
    store: &mut Store,
    scope: &str,
    pending: &[Pending],
    vectors: &[Option<Vec<f32>>],
) -> Result<(), Error> {
    let hashes: Vec<&[u8]> = pending.iter().map(|one| one.hash.as_slice()).collect();
    let vectors: Vec<Option<String>> = vectors
        .iter()
        .map(|vector| vector.as_deref().map(shown))
        .collect();
    let sql = format!(
        "INSERT INTO vectors(scope, hash, embedding)
         SELECT $1, v.hash, v.embedding::{} FROM unnest($2, $3) AS v(hash, embedding) ON CONFLICT DO NOTHING",
        store.of_pgvector("vector")
    );
    let parameters: [Parameter<'_>; 3] = [
        (&scope, Type::TEXT),
        (&hashes, Type::BYTEA_ARRAY),
        (&vectors, Type::TEXT_ARRAY),
    ];
    store.execute(&sql, &parameters)
}

/// Removes vectors that no chunk has, and counts again what there is.
pub(super) fn tidy(store: &mut Store, scope: &str, written: usize) -> Result<(), Error> {
    store.set_patience(COUNTING);
    let written = i64::try_from(written).unwrap_or(i64::MAX);
    let key = format!("{} {scope}", store.schema());
    let begin = "BEGIN; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0";
    store.transact(begin, async |client| {
        tidy_within(client, scope, &key, written).await
    })?;
    store.set_patience(super::PATIENCE);
    Ok(())
}

async fn tidy_within(
    client: &Client,
    scope: &str,
    key: &str,
    written: i64,
) -> Result<(), ServerError> {
    let of_scope: [Parameter<'_>; 1] = [(&scope, Type::TEXT)];
    // Two that count at once would write the same rows.
    client
        .query_typed(
            "SELECT pg_advisory_xact_lock(hashtextextended($1, 1))",
            &[(&key, Type::TEXT)],
        )
        .await?;
    client
        .execute_typed(
            "DELETE FROM vectors v WHERE v.scope = $1
               AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.scope = v.scope AND c.hash = v.hash)",
            &of_scope,
        )
        .await?;
    client
        .execute_typed(
            "INSERT INTO totals(scope, files, chunks, units, words)
             SELECT $1, count(*), coalesce(sum(chunks), 0), coalesce(sum(units), 0), coalesce(sum(words), 0)
             FROM files WHERE scope = $1
             ON CONFLICT (scope) DO UPDATE SET files = excluded.files, chunks = excluded.chunks, units = excluded.units,
               words = excluded.words",
            &of_scope,
        )
        .await?;
    let is_stale = client
        .query_typed_one(
            "SELECT abs(chunks - counted_chunks) * $3 >= chunks OR $2 * $3 >= chunks
               OR counted_at < now() - make_interval(days => $4) FROM totals WHERE scope = $1",
            &[
                (&scope, Type::TEXT),
                (&written, Type::INT8),
                (&PART, Type::INT8),
                (&DAYS, Type::INT4),
            ],
        )
        .await?;
    if !is_stale.try_get::<_, bool>(0)? {
        return Ok(());
    }
    client
        .execute_typed("DELETE FROM word_counts WHERE scope = $1", &of_scope)
        .await?;
    client
        .execute_typed(
            "INSERT INTO word_counts(scope, word, chunks) SELECT $1, s.word, s.ndoc
             FROM ts_stat(format('SELECT words FROM %s WHERE scope = %L', 'chunks'::regclass, $1)) s",
            &of_scope,
        )
        .await?;
    client
        .execute_typed(
            "UPDATE totals SET counted_chunks = chunks, counted_at = now() WHERE scope = $1",
            &of_scope,
        )
        .await?;
    Ok(())
}

//! Makes the missing vectors: of new chunks, of chunks that failed before, of all chunks when the model has changed.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, TransactionBehavior};

use super::rows::next_version;
use crate::db;
use crate::db::Statements;
use crate::embedding;
use crate::embedding::static_table::Table;
use crate::embedding::{Embedder, Kind, Model};
use crate::memory::Progress;
use crate::memory::index::chunk_columns;
use crate::memory::index::chunk_columns::BlockWriter;
use crate::memory::index::{Place, schema, vector_bytes};
use crate::memory::sources;
use crate::sys::lock;

/// Chunks of a batch, after which the run commits. A server takes 100 texts a call (specification §12).
const BATCH: usize = 100;
/// The same for the table, where a call is cheap and a commit is not.
const TABLE_BATCH: usize = 4096;

/// The vectors that a run made.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Made {
    /// Vectors that were made.
    pub made: usize,
    /// Those of them that came from the cache.
    pub cached: usize,
    /// Why some are missing; the next run tries again.
    pub failed: Option<String>,
    /// Their cost, US dollars, as far as prices are known.
    pub cost_usd: f64,
}

/// A chunk without a vector.
struct Pending {
    id: i64,
    text: String,
}

/// Makes the missing vectors. A model that fails is not an error: chunks without vectors are found by keywords.
pub(crate) fn make(
    place: &Place,
    connection: &mut Connection,
    now: i64,
    each: &mut dyn FnMut(Progress),
) -> Result<Made, db::Error> {
    let mut all = || -> rusqlite::Result<Made> {
        let made = match place.embedder() {
            Err(error) => Made {
                failed: Some(error.to_string()),
                ..Made::default()
            },
            Ok(None) => {
                reset_for(connection, "", 0, now)?;
                Made::default()
            }
            Ok(Some(embedder)) => make_with(connection, embedder, now, each)?,
        };
        let why = made.failed.as_deref().unwrap_or_default();
        connection.execute("UPDATE totals SET lacking = ?1 WHERE lacking != ?1", [why])?;
        Ok(made)
    };
    all().map_err(|error| db::Error::of(&place.database(), error))
}

/// Removes the vectors of another model.
fn reset_for(
    connection: &mut Connection,
    model: &str,
    dims: usize,
    now: i64,
) -> rusqlite::Result<()> {
    let state = chunk_columns::state(connection)?;
    if (state.model.as_str(), state.dims) == (model, dims) {
        return Ok(());
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version = next_version(&transaction, now)?;
    transaction.execute_batch("DELETE FROM vectors")?;
    transaction.execute("UPDATE blocks SET codes = x'', version = ?1", [version])?;
    let dims = i64::try_from(dims).unwrap_or(0);
    transaction.execute(
        "UPDATE totals SET model = ?1, dims = ?2, version = ?3, vectors = 0",
        (model, dims, version),
    )?;
    transaction.commit()
}

fn make_with(
    connection: &mut Connection,
    mut embedder: Embedder,
    now: i64,
    each: &mut dyn FnMut(Progress),
) -> rusqlite::Result<Made> {
    let mut made = Made::default();
    let size = match &embedder {
        Embedder::Table(table) => {
            reset_for(connection, table.name(), table.dims(), now)?;
            TABLE_BATCH
        }
        Embedder::Model(model) => {
            // The first vector tells how many dimensions there are.
            if model.name() != chunk_columns::state(connection)?.model {
                reset_for(connection, model.name(), 0, now)?;
            }
            BATCH
        }
    };
    let sql = "SELECT chunks - vectors FROM totals";
    let missing: i64 = connection.query_row(sql, [], |row| row.get(0))?;
    let total = usize::try_from(missing).unwrap_or(0);
    // Without missing vectors the chunks are not read at all.
    let mut batch = match total {
        0 => Vec::new(),
        _ => pending(connection, 0, size)?,
    };
    while let Some(last) = batch.last().map(|chunk| chunk.id) {
        if make_batch(connection, &mut embedder, &batch, &mut made, now)? {
            let done = made.made.min(total);
            each(Progress { done, total });
        }
        batch = pending(connection, last, size)?;
    }
    if let Embedder::Model(model) = &embedder {
        made.cost_usd = model.spent_usd();
    }
    Ok(made)
}

/// Makes and writes the vectors of a batch; false when there are none.
fn make_batch(
    connection: &mut Connection,
    embedder: &mut Embedder,
    batch: &[Pending],
    made: &mut Made,
    now: i64,
) -> rusqlite::Result<bool> {
    let is_cached = matches!(embedder, Embedder::Model(_));
    let key = |chunk: &Pending| key(embedder.name(), &chunk.text);
    let keys: Vec<Vec<u8>> = batch.iter().filter(|_| is_cached).map(key).collect();
    let mut packed = cached(connection, &keys)?;
    made.cached += packed.len();
    let unknown: Vec<usize> = (0..batch.len())
        .filter(|at| !packed.contains_key(at))
        .collect();
    // After a failure the model is not called again, but the cache is still used.
    if made.failed.is_none() {
        let texts: Vec<&str> = unknown.iter().map(|at| batch[*at].text.as_str()).collect();
        match embed(embedder, &texts) {
            Ok(vectors) => {
                let vectors = vectors
                    .iter()
                    .map(|vector| vector_bytes::pack(vector.as_deref()));
                packed.extend(unknown.iter().copied().zip(vectors));
            }
            Err(error) => made.failed = Some(error.to_string()),
        }
    }
    if packed.is_empty() {
        return Ok(false);
    }
    let dims = packed.values().map(|packed| packed.len().saturating_sub(4));
    if let (Embedder::Model(model), Some(dims)) = (&*embedder, dims.max().filter(|dims| *dims > 0))
    {
        reset_for(connection, model.name(), dims, now)?;
    }
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let mut blocks = BlockWriter::new(&transaction, chunk_columns::state(&transaction)?.dims);
    for at in unknown
        .iter()
        .filter(|at| is_cached && packed.contains_key(at))
    {
        let sql = "INSERT OR REPLACE INTO embedding_cache(key, numbers) VALUES (?1, ?2)";
        transaction.run(sql, (&keys[*at], &packed[at]))?;
    }
    for (at, packed) in &packed {
        let id = batch[*at].id;
        let sql = "INSERT OR REPLACE INTO vectors(chunk, numbers) VALUES (?1, ?2)";
        transaction.run(sql, (id, packed))?;
        let code = vector_bytes::unpack(packed).map(|vector| chunk_columns::code(&vector));
        blocks.set_code(id, &code.unwrap_or_default())?;
    }
    let version = next_version(&transaction, now)?;
    blocks.write(version)?;
    transaction.execute(
        "UPDATE totals SET version = ?1, vectors = vectors + ?2",
        (version, i64::try_from(packed.len()).unwrap_or(0)),
    )?;
    transaction.commit()?;
    made.made += packed.len();
    Ok(true)
}

/// Returns at most `count` chunks without a vector after chunk `last`.
fn pending(connection: &Connection, last: i64, count: usize) -> rusqlite::Result<Vec<Pending>> {
    let sql = "SELECT id, text FROM chunks WHERE id > ?1 AND NOT EXISTS (SELECT 1 FROM vectors WHERE chunk = id) ORDER BY id LIMIT ?2";
    connection.all(
        sql,
        (last, i64::try_from(count).unwrap_or(i64::MAX)),
        |row| {
            Ok(Pending {
                id: row.get(0)?,
                text: row.get(1)?,
            })
        },
    )
}

/// Returns the vectors of passages; of each none without words that the embedder knows.
pub(crate) fn embed(
    embedder: &mut Embedder,
    texts: &[&str],
) -> Result<Vec<Option<Vec<f32>>>, embedding::Error> {
    let table = match embedder {
        Embedder::Model(model) => return model.embed(Kind::Passage, texts),
        Embedder::Table(table) => table,
    };
    table.check()?;
    let of = |table: &mut Table, texts: &[&str]| -> Vec<_> {
        let passages = texts.iter().map(|text| table.passage(text.lines()));
        passages.collect()
    };
    // On two cores: nothing else waits for them.
    let mut other = Table::of(table.shared().clone());
    let (left, right) = texts.split_at(texts.len() / 2);
    Ok(std::thread::scope(|scope| {
        let left = scope.spawn(|| of(&mut other, left));
        let right = of(table, right);
        let mut all = left.join().unwrap_or_default();
        all.extend(right);
        all
    }))
}

/// The cost of the missing vectors, in batches as [`make`] embeds them.
pub(crate) struct Forecast<'a> {
    model: &'a dyn Model,
    connection: Option<&'a Connection>,
    /// What the cache will have by then.
    keys: HashSet<Vec<u8>>,
    batch: Vec<String>,
    usd: Option<f64>,
}

impl<'a> Forecast<'a> {
    pub(crate) fn new(model: &'a dyn Model, connection: Option<&'a Connection>) -> Self {
        Self {
            model,
            connection,
            keys: HashSet::new(),
            batch: Vec::new(),
            usd: Some(0.0),
        }
    }

    /// Adds the indexed chunks without a vector, except those of the files `removed`.
    pub(crate) fn add_missing(&mut self, removed: &HashSet<i64>) -> rusqlite::Result<()> {
        let Some(connection) = self.connection else {
            return Ok(());
        };
        let is_other = chunk_columns::state(connection)?.model != self.model.name();
        let mut query = connection.prepare(
            "SELECT file, text FROM chunks WHERE ?1 OR NOT EXISTS (SELECT 1 FROM vectors WHERE chunk = id) ORDER BY id",
        )?;
        let mut rows = query.query([is_other])?;
        while let Some(row) = rows.next()? {
            if !removed.contains(&row.get(0)?) {
                self.add(row.get(1)?)?;
            }
        }
        Ok(())
    }

    /// Adds the text of a chunk.
    pub(crate) fn add(&mut self, text: String) -> rusqlite::Result<()> {
        self.batch.push(text);
        if self.batch.len() == BATCH {
            self.price_batch()
        } else {
            Ok(())
        }
    }

    fn price_batch(&mut self) -> rusqlite::Result<()> {
        let batch = std::mem::take(&mut self.batch);
        let keys: Vec<Vec<u8>> = batch
            .iter()
            .map(|text| key(self.model.name(), text))
            .collect();
        let known = self
            .connection
            .map_or(Ok(HashMap::new()), |connection| cached(connection, &keys))?;
        let is_known =
            |(at, key): &(usize, &Vec<u8>)| known.contains_key(at) || self.keys.contains(*key);
        let unknown = keys
            .iter()
            .enumerate()
            .filter(|one| !is_known(one))
            .filter_map(|(at, _)| batch.get(at));
        let more = self
            .model
            .cost_usd(&unknown.map(String::as_str).collect::<Vec<_>>());
        self.usd = self.usd.zip(more).map(|(usd, more)| usd + more);
        self.keys.extend(keys);
        Ok(())
    }

    /// Returns US dollars; `None` when the price is unknown.
    pub(crate) fn usd(mut self) -> rusqlite::Result<Option<f64>> {
        self.price_batch()?;
        Ok(self.usd)
    }
}

/// Returns the vector of a question that was asked before, also of another process.
pub(crate) fn of_question(place: &Place, model: &str, text: &str) -> Option<Vec<f32>> {
    let connection = db::open_read(&place.database()).ok().flatten()?;
    let sql = "SELECT numbers FROM question_cache WHERE key = ?1";
    let found = connection.query_row(sql, [key(model, text)], |row| row.get::<_, Vec<u8>>(0));
    vector_bytes::unpack(&found.ok()?)
}

/// Vectors of questions that are kept; an older one is rebuilt.
const QUESTIONS: i64 = if cfg!(test) { 20 } else { 2_000 };

/// Keeps the vector of a question, unless the index is being written: then it is made again the next time.
pub(crate) fn keep_question(place: &Place, model: &str, text: &str, vector: &[f32]) {
    let keep = || -> Option<()> {
        let _lock = lock::try_lock(&place.lock()).ok()??;
        let connection = schema::open(place).ok()?;
        let sql = "INSERT OR REPLACE INTO question_cache(key, numbers) VALUES (?1, ?2)";
        let row = (key(model, text), vector_bytes::pack(Some(vector)));
        connection.execute(sql, row).ok()?;
        let newest = connection.last_insert_rowid();
        let sql = "DELETE FROM question_cache WHERE id <= ?1";
        connection.execute(sql, [newest - QUESTIONS]).ok().map(drop)
    };
    if keep().is_none() {
        tracing::debug!("the vector of a question is not kept");
    }
}

/// Returns the key of a text in the cache.
fn key(model: &str, text: &str) -> Vec<u8> {
    sources::sha256(format!("{model}\0{text}").as_bytes())
}

/// Returns the cached vectors of `keys` by position.
fn cached(connection: &Connection, keys: &[Vec<u8>]) -> rusqlite::Result<HashMap<usize, Vec<u8>>> {
    let sql = "SELECT numbers FROM embedding_cache WHERE key = ?1";
    let mut found = HashMap::new();
    for (at, key) in keys.iter().enumerate() {
        if let Some(packed) = connection.first(sql, [key], |row| row.get(0))? {
            found.insert(at, packed);
        }
    }
    Ok(found)
}

//! Makes the vectors that are missing: of new chunks, of those that failed the last time, of all when the
//! model is another one.

use std::collections::{HashMap, HashSet};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};

use super::rows::next_version;
use crate::db;
use crate::embedding;
use crate::embedding::static_table::Table;
use crate::embedding::{Embedder, Kind, Model};
use crate::memory::Progress;
use crate::memory::index::blocks;
use crate::memory::index::blocks::Changes;
use crate::memory::index::{Place, schema};

/// Chunks that are looked at together, and after which what is there is committed. A server takes 100
/// texts a call (specification §12).
const BATCH: usize = 100;
/// As many by the table, where a call is nothing and a commit is not.
const TABLE_BATCH: usize = 4096;

/// What became of the vectors.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Made {
    /// Vectors that were made.
    pub made: usize,
    /// Of those, what had been made before for the same words.
    pub cached: usize,
    /// Why there are not all of them; the next run tries again.
    pub failed: Option<String>,
    /// What they cost, US dollars, as far as that has a price.
    pub cost_usd: f64,
}

/// A chunk without a vector.
struct Bare {
    id: i64,
    text: String,
}

/// Makes what is missing. A model that fails is no error: what has no vector is found by its words.
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
                take_for(connection, "", 0, now)?;
                Made::default()
            }
            Ok(Some(embedder)) => work(connection, embedder, now, each)?,
        };
        let why = made.failed.as_deref().unwrap_or_default();
        connection.execute("UPDATE totals SET lacking = ?1 WHERE lacking != ?1", [why])?;
        Ok(made)
    };
    all().map_err(|error| db::Error::of(&place.database(), error))
}

/// Throws the vectors away when they are another model's.
fn take_for(
    connection: &mut Connection,
    model: &str,
    dims: usize,
    now: i64,
) -> rusqlite::Result<()> {
    let state = blocks::state(connection)?;
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

fn work(
    connection: &mut Connection,
    mut embedder: Embedder,
    now: i64,
    each: &mut dyn FnMut(Progress),
) -> rusqlite::Result<Made> {
    let mut made = Made::default();
    match &embedder {
        Embedder::Table(table) => take_for(connection, table.name(), table.dims(), now)?,
        // How many numbers its vectors have is seen in the first.
        Embedder::Model(model) if model.name() != blocks::state(connection)?.model => {
            take_for(connection, model.name(), 0, now)?
        }
        Embedder::Model(_) => {}
    }
    let (total, done): (i64, i64) =
        connection.query_row("SELECT chunks, vectors FROM totals", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    let missing = usize::try_from(total - done).unwrap_or(0);
    let size = if matches!(embedder, Embedder::Table(_)) {
        TABLE_BATCH
    } else {
        BATCH
    };
    let mut last = 0;
    if missing == 0 {
        return Ok(made);
    }
    loop {
        let bare = bare(connection, last, size)?;
        let Some(end) = bare.last().map(|chunk| chunk.id) else {
            break;
        };
        last = end;
        let keys: Vec<Vec<u8>> = bare
            .iter()
            .map(|chunk| key(embedder.name(), &chunk.text))
            .collect();
        let mut known = match &embedder {
            Embedder::Table(_) => HashMap::new(),
            Embedder::Model(_) => cached(connection, &keys)?,
        };
        made.cached += known.len();
        let unknown: Vec<usize> = (0..bare.len())
            .filter(|at| !known.contains_key(at))
            .collect();
        let texts: Vec<&str> = unknown
            .iter()
            .filter_map(|at| bare.get(*at))
            .map(|chunk| chunk.text.as_str())
            .collect();
        // After a failure nobody is asked again, but what is kept costs nothing.
        let vectors = match &made.failed {
            None => vectors(&mut embedder, &texts).unwrap_or_else(|error| {
                made.failed = Some(error.to_string());
                Vec::new()
            }),
            Some(_) => Vec::new(),
        };
        if vectors.is_empty() && known.is_empty() {
            continue;
        }
        let dims = vectors
            .iter()
            .flatten()
            .map(Vec::len)
            .chain(known.values().map(|packed| packed.len().saturating_sub(4)))
            .max();
        if let (Embedder::Model(model), Some(dims)) = (&embedder, dims.filter(|dims| *dims > 0)) {
            take_for(connection, model.name(), dims, now)?;
        }
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for (at, vector) in unknown.into_iter().zip(vectors) {
            let packed = schema::pack_vector(vector.as_deref());
            if let (Embedder::Model(_), Some(key)) = (&embedder, keys.get(at)) {
                transaction
                    .prepare_cached(
                        "INSERT OR REPLACE INTO embedding_cache(key, numbers) VALUES (?1, ?2)",
                    )?
                    .execute((key, &packed))?;
            }
            known.insert(at, packed);
        }
        made.made += known.len();
        write(&transaction, &bare, &known, now)?;
        transaction.commit()?;
        each(Progress {
            done: made.made.min(missing),
            total: missing,
        });
    }
    if let Embedder::Model(model) = &embedder {
        made.cost_usd = model.spent_usd();
    }
    Ok(made)
}

/// Returns chunks without a vector after chunk `last`, at most `count`.
fn bare(connection: &Connection, last: i64, count: usize) -> rusqlite::Result<Vec<Bare>> {
    let mut query = connection.prepare_cached(
        "SELECT id, text FROM chunks WHERE id > ?1 AND NOT EXISTS (SELECT 1 FROM vectors WHERE chunk = id) ORDER BY id LIMIT ?2",
    )?;
    let rows = query.query_map((last, i64::try_from(count).unwrap_or(i64::MAX)), |row| {
        Ok(Bare {
            id: row.get(0)?,
            text: row.get(1)?,
        })
    })?;
    rows.collect()
}

fn vectors(
    embedder: &mut Embedder,
    texts: &[&str],
) -> Result<Vec<Option<Vec<f32>>>, embedding::Error> {
    match embedder {
        Embedder::Model(model) => model.embed(Kind::Passage, texts),
        // Both cores: it is all there is to do.
        Embedder::Table(table) => {
            table.check()?;
            let of = |table: &mut Table, texts: &[&str]| {
                texts
                    .iter()
                    .map(|text| table.passage(text.lines()))
                    .collect::<Vec<_>>()
            };
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
    }
}

fn write(
    transaction: &Transaction<'_>,
    bare: &[Bare],
    packed: &HashMap<usize, Vec<u8>>,
    now: i64,
) -> rusqlite::Result<()> {
    let mut changes = Changes::new(blocks::state(transaction)?.dims);
    let mut insert = transaction
        .prepare_cached("INSERT OR REPLACE INTO vectors(chunk, numbers) VALUES (?1, ?2)")?;
    for (at, chunk) in bare.iter().enumerate() {
        let Some(packed) = packed.get(&at) else {
            continue;
        };
        insert.execute((chunk.id, packed))?;
        let code = schema::unpack_vector(packed)
            .map(|vector| blocks::code(&vector))
            .unwrap_or_default();
        changes.set_code(transaction, chunk.id, &code)?;
    }
    let version = next_version(transaction, now)?;
    changes.write(transaction, version)?;
    let count = i64::try_from(packed.len()).unwrap_or(0);
    transaction.execute(
        "UPDATE totals SET version = ?1, vectors = vectors + ?2",
        (version, count),
    )?;
    Ok(())
}

/// What the vectors of texts would cost that have none: asked for as [`make`] asks.
pub(crate) struct Forecast<'a> {
    model: &'a dyn Model,
    connection: Option<&'a Connection>,
    /// What is kept by then.
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

    /// Takes in the chunks that lack a vector already, but those of the files `gone`.
    pub(crate) fn lacking(&mut self, gone: &HashSet<i64>) -> rusqlite::Result<()> {
        let Some(connection) = self.connection else {
            return Ok(());
        };
        let is_other = blocks::state(connection)?.model != self.model.name();
        let mut query = connection.prepare(
            "SELECT file, text FROM chunks WHERE ?1 OR NOT EXISTS (SELECT 1 FROM vectors WHERE chunk = id) ORDER BY id",
        )?;
        let mut rows = query.query([is_other])?;
        while let Some(row) = rows.next()? {
            if !gone.contains(&row.get(0)?) {
                self.add(row.get(1)?)?;
            }
        }
        Ok(())
    }

    /// Takes in the text of a chunk.
    pub(crate) fn add(&mut self, text: String) -> rusqlite::Result<()> {
        self.batch.push(text);
        if self.batch.len() == BATCH {
            self.ask()
        } else {
            Ok(())
        }
    }

    fn ask(&mut self) -> rusqlite::Result<()> {
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

    /// Returns US dollars; `None` when nobody knows.
    pub(crate) fn usd(mut self) -> rusqlite::Result<Option<f64>> {
        self.ask()?;
        Ok(self.usd)
    }
}

/// Returns under what the vector of a text is kept.
fn key(model: &str, text: &str) -> Vec<u8> {
    crate::memory::sources::sha256(format!("{model}\0{text}").as_bytes())
}

/// Returns the kept vectors of `keys`, by place.
fn cached(connection: &Connection, keys: &[Vec<u8>]) -> rusqlite::Result<HashMap<usize, Vec<u8>>> {
    let mut query =
        connection.prepare_cached("SELECT numbers FROM embedding_cache WHERE key = ?1")?;
    let mut found = HashMap::new();
    for (at, key) in keys.iter().enumerate() {
        if let Some(packed) = query.query_row([key], |row| row.get(0)).optional()? {
            found.insert(at, packed);
        }
    }
    Ok(found)
}

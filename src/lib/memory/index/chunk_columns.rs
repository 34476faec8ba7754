//! Scope, source, day and vector signs of every chunk, 1,024 chunks a row: a search keeps them all in memory and
//! reads again only the rows that changed.
//!
//! ```text
//! blocks.entries  1,024 × (group u16, day u16)     group 0: there is no such chunk
//! blocks.codes    1,024 × a bit a dimension        1 where the number is positive; all 0: no vector
//! ```
//! Similar vectors differ in few sign bits: counting these finds the chunks that are worth an exact comparison (in a
//! tenth of the time of comparing all).

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, HashMap, HashSet};

use rusqlite::Connection;

use super::query::request::Filter;
use super::query::top_k::TopK;
use crate::db::Statements;
use crate::memory::sources::Source;

/// Chunks of a row.
const SIZE: usize = 1024;
/// Bytes of an entry.
const ENTRY: usize = 4;

/// Scope, source and day of a chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The row of `groups`: its scope and source. 0 for no chunk.
    pub group: u16,
    /// Its day, counted from 1970.
    pub day: u16,
}

/// Returns the day of `time_ms`, clamped to 1970–2149.
pub(crate) fn day_of(time_ms: i64) -> u16 {
    u16::try_from((time_ms / 86_400_000).clamp(0, i64::from(u16::MAX))).unwrap_or(0)
}

/// Returns how many numbers of 64 bits the code of a vector of `dims` has.
fn words_of(dims: usize) -> usize {
    dims.div_ceil(64)
}

/// Returns the signs of a vector, a bit a dimension.
pub(crate) fn code(vector: &[f32]) -> Vec<u64> {
    let bits = |part: &[f32]| {
        part.iter()
            .rev()
            .fold(0, |bits, x| bits << 1 | u64::from(*x > 0.0))
    };
    vector.chunks(64).map(bits).collect()
}

/// What in `totals` tells whether the blocks in memory are current.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// When the tables were created, milliseconds since 1970.
    pub made: i64,
    /// Increases with every change.
    pub version: i64,
    /// The model of the vectors; empty for none.
    pub model: String,
    /// Numbers of a vector.
    pub dims: usize,
}

pub(crate) fn state(connection: &Connection) -> rusqlite::Result<State> {
    let sql = "SELECT made, version, model, dims FROM totals";
    connection.one(sql, [], |row| {
        let dims: i64 = row.get(3)?;
        Ok(State {
            made: row.get(0)?,
            version: row.get(1)?,
            model: row.get(2)?,
            dims: usize::try_from(dims).unwrap_or(0),
        })
    })
}

/// The chunks of one database, in memory.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    state: State,
    groups: HashMap<u16, (String, String)>,
    entries: Vec<Entry>,
    codes: Vec<u64>,
    /// The chunks of the kind and tag that are asked for, when any is.
    chosen: Option<HashSet<usize>>,
}

impl Blocks {
    /// Looks up which chunks have the kind and the tag that `filter` names.
    pub(crate) fn choose(
        &mut self,
        connection: &Connection,
        filter: &Filter,
    ) -> rusqlite::Result<()> {
        let asked = |name: &Option<String>| name.as_ref().map(|name| name.trim().to_lowercase());
        let (kind, tag) = (asked(&filter.kind), asked(&filter.tag));
        self.chosen = None;
        if kind.is_none() && tag.is_none() {
            return Ok(());
        }
        let sql = "SELECT c.id FROM chunks c JOIN files f ON f.id = c.file
             WHERE (?1 IS NULL OR lower(f.kind) = ?1) AND (?2 IS NULL OR instr(f.tags, char(10) || ?2 || char(10)))";
        let ids: Vec<i64> = connection.all(sql, (kind, tag), |row| row.get(0))?;
        let ids = ids.into_iter().filter_map(|id| usize::try_from(id).ok());
        self.chosen = Some(ids.collect());
        Ok(())
    }

    /// Reads what has changed since the last time.
    pub(crate) fn refresh(&mut self, connection: &Connection) -> rusqlite::Result<()> {
        let state = state(connection)?;
        if state == self.state {
            return Ok(());
        }
        let same = (state.made, &state.model, state.dims)
            == (self.state.made, &self.state.model, self.state.dims);
        if !same || state.version < self.state.version {
            *self = Self::default();
        }
        let words = words_of(state.dims);
        let sql = "SELECT id, scope, source FROM groups";
        self.groups =
            connection.all(sql, [], |row| Ok((row.get(0)?, (row.get(1)?, row.get(2)?))))?;
        let mut query = connection
            .prepare_cached("SELECT entries, codes, id FROM blocks WHERE version > ?1")?;
        let mut rows = query.query([self.state.version])?;
        while let Some(row) = rows.next()? {
            let start = usize::try_from(row.get::<_, i64>("id")?).unwrap_or(0) * SIZE;
            if self.entries.len() < start + SIZE {
                self.entries.resize(start + SIZE, Entry::default());
                self.codes.resize((start + SIZE) * words, 0);
            }
            let block = Block::of_row(row, words)?;
            self.entries[start..start + SIZE].copy_from_slice(&block.entries);
            self.codes[start * words..(start + SIZE) * words].copy_from_slice(&block.codes);
        }
        self.state = state;
        Ok(())
    }

    /// Returns how many chunks there may be: ids are below this.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns a test of whether a chunk passes `filter`.
    pub(crate) fn allowed<'a>(&'a self, filter: &'a Filter) -> impl Fn(usize) -> bool + 'a {
        let days = filter.days.clone();
        let matching = self.matching(
            |scope, source| filter.allows(scope, source),
            move |day| days.contains(&day),
        );
        move |id| {
            matching(id)
                && self
                    .chosen
                    .as_ref()
                    .is_none_or(|chosen| chosen.contains(&id))
        }
    }

    /// Returns a test of whether a chunk is a fact.
    pub(crate) fn facts(&self) -> impl Fn(usize) -> bool + '_ {
        self.matching(|_, source| source == Source::Fact.as_str(), |_| true)
    }

    /// Returns a test by scope and source, and by day.
    fn matching(
        &self,
        is_wanted: impl Fn(&str, &str) -> bool,
        of_day: impl Fn(u16) -> bool,
    ) -> impl Fn(usize) -> bool {
        let most = self
            .groups
            .keys()
            .max()
            .map_or(0, |most| usize::from(*most) + 1);
        let mut groups = vec![false; most];
        for (group, (scope, source)) in &self.groups {
            if let Some(wanted) = groups.get_mut(usize::from(*group)) {
                *wanted = is_wanted(scope, source);
            }
        }
        move |id| {
            self.entries.get(id).is_some_and(|entry| {
                groups
                    .get(usize::from(entry.group))
                    .is_some_and(|wanted| *wanted)
                    && of_day(entry.day)
            })
        }
    }

    /// Returns the `count` chunks whose codes are nearest to `code`, the nearest first; of equals the latest.
    pub(crate) fn nearest(
        &self,
        code: &[u64],
        count: usize,
        allowed: impl Fn(usize) -> bool,
    ) -> Vec<i64> {
        let words = words_of(self.state.dims);
        if words == 0 || code.len() != words {
            return Vec::new();
        }
        let mut top = TopK::new(count, self);
        each_distance(&self.codes, code, |id, distance| {
            let key = Reverse(distance);
            if top.accepts(key) && allowed(id) && !self.has_no_vector(id, words) {
                top.push(key, id);
            }
        });
        top.in_order().collect()
    }

    /// Compares two chunks of equal rank: the later day comes first, then the one that was indexed last.
    pub(crate) fn latest_first(&self, a: usize, b: usize) -> Ordering {
        let when = |id: usize| (self.entries.get(id).map(|entry| entry.day), id);
        when(b).cmp(&when(a))
    }

    fn has_no_vector(&self, id: usize, words: usize) -> bool {
        let code = self.codes.get(id * words..(id + 1) * words);
        code.is_none_or(|code| code.iter().all(|word| *word == 0))
    }
}

/// Calls `each` with the number and the Hamming distance from `code` of each of `codes`.
fn each_distance(codes: &[u64], code: &[u64], mut each: impl FnMut(usize, u32)) {
    // The table's 256 dimensions: a loop of fixed length is three times as fast.
    if let Ok(code) = <[u64; 4]>::try_from(code) {
        for (id, other) in codes.as_chunks::<4>().0.iter().enumerate() {
            each(id, ones(&std::array::from_fn(|at| code[at] ^ other[at])));
        }
        return;
    }
    for (id, other) in codes.chunks_exact(code.len()).enumerate() {
        let differing = code.iter().zip(other).map(|(a, b)| (a ^ b).count_ones());
        each(id, differing.sum());
    }
}

/// Returns how many bits are set. Without a popcount instruction, which the target may lack, adding all four numbers up
/// together takes half the time of counting each.
fn ones(numbers: &[u64; 4]) -> u32 {
    const TWOS: u64 = 0x5555_5555_5555_5555;
    const FOURS: u64 = 0x3333_3333_3333_3333;
    const BYTES: u64 = 0x0f0f_0f0f_0f0f_0f0f;
    const PAIRS: u64 = 0x00ff_00ff_00ff_00ff;
    let [a, b, c, d] = numbers.map(|x| {
        let twos = x - (x >> 1 & TWOS);
        (twos & FOURS) + (twos >> 2 & FOURS)
    });
    let bytes = [a + b, c + d].map(|fours| (fours & BYTES) + (fours >> 4 & BYTES));
    let sum = bytes[0] + bytes[1];
    let pairs = (sum & PAIRS) + (sum >> 8 & PAIRS);
    u32::try_from(pairs.wrapping_mul(0x0001_0001_0001_0001) >> 48).unwrap_or(0)
}

/// A row of `blocks`.
#[derive(Debug, Clone)]
struct Block {
    entries: Vec<Entry>,
    codes: Vec<u64>,
}

impl Block {
    /// Reads the first two columns of a row.
    fn of_row(row: &rusqlite::Row<'_>, words: usize) -> rusqlite::Result<Self> {
        let [entries, codes] = [row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?];
        Ok(Self::unpack(entries, codes, words))
    }

    /// Unpacks a row; missing bytes are zero.
    fn unpack(entries: &[u8], codes: &[u8], words: usize) -> Self {
        let entry = |four: &[u8; ENTRY]| {
            let [a, b, c, d] = *four;
            Entry {
                group: u16::from_le_bytes([a, b]),
                day: u16::from_le_bytes([c, d]),
            }
        };
        let mut block = Self {
            entries: entries.as_chunks::<ENTRY>().0.iter().map(entry).collect(),
            codes: codes
                .as_chunks::<8>()
                .0
                .iter()
                .map(|eight| u64::from_le_bytes(*eight))
                .collect(),
        };
        block.entries.resize(SIZE, Entry::default());
        block.codes.resize(SIZE * words, 0);
        block
    }

    fn pack(&self) -> (Vec<u8>, Vec<u8>) {
        let entries = self.entries.iter().flat_map(|entry| {
            let ([a, b], [c, d]) = (entry.group.to_le_bytes(), entry.day.to_le_bytes());
            [a, b, c, d]
        });
        (
            entries.collect(),
            self.codes
                .iter()
                .flat_map(|word| word.to_le_bytes())
                .collect(),
        )
    }
}

/// Changes rows of `blocks`: each is read once, and written by [`BlockWriter::write`].
pub(crate) struct BlockWriter<'c> {
    connection: &'c Connection,
    /// Numbers of a code.
    words: usize,
    blocks: BTreeMap<usize, Block>,
    groups: HashMap<(String, String), u16>,
}

impl<'c> BlockWriter<'c> {
    /// Begins with vectors of `dims` numbers.
    pub(crate) fn new(connection: &'c Connection, dims: usize) -> Self {
        Self {
            connection,
            words: words_of(dims),
            blocks: BTreeMap::new(),
            groups: HashMap::new(),
        }
    }

    /// Returns the number of the group of a scope and a source.
    pub(crate) fn group(&mut self, scope: &str, source: &str) -> rusqlite::Result<u16> {
        let key = (scope.to_owned(), source.to_owned());
        if let Some(group) = self.groups.get(&key) {
            return Ok(*group);
        }
        let sql = "INSERT OR IGNORE INTO groups(scope, source) VALUES (?1, ?2)";
        self.connection.run(sql, [scope, source])?;
        let sql = "SELECT id FROM groups WHERE scope = ?1 AND source = ?2";
        let id: i64 = self
            .connection
            .one(sql, [scope, source], |row| row.get(0))?;
        // Beyond 65,535 groups of people: nobody finds what is in none.
        let group = u16::try_from(id).unwrap_or(0);
        self.groups.insert(key, group);
        Ok(group)
    }

    /// Sets the entry of chunk `id`, which has no vector yet; the default removes the chunk.
    pub(crate) fn set(&mut self, id: i64, entry: Entry) -> rusqlite::Result<()> {
        let (block, at) = self.block(id)?;
        block.entries[at] = entry;
        self.set_code(id, &[])
    }

    /// Sets the day of chunk `id`.
    pub(crate) fn set_day(&mut self, id: i64, day: u16) -> rusqlite::Result<()> {
        let (block, at) = self.block(id)?;
        block.entries[at].day = day;
        Ok(())
    }

    /// Sets the code of the vector of chunk `id`.
    pub(crate) fn set_code(&mut self, id: i64, code: &[u64]) -> rusqlite::Result<()> {
        let words = self.words;
        let (block, at) = self.block(id)?;
        let stored = &mut block.codes[at * words..(at + 1) * words];
        stored.fill(0);
        stored
            .iter_mut()
            .zip(code)
            .for_each(|(to, from)| *to = *from);
        Ok(())
    }

    fn block(&mut self, id: i64) -> rusqlite::Result<(&mut Block, usize)> {
        use std::collections::btree_map::Entry::{Occupied, Vacant};
        let id = usize::try_from(id).unwrap_or(0);
        let (number, words) = (id / SIZE, self.words);
        let block = match self.blocks.entry(number) {
            Occupied(block) => block.into_mut(),
            Vacant(vacant) => {
                let sql = "SELECT entries, codes FROM blocks WHERE id = ?1";
                let found =
                    self.connection
                        .first(sql, [i64::try_from(number).unwrap_or(0)], |row| {
                            Block::of_row(row, words)
                        })?;
                vacant.insert(found.unwrap_or_else(|| Block::unpack(&[], &[], words)))
            }
        };
        Ok((block, id % SIZE))
    }

    /// Writes what was changed, as version `version`.
    pub(crate) fn write(&mut self, version: i64) -> rusqlite::Result<()> {
        let mut insert = self.connection.prepare_cached(
            "INSERT OR REPLACE INTO blocks(id, entries, codes, version) VALUES (?1, ?2, ?3, ?4)",
        )?;
        for (number, block) in std::mem::take(&mut self.blocks) {
            let (entries, codes) = block.pack();
            insert.execute((i64::try_from(number).unwrap_or(0), entries, codes, version))?;
        }
        Ok(())
    }
}

/// Reads bytes as the columns of a row of blocks, and as a vector; somebody may have damaged the file.
#[cfg(any(test, fuzzing))]
pub(crate) fn check_row(bytes: &[u8]) {
    let (entries, codes) = bytes.split_at(bytes.len() / 2);
    let block = Block::unpack(entries, codes, 4);
    assert_eq!((block.entries.len(), block.codes.len()), (SIZE, SIZE * 4));
    let (entries, codes) = block.pack();
    let again = Block::unpack(&entries, &codes, 4);
    assert_eq!((again.entries.len(), again.codes), (SIZE, block.codes));
    let vector = super::vector_bytes::unpack(bytes).unwrap_or_default();
    let _ = super::vector_bytes::cosine(bytes, &vector);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db;
    use crate::memory::index::schema;

    fn open() -> (tempfile::TempDir, Connection) {
        let dir = tempfile::tempdir().expect("dir");
        let connection = db::open(&dir.path().join("index.db"), schema::MIGRATIONS).expect("open");
        (dir, connection)
    }

    /// Writes chunks, each with its group's scope and its vector, as the next version.
    fn put(connection: &mut Connection, version: i64, chunks: &[(i64, &str, Vec<f32>)]) {
        let transaction = connection.transaction().expect("begin");
        let mut blocks = BlockWriter::new(&transaction, 70);
        for (id, scope, vector) in chunks {
            let group = if scope.is_empty() {
                0
            } else {
                blocks.group(scope, "memory").expect("group")
            };
            blocks.set(*id, Entry { group, day: 9 }).expect("set");
            blocks.set_code(*id, &code(vector)).expect("set");
        }
        blocks.write(version).expect("write");
        transaction
            .execute(
                "UPDATE totals SET version = ?1, dims = 70, model = 'm'",
                [version],
            )
            .expect("update");
        transaction.commit().expect("commit");
    }

    fn vector(positive: usize) -> Vec<f32> {
        (0..70)
            .map(|at| if at < positive { 1.0 } else { -1.0 })
            .collect()
    }

    #[test]
    fn bits_of_four_numbers_are_counted_together() {
        for numbers in [
            [0; 4],
            [u64::MAX; 4],
            [1, 1 << 63, 0xf0f0, u64::MAX],
            [0x0123_4567_89ab_cdef, 7, u64::MAX - 1, 3 << 40],
        ] {
            assert_eq!(
                ones(&numbers),
                numbers.iter().map(|x| x.count_ones()).sum::<u32>(),
                "{numbers:?}"
            );
        }
    }

    #[test]
    fn the_nearest_are_found_of_those_that_are_allowed_and_changes_are_seen() {
        let (_dir, mut connection) = open();
        let mut blocks = Blocks::default();
        blocks.refresh(&connection).expect("refresh");
        assert_eq!(
            (blocks.len(), blocks.nearest(&code(&vector(9)), 5, |_| true)),
            (0, vec![])
        );
        put(
            &mut connection,
            1,
            &[
                (1, "owner", vector(10)),
                (2, "owner", vector(30)),
                (5000, "person:7", vector(69)),
                (3, "owner", vec![]),
            ],
        );
        blocks.refresh(&connection).expect("refresh");
        let nearest = |blocks: &Blocks, positive: usize, count: usize, scopes: Option<&[&str]>| {
            let scopes =
                scopes.map(|scopes| scopes.iter().map(|scope| (*scope).to_owned()).collect());
            let filter = Filter {
                scopes,
                ..Filter::default()
            };
            blocks.nearest(&code(&vector(positive)), count, blocks.allowed(&filter))
        };
        assert_eq!(nearest(&blocks, 70, 9, None), [5000, 2, 1]);
        assert_eq!(nearest(&blocks, 12, 1, None), [1]);
        assert_eq!(nearest(&blocks, 70, 9, Some(&["owner"])), [2, 1]);
        put(
            &mut connection,
            2,
            &[(2, "", vec![]), (4, "owner", vector(70))],
        );
        blocks.refresh(&connection).expect("refresh");
        assert_eq!(nearest(&blocks, 70, 9, None), [4, 5000, 1]);
        let late = Filter {
            days: 10..=20,
            ..Filter::default()
        };
        assert_eq!(
            blocks.nearest(&code(&vector(70)), 9, blocks.allowed(&late)),
            [0_i64; 0]
        );
    }

    #[test]
    fn many_chunks_are_cut_to_the_nearest() {
        let (_dir, mut connection) = open();
        let chunks: Vec<_> = (0..300_usize)
            .map(|id| (i64::try_from(id).expect("small"), "owner", vector(id % 60)))
            .collect();
        put(&mut connection, 1, &chunks);
        let mut blocks = Blocks::default();
        blocks.refresh(&connection).expect("refresh");
        assert_eq!(
            blocks.nearest(&code(&vector(59)), 7, |_| true),
            [299, 239, 179, 119, 59, 298, 238]
        );
        assert_eq!(blocks.nearest(&code(&vector(59)), 0, |_| true), [0_i64; 0]);
    }

    #[test]
    fn days_and_codes_are_what_they_should_be() {
        assert_eq!(
            (day_of(-1), day_of(86_400_000), day_of(i64::MAX)),
            (0, 1, u16::MAX)
        );
        assert_eq!(code(&[1.0, -1.0, 0.0, 2.0]), [0b1001]);
        assert_eq!(code(&vector(65)), [u64::MAX, 1]);
    }
}

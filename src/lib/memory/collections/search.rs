//! Searches a collection: the server selects candidates by words and by vectors; the ranker of the local index orders them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Instant;

use super::Error;
use super::show::Document;
use super::store::{About, Store};
use crate::db::postgres::{Parameter, Row, ServerError, Type};
use crate::language::tokenize::{Word, Words};
use crate::memory::index::query::candidates::{MAX_WORDS, Term, Totals, is_frequent, weight};
use crate::memory::index::query::query_vector::{QueryEmbedder, QueryVector};
use crate::memory::index::query::rank::Chunk;
use crate::memory::index::query::search::{ChunkSource, ENOUGH, File, Files, examine};
use crate::memory::index::query::shortlist::{Shortlist, Wanted};
use crate::memory::index::{Found, Query, Strategy, unpack};

/// Chunks that are weighed, as far as the counts of words tell. With so many, 99 of 100 of the first ten are those of all chunks
/// that have a word; with 4,000 no more are, and it takes half as long again (docs/performance.md).
const WEIGHED: f32 = 2_000.0;
/// What a term may lead to at most, where words stand together more often than chance has it.
const LED_TO: i32 = 10_000;
/// Vectors of which the nearest chunks are taken: one text may be in several, or outside of what is asked.
const NEAR: usize = 4;
/// Words of a question by their places, those together that lead to chunks only together.
type Groups = Vec<Vec<usize>>;
/// What the source of a hit is called.
pub(super) const SOURCE: &str = "collection";

/// Returns what `query` finds.
///
/// # Errors
/// See [`Error`].
pub(super) fn search(
    store: &mut Store,
    embedder: &mut QueryEmbedder,
    known: &mut Words,
    query: &Query,
) -> Result<Found, Error> {
    let about = store.about()?;
    let (terms, totals, driving) = terms(store, known.of_question(&query.text))?;
    let mut search = Search {
        store,
        query,
        about: &about,
        totals,
        driving,
    };
    let mut strategy = query.strategy;
    if strategy == Strategy::FtsFirst {
        let found = search.run(terms.clone(), None, known)?;
        if found.hits.len() >= ENOUGH {
            return Ok(found);
        }
        strategy = Strategy::Hybrid;
    }
    let vector = match strategy {
        Strategy::Fts => Ok(None),
        _ => {
            let began = Instant::now();
            let vector = embedder.vector_of_several(&query.text, &about.model);
            // It has a time of its own, which is nothing that the server is to be blamed for.
            search.store.extend(began.elapsed());
            vector.map(Some)
        }
    };
    let fits = |vector: &QueryVector<'_>| usize::try_from(about.dims) == Ok(vector.numbers.len());
    let vector = match vector {
        Ok(Some(vector)) if !fits(&vector) => Err(format!(
            "the vectors of {} have {} numbers in this collection, and {} in the question",
            about.model,
            about.dims,
            vector.numbers.len()
        )),
        vector => vector,
    };
    match vector {
        Err(why) if strategy == Strategy::Vector => Err(Error::NoVectors {
            name: search.store.name().to_owned(),
            why,
        }),
        Err(why) => Ok(Found {
            without_vectors: Some(why),
            ..search.run(terms, None, known)?
        }),
        Ok(vector) => search.run(terms, vector, known),
    }
}

/// Returns the words of a question with their weights, what there is in all, and which of the words lead to chunks.
fn terms(
    store: &mut Store,
    mut words: Vec<(String, Word)>,
) -> Result<(Vec<Term>, Totals, Groups), Error> {
    words.truncate(MAX_WORDS);
    let texts: Vec<String> = words
        .iter()
        .map(|(_, word)| word.text.to_string())
        .collect();
    let (totals, counts) = store.run(async |client| {
        // Sums are as large as the server says; floats have room for them.
        let totals = client.query_typed_one(
            "SELECT coalesce(sum(files), 0)::float4, coalesce(sum(chunks), 0)::float4,
               coalesce(sum(units), 0)::float4, coalesce(sum(words), 0)::float4 FROM totals",
            &[],
        );
        let wanted: [Parameter<'_>; 1] = [(&texts, Type::TEXT_ARRAY)];
        let counts = client.query_typed(
            "SELECT word, sum(chunks)::int8 FROM word_counts WHERE word = ANY ($1) GROUP BY word",
            &wanted,
        );
        let (totals, counts) = tokio::try_join!(totals, counts)?;
        let counts = counts
            .iter()
            .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)));
        let counts = counts.collect::<Result<HashMap<String, i64>, ServerError>>()?;
        let totals = Totals {
            files: totals.try_get(0)?,
            chunks: totals.try_get(1)?,
            units: totals.try_get(2)?,
            words: totals.try_get(3)?,
        };
        Ok((totals, counts))
    })?;
    let mut by_count: Vec<(i64, usize)> = Vec::new();
    let mut terms = Vec::new();
    for (at, (raw, word)) in words.into_iter().enumerate() {
        let count = counts.get(&*word.text).copied().unwrap_or(0).max(0);
        let weight = weight(usize::try_from(count).unwrap_or(0), totals.chunks);
        by_count.push((count, at));
        terms.push(Term { raw, word, weight });
    }
    Ok((terms, totals, driving(by_count, totals.chunks)))
}

/// Returns which words lead to chunks, in groups: a chunk is weighed when it has all words of one. The rarest words are
/// groups of their own as long as there is room for all their chunks, then pairs of the others, then as many words together
/// as are rare enough. Words that are in more than half of all chunks count only where there are no others.
#[expect(clippy::cast_precision_loss, reason = "counts of chunks")]
fn driving(mut by_count: Vec<(i64, usize)>, chunks: f32) -> Groups {
    by_count.sort_unstable();
    let is_rare =
        |(count, _): &(i64, usize)| !is_frequent(usize::try_from(*count).unwrap_or(0), chunks);
    if by_count.iter().any(is_rare) {
        by_count.retain(is_rare);
    }
    let words: Vec<(f32, usize)> = by_count
        .into_iter()
        .map(|(count, at)| (count as f32, at))
        .collect();
    let mut room = WEIGHED;
    let mut fits = |expected: f32| {
        let fits = expected <= room;
        room -= if fits { expected } else { 0.0 };
        fits
    };
    let alone = words.iter().take_while(|(count, _)| fits(*count));
    let mut groups: Vec<Vec<usize>> = alone.map(|(_, at)| vec![*at]).collect();
    let others = words.get(groups.len()..).unwrap_or_default();
    for (place, (count, at)) in others.iter().enumerate() {
        for (rarer, other) in others.iter().take(place) {
            if fits(count * rarer / chunks) {
                groups.push(vec![*other, *at]);
            }
        }
    }
    if groups.is_empty() && !words.is_empty() {
        let (mut expected, mut group) = (chunks, Vec::new());
        for (count, at) in words {
            group.push(at);
            expected *= count / chunks;
            if expected <= WEIGHED {
                break;
            }
        }
        groups.push(group);
    }
    groups
}

/// Returns what the server is asked for, and the weight of a chunk that has it: each word alone where it leads to chunks, else
/// next to the groups that do. Words that lead only together are one.
fn asked_for(words: &[(String, f32)], driving: &[Vec<usize>]) -> (Vec<String>, Vec<f32>) {
    let all_of = |group: &[usize]| {
        let words = group.iter().filter_map(|at| words.get(*at));
        let words: Vec<&str> = words.map(|(word, _)| word.as_str()).collect();
        words.join(" & ")
    };
    let mut asked: Vec<(String, f32)> = Vec::new();
    for (at, (word, weight)) in words.iter().enumerate() {
        let is_alone = driving.iter().any(|group| *group == [at]);
        let one = match driving {
            _ if is_alone => word.clone(),
            [group] if group.contains(&at) => all_of(group),
            groups => {
                let groups: Vec<String> = groups.iter().map(|group| all_of(group)).collect();
                format!("{word} & ({})", groups.join(" | "))
            }
        };
        match asked.iter_mut().find(|(other, _)| *other == one) {
            Some((_, sum)) => *sum += weight,
            None => asked.push((one, *weight)),
        }
    }
    asked.into_iter().unzip()
}

/// One search.
struct Search<'a> {
    store: &'a mut Store,
    query: &'a Query,
    about: &'a About,
    totals: Totals,
    driving: Groups,
}

impl Search<'_> {
    fn run(
        &mut self,
        terms: Vec<Term>,
        vector: Option<QueryVector<'_>>,
        known: &mut Words,
    ) -> Result<Found, Error> {
        let wanted = Wanted::of(self.query, vector.as_ref());
        let mut ids = match wanted.by_words {
            0 => Vec::new(),
            most => self.by_words(&terms, most)?,
        };
        let mut cosines = HashMap::new();
        if let Some(vector) = &vector {
            cosines = self.by_vector(&vector.numbers, wanted.near)?;
            ids.extend(cosines.keys());
            ids.sort_unstable();
            ids.dedup();
        }
        let list = Shortlist {
            terms,
            ids,
            cosines,
            share: wanted.share,
        };
        let (query, totals) = (self.query, self.totals);
        examine(list, totals, query, (vector, known), self.store)
    }

    /// Returns the chunks with the most of the query's weight in them.
    fn by_words(&mut self, terms: &[Term], most: usize) -> Result<Vec<i64>, Error> {
        if terms.is_empty() {
            return Ok(Vec::new());
        }
        let words = terms
            .iter()
            .map(|term| (lexeme(&term.word.text), term.weight));
        let words: Vec<(String, f32)> = words.collect();
        let (asked_for, weights) = asked_for(&words, &self.driving);
        let filter = &self.query.filter;
        let asked = |name: &Option<String>| name.as_ref().map(|name| name.trim().to_lowercase());
        let (kind, tag) = (asked(&filter.kind), asked(&filter.tag));
        let (first, last) = self.days();
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        let sql =
            "SELECT id FROM word_candidates($1::text[]::tsquery[], $2, $3, $4, $5, $6, $7, $8)";
        let parameters: [Parameter<'_>; 8] = [
            (&asked_for, Type::TEXT_ARRAY),
            (&weights, Type::FLOAT4_ARRAY),
            (&first, Type::INT4),
            (&last, Type::INT4),
            (&kind, Type::TEXT),
            (&tag, Type::TEXT),
            (&LED_TO, Type::INT4),
            (&most, Type::INT4),
        ];
        self.store.query(sql, &parameters, |row| row.try_get(0))
    }

    fn days(&self) -> (i32, i32) {
        let days = &self.query.filter.days;
        (i32::from(*days.start()), i32::from(*days.end()))
    }

    /// Returns the chunks whose vectors are the nearest, and how near they are.
    fn by_vector(&mut self, vector: &[f32], most: usize) -> Result<HashMap<i64, f32>, Error> {
        let filter = &self.query.filter;
        if filter.kind.is_some() || filter.tag.is_some() {
            // A few of many: they are found by their words.
            return Ok(HashMap::new());
        }
        let kind = self.store.of_pgvector(&self.about.comparable());
        let near = self.store.of_pgvector("<=>");
        let sql = format!(
            "SELECT c.id, (1 - v.distance)::float4
             FROM (SELECT scope, hash, embedding::{kind} OPERATOR({near}) $1::text::{kind} AS distance FROM vectors
               WHERE embedding IS NOT NULL ORDER BY embedding::{kind} OPERATOR({near}) $1::text::{kind} LIMIT $2) v
             JOIN chunks c ON c.scope = v.scope AND c.hash = v.hash
             WHERE c.day BETWEEN $3 AND $4 ORDER BY v.distance, c.id DESC LIMIT $5"
        );
        let (vector, (first, last)) = (shown(vector), self.days());
        let limit = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let (looked_at, most) = (limit(most * NEAR), limit(most));
        let parameters: [Parameter<'_>; 5] = [
            (&vector, Type::TEXT),
            (&looked_at, Type::INT8),
            (&first, Type::INT4),
            (&last, Type::INT4),
            (&most, Type::INT8),
        ];
        let found = self.store.query(&sql, &parameters, pair)?;
        Ok(found.into_iter().collect())
    }
}

impl ChunkSource for Store {
    type Error = Error;

    fn chunks(&mut self, ids: &[i64], files: &mut Files) -> Result<Vec<Chunk>, Error> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let name = self.name().to_owned();
        let sql = "SELECT c.id, c.file, c.units, c.text, f.source, f.path, f.scope, f.time, f.words, f.kind
                   FROM chunks c JOIN files f ON f.id = c.file WHERE c.id = ANY ($1) ORDER BY c.id";
        self.query(sql, &[(&ids, Type::INT8_ARRAY)], |row| {
            chunk(row, &name, files)
        })
    }

    fn beside(&mut self, ids: Vec<i64>, files: &mut Files) -> Result<Vec<Chunk>, Error> {
        self.chunks(&ids, files)
    }

    fn cosines(&mut self, ids: &[i64], vector: &[f32]) -> Result<Vec<(i64, f32)>, Error> {
        let sql = format!(
            "SELECT c.id, (1 - (v.embedding OPERATOR({}) $2::text::{}))::float4
             FROM chunks c JOIN vectors v ON v.scope = c.scope AND v.hash = c.hash
             WHERE c.id = ANY ($1) AND v.embedding IS NOT NULL",
            self.of_pgvector("<=>"),
            self.of_pgvector("vector")
        );
        let vector = shown(vector);
        let parameters: [Parameter<'_>; 2] = [(&ids, Type::INT8_ARRAY), (&vector, Type::TEXT)];
        self.query(&sql, &parameters, pair)
    }
}

fn pair(row: &Row) -> Result<(i64, f32), ServerError> {
    Ok((row.try_get(0)?, row.try_get(1)?))
}

#[expect(clippy::cast_precision_loss, reason = "words of a file")]
fn chunk(row: &Row, name: &str, files: &mut Files) -> Result<Chunk, ServerError> {
    let chunk = Chunk {
        id: row.try_get(0)?,
        file: row.try_get(1)?,
        packed: unpack(row.try_get(2)?),
        text: row.try_get(3)?,
    };
    if let Entry::Vacant(vacant) = files.entry(chunk.file) {
        let document = Document {
            collection: name,
            source: row.try_get(4)?,
            scope: row.try_get(6)?,
            file: row.try_get(5)?,
        };
        vacant.insert(File {
            path: document.path(),
            source: SOURCE.to_owned(),
            // No scope of the own memory, whatever it is called there.
            scope: format!("{SOURCE} {name} {}", document.scope),
            time: row.try_get(7)?,
            words: row.try_get::<_, i64>(8)? as f32,
            kind: row.try_get(9)?,
        });
    }
    Ok(chunk)
}

/// Returns a vector as pgvector reads it.
pub(super) fn shown(vector: &[f32]) -> String {
    let numbers: Vec<String> = vector.iter().map(f32::to_string).collect();
    format!("[{}]", numbers.join(","))
}

/// Returns a word as a query of the full-text search.
fn lexeme(word: &str) -> String {
    format!("'{}'", word.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_words_lead_alone_and_common_ones_together() {
        let check = |counts: &[i64], chunks: f32, expected: &[&[usize]]| {
            let by_count = counts.iter().copied().zip(0..).collect();
            assert_eq!(
                driving(by_count, chunks),
                expected,
                "{counts:?} of {chunks}"
            );
        };
        check(&[3, 0, 2], 10.0, &[&[1], &[2], &[0]]);
        check(&[15_000, 800, 1_200], 1e6, &[&[1], &[2]]);
        check(&[20_000, 90_000, 10], 1e6, &[&[2], &[0, 1]]);
        check(&[90_000, 30_000, 60_000], 1e6, &[&[1, 2]]);
        check(&[300_000, 200_000, 400_000], 1e6, &[&[1, 0, 2]]);
        check(&[200_000, 20_000, 400_000, 450_000], 1e6, &[&[1, 0, 2]]);
        check(&[90_000], 1e6, &[&[0]]);
        check(&[900, 10], 1e3, &[&[1]]);
        check(&[900, 800], 1e3, &[&[1], &[0]]);
        check(&[], 1e3, &[]);
    }

    #[test]
    fn a_word_that_does_not_lead_is_asked_for_beside_those_that_do() {
        let words = [("'a'", 1.0), ("'b'", 2.0), ("'c'", 4.0)];
        let words = words.map(|(word, weight)| (word.to_owned(), weight));
        let check = |driving: &[Vec<usize>], expected: &[(&str, f32)]| {
            let (asked, weights) = asked_for(&words, driving);
            let found: Vec<(&str, f32)> = asked.iter().map(String::as_str).zip(weights).collect();
            assert_eq!(found, expected);
        };
        check(
            &[vec![0], vec![1], vec![2]],
            &[("'a'", 1.0), ("'b'", 2.0), ("'c'", 4.0)],
        );
        check(
            &[vec![0], vec![1, 2]],
            &[
                ("'a'", 1.0),
                ("'b' & ('a' | 'b' & 'c')", 2.0),
                ("'c' & ('a' | 'b' & 'c')", 4.0),
            ],
        );
        check(
            &[vec![1, 0]],
            &[("'b' & 'a'", 3.0), ("'c' & ('b' & 'a')", 4.0)],
        );
    }

    #[test]
    fn a_word_is_one_lexeme_whatever_is_in_it() {
        assert_eq!(lexeme(r"o'b\|c"), r"'o''b\\|c'");
        assert_eq!(shown(&[0.5, -1.0]), "[0.5,-1]");
    }
}

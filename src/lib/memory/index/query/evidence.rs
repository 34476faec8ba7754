//! A fact restates a line of a file, and a summary restates a conversation. Where both are found, the original is shown.

use std::collections::HashMap;

use rusqlite::Connection;

use super::rank::{Chunk, Ranked};
use super::search::Files;
use crate::memory::index::schema::Line;
use crate::memory::sources::Source;

/// How much lower a line ranks that restates others: of equals, the original comes first.
const SECOND_HAND: f32 = 0.02;
/// The most chunks of a line: a long message has several.
const MAX_CHUNKS: i64 = 4;

/// Returns the chunks with the lines that state the facts among `chunks`. An item states them in its front matter, which
/// is not indexed: there it is the text below.
pub(crate) fn stating_chunks(
    view: &Connection,
    chunks: &[Chunk],
    files: &Files,
) -> rusqlite::Result<Vec<i64>> {
    let mut query = view.prepare_cached(
        "SELECT c.id FROM files f JOIN chunks c ON c.file = f.id
         WHERE f.path = ?1 AND f.source NOT IN ('fact', 'summary') AND c.end_line >= ?2 AND (c.start_line <= ?2 OR f.source = 'item')
         ORDER BY c.id LIMIT ?3",
    )?;
    let mut ids = Vec::new();
    for chunk in chunks {
        let (Some(file), Some(line)) = (
            files.get(&chunk.file).filter(|file| file.is(Source::Fact)),
            chunk.packed.lines.first(),
        ) else {
            continue;
        };
        let found = query.query_map((&file.path, line.number, MAX_CHUNKS), |row| row.get(0))?;
        ids.extend(found.collect::<rusqlite::Result<Vec<i64>>>()?);
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// The words of facts, as codes, by file and position of the line that states them.
pub(crate) type Stated = HashMap<(i64, usize), Vec<u32>>;

/// Removes the facts from `chunks` whose line is there too, and returns their words as words of that line: it is found by
/// them, and no line is in two results.
pub(crate) fn merge_facts(chunks: &mut Vec<Chunk>, files: &Files) -> Stated {
    let mut stated = Stated::new();
    let mut merged = Vec::new();
    let file_of = |chunk: &Chunk| files.get(&chunk.file);
    let is_fact = |chunk: &&Chunk| file_of(chunk).is_some_and(|file| file.is(Source::Fact));
    for fact in chunks.iter().filter(is_fact) {
        let (Some(place), Some(first)) = (file_of(fact), fact.packed.lines.first()) else {
            continue;
        };
        let fact_lines = fact.packed.lines.iter();
        let words: Vec<u32> = fact_lines.flat_map(|line| &line.words).copied().collect();
        let shared = |line: &Line| {
            line.words
                .iter()
                .filter(|word| words.contains(word))
                .count()
        };
        let originals = chunks.iter().filter_map(|chunk| {
            let file = file_of(chunk).filter(|file| file.path == place.path)?;
            let is_original = !file.is(Source::Fact) && !file.is(Source::Summary);
            is_original.then_some((chunk, file.is(Source::Item)))
        });
        let lines = originals.flat_map(|(chunk, is_item)| {
            (chunk.packed.first..)
                .zip(&chunk.packed.lines)
                .filter(move |(_, line)| {
                    line.number == first.number || (is_item && line.number > first.number)
                })
                .map(|(at, line)| (chunk.file, at, line))
        });
        // Of a message of several lines the one that has most of its words; of an item else the first.
        let best = lines.min_by_key(|(_, at, line)| (line.number, usize::MAX - shared(line), *at));
        if let Some((file, at, _)) = best {
            stated.entry((file, at)).or_default().extend(words);
            merged.push(fact.id);
        }
    }
    chunks.retain(|chunk| !merged.contains(&chunk.id));
    stated
}

/// Ranks summaries, and facts whose line was not found, lower.
pub(crate) fn demote_restatements(ranked: &mut Ranked<'_>, files: &Files) {
    for (id, lines) in ranked {
        let file = files.get(id);
        if file.is_some_and(|file| file.is(Source::Fact) || file.is(Source::Summary)) {
            lines.values_mut().for_each(|line| line.rank -= SECOND_HAND);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Home;
    use crate::memory::consolidate;
    use crate::memory::index::schema::Packed;
    use crate::memory::index::search;
    use crate::memory::index::sync;
    use crate::memory::index::{Filter, Mode, Place, Query};
    use crate::sys::atomic;

    /// A home with files below its workspace, from which facts were drawn, indexed.
    fn place(files: &[(&str, &str)]) -> (tempfile::TempDir, Place) {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        home.create().expect("create");
        for (name, text) in files {
            let path = home.workspace().join(name);
            std::fs::create_dir_all(path.parent().expect("parent")).expect("create");
            atomic::write(&path, text.as_bytes(), atomic::Durability::Rename).expect("write");
        }
        consolidate::run(
            &home,
            consolidate::Means::rules(chrono_tz::UTC),
            consolidate::Options::default(),
            &mut |_| {},
        )
        .expect("consolidate");
        let place = Place::of(&home);
        sync(&place, Mode::default(), &mut |_| {}).expect("sync");
        (dir, place)
    }

    /// Returns `path:start-end source: text` of what is found.
    fn found(place: &Place, text: &str, sources: Option<&[Source]>) -> Vec<String> {
        let filter = Filter {
            sources: sources.map(<[Source]>::to_vec),
            ..Filter::default()
        };
        let hits = search(
            place,
            &Query {
                filter,
                ..Query::new(text)
            },
        )
        .expect("search")
        .hits;
        let shown = |hit: crate::memory::index::Hit| {
            let until = hit.text.find(" (since").unwrap_or(hit.text.len());
            let text = hit.text.get(..until).unwrap_or_default();
            format!(
                "{}:{}-{} {}: {text}",
                hit.path, hit.start_line, hit.end_line, hit.source
            )
        };
        hits.into_iter().map(shown).collect()
    }

    #[test]
    fn where_the_words_are_found_the_fact_is_not_shown_beside_them() {
        let (_dir, place) = place(&[
            ("MEMORY.md", "# Family\n\n- Ana lives in Porto.\n"),
            ("USER.md", "I live in Lisbon.\n"),
        ]);
        let both = found(&place, "Where does Ana live?", None);
        assert_eq!(
            both,
            [
                "workspace/MEMORY.md:1-3 memory: # Family\n\n- Ana lives in Porto.",
                "workspace/USER.md:1-1 fact: user: lives in Lisbon"
            ]
        );
        let facts = found(&place, "Where does Ana live?", Some(&[Source::Fact]));
        assert_eq!(
            facts,
            [
                "workspace/MEMORY.md:3-3 fact: Ana: lives in Porto",
                "workspace/USER.md:1-1 fact: user: lives in Lisbon"
            ]
        );
    }

    #[test]
    fn words_are_found_by_the_fact_that_they_state() {
        let item = "---\ntype: fact\nentity: Ana\nattribute: works at\nvalue: Siemens\n---\nShe told me at the harbour.\n";
        let (_dir, place) = place(&[("memory/items/a.md", item)]);
        // Its head is not text to search in: the fact finds the words below it.
        assert_eq!(
            found(&place, "Siemens", None),
            ["workspace/memory/items/a.md:7-7 item: She told me at the harbour."]
        );
    }

    #[test]
    fn facts_of_one_line_are_one_result() {
        let (_dir, place) = place(&[("USER.md", "My sister is Ana. My brother is Tom.\n")]);
        assert_eq!(found(&place, "brother", None).len(), 1);
        assert_eq!(found(&place, "sister and brother", None).len(), 1);
    }

    #[test]
    fn of_a_long_message_the_line_is_found_that_states_it() {
        let line = |number, words: &[u32]| Line {
            number,
            bytes: 1,
            words: words.to_vec(),
        };
        let chunk = |id, file, lines| Chunk {
            id,
            file,
            packed: Packed {
                first: 0,
                context: vec![],
                lines,
            },
            text: String::new(),
        };
        let text = vec![
            line(4, &[1]),
            line(5, &[1, 2]),
            line(5, &[1, 2, 3]),
            line(5, &[9]),
            line(6, &[1, 2, 3]),
        ];
        let mut chunks = vec![
            chunk(7, 1, text),
            chunk(8, 2, vec![line(5, &[1, 2, 3, 4])]),
            chunk(9, 3, vec![line(8, &[1])]),
        ];
        let file = |source: Source| crate::memory::index::query::search::File {
            kind: String::new(),
            path: "p".into(),
            source: source.as_str().into(),
            scope: "owner".into(),
            time: 0,
            words: 9.0,
        };
        let files = HashMap::from([
            (1, file(Source::Session)),
            (2, file(Source::Fact)),
            (3, file(Source::Fact)),
        ]);
        assert_eq!(
            merge_facts(&mut chunks, &files),
            Stated::from([((1, 2), vec![1, 2, 3, 4])])
        );
        let left: Vec<i64> = chunks.iter().map(|chunk| chunk.id).collect();
        assert_eq!(left, [7, 9], "what no line here states is shown by itself");
    }
}

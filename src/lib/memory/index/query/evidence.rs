//! A fact says in other words what stands on a line of a file, and a summary what was said in a conversation.
//! Where both are found, the words themselves are shown.

use std::collections::HashMap;

use rusqlite::Connection;

use super::rank::{Chunk, Ranked};
use super::search::File;
use crate::memory::index::schema::Line;
use crate::memory::sources::Source;

/// What a line is worth less in the order that says something in other words: of equals, the words themselves
/// come first.
const SECOND_HAND: f32 = 0.02;
/// Chunks in which a line stands, at most: a long message has several.
const MOST: i64 = 4;

/// Returns the chunks in which that stands what the facts among `chunks` say. Of an item it stands in the fields
/// above its words, which are no words to search in: then it is the words.
pub(crate) fn of_facts(
    view: &Connection,
    chunks: &[Chunk],
    files: &HashMap<i64, File>,
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
        let found = query.query_map((&file.path, line.number, MOST), |row| row.get(0))?;
        ids.extend(found.collect::<rusqlite::Result<Vec<i64>>>()?);
    }
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}

/// What facts say beyond the words of the lines that state them: codes of words by file and place of the line.
pub(crate) type Stated = HashMap<(i64, usize), Vec<u32>>;

/// Takes those facts out of `chunks` whose line is there, too, and returns them as words of that line: it is found
/// by them, and no line stands in two results.
pub(crate) fn settle(chunks: &mut Vec<Chunk>, files: &HashMap<i64, File>) -> Stated {
    let mut stated = Stated::new();
    let of_source =
        |chunk: &Chunk, source| files.get(&chunk.file).is_some_and(|file| file.is(source));
    let mut settled = Vec::new();
    for fact in chunks.iter().filter(|chunk| of_source(chunk, Source::Fact)) {
        let Some((path, place)) = files
            .get(&fact.file)
            .map(|file| &file.path)
            .zip(fact.packed.lines.first())
        else {
            continue;
        };
        let words: Vec<u32> = fact
            .packed
            .lines
            .iter()
            .flat_map(|line| &line.words)
            .copied()
            .collect();
        let of_path = chunks.iter().filter(|chunk| {
            files
                .get(&chunk.file)
                .is_some_and(|file| file.path == *path)
        });
        let texts = of_path
            .filter(|chunk| !of_source(chunk, Source::Fact) && !of_source(chunk, Source::Summary));
        let lines = texts.flat_map(|chunk| {
            let is_item = of_source(chunk, Source::Item);
            let lines = (chunk.packed.first..).zip(&chunk.packed.lines);
            let states = move |line: &Line| {
                line.number == place.number || (is_item && line.number > place.number)
            };
            lines
                .filter(move |(_, line)| states(line))
                .map(|(at, line)| (chunk.file, at, line))
        });
        // Of a message of several lines the one that has most of its words; of an item else the first.
        let shared = |line: &Line| {
            line.words
                .iter()
                .filter(|word| words.contains(word))
                .count()
        };
        let best = lines.min_by_key(|(_, at, line)| (line.number, usize::MAX - shared(line), *at));
        if let Some((file, at, _)) = best {
            stated.entry((file, at)).or_default().extend(words);
            settled.push(fact.id);
        }
    }
    chunks.retain(|chunk| !settled.contains(&chunk.id));
    stated
}

/// Puts summaries, and facts that nothing else here states, behind words that are as good.
pub(crate) fn step_back(ranked: &mut Ranked<'_>, files: &HashMap<i64, File>) {
    let is_second_hand = |id: &i64| {
        files
            .get(id)
            .is_some_and(|file| file.is(Source::Fact) || file.is(Source::Summary))
    };
    let lines = ranked
        .iter_mut()
        .filter(|(id, _)| is_second_hand(id))
        .flat_map(|(_, lines)| lines.values_mut());
    lines.for_each(|line| line.rank -= SECOND_HAND);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Home, HomeFlags};
    use crate::memory::consolidate;
    use crate::memory::index::schema::Packed;
    use crate::memory::index::search;
    use crate::memory::index::sync;
    use crate::memory::index::{Filter, Mode, Place, Query};
    use crate::sys::atomic;

    /// A home with files below its workspace, from which facts were drawn, indexed.
    fn place(files: &[(&str, &str)]) -> (tempfile::TempDir, Place) {
        let dir = tempfile::tempdir().expect("dir");
        let flags = HomeFlags {
            home: Some(dir.path().to_owned()),
            ..HomeFlags::default()
        };
        let home = Home::resolve(flags, &|_| None).expect("home");
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
        // Its head is no text to search in: the fact finds the words below it.
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
        let file = |source: Source| File {
            path: "p".into(),
            source: source.as_str().into(),
            scope: "owner".into(),
            time: 0,
        };
        let files = HashMap::from([
            (1, file(Source::Session)),
            (2, file(Source::Fact)),
            (3, file(Source::Fact)),
        ]);
        assert_eq!(
            settle(&mut chunks, &files),
            Stated::from([((1, 2), vec![1, 2, 3, 4])])
        );
        let left: Vec<i64> = chunks.iter().map(|chunk| chunk.id).collect();
        assert_eq!(left, [7, 9], "what no line here states is shown by itself");
    }
}

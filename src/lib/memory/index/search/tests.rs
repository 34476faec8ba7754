use super::super::{Mode, sync};
use super::*;
use crate::config::{Home, HomeFlags};
use crate::sys::atomic;

/// A home whose workspace has `files`, indexed.
fn place(files: &[(&str, &str)]) -> (tempfile::TempDir, Place) {
    let dir = tempfile::tempdir().expect("dir");
    let flags = HomeFlags { home: Some(dir.path().to_owned()), ..HomeFlags::default() };
    let home = Home::resolve(flags, &|_| None).expect("home");
    home.create().expect("create");
    for (name, text) in files {
        let path = home.workspace().join(name);
        std::fs::create_dir_all(path.parent().expect("parent")).expect("create");
        atomic::write(&path, text.as_bytes(), atomic::Durability::Rename).expect("write");
    }
    let place = Place::of(&home);
    sync(&place, Mode::default(), &mut |_| {}).expect("sync");
    (dir, place)
}

fn paths(place: &Place, query: &Query) -> Vec<String> {
    let hits = search(place, query).expect("search").hits;
    hits.into_iter().map(|hit| hit.path.trim_start_matches("workspace/").to_owned()).collect()
}

#[test]
fn a_filter_lets_through_what_its_scopes_own_and_nothing_beside_it() {
    let (_dir, place) = place(&[
        ("MEMORY.md", "the owner's orchid\n"),
        ("memory/people/7.md", "seven's orchid\n"),
        ("memory/people/7.episodes.md", "an orchid of seven\n"),
        ("memory/people/77.md", "orchid of seventy-seven\n"),
        ("memory/items/a.md", "an orchid, written down\n"),
    ]);
    let check = |scopes: Option<&[&str]>, sources: Option<&[Source]>, expected: &[&str]| {
        let scopes = scopes.map(|scopes| scopes.iter().map(|scope| (*scope).to_owned()).collect());
        let filter = Filter { scopes, sources: sources.map(<[Source]>::to_vec) };
        let mut found = paths(&place, &Query { filter, ..Query::new("orchid") });
        found.sort();
        assert_eq!(found, expected);
    };
    check(
        None,
        None,
        &["MEMORY.md", "memory/items/a.md", "memory/people/7.episodes.md", "memory/people/7.md", "memory/people/77.md"],
    );
    check(Some(&["person:7"]), None, &["memory/people/7.episodes.md", "memory/people/7.md"]);
    check(Some(&["owner"]), None, &["MEMORY.md", "memory/items/a.md"]);
    check(Some(&["owner", "person:77"]), Some(&[Source::Memory]), &["MEMORY.md", "memory/people/77.md"]);
    check(Some(&[]), None, &[]);
    check(Some(&["chat:x"]), None, &[]);
}

#[test]
fn of_equals_the_newest_comes_first() {
    let text = "The gutter was cleaned.\n";
    let files = ["memory/2026-03-01.md", "memory/2026-03-03.md", "memory/2026-03-02.md"].map(|name| (name, text));
    let (_dir, place) = place(&files);
    assert_eq!(paths(&place, &Query::new("gutter")), ["memory/2026-03-03.md", "memory/2026-03-02.md", "memory/2026-03-01.md"]);
}

#[test]
fn a_score_means_the_share_of_the_query_that_was_found() {
    let filler: Vec<(String, String)> =
        (0..30).map(|n| (format!("memory/f{n}.md"), format!("nothing of note happened on walk {n}\n"))).collect();
    let mut files: Vec<(&str, &str)> = filler.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    files.push(("memory/whole.md", "the copper kettle whistles\n"));
    files.push(("memory/half.md", "a kettle of iron\n"));
    let (_dir, place) = place(&files);
    let scores = |text: &str| -> Vec<(String, f32)> {
        let hits = search(&place, &Query::new(text)).expect("search").hits;
        hits.into_iter().map(|hit| (hit.path, hit.score)).collect()
    };
    let both = scores("copper kettle");
    let [(first, whole), (second, half)] = both.as_slice() else { panic!("{both:?}") };
    assert_eq!((first.as_str(), second.as_str()), ("workspace/memory/whole.md", "workspace/memory/half.md"));
    assert!((0.6..0.85).contains(whole) && (0.3..0.6).contains(half), "{both:?}");
    // A word that is nowhere makes every hit worse; another query does not.
    assert!(scores("copper kettle zeppelin").first().is_some_and(|(_, score)| score < whole));
    let strict = Query { min_score: 0.6, ..Query::new("copper kettle") };
    assert_eq!(paths(&place, &strict), ["memory/whole.md"]);
}

#[test]
fn a_searcher_sees_what_was_indexed_since() {
    let (dir, place) = place(&[("MEMORY.md", "a lantern\n")]);
    let mut searcher = Searcher::new(&place);
    let mut count = |text: &str| searcher.search(&Query::new(text)).expect("search").hits.len();
    assert_eq!((count("lantern"), count("torch")), (1, 0));
    atomic::write(&dir.path().join("workspace/MEMORY.md"), b"a torch instead\n", atomic::Durability::Rename).expect("write");
    sync(&place, Mode::default(), &mut |_| {}).expect("sync");
    assert_eq!((count("lantern"), count("torch")), (0, 1));
}

#[test]
fn a_short_result_has_the_line_that_was_found_and_not_the_ones_above_it() {
    let above = "We walked by the river and talked about nothing in particular.\n".repeat(15);
    let (_dir, place) = place(&[("MEMORY.md", &format!("{above}The lantern is in the shed.\n"))]);
    let hits = search(&place, &Query { max_chars: 300, ..Query::new("lantern") }).expect("search").hits;
    let [hit] = hits.as_slice() else { panic!("{hits:?}") };
    assert!(hit.text.ends_with("The lantern is in the shed.") && hit.text.chars().count() <= 300, "{}", hit.text);
}

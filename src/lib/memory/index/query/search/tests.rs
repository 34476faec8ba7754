use std::path::{Path, PathBuf};

use super::*;
use crate::config::Home;
use crate::memory::index::Mode;
use crate::memory::index::sync;
use crate::sys::atomic;

/// A home whose workspace has `files`, indexed.
fn place(files: &[(&str, &str)]) -> (tempfile::TempDir, Place) {
    let dir = tempfile::tempdir().expect("dir");
    let home = Home::at(dir.path());
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
    hits.into_iter()
        .map(|hit| hit.path.trim_start_matches("workspace/").to_owned())
        .collect()
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
        let filter = Filter {
            scopes,
            sources: sources.map(<[Source]>::to_vec),
            ..Filter::default()
        };
        let mut found = paths(
            &place,
            &Query {
                filter,
                ..Query::new("orchid")
            },
        );
        found.sort();
        assert_eq!(found, expected);
    };
    check(
        None,
        None,
        &[
            "MEMORY.md",
            "memory/items/a.md",
            "memory/people/7.episodes.md",
            "memory/people/7.md",
            "memory/people/77.md",
        ],
    );
    check(
        Some(&["person:7"]),
        None,
        &["memory/people/7.episodes.md", "memory/people/7.md"],
    );
    check(Some(&["owner"]), None, &["MEMORY.md", "memory/items/a.md"]);
    check(
        Some(&["owner", "person:77"]),
        Some(&[Source::Memory]),
        &["MEMORY.md", "memory/people/77.md"],
    );
    check(Some(&[]), None, &[]);
    check(Some(&["chat:x"]), None, &[]);
}

#[test]
fn of_equals_the_newest_comes_first() {
    let text = "The gutter was cleaned.\n";
    let files = [
        "memory/2026-03-01.md",
        "memory/2026-03-03.md",
        "memory/2026-03-02.md",
    ]
    .map(|name| (name, text));
    let (_dir, place) = place(&files);
    assert_eq!(
        paths(&place, &Query::new("gutter")),
        [
            "memory/2026-03-03.md",
            "memory/2026-03-02.md",
            "memory/2026-03-01.md"
        ]
    );
}

#[test]
fn what_is_of_the_day_in_question_comes_first_among_equals_and_nothing_is_left_out() {
    let text = "The gutter was cleaned.\n";
    let files = [
        "memory/2026-03-01.md",
        "memory/2026-03-03.md",
        "memory/2026-03-02.md",
    ]
    .map(|name| (name, text));
    let (_dir, place) = place(&files);
    let today = chrono::NaiveDate::from_ymd_opt(2026, 3, 3);
    let asked = |text: &str, today| {
        paths(
            &place,
            &Query {
                today,
                ..Query::new(text)
            },
        )
    };
    let newest_first = [
        "memory/2026-03-03.md",
        "memory/2026-03-02.md",
        "memory/2026-03-01.md",
    ];
    assert_eq!(
        asked("What about the gutter yesterday?", today),
        [newest_first[1], newest_first[0], newest_first[2]]
    );
    assert_eq!(
        asked("What about the gutter yesterday?", None),
        newest_first
    );
    assert_eq!(
        asked("What about the gutter last year?", today),
        newest_first
    );
}

#[test]
fn a_score_means_the_share_of_the_query_that_was_found() {
    let filler: Vec<(String, String)> = (0..30)
        .map(|n| {
            (
                format!("memory/f{n}.md"),
                format!("nothing of note happened on walk {n}\n"),
            )
        })
        .collect();
    let mut files: Vec<(&str, &str)> = filler
        .iter()
        .map(|(name, text)| (name.as_str(), text.as_str()))
        .collect();
    files.push(("memory/whole.md", "the copper kettle whistles\n"));
    files.push(("memory/half.md", "a kettle of iron\n"));
    let (_dir, place) = place(&files);
    let scores = |text: &str| -> Vec<(String, f32)> {
        let hits = search(&place, &Query::new(text)).expect("search").hits;
        hits.into_iter().map(|hit| (hit.path, hit.score)).collect()
    };
    let both = scores("copper kettle");
    let [(first, whole), (second, half)] = both.as_slice() else {
        panic!("{both:?}")
    };
    assert_eq!(
        (first.as_str(), second.as_str()),
        ("workspace/memory/whole.md", "workspace/memory/half.md")
    );
    assert!(
        (0.6..0.85).contains(whole) && (0.3..0.6).contains(half),
        "{both:?}"
    );
    // A word that is nowhere makes every hit worse; another query does not.
    assert!(
        scores("copper kettle zeppelin")
            .first()
            .is_some_and(|(_, score)| score < whole)
    );
    let strict = Query {
        min_score: 0.6,
        ..Query::new("copper kettle")
    };
    assert_eq!(paths(&place, &strict), ["memory/whole.md"]);
}

#[test]
fn a_searcher_sees_what_was_indexed_since() {
    let (dir, place) = place(&[("MEMORY.md", "a lantern\n")]);
    let mut searcher = Searcher::new(&place);
    let mut count = |text: &str| {
        searcher
            .search(&Query::new(text))
            .expect("search")
            .hits
            .len()
    };
    assert_eq!((count("lantern"), count("torch")), (1, 0));
    atomic::write(
        &dir.path().join("workspace/MEMORY.md"),
        b"a torch instead\n",
        atomic::Durability::Rename,
    )
    .expect("write");
    sync(&place, Mode::default(), &mut |_| {}).expect("sync");
    assert_eq!((count("lantern"), count("torch")), (0, 1));
}

#[test]
fn a_short_result_has_the_line_that_was_found_and_not_the_ones_above_it() {
    let above = "We walked by the river and talked about nothing in particular.\n".repeat(15);
    let (_dir, place) = place(&[(
        "MEMORY.md",
        &format!("{above}The lantern is in the shed.\n"),
    )]);
    let hits = search(
        &place,
        &Query {
            max_chars: 300,
            ..Query::new("lantern")
        },
    )
    .expect("search")
    .hits;
    let [hit] = hits.as_slice() else {
        panic!("{hits:?}")
    };
    assert!(
        hit.text.ends_with("The lantern is in the shed.") && hit.text.chars().count() <= 300,
        "{}",
        hit.text
    );
}

// ------------------------------------------------------------------ with vectors

use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::embedding::static_table::tests::small;
use crate::embedding::static_table::{FILE, Table};
use crate::embedding::{Embedder, Error as Trouble, Kind, Model, Opener};

/// The same place with the small table: cats and dogs point one way, cars the other.
fn with_table(dir: &tempfile::TempDir, place: &Place) -> Place {
    let path = dir.path().join("table.bin");
    atomic::write(&path, &small(), atomic::Durability::Rename).expect("write");
    with_table_at(path, place)
}

fn with_table_at(path: PathBuf, place: &Place) -> Place {
    let opener: Opener = Arc::new(move || Ok(Some(Embedder::Table(Table::open(&path)?))));
    let place = place.clone().with(opener);
    sync(&place, Mode::default(), &mut |_| {}).expect("sync");
    place
}

/// A model that counts its texts, under a name, and fails on demand. `bike` points one way, all else the other.
struct Server {
    name: &'static str,
    asked: Arc<AtomicUsize>,
    fails: Arc<Mutex<bool>>,
}

impl Model for Server {
    fn name(&self) -> &str {
        self.name
    }

    fn embed(&mut self, _: Kind, texts: &[&str]) -> Result<Vec<Option<Vec<f32>>>, Trouble> {
        if *self.fails.lock() {
            return Err(Trouble::Failed("the server is down".into()));
        }
        self.asked.fetch_add(texts.len(), Ordering::Relaxed);
        let vector = |text: &&str| {
            if text.contains("bike") || text.contains("bicycle") {
                vec![1.0, 0.0]
            } else {
                vec![0.0, 1.0]
            }
        };
        Ok(texts.iter().map(|text| Some(vector(text))).collect())
    }
}

/// The same place with a server of that name; how many texts it was asked for, and whether it fails.
fn with_server(place: &Place, name: &'static str) -> (Place, Arc<AtomicUsize>, Arc<Mutex<bool>>) {
    let (asked, fails): (Arc<AtomicUsize>, Arc<Mutex<bool>>) = Default::default();
    let (count, down) = (asked.clone(), fails.clone());
    let opener: Opener = Arc::new(move || {
        Ok(Some(Embedder::Model(Box::new(Server {
            name,
            asked: count.clone(),
            fails: down.clone(),
        }))))
    });
    (place.clone().with(opener), asked, fails)
}

fn vectors_of(place: &Place) -> (i64, Option<String>) {
    let status = crate::memory::index::status(place).expect("status");
    (status.vectors, status.model)
}

#[test]
fn what_means_the_same_is_found_without_its_word_and_words_alone_do_without() {
    let (dir, place) = place(&[("memory/a.md", "the cat\n"), ("memory/b.md", "the car\n")]);
    assert_eq!(
        paths(&place, &Query::new("dog")),
        [""; 0],
        "no vectors, no meaning"
    );
    let place = with_table(&dir, &place);
    assert_eq!(paths(&place, &Query::new("dog")), ["memory/a.md"]);
    assert_eq!(
        paths(
            &place,
            &Query {
                strategy: Strategy::Fts,
                ..Query::new("dog")
            }
        ),
        [""; 0]
    );
    assert_eq!(
        paths(
            &place,
            &Query {
                strategy: Strategy::Vector,
                ..Query::new("dogs")
            }
        ),
        ["memory/a.md", "memory/b.md"]
    );
    let found = search(&place, &Query::new("cat")).expect("search");
    assert_eq!(found.without_vectors, None);
    let hit = &found.hits[0];
    assert!(
        hit.vector_score.is_some_and(|cosine| cosine > 0.9)
            && hit.text_score.is_some_and(|text| text > 0.3),
        "{hit:?}"
    );
    let unknown = search(&place, &Query::new("bicycle")).expect("search");
    assert_eq!(
        (unknown.hits.len(), unknown.without_vectors.as_deref()),
        (0, Some("the table knows none of these words"))
    );
}

#[test]
fn a_key_or_data_is_near_to_no_word() {
    let data = "\
        iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4kV8MA3BdcYfvNe\n\
        mxfBF3mdHA53axEkmN20dusDaddAcTsDUsXHuRCu+gaulanh3iNa/K6qkdw1s+4uRSH0wZGMhr28\n\
        EO47zh/opEKfk9cVfi85dINIc9+DfM3mCBp7vRIOsO/tAD3zwaGUNXeTYREcas43zWnJ3956W2P==\n\
        token 625af3aec3ab8265cbc83ad71b3da95b\n";
    let (_dir, place) = place(&[("memory/a.md", data), ("memory/b.md", "the garden\n")]);
    let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("share");
    let place = with_table_at(table.join(FILE), &place);
    for word in [
        "zlatorog",
        "zubrowka",
        "zugzwang",
        "kryptonite",
        "quokka",
        "8FA2c6Wd1b2C4e5f",
    ] {
        assert_eq!(paths(&place, &Query::new(word)), [""; 0], "{word}");
    }
    for key in ["625af3aec3ab8265cbc83ad71b3da95b", "opEKfk9cVfi85dINIc9"] {
        assert_eq!(paths(&place, &Query::new(key)), ["memory/a.md"], "{key}");
    }
    assert_eq!(paths(&place, &Query::new("trees")), ["memory/b.md"]);
}

#[test]
fn words_first_and_vectors_only_where_they_find_little() {
    let files = [
        ("memory/a.md", "cat\n"),
        ("memory/b.md", "cat\n"),
        ("memory/c.md", "cat\n"),
        ("memory/d.md", "dog\n"),
    ];
    let (dir, place) = place(&files);
    let place = with_table(&dir, &place);
    let first = |word: &str| {
        paths(
            &place,
            &Query {
                strategy: Strategy::FtsFirst,
                ..Query::new(word)
            },
        )
    };
    let mut found = first("cat");
    found.sort();
    assert_eq!(found, ["memory/a.md", "memory/b.md", "memory/c.md"]);
    assert_eq!(first("dog").len(), 4);
}

#[test]
fn a_vector_is_made_once_for_the_same_words_and_again_for_another_model() {
    let (_dir, place) = place(&[("memory/a.md", "my bike\n"), ("memory/b.md", "my boat\n")]);
    let (with, asked, _) = with_server(&place, "server/one/0");
    sync(&with, Mode::default(), &mut |_| {}).expect("sync");
    assert_eq!(
        (asked.load(Ordering::Relaxed), vectors_of(&with)),
        (2, (2, Some("server/one/0".into())))
    );
    assert_eq!(
        paths(&with, &Query::new("bicycle")),
        ["memory/a.md", "memory/b.md"]
    );
    sync(
        &with,
        Mode {
            without_vectors: false,
            full: true,
            dry_run: false,
        },
        &mut |_| {},
    )
    .expect("sync");
    assert_eq!(
        (asked.load(Ordering::Relaxed), vectors_of(&with).0),
        (3, 2),
        "the question, and nothing twice"
    );
    let (other, asked, _) = with_server(&place, "server/two/0");
    let found = search(&other, &Query::new("bike")).expect("search");
    assert!(
        found.without_vectors.expect("why").contains("server/one/0"),
        "vectors of two models are never compared"
    );
    assert_eq!(found.hits[0].vector_score, None);
    sync(&other, Mode::default(), &mut |_| {}).expect("sync");
    assert_eq!(
        (asked.load(Ordering::Relaxed), vectors_of(&other)),
        (2, (2, Some("server/two/0".into())))
    );
    sync(&place, Mode::default(), &mut |_| {}).expect("sync");
    assert_eq!(
        vectors_of(&place),
        (0, None),
        "the settings name none any more"
    );
}

#[test]
fn what_has_no_vector_is_found_by_its_words_and_tried_again() {
    let (_dir, place) = place(&[("memory/a.md", "my bike\n")]);
    let (with, asked, fails) = with_server(&place, "server/one/0");
    *fails.lock() = true;
    let Ok(crate::memory::index::Outcome::Done(report)) = sync(&with, Mode::default(), &mut |_| {})
    else {
        panic!("busy")
    };
    assert_eq!(report.vectors.failed.as_deref(), Some("the server is down"));
    assert_eq!(paths(&with, &Query::new("bike")), ["memory/a.md"]);
    let why = search(
        &with,
        &Query {
            strategy: Strategy::Vector,
            ..Query::new("bike")
        },
    )
    .expect_err("there are none")
    .to_string();
    assert!(
        why.starts_with("there are no vectors to search by: "),
        "{why}"
    );
    *fails.lock() = false;
    sync(&with, Mode::default(), &mut |_| {}).expect("sync");
    assert_eq!((asked.load(Ordering::Relaxed), vectors_of(&with).0), (1, 1));
}

#[test]
fn a_server_that_fails_takes_no_vector_away_that_was_made_before() {
    let (dir, place) = place(&[("memory/b.md", "my bike\n"), ("memory/c.md", "my boat\n")]);
    let (with, asked, fails) = with_server(&place, "server/one/0");
    sync(&with, Mode::default(), &mut |_| {}).expect("sync");
    *fails.lock() = true;
    atomic::write(
        &dir.path().join("workspace/memory/a.md"),
        b"my bus\n",
        atomic::Durability::Rename,
    )
    .expect("write");
    for mode in [
        Mode {
            without_vectors: false,
            full: true,
            dry_run: false,
        },
        Mode::default(),
    ] {
        let Ok(crate::memory::index::Outcome::Done(report)) = sync(&with, mode, &mut |_| {}) else {
            panic!("busy")
        };
        assert_eq!(report.vectors.failed.as_deref(), Some("the server is down"));
        let status = crate::memory::index::status(&with).expect("status");
        assert_eq!(
            (status.chunks, status.vectors, status.lacking.as_deref()),
            (3, 2, Some("the server is down"))
        );
    }
    let why = crate::memory::index::lack(&with).expect("status");
    assert_eq!(
        why.as_deref(),
        Some("1 of 3 chunks have no vector yet: the server is down")
    );
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[test]
fn a_change_is_seen_by_who_has_the_vectors_in_memory() {
    let (dir, place) = place(&[("memory/a.md", "the cat\n"), ("memory/b.md", "the car\n")]);
    let place = with_table(&dir, &place);
    let mut searcher = Searcher::new(&place);
    let mut first = |word: &str| {
        let query = Query {
            strategy: Strategy::Vector,
            ..Query::new(word)
        };
        searcher
            .search(&query)
            .expect("search")
            .hits
            .first()
            .map(|hit| hit.path.clone())
    };
    assert_eq!(first("dog").as_deref(), Some("workspace/memory/a.md"));
    std::fs::remove_file(place.home.workspace().join("memory/a.md")).expect("remove");
    let new = place.home.workspace().join("memory/c.md");
    atomic::write(&new, b"two dogs\n", atomic::Durability::Rename).expect("write");
    sync(&place, Mode::default(), &mut |_| {}).expect("sync");
    assert_eq!(first("dog").as_deref(), Some("workspace/memory/c.md"));
    sync(
        &place,
        Mode {
            without_vectors: false,
            full: true,
            dry_run: false,
        },
        &mut |_| {},
    )
    .expect("sync");
    assert_eq!(first("car").as_deref(), Some("workspace/memory/b.md"));
}

#[test]
fn a_day_limits_what_is_found() {
    let text = "The gutter was cleaned.\n";
    let files = [
        "memory/2026-03-01.md",
        "memory/2026-03-03.md",
        "memory/2026-03-02.md",
    ]
    .map(|name| (name, text));
    let (_dir, place) = place(&files);
    let day = |day| chrono::NaiveDate::from_ymd_opt(2026, 3, day);
    let days = |after, before| {
        let filter = Filter {
            days: Filter::days(after, before),
            ..Filter::default()
        };
        paths(
            &place,
            &Query {
                filter,
                ..Query::new("gutter")
            },
        )
    };
    assert_eq!(
        days(day(2), None),
        ["memory/2026-03-03.md", "memory/2026-03-02.md"]
    );
    assert_eq!(days(None, day(1)), ["memory/2026-03-01.md"]);
    assert_eq!(days(day(2), day(2)), ["memory/2026-03-02.md"]);
    assert_eq!(days(day(3), day(2)), [""; 0]);
}

// ------------------------------------------------------------------ mistakes that others made with scores

fn scores(place: &Place, query: &Query) -> Vec<(String, f32)> {
    let hits = search(place, query).expect("search").hits;
    hits.into_iter()
        .map(|hit| {
            (
                hit.path.trim_start_matches("workspace/memory/").to_owned(),
                hit.score,
            )
        })
        .collect()
}

#[test]
fn more_of_a_question_scores_higher_and_not_everything_scores_one() {
    let (_dir, place) = place(&[
        ("memory/both.md", "The heron stands by the pond.\n"),
        (
            "memory/one.md",
            "The heron flew over a long field of wheat.\n",
        ),
    ]);
    let found = scores(&place, &Query::new("heron pond"));
    assert_eq!(
        found
            .iter()
            .map(|(path, _)| path.as_str())
            .collect::<Vec<_>>(),
        ["both.md", "one.md"]
    );
    assert!(
        found[1].1 + 0.1 < found[0].1 && found[0].1 < 1.0,
        "{found:?}"
    );
}

#[test]
fn a_needle_is_found_beside_what_only_resembles_the_question() {
    let (_dir, place) = place(&[
        ("memory/needle.md", "zeppelin 4711\n"),
        ("memory/near.md", "my bike\n"),
    ]);
    let (place, ..) = with_server(&place, "server/one/0");
    sync(&place, Mode::default(), &mut |_| {}).expect("sync");
    // The question points the way of the bike: the needle has nothing but its words.
    let found = scores(
        &place,
        &Query {
            min_score: 0.35,
            ..Query::new("zeppelin 4711 bicycle")
        },
    );
    assert!(
        found.iter().any(|(path, _)| path == "needle.md"),
        "{found:?}"
    );
}

#[test]
fn the_word_itself_comes_before_one_that_means_the_same() {
    let (dir, place) = place(&[("memory/near.md", "dog\n"), ("memory/itself.md", "cat\n")]);
    let place = with_table(&dir, &place);
    let found = scores(&place, &Query::new("cat"));
    assert_eq!(
        found
            .iter()
            .map(|(path, _)| path.as_str())
            .collect::<Vec<_>>(),
        ["itself.md", "near.md"]
    );
    assert!(found[1].1 < found[0].1, "{found:?}");
}

#[test]
fn the_best_of_little_is_little_and_a_score_does_not_depend_on_the_others() {
    let little = ("memory/little.md", "A heron was seen.\n");
    let question = Query::new("heron zeppelin violin lighthouse xylophone");
    let (_dir, alone) = place(&[little]);
    let alone = scores(&alone, &question);
    assert!(alone[0].1 < 0.4, "{alone:?}");
    let (_dir, beside) = place(&[
        little,
        (
            "memory/much.md",
            "The violin, the xylophone, a zeppelin and the lighthouse.\n",
        ),
    ]);
    let beside = scores(&beside, &question);
    assert_eq!((beside.len(), beside[1].0.as_str()), (2, "little.md"));
    assert!(
        (beside[1].1 - alone[0].1).abs() < 0.05,
        "{alone:?} {beside:?}"
    );
}

//! Facts as they follow from what is stated where.

use rusqlite::Connection;

use super::store::{Applied, Part, Statement, restate};
use super::*;
use crate::memory::scope::Scope;

/// A fact: number, value, since, until, what took its place.
type Row = (i64, String, i64, Option<i64>, Option<i64>);

/// A database, and what is stated in it at which time.
struct Facts {
    dir: tempfile::TempDir,
    connection: Connection,
}

impl Facts {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let connection = open(&dir.path().join("memory.db")).expect("open");
        Self { dir, connection }
    }

    /// States `lines` of `file` at `now`: line, attribute, value.
    fn state(&self, file: &str, now: i64, lines: &[(i64, &str, &str)]) -> Applied {
        let statements: Vec<Statement> = lines
            .iter()
            .map(|(line, what, value)| statement(file, *line, what, value, now))
            .collect();
        let transaction = self.connection.unchecked_transaction().expect("begin");
        let applied =
            restate(&transaction, "r", Part::File(file), &statements, now).expect("restate");
        transaction.commit().expect("commit");
        applied
    }

    fn all(&self) -> Vec<Fact> {
        let mut all = list(
            &self.dir.path().join("memory.db"),
            &Filter {
                all: true,
                ..Filter::default()
            },
        )
        .expect("list");
        all.sort_by_key(|fact| fact.id);
        all
    }

    fn shown(&self) -> Vec<Row> {
        self.all()
            .into_iter()
            .map(|fact| {
                (
                    fact.id,
                    fact.value,
                    fact.valid_from,
                    fact.valid_to,
                    fact.superseded_by,
                )
            })
            .collect()
    }

    fn why(&self, id: i64) -> Vec<(String, i64, i64)> {
        let (_, origins) = why(&self.dir.path().join("memory.db"), id)
            .expect("why")
            .expect("it is there");
        origins
            .into_iter()
            .map(|origin| (origin.path, origin.line, origin.at))
            .collect()
    }
}

fn statement(path: &str, line: i64, attribute: &str, value: &str, at: i64) -> Statement {
    Statement {
        scope: Scope::Owner,
        entity: "user".to_owned(),
        said_of: None,
        attribute: attribute.to_owned(),
        value: value.to_owned(),
        ended: false,
        confidence: 0.8,
        path: path.to_owned(),
        line,
        session: None,
        quote: format!("{attribute}: {value}"),
        at,
    }
}

fn row(id: i64, value: &str, from: i64, to: Option<i64>, next: Option<i64>) -> Row {
    (id, value.to_owned(), from, to, next)
}

fn place(path: &str, line: i64, at: i64) -> (String, i64, i64) {
    (path.to_owned(), line, at)
}

#[test]
fn the_same_value_touches_and_another_supersedes() {
    let facts = Facts::new();
    assert!(matches!(
        facts
            .state("a", 10, &[(1, "home", "Berlin")])
            .changes
            .as_slice(),
        [Change::New(_)]
    ));
    let applied = facts.state("b", 20, &[(5, "Home", " berlin. ")]);
    assert_eq!((applied.changes.as_slice(), applied.touched), (&[][..], 1));
    assert_eq!(facts.why(1), [place("b", 5, 20), place("a", 1, 10)]);
    assert_eq!(
        (facts.all()[0].created_at, facts.all()[0].updated_at),
        (10, 20)
    );
    let applied = facts.state("c", 30, &[(2, "home", "Rome")]);
    assert!(
        matches!(applied.changes.as_slice(), [Change::Superseded { old, new }] if (old.id, new.id) == (1, 2))
    );
    assert_eq!(
        facts.shown(),
        [
            row(1, "berlin.", 10, Some(30), Some(2)),
            row(2, "Rome", 30, None, None)
        ]
    );
    assert_eq!(facts.all()[0].invalidated_at, Some(30));
}

#[test]
fn what_is_said_to_be_over_ends_its_fact_until_that_is_withdrawn() {
    let facts = Facts::new();
    facts.state("a", 10, &[(1, "employer", "Siemens")]);
    let over = |run: &str, value: &str, now: i64| {
        let one = Statement {
            ended: true,
            ..statement("b", 1, "employer", value, now)
        };
        restate(&facts.connection, run, Part::File("b"), &[one], now).expect("restate")
    };
    assert_eq!(
        over("1", "Bosch", 20),
        Applied::default(),
        "nobody worked there"
    );
    let applied = over("2", "siemens", 30);
    assert!(
        matches!(applied.changes.as_slice(), [Change::Gone(fact)] if fact.id == 1),
        "{applied:?}"
    );
    assert_eq!(facts.shown(), [row(1, "Siemens", 10, Some(30), None)]);
    assert_eq!(
        (facts.all()[0].source.as_str(), facts.why(1)),
        ("a", vec![place("b", 1, 30), place("a", 1, 10)])
    );
    assert_eq!(over("3", "siemens", 40), Applied::default(), "it is known");
    facts.state("b", 50, &[]);
    assert_eq!(facts.shown(), [row(1, "Siemens", 10, None, None)]);
    over("4", "siemens", 60);
    facts.state("c", 70, &[(1, "employer", "Siemens")]);
    assert_eq!(
        facts.shown(),
        [
            row(1, "Siemens", 10, Some(60), Some(2)),
            row(2, "Siemens", 70, None, None)
        ]
    );
    super::run_log::undo(&facts.connection, "4", 80)
        .expect("undo")
        .expect("a run");
    assert_eq!(
        facts.shown().iter().filter(|row| row.3.is_none()).count(),
        1
    );
    // In one line the last word counts.
    let said = |ended: bool| Statement {
        ended,
        ..statement("d", 1, "pet", "Rex", 90)
    };
    restate(
        &facts.connection,
        "5",
        Part::File("d"),
        &[said(false), said(true)],
        90,
    )
    .expect("restate");
    assert!(
        !facts
            .all()
            .iter()
            .any(|fact| fact.value == "Rex" && fact.is_current())
    );
}

#[test]
fn a_deleted_line_takes_its_fact_with_it_and_what_stood_before_holds_again() {
    let facts = Facts::new();
    facts.state("a", 10, &[(1, "home", "Berlin")]);
    facts.state("b", 20, &[(1, "home", "Rome"), (2, "pet", "Rex")]);
    let applied = facts.state("b", 40, &[(1, "pet", "Rex")]);
    assert!(
        matches!(applied.changes.as_slice(), [Change::Superseded { old, new }] if (old.id, new.id) == (2, 1))
    );
    let expected = [
        row(1, "Berlin", 10, None, None),
        row(2, "Rome", 20, Some(40), None),
        row(3, "Rex", 20, None, None),
    ];
    assert_eq!(facts.shown(), expected);
    assert_eq!(
        facts.why(3),
        [place("b", 1, 20)],
        "the line moved, and was known since 20"
    );
    let applied = facts.state("a", 50, &[]);
    assert!(matches!(applied.changes.as_slice(), [Change::Gone(fact)] if fact.id == 1));
    assert_eq!(facts.shown()[0], row(1, "Berlin", 10, Some(50), None));
}

#[test]
fn a_corrected_line_supersedes_what_it_said() {
    let facts = Facts::new();
    facts.state("a", 10, &[(1, "home", "Berlni")]);
    facts.state("a", 20, &[(1, "home", "Berlin")]);
    assert_eq!(
        facts.shown(),
        [
            row(1, "Berlni", 10, Some(20), Some(2)),
            row(2, "Berlin", 20, None, None)
        ]
    );
    // A note of a day keeps its day.
    facts.state("a", 20, &[(1, "home", "Bonn")]);
    assert_eq!(
        facts.shown()[1..],
        [
            row(2, "Berlin", 20, Some(20), Some(3)),
            row(3, "Bonn", 20, None, None)
        ]
    );
    facts.state("a", 30, &[(1, "home", "bonn")]);
    assert_eq!(
        facts.shown()[2],
        row(3, "bonn", 20, None, None),
        "another spelling of the same"
    );
}

#[test]
fn the_same_again_changes_nothing_at_all() {
    let facts = Facts::new();
    let lines = [
        (1, "home", "Berlin"),
        (2, "home", "Rome"),
        (3, "home", "Berlin"),
        (3, "home", "Berlin"),
    ];
    facts.state("a", 10, &lines);
    facts.state("b", 5, &[(1, "home", "Oslo")]);
    let before = facts.all();
    assert_eq!(before.iter().filter(|fact| fact.is_current()).count(), 1);
    assert_eq!(facts.state("a", 99, &lines), Applied::default());
    assert_eq!(
        facts.state("b", 99, &[(1, "home", "Oslo")]),
        Applied::default()
    );
    assert_eq!(facts.all(), before);
}

#[test]
fn unsure_empty_and_endless_statements_are_dropped() {
    let facts = Facts::new();
    let check = |confidence: f64, value: &str, kept: usize| {
        let one = Statement {
            confidence,
            ..statement("a", 1, "home", value, 10)
        };
        restate(&facts.connection, "r", Part::File("a"), &[one], 10).expect("restate");
        let current = list(&facts.dir.path().join("memory.db"), &Filter::default()).expect("list");
        assert_eq!(current.len(), kept, "{confidence} {value:?}");
    };
    check(0.6, "Berlin", 1);
    check(0.59, "Berlin", 0);
    check(f64::NAN, "Berlin", 0);
    check(9.0, "Berlin", 1);
    check(0.9, " ", 0);
    check(0.9, &"x".repeat(601), 0);
}

#[test]
fn a_fact_is_as_sure_as_its_best_source() {
    let facts = Facts::new();
    let state = |file: &str, confidence: f64| {
        let one = Statement {
            confidence,
            ..statement(file, 1, "home", "Berlin", 10)
        };
        restate(&facts.connection, "r", Part::File(file), &[one], 10).expect("restate");
        facts.all()[0].confidence
    };
    assert_eq!(
        [state("a", 0.7), state("b", 0.9), state("c", 0.6)],
        [0.7, 0.9, 0.9]
    );
    facts.state("b", 20, &[]);
    assert_eq!(facts.all()[0].confidence, 0.7);
}

#[test]
fn a_search_wants_all_its_words_and_keeps_to_its_scopes() {
    let facts = Facts::new();
    facts.state("a", 10, &[(1, "home", "New York"), (2, "dog", "Rex")]);
    let found = |query: &str, scopes: Option<Vec<Scope>>| {
        let filter = Filter {
            query: Some(query.to_owned()),
            all: false,
            scopes,
        };
        list(&facts.dir.path().join("memory.db"), &filter)
            .expect("list")
            .len()
    };
    assert_eq!(
        [
            found("YORK home", None),
            found("york dog", None),
            found("", None)
        ],
        [1, 0, 2]
    );
    assert_eq!(
        [
            found("", Some(vec![Scope::Shared])),
            found("", Some(vec![Scope::Owner]))
        ],
        [0, 2]
    );
}

#[test]
fn a_reader_sees_what_changed_and_reads_nothing_otherwise() {
    let facts = Facts::new();
    let path = facts.dir.path().join("memory.db");
    let mut nothing = Reader::new(facts.dir.path().join("none.db"));
    assert!(nothing.changed().expect("read").is_none());
    let mut reader = Reader::new(&path);
    let mut values = || -> Option<Vec<String>> {
        let stated = reader.changed().expect("read")?;
        Some(stated.facts.into_iter().map(|fact| fact.value).collect())
    };
    let these = |value: &str| Some(vec![value.to_owned()]);
    assert_eq!(values(), Some(Vec::new()));
    facts.state("a", 10, &[(1, "home", "Berlin")]);
    assert_eq!(values(), these("Berlin"));
    facts.state("a", 20, &[(1, "home", "Rome")]);
    assert_eq!((values(), values()), (these("Rome"), None));
    drop(facts.connection);
    std::fs::remove_file(&path).expect("it is there");
    assert_eq!((values(), values()), (Some(Vec::new()), None));
    for end in ["memory.db-wal", "memory.db-shm"] {
        // The last to close takes them away, or the reader still has them.
        let _ = std::fs::remove_file(facts.dir.path().join(end));
    }
    let other = Facts::new();
    other.state("a", 10, &[(1, "home", "Oslo")]);
    drop(other.connection);
    std::fs::rename(other.dir.path().join("memory.db"), &path).expect("rename");
    assert_eq!(values(), these("Oslo"));
}

#[test]
fn a_transcript_that_was_archived_is_found_where_it_is() {
    let facts = Facts::new();
    let name = "s1.2026-05-04.jsonl";
    facts.state(
        &format!("state/sessions/{name}"),
        10,
        &[(3, "home", "Berlin")],
    );
    let place = || facts.why(1)[0].0.clone();
    assert_eq!(place(), format!("state/sessions/{name}"));
    let archive = facts.dir.path().join("sessions/archive");
    std::fs::create_dir_all(&archive).expect("dir");
    crate::sys::atomic::write(
        &archive.join(name),
        b"",
        crate::sys::atomic::Durability::Rename,
    )
    .expect("write");
    assert_eq!(
        (place(), facts.all()[0].source.clone()),
        (format!("state/sessions/archive/{name}"), place())
    );
}

#[test]
fn facts_are_filed_under_the_name_that_counts_and_aliases_go_in_no_circle() {
    let facts = Facts::new();
    let state = |file: &str, all: &[(&str, &str, &str)]| {
        let one = |(entity, attribute, value): &(&str, &str, &str)| Statement {
            entity: (*entity).to_owned(),
            ..statement(file, 1, attribute, value, 10)
        };
        let all: Vec<Statement> = all.iter().map(one).collect();
        restate(&facts.connection, "r", Part::File(file), &all, 10).expect("restate");
        let mut current: Vec<String> = facts
            .all()
            .into_iter()
            .filter(Fact::is_current)
            .map(|fact| format!("{} {} {}", fact.entity, fact.attribute, fact.value))
            .collect();
        current.sort();
        current
    };
    // The alias comes first, wherever it is.
    let expected = ["Robert alias Bob", "Robert lives in Rome"];
    assert_eq!(
        state(
            "a",
            &[("Bob", "lives in", "Rome"), ("Robert", "alias", "Bob")]
        ),
        expected
    );
    for (name, alias) in [
        ("Bob", "Robert"),
        ("Robert", "robert"),
        ("Ana", "Bob"),
        ("Bob", "Bob"),
        ("Ana", "user"),
        ("Ana", "Robert"),
    ] {
        assert_eq!(
            state("b", &[(name, "alias", alias)]),
            expected,
            "{name} {alias}"
        );
    }
    assert_eq!(
        state("b", &[("bob", "alias", "Bobby"), ("Bobby", "likes", "tea")])[1..],
        [
            "Robert alias Bobby",
            "Robert likes tea",
            "Robert lives in Rome"
        ]
    );
    state("b", &[("Ana", "likes", "tea")]);
    assert_eq!(
        state("c", &[("Rita", "alias", "Ana")]).len(),
        3,
        "Ana is somebody already"
    );
}

#[test]
fn what_was_said_of_an_alias_is_its_own_again_when_the_alias_is_taken_back() {
    let facts = Facts::new();
    let connection = &facts.connection;
    let state = |run: &str, file: &str, all: &[(&str, &str, &str)]| {
        let one = |(line, (entity, attribute, value)): (i64, &(&str, &str, &str))| Statement {
            entity: (*entity).to_owned(),
            ..statement(file, line, attribute, value, 10)
        };
        let all: Vec<Statement> = (1..).zip(all).map(one).collect();
        restate(connection, run, Part::File(file), &all, 20).expect("restate");
    };
    let current = || {
        let all = facts.all().into_iter().filter(Fact::is_current);
        let words = |fact: Fact| format!("{} {} {}", fact.entity, fact.attribute, fact.value);
        let mut all: Vec<String> = all.map(words).collect();
        all.sort();
        all
    };
    let name = [("Robert", "alias", "Bob")];
    state("r1", "names", &name);
    let said = [("Bob", "lives in", "Rome"), ("Robert", "likes", "tea")];
    state("r2", "notes", &said);
    let more = [("Bob", "alias", "Bobby"), ("Bobby", "likes", "jazz")];
    state("r3", "more", &more);
    let roberts = [
        "Robert alias Bob",
        "Robert alias Bobby",
        "Robert likes jazz",
        "Robert likes tea",
        "Robert lives in Rome",
    ];
    assert_eq!(current(), roberts);

    let apart = [
        "Bob alias Bobby",
        "Bob likes jazz",
        "Bob lives in Rome",
        "Robert likes tea",
    ];
    state("r4", "names", &[]);
    assert_eq!(current(), apart);
    // The alias comes back: with an undo, and when it is in another file.
    run_log::undo(connection, "r4", 30).expect("undo");
    assert_eq!(current(), roberts);
    state("r5", "names", &[]);
    state("r5", "others", &name);
    assert_eq!(current(), roberts);
    let alias = facts.all().into_iter().filter(Fact::is_current);
    let alias = alias
        .into_iter()
        .find(|fact| fact.value == "Bob")
        .expect("it is there");
    let forget = |fact: Fact| {
        let target = forgotten::Target::Fact(Box::new(fact));
        let path = facts.dir.path().join("memory.db");
        forgotten::forget(connection, &path, &target, 40).expect("forget");
    };
    forget(alias);
    assert_eq!(current(), apart);
    // A run that filed it under the other name is undone nevertheless.
    run_log::undo(connection, "r2", 50).expect("undo");
    assert_eq!(current(), ["Bob alias Bobby", "Bob likes jazz"]);
    // Who is somebody by now is nobody's alias.
    state("r6", "notes", &said);
    state("r6", "names", &[("Ana", "alias", "Bob")]);
    assert_eq!(current(), apart);
}

#[test]
fn nobody_likes_and_dislikes_the_same() {
    let facts = Facts::new();
    let state = |file: &str, now: i64, lines: &[(i64, &str, &str)]| -> Vec<String> {
        facts.state(file, now, lines);
        let current = facts.all().into_iter().filter(Fact::is_current);
        let mut current: Vec<String> = current
            .map(|fact| format!("{} {}", fact.attribute, fact.value))
            .collect();
        current.sort();
        current
    };
    assert_eq!(
        state("a", 10, &[(1, "likes", "sushi"), (2, "dislikes", "rock")]),
        ["dislikes rock", "likes sushi"]
    );
    let now = ["Dislikes Sushi", "dislikes rock", "likes tea"];
    assert_eq!(
        state("b", 20, &[(1, "Dislikes", "Sushi"), (2, "likes", "tea")]),
        now
    );
    let sushi = facts
        .all()
        .into_iter()
        .find(|fact| fact.value == "sushi")
        .expect("it is history");
    assert_eq!((sushi.valid_from, sushi.valid_to), (10, Some(20)));
    assert_eq!(
        state("c", 15, &[(1, "likes", "sushi")]),
        now,
        "what was said before is no news"
    );
    assert_eq!(
        state("d", 30, &[(1, "likes", "jam"), (2, "dislikes", "jam")])[1..3],
        ["dislikes jam", "dislikes rock"]
    );
    // What is withdrawn no longer speaks against it.
    assert_eq!(
        state("b", 40, &[]),
        ["dislikes jam", "dislikes rock", "likes sushi"]
    );
}

#[test]
fn a_fact_is_found_by_how_its_words_begin() {
    let facts = Facts::new();
    facts.state("a", 10, &[(1, "friend", "Oscar"), (2, "home", "Rome")]);
    let found = |words: &str| {
        let found = find(&facts.dir.path().join("memory.db"), words, None).expect("find");
        match found {
            Meant::One(fact) => fact.value,
            other => format!("{other:?}"),
        }
    };
    assert_eq!(found("osc friends"), "Nothing");
    assert_eq!(["osc frie", "rome"].map(found), ["Oscar", "Rome"]);
    assert_eq!(found("car"), "Nothing");
}

#[test]
fn only_what_is_stored_is_noted_under_the_name_of_its_run() {
    let facts = Facts::new();
    let one = Statement {
        ended: true,
        ..statement("a", 1, "employer", "Bosch", 10)
    };
    restate(&facts.connection, "r", Part::File("a"), &[one], 10).expect("restate");
    let undone = undo(&facts.connection, "r", 20).expect("undo");
    assert_eq!(undone, None, "nobody worked there: the line ends nothing");
    facts.state("b", 30, &[(1, "home", "Berlin")]);
    assert!(
        undo(&facts.connection, "r", 40)
            .expect("undo")
            .is_some_and(|undone| undone.changes.len() == 1)
    );
}

#[test]
fn a_database_of_an_older_version_is_read_with_the_tables_of_today() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("memory.db");
    let old = db::open(&path, &schema::MIGRATIONS[..1]).expect("open");
    old.execute_batch(
        "INSERT INTO facts VALUES (1, 'owner', 'user', 'home', 'Rome', 'user', 'home', 'rome', 1, 'a', 1, 5, NULL, NULL, 5, 5, NULL)",
    )
    .expect("a fact");
    let mut reader = Reader::new(&path);
    let stated = reader.changed().expect("read").expect("there is something");
    assert_eq!(
        (stated.facts.len(), stated.commitments.len()),
        (1, 0),
        "a reader makes no tables"
    );
    let version: i64 = old
        .query_row("PRAGMA user_version", [], |row| row.get(0))
        .expect("a version");
    assert_eq!(version, 1);
    drop(open(&path).expect("whoever writes does"));
    assert_eq!(episodes::list(&path).expect("read"), []);
}

//! For `scripts/bench recall`: the time of recall with many facts, and the size of its result.

use std::time::{Duration, Instant};

use super::tests::{BUDGET, DAY_MS, now, owner};
use super::*;
use crate::config::{Environment, Home};
use crate::memory::facts::commitments;
use crate::memory::facts::commitments::Promise;
use crate::memory::facts::episodes;
use crate::memory::facts::episodes::NewEpisode;
use crate::memory::facts::store;
use crate::memory::facts::store::{Part, Statement};
use crate::memory::{Memory, Scope, embedder, facts};

const FACTS: i64 = 10_000;
const PROMISES: i64 = 200;
const EPISODES: i64 = 2_000;
const ATTRIBUTES: [&str; 10] = [
    "lives in",
    "works at",
    "likes",
    "owns",
    "plays",
    "studies",
    "brother",
    "birthday",
    "allergic to",
    "drives",
];
/// So few that each is in hundreds of facts.
const VALUES: &str = "garden harbour kitchen school hospital office tea bread cheese lemon violin chess football piano train bicycle \
                      boat castle mountain river forest island bridge market library museum theatre concert dinner breakfast";

/// A name that nobody else has.
fn name(number: i64) -> String {
    let part = |number: i64| {
        "ba ki lo me nu ra so te vi wa"
            .split(' ')
            .nth(usize::try_from(number % 10).unwrap_or(0))
            .unwrap_or_default()
    };
    format!(
        "Z{}{}{}n",
        part(number / 100),
        part(number / 10),
        part(number)
    )
}

fn value(number: i64) -> String {
    let words: Vec<&str> = VALUES.split_whitespace().collect();
    let word = |number: i64| words[usize::try_from(number).unwrap_or(0) % words.len()];
    format!("the {} by the {}", word(number * 7), word(number * 11 + 3))
}

/// Fills the database: ten facts each about a thousand people, promises and episodes.
fn fill(home: &Home) {
    let connection = facts::open(&facts::database(home)).expect("open");
    let all = connection.unchecked_transaction().expect("begin");
    for person in 0..FACTS / 10 {
        let path = format!("workspace/memory/people-{person}.md");
        let statement = |line: i64| Statement {
            scope: Scope::Owner,
            entity: name(person),
            said_of: None,
            attribute: ATTRIBUTES[usize::try_from(line).unwrap_or(0)].into(),
            value: value(person * 10 + line),
            confidence: 1.0,
            path: path.clone(),
            line,
            session: None,
            quote: "x".into(),
            ended: false,
            at: now() - person * DAY_MS,
        };
        let statements: Vec<Statement> = (0..10).map(statement).collect();
        store::restate(
            &all,
            "r",
            Part::File(&path),
            &statements,
            now() - person * DAY_MS,
        )
        .expect("facts");
    }
    for number in 0..PROMISES {
        let promise = Promise {
            scope: Scope::Owner,
            who: "user".into(),
            what: format!("bring {} to {}", name(number), value(number)),
            deadline: (number % 2 == 0).then(|| "2027-01-01".into()),
            path: "state/sessions/a.jsonl".into(),
            line: number,
            session: Some(("a".into(), number)),
            quote: "x".into(),
            at: now(),
        };
        let part = Part::Span {
            session: "a",
            from: number,
            to: number,
        };
        commitments::restate(&all, "r", part, &[promise], None, now()).expect("a promise");
    }
    for number in 0..EPISODES {
        let summary = format!(
            "The user met {} at {}, and they spoke of {}.",
            name(number),
            value(number),
            value(number + 5)
        );
        let told = NewEpisode {
            date: "2026-05-04".into(),
            summary,
            path: "x".into(),
            ..NewEpisode::default()
        };
        let part = Part::Span {
            session: "a",
            from: number,
            to: number,
        };
        episodes::restate(&all, "r", &Scope::Owner, part, Some(&told), now()).expect("an episode");
    }
    all.commit().expect("commit");
}

/// `AGENT_BENCH_HOME` is a home that may have an index, and questions for it in `questions.txt`; otherwise there are
/// no passages.
#[test]
#[ignore = "scripts/bench recall runs it, in a release build"]
fn figures() {
    let dir = tempfile::tempdir().expect("dir");
    let home =
        std::env::var_os("AGENT_BENCH_HOME").map_or_else(|| dir.path().to_owned(), Into::into);
    let questions = std::fs::read_to_string(home.join("questions.txt")).unwrap_or_default();
    let home = Home::at(&home);
    home.create().expect("made");
    fill(&home);
    let memory = Memory::new(&home).with(embedder::opener(&home, &Environment::of(&[]), None));
    let of_people = (0..200).map(|number| {
        format!(
            "Where does {} live, and who has been to {}?",
            name(number * 37),
            value(number)
        )
    });
    let questions: Vec<String> = questions
        .lines()
        .map(str::to_owned)
        .chain(of_people)
        .collect();
    let mut times: Vec<Duration> = Vec::new();
    let mut tokens = Vec::new();
    for (number, words) in questions.iter().enumerate() {
        let asked = Request {
            strategy: Strategy::Hybrid,
            share: None,
            settings: &config::Recall::default(),
            words,
            first: number % 10 == 0,
            session: "this",
            now: now(),
            zone: chrono_tz::UTC,
        };
        let began = Instant::now();
        let piece = memory.recall(&owner(), &asked, &[]);
        times.push(began.elapsed());
        tokens.extend(piece.map(|piece| text::estimate_tokens(&piece.text())));
    }
    // The first one reads everything.
    let first = times.remove(0);
    times.sort();
    tokens.sort_unstable();
    assert!(tokens.last().is_some_and(|most| *most <= BUDGET) && tokens.len() > 100);
    let at = |percent: usize| times[(times.len() - 1) * percent / 100].as_secs_f64();
    println!(
        "{}",
        serde_json::json!({
            "facts": FACTS, "commitments": PROMISES, "episodes": EPISODES, "questions": questions.len(),
            "first": first.as_secs_f64(), "median": at(50), "p95": at(95), "most": at(100),
            "tokens": tokens[tokens.len() / 2], "most_tokens": tokens.last(),
        })
    );
}

//! Work on bytes from outside takes linear time: in every room that reads messages, pages, files, answers of models or lines
//! of programs, and in every parser of `parsers`.
//!
//! Measured by time, at a length at which quadratic work is noticeable, and by instructions, which do not depend on load.

mod instructions;
mod linear_time;

use crate::channel::telegram;
use crate::parsers::{Check, PARSERS};
use crate::{control, jobs, language, media, memory, message, net, secret, text, trust};
use instructions::{Case, measure, not_linear};
use linear_time::{check, check_pieces};

type Work = (&'static str, fn(&str));

const TEXTS: [Work; 17] = [
    ("visible", |text| drop(text::visible(text))),
    ("hidden characters", |text| {
        drop(text::hidden_chars::find(text, 20))
    }),
    ("without hidden characters", |text| {
        drop(text::hidden_chars::without(text))
    }),
    ("shorten", |text| drop(text::shorten(text, 300))),
    ("head and tail", |text| {
        drop(text::head_and_tail(text, 20_000, 70))
    }),
    ("file name", |text| drop(text::file_name(text, "._-"))),
    ("a command", |text| drop(text::argv::plain(text))),
    ("differences", |text| {
        drop(text::line_diff(text, &format!("{text}x")))
    }),
    ("fence", |text| {
        drop(trust::fence::around("0a1b", "a page", text))
    }),
    ("redact", |text| drop(secret::redact(text))),
    ("withhold", |text| drop(secret::withhold(text))),
    ("text of a file", |text| {
        drop(media::text(text.as_bytes(), true))
    }),
    ("kind of a file", |text| {
        std::hint::black_box(media::sniff(text.as_bytes()));
    }),
    ("words of a server", |text| drop(net::server_text(text))),
    ("squeeze", |text| drop(text::squeeze(text))),
    ("an answer in Telegram", telegram::tests::rendered),
    ("plain words in Telegram", telegram::tests::shown_plain),
];

const DATA: [Work; 10] = [
    ("depth of JSON", |text| drop(text::json::pruned(text))),
    ("JSON", |text| {
        drop(text::json::parse::<serde_json::Value>(text.as_bytes()))
    }),
    ("a control line", |text| {
        drop(control::decode(text.as_bytes()))
    }),
    ("a message in a control line", |text| {
        let line = serde_json::json!({"v": 1, "cmd": "user", "text": text}).to_string();
        drop(control::decode(line.as_bytes()));
    }),
    ("a time", |text| drop(jobs::parse_every(text))),
    ("a date", |text| drop(jobs::parse_at(text, chrono_tz::UTC))),
    ("a line of cron", |text| drop(jobs::Crontab::parse(text))),
    ("items of a heartbeat", |text| {
        std::hint::black_box(jobs::heartbeat_gate::has_item(text));
    }),
    ("an item of the memory", |text| {
        drop(memory::items::parse("a", text))
    }),
    ("front matter", |text| {
        let file = format!("---\n{text}\n---\n{text}");
        drop(memory::items::parse("a", &file));
    }),
];

const WORDS: [Work; 2] = [
    ("another language", |text| {
        std::hint::black_box(language::detect::foreign(text));
    }),
    ("words", |text| {
        language::tokenize::each_word(text, |word| {
            std::hint::black_box(word);
        });
    }),
];

const FACTS: [Work; 1] = [("facts", |text| drop(memory::extract::speech(text)))];

const COMMITMENTS: [Work; 1] = [("commitments", |text| {
    drop(memory::extract::commitments(text, 0, chrono_tz::UTC));
})];

const NOTES: [Work; 3] = [
    ("facts of the agent", |text| {
        drop(memory::extract::own(text))
    }),
    ("facts of a note", |text| drop(memory::extract::notes(text))),
    ("what is kept of words", |text| {
        drop(memory::extract::kept(text))
    }),
];

const PLANS: [Work; 3] = [
    ("a plan", |text| drop(message::plan::read(text))),
    ("a plan in JSON", |text| {
        let plan = format!("[{{\"kind\":\"send\",\"text\":\"{text}");
        drop(message::plan::read(&plan));
    }),
    ("the words of a plan", |text| {
        drop(message::plan::words(&[text, text]))
    }),
];
/// What could begin a task.
const BEGINNINGS: [&str; 8] = [
    "[{",
    "{\"",
    "[{\"kind\":",
    "# send\n",
    "```\n",
    "{\"kind\":\"send\",\"text\":\"",
    "⟦",
    "\"kind\":",
];

fn check_all(works: &[Work]) {
    for (name, work) in works {
        check(name, work);
    }
}

#[test]
fn texts_that_anybody_wrote() {
    check_all(&TEXTS);
}

#[test]
fn data_that_anybody_sent() {
    check_all(&DATA);
}

#[test]
fn words_and_their_language() {
    check_all(&WORDS);
}

#[test]
fn facts_drawn_from_a_message() {
    check_all(&FACTS);
}

#[test]
fn commitments_drawn_from_a_message() {
    check_all(&COMMITMENTS);
}

#[test]
fn what_is_drawn_from_answers_and_notes() {
    check_all(&NOTES);
}

#[test]
fn plans_of_a_model() {
    check_all(&PLANS);
    for (name, work) in PLANS {
        check_pieces(name, &BEGINNINGS, work);
    }
}

/// Characters of the shorter text that instructions are counted for: below valgrind everything takes fifty times as long.
const LENGTH: usize = 800;

/// What texts are made of that instructions are counted for: one of each kind that `check` has.
const COUNTED: [&str; 12] = [
    "a",
    "\n",
    "e\u{301}",
    "\u{202e}",
    "[",
    "*",
    "<b>",
    "⟦",
    "{\"a\":",
    "- x\n",
    "4111 1111 ",
    "call Ana by Friday; ",
];
/// Where a seed is made longer: these in the place of its longest word, besides the seed, repeated.
const FILLINGS: [&str; 3] = ["a ", "[", "\u{202e}"];

fn texts() -> Vec<Case> {
    let works: [&[Work]; 7] = [&TEXTS, &DATA, &WORDS, &FACTS, &COMMITMENTS, &NOTES, &PLANS];
    let works = works.into_iter().flatten();
    let texts = works.flat_map(|(name, work)| {
        COUNTED.into_iter().map(move |piece| Case {
            name: format!("{name} of {piece:?}"),
            work: Box::new(*work),
            text: Box::new(|length| piece.repeat(length.div_ceil(piece.chars().count()))),
        })
    });
    texts.collect()
}

fn parsers() -> Vec<Case> {
    // What is done with a time takes far longer than to read it: [`DATA`] has its parts.
    let parsers = PARSERS.into_iter().filter(|(name, _)| *name != "times");
    parsers.flat_map(of_parser).collect()
}

/// Returns the cases of a parser: each seed repeated, and each made longer in its longest word.
fn of_parser((name, parse): (&'static str, Check)) -> Vec<Case> {
    let seeds = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
    let files = std::fs::read_dir(seeds.join(name)).expect("each has seeds");
    let mut files: Vec<_> = files.flatten().map(|file| file.path()).collect();
    files.sort();
    let mut cases = Vec::new();
    for file in files {
        let seed = std::fs::read(&file).expect("a seed");
        let seed = String::from_utf8_lossy(&seed).into_owned();
        let of = format!("{name} of {}", file.display());
        let mut case = |how: String, text: Box<dyn Fn(usize) -> String>| {
            cases.push(Case {
                name: format!("{of}, {how}"),
                work: Box::new(move |text| parse(text.as_bytes())),
                text,
            });
        };
        let again = seed.clone();
        case(
            "again and again".to_owned(),
            Box::new(move |length| again.repeat(length.div_ceil(again.chars().count().max(1)))),
        );
        let word = seed
            .split(|c: char| !c.is_alphanumeric())
            .max_by_key(|word| word.len())
            .unwrap_or_default();
        let (before, after) = seed.split_once(word).unwrap_or_default();
        for filling in FILLINGS {
            let (before, after) = (before.to_owned(), after.to_owned());
            case(
                format!("with {filling:?}"),
                Box::new(move |length| {
                    let filled = filling.repeat(length.div_ceil(filling.chars().count()));
                    format!("{before}{filled}{after}")
                }),
            );
        }
    }
    cases
}

#[test]
#[ignore = "run below valgrind"]
fn each_text_at_two_lengths() {
    measure(&texts(), LENGTH);
}

#[test]
#[ignore = "run below valgrind"]
fn each_seed_at_two_lengths() {
    measure(&parsers(), LENGTH);
}

fn check_instructions(test: &str, cases: &[Case]) {
    match not_linear(&format!("app::linear_tests::{test}"), cases) {
        None => println!("skipped: valgrind is not installed"),
        Some(found) => assert_eq!(found, [] as [String; 0]),
    }
}

#[test]
fn twice_the_text_takes_less_than_two_and_a_half_times_the_instructions() {
    check_instructions("each_text_at_two_lengths", &texts());
}

#[test]
fn twice_the_input_of_a_parser_takes_less_than_two_and_a_half_times_the_instructions() {
    check_instructions("each_seed_at_two_lengths", &parsers());
}

#[test]
#[ignore = "run below valgrind"]
fn a_quadratic_case_and_a_linear_one() {
    measure(&quadratic_and_linear(), LENGTH);
}

fn quadratic_and_linear() -> Vec<Case> {
    let case = |name: &str, work: fn(&str)| Case {
        name: name.to_owned(),
        work: Box::new(work),
        text: Box::new(|length| "[".repeat(length)),
    };
    let quadratic = |text: &str| {
        // As if each looked for its end.
        let ends = text.char_indices().map(|(at, _)| text.split_at(at).1);
        std::hint::black_box(ends.filter(|rest| rest.contains(']')).count());
    };
    vec![
        case("quadratic", quadratic),
        case("linear", |text| drop(text::visible(text))),
    ]
}

#[test]
fn quadratic_work_is_counted_as_such() {
    let test = "app::linear_tests::a_quadratic_case_and_a_linear_one";
    match not_linear(test, &quadratic_and_linear()) {
        None => println!("skipped: valgrind is not installed"),
        Some(found) => assert!(
            found.len() == 1 && found[0].starts_with("quadratic: "),
            "{found:?}"
        ),
    }
}

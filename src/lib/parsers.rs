//! Every parser of bytes from outside, by name, with its invariants for any bytes: for `fuzz/`, and for the test below, which
//! changes the seeds at random.

use std::cell::RefCell;

use crate::channel::telegram::tests::{check_markdown, check_update};
use crate::jobs::{Crontab, parse_at, parse_every, parse_zone};
use crate::memory::items;
use crate::message::plan;
use crate::net::{self, Origin};
use crate::session::{Event, Position, State};
use crate::text::front_matter::FrontMatter;
use crate::text::{argv, hidden_chars};
use crate::{app, config, control, mcp, memory, provider, text, tools};

/// Panics when something does not hold.
pub type Check = fn(&[u8]);

/// The parsers; seeds of each are in `fuzz/seeds/NAME`.
pub const PARSERS: [(&str, Check); 15] = [
    ("command", command),
    ("events", events),
    ("front_matter", front_matter),
    ("html", tools::check_page),
    ("http", app::http::check_body),
    ("index", memory::index::check_row),
    ("json", json),
    ("mcp", mcp::check_frame),
    ("plan", plan),
    ("settings", config::check_settings),
    ("split", split),
    ("times", times),
    ("transcript", transcript),
    ("update", update),
    ("url", url),
];

/// A line of the FIFO, or a file of the spool.
fn command(bytes: &[u8]) {
    if let Ok(order) = control::decode(bytes) {
        let line = control::encode(&order.id, &order.command);
        let again = control::decode(line.as_bytes()).expect("what we write we read");
        assert_eq!(again.command, order.command);
        let _ = control::digest("shell", &order.command);
    }
}

/// A stream of any vendor, in pieces.
fn events(bytes: &[u8]) {
    thread_local! {
        static RUNTIME: RefCell<tokio::runtime::Runtime> = RefCell::new(
            tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime"),
        );
    }
    RUNTIME.with_borrow_mut(|runtime| runtime.block_on(provider::check_events(bytes)));
}

fn front_matter(bytes: &[u8]) {
    let file = String::from_utf8_lossy(bytes);
    if let Some(matter) = FrontMatter::split(&file) {
        let _ = matter.read::<serde_json::Value>();
        for field in matter.fields().unwrap_or_default() {
            let _ = (field.text(), field.list());
        }
    }
    let _ = items::parse("an-id", &file);
}

fn json(bytes: &[u8]) {
    let words = String::from_utf8_lossy(bytes);
    let pruned = text::json::pruned(&words);
    assert!(!text::json::is_too_deep(pruned.as_bytes()));
    if !text::json::is_too_deep(words.as_bytes()) {
        assert_eq!(pruned, words);
    }
    let _ = text::json::parse::<serde_json::Value>(bytes);
    let _ = argv::plain(&words);
    assert!(hidden_chars::find(&hidden_chars::without(&words), 1).is_empty());
}

/// Any answer of a model is read as a plan or not, in time, and nothing that is said holds a mark of the system.
fn plan(bytes: &[u8]) {
    let answer = String::from_utf8_lossy(bytes);
    match plan::read(&answer) {
        plan::Reading::Plan(plan) => {
            let known = |id: &String| plan.tasks.iter().any(|task| task.id == *id);
            assert!(
                plan.tasks
                    .iter()
                    .flat_map(|task| &task.depends_on)
                    .all(known)
            );
            assert!(!plan.said().contains('⟦'));
        }
        plan::Reading::Prose(text) => assert!(!text.starts_with('⟦')),
        plan::Reading::Broken(_) => {
            assert!(!plan::words(&[&answer]).unwrap_or_default().contains('⟦'));
        }
    }
}

/// Markdown and plain words become messages that Telegram takes, and nothing is lost. The first byte says how long a
/// message may be.
fn split(bytes: &[u8]) {
    let Some((limit, text)) = bytes.split_first() else {
        return;
    };
    check_markdown(
        &String::from_utf8_lossy(text),
        64 + usize::from(*limit) * 15,
    );
}

/// Whatever somebody writes for a time; a line's times come in order.
fn times(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let zone = parse_zone("Australia/Lord_Howe").expect("a zone");
    let _ = parse_zone(&text);
    let _ = parse_at(&text, zone);
    assert!(parse_every(&text).map_or(true, |every_ms| every_ms >= 10_000));
    let Ok(line) = Crontab::parse(&text) else {
        return;
    };
    assert_eq!(Crontab::parse(line.as_str()).as_ref(), Ok(&line));
    // Half an hour of 2026-04-05 is shown twice there.
    let mut last = 1_775_300_000_000;
    for _ in 0..50 {
        let Some(next) = line.next_after(last, zone) else {
            return;
        };
        assert!(next > last);
        last = next;
    }
}

/// The lines of a transcript; somebody may have edited them.
fn transcript(bytes: &[u8]) {
    let mut state = State::default();
    for (line, offset) in bytes.split(|byte| *byte == b'\n').zip(1..) {
        if let Ok(event) = serde_json::from_slice::<Event>(line) {
            let file = "s.2026-01-01.jsonl".to_owned();
            state.apply(&event, Position { file, offset });
            let _ = (state.messages(), state.size(|| 0), state.resume("m1"));
        }
    }
    let _ = provider::repair(state.messages());
}

fn update(bytes: &[u8]) {
    if let Ok(update) = serde_json::from_slice(bytes) {
        check_update(&update);
    }
}

/// What a model wants to fetch; the first line is where it is, the others lead on.
fn url(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let mut lines = text.lines();
    let first = lines.next().unwrap_or_default();
    let _ = (
        Origin::of(first),
        net::host_name(first),
        net::parameter(first, "uddg"),
    );
    net::check_url(first);
    for line in lines {
        if let Some(next) = net::join(first, line) {
            net::check_url(&next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    /// Changed copies of each seed. Coverage finds more: `scripts/fuzz NAME`.
    const COPIES: u64 = 50;

    /// SplitMix64 (Steele, Lea, Flood 2014).
    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: usize) -> usize {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.0;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            usize::try_from((z ^ (z >> 31)) >> 1).unwrap_or(0) % limit.max(1)
        }

        /// Returns `seed` with a few things cut, doubled, overwritten or put in.
        fn change(&mut self, seed: &[u8]) -> Vec<u8> {
            const ODD: [&[u8]; 8] = [
                b"\xff\xfe",
                b"\0",
                "⟦".as_bytes(),
                "\u{202e}".as_bytes(),
                b"[[[[[[[[",
                b"{{\"",
                b"9999999999999999999",
                b"\r\n\r\n",
            ];
            let mut bytes = seed.to_vec();
            for _ in 0..=self.below(4) {
                let at = self.below(bytes.len() + 1);
                let end = (at + self.below(30)).min(bytes.len());
                match self.below(4) {
                    0 => drop(bytes.drain(at..end)),
                    1 => {
                        let piece = bytes.get(at..end).unwrap_or_default().to_vec();
                        bytes.splice(at..at, piece);
                    }
                    2 => {
                        if let Some(byte) = bytes.get_mut(at) {
                            *byte ^= 1 << self.below(8);
                        }
                    }
                    _ => {
                        let odd = ODD.get(self.below(ODD.len())).copied().unwrap_or_default();
                        bytes.splice(at..at, odd.iter().copied());
                    }
                }
            }
            bytes
        }
    }

    #[test]
    fn every_parser_takes_its_seeds_and_changed_copies_of_them() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds");
        for (name, check) in PARSERS {
            let files = std::fs::read_dir(seeds.join(name)).expect("each has seeds");
            let mut count = 0;
            for file in files.flatten() {
                let seed = std::fs::read(file.path()).expect("a seed");
                check(&seed);
                let mut random = Random(u64::from(std::process::id()));
                for number in 0..COPIES {
                    let bytes = random.change(&seed);
                    let what = format!(
                        "{name}, copy {number}: {:?}",
                        String::from_utf8_lossy(&bytes)
                    );
                    let run = std::panic::catch_unwind(|| check(&bytes));
                    assert!(run.is_ok(), "{what}");
                }
                count += 1;
            }
            assert!(count > 0, "{name} has no seeds");
        }
    }
}

//! Changes that must be detected, and states that must not count as damage.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use serde_json::json;

use super::verify::Kind;
use super::*;
use crate::sys::atomic;
use crate::sys::atomic::Durability;

const SOON: Duration = Duration::from_secs(20);
const CALL: Call<'static> = Call {
    session: "s1",
    run: "r1",
    id: "c1",
    tool: "exec",
};

struct Room {
    place: Place,
    dir: tempfile::TempDir,
}

impl Room {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let at = |name: &str| dir.path().join(name);
        Self {
            place: Place {
                log: at("audit.jsonl"),
                head: at("audit.head"),
                key: at("audit.key"),
            },
            dir,
        }
    }

    /// One life of a daemon, with `count` entries.
    fn live(&self, count: usize) {
        let log = Log::start(self.place.clone());
        fill(&log, count);
        assert!(log.flush(SOON), "the disk takes it");
    }

    fn text(&self) -> Vec<u8> {
        std::fs::read(&self.place.log).expect("the log")
    }

    fn put(&self, bytes: &[u8]) {
        atomic::write(&self.place.log, bytes, Durability::Rename).expect("write");
    }

    fn verify(&self) -> Report {
        verify(&self.place, &|| false).expect("readable")
    }

    fn kind(&self) -> Option<(u64, Kind)> {
        self.verify()
            .damage
            .map(|damage| (damage.line, damage.kind))
    }
}

fn fill(log: &Log, count: usize) {
    for number in 0..count {
        match number % 5 {
            0 => log.started(),
            1 => log
                .begin(CALL, &json!({"command": "ls"}))
                .end(false, "text"),
            2 => log.approval("abc", "approve", Some("1001"), Some((CALL, "bound"))),
            3 => log.sent(("telegram", "1001"), 7, "sent", Some("55")),
            _ => log.configured(
                "start",
                true,
                "namespaces",
                BTreeMap::from([("agent.toml".to_owned(), "00".to_owned())]),
            ),
        }
    }
}

/// A small log with a line in it that a crash cut off, its head at its end.
fn small() -> Room {
    let room = Room::new();
    room.live(3);
    let head = std::fs::read(&room.place.head).expect("head");
    room.live(2);
    room.put(
        room.text()
            .get(..room.text().len() - 40)
            .expect("long enough"),
    );
    atomic::write(&room.place.head, &head, Durability::Rename).expect("write");
    room.live(3);
    let report = room.verify();
    assert!(report.whole && report.notes.len() == 1, "{report:?}");
    room
}

fn lines(text: &[u8]) -> Vec<Vec<u8>> {
    text.split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

#[test]
fn an_entry_has_this_form_and_its_hash_can_be_made_by_hand() {
    let room = Room::new();
    room.live(1);
    let text = String::from_utf8(room.text()).expect("text");
    let entry: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let keys: Vec<&String> = entry.as_object().expect("object").keys().collect();
    assert_eq!(
        keys,
        ["v", "seq", "ts", "kind", "version", "pid", "prev", "hash"]
    );
    let hash = entry["hash"].as_str().expect("text");
    let content = text
        .trim_end()
        .replace(&format!(",\"hash\":\"{hash}\""), "");
    assert_eq!(
        crate::text::sha256_hex(format!("{}{content}", entry::NOTHING).as_bytes()),
        hash
    );
}

#[test]
fn every_byte_that_is_changed_is_found() {
    let room = small();
    let text = room.text();
    for at in 0..text.len() {
        for with in [1, 0x20] {
            let mut changed = text.clone();
            changed[at] ^= with;
            room.put(&changed);
            assert!(!room.verify().whole, "byte {at} of {}", text.len());
        }
    }
}

#[test]
fn every_cut_of_the_end_is_found() {
    let room = small();
    let text = room.text();
    for at in 0..text.len() {
        room.put(&text[..at]);
        assert!(!room.verify().whole, "cut at {at} of {}", text.len());
    }
}

#[test]
fn lines_removed_repeated_or_moved_are_found_and_named() {
    let room = Room::new();
    room.live(6);
    let all = lines(&room.text());
    let check = |lines: &[Vec<u8>], expected: (usize, Kind)| {
        room.put(&lines.concat());
        assert_eq!(
            room.kind(),
            Some((expected.0 as u64, expected.1)),
            "{lines:?}"
        );
    };
    for at in 0..all.len() {
        let mut removed = all.clone();
        removed.remove(at);
        let is_last = at + 1 == all.len();
        check(
            &removed,
            (at + 1, if is_last { Kind::Cut } else { Kind::Removed }),
        );
        for to in 0..=all.len() {
            let mut repeated = all.clone();
            repeated.insert(to, all[at].clone());
            if to > at {
                check(&repeated, (to + 1, Kind::Inserted));
            } else if to < at {
                check(&repeated, (to + 1, Kind::Reordered));
            }
        }
        for with in at + 1..all.len() {
            let mut swapped = all.clone();
            swapped.swap(at, with);
            check(&swapped, (at + 1, Kind::Reordered));
        }
        let mut inserted = all.clone();
        inserted.insert(at, b"{\"note\":\"by hand\"}\n".to_vec());
        check(&inserted, (at + 1, Kind::Changed));
    }
}

#[test]
fn what_was_rebuilt_from_the_middle_is_found_by_the_head() {
    let room = Room::new();
    room.live(4);
    let head = std::fs::read(&room.place.head).expect("head");
    let other = Room::new();
    other.live(8);
    room.put(&other.text());
    assert!(atomic::read(&room.place.head).expect("read") == Some(head));
    let (line, kind) = room.kind().expect("damage");
    assert_eq!((line, kind), (5, Kind::Cut));
    // The next start does not make it good.
    room.live(1);
    assert!(!room.verify().whole);
}

#[test]
fn a_start_makes_no_damage_good() {
    let check = |harm: &dyn Fn(&Room), kind: Kind| {
        let room = Room::new();
        room.live(6);
        harm(&room);
        assert_eq!(room.kind().map(|(_, kind)| kind), Some(kind));
        room.live(2);
        room.live(2);
        assert_eq!(room.kind().map(|(_, kind)| kind), Some(kind));
    };
    let remove = |path: &std::path::Path| std::fs::remove_file(path).expect("own file");
    check(
        &|room| room.put(&lines(&room.text())[..3].concat()),
        Kind::Cut,
    );
    check(&|room| room.put(&room.text()[..500]), Kind::Cut);
    check(&|room| remove(&room.place.log), Kind::Cut);
    check(&|room| remove(&room.place.head), Kind::Head);
    check(&|room| room.put(b""), Kind::Cut);
    check(
        &|room| {
            remove(&room.place.log);
            remove(&room.place.head);
        },
        Kind::Cut,
    );
    check(&|room| room.put(&room.text()[1..]), Kind::Changed);
}

#[test]
fn a_line_added_by_hand_stays_one() {
    let room = Room::new();
    room.live(3);
    room.put(&[room.text(), b"by hand\n".to_vec()].concat());
    assert_eq!(room.kind(), Some((5, Kind::Changed)));
    room.live(1);
    assert_eq!(room.kind(), Some((5, Kind::Inserted)));
}

#[test]
fn who_moves_all_of_it_away_starts_over() {
    let room = Room::new();
    assert_eq!(
        room.verify(),
        Report {
            whole: true,
            ..Report::default()
        }
    );
    room.live(3);
    for path in [&room.place.log, &room.place.head, &room.place.key] {
        std::fs::remove_file(path).expect("own file");
    }
    room.live(3);
    assert_eq!((room.verify().whole, room.verify().entries), (true, 4));
}

#[test]
fn the_key_may_be_thrown_away() {
    let room = Room::new();
    room.live(3);
    std::fs::remove_file(&room.place.key).expect("own file");
    room.live(3);
    assert!(room.verify().whole);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_crash_anywhere_behind_the_head_is_no_damage(before in 1usize..6, after in 1usize..6, cuts in proptest::collection::vec(0.0f64..1.0, 1..4)) {
        let room = Room::new();
        room.live(before);
        for cut in cuts {
            let (head, sure) = (std::fs::read(&room.place.head).expect("head"), room.text().len());
            room.live(after);
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "a share of a small number")]
            let at = sure + ((room.text().len() - sure) as f64 * cut) as usize;
            // Just the newline that closes a line cut off before: that is not a place where a write stops.
            let at = if at == sure + 1 { sure } else { at };
            OpenOptions::new().write(true).open(&room.place.log).expect("open").set_len(at as u64).expect("cut");
            atomic::write(&room.place.head, &head, Durability::Rename).expect("write");
            prop_assert!(room.verify().damage.is_none(), "{:?}", room.verify());
        }
        room.live(after);
        let report = room.verify();
        prop_assert!(report.whole, "{report:?}");
    }
}

#[test]
fn looking_while_it_is_written_never_cries_wolf() {
    let room = Room::new();
    let log = Log::start(room.place.clone());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looks = scope.spawn(|| {
            let mut looks = 0;
            while !over.load(Ordering::Relaxed) {
                let report = verify(&room.place, &|| true).expect("readable");
                assert!(report.whole && report.notes.is_empty(), "{report:?}");
                looks += 1;
            }
            looks
        });
        for _ in 0..200 {
            fill(&log, 10);
            std::thread::yield_now();
        }
        assert!(log.flush(SOON));
        over.store(true, Ordering::Relaxed);
        assert!(looks.join().expect("no wolf") > 0);
    });
    assert_eq!(room.verify().entries, 2400);
}

#[test]
fn while_the_disk_takes_nothing_entries_wait_and_those_beyond_are_counted() {
    let mut room = Room::new();
    let missing = room.dir.path().join("later");
    room.place = Place {
        log: missing.join("log"),
        head: missing.join("head"),
        key: missing.join("key"),
    };
    let log = Log::start(room.place.clone());
    let told = Arc::new(Mutex::new(Vec::new()));
    let ear = told.clone();
    log.on_trouble(move |words| ear.lock().push(words.map(str::to_owned)));
    for _ in 0..writer::MOST + 5 {
        log.stopped(0);
    }
    assert!(!log.flush(SOON), "there is no such directory");
    assert!(
        told.lock()
            .iter()
            .flatten()
            .any(|words| words.contains("cannot be written"))
    );
    std::fs::create_dir(&missing).expect("create");
    let until = Instant::now() + SOON;
    while !log.flush(SOON) {
        assert!(Instant::now() < until, "it is tried again");
    }
    assert_eq!(told.lock().last(), Some(&None), "it is well again");
    let report = room.verify();
    assert!(
        report.whole && report.entries == writer::MOST as u64 + 1,
        "{report:?}"
    );
    assert!(
        report.notes[0].meaning.starts_with("5 entries"),
        "{report:?}"
    );
}

#[test]
fn a_file_that_somebody_replaced_is_gone_on_with_and_shows_it() {
    let room = Room::new();
    let log = Log::start(room.place.clone());
    fill(&log, 3);
    assert!(log.flush(SOON));
    let text = String::from_utf8(room.text())
        .expect("text")
        .replace("\"exec\"", "\"read\"");
    room.put(text.trim_end().as_bytes());
    fill(&log, 3);
    assert!(log.flush(SOON));
    assert_eq!(lines(&room.text()).len(), 8);
    assert_eq!(room.kind(), Some((2, Kind::Changed)));
}

#[test]
fn no_word_stands_in_it_and_short_ones_cannot_be_guessed() {
    let (room, other) = (Room::new(), Room::new());
    let say = |room: &Room| {
        let log = Log::start(room.place.clone());
        let call = Call {
            id: "my dear diary",
            ..CALL
        };
        log.begin(call, &json!({"command": "sesame"}))
            .end(true, "open");
        log.begin(call, &json!({"command": "sesame"}))
            .end(true, "open");
        drop(log.begin(call, &json!({})));
        log.approval("id", "deny", Some("a name of two"), None);
        assert!(log.flush(SOON));
        newest(&room.place, 9).expect("readable")
    };
    let entries = say(&room);
    let text = String::from_utf8(room.text()).expect("text");
    for word in ["sesame", "open\"", "dear", "name of"] {
        assert!(!text.contains(word), "{word}: {text}");
    }
    assert!(!text.contains(&crate::text::sha256_hex(br#"{"command":"sesame"}"#)));
    assert_eq!(
        (&entries[0]["args"], &entries[1]["result"]),
        (&entries[2]["args"], &entries[3]["result"])
    );
    assert_ne!(entries[0]["args"], say(&other)[0]["args"]);
    let outcomes: Vec<&str> = entries
        .iter()
        .filter_map(|entry| entry.get("outcome")?.as_str())
        .collect();
    assert_eq!(outcomes, ["error", "error", "broken off"]);
}

#[test]
fn the_newest_come_last_and_a_line_that_is_none_is_shown_as_such() {
    let room = Room::new();
    assert!(newest(&room.place, 5).expect("nothing").is_empty());
    room.live(6);
    room.put(&[room.text(), b"by hand\n".to_vec()].concat());
    let newest = newest(&room.place, 2).expect("readable");
    assert_eq!(newest[0]["seq"], 7);
    assert_eq!(
        json!(newest[1]),
        json!({"kind": "unreadable", "line": "by hand"})
    );
}

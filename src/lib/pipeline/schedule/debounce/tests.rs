use super::*;
use crate::message::{ChatRef, Media, MediaKind, Route, Sender, Source, Trust};

/// A message of the owner with number `id`, which came at `at` milliseconds.
fn said(id: i64, at: i64, text: &str) -> Accepted {
    let sender = Sender {
        id: "1001".into(),
        name: "Ada".into(),
        username: None,
    };
    let envelope = Envelope::new(
        format!("tg:1:{id}"),
        Source::Telegram,
        sender,
        SessionKey("s".into()),
        text.into(),
        at,
    );
    let route = Route {
        channel: "telegram".into(),
        chat: ChatRef {
            chat: "1001".into(),
            topic: None,
        },
    };
    let envelope = Envelope {
        route: Some(route),
        reply_to: Some(id.to_string()),
        trust: Trust::Owner,
        ..envelope
    };
    Accepted {
        seq: id,
        attempts: 0,
        run_id: None,
        wake_at: None,
        suspended: None,
        deaths: crate::queue::Deaths::default(),
        envelope,
    }
}

fn picture(id: i64, at: i64, album: Option<&str>, caption: &str) -> Accepted {
    let mut row = said(id, at, caption);
    row.envelope.album = album.map(str::to_owned);
    let handle = format!("file-{id}");
    row.envelope.media = vec![Media {
        kind: MediaKind::Photo,
        handle,
        filename: None,
        content_type: None,
        bytes: None,
        seconds: None,
        identity: None,
    }];
    row
}

/// Plays messages at their times and returns the messages of each turn, with the time it began.
fn played(rows: Vec<Accepted>, debounce: u64) -> Vec<(u64, Vec<Envelope>)> {
    let (start, debounce) = (Instant::now(), Duration::from_millis(debounce));
    let (mut gather, mut turns) = (Gather::default(), Vec::new());
    let since = |at: Instant| u64::try_from((at - start).as_millis()).expect("small");
    for row in rows {
        let now = start
            + Duration::from_millis(u64::try_from(row.envelope.received_at).expect("positive"));
        while let Some(due) = gather.due().filter(|due| *due <= now) {
            turns.extend(
                gather
                    .ready(due)
                    .iter()
                    .map(|inputs| (since(due), inputs.messages())),
            );
        }
        turns.extend(
            gather
                .push(row, debounce, now)
                .iter()
                .map(|inputs| (since(now), inputs.messages())),
        );
    }
    while let Some(due) = gather.due() {
        turns.extend(
            gather
                .ready(due)
                .iter()
                .map(|inputs| (since(due), inputs.messages())),
        );
    }
    turns
}

fn texts(turns: &[(u64, Vec<Envelope>)]) -> Vec<(u64, Vec<&str>)> {
    turns
        .iter()
        .map(|(at, messages)| {
            (
                *at,
                messages
                    .iter()
                    .map(|message| message.text.as_str())
                    .collect(),
            )
        })
        .collect()
}

#[test]
fn an_album_of_five_is_one_message() {
    let rows = (1..=5)
        .map(|id| {
            picture(
                id,
                40 * id,
                Some("a"),
                if id == 1 { "our trip" } else { "" },
            )
        })
        .collect();
    let turns = played(rows, 0);
    assert_eq!(texts(&turns), [(700, vec!["our trip"])]);
    let handles: Vec<&str> = turns[0].1[0]
        .media
        .iter()
        .map(|media| media.handle.as_str())
        .collect();
    assert_eq!(handles, ["file-1", "file-2", "file-3", "file-4", "file-5"]);
}

#[test]
fn two_albums_and_what_comes_between_are_turns_of_their_own() {
    let rows = vec![
        picture(1, 0, Some("a"), "a"),
        picture(2, 10, Some("b"), "b"),
        said(3, 20, "words"),
        picture(4, 30, None, "alone"),
        picture(5, 40, Some("b"), "late"),
    ];
    assert_eq!(
        texts(&played(rows, 0)),
        [
            (10, vec!["a"]),
            (20, vec!["b"]),
            (20, vec!["words"]),
            (30, vec!["alone"]),
            (540, vec!["late"])
        ]
    );
}

#[test]
fn a_text_that_the_app_cut_is_whole_again() {
    let (head, middle) = ("x".repeat(4096), "y ".repeat(2000));
    let rows = vec![
        said(1, 0, &head),
        said(2, 300, &middle),
        said(3, 900, "the end"),
    ];
    let whole = format!("{head}{middle}the end");
    assert_eq!(texts(&played(rows, 0)), [(900, vec![whole.as_str()])]);
}

#[test]
fn a_cut_between_words_stays_one_and_a_hard_cut_leaves_no_trace() {
    let check = |pieces: [&str; 2], whole: &str| {
        let [head, rest] = pieces;
        let rows = vec![said(1, 0, head), said(2, 300, rest)];
        assert_eq!(texts(&played(rows, 0)), [(300, vec![whole])]);
    };
    let sentence = format!("{}.", "x".repeat(4050));
    check([&sentence, "Next"], &format!("{sentence}\nNext"));
    check([&sentence, "\nNext"], &format!("{sentence}\nNext"));
    let full = "x".repeat(4096);
    check([&full, "y"], &format!("{full}y"));
}

#[test]
fn what_comes_late_or_from_elsewhere_is_no_rest() {
    let head = "x".repeat(4096);
    let late = vec![said(1, 0, &head), said(2, 2000, "later")];
    assert_eq!(
        texts(&played(late, 0)),
        [(1500, vec![head.as_str()]), (2000, vec!["later"])]
    );
    let other = vec![said(1, 0, &head), said(3, 100, "another message")];
    assert_eq!(
        texts(&played(other, 0)),
        [(100, vec![head.as_str()]), (100, vec!["another message"])]
    );
    let short = vec![said(1, 0, &"x".repeat(3999)), said(2, 0, "more")];
    assert_eq!(played(short, 0).len(), 2);
}

#[test]
fn messages_in_a_row_are_lines_of_one() {
    let rows = vec![
        said(1, 0, "one"),
        said(2, 400, "two"),
        said(3, 800, "three"),
        said(4, 2000, "later"),
    ];
    assert_eq!(
        texts(&played(rows.clone(), 500)),
        [(1300, vec!["one\ntwo\nthree"]), (2500, vec!["later"])]
    );
    assert_eq!(played(rows, 0).len(), 4, "without debounce nothing waits");
}

#[test]
fn nobody_is_kept_waiting_for_more_than_five_seconds_or_twelve_messages() {
    let steady = (0..20).map(|id| said(id, id * 400, "x")).collect();
    let turns = played(steady, 500);
    assert_eq!(
        turns.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
        [4400, 8100],
        "{turns:?}"
    );
    let slow = (0..8).map(|id| said(id, id * 900, "x")).collect();
    let turns = played(slow, 1000);
    assert_eq!(
        turns.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
        [5000, 7300],
        "{turns:?}"
    );
}

#[test]
fn a_picture_after_words_goes_at_once_and_with_them() {
    let rows = vec![said(1, 0, "look"), picture(2, 100, None, "")];
    let turns = played(rows, 500);
    assert_eq!(texts(&turns), [(100, vec!["look", ""])]);
    assert_eq!(turns[0].1[1].media.len(), 1);
}

#[test]
fn commands_callers_and_other_people_never_wait() {
    let mut command = said(2, 10, "/new");
    command.envelope.command = Some(crate::message::Command::NEW);
    let mut caller = said(3, 20, "from the shell");
    caller.envelope.wants_reply = true;
    let mut other = said(5, 40, "me too");
    other.envelope.sender.id = "1002".into();
    let rows = vec![
        said(1, 0, "one"),
        command,
        caller,
        said(4, 30, "two"),
        other,
    ];
    assert_eq!(
        texts(&played(rows, 500)),
        [
            (10, vec!["one"]),
            (10, vec!["/new"]),
            (20, vec!["from the shell"]),
            (40, vec!["two"]),
            (540, vec!["me too"])
        ]
    );
}

#[test]
fn untrusted_words_keep_apart_from_ones_own() {
    let mut passed_on = said(2, 10, "buy now");
    passed_on.envelope.trust = Trust::Other;
    passed_on.envelope.forwarded_from = Some("Shop".into());
    let rows = vec![said(1, 0, "what is this?"), passed_on, said(3, 20, "well?")];
    assert_eq!(
        texts(&played(rows, 500)),
        [(520, vec!["what is this?", "buy now", "well?"])]
    );
}

#[test]
fn a_turn_that_began_before_a_crash_takes_nothing_in() {
    let mut again = said(1, 0, "one");
    again.run_id = Some("r".into());
    assert_eq!(played(vec![again, said(2, 0, "two")], 500).len(), 2);
}

//! Conversations of years: successive files, content that is no longer sent, and reading meanwhile.

use super::*;
use crate::message::Message;

fn compaction(kept_from: u64) -> Kind {
    Kind::Compaction(Compaction {
        run_id: "r".into(),
        kept_from,
        question: None,
        summary: format!("Everything before {kept_from}."),
        by: SummaryBy::Model,
        longest_block: None,
        tokens: (1000, 100),
    })
}

fn long(text: &str, bytes: usize) -> Kind {
    let content = vec![Block::Text {
        text: format!("{text} {}", "x".repeat(bytes)),
    }];
    Kind::Message(Spoken {
        inbox_id: Some(text.into()),
        trust: Some(Trust::Owner),
        ..Spoken::new(Role::User, content, "r")
    })
}

fn event(text: &str) -> Kind {
    let Kind::Message(spoken) = user(text) else {
        panic!("a message")
    };
    Kind::Message(Spoken {
        about: Some(crate::message::About::default()),
        ..spoken
    })
}

/// Returns the number in the name of the newest file.
fn number(session: &Session) -> u32 {
    log_rotation::order(&session.state().position.file).1
}

fn cold(dir: &Path, id: &str) -> State {
    let sessions = dir.join("sessions");
    let _ = std::fs::remove_file(snapshot::path(&sessions, id));
    Session::load(&sessions, chrono_tz::UTC, id, None, None)
        .expect("load")
        .expect("there")
        .state()
        .clone()
}

#[tokio::test]
async fn a_large_file_is_followed_by_another_after_a_compaction_and_never_changes_again() {
    let dir = tempfile::tempdir().expect("dir");
    let store = store(dir.path());
    let mut session = store.take(&key(), "Ada").await.expect("take");
    session
        .append(vec![user("a"), assistant(&[]), compaction(2)], true)
        .await
        .expect("append");
    session
        .append(vec![long("b", 1_100_000), assistant(&[])], true)
        .await
        .expect("append");
    session
        .append(vec![user("c"), assistant(&[])], true)
        .await
        .expect("append");
    assert_eq!(
        number(&session),
        0,
        "a compaction of a small file is none of a large one"
    );
    let mut files = Vec::new();
    for wanted in 1..=3 {
        let kept_from = session.state().last_seq - 1;
        session
            .append(vec![compaction(kept_from)], true)
            .await
            .expect("append");
        assert_eq!(
            number(&session),
            wanted - 1,
            "the compaction itself stands in the old file"
        );
        let file = dir
            .path()
            .join("sessions")
            .join(&session.state().position.file);
        files.push((file.clone(), std::fs::read(&file).expect("read")));
        // The daemon dies here, and starts again.
        if wanted == 2 {
            store.put(session);
            let again = super::store(dir.path());
            session = again.take(&key(), "Ada").await.expect("take");
        }
        session
            .append(
                vec![long(&wanted.to_string(), 1_100_000), assistant(&[])],
                true,
            )
            .await
            .expect("append");
        assert_eq!(number(&session), wanted);
    }
    for (file, bytes) in &files {
        assert!(
            std::fs::read(file).expect("read") == *bytes,
            "{} changed",
            file.display()
        );
    }
    assert_eq!(&cold(dir.path(), session.id()), session.state());
    let sessions = dir.path().join("sessions");
    assert_eq!(
        view(&sessions, session.id()).expect("view").as_ref(),
        Some(session.state())
    );
    let seqs = |files: Vec<PathBuf>| -> Vec<u64> {
        let mut seqs = Vec::new();
        for file in files {
            jsonl::for_each_line(&file, 0, |line, _| {
                seqs.push(serde_json::from_slice::<Event>(line).expect("event").seq)
            })
            .expect("read");
        }
        seqs
    };
    let all = transcript_files(&sessions, &sessions.join("archive"), session.id()).expect("files");
    assert_eq!(
        (all.len(), seqs(all)),
        (4, (1..=session.state().last_seq).collect())
    );
}

#[tokio::test]
async fn files_stay_in_the_order_of_their_events_whatever_the_clock_says() {
    let dir = tempfile::tempdir().expect("dir");
    let sessions = dir.path().join("sessions");
    store(dir.path());
    let day = |text: &str| clock::parse_rfc3339(&format!("{text}T12:00:00Z")).expect("a day");
    let check = |newest: &str, is_full: bool, today: &str, expected: &str| {
        let file = sessions.join(format!("s.{newest}.jsonl"));
        let head = Head {
            session_id: "s".into(),
            key: "k".into(),
            contact: "c".into(),
            created_at: "x".into(),
        };
        let mut kinds = vec![Kind::Session(head), user("a")];
        if is_full {
            kinds.extend([long("b", 1_000_001), compaction(2)]);
        }
        let lines: String = (1..)
            .zip(kinds)
            .map(|(seq, kind)| {
                serde_json::to_string(&Event {
                    v: 1,
                    ts: "x".into(),
                    seq,
                    kind,
                })
                .expect("json")
                    + "\n"
            })
            .collect();
        atomic::write(&file, lines.as_bytes(), atomic::Durability::Rename).expect("write");
        let session = Session::load(&sessions, chrono_tz::UTC, "s", None, None)
            .expect("load")
            .expect("there");
        std::fs::remove_file(file).expect("remove");
        assert_eq!(
            session.next_file(day(today)),
            format!("s.{expected}.jsonl"),
            "{newest} {is_full} {today}"
        );
    };
    check("2026-05-04", false, "2026-05-04", "2026-05-04");
    check("2026-05-04", false, "2026-05-05", "2026-05-05");
    check("2026-05-04", true, "2026-05-04", "2026-05-04.1");
    check("2026-05-04.9", true, "2026-05-04", "2026-05-04.10");
    check("2026-05-04.10", false, "2026-05-04", "2026-05-04.10");
    check("2026-05-04.10", true, "2026-05-05", "2026-05-05");
    // The clock was set back.
    check("2026-05-04.2", false, "2026-05-01", "2026-05-04.2");
    check("2026-05-04.2", true, "2026-05-01", "2026-05-04.3");
}

#[tokio::test]
async fn a_damaged_snapshot_is_made_again_with_the_whole_summary() {
    let dir = tempfile::tempdir().expect("dir");
    let first = store(dir.path());
    let mut session = first.take(&key(), "Ada").await.expect("take");
    session
        .append(
            vec![user("a"), assistant(&[]), compaction(3), user("b")],
            true,
        )
        .await
        .expect("append");
    let (id, state) = (session.id().to_owned(), session.state().clone());
    first.put(session);
    first.flush().expect("flush");
    let snapshot = snapshot::path(&dir.path().join("sessions"), &id);
    let whole = std::fs::read_to_string(&snapshot).expect("snapshot");
    let other = whole.replacen(&format!("\"v\":{}", State::VERSION), "\"v\":1", 1);
    assert_ne!(whole, other);
    for damaged in ["{", "", &other.replace("Everything before 3.", "Nothing.")] {
        atomic::write(&snapshot, damaged.as_bytes(), atomic::Durability::Rename).expect("write");
        let session = store(dir.path()).take(&key(), "Ada").await.expect("take");
        assert_eq!(
            session.state(),
            &state,
            "{}",
            crate::text::head(damaged, 20)
        );
        assert!(session.state().messages()[0] != state.messages()[1]);
    }
}

#[tokio::test]
async fn only_a_persons_message_is_heard() {
    let mut state = after(vec![user("a"), assistant(&[]), event("e"), assistant(&[])]).await;
    let heard = state.heard.take().expect("a person spoke");
    assert_eq!((heard.seq, heard.at == state.updated_at), (2, true));
    assert_eq!(after(vec![event("e"), assistant(&[])]).await.heard, None);
    // Its answer keeps it fresh; that to an event does not.
    let mut state = State::default();
    let at = |minute: u64| format!("2026-05-04T10:{minute:02}:00.000Z");
    let mut heard = Vec::new();
    for (seq, kind) in (1..).zip([
        user("a"),
        assistant(&["1"]),
        ended("1"),
        assistant(&[]),
        event("e"),
        assistant(&[]),
    ]) {
        state.apply(
            &Event {
                v: 1,
                ts: at(seq),
                seq,
                kind,
            },
            Position::default(),
        );
        heard.extend(state.heard.clone().map(|heard| heard.at));
    }
    assert_eq!(heard, [1, 2, 2, 4, 4, 4].map(at));
}

#[tokio::test]
async fn the_last_turns_begin_with_what_somebody_said() {
    let turns = vec![
        user("a"),
        assistant(&["1"]),
        began("1"),
        ended("1"),
        assistant(&[]),
        user("b"),
        assistant(&[]),
    ];
    let mut and_events = turns.clone();
    and_events.extend([event("e"), assistant(&[]), event("f"), assistant(&[])]);
    let compacted = [turns.clone(), vec![compaction(7)]].concat();
    let check = |state: &State, count: usize, expected: &[u64]| {
        let seqs: Vec<u64> = state
            .last_turns(count, 3)
            .iter()
            .map(|entry| entry.seq)
            .collect();
        assert_eq!(seqs, expected, "{count}");
    };
    let state = after(turns).await;
    check(&state, 0, &[]);
    check(&state, 1, &[7, 8]);
    check(&state, 2, &[2, 3, 5, 6, 7, 8]);
    check(&state, 20, &[2, 3, 5, 6, 7, 8]);
    // What came after a person spoke last goes along: their next words may be about it.
    let state = after(and_events).await;
    check(&state, 0, &[9, 10, 11, 12]);
    check(&state, 3, &[7, 8, 9, 10, 11, 12]);
    check(&state, 20, &[7, 8, 9, 10, 11, 12]);
    check(&after(compacted).await, 5, &[7, 8]);
    check(&State::default(), 5, &[]);
}

#[tokio::test]
async fn what_is_no_longer_sent_is_known_with_and_without_the_index() {
    let dir = tempfile::tempdir().expect("dir");
    let store = store(dir.path());
    let mut session = store.take(&key(), "Ada").await.expect("take");
    let mut other = store
        .take(&SessionKey("cli:bob".into()), "Bob")
        .await
        .expect("take");
    other
        .append(vec![user("x"), assistant(&[])], true)
        .await
        .expect("append");
    store.put(other);
    session
        .append(vec![user("a"), assistant(&[])], true)
        .await
        .expect("append");
    let sessions = dir.path().join("sessions");
    let known = || {
        let index = Index::read(&sessions.join("sessions.json"), &sessions).expect("index");
        gone(&index, &sessions)
            .expect("gone")
            .into_iter()
            .collect::<Vec<_>>()
    };
    assert_eq!(known(), []);
    let Kind::Compaction(compaction) = compaction(3) else {
        panic!("a compaction")
    };
    session
        .append(
            vec![Kind::Compaction(Compaction {
                question: Some(2),
                ..compaction
            })],
            true,
        )
        .await
        .expect("append");
    let expected = [(
        session.id().to_owned(),
        Gone {
            before: 3,
            but: Some(2),
        },
    )];
    assert_eq!(known(), expected);
    store.put(session);
    store.flush().expect("flush");
    assert_eq!(known(), expected);
}

#[tokio::test]
async fn a_session_that_is_being_archived_is_there_whole_or_not_at_all() {
    let dir = tempfile::tempdir().expect("dir");
    let store = store(dir.path());
    let mut session = store.take(&key(), "Ada").await.expect("take");
    session
        .append(
            vec![long("a", 1_000_000), assistant(&[]), compaction(2)],
            true,
        )
        .await
        .expect("append");
    session.append(vec![user("b")], true).await.expect("append");
    let (sessions, id) = (dir.path().join("sessions"), session.id().to_owned());
    let files = transcript::files(&sessions, &id).expect("files");
    assert_eq!(files.len(), 2);
    let oldest = |to: &str| {
        std::fs::rename(
            sessions.join(&files[0]),
            dir.path().join(to).join(&files[0]),
        )
        .expect("move")
    };
    oldest("sessions/archive");
    assert_eq!(view(&sessions, &id).expect("view"), None);
    let index = Index::read(&sessions.join("sessions.json"), &sessions).expect("index");
    assert_eq!(listing(&index, &sessions).expect("listing"), []);
    // The same reset, run again, finishes it.
    store.put(session);
    assert_eq!(store.reset(&key()).expect("reset"), Some(id.clone()));
    assert_eq!(
        transcript::files(&sessions.join("archive"), &id).expect("files"),
        files
    );
    assert_eq!(
        transcript::files(&sessions, &id).expect("files"),
        [] as [String; 0]
    );
}

/// What tells whether somebody read the list of the files in a directory.
struct Listings(nix::sys::inotify::Inotify);

impl Listings {
    fn of(dir: &Path) -> Self {
        use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK).expect("inotify");
        inotify
            .add_watch(dir, AddWatchFlags::IN_ACCESS)
            .expect("watched");
        Self(inotify)
    }

    /// Returns whether it was read since the last look.
    fn any(&self) -> bool {
        let mut any = false;
        while let Ok(events) = self.0.read_events() {
            // What is read of a file in it has a name.
            any |= events.iter().any(|event| event.name.is_none());
        }
        any
    }
}

/// Appends to `session` until it has one more file.
async fn next_file(session: &mut Session) {
    let seq = session.state().last_seq;
    let full = vec![long("a", 1_000_000), assistant(&[]), compaction(seq + 1)];
    session.append(full, true).await.expect("append");
    session.append(vec![user("b")], true).await.expect("append");
}

#[tokio::test]
async fn the_files_of_a_session_are_known_by_name_unless_a_kill_or_a_hand_came_between() {
    let dir = tempfile::tempdir().expect("dir");
    let sessions = dir.path().join("sessions");
    let first = store(dir.path());
    let listings = Listings::of(&sessions);
    let mut session = first.take(&key(), "Ada").await.expect("take");
    next_file(&mut session).await;
    let (id, state) = (session.id().to_owned(), session.state().clone());
    first.put(session);
    first.flush().expect("flush");
    let again = store(dir.path());
    assert!(listings.any(), "a start looks for all");
    let mut session = again.take(&key(), "Ada").await.expect("take");
    assert_eq!(session.state(), &state);
    assert!(!listings.any());

    // A turn panics: neither the index nor the snapshot has its file.
    next_file(&mut session).await;
    let state = session.state().clone();
    drop(session);
    let mut session = again.take(&key(), "Ada").await.expect("take");
    assert_eq!(session.state(), &state);
    // So it is after a kill.
    again.flush().expect("flush");
    next_file(&mut session).await;
    let state = session.state().clone();
    drop(session);
    let killed = store(dir.path());
    let session = killed.take(&key(), "Ada").await.expect("take");
    assert_eq!(session.state(), &state);
    let files = transcript::files(&sessions, &id).expect("files");
    assert_eq!((files.len(), session.files()), (4, files.clone()));

    // Its owner takes a file out, and puts it back later.
    let oldest = sessions.join(&files[0]);
    let words = std::fs::read(&oldest).expect("read");
    std::fs::remove_file(&oldest).expect("remove");
    killed.put(session);
    killed.flush().expect("flush");
    let without = store(dir.path());
    let session = without.take(&key(), "Ada").await.expect("take");
    assert_eq!(session.files().len(), 3);
    without.put(session);
    without.flush().expect("flush");
    atomic::write(&oldest, &words, atomic::Durability::Rename).expect("write");
    let whole = store(dir.path());
    let session = whole.take(&key(), "Ada").await.expect("take");
    assert_eq!(session.files(), files);
    whole.put(session);
    whole.flush().expect("flush");

    let cold = store(dir.path());
    assert!(listings.any());
    assert_eq!(cold.reset(&key()).expect("reset"), Some(id.clone()));
    assert!(!listings.any());
    let archived = transcript::files(&sessions.join("archive"), &id).expect("files");
    assert_eq!(archived, files);
    assert_eq!(transcript::all_files(&sessions).expect("files").len(), 0);
}

#[tokio::test]
async fn what_the_vendor_declined_to_answer_is_shown_to_no_model_again() {
    let refused = |stop| {
        Kind::Message(Spoken {
            stop: Some(stop),
            ..Spoken::new(Role::Assistant, vec![Block::text("No.")], "r")
        })
    };
    let turn = |stop| {
        vec![
            user("a"),
            assistant(&[]),
            user("b"),
            assistant(&["1"]),
            began("1"),
            ended("1"),
            refused(stop),
        ]
    };
    let answered = after(turn(StopReason::EndTurn)).await.messages();
    let state = after(turn(StopReason::Refusal)).await;
    let shown = state.messages();
    assert_eq!(shown[..2], answered[..2], "the turn before stays");
    assert_eq!(shown[5..], answered[5..], "and so do the last words");
    let left_out = "⟦left out: the model's vendor declined to answer this⟧";
    assert_eq!(
        shown[2],
        Message::new(Role::User, vec![Block::context(left_out)])
    );
    let calls: Vec<Block> = answered[3].content[1..].to_vec();
    assert_eq!(shown[3], Message::new(Role::Assistant, calls));
    let [Block::ToolResult(result)] = &shown[4].content[..] else {
        panic!("{:?}", shown[4])
    };
    assert_eq!((result.id.as_str(), result.text.as_str()), ("1", left_out));
    assert_eq!(state.resume("b"), Resume::Answered);
}

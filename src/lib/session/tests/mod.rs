//! Sessions on disk: transcripts, snapshots, rotation and torn files.

mod long;

use std::fs::OpenOptions;
use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::message::{Block, Role, StopReason, ToolCall, ToolResult, Trust, Usage};
use crate::sys::jsonl;

fn store(dir: &Path) -> Store {
    let (sessions, archive) = (dir.join("sessions"), dir.join("sessions/archive"));
    std::fs::create_dir_all(&archive).expect("dirs");
    Store::open(
        sessions.clone(),
        archive,
        sessions.join("sessions.json"),
        chrono_tz::UTC,
    )
    .expect("store")
}

fn key() -> SessionKey {
    SessionKey("cli:ada".into())
}

fn user(inbox_id: &str) -> Kind {
    let content = vec![
        Block::Context {
            text: "time".into(),
        },
        Block::Text {
            text: inbox_id.into(),
        },
    ];
    Kind::Message(Spoken {
        inbox_id: Some(inbox_id.into()),
        trust: Some(Trust::Owner),
        ..Spoken::new(Role::User, content, "r")
    })
}

fn assistant(calls: &[&str]) -> Kind {
    let call = |id: &&str| {
        Block::ToolCall(ToolCall {
            id: (*id).into(),
            name: "exec".into(),
            input: serde_json::json!({}),
        })
    };
    let mut content = vec![Block::Text { text: "so".into() }];
    content.extend(calls.iter().map(call));
    Kind::Message(Spoken {
        model: Some("primary".into()),
        stop: Some(if calls.is_empty() {
            StopReason::EndTurn
        } else {
            StopReason::ToolUse
        }),
        usage: Some(Usage {
            input_tokens: 10,
            output_tokens: 2,
            ..Usage::default()
        }),
        cost_nano_usd: Some(7),
        ..Spoken::new(Role::Assistant, content, "r")
    })
}

fn began(id: &str) -> Kind {
    Kind::ToolCall {
        run_id: "r".into(),
        id: id.into(),
        name: "exec".into(),
    }
}

fn ended(id: &str) -> Kind {
    let result = ToolResult {
        id: id.into(),
        text: "ok".into(),
        is_error: false,
        from: None,
        pictures: Vec::new(),
    };
    Kind::ToolResult {
        run_id: "r".into(),
        name: "exec".into(),
        duration_ms: 3,
        receipt: None,
        result,
    }
}

fn failed(forget_from: Option<u64>) -> Kind {
    Kind::Error {
        run_id: "r".into(),
        text: "no".into(),
        forget_from,
    }
}

fn call_of(resume: Resume) -> Vec<(String, bool)> {
    match resume {
        Resume::Tools(calls) => calls
            .into_iter()
            .map(|(call, began)| (call.id, began))
            .collect(),
        Resume::Fresh | Resume::Model | Resume::Answered | Resume::Failed(_) => Vec::new(),
    }
}

async fn after(kinds: Vec<Kind>) -> State {
    let dir = tempfile::tempdir().expect("dir");
    let store = store(dir.path());
    let mut session = store.take(&key(), "Ada").await.expect("take");
    session.append(kinds, true).await.expect("append");
    session.state().clone()
}

#[tokio::test]
async fn a_turn_goes_on_where_it_was_interrupted() {
    assert_eq!(after(vec![]).await.resume("a"), Resume::Fresh);
    assert_eq!(after(vec![user("a")]).await.resume("a"), Resume::Model);
    assert_eq!(after(vec![user("a")]).await.resume("b"), Resume::Fresh);
    let two = || vec![user("a"), assistant(&["1", "2"])];
    assert_eq!(
        call_of(after(two()).await.resume("a")),
        [("1".into(), false), ("2".into(), false)]
    );
    let mut one_began = two();
    one_began.push(began("1"));
    assert_eq!(
        call_of(after(one_began.clone()).await.resume("a")),
        [("1".into(), true), ("2".into(), false)]
    );
    one_began.extend([ended("1"), began("2")]);
    assert_eq!(
        call_of(after(one_began.clone()).await.resume("a")),
        [("2".into(), true)]
    );
    one_began.push(ended("2"));
    assert_eq!(after(one_began.clone()).await.resume("a"), Resume::Model);
    one_began.push(assistant(&[]));
    assert_eq!(after(one_began.clone()).await.resume("a"), Resume::Answered);
    assert_eq!(
        after(vec![user("a"), failed(Some(2))]).await.resume("a"),
        Resume::Failed("no".into())
    );
}

#[tokio::test]
async fn an_unanswered_message_is_forgotten_when_its_turn_failed() {
    let state = after(vec![user("a"), assistant(&[]), user("b"), failed(Some(4))]).await;
    assert_eq!(state.entries.len(), 2);
    assert_eq!(
        state.messages().last().map(|message| message.role),
        Some(Role::Assistant)
    );
}

#[tokio::test]
async fn results_of_one_step_stand_in_one_message() {
    let state = after(vec![
        user("a"),
        assistant(&["1", "2"]),
        began("1"),
        ended("1"),
        began("2"),
        ended("2"),
    ])
    .await;
    assert_eq!(
        state
            .entries
            .iter()
            .map(|entry| entry.message.content.len())
            .collect::<Vec<_>>(),
        [2, 3, 2]
    );
}

#[tokio::test]
async fn a_session_survives_a_restart_with_and_without_its_snapshot() {
    let dir = tempfile::tempdir().expect("dir");
    let first = store(dir.path());
    let mut session = first.take(&key(), "Ada").await.expect("take");
    session
        .append(vec![user("a"), assistant(&[])], true)
        .await
        .expect("append");
    let (id, state) = (session.id().to_owned(), session.state().clone());
    first.put(session);
    let cold = store(dir.path())
        .take(&key(), "Ada")
        .await
        .expect("no index, no snapshot");
    assert_eq!((cold.id(), cold.state()), (id.as_str(), &state));
    first.flush().expect("flush");
    let warm = store(dir.path())
        .take(&key(), "Ada")
        .await
        .expect("index and snapshot");
    assert_eq!((warm.id(), warm.state()), (id.as_str(), &state));
}

#[tokio::test]
async fn a_snapshot_that_numbers_its_newest_event_wrongly_is_made_again() {
    let dir = tempfile::tempdir().expect("dir");
    let (first, sessions) = (store(dir.path()), dir.path().join("sessions"));
    let mut session = first.take(&key(), "Ada").await.expect("take");
    // The newest entry is not the newest event.
    let said = vec![user("a"), assistant(&["c"]), began("c")];
    session.append(said, true).await.expect("append");
    let (id, state) = (session.id().to_owned(), session.state().clone());
    first.put(session);
    first.flush().expect("flush");
    drop(first);
    let path = snapshot::path(&sessions, &id);
    let right = std::fs::read_to_string(&path).expect("the snapshot");
    let number = format!("\"last_seq\":{}", state.last_seq);
    assert!(right.contains(&number), "{right}");
    for (wrong, is_behind) in [(0, true), (1, true), (3, true), (4, false), (9, true)] {
        let text = right.replace(&number, &format!("\"last_seq\":{wrong}"));
        atomic::write(&path, text.as_bytes(), atomic::Durability::Rename).expect("write");
        let session = Session::load(&sessions, chrono_tz::UTC, &id, None, None);
        let session = session.expect("load").expect("there");
        assert_eq!(session.state(), &state, "{wrong}");
        assert_eq!(session.is_behind(), is_behind, "{wrong}");
    }
}

#[tokio::test]
async fn a_reset_archives_and_the_next_message_starts_over() {
    let dir = tempfile::tempdir().expect("dir");
    let store = store(dir.path());
    let mut session = store.take(&key(), "Ada").await.expect("take");
    session.append(vec![user("a")], true).await.expect("append");
    let id = session.id().to_owned();
    store.put(session);
    assert_eq!(store.reset(&key()).expect("reset"), Some(id.clone()));
    assert_eq!(store.reset(&key()).expect("reset"), None);
    assert_ne!(store.take(&key(), "Ada").await.expect("take").id(), id);
    let archived: Vec<String> = std::fs::read_dir(dir.path().join("sessions/archive"))
        .expect("archive")
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    assert!(
        archived
            .iter()
            .any(|name| transcript::session_of(name) == Some(&id))
    );
}

#[tokio::test]
async fn a_transcript_that_its_owner_edited_is_read_again() {
    let dir = tempfile::tempdir().expect("dir");
    let store = store(dir.path());
    let mut session = store.take(&key(), "Ada").await.expect("take");
    session
        .append(vec![user("a"), assistant(&[])], true)
        .await
        .expect("append");
    let file = dir
        .path()
        .join("sessions")
        .join(&session.state().position.file);
    let text = std::fs::read_to_string(&file).expect("read");
    atomic::write(
        &file,
        text.replace("\"so\"", "\"amended\"").as_bytes(),
        atomic::Durability::Rename,
    )
    .expect("edit");
    session.append(vec![user("b")], true).await.expect("append");
    let words: Vec<String> = session
        .state()
        .messages()
        .iter()
        .map(crate::message::Message::plain_text)
        .collect();
    assert_eq!(words, ["a", "amended", "b"]);
    let reread = Session::load(
        &dir.path().join("sessions"),
        chrono_tz::UTC,
        session.id(),
        None,
        None,
    )
    .expect("load")
    .expect("there");
    assert_eq!(reread.state(), session.state());
}

#[tokio::test]
async fn an_edit_while_nobody_runs_outdates_the_snapshot() {
    let dir = tempfile::tempdir().expect("dir");
    let first = store(dir.path());
    let mut session = first.take(&key(), "Ada").await.expect("take");
    session
        .append(vec![user("my password"), assistant(&[])], true)
        .await
        .expect("append");
    let file = dir
        .path()
        .join("sessions")
        .join(&session.state().position.file);
    first.put(session);
    first.flush().expect("flush");
    // In place and longer, as some editors write.
    let text = std::fs::read_to_string(&file)
        .expect("read")
        .replace("my password", "(taken out by its owner)");
    let mut open = OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(&file)
        .expect("open");
    std::io::Write::write_all(&mut open, text.as_bytes()).expect("edit");
    let words = store(dir.path())
        .take(&key(), "Ada")
        .await
        .expect("take")
        .state()
        .messages()[0]
        .plain_text();
    assert_eq!(words, "(taken out by its owner)");
}

#[tokio::test]
async fn an_index_is_not_written_again_at_once_and_never_forgotten() {
    let dir = tempfile::tempdir().expect("dir");
    let store = store(dir.path());
    let said = |words: &'static str| async {
        let mut session = store.take(&key(), "Ada").await.expect("take");
        session
            .append(vec![user(words)], true)
            .await
            .expect("append");
        store.put(session);
    };
    let file = dir.path().join("sessions/sessions.json");
    let count = || {
        let bytes = std::fs::read(&file).expect("read");
        let index: serde_json::Value = serde_json::from_slice(&bytes).expect("JSON");
        index["sessions"][&key().0]["message_count"].as_u64()
    };
    said("a").await;
    store.changed().await;
    store.flush_at_leisure().expect("flush");
    assert_eq!(count(), Some(1));
    said("b").await;
    store.lock().index_due = Some(Instant::now() + std::time::Duration::from_secs(60));
    store.changed().await;
    store.flush_at_leisure().expect("flush");
    assert_eq!(count(), Some(1), "its turn has not come");
    // Who waits for work is told that there is some.
    store.changed().await;
    store.flush().expect("flush");
    assert_eq!(count(), Some(2), "an end waits for no turn");
}

#[tokio::test]
async fn an_edit_of_an_earlier_day_outdates_the_snapshots_of_a_session_that_rests() {
    let dir = tempfile::tempdir().expect("dir");
    let sessions = dir.path().join("sessions");
    let store = store(dir.path());
    // Two zones whose dates are never the same.
    let days = [chrono_tz::Etc::GMTPlus12, chrono_tz::Pacific::Kiritimati];
    let mut session = store.take(&key(), "Ada").await.expect("take");
    let mut files = Vec::new();
    for (zone, words) in days.into_iter().zip(["my password", "the next day"]) {
        session = session.in_zone(zone);
        let said = vec![user(words), assistant(&[])];
        session.append(said, true).await.expect("append");
        files.push(sessions.join(&session.state().position.file));
    }
    assert_ne!(files[0], files[1]);
    let id = session.id().to_owned();
    let load = || {
        Session::load(&sessions, chrono_tz::UTC, &id, None, None)
            .expect("load")
            .expect("there")
    };
    store.put(session);
    store.flush().expect("flush");
    assert!(!load().is_behind(), "the snapshot fits both files");

    let text = std::fs::read_to_string(&files[0]).expect("read");
    let text = text.replace("my password", "(taken out)");
    atomic::write(&files[0], text.as_bytes(), atomic::Durability::Rename).expect("edit");
    let session = store.take(&key(), "Ada").await.expect("take");
    let mut session = session.in_zone(days[1]);
    session.append(vec![user("c")], true).await.expect("append");
    store.put(session);
    store.flush().expect("flush");
    assert_eq!(load().state().messages()[0].plain_text(), "(taken out)");
}

#[tokio::test]
async fn a_damaged_first_line_loses_no_conversation() {
    for keeps_snapshot in [true, false] {
        let dir = tempfile::tempdir().expect("dir");
        let (first, sessions) = (store(dir.path()), dir.path().join("sessions"));
        let mut session = first.take(&key(), "Ada").await.expect("take");
        let said = vec![user("my boat lies in Lisbon"), assistant(&[])];
        session.append(said, true).await.expect("append");
        let (head, file) = (
            session.head().clone(),
            sessions.join(&session.state().position.file),
        );
        first.put(session);
        first.flush().expect("flush");
        drop(first);
        let mut bytes = std::fs::read(&file).expect("read");
        bytes[3] ^= 1;
        atomic::write(&file, &bytes, atomic::Durability::Rename).expect("damage");
        if !keeps_snapshot {
            std::fs::remove_file(snapshot::path(&sessions, &head.session_id))
                .expect("the snapshot");
        }

        let second = store(dir.path());
        let mut session = second.take(&key(), "Ada").await.expect("take");
        assert_eq!(session.head(), &head, "{keeps_snapshot}");
        let words = |state: &State| state.messages()[0].plain_text();
        assert_eq!(words(session.state()), "my boat lies in Lisbon");
        session.append(vec![user("b")], true).await.expect("append");
        second.put(session);
        second.flush().expect("flush");
        let seen = view(&sessions, &head.session_id).expect("view");
        let seen = seen.expect("those who only read see it, too");
        assert_eq!(
            (seen.head.as_ref(), words(&seen)),
            (Some(&head), "my boat lies in Lisbon".to_owned())
        );
    }
}

#[tokio::test]
async fn a_line_of_a_newer_version_is_kept_and_passed_over() {
    let dir = tempfile::tempdir().expect("dir");
    let store = store(dir.path());
    let mut session = store.take(&key(), "Ada").await.expect("take");
    session.append(vec![user("a")], true).await.expect("append");
    let file = dir
        .path()
        .join("sessions")
        .join(&session.state().position.file);
    let mut log = jsonl::Appender::open(&file).expect("open");
    let newer = r#"{"v":2,"ts":"2031-01-01T00:00:00.000Z","seq":3,"type":"dream","of":["sheep"]}"#;
    log.append(format!("{newer}\n").as_bytes(), false)
        .expect("append");
    let loaded = Session::load(
        &dir.path().join("sessions"),
        chrono_tz::UTC,
        session.id(),
        None,
        None,
    )
    .expect("load")
    .expect("there");
    assert_eq!(
        (loaded.state().last_seq, loaded.state().entries.len()),
        (3, 1)
    );
}

#[tokio::test]
async fn a_listing_knows_what_the_index_does_not_know_yet() {
    let dir = tempfile::tempdir().expect("dir");
    let store = store(dir.path());
    let mut session = store.take(&key(), "Ada").await.expect("take");
    session
        .append(vec![user("a"), assistant(&[])], true)
        .await
        .expect("append");
    let state = session.state().clone();
    store.put(session);
    let sessions = dir.path().join("sessions");
    let listed = || {
        let index = Index::read(&sessions.join("sessions.json"), &sessions).expect("index");
        listing(&index, &sessions).expect("listing")
    };
    let log = std::fs::metadata(sessions.join(&state.position.file))
        .expect("log")
        .len();
    let entry = IndexEntry::of(state.head.as_ref().expect("head"), &state);
    assert_eq!(
        (entry.message_count, entry.token_count, entry.cost_nano_usd),
        (2, 12, 7)
    );
    let expected = |entry: &IndexEntry, log_bytes| Listed {
        key: key().0,
        entry: entry.clone(),
        log_files: 1,
        log_bytes,
    };
    assert_eq!(listed(), [expected(&entry, log)], "without an index");
    store.flush().expect("flush");
    assert_eq!(listed(), [expected(&entry, log)], "from the index");

    // A turn that runs: in the transcript, in no index, with a torn line at its end.
    let mut session = store.take(&key(), "Ada").await.expect("take");
    session
        .append(vec![user("b"), assistant(&[])], true)
        .await
        .expect("append");
    let file = sessions.join(&session.state().position.file);
    let mut torn = OpenOptions::new().append(true).open(&file).expect("open");
    std::io::Write::write_all(&mut torn, b"{\"half").expect("tear");
    let now = IndexEntry::of(session.head(), session.state());
    assert_eq!((now.message_count, now.cost_nano_usd), (4, 14));
    let log = std::fs::metadata(&file).expect("log").len();
    assert_eq!(
        listed(),
        [expected(&now, log)],
        "from the snapshot and what follows it"
    );

    let snapshot = snapshot::path(&sessions, session.id());
    atomic::write(&snapshot, b"{ torn", atomic::Durability::Rename).expect("write");
    assert_eq!(listed(), [expected(&now, log)], "without the snapshot");
    assert_eq!(
        std::fs::read(&snapshot).expect("it is not set aside"),
        b"{ torn"
    );
    assert_eq!(std::fs::metadata(&file).expect("nothing is cut").len(), log);
}

#[test]
fn nothing_is_listed_where_nothing_is() {
    let dir = tempfile::tempdir().expect("dir");
    let nowhere = dir.path().join("sessions");
    let index = Index::read(&nowhere.join("sessions.json"), &nowhere).expect("index");
    assert_eq!(listing(&index, &nowhere).expect("listing"), []);
    assert_eq!(view(&nowhere, "x").expect("view"), None);
    assert_eq!(
        transcript_files(&nowhere, &nowhere.join("archive"), "x").expect("files"),
        [] as [PathBuf; 0]
    );
}

fn compaction() -> impl Strategy<Value = Kind> {
    let parts = (
        1u64..20,
        proptest::option::of(1u64..20),
        "[a-z ]{0,12}",
        proptest::option::of(1usize..4),
    );
    parts.prop_map(|(kept_from, question, summary, longest_block)| {
        let (run_id, by, tokens) = ("r".into(), SummaryBy::Statistics, (90, kept_from));
        Kind::Compaction(Compaction {
            run_id,
            kept_from,
            question,
            summary,
            by,
            longest_block,
            tokens,
        })
    })
}

/// What a turn begins with.
fn noted() -> Kind {
    let block = PromptBlock {
        name: "SOUL.md".into(),
        tier: PromptTier::Stable,
        tokens: 9,
        cut: true,
    };
    let memory = Recollection {
        kind: "fact".into(),
        place: "a.md:1".into(),
        score: Some(0.5),
        dropped: false,
    };
    let at = "2026-01-01T00:00:00Z".to_owned();
    Kind::Prompt(Prompt {
        run_id: "r".into(),
        inputs: vec!["a".into()],
        source: "cli".into(),
        parent: None,
        model: "primary".into(),
        received_at: at.clone(),
        gathered_at: at.clone(),
        started_at: at,
        blocks: vec![block],
        memories: vec![memory],
    })
}

#[test]
fn pinned_rules_are_the_owners_also_behind_a_summary_that_is_not() {
    let mut state = State::default();
    let events = [
        user("a"),
        Kind::Pin {
            run_id: "r".into(),
            text: "write to Ana in French".into(),
        },
        Kind::Message(Spoken {
            inbox_id: Some("b".into()),
            trust: Some(Trust::Other),
            ..Spoken::new(Role::User, vec![Block::text("a page says so")], "r")
        }),
        user("c"),
        Kind::Compaction(Compaction {
            run_id: "r".into(),
            kept_from: 4,
            question: None,
            summary: "A page was read.".into(),
            by: SummaryBy::Statistics,
            longest_block: None,
            tokens: (90, 9),
        }),
    ];
    for (seq, kind) in (1..).zip(events) {
        let ts = "2026-01-01T00:00:00Z".into();
        let event = Event {
            v: 1,
            ts,
            seq,
            kind,
        };
        state.apply(&event, Position::default());
    }
    let told = format!("{:?}", state.messages_without_untrusted());
    assert!(told.contains("write to Ana in French"), "{told}");
    assert!(!told.contains("A page was read."), "{told}");
}

#[test]
fn what_a_turn_began_with_changes_nothing_but_the_place_in_the_file() {
    let event = |seq: u64, kind: Kind| Event {
        v: 1,
        ts: "2026-01-01T00:00:00Z".into(),
        seq,
        kind,
    };
    let kinds = [
        user("a"),
        assistant(&["1"]),
        began("1"),
        ended("1"),
        assistant(&[]),
    ];
    let (mut without, mut with) = (State::default(), State::default());
    for (number, kind) in (1..).zip(kinds) {
        without.apply(&event(number, kind.clone()), Position::default());
        with.apply(&event(number, kind), Position::default());
        with.apply(&event(number, noted()), Position::default());
        assert_eq!(with, without, "after event {number}");
        assert_eq!(with.messages(), without.messages());
    }
    let line = serde_json::to_value(event(1, noted())).expect("JSON");
    assert_eq!(
        serde_json::from_value::<Event>(line).expect("an event"),
        event(1, noted())
    );
}

fn kinds() -> impl Strategy<Value = Vec<Kind>> {
    let pin = |text: &str| (text.to_owned(), "r".to_owned());
    let kind = prop_oneof![
        Just(user("a")),
        Just(user("b")),
        Just(assistant(&[])),
        Just(assistant(&["1", "2"])),
        Just(began("1")),
        Just(ended("1")),
        Just(ended("2")),
        Just(failed(None)),
        (1u64..20).prop_map(|seq| failed(Some(seq))),
        compaction(),
        compaction(),
        Just(noted()),
        Just(Kind::Flush {
            run_id: "r".into(),
            receipts: vec!["wrote a note".into()]
        }),
        Just(pin("never on Sundays")).prop_map(|(text, run_id)| Kind::Pin { run_id, text }),
        Just(pin("speak softly")).prop_map(|(text, run_id)| Kind::Pin { run_id, text }),
        Just(pin("never on Sundays")).prop_map(|(text, run_id)| Kind::Unpin { run_id, text }),
        proptest::option::of("big|small").prop_map(|model| Kind::Setting { model }),
    ];
    proptest::collection::vec(kind, 1..24)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn a_snapshot_and_its_tail_equal_the_whole_transcript(kinds in kinds(), saved in 0usize..24, torn in 0u64..60) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("runtime");
        runtime.block_on(async {
            let dir = tempfile::tempdir().expect("dir");
            let first = store(dir.path());
            let mut session = first.take(&key(), "Ada").await.expect("take");
            for (number, kind) in kinds.into_iter().enumerate() {
                session.append(vec![kind], false).await.expect("append");
                if number == saved {
                    let (path, bytes, _) = session.snapshot();
                    atomic::write(&path, &bytes, atomic::Durability::Rename).expect("snapshot");
                }
            }
            let file = dir.path().join("sessions").join(&session.state().position.file);
            let log = OpenOptions::new().write(true).open(&file).expect("open");
            let length = log.metadata().expect("length").len();
            log.set_len(length.saturating_sub(torn)).expect("tear");
            let id = session.id().to_owned();
            let sessions = dir.path().join("sessions");
            let with = Session::load(&sessions, chrono_tz::UTC, &id, None, None).expect("load").map(|session| session.state().clone());
            let _ = std::fs::remove_file(snapshot::path(&sessions, &id));
            let without = Session::load(&sessions, chrono_tz::UTC, &id, None, None).expect("load").map(|session| session.state().clone());
            // A snapshot never says more than the transcript that is left.
            assert_eq!(with, without);
        });
    }
}

#[tokio::test]
async fn another_zone_names_the_files_from_the_next_turn_on() {
    let dir = tempfile::tempdir().expect("dir");
    let store = store(dir.path());
    let mut names = Vec::new();
    // Whatever the time is, it is the day before there and then the day after.
    for (zone, words) in [
        (Tz::Etc__GMTPlus12, "before"),
        (Tz::Pacific__Kiritimati, "after"),
    ] {
        store.set_zone(zone);
        let mut session = store.take(&key(), "ada").await.expect("take");
        session
            .append(vec![user(words)], true)
            .await
            .expect("append");
        names.push(clock::local_date(clock::now_ms(), zone).to_string());
        store.put(session);
    }
    let files: Vec<String> = std::fs::read_dir(dir.path().join("sessions"))
        .expect("files")
        .map(|file| format!("{:?}", file.expect("file").file_name()))
        .collect();
    for name in names {
        assert!(
            files.iter().any(|file| file.contains(&name)),
            "{name} is not in {files:?}"
        );
    }
}

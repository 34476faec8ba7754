//! Conversations of years: how long they take to open, and what those see who read while they are written.
//!
//! `SESSION_EVENTS=100000 cargo test --release --test integration long:: -- --nocapture` is the full size and
//! prints figures.
#![allow(clippy::print_stdout, reason = "the figures of a measurement")]

use std::{
    collections::HashMap,
    fs,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    thread,
    time::{Duration, Instant},
};

use agent_toolkit::{
    message::{Block, Role, SessionKey, StopReason, ToolCall, ToolResult, Trust, Usage},
    session::{self, Compaction, Index, Kind, Session, Spoken, Store, SummaryBy},
};
use serde_json::{Value, json};

use crate::support::Sandbox;

/// Events of the long conversation, unless `SESSION_EVENTS` says otherwise: the gate has no time for more.
const EVENTS: u64 = 10_000;
/// Events between two compactions.
const SPAN: u64 = 2_500;

fn store(sandbox: &Sandbox) -> Store {
    let dir = sandbox.path("state/sessions");
    fs::create_dir_all(dir.join("archive")).expect("the sandbox is writable");
    Store::open(
        dir.clone(),
        dir.join("archive"),
        dir.join("sessions.json"),
        chrono_tz::UTC,
    )
    .expect("a store")
}

fn key() -> SessionKey {
    SessionKey("cli:cli".to_owned())
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime")
}

fn user(words: &str) -> Kind {
    let content = vec![
        Block::Context {
            text: "⟦Monday⟧".to_owned(),
        },
        Block::Text {
            text: words.to_owned(),
        },
    ];
    Kind::Message(Spoken {
        inbox_id: Some("i".to_owned()),
        trust: Some(Trust::Owner),
        ..Spoken::new(Role::User, content, "r")
    })
}

fn assistant(content: Vec<Block>, stop: StopReason) -> Kind {
    let usage = Some(Usage {
        input_tokens: 100,
        output_tokens: 20,
        ..Usage::default()
    });
    let model = Some("primary".to_owned());
    Kind::Message(Spoken {
        model,
        usage,
        stop: Some(stop),
        cost_nano_usd: Some(10),
        ..Spoken::new(Role::Assistant, content, "r")
    })
}

/// Returns a turn with one tool: five events.
fn turn(words: &str) -> Vec<Kind> {
    let call = ToolCall {
        id: "t".to_owned(),
        name: "read".to_owned(),
        input: json!({"path": "notes.md"}),
    };
    let result = ToolResult {
        id: "t".to_owned(),
        text: "a line of notes. ".repeat(20),
        is_error: false,
        from: None,
        pictures: Vec::new(),
    };
    vec![
        user(words),
        assistant(vec![Block::ToolCall(call)], StopReason::ToolUse),
        Kind::ToolCall {
            run_id: "r".to_owned(),
            id: "t".to_owned(),
            name: "read".to_owned(),
        },
        Kind::ToolResult {
            run_id: "r".to_owned(),
            name: "read".to_owned(),
            duration_ms: 3,
            receipt: None,
            result,
        },
        assistant(
            vec![Block::Text {
                text: "So it says. ".repeat(20),
            }],
            StopReason::EndTurn,
        ),
    ]
}

fn compaction(session: &Session, kept: u64) -> Kind {
    Kind::Compaction(Compaction {
        run_id: "r".to_owned(),
        kept_from: session.state().last_seq.saturating_sub(kept),
        question: None,
        summary: "They spoke of notes. ".repeat(50),
        by: SummaryBy::Model,
        longest_block: None,
        tokens: (150_000, 50_000),
    })
}

fn median(times: &mut [Duration]) -> Duration {
    times.sort();
    times.get(times.len() / 2).copied().unwrap_or_default()
}

/// Returns the median of five.
fn timed<T>(mut work: impl FnMut() -> T) -> Duration {
    let mut times: Vec<Duration> = (0..5)
        .map(|_| {
            let start = Instant::now();
            work();
            start.elapsed()
        })
        .collect();
    median(&mut times)
}

#[test]
fn a_conversation_of_years_opens_from_its_snapshot_and_grows_at_the_same_pace() {
    let events = std::env::var("SESSION_EVENTS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(EVENTS);
    let sandbox = Sandbox::new();
    let first = store(&sandbox);
    let (id, state, mut early, mut late) = runtime().block_on(async {
        let mut session = first.take(&key(), "cli").await.expect("take");
        let (mut early, mut late) = (Vec::new(), Vec::new());
        while session.state().last_seq < events {
            let seq = session.state().last_seq;
            for kind in turn(&format!("question {seq}")) {
                let start = Instant::now();
                session.append(vec![kind], false).await.expect("append");
                let times = if seq < events / 5 {
                    &mut early
                } else {
                    &mut late
                };
                times.push(start.elapsed());
            }
            if seq / SPAN != session.state().last_seq / SPAN {
                let kind = compaction(&session, SPAN / 3);
                session.append(vec![kind], false).await.expect("append");
            }
        }
        let (id, state) = (session.id().to_owned(), session.state().clone());
        first.put(session);
        (id, state, early, late)
    });
    first.flush().expect("flush");
    let dir = sandbox.path("state/sessions");
    let open = || {
        runtime().block_on(async {
            store(&sandbox)
                .take(&key(), "cli")
                .await
                .expect("take")
                .state()
                .clone()
        })
    };
    let opened = timed(open);
    assert!(open() == state, "opened from the snapshot");
    let viewed = timed(|| session::view(&dir, &id).expect("view"));
    let listed = timed(|| assert_eq!(sandbox.send(&["--sessions", "--json"]).code, 0));
    let told = timed(|| {
        assert_eq!(
            sandbox.send(&["--history", "cli", "--full", "--json"]).code,
            0
        )
    });
    let indexed = timed(|| assert_eq!(sandbox.run("agent-index", &["--full"], "").code, 0));
    let again = timed(|| assert_eq!(sandbox.run("agent-index", &[], "").code, 0));
    let snapshot = dir.join(format!("{id}.state.json"));
    let snapshot_bytes = fs::metadata(&snapshot).expect("a snapshot").len();
    let saved = fs::read(&snapshot).expect("a snapshot");
    let rebuilt = timed(|| {
        fs::remove_file(&snapshot).expect("a snapshot");
        assert!(open() == state, "made again from the transcript");
        sandbox.put(&format!("state/sessions/{id}.state.json"), &saved);
    });
    let (files, bytes) = size(&dir);
    println!(
        "{} events in {files} files, {bytes} bytes; snapshot {snapshot_bytes} bytes",
        state.last_seq
    );
    println!("open {opened:?}, view {viewed:?}, without a snapshot {rebuilt:?}");
    println!(
        "append, the first fifth {:?}, the rest {:?}",
        median(&mut early),
        median(&mut late)
    );
    println!(
        "--sessions {listed:?}, --history --full {told:?}, agent-index --full {indexed:?}, unchanged {again:?}"
    );
    assert!(files > 1, "large files are followed by others");
    assert!(
        opened * 3 < rebuilt,
        "the snapshot saves the reading: {opened:?} {rebuilt:?}"
    );
}

fn size(dir: &Path) -> (usize, u64) {
    let logs = fs::read_dir(dir)
        .expect("a directory")
        .flatten()
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(".jsonl"));
    logs.fold((0, 0), |(files, bytes), entry| {
        (
            files + 1,
            bytes + entry.metadata().map_or(0, |meta| meta.len()),
        )
    })
}

// ------------------------------------------------------------------ who reads meanwhile

/// Fails when what is seen of a session is less than what was seen before.
fn never_less(seen: &mut HashMap<String, u64>, id: &str, count: u64) {
    let before = seen.entry(id.to_owned()).or_default();
    assert!(count >= *before, "{id}: {count} after {before}");
    *before = count;
}

#[test]
fn who_reads_while_a_conversation_is_written_and_archived_sees_what_once_was() {
    let sandbox = Sandbox::new();
    let dir = sandbox.path("state/sessions");
    let writer = store(&sandbox);
    let (ended, views, asked) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let mut seen = HashMap::new();
                while !ended.load(Ordering::Relaxed) {
                    let index = Index::read(&dir.join("sessions.json"), &dir).expect("the index");
                    for listed in session::listing(&index, &dir).expect("a listing") {
                        let id = &listed.entry.session_id;
                        never_less(&mut seen, id, listed.entry.message_count);
                        let Some(state) = session::view(&dir, id).expect("a view") else {
                            continue;
                        };
                        never_less(&mut seen, id, state.message_count);
                        let words = state
                            .entries
                            .first()
                            .map(|entry| entry.message.content.clone());
                        assert!(
                            state.compaction_count == 0
                                || format!("{words:?}").contains("They spoke of notes."),
                            "{words:?}"
                        );
                        views.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        for arguments in [
            &["--sessions", "--json"][..],
            &["--history", "cli", "--full", "--json"],
        ] {
            let (sandbox, ended, asked) = (&sandbox, &ended, &asked);
            scope.spawn(move || {
                while !ended.load(Ordering::Relaxed) {
                    let told = sandbox.send(arguments);
                    assert_eq!(told.code, 0, "{told:?}");
                    let document = told.json();
                    let events = document["events"].as_array().cloned().unwrap_or_default();
                    let seqs: Vec<u64> = events
                        .iter()
                        .filter_map(|event| event["seq"].as_u64())
                        .collect();
                    assert_eq!(
                        seqs,
                        (1..=seqs.len() as u64).collect::<Vec<u64>>(),
                        "{arguments:?}: from the first event on, none left out"
                    );
                    asked.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let done = thread::Builder::new()
            .spawn_scoped(scope, || write(&writer))
            .expect("a thread")
            .join();
        ended.store(true, Ordering::Relaxed);
        done.expect("the writer");
    });
    assert!(
        views.load(Ordering::Relaxed) > 20 && asked.load(Ordering::Relaxed) > 4,
        "{views:?} {asked:?}"
    );
    let archived: Value = sandbox.send(&["--sessions", "--json"]).json();
    assert_eq!(archived["sessions"].as_array().map(Vec::len), Some(0));
}

/// Writes conversations one after the other, each of several files, and archives them.
fn write(store: &Store) {
    let end = Instant::now() + Duration::from_secs(4);
    while Instant::now() < end {
        runtime().block_on(async {
            for number in 0..6 {
                let mut session = store.take(&key(), "cli").await.expect("take");
                session
                    .append(turn(&format!("{number} {}", "x".repeat(400_000))), true)
                    .await
                    .expect("append");
                if number % 2 == 1 {
                    let kind = compaction(&session, 2);
                    session.append(vec![kind], true).await.expect("append");
                }
                store.put(session);
                store.flush().expect("flush");
            }
        });
        store.reset(&key()).expect("reset");
        store.flush().expect("flush");
    }
}

use super::*;
use crate::message::{
    Button, ChatRef, Command, Envelope, Route, Sender, SessionKey, Source, Trust,
};

fn envelope(id: &str) -> Envelope {
    let sender = Sender {
        id: "1001".into(),
        name: "Ada".into(),
        username: None,
    };
    let key = SessionKey("agent:agent:telegram:dm:1001".into());
    let envelope = Envelope::new(id.to_owned(), Source::Telegram, sender, key, "hi".into(), 5);
    Envelope {
        from_owner: true,
        trust: Trust::Owner,
        route: Some(route()),
        ..envelope
    }
}

fn route() -> Route {
    Route {
        channel: "telegram".into(),
        chat: ChatRef {
            chat: "1001".into(),
            topic: None,
        },
    }
}

fn arrival(id: &str) -> Arrival {
    Arrival {
        digest: None,
        key: id.to_owned(),
        verdict: Verdict::Accept(vec![envelope(id)]),
    }
}

fn part(text: &str) -> NewPart {
    NewPart {
        markup: Some(text.to_owned()),
        ..NewPart::plain(route(), text.to_owned())
    }
}

fn finish(id: &str, texts: &[&str]) -> Finish {
    Finish {
        run_id: "r1".into(),
        inbox_ids: vec![id.into()],
        ended: Ended::Done,
        result: None,
        parts: texts.iter().map(|text| part(text)).collect(),
        sends_at_once: false,
        note: None,
        subagent: None,
        tainted: false,
        tasks: Vec::new(),
    }
}

fn run(id: &str, inbox: &str) -> Started {
    Started::Run {
        run_id: id.into(),
        inbox_ids: vec![inbox.into()],
        heard: Heard::default(),
    }
}

async fn store() -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().expect("dir");
    let store = Store::start(&dir.path().join("queue.db")).expect("store");
    (dir, store)
}

#[tokio::test]
async fn the_same_input_twice_is_accepted_once() {
    let (_dir, store) = store().await;
    let (first, _) = store
        .accept(vec![arrival("tg:1:7"), arrival("tg:1:7")], Some((1, 8)), 10)
        .await
        .expect("accept");
    let (second, _) = store
        .accept(vec![arrival("tg:1:7")], Some((1, 8)), 11)
        .await
        .expect("accept");
    assert_eq!((first.len(), second.len()), (1, 0));
    assert_eq!(store.offset(1).await.expect("offset"), Some((8, 11)));
}

#[tokio::test]
async fn a_refused_input_leaves_its_key_and_its_notice_only() {
    let (dir, store) = store().await;
    let refuse = |notice| Arrival {
        digest: None,
        key: "tg:1:9".into(),
        verdict: Verdict::Refuse(notice),
    };
    let (accepted, notices) = store
        .accept(vec![refuse(Some(part("code")))], None, 10)
        .await
        .expect("accept");
    let again = store
        .accept(vec![refuse(Some(part("code")))], None, 10)
        .await
        .expect("accept");
    assert_eq!((accepted.len(), notices.len(), again.1.len()), (0, 1, 0));
    assert_eq!(
        counts(&dir.path().join("queue.db")).expect("counts"),
        super::view::Counts {
            inbox: 0,
            outbox: 1,
            dead: 0
        }
    );
}

#[tokio::test]
async fn only_the_answer_of_an_ended_input_is_known_to_be_clean() {
    let (_dir, store) = store().await;
    let stranger = Arrival {
        digest: None,
        key: "tg:1:9".into(),
        verdict: Verdict::Refuse(Some(part("Eve asks to talk to me"))),
    };
    let arrivals = vec![stranger, arrival("clean"), arrival("tainted")];
    let (_, notices) = store.accept(arrivals, None, 10).await.expect("accept");
    let mut parts = notices;
    for id in ["clean", "tainted"] {
        let key = &envelope("a").session_key;
        let run_id = format!("run of {id}");
        let started = store.start_run(&run_id, key, &[id.to_owned()]).await;
        started.expect("start");
        let ended = Finish {
            run_id,
            tainted: id == "tainted",
            parts: vec![part("an answer")],
            ..finish(id, &[])
        };
        let ended = store.finish(ended, 12).await;
        parts.extend(ended.expect("finish").expect("parts").parts);
    }
    for (number, (part, expected)) in parts.into_iter().zip([true, false, true]).enumerate() {
        let message_id = number.to_string();
        let sent = Aftermath::Sent {
            message_id: message_id.clone(),
        };
        store.settle(part.id, sent, 13).await.expect("settle");
        let known = store.is_untrusted(part.content.route, message_id).await;
        assert_eq!(known.expect("read"), Some(expected), "{number}");
    }
}

#[tokio::test]
async fn what_was_running_or_being_sent_comes_back() {
    let (_dir, store) = store().await;
    store
        .accept(vec![arrival("a"), arrival("b")], None, 10)
        .await
        .expect("accept");
    assert_eq!(
        store
            .start_run("r1", &envelope("a").session_key, &["a".to_owned()])
            .await
            .expect("start"),
        run("r1", "a")
    );
    let parts = store
        .finish(finish("a", &["one", "two"]), 12)
        .await
        .expect("finish")
        .expect("parts")
        .parts;
    store.sending(parts[0].id, 13).await.expect("sending");
    assert_eq!(
        store
            .start_run("r2", &envelope("a").session_key, &["b".to_owned()])
            .await
            .expect("start"),
        run("r2", "b")
    );
    let back = store.recover(Vec::new(), 0).await.expect("recover");
    assert_eq!(
        back.inbox
            .iter()
            .map(|row| (row.envelope.id.as_str(), row.attempts))
            .collect::<Vec<_>>(),
        [("b", 1)]
    );
    assert_eq!(
        back.outbox
            .iter()
            .map(|part| (part.content.plain.as_str(), part.unknowns))
            .collect::<Vec<_>>(),
        [("one", 1), ("two", 0)]
    );
}

#[tokio::test]
async fn what_leaves_at_once_is_in_doubt_after_a_crash_unless_it_was_given_back() {
    let (_dir, store) = store().await;
    let arrivals = vec![arrival("a"), arrival("b")];
    store.accept(arrivals, None, 10).await.expect("accept");
    let mut parts = Vec::new();
    for id in ["a", "b"] {
        let finish = Finish {
            sends_at_once: true,
            ..finish(id, &["one", "two"])
        };
        let stored = store.finish(finish, 12).await.expect("finish");
        parts.extend(stored.expect("parts").parts);
    }
    let claimed: Vec<_> = parts
        .iter()
        .map(|part| (part.is_claimed, part.sending_at))
        .collect();
    let expected = [(true, Some(12)), (false, None)];
    assert_eq!(claimed, [expected, expected].concat());
    let not_sent = store.settle(parts[2].id, Aftermath::NotSent, 13).await;
    not_sent.expect("settle");
    let back = store.recover(Vec::new(), 0).await.expect("recover").outbox;
    let doubts: Vec<_> = back
        .iter()
        .map(|part| (part.unknowns, part.is_claimed))
        .collect();
    assert_eq!(doubts, [(1, false), (0, false), (0, false), (0, false)]);
}

#[tokio::test]
async fn a_question_comes_back_with_its_buttons() {
    let (_dir, store) = store().await;
    store
        .accept(vec![arrival("a")], None, 10)
        .await
        .expect("accept");
    let button = |label: &str, data: &str| Button {
        label: label.into(),
        data: data.into(),
    };
    let buttons = vec![
        vec![
            button("Approve", "a:y:k3f9w2"),
            button("Deny", "a:n:k3f9w2"),
        ],
        vec![button("x", "y")],
    ];
    let question = NewPart {
        buttons,
        asks: Some("b1".into()),
        ..part("May I?")
    };
    let stored = store
        .finish(
            Finish {
                parts: vec![question.clone(), part("more")],
                ..finish("a", &[])
            },
            12,
        )
        .await;
    let stored = stored.expect("finish").expect("parts").parts;
    assert_eq!(
        store.recover(Vec::new(), 0).await.expect("recover").outbox,
        stored
    );
    assert_eq!(
        stored
            .into_iter()
            .map(|part| part.content)
            .collect::<Vec<_>>(),
        [question, part("more")]
    );
}

#[tokio::test]
async fn a_stop_ends_what_came_before_it_and_nothing_else() {
    let (dir, store) = store().await;
    let mut waited_for = arrival("waited-for");
    waited_for.verdict = Verdict::Accept(vec![Envelope {
        wants_reply: true,
        ..envelope("waited-for")
    }]);
    let (rows, _) = store
        .accept(
            vec![
                arrival("running"),
                waited_for,
                arrival("stop"),
                arrival("after"),
            ],
            None,
            10,
        )
        .await
        .expect("accept");
    store
        .start_run("r1", &envelope("a").session_key, &["running".to_owned()])
        .await
        .expect("start");
    let stopped = store
        .stop(
            Stop::Session {
                before: rows[2].seq,
                key: SessionKey("agent:agent:telegram:dm:1001".into()),
            },
            11,
        )
        .await
        .expect("stop");
    assert_eq!(
        stopped
            .iter()
            .map(|one| (one.inbox_id.as_str(), one.wants_reply))
            .collect::<Vec<_>>(),
        [("running", false), ("waited-for", true)]
    );
    assert!(
        store
            .finish(finish("running", &["late answer"]), 12)
            .await
            .expect("finish")
            .is_none(),
        "it has nothing to say any more"
    );
    assert_eq!(
        store
            .start_run("r2", &envelope("a").session_key, &["waited-for".to_owned()])
            .await
            .expect("start"),
        Started::Gone
    );
    assert_eq!(
        store
            .start_run("r3", &envelope("a").session_key, &["after".to_owned()])
            .await
            .expect("start"),
        run("r3", "after")
    );
    let told = result(&dir.path().join("queue.db"), "waited-for")
        .expect("result")
        .expect("told");
    assert_eq!(told.error.as_deref(), Some("stopped"));
    let all = Stop::All {
        before: rows[2].seq,
    };
    assert_eq!(store.stop(all, 13).await.expect("again"), []);
}

#[tokio::test]
async fn a_run_keeps_its_id_over_restarts() {
    let (_dir, store) = store().await;
    store
        .accept(vec![arrival("a")], None, 10)
        .await
        .expect("accept");
    assert_eq!(
        store
            .start_run("r1", &envelope("a").session_key, &["a".to_owned()])
            .await
            .expect("start"),
        run("r1", "a")
    );
    store.recover(Vec::new(), 0).await.expect("recover");
    assert_eq!(
        store
            .start_run("r2", &envelope("a").session_key, &["a".to_owned()])
            .await
            .expect("start"),
        run("r1", "a")
    );
}

#[tokio::test]
async fn a_broken_off_run_is_no_death() {
    let (_dir, store) = store().await;
    store
        .accept(vec![arrival("a")], None, 10)
        .await
        .expect("accept");
    store
        .start_run("r1", &envelope("a").session_key, &["a".to_owned()])
        .await
        .expect("start");
    store.release_run(&["a".to_owned()]).await.expect("release");
    assert_eq!(
        store.recover(Vec::new(), 0).await.expect("recover").inbox[0].attempts,
        0
    );
}

#[tokio::test]
async fn a_dead_part_is_a_dead_letter() {
    let (dir, store) = store().await;
    store
        .accept(vec![arrival("a")], None, 10)
        .await
        .expect("accept");
    let parts = store
        .finish(finish("a", &["x"]), 11)
        .await
        .expect("finish")
        .expect("parts")
        .parts;
    store
        .settle(
            parts[0].id,
            Aftermath::Dead {
                reason: "blocked".into(),
            },
            12,
        )
        .await
        .expect("settle");
    let listing = listing(&dir.path().join("queue.db")).expect("listing");
    assert_eq!(
        listing
            .dead
            .iter()
            .map(|dead| dead.reason.as_str())
            .collect::<Vec<_>>(),
        ["blocked"]
    );
    assert!(listing.outbox.is_empty());
    // The agent reads of it once, in the next turn of that conversation.
    let found = heard_by(&store, &envelope("a").session_key).await;
    assert_eq!(
        found
            .notes
            .iter()
            .map(|note| note.text.as_str())
            .collect::<Vec<_>>(),
        ["your message \"x\" did not arrive: blocked"]
    );
    store
        .forget_notes(&envelope("a").session_key, found.newest.expect("a note"))
        .await
        .expect("forget");
    assert_eq!(
        heard_by(&store, &envelope("a").session_key).await,
        Heard::default()
    );
}

async fn heard_by(store: &Store, session: &SessionKey) -> Heard {
    let session = session.clone();
    let read = store
        .writer
        .write_lazily(move |connection| context_notes::of(connection, &session));
    read.await.expect("notes")
}

#[tokio::test]
async fn fifty_notes_are_kept_and_the_newest_are_those() {
    let (_dir, store) = store().await;
    let key = SessionKey("agent:a:telegram:group:-1".into());
    let note = |at| Note {
        sender: None,
        message_id: None,
        who: Some("Eve".into()),
        of_owner: false,
        at,
        text: at.to_string(),
    };
    let heard = |at: i64| Arrival {
        digest: None,
        key: format!("tg:1:{at}"),
        verdict: Verdict::Note(key.clone(), note(at)),
    };
    let (accepted, _) = store
        .accept((1..=60).map(heard).collect(), None, 1)
        .await
        .expect("accept");
    store
        .accept(vec![heard(60)], None, 1)
        .await
        .expect("the same again");
    let notes = heard_by(&store, &key).await.notes;
    assert_eq!((accepted.len(), notes), (0, (11..=60).map(note).collect()));
}

#[tokio::test]
async fn inputs_of_one_run_start_end_and_come_back_together() {
    let (_dir, store) = store().await;
    store
        .accept(vec![arrival("a"), arrival("b"), arrival("c")], None, 10)
        .await
        .expect("accept");
    let both = ["a".to_owned(), "b".to_owned()];
    let started = store
        .start_run("r1", &envelope("a").session_key, &both)
        .await
        .expect("start");
    assert_eq!(
        started,
        Started::Run {
            run_id: "r1".into(),
            inbox_ids: both.to_vec(),
            heard: Heard::default(),
        }
    );
    let back = store.recover(Vec::new(), 0).await.expect("recover").inbox;
    let runs: Vec<_> = back
        .iter()
        .map(|row| {
            (
                row.envelope.id.as_str(),
                row.run_id.as_deref(),
                row.attempts,
            )
        })
        .collect();
    assert_eq!(
        runs,
        [("a", Some("r1"), 1), ("b", Some("r1"), 1), ("c", None, 0)]
    );
    store
        .stop(Stop::All { before: 2 }, 11)
        .await
        .expect("stop what came before the second");
    let started = store
        .start_run("r2", &envelope("a").session_key, &both)
        .await
        .expect("start");
    assert_eq!(
        started,
        Started::Run {
            run_id: "r1".into(),
            inbox_ids: vec!["b".into()],
            heard: Heard::default(),
        }
    );
    let finish = Finish {
        inbox_ids: vec!["b".into(), "a".into()],
        ..finish("b", &["one answer"])
    };
    assert_eq!(
        store
            .finish(finish, 12)
            .await
            .expect("finish")
            .map(|done| done.parts.len()),
        Some(1)
    );
}

#[tokio::test]
async fn what_waits_behind_a_suspended_turn_is_not_left_to_do() {
    let (_dir, store) = store().await;
    let of = |id: &str, session: &str, command| {
        let own = envelope(id);
        Arrival {
            verdict: Verdict::Accept(vec![Envelope {
                session_key: SessionKey(session.to_owned()),
                command,
                ..own
            }]),
            ..arrival(id)
        }
    };
    let lane = envelope("a").session_key.0;
    let model = Command::Model { choice: None };
    store
        .accept(
            vec![
                of("a", &lane, None),
                of("behind", &lane, None),
                of("elsewhere", "agent:agent:telegram:dm:2", None),
                of("choice", &lane, Some(model)),
            ],
            None,
            10,
        )
        .await
        .expect("accept");
    let left = async || {
        let left = store.unfinished(vec!["telegram".to_owned()], 1_000).await;
        left.expect("counted").0
    };
    assert_eq!(left().await, 4);
    let first = ["a".to_owned()];
    let session = SessionKey(lane);
    store
        .start_run("r1", &session, &first)
        .await
        .expect("start");
    assert_eq!(left().await, 4, "the lane goes on");
    let mut waits = Suspended {
        since: 10,
        wake_at: 60_000,
        waits_for: "The model".to_owned(),
        detail: "503".to_owned(),
        on: WaitsOn::Time,
        tries: 1,
        faults: 0,
    };
    assert!(store.suspend(&first, &waits).await.expect("suspended"));
    assert_eq!(left().await, 2, "another lane, and a choice of the model");
    store
        .start_run("r1", &session, &first)
        .await
        .expect("start");
    waits.wake_at = 500;
    assert!(store.suspend(&first, &waits).await.expect("suspended"));
    assert_eq!(left().await, 4, "it goes on soon");
    // Of what waits for a model a start can be the next try; a time is waited for.
    for (on, expected) in [
        (WaitsOn::Time, 2),
        (WaitsOn::Model("primary".to_owned()), 4),
    ] {
        store
            .start_run("r1", &session, &first)
            .await
            .expect("start");
        waits = Suspended {
            wake_at: 60_000,
            on,
            ..waits
        };
        assert!(store.suspend(&first, &waits).await.expect("suspended"));
        store.try_models_at(20).await.expect("written");
        assert_eq!(left().await, expected, "{:?}", waits.on);
    }
}

//! Graphs of tasks, with a clock of their own.

use super::*;
use crate::message::{ChatRef, Route, Sender, Source};
use crate::queue::{Aftermath, Arrival, Ended, Finish, Request, Verdict, Which};

const KEY: &str = "agent:a:telegram:dm:1002";

struct Bench {
    _dir: tempfile::TempDir,
    store: Store,
}

fn task(id: &str, kind: &'static str, depends_on: &[&str], lead_ms: i64) -> NewTask {
    NewTask {
        id: id.into(),
        kind,
        depends_on: depends_on.iter().map(|id| (*id).to_owned()).collect(),
        lead_ms,
        task: format!("{{\"id\":{id:?}}}"),
        answer: "[…]".into(),
    }
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let store = Store::start(&dir.path().join("queue.db")).expect("store");
        Self { _dir: dir, store }
    }

    async fn accept(&self, id: &str, now: i64) {
        let sender = Sender {
            id: "1002".into(),
            name: "Ana".into(),
            username: None,
        };
        let mut envelope = Envelope::new(
            id.into(),
            Source::Telegram,
            sender,
            SessionKey(KEY.into()),
            "hi".into(),
            now,
        );
        envelope.reply_to = Some("57".into());
        let arrival = Arrival {
            digest: None,
            key: id.into(),
            verdict: Verdict::Accept(vec![envelope]),
        };
        self.store
            .accept(vec![arrival], None, now)
            .await
            .expect("accepted");
    }

    async fn finish(&self, id: &str, tasks: Vec<NewTask>, now: i64) {
        let finish = Finish {
            run_id: format!("run-{id}"),
            inbox_ids: vec![id.into()],
            ended: Ended::Done,
            result: None,
            parts: Vec::new(),
            sends_at_once: false,
            note: None,
            subagent: None,
            tainted: false,
            tasks,
        };
        self.store
            .finish(finish, now)
            .await
            .expect("finished")
            .expect("it was open");
    }

    /// The ready tasks as `id@due`.
    async fn ready(&self) -> Vec<String> {
        let ready = self.store.ready_tasks().await.expect("tasks");
        ready
            .iter()
            .map(|task| format!("{}@{}", task.id, task.due_at))
            .collect()
    }

    async fn first(&self) -> ReadyTask {
        self.store
            .ready_tasks()
            .await
            .expect("tasks")
            .into_iter()
            .next()
            .expect("a task")
    }

    async fn states(&self) -> Vec<String> {
        let told = self
            .store
            .told_tasks(&SessionKey(KEY.into()))
            .await
            .expect("told");
        told.into_iter().map(|told| told.state).collect()
    }
}

fn part() -> NewPart {
    let route = Route {
        channel: "telegram".into(),
        chat: ChatRef {
            chat: "1002".into(),
            topic: None,
        },
    };
    NewPart::plain(route, "hi".into())
}

#[tokio::test]
async fn a_wait_begins_when_it_is_unblocked_and_each_task_is_done_once() {
    let bench = Bench::new();
    bench.accept("m1", 0).await;
    let graph = vec![
        task("a", "send", &[], 2_000),
        task("b", "wait", &["a"], 5_000),
        task("c", "send", &["a", "b"], 100),
    ];
    bench.finish("m1", graph, 1_000).await;
    assert_eq!(bench.ready().await, ["a@3000"]);
    let first = bench.first().await;
    let done = bench
        .store
        .complete_task(&first, vec![part()], None, 3_500)
        .await
        .expect("done");
    let (parts, _) = done.expect("it was open");
    let sent = Aftermath::Sent {
        message_id: "58".into(),
    };
    let id = parts.first().expect("a part").id;
    bench.store.settle(id, sent, 3_500).await.expect("settled");
    assert_eq!(bench.ready().await, ["b@8500"]);
    let again = bench
        .store
        .complete_task(&first, vec![part()], None, 3_600)
        .await
        .expect("done");
    assert_eq!(again, None, "nothing is sent twice");
    let wait = bench.first().await;
    bench
        .store
        .complete_task(&wait, Vec::new(), None, 9_000)
        .await
        .expect("done");
    assert_eq!(bench.ready().await, ["c@9100"]);
    assert_eq!(bench.states().await, ["done", "ready"]);
}

#[tokio::test]
async fn a_new_message_cancels_what_is_open_and_not_what_is_done() {
    let bench = Bench::new();
    bench.accept("m1", 0).await;
    bench
        .finish(
            "m1",
            vec![task("a", "send", &[], 0), task("b", "send", &["a"], 0)],
            0,
        )
        .await;
    let first = bench.first().await;
    bench
        .store
        .complete_task(&first, Vec::new(), None, 1)
        .await
        .expect("done");
    let second = bench.first().await;
    bench.accept("m2", 2).await;
    assert_eq!(bench.states().await, ["done", "cancelled"]);
    let late = bench
        .store
        .complete_task(&second, vec![part()], None, 3)
        .await
        .expect("done");
    assert_eq!(late, None);
    // A plan that was made before the newest message came is not carried out.
    bench.accept("m3", 4).await;
    bench.finish("m2", vec![task("c", "send", &[], 0)], 5).await;
    assert_eq!(bench.ready().await, [] as [String; 0]);
    bench.finish("m3", vec![task("d", "send", &[], 0)], 6).await;
    assert_eq!(bench.ready().await, ["d@6"]);
}

#[tokio::test]
async fn a_failing_task_is_tried_ten_times_again_and_then_its_graph_is_dropped() {
    let bench = Bench::new();
    bench.accept("m1", 0).await;
    bench
        .finish(
            "m1",
            vec![
                task("a", "sticker", &[], 4_000),
                task("b", "send", &["a"], 0),
            ],
            0,
        )
        .await;
    let mut now = 4_000;
    for retry in 1..=10 {
        let failing = bench.first().await;
        assert_eq!(failing.id, "a");
        let after = bench
            .store
            .fail_task(&failing, "no net", true, now)
            .await
            .expect("failed");
        assert_eq!(after, AfterFailure::Again, "{retry}");
        now += 10_000;
        assert_eq!(bench.ready().await, [format!("retry-1-{retry}@{now}")]);
        let pause = bench.first().await;
        bench
            .store
            .complete_task(&pause, Vec::new(), None, now)
            .await
            .expect("done");
    }
    let failing = bench.first().await;
    let after = bench
        .store
        .fail_task(&failing, "no net", true, now)
        .await
        .expect("failed");
    assert_eq!(after, AfterFailure::GivenUp);
    assert_eq!(bench.states().await, ["dead", "cancelled"]);
    let progress = bench
        .store
        .progress_of(vec!["m1".into()])
        .await
        .expect("progress");
    let progress = progress.into_iter().next().flatten().expect("an input");
    assert_eq!(
        (progress.state.as_str(), progress.reason.as_deref()),
        ("dead", Some("its plan was given up: no net"))
    );
    // The next message begins a plan of its own.
    bench.accept("m2", now).await;
    bench
        .finish("m2", vec![task("a", "send", &[], 0)], now)
        .await;
    assert_eq!(bench.ready().await.len(), 1);
}

/// Has the first task done with a message of `count` parts, and returns their rows.
async fn send(bench: &Bench, count: usize, now: i64) -> Vec<i64> {
    let done = bench
        .store
        .complete_task(&bench.first().await, vec![part(); count], None, now)
        .await;
    let (parts, _) = done.expect("stored").expect("it was open");
    parts.iter().map(|part| part.id).collect()
}

#[tokio::test]
async fn a_message_that_does_not_go_out_is_tried_ten_times_again_and_nothing_overtakes_it() {
    let bench = Bench::new();
    bench.accept("m1", 0).await;
    let graph = vec![
        task("a", "send", &[], 0),
        task("b", "wait", &["a"], 9),
        task("c", "send", &[], 500_000),
    ];
    bench.finish("m1", graph, 0).await;
    let parts = send(&bench, 2, 0).await;
    assert_eq!(bench.ready().await, ["c@500000"], "b waits until a arrived");
    let sent = Aftermath::Sent {
        message_id: "58".into(),
    };
    bench
        .store
        .settle(parts[0], sent.clone(), 1)
        .await
        .expect("settled");
    assert_eq!(bench.ready().await, ["c@500000"], "half of it has");
    let mut now = 1;
    for retry in 1..=10 {
        let postponed = bench.store.postpone(parts[1], "no net", now).await;
        assert_eq!(postponed.expect("stored"), Postponed::Held, "{retry}");
        let open = bench
            .store
            .recover(Vec::new(), now)
            .await
            .expect("rows")
            .outbox;
        assert_eq!(open, [], "nobody sends it before its time");
        now += 10_000;
        let pause = bench.first().await;
        assert_eq!((pause.kind.as_str(), pause.due_at), ("wait", now));
        let done = bench
            .store
            .complete_task(&pause, Vec::new(), None, now)
            .await;
        done.expect("done");
        let again = bench.first().await;
        assert!(again.id == "a" && again.is_stored);
        let done = bench
            .store
            .complete_task(&again, Vec::new(), None, now)
            .await;
        let (open, _) = done.expect("done").expect("it was open");
        let open: Vec<i64> = open.iter().map(|part| part.id).collect();
        assert_eq!(open, [parts[1]], "what arrived is not sent again");
    }
    let postponed = bench.store.postpone(parts[1], "no net", now).await;
    assert_eq!(postponed.expect("stored"), Postponed::GivenUp);
    assert_eq!(bench.ready().await, [] as [String; 0]);
    assert_eq!(bench.states().await, ["dead", "cancelled"]);
    let dead = bench
        .store
        .retry_dead(Which::default())
        .await
        .expect("read");
    assert_eq!(dead.outbox.len(), 1, "the message is a dead letter");
    let again = bench.store.postpone(parts[1], "no net", now).await;
    assert_eq!(
        again.expect("read"),
        Postponed::No,
        "its plan is over: it goes out as any message"
    );
}

#[tokio::test]
async fn a_message_that_did_not_go_out_is_not_said_after_a_newer_one_came() {
    for is_early in [true, false] {
        let bench = Bench::new();
        bench.accept("m1", 0).await;
        bench.finish("m1", vec![task("a", "send", &[], 0)], 0).await;
        let parts = send(&bench, 1, 0).await;
        if is_early {
            bench.accept("m2", 1).await;
        }
        let postponed = bench.store.postpone(parts[0], "no net", 2).await;
        assert_eq!(postponed.expect("stored"), Postponed::Held);
        if !is_early {
            bench.accept("m2", 3).await;
        }
        assert_eq!(bench.states().await, ["cancelled"]);
        let open = bench
            .store
            .recover(Vec::new(), 3)
            .await
            .expect("rows")
            .outbox;
        assert_eq!(open, []);
        let dead = bench
            .store
            .retry_dead(Which::default())
            .await
            .expect("read");
        assert_eq!(dead.outbox, []);
    }
}

#[tokio::test]
async fn words_that_do_not_arrive_end_what_follows_and_were_never_said() {
    for (reaction, expected) in [
        (None, ["dead", "cancelled"]),
        (Some("🦄"), ["dead", "ready"]),
    ] {
        let bench = Bench::new();
        bench.accept("m1", 0).await;
        let graph = vec![task("a", "send", &[], 0), task("b", "send", &["a"], 9)];
        bench.finish("m1", graph, 0).await;
        let part = NewPart {
            reaction: reaction.map(str::to_owned),
            ..part()
        };
        let done = bench
            .store
            .complete_task(&bench.first().await, vec![part], None, 1)
            .await;
        let (parts, _) = done.expect("stored").expect("it was open");
        let id = parts.first().expect("a part").id;
        let dead = Aftermath::Dead {
            reason: "blocked by the user".into(),
        };
        bench.store.settle(id, dead, 2).await.expect("settled");
        assert_eq!(bench.states().await, expected);
    }
}

#[tokio::test]
async fn what_cannot_succeed_is_given_up_at_once() {
    let bench = Bench::new();
    bench.accept("m1", 0).await;
    let graph = vec![
        task("a", "send_media", &[], 0),
        task("b", "send", &["a"], 0),
        task("c", "send", &["b"], 0),
        task("d", "send", &[], 5),
    ];
    bench.finish("m1", graph, 0).await;
    let failing = bench.first().await;
    let after = bench
        .store
        .fail_task(&failing, "no such set", false, 1)
        .await
        .expect("failed");
    assert_eq!(after, AfterFailure::GivenUp);
    assert_eq!(bench.ready().await, ["d@5"], "the others go on");
    assert_eq!(
        bench.states().await,
        ["dead", "cancelled", "cancelled", "ready"]
    );
}

#[tokio::test]
async fn a_task_that_asks_the_owner_waits_for_them_and_not_for_its_partner() {
    let bench = Bench::new();
    bench.accept("1", 0).await;
    let tasks = vec![
        task("a", "xsend", &[], 0),
        task("b", "send", &["a"], 0),
        task("c", "block", &[], 0),
    ];
    bench.finish("1", tasks, 0).await;
    let asking = bench.first().await;
    let request = Request {
        id: "abc234".into(),
        batch: "abc234".into(),
        session_key: KEY.into(),
        session_id: KEY.into(),
        inbox_id: "1".into(),
        run_id: asking.run_id.clone(),
        call_id: call_id(&asking.id),
        tool: "message".into(),
        question: "psst".into(),
        why: "it may".into(),
        bound: "0".into(),
        rule: None,
        wanted: None,
        created_at: 0,
        expires_at: 900_000,
    };
    let asked = bench.store.ask(vec![request], |_| Vec::new()).await;
    assert_eq!(asked.expect("asked").ids, ["abc234"]);
    assert_eq!(
        bench.ready().await,
        ["a@0", "b@0", "c@0"],
        "the rest goes on"
    );
    bench.accept("2", 1).await;
    assert_eq!(bench.states().await, ["ready", "cancelled", "cancelled"]);
    let done = bench
        .store
        .complete_task(&asking, vec![part()], None, 2)
        .await
        .expect("done");
    assert_eq!(done.map(|(parts, _)| parts.len()), Some(1));
    assert_eq!(bench.states().await, ["done", "cancelled", "cancelled"]);
}

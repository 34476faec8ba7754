//! The timing: which call is made when, with a paused clock.

use parking_lot::Mutex;
use std::collections::VecDeque;

use super::*;
use crate::channel::{Health, Outgoing, Rendered};
use crate::message::{ChatRef, SessionKey, Step};

/// A channel that writes down what is called and when, in milliseconds.
struct Recorder {
    began: Instant,
    calls: Mutex<Vec<String>>,
    /// What the next calls answer; then all is well.
    answers: Mutex<VecDeque<(&'static str, SendError)>>,
    /// How long a call takes.
    slow: Vec<(&'static str, u64)>,
}

impl Recorder {
    fn call(&self, method: &'static str, text: &str) -> BoxFuture<'_, Result<(), SendError>> {
        self.calls.lock().push(format!(
            "{} {method}{text}",
            self.began.elapsed().as_millis()
        ));
        let mut answers = self.answers.lock();
        let at = answers.iter().position(|(of, _)| *of == method);
        let answer = at
            .and_then(|at| answers.remove(at))
            .map_or(Ok(()), |(_, error)| Err(error));
        let slow = self
            .slow
            .iter()
            .find(|(of, _)| *of == method)
            .map_or(0, |(_, ms)| *ms);
        Box::pin(async move {
            sleep(Duration::from_millis(slow)).await;
            answer
        })
    }
}

impl Channel for Recorder {
    fn name(&self) -> &'static str {
        "recorder"
    }

    fn render(&self, _: &str) -> Vec<Rendered> {
        Vec::new()
    }

    fn plain(&self, _: &str) -> Vec<Rendered> {
        Vec::new()
    }

    fn send<'a>(&'a self, _: Outgoing<'a>) -> BoxFuture<'a, Result<String, SendError>> {
        Box::pin(async { Err(SendError::Unknown("nothing is sent here".to_owned())) })
    }

    fn show<'a>(
        &'a self,
        _: &'a ChatRef,
        text: &'a str,
    ) -> BoxFuture<'a, Result<String, SendError>> {
        let call = self.call("show", &format!(" {text}"));
        Box::pin(async { call.await.map(|()| "m".to_owned()) })
    }

    fn change<'a>(
        &'a self,
        _: &'a ChatRef,
        id: &'a str,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), SendError>> {
        self.call("change", &format!(" {id} {text}"))
    }

    fn remove<'a>(&'a self, _: &'a ChatRef, id: &'a str) -> BoxFuture<'a, Result<(), SendError>> {
        self.call("remove", &format!(" {id}"))
    }

    fn draft<'a>(
        &'a self,
        _: &'a ChatRef,
        number: i64,
        text: &'a str,
    ) -> BoxFuture<'a, Result<(), SendError>> {
        self.call("draft", &format!(" {number} {text}"))
    }

    fn typing<'a>(&'a self, _: &'a ChatRef) -> BoxFuture<'a, Result<(), SendError>> {
        self.call("typing", "")
    }

    fn health(&self) -> Health {
        Health {
            state: "ok".to_owned(),
            mode: "",
            last_ok_at: None,
            last_update_at: None,
        }
    }
}

impl Book for Arc<Recorder> {
    fn shows<'a>(&'a self, _: &'a Route, id: &'a str) -> BoxFuture<'a, ()> {
        self.calls
            .lock()
            .push(format!("{} noted {id}", self.began.elapsed().as_millis()));
        Box::pin(async {})
    }

    fn hides<'a>(&'a self, _: &'a Route, id: &'a str) -> BoxFuture<'a, ()> {
        self.calls.lock().push(format!(
            "{} forgotten {id}",
            self.began.elapsed().as_millis()
        ));
        Box::pin(async {})
    }
}

const RUN: &str = "00000000-0000-0000-0000-000000000007";

/// A turn that is shown.
struct Turn {
    channel: Arc<Recorder>,
    events: broadcast::Sender<AgentEvent>,
    progress: Progress,
}

impl Turn {
    fn new(stream: Stream) -> Self {
        Self::with(stream, false, &[], &[])
    }

    fn with(
        stream: Stream,
        is_group: bool,
        slow: &[(&'static str, u64)],
        answers: &[(&'static str, SendError)],
    ) -> Self {
        let channel = Arc::new(Recorder {
            began: Instant::now(),
            calls: Mutex::default(),
            answers: Mutex::new(answers.iter().cloned().collect()),
            slow: slow.to_vec(),
        });
        let (events, heard) = broadcast::channel(64);
        let route = Route {
            channel: "recorder".to_owned(),
            chat: ChatRef {
                chat: "1".to_owned(),
                topic: None,
            },
        };
        let scene = Scene {
            channel: channel.clone(),
            route,
            is_group,
            is_owners: !is_group,
            types: true,
            stream,
            book: Arc::new(channel.clone()),
        };
        let words = (stream != Stream::Off).then(Arc::default);
        let over = CancellationToken::new();
        let task = tokio::spawn(perform(
            scene,
            RUN.to_owned(),
            heard,
            words.clone(),
            over.clone(),
        ));
        Self {
            channel,
            events,
            progress: Progress { words, over, task },
        }
    }

    fn step(&self, step: Step) {
        self.step_of(RUN, step);
    }

    fn step_of(&self, run_id: &str, step: Step) {
        let event = AgentEvent {
            run_id: run_id.to_owned(),
            session: SessionKey("s".to_owned()),
            step,
        };
        // Nobody listens after a board was given up.
        let _ = self.events.send(event);
    }

    fn tool(&self, name: &str) {
        self.step(Step::ToolStarted {
            name: name.to_owned(),
        });
    }

    fn say(&self, texts: &[&str]) {
        self.progress.write(Written::Begin);
        texts
            .iter()
            .for_each(|text| self.progress.write(Written::Text(text)));
    }

    /// Ends the turn and returns what was called, and when the answer could be sent.
    async fn end(self) -> (Vec<String>, u128) {
        let Self {
            channel,
            progress,
            events,
        } = self;
        progress.end().await;
        let ended = channel.began.elapsed().as_millis();
        // What is left ends by itself.
        sleep(Duration::from_secs(120)).await;
        drop(events);
        let calls = channel.calls.lock();
        (calls.clone(), ended)
    }

    /// As [`Turn::end`], without typing.
    async fn end_shown(self) -> Vec<String> {
        let (calls, _) = self.end().await;
        calls
            .into_iter()
            .filter(|call| !call.ends_with("typing"))
            .collect()
    }
}

async fn pass(ms: u64) {
    sleep(Duration::from_millis(ms)).await;
}

fn never(chat_is_there: bool) -> SendError {
    SendError::Never {
        reason: "no".to_owned(),
        chat_is_there,
    }
}

fn not_sent(secs: Option<u64>) -> SendError {
    SendError::NotSent {
        reason: "later".to_owned(),
        retry_after: secs.map(Duration::from_secs),
    }
}

#[tokio::test(start_paused = true)]
async fn a_quick_answer_makes_no_call_and_waits_for_none() {
    for stream in [Stream::Off, Stream::Edit, Stream::Draft] {
        let turn = Turn::new(stream);
        turn.say(&["Five."]);
        pass(249).await;
        assert_eq!(turn.end().await, (vec![], 249));
    }
}

#[tokio::test(start_paused = true)]
async fn the_line_comes_after_5_s_follows_the_run_and_is_gone_before_the_answer() {
    let turn = Turn::with(Stream::Off, false, &[("remove", 100)], &[]);
    turn.step(Step::Thinking { turn: 1 });
    pass(5500).await;
    turn.step_of(
        "another",
        Step::ToolStarted {
            name: "exec".to_owned(),
        },
    );
    turn.tool("read");
    turn.tool("exec");
    pass(200).await;
    turn.step(Step::ToolDone {
        name: "exec".to_owned(),
        duration_ms: 1,
        is_error: false,
    });
    pass(1000).await;
    turn.step(Step::Thinking { turn: 2 });
    pass(2000).await;
    let expected = [
        "250 typing",
        "4250 typing",
        "5000 show Thinking",
        "5000 noted m",
        "6000 change m Running command",
        "7000 change m Thinking (step 2)",
        "8250 typing",
        "8700 remove m",
        "8800 forgotten m",
    ];
    assert_eq!(
        turn.end().await,
        (expected.map(str::to_owned).to_vec(), 8800)
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_waits_one_second_for_the_removal_and_no_longer() {
    let turn = Turn::with(Stream::Off, false, &[("remove", 9000)], &[]);
    pass(6000).await;
    let (calls, ended) = turn.end().await;
    assert_eq!(
        (ended, calls.last().map(String::as_str)),
        (7000, Some("15000 forgotten m"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_message_that_is_under_way_at_the_end_is_removed_too() {
    let turn = Turn::with(Stream::Off, false, &[("show", 3000)], &[]);
    pass(5500).await;
    let channel = turn.channel.clone();
    // Whatever ends a turn drops it: a stop, a failure, a panic.
    drop(turn);
    pass(60_000).await;
    let calls = channel.calls.lock().clone();
    let expected = [
        "250 typing",
        "4250 typing",
        "5000 show Thinking",
        "8000 noted m",
        "8000 remove m",
        "8000 forgotten m",
    ];
    assert_eq!(calls, expected);
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_is_under_way_holds_nothing_up() {
    let turn = Turn::with(Stream::Off, false, &[("change", 9000)], &[]);
    pass(5500).await;
    turn.tool("exec");
    pass(1000).await;
    let (calls, ended) = turn.end().await;
    assert_eq!(ended, 6500);
    assert_eq!(
        calls[2..],
        [
            "5000 show Thinking",
            "5000 noted m",
            "6000 change m Running command",
            "6500 remove m",
            "6500 forgotten m"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn typing_ends_after_three_failures_and_at_once_when_it_never_works() {
    let fails = ("typing", not_sent(None));
    let unknown = ("typing", SendError::Unknown("?".to_owned()));
    let three = [fails.clone(), unknown, fails.clone()];
    for (answers, expected) in [
        (&three[..], "250 4250 8250"),
        (&[fails.clone(), fails][..], "250 4250 8250 12250 16250"),
        (&[("typing", never(true))], "250"),
        (&[("typing", never(false))], "250"),
        // As a wrong token is answered.
        (&[("typing", not_sent(Some(60)))], "250"),
        (
            &[("typing", not_sent(Some(7)))],
            "250 7250 11250 15250 19250",
        ),
    ] {
        let turn = Turn::with(Stream::Off, false, &[], answers);
        pass(20_000).await;
        let (calls, _) = turn.end().await;
        let typing: Vec<&str> = calls
            .iter()
            .filter_map(|call| call.strip_suffix(" typing"))
            .collect();
        assert_eq!(typing.join(" "), expected, "{answers:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn in_a_group_the_line_takes_the_place_of_typing_and_changes_rarely() {
    let turn = Turn::with(Stream::Off, true, &[], &[]);
    pass(5450).await;
    for turn_number in 2..30 {
        turn.step(Step::Thinking { turn: turn_number });
        pass(700).await;
    }
    let (calls, _) = turn.end().await;
    let times: Vec<&str> = calls
        .iter()
        .filter(|call| call.contains("change") || call.contains("typing"))
        .map(String::as_str)
        .collect();
    let times: Vec<&str> = times
        .iter()
        .filter_map(|call| call.split(' ').next())
        .collect();
    assert_eq!(
        times,
        ["250", "4250", "9000", "13000", "17000", "21000", "25000"],
        "{calls:#?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_flood_wait_is_obeyed_and_one_failed_edit_ends_nothing() {
    let answers = [
        ("show", not_sent(Some(2))),
        ("change", not_sent(Some(3))),
        ("change", not_sent(None)),
    ];
    let turn = Turn::with(Stream::Off, false, &[], &answers);
    pass(7500).await;
    turn.tool("exec");
    pass(1000).await;
    turn.tool("read");
    pass(6000).await;
    let expected = [
        "5000 show Thinking",
        "7000 show Thinking",
        "7000 noted m",
        "8000 change m Running command",
        "11000 change m Reading file",
        "12000 change m Reading file",
        "14500 remove m",
        "14500 forgotten m",
    ];
    assert_eq!(turn.end_shown().await, expected);
}

#[tokio::test(start_paused = true)]
async fn what_fails_three_times_or_for_good_is_left_alone() {
    let change = |error: SendError| ("change", error);
    for (answers, tries) in [
        (
            vec![
                change(not_sent(None)),
                change(never(true)),
                change(SendError::Unknown("?".to_owned())),
            ],
            3,
        ),
        (vec![change(never(false))], 1),
    ] {
        let turn = Turn::with(Stream::Off, false, &[], &answers);
        pass(5500).await;
        for _ in 0..10 {
            turn.tool("exec");
            pass(1000).await;
            turn.tool("read");
            pass(1000).await;
        }
        let calls = turn.end_shown().await;
        assert_eq!(
            calls.iter().filter(|call| call.contains("change")).count(),
            tries,
            "{calls:#?}"
        );
        assert!(
            calls.iter().any(|call| call.ends_with("remove m")),
            "{calls:#?}"
        );
    }
    // One that may be there is not shown a second time, nor where nothing can be shown.
    for error in [
        never(true),
        never(false),
        SendError::Unknown("?".to_owned()),
    ] {
        let turn = Turn::with(Stream::Off, false, &[], &[("show", error)]);
        pass(30_000).await;
        assert_eq!(turn.end_shown().await, ["5000 show Thinking"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_fails_is_tried_again_and_then_left_to_the_next_start() {
    let turn = Turn::with(
        Stream::Off,
        false,
        &[],
        &[("remove", not_sent(Some(3))), ("remove", not_sent(None))],
    );
    pass(6000).await;
    let calls = turn.end_shown().await;
    assert_eq!(
        calls[2..],
        [
            "6000 remove m",
            "9000 remove m",
            "11000 remove m",
            "11000 forgotten m"
        ]
    );
    let fails = ("remove", not_sent(None));
    let turn = Turn::with(
        Stream::Off,
        false,
        &[],
        &[fails.clone(), fails.clone(), fails],
    );
    pass(6000).await;
    assert_eq!(
        turn.end_shown().await[2..],
        ["6000 remove m", "8000 remove m", "10000 remove m"]
    );
    let turn = Turn::with(Stream::Off, false, &[], &[("remove", never(true))]);
    pass(6000).await;
    assert_eq!(
        turn.end_shown().await[2..],
        ["6000 remove m", "6000 forgotten m"]
    );
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_shown_while_it_is_written() {
    let turn = Turn::new(Stream::Edit);
    turn.say(&["N", "o"]);
    pass(500).await;
    turn.progress.write(Written::Text(" idea"));
    pass(1000).await;
    for more in [", ", "so", " I", " look", "."] {
        turn.progress.write(Written::Text(more));
        pass(300).await;
    }
    pass(2500).await;
    turn.tool("exec");
    pass(1100).await;
    turn.say(&["NO_"]);
    turn.step(Step::Thinking { turn: 2 });
    pass(1000).await;
    turn.progress.write(Written::Text("w I know"));
    pass(1000).await;
    let expected = [
        "1000 show No idea",
        "1000 noted m",
        "2000 change m No idea, so",
        "3000 change m No idea, so I look.",
        "5500 change m No idea, so I look.\n\n⏳ Running command",
        "6600 change m No idea, so I look.\n\n⏳ Thinking (step 2)",
        "7600 change m NO_w I know",
        "8600 remove m",
        "8600 forgotten m",
    ];
    assert_eq!(turn.end_shown().await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_draft_is_renewed_and_removed_by_nobody() {
    let turn = Turn::new(Stream::Draft);
    turn.say(&["Let me look."]);
    pass(1500).await;
    turn.tool("exec");
    pass(24_500).await;
    let expected = [
        "1000 draft 7 Let me look.",
        "5000 draft 7 Let me look.\n\n⏳ Running command",
        "25000 draft 7 Let me look.\n\n⏳ Running command",
    ];
    assert_eq!(turn.end_shown().await, expected);
}

#[tokio::test(start_paused = true)]
async fn where_no_draft_is_taken_it_is_a_message() {
    let shown = [
        "1000 show Hello",
        "1000 noted m",
        "2000 remove m",
        "2000 forgotten m",
    ];
    let turn = Turn::with(Stream::Draft, true, &[], &[]);
    turn.say(&["Hello"]);
    pass(2000).await;
    assert_eq!(turn.end_shown().await, shown);
    let turn = Turn::with(Stream::Draft, false, &[], &[("draft", never(true))]);
    turn.say(&["Hello"]);
    pass(2000).await;
    assert_eq!(
        turn.end_shown().await,
        [&["1000 draft 7 Hello"], &shown[..]].concat()
    );
}

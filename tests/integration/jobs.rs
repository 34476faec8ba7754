//! Jobs: what is done at its times, across restarts, crashes and clocks that jump.

mod by_hand;
mod guests;
mod heartbeat;
mod month;
mod outage;

use std::time::Duration;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::support::{Clock, Daemon, FakeModel, FakeTelegram, Output, Reply, Sandbox, wait_for};

/// Long against a look at the jobs, every 5 s, and short against the patience of a reader.
const SOON: Duration = Duration::from_secs(30);
/// Longer than between two looks at what waits, 30 s, and than a provider rests.
const LATER: Duration = Duration::from_secs(120);
const OWNER: i64 = 1001;
const GUEST: i64 = 1002;
const HOUR: Duration = Duration::from_secs(3600);
/// An answer of four tokens.
const DEAR: &str = "sixteen letters!";

/// A daemon with a chat and a model, by a clock that is ours.
struct Times {
    daemon: Option<Daemon>,
    telegram: FakeTelegram,
    model: FakeModel,
    sandbox: Sandbox,
    clock: Clock,
}

impl Times {
    fn new() -> Self {
        Self::with("")
    }

    fn with(config: &str) -> Self {
        let mut times = Self::asleep(config);
        times.start();
        times
    }

    /// Returns all of it, and no daemon yet.
    fn asleep(config: &str) -> Self {
        let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
        let hours = "[heartbeat]\nactive_start = \"00:00\"\nactive_end = \"23:59\"\n";
        let config = if config.contains("[heartbeat]") {
            config.to_owned()
        } else {
            format!("{hours}{config}")
        };
        let sandbox = Sandbox::new()
            .with_telegram(&telegram)
            .with_anthropic(&model)
            .config(&config);
        let (sandbox, clock) = sandbox.with_clock();
        Self {
            daemon: None,
            telegram,
            model,
            sandbox,
            clock,
        }
    }

    /// Returns it with the day's budget spent: an answer of [`DEAR`] cost two of nine dollars, and the next call may cost
    /// eight.
    fn with_the_day_spent() -> Self {
        // In a zone in which it is noon: the day is not over before the test.
        let ahead = 12 - i64::from(chrono::Timelike::hour(&chrono::Utc::now()));
        let zone = format!("Etc/GMT{:+}", -ahead);
        let mut times = Self::asleep(&format!(
            "[agent]\ntimezone = \"{zone}\"\n[cost]\nday_usd = 9.0"
        ));
        let prices = "[models.primary]\nmax_tokens = 16\ncost_per_mtok = [0.0, 500000.0, 0.0, 0.0]";
        times.sandbox = times.sandbox.provider_config("mock", prices);
        times.start();
        times.model.push(Reply::Text(DEAR.to_owned()));
        times.telegram.say(OWNER, OWNER, "hello");
        times.wait_heard(OWNER, DEAR);
        times
    }

    /// Lets the model answer no call until it forgets that.
    fn model_goes_away(&self) {
        for _ in 0..1000 {
            self.model.push(Reply::Status(529, None));
        }
    }

    fn start(&mut self) {
        self.daemon = Some(self.sandbox.ready());
    }

    fn kill9(&mut self) {
        self.daemon.take().expect("it runs").kill9();
    }

    fn stop(&mut self) {
        assert_eq!(self.daemon.take().expect("it runs").term(), 0);
    }

    fn job(&self, arguments: &[&str]) -> Output {
        self.sandbox.send(&[&["--job"], arguments].concat())
    }

    /// Adds a job and returns its document.
    fn add(&self, arguments: &[&str]) -> Value {
        let told = self
            .sandbox
            .send(&[&["--json", "--job", "add"], arguments].concat());
        assert_eq!(told.code, 0, "{told:?}");
        serde_json::from_str(&told.stdout).expect("a document")
    }

    /// Adds the job `look`, whose answer the owner hears each hour.
    fn look_hourly(&self) {
        let hourly = ["--every", "1h", "--text", "look", "--deliver"];
        self.add(&[&["--id", "look"], &hourly[..]].concat());
    }

    /// Returns the document of the job `id`; `Null` when there is none.
    fn listed(&self, id: &str) -> Value {
        let told = self.job(&["list", "--json"]);
        assert_eq!(told.code, 0, "{told:?}");
        let mut document: Value = serde_json::from_str(&told.stdout).expect("a document");
        let jobs = document["jobs"].as_array_mut().expect("a list");
        jobs.iter_mut()
            .find(|job| job["id"] == id)
            .map(Value::take)
            .unwrap_or_default()
    }

    /// Waits until the job `id` is at rest and returns its document.
    fn settled(&self, id: &str, status: &str) -> Value {
        wait_for(&format!("{id} to be {status}"), SOON, || {
            Some(self.listed(id)).filter(|job| job["last_status"] == status)
        })
    }

    /// Returns what came of the times of a job, the oldest first.
    fn results(&self, id: &str) -> Vec<String> {
        let log = self
            .sandbox
            .read(&format!("state/cron/runs/{id}.jsonl"))
            .unwrap_or_default();
        let lines = log
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines
            .map(|line| line["status"].as_str().expect("a status").to_owned())
            .collect()
    }

    /// Returns the texts that went to `chat`, in order.
    fn heard(&self, chat: i64) -> Vec<String> {
        self.telegram
            .sent()
            .into_iter()
            .filter(|sent| sent.chat == chat)
            .map(|sent| sent.text)
            .collect()
    }

    fn wait_heard(&self, chat: i64, text: &str) {
        self.telegram
            .wait_sent(|sent| sent.chat == chat && sent.text == text, SOON);
    }

    /// Waits until a message with `words` stands in `chat`, and returns it.
    fn wait_shown(&self, chat: i64, words: &str) -> String {
        wait_for(words, SOON, || {
            let mut shown = self.telegram.shown(chat).into_iter();
            shown.find(|text| text.contains(words))
        })
    }

    /// Waits until nothing is on its way out.
    fn all_sent(&self) {
        let open = "SELECT id FROM outbox WHERE state != 'sent'";
        wait_for("all to be sent", SOON, || {
            self.sandbox.query("queue", open).is_empty().then_some(())
        });
    }

    fn sleep_until(&mut self, time: &Value) {
        self.clock.sleep_until(time);
    }

    fn now(&self) -> chrono::DateTime<chrono::Utc> {
        self.clock.now()
    }
}

#[test]
fn a_job_runs_at_its_time_and_the_owner_can_talk_about_it() {
    let mut times = Times::new();
    let told = times.job(&[
        "add",
        "--id",
        "briefing",
        "--name",
        "Morning",
        "--cron",
        "30 8 * * *",
        "--tz",
        "Europe/Berlin",
        "--text",
        "what is on today?",
        "--deliver",
    ]);
    assert_eq!(told.code, 0, "{told:?}");
    assert!(
        told.stdout.starts_with("Job briefing (Morning): runs ")
            && told.stdout.matches(" 08:30 CE").count() == 3,
        "{told:?}"
    );

    let job = times.listed("briefing");
    assert_eq!(
        (&job["schedule"], &job["tz"], &job["enabled"]),
        (&json!("30 8 * * *"), &json!("Europe/Berlin"), &json!(true))
    );
    assert_eq!(
        (&job["last_at"], &job["last_status"]),
        (&Value::Null, &Value::Null)
    );
    times.sleep_until(&job["next_at"]);
    times.wait_heard(OWNER, "echo: what is on today?");
    let after = times.settled("briefing", "ok");
    assert_eq!(after["last_at"], job["next_at"]);
    assert_ne!(after["next_at"], job["next_at"]);
    assert_eq!(after["runs"][0]["reply"], "echo: what is on today?");
    assert!(
        after["runs"][0]["cost_usd"]
            .as_f64()
            .is_some_and(|usd| usd > 0.0),
        "{after}"
    );
    let head =
        times.model.requests().pop().expect("a request")["messages"][0]["content"][0]["text"]
            .to_string();
    assert!(
        head.contains("the job Morning (briefing), whose time has come"),
        "{head}"
    );

    // The next day it starts over: a job costs what it costs, however often it ran.
    times.sleep_until(&after["next_at"]);
    wait_for("the second run", SOON, || {
        (times.results("briefing") == ["ok", "ok"]).then_some(())
    });
    assert_eq!(
        times.model.requests().pop().expect("a request")["messages"]
            .as_array()
            .map(Vec::len),
        Some(1)
    );

    // What the owner was told stands in their own conversation.
    times.telegram.say(OWNER, OWNER, "tell me more");
    times.wait_heard(OWNER, "echo: tell me more");
    let request = times.model.requests().pop().expect("a request").to_string();
    assert!(
        request.contains("you told them here, by the job \\\"Morning\\\": echo: what is on today?"),
        "{request}"
    );
}

#[test]
fn what_cannot_be_a_job_is_refused_with_its_reason() {
    let times = Times::new();
    let check = |arguments: &[&str], words: &str| {
        let told = times.job(&[&["add", "--text", "look"], arguments].concat());
        assert_eq!(told.code, 2, "{arguments:?}: {told:?}");
        assert!(
            told.stderr.contains(words) && told.stdout.is_empty(),
            "{arguments:?}: {told:?}"
        );
    };
    check(&[], "job add needs --text and one of --at, --every, --cron");
    check(&["--cron", "61 * * * *"], "61");
    check(&["--cron", "0 0 30 2 *"], "0 0 30 2 *");
    check(&["--cron", "* * * *"], "five fields");
    check(
        &["--cron", "0 9 * * *", "--tz", "Europe/Berln"],
        "Europe/Berlin",
    );
    check(&["--at", "tomorrow"], "tomorrow");
    check(&["--every", "5s"], "10 seconds");
    check(&["--every", "1h", "--missed", "perhaps"], "perhaps");
    let to_nobody = times.job(&[
        "add",
        "--text",
        "look",
        "--every",
        "1h",
        "--to",
        "nobody-we-know",
    ]);
    assert_eq!(to_nobody.code, 1, "{to_nobody:?}");
    let no_text = times.job(&["add", "--every", "1h"]);
    assert_eq!(no_text.code, 2, "{no_text:?}");
    for wrong in [
        &["dance"][..],
        &["run"],
        &["list", "x"],
        &["pause", "x", "--every", "1h"],
    ] {
        let told = times.job(wrong);
        assert_eq!(told.code, 2, "{wrong:?}: {told:?}");
    }
    for verb in ["remove", "run", "pause", "resume"] {
        let told = times.job(&[verb, "nothing"]);
        assert_eq!(told.code, 1, "{told:?}");
        assert!(told.stderr.contains("no job \"nothing\""), "{told:?}");
    }
    assert_eq!(
        times.sandbox.read("state/cron/jobs.json"),
        None,
        "nothing was written"
    );
}

#[test]
fn an_order_waits_for_a_daemon_unless_it_is_not_to() {
    let mut times = Times::asleep("");
    let told = times.job(&["add", "--no-queue", "--every", "1h", "--text", "look"]);
    assert_eq!(told.code, 69, "{told:?}");
    // What every daemon would refuse waits for none: nobody would hear of it.
    let told = times.job(&["add", "look", "--every", "1h", "--model", "nosuch"]);
    assert!(
        told.code == 1 && told.stderr.contains("no model \"nosuch\""),
        "{told:?}"
    );
    assert_eq!(times.sandbox.spooled(), [] as [&str; 0]);
    let told = times.job(&[
        "add",
        "--id",
        "look",
        "--every",
        "1h",
        "--text",
        "look around",
    ]);
    assert_eq!(told.code, 75, "{told:?}");
    assert!(told.stderr.contains("queued"), "{told:?}");
    assert_eq!(times.job(&["list"]).code, 0);
    assert_eq!(times.sandbox.send(&["--heartbeat"]).code, 69);
    times.start();
    wait_for("the job", SOON, || {
        (times.listed("look")["schedule"] == "every 1h").then_some(())
    });
    // By hand, as its owner may.
    let mut file = times
        .sandbox
        .read_json("state/cron/jobs.json")
        .expect("jobs");
    file["jobs"][0]["schedule"] = json!({"every": "2h"});
    file["jobs"]
        .as_array_mut()
        .expect("a list")
        .push(json!({"id": "odd", "schedule": {"cron": "x"}, "text": "x"}));
    times
        .sandbox
        .put("state/cron/jobs.json", file.to_string().as_bytes());
    let odd = times.settled("odd", "error");
    assert!(
        odd["last_error"]
            .as_str()
            .is_some_and(|why| why.contains("five fields")),
        "{odd}"
    );
    assert_eq!(times.listed("look")["schedule"], "every 2h");
    let status = times.sandbox.send(&["--status"]).stdout;
    assert!(status.contains("the job odd cannot run"), "{status}");
}

#[test]
fn a_job_is_paused_resumed_run_and_removed_and_only_its_owner_sees_it() {
    let mut times = Times::new();
    times.add(&[
        "--id",
        "water",
        "--every",
        "1h",
        "--text",
        "water the plants",
        "--deliver",
    ]);
    assert_eq!(times.job(&["pause", "water"]).code, 0);
    times.clock.later(3 * HOUR);
    assert_eq!(times.job(&["run", "water"]).stdout, "Job water runs now.\n");
    times.wait_heard(OWNER, "echo: water the plants");
    let job = times.settled("water", "ok");
    assert_eq!(
        (&job["enabled"], &job["next_at"]),
        (&json!(false), &Value::Null),
        "{job}"
    );
    assert_eq!(times.results("water"), ["ok"], "a pause is a pause");
    assert_eq!(times.job(&["resume", "water"]).code, 0);
    assert!(times.listed("water")["next_at"].is_string());

    times.telegram.say(OWNER, OWNER, "/jobs");
    times.telegram.wait_sent(
        |sent| {
            sent.chat == OWNER
                && sent
                    .text
                    .starts_with("water water the plants (every 1h): next ")
        },
        SOON,
    );
    times.telegram.say(GUEST, GUEST, "/jobs");
    times.wait_heard(GUEST, "Only my owner may ask that.");
    assert_eq!(times.job(&["remove", "water"]).code, 0);
    times.telegram.say(OWNER, OWNER, "/jobs");
    times.wait_heard(OWNER, "There are no jobs.");
    times.stop();
}

#[test]
fn words_that_go_out_as_they_are_ask_no_model_and_go_once() {
    let mut times = Times::new();
    let at = times.now() + chrono::TimeDelta::hours(5);
    let words = at.format("Take the *cake* out\n\n⏳ This was due %A, %F %H:%M UTC.");
    let (at, words) = (at.format("%FT%T").to_string(), words.to_string());
    let job = times.add(&["--at", &at, "--literal", "--text", "Take the *cake* out"]);
    let id = job["id"].as_str().expect("an id").to_owned();
    assert_eq!(
        (id.len(), job["next_times"].as_array().map(Vec::len)),
        (8, Some(1)),
        "{job}"
    );
    times.stop();
    // It is made up for after a night without a daemon.
    times.clock.later(9 * HOUR);
    times.start();
    times.wait_heard(OWNER, &words);
    wait_for("the job to go", SOON, || {
        times.listed(&id).is_null().then_some(())
    });
    times.stop();
    times.start();
    times.clock.later(9 * HOUR);
    let mark = times
        .sandbox
        .send(&["--wait", "--raw", "--to", &OWNER.to_string(), "mark"]);
    assert_eq!(mark.code, 0, "{mark:?}");
    times.wait_heard(OWNER, "mark");
    assert_eq!(times.heard(OWNER), [words.as_str(), "mark"]);
    assert_eq!(times.model.requests().len(), 0);
    assert_eq!(times.results(&id), ["ok"]);
}

#[test]
fn missed_times_are_made_up_for_as_the_job_says_and_every_one_is_told() {
    let mut times = Times::new();
    for missed in ["once", "skip", "all"] {
        times.add(&[
            "--id", missed, "--every", "8h", "--missed", missed, "--text", missed,
        ]);
    }
    times.stop();
    times.clock.later(25 * HOUR);
    times.start();
    wait_for("all three", SOON, || {
        (times.results("all").len() == 3 && times.results("once").len() == 2).then_some(())
    });
    assert_eq!(times.results("once"), ["skipped", "ok"]);
    assert_eq!(times.results("skip"), ["skipped"]);
    assert_eq!(times.results("all"), ["ok", "ok", "ok"]);
    let log = times
        .sandbox
        .read_json("state/cron/jobs.json")
        .expect("jobs");
    assert_eq!(log["jobs"].as_array().map(Vec::len), Some(3));
    let skipped: Value = times.listed("skip")["runs"][0].clone();
    assert_eq!(
        (&skipped["count"], &skipped["reason"]),
        (&json!(3), &json!("missed"))
    );
    assert_eq!(times.listed("skip")["last_status"], "skipped");
    assert_eq!(times.model.requests().len(), 4);
}

#[test]
fn a_time_at_which_the_model_is_away_is_not_missed() {
    let mut times = Times::new();
    let job = ["--every", "1h", "--missed", "skip", "--text", "report"];
    times.add(&[&["--id", "report"], &job[..]].concat());
    for _ in 0..1000 {
        times.model.push(Reply::Status(529, None));
    }
    times.telegram.say(OWNER, OWNER, "hello");
    times
        .telegram
        .wait_sent(|sent| sent.text.starts_with('⏳'), SOON);
    times.clock.later(HOUR + Duration::from_secs(1));
    times.settled("report", "running");
    times.clock.later(Duration::from_secs(120));
    times.model.forget();
    times.settled("report", "ok");
    assert_eq!(times.results("report"), ["ok"]);
}

#[test]
fn a_run_that_a_crash_interrupts_is_answered_once() {
    let mut times = Times::new();
    times.add(&[
        "--id",
        "report",
        "--every",
        "1h",
        "--text",
        "report",
        "--deliver",
    ]);
    times.model.push(Reply::Hang);
    times.clock.later(HOUR + Duration::from_secs(1));
    times.model.wait_requests(1, SOON);
    assert_eq!(times.listed("report")["last_status"], "running");
    times.kill9();
    times.start();
    times.wait_heard(OWNER, "echo: report");
    times.settled("report", "ok");
    // Until its receipt is on the disk, a kill leaves it open whether the words arrived.
    let sent = "SELECT 1 FROM outbox WHERE state = 'sent'";
    wait_for("the record of it", SOON, || {
        (!times.sandbox.query("queue", sent).is_empty()).then_some(())
    });
    times.kill9();
    times.start();
    let mark = times
        .sandbox
        .send(&["--wait", "--raw", "--to", &OWNER.to_string(), "mark"]);
    assert_eq!(mark.code, 0, "{mark:?}");
    times.wait_heard(OWNER, "mark");
    assert_eq!(times.heard(OWNER), ["echo: report", "mark"]);
    assert_eq!(times.results("report"), ["ok"]);
}

#[test]
fn the_words_of_a_reminder_that_has_to_wait_go_out_at_its_time_and_once() {
    let mut times = Times::with_the_day_spent();
    let at = times.now().format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let text = "Remind me: fetch the kid";
    times.add(&["--id", "kid", "--at", &at, "--text", text, "--deliver"]);
    let words = format!("{text}\n\n⏳ This is the text of the job itself. The budget is spent.");
    times.wait_heard(OWNER, &words);
    times.all_sent();
    times.kill9();
    times.start();
    // It is answered when the budget begins again.
    times.clock.later(24 * HOUR);
    times
        .telegram
        .wait_sent(|sent| sent.text == format!("echo: {text}"), LATER);
    let heard = times.heard(OWNER);
    assert_eq!(
        heard.iter().filter(|one| **one == words).count(),
        1,
        "{heard:?}"
    );

    // One that comes while the model is known to be away is not held back either.
    let times = Times::new();
    times.model.push(Reply::Status(529, Some(3000)));
    times.telegram.say(OWNER, OWNER, "one");
    times.wait_shown(OWNER, "I will answer when it is back");
    let at = times.now().format("%Y-%m-%dT%H:%M:%SZ").to_string();
    times.add(&["--id", "kid", "--at", &at, "--text", text, "--deliver"]);
    let why = "The model is overloaded";
    let words = format!("{text}\n\n⏳ This is the text of the job itself. {why}.");
    times.wait_heard(OWNER, &words);
}

#[test]
fn who_writes_behind_a_job_that_waits_is_told_so() {
    let mut times = Times::new();
    times.telegram.say(OWNER, OWNER, "hello");
    times.wait_heard(OWNER, "echo: hello");
    times.add(&[
        "--id",
        "digest",
        "--every",
        "1h",
        "--text",
        "sum up",
        "--deliver",
        "--main",
    ]);
    times.model_goes_away();
    times.clock.later(HOUR + Duration::from_secs(1));
    let suspended = "SELECT id FROM inbox WHERE state = 'pending' AND suspended IS NOT NULL";
    wait_for("the job to wait", SOON, || {
        (!times.sandbox.query("queue", suspended).is_empty()).then_some(())
    });
    times.telegram.say(OWNER, OWNER, "are you there?");
    let notice = times.wait_shown(OWNER, "This comes after a job, which waits");
    assert!(notice.contains("The model is overloaded"), "{notice}");
    times.model.forget();
    times
        .telegram
        .wait_sent(|sent| sent.text == "echo: are you there?", LATER);
}

#[test]
fn a_job_says_nothing_of_a_spent_budget_that_the_owner_knows_of() {
    let mut times = Times::with_the_day_spent();
    times.look_hourly();
    for runs in 1..=2 {
        times.clock.later(HOUR + Duration::from_secs(1));
        wait_for("a run", SOON, || {
            (times.results("look") == vec!["error"; runs]).then_some(())
        });
    }
    let why = times.settled("look", "error")["last_error"].to_string();
    assert!(why.contains("[cost] day_usd = 9.00"), "{why}");
    let is_alert = |text: &str| text.contains("a call was refused");
    wait_for("the word of the limit", SOON, || {
        let mut heard = times.heard(OWNER).into_iter();
        heard.find(|text| is_alert(text))
    });
    times.all_sent();
    let mut heard = times.heard(OWNER);
    heard.retain(|text| !is_alert(text));
    assert_eq!(heard, [DEAR]);
}

#[test]
fn a_time_at_which_the_job_still_runs_is_left_out() {
    let mut times = Times::new();
    times.add(&["--id", "slow", "--every", "1h", "--text", "slow"]);
    times.model.push(Reply::Held("at last".into()));
    times.clock.later(HOUR + Duration::from_secs(1));
    times.model.wait_requests(1, SOON);
    times.clock.later(HOUR);
    wait_for("the second time", SOON, || {
        (times.results("slow") == ["skipped"]).then_some(())
    });
    times.model.go_on();
    times.settled("slow", "ok");
    assert_eq!(
        (times.results("slow"), times.model.requests().len()),
        (vec!["skipped".to_owned(), "ok".to_owned()], 1)
    );
}

#[test]
fn a_start_with_the_clock_years_ahead_deletes_nothing_and_reminds_of_nothing() {
    let years = 3650 * 24 * HOUR;
    let mut times = Times::new();
    times.telegram.say(OWNER, OWNER, "hello");
    times.wait_heard(OWNER, "echo: hello");
    let month = (times.now() + chrono::TimeDelta::days(30)).format("%Y-%m-%dT%H:%M:%S");
    let cake = ["--id", "cake", "--literal", "--text", "Take the cake out"];
    times.add(&[&cake[..], &["--at", &month.to_string()]].concat());
    times.add(&["--id", "daily", "--cron", "0 9 * * *", "--text", "look"]);
    let log = format!("state/logs/{}.jsonl", times.now().format("%Y-%m-%d"));
    let received = "workspace/inbox/2025-01/a.txt";
    times.sandbox.put(received, b"from a friend");
    times.stop();

    times.clock.later(years);
    times.start();
    // What comes again is late once, and what is said by that clock goes by it.
    times.settled("daily", "ok");
    let soon = (times.now() + chrono::TimeDelta::seconds(2)).format("%Y-%m-%dT%H:%M:%S");
    times.add(&[
        "--literal",
        "--text",
        "Tea is ready",
        "--at",
        &soon.to_string(),
    ]);
    times.wait_heard(OWNER, "Tea is ready");
    let doubted = |times: &Times| {
        wait_for("the doubt", SOON, || {
            let status = times.sandbox.send(&["--status"]).stdout;
            status.contains("nothing confirms it").then_some(())
        });
    };
    doubted(&times);
    times.stop();
    // It is doubted still by the next one.
    times.start();
    doubted(&times);
    times.stop();
    for path in [received, &log] {
        assert!(times.sandbox.path(path).exists(), "{path}");
    }

    times.clock.earlier(years);
    times.start();
    let told = wait_for("what became of the jobs", SOON, || {
        let heard = times.heard(OWNER);
        heard
            .into_iter()
            .find(|text| text.contains("the clock had been ahead"))
    });
    assert!(told.contains("daily") && !told.contains("cake"), "{told}");
    let job = times.listed("daily");
    let next = job["next_at"].as_str().expect("a time");
    let next = chrono::DateTime::parse_from_rfc3339(next).expect("RFC 3339");
    assert!(
        next.to_utc() < times.now() + chrono::TimeDelta::days(1),
        "{job}"
    );
    times.stop();
    times.start();
    times.telegram.say(OWNER, OWNER, "and now?");
    times.wait_heard(OWNER, "echo: and now?");
    assert_eq!(
        times.heard(OWNER),
        [
            "echo: hello",
            "Tea is ready",
            told.as_str(),
            "echo: and now?"
        ],
        "told once, and nothing else"
    );
    assert!(times.listed("cake")["next_at"].is_string(), "it is to come");
    times.stop();
}

#[test]
fn a_job_goes_by_the_zone_of_the_agent_unless_it_asked_for_one() {
    let mut times = Times::new();
    let nine = ["--cron", "0 9 * * *", "--text", "look"];
    times.add(&[&["--id", "mine"], &nine[..]].concat());
    times.add(&[&["--id", "theirs", "--tz", "UTC"], &nine[..]].concat());
    let hour = |times: &Times, id: &str| {
        let job = times.listed(id);
        let next = job["next_at"].as_str().expect("a time");
        next.chars().skip(11).take(5).collect::<String>()
    };
    assert_eq!(
        [hour(&times, "mine"), hour(&times, "theirs")],
        ["09:00", "09:00"]
    );
    // Half an hour beside all whole hours, and the same all year.
    times
        .sandbox
        .reconfigure("[agent]\ntimezone = \"Asia/Kolkata\"");
    times
        .daemon
        .as_ref()
        .expect("it runs")
        .signal(Signal::SIGHUP);
    wait_for("the new zone", SOON, || {
        (hour(&times, "mine") == "03:30").then_some(())
    });
    assert_eq!(hour(&times, "theirs"), "09:00");
    wait_for("what is told of it", SOON, || {
        let status = times.sandbox.send(&["--status"]).stdout;
        (status.contains("these jobs keep their own: theirs (UTC)")).then_some(())
    });
    times.stop();
}

#[test]
fn what_a_job_that_is_gone_left_behind_goes_too() {
    let mut times = Times::new();
    times.add(&["--id", "gone", "--every", "1h", "--text", "look"]);
    times.add(&["--id", "stays", "--every", "1h", "--text", "look"]);
    times.clock.later(HOUR + Duration::from_secs(1));
    for id in ["gone", "stays"] {
        times.settled(id, "ok");
    }
    assert_eq!(times.job(&["remove", "gone"]).code, 0);
    times.stop();
    let live = |times: &Times| {
        let index = times.sandbox.read_json("state/sessions/sessions.json");
        let index = index.expect("an index");
        let sessions = index["sessions"].as_object().expect("sessions");
        let mut keys: Vec<String> = sessions.keys().cloned().collect();
        keys.retain(|key| key.starts_with("job:"));
        keys
    };
    assert_eq!(live(&times), ["job:gone", "job:stays"]);
    times.clock.later(2 * HOUR);
    times.start();
    wait_for("the archive", SOON, || {
        (live(&times) == ["job:stays"]).then_some(())
    });
    times.stop();
}

#[test]
fn a_failed_run_says_why_and_the_job_stays() {
    let mut times = Times::new();
    let poor = ["--id", "poor", "--every", "1h", "--text", "think"];
    let told = times.job(&[&["add"], &poor[..], &["--budget", "0.000001"]].concat());
    assert!(
        told.code != 0 && told.stderr.contains("is too small for a call of the model"),
        "what each run would fail with is said before: {told:?}"
    );
    // Somebody may write it by hand.
    times.add(&poor);
    let mut file = times
        .sandbox
        .read_json("state/cron/jobs.json")
        .expect("jobs");
    file["jobs"][0]["budget_usd"] = json!(0.000_001);
    times
        .sandbox
        .put("state/cron/jobs.json", file.to_string().as_bytes());
    times.clock.later(HOUR + Duration::from_secs(1));
    let job = times.settled("poor", "error");
    let why = job["last_error"].as_str().expect("a reason");
    assert!(
        why.contains("the job limit is reached: budget_usd = 0.000001 in state/cron/jobs.json"),
        "{why}"
    );
    assert_eq!(times.model.requests().len(), 0);
    assert!(job["next_at"].is_string(), "{job}");
    assert_eq!(
        times
            .job(&["add", "--every", "1h", "--text", "x", "--model", "nobody"])
            .code,
        1
    );
}

#[test]
fn the_agent_makes_jobs_and_what_is_said_of_it_is_the_daemons_word() {
    let mut times = Times::new();
    times.telegram.say(
        OWNER,
        OWNER,
        r#"[[tool cron {"op": "add", "name": "stretch", "every": "1h", "text": "remind me to stretch"}]]"#,
    );
    let list = wait_for("a job", SOON, || {
        times.sandbox.read_json("state/cron/jobs.json")
    });
    let job = &list["jobs"][0];
    let id = job["id"].as_str().expect("an id").to_owned();
    assert_eq!(
        (&job["deliver"], job.get("to")),
        (&json!(true), None),
        "to wherever the owner is: {job}"
    );
    times.telegram.wait_sent(|sent| sent.chat == OWNER, SOON);
    let result = times.model.requests().pop().expect("a request").to_string();
    assert!(
        result.contains(&format!("Job {id} (stretch): runs ")),
        "{result}"
    );
    times.clock.later(HOUR + Duration::from_secs(1));
    times.wait_heard(OWNER, "echo: remind me to stretch");

    let at = (times.now() + chrono::TimeDelta::hours(2))
        .format("%Y-%m-%dT%H:%M")
        .to_string();
    times.telegram.say(
        OWNER,
        OWNER,
        &format!(r#"[[tool schedule_message {{"at": "{at}", "text": "Bread!"}}]]"#),
    );
    wait_for("a message", SOON, || {
        (times.job(&["list"]).stdout.contains("Bread!")).then_some(())
    });
    let past = r#"[[tool schedule_message {"at": "2020-01-01T09:00", "text": "too late"}]] past"#;
    times.telegram.say(OWNER, OWNER, past);
    wait_for("a refusal", SOON, || {
        times
            .model
            .requests()
            .iter()
            .any(|request| request.to_string().contains(" is past: it is "))
            .then_some(())
    });
    times
        .telegram
        .say(OWNER, OWNER, "[[tool list_scheduled {}]] list");
    wait_for("a list", SOON, || {
        times
            .model
            .requests()
            .iter()
            .any(|request| request.to_string().contains("Bread!: at "))
            .then_some(())
    });
    times.clock.later(2 * HOUR);
    times.wait_heard(OWNER, "Bread!");
    assert!(
        !times
            .heard(OWNER)
            .iter()
            .any(|text| text.contains("too late"))
    );
}

#[test]
fn others_make_no_jobs_without_the_owners_yes_and_a_job_for_others_knows_nothing_of_the_owner() {
    let mut times = Times::new();
    times
        .sandbox
        .put("workspace/USER.md", b"canary-of-the-owner");
    times.telegram.say(
        GUEST,
        GUEST,
        r#"[[tool cron {"op": "add", "every": "1h", "text": "spend money"}]]"#,
    );
    times.telegram.wait_sent(
        |sent| sent.chat == OWNER && sent.text.contains("cron"),
        SOON,
    );
    assert_eq!(times.sandbox.read("state/cron/jobs.json"), None);

    times.add(&[
        "--id",
        "greet",
        "--every",
        "1h",
        "--text",
        "greet Bob",
        "--to",
        &GUEST.to_string(),
    ]);
    times.clock.later(HOUR + Duration::from_secs(1));
    times.wait_heard(GUEST, "echo: greet Bob");
    let request = times.model.requests().pop().expect("a request").to_string();
    assert!(
        request.contains("greet Bob") && !request.contains("canary-of-the-owner"),
        "{request}"
    );
    assert!(!times.heard(OWNER).contains(&"echo: greet Bob".to_owned()));
}

#[test]
fn a_daemon_that_runs_once_does_what_is_due() {
    let mut times = Times::new();
    times.add(&[
        "--id",
        "nightly",
        "--every",
        "1h",
        "--text",
        "tidy up",
        "--deliver",
    ]);
    times.stop();
    times.clock.later(HOUR + Duration::from_secs(1));
    let mut runs = 0;
    let mut runs_once = |times: &Times| {
        let mut daemon = times.sandbox.daemon_with(&["--once"]);
        wait_for("its end", SOON, || daemon.has_ended().then_some(()));
        runs += 1;
        assert_eq!(times.heard(OWNER), vec!["echo: tidy up"; runs]);
    };
    // Several times, because two look at what is due then: the timer, and the end.
    for _ in 0..5 {
        runs_once(&times);
        times.clock.later(HOUR);
    }
    runs_once(&times);
    // What an order begins is done before the end, too.
    let told = times.job(&["run", "nightly"]);
    assert_eq!(told.code, 75, "{told:?}");
    runs_once(&times);
    assert_eq!(times.results("nightly"), ["ok"; 7]);
}

#[test]
fn jobs_that_nobody_can_read_are_kept_and_the_rest_goes_on() {
    let mut times = Times::new();
    times.add(&["--id", "good", "--every", "1h", "--text", "good"]);
    times.sandbox.put("state/cron/jobs.json", b"{\"jobs\": [");
    let aside = wait_for("a file set aside", SOON, || {
        let files = std::fs::read_dir(times.sandbox.path("state/cron"))
            .expect("a directory")
            .flatten();
        files
            .map(|file| file.path())
            .find(|path| path.to_string_lossy().contains(".corrupt-"))
    });
    assert_eq!(
        std::fs::read_to_string(aside).expect("a file"),
        "{\"jobs\": ["
    );
    times.clock.later(HOUR + Duration::from_secs(1));
    times.settled("good", "ok");
    let status = times.sandbox.send(&["--status"]).stdout;
    assert!(status.contains("jobs.json was no JSON"), "{status}");
}

#[test]
fn who_promised_something_until_a_day_is_reminded_that_morning_and_not_once_it_is_settled() {
    let mut times = Times::new();
    let due = (times.now() + chrono::TimeDelta::days(3))
        .format("%Y-%m-%d")
        .to_string();
    let words =
        format!("I will call the bank, send the report to Ana and water the plants until {due}.");
    let promise = |what: &str| json!({"who": "user", "what": what, "deadline": due, "line": 1});
    let promises = [
        "call the bank",
        "send the report to Ana",
        "water the plants",
    ]
    .map(promise);
    times.model.push_found(Reply::Text(
        json!({"facts": [], "commitments": promises}).to_string(),
    ));
    for said in [&words, "thanks"] {
        times.telegram.say(OWNER, OWNER, said);
        times.wait_heard(OWNER, &format!("echo: {said}"));
    }
    times.telegram.say(OWNER, OWNER, "/new");
    let ids = ["commitment-1", "commitment-2", "commitment-3"];
    wait_for("three reminders", SOON, || {
        ids.iter()
            .all(|id| times.listed(id).is_object())
            .then_some(())
    });
    assert_eq!(
        times.listed("commitment-2")["schedule"],
        format!("at {due}T09:00:00.000Z")
    );
    // Its owner wants none of the first, and it stays out.
    assert_eq!(times.job(&["remove", "commitment-1"]).code, 0);
    for _ in 0..2 {
        let told = times.sandbox.run("agent-consolidate", &[], "");
        assert_eq!(told.code, 0, "{told:?}");
    }
    wait_for("an empty spool", SOON, || {
        times.sandbox.spooled().is_empty().then_some(())
    });
    assert_eq!(times.listed("commitment-1"), Value::Null);
    // Settled in a conversation: it goes.
    times.telegram.say(
        OWNER,
        OWNER,
        r#"[[tool commitment_update {"id": 3, "status": "done"}]]"#,
    );
    wait_for("one reminder", SOON, || {
        times.listed("commitment-3").is_null().then_some(())
    });
    let at = times.listed("commitment-2")["next_at"].clone();
    times.sleep_until(&at);
    times.wait_heard(
        OWNER,
        &format!("Reminder: send the report to Ana (until {due})."),
    );
    assert_eq!(
        times
            .heard(OWNER)
            .iter()
            .filter(|text| text.starts_with("Reminder"))
            .count(),
        1
    );
}

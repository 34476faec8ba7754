//! Jobs while the model is away, and reminders of which nothing else comes: what is late, and what is left out.

use std::time::Duration;

use rusqlite::types::Value as Cell;
use serde_json::Value;

use super::{GUEST, HOUR, LATER, OWNER, SOON, Times};
use crate::support::{Reply, wait_for};

const TEXT: &str = "Remind me: fetch the kid";

/// Returns the raw words of a reminder that say `why` no answer stands there.
fn raw(why: &str) -> String {
    format!("{TEXT}\n\n⏳ This is the text of the job itself. {why}.")
}

impl Times {
    /// Adds a reminder of [`TEXT`] at `ahead` from now.
    fn remind(&self, id: &str, ahead: Duration, more: &[&str]) -> chrono::DateTime<chrono::Utc> {
        let due = self.now() + ahead;
        let at = due.format("%Y-%m-%dT%H:%M:%SZ").to_string();
        let job = ["--id", id, "--at", &at, "--text", TEXT, "--deliver"];
        self.add(&[&job[..], more].concat());
        due
    }

    /// Waits until the run of the job `id` that waits was tried more than `tries` times, and returns how often.
    fn wait_tried(&self, id: &str, tries: i64) -> i64 {
        let query = format!(
            "SELECT suspended ->> '$.tries' FROM inbox WHERE id LIKE 'job:{id}:%' AND state = 'pending' AND suspended IS NOT NULL"
        );
        wait_for("another try that waits", LATER, || {
            let rows = self.sandbox.query("queue", &query);
            let [Cell::Integer(tried)] = rows.first()?.as_slice() else {
                return None;
            };
            Some(*tried).filter(|tried| *tried > tries)
        })
    }

    fn dead(&self) -> usize {
        let dead = "SELECT id FROM inbox WHERE state = 'dead'";
        self.sandbox.query("queue", dead).len()
    }

    /// Gives the job `id` a model that is not there, by hand.
    fn take_model(&self, id: &str) {
        let mut file = (self.sandbox)
            .read_json("state/cron/jobs.json")
            .expect("jobs");
        let jobs = file["jobs"].as_array_mut().expect("a list");
        let mut of_id = jobs.iter_mut().filter(|job| job["id"] == id);
        of_id.next().expect("the job")["model"] = "gone".into();
        self.sandbox
            .put("state/cron/jobs.json", file.to_string().as_bytes());
    }
}

#[test]
fn an_hourly_job_in_an_outage_of_three_days_is_one_run_that_waits() {
    let mut times = Times::new();
    for id in ["look", "gone"] {
        times.add(&["--id", id, "--every", "1h", "--text", id, "--deliver"]);
    }
    times.model_goes_away();
    times.clock.later(HOUR + Duration::from_secs(1));
    let mut tried = times.wait_tried("look", 0);
    times.wait_tried("gone", 0);
    for hours in [30, 42] {
        times.clock.later(hours * HOUR);
        tried = times.wait_tried("look", tried);
        wait_for("the times meanwhile", SOON, || {
            let file = times.sandbox.read_json("state/cron/jobs.json")?;
            let next: chrono::DateTime<chrono::Utc> =
                file["jobs"][0]["next_at"].as_str()?.parse().ok()?;
            (next > times.now()).then_some(())
        });
    }
    assert_eq!(times.dead(), 0);
    // What waits of a job goes with it.
    assert_eq!(times.job(&["remove", "gone"]).code, 0);
    let ended = "SELECT id FROM inbox WHERE id LIKE 'job:gone:%' AND reason = 'stopped'";
    assert_eq!(times.sandbox.query("queue", ended).len(), 1);
    times.model.forget();
    wait_for("the run", LATER, || {
        (times.results("look").last()? == "ok").then_some(())
    });
    assert_eq!(times.results("look"), ["skipped", "ok"]);
    let log = times.sandbox.read("state/cron/runs/look.jsonl");
    let log = log.expect("a log");
    let left_out: Value = serde_json::from_str(log.lines().next().expect("a line")).expect("JSON");
    assert_eq!(left_out["count"], 72, "{left_out}");
    times.wait_heard(OWNER, "echo: look");
    times.all_sent();
    assert_eq!(
        (times.heard(OWNER), times.dead()),
        (vec!["echo: look".to_owned()], 0)
    );
}

#[test]
fn a_reminder_that_fails_or_comes_late_says_its_words_and_when_it_was_due() {
    let mut times = Times::new();
    times.model.push(Reply::Status(401, None));
    times.remind("kid", Duration::ZERO, &[]);
    times.wait_heard(OWNER, &raw("I could not do what they say"));

    let due = times.remind("late", HOUR, &[]);
    times.stop();
    times.clock.later(72 * HOUR);
    times.model_goes_away();
    times.start();
    let due = due.format("%A, %Y-%m-%d %H:%M UTC").to_string();
    let words = format!("{} It was due {due}.", raw("The model is overloaded"));
    times.wait_heard(OWNER, &words);
    let is_told = |request: &Value| {
        request
            .to_string()
            .contains(&format!("(late: it was due {due})"))
    };
    assert!(times.model.requests().iter().any(is_told));

    // One trouble does not hide another. The reminder is tried again, too: its answer would end its trouble.
    times.model.forget();
    for _ in 0..2 {
        times.model.push(Reply::Status(401, None));
    }
    times.telegram.say(OWNER, OWNER, "one");
    wait_for("both troubles", LATER, || {
        let status = times.sandbox.send(&["--status"]).stdout;
        (status.contains("refused the key (401)") && status.contains("answered 529")).then_some(())
    });
}

#[test]
fn what_a_job_for_somebody_else_says_is_not_told_them_while_it_waits_and_when_it_is_given_up() {
    let mut times = Times::with("[pipeline]\ngive_up_after = \"1m\"");
    times.model_goes_away();
    times.remind("gift", Duration::ZERO, &["--to", &GUEST.to_string()]);
    times.wait_tried("gift", 0);
    // Both would be written down before what is looked for here.
    let said = "SELECT id FROM inbox WHERE id LIKE 'words:%' UNION ALL SELECT id FROM outbox";
    assert_eq!(times.sandbox.query("queue", said).len(), 0);
    times.clock.later(Duration::from_secs(120));
    wait_for("it to be given up", LATER, || {
        (times.dead() == 1).then_some(())
    });
    assert_eq!(times.sandbox.query("queue", said).len(), 0);
    assert_eq!(times.heard(GUEST), [] as [&str; 0]);
}

#[test]
fn a_reminder_behind_a_message_that_waits_says_its_words_at_its_time() {
    let times = Times::new();
    times.model_goes_away();
    times.telegram.say(OWNER, OWNER, "one");
    times.wait_shown(OWNER, "I will answer when it is back");
    times.remind("kid", Duration::ZERO, &["--main"]);
    times.wait_heard(OWNER, &raw("The model is overloaded"));
}

#[test]
fn a_job_whose_model_is_gone_leaves_no_dead_letters_and_a_reminder_its_words() {
    let mut times = Times::new();
    times.look_hourly();
    times.remind("kid", HOUR, &[]);
    times.take_model("look");
    times.take_model("kid");
    times.clock.later(HOUR + Duration::from_secs(1));
    times.wait_heard(OWNER, &raw("I could not do what they say"));
    let why = times.settled("look", "error")["last_error"].to_string();
    assert!(why.contains("gone"), "{why}");
    let dead = "SELECT id FROM inbox WHERE state = 'dead' AND id LIKE 'job:look:%'";
    assert_eq!(times.sandbox.query("queue", dead).len(), 0);
}

#[test]
fn a_reminder_that_was_due_while_its_channel_was_off_is_delivered_when_it_is_retried() {
    let mut times = Times::new();
    let due = times.now() + chrono::TimeDelta::hours(1);
    let at = due.format("%Y-%m-%dT%H:%M:%SZ").to_string();
    times.add(&["--id", "cake", "--at", &at, "--literal", "--text", TEXT]);
    times.remind("kid", HOUR, &[]);
    times.stop();
    times.sandbox.reconfigure("[telegram]\nenabled = false");
    times.clock.later(2 * HOUR);
    times.start();
    wait_for("both to be given up", SOON, || {
        (times.dead() == 2).then_some(())
    });
    times.stop();
    times.sandbox.reconfigure("[telegram]\nenabled = true");
    times.start();
    let told = times.sandbox.send(&["--queue", "retry", "all"]);
    assert_eq!(told.code, 0, "{told:?}");
    wait_for("both to be delivered", SOON, || {
        let is_idle = times.sandbox.is_idle(&times.telegram);
        (is_idle && times.heard(OWNER).len() == 2).then_some(())
    });
    let due = due.format("%A, %F %H:%M UTC").to_string();
    let words = format!("{TEXT}\n\n⏳ This was due {due}.");
    assert!(
        times.heard(OWNER).contains(&words),
        "{:?}",
        times.heard(OWNER)
    );
    assert_eq!((times.dead(), times.model.requests().len()), (0, 1));
}

//! The heartbeat: the agent wakes by itself when HEARTBEAT.md has something for it, and never else.

use std::time::Duration;

use serde_json::Value;

use super::{OWNER, SOON, Times};
use crate::support::{Reply, look_until, wait_for};

const BEAT: Duration = Duration::from_secs(1800);

impl Times {
    /// Sets the clock, before a daemon goes by it, to the begin of the next half hour: none ends while a test looks.
    fn at_a_half_hour(mut self) -> Self {
        let into = u64::try_from(self.now().timestamp()).expect("after 1970") % BEAT.as_secs();
        self.clock.later(BEAT - Duration::from_secs(into));
        self
    }

    /// Sets the clock ahead by `time`, and by a minute now and then until `seen`: an agent that is still busy with its
    /// last turn is tried again after one.
    fn beat(&mut self, time: Duration, mut seen: impl FnMut(&Self) -> bool) {
        self.clock.later(time);
        for _ in 0..4 {
            if look_until(SOON / 4, || seen(self).then_some(())).is_some() {
                return;
            }
            self.clock.later(Duration::from_secs(61));
        }
        panic!("it did not wake: {:?}", self.heard(OWNER));
    }

    fn heartbeat(&self) -> String {
        let told = self.sandbox.send(&["--heartbeat"]);
        assert_eq!(told.code, 0, "{told:?}");
        told.stdout.trim().to_owned()
    }

    fn dry_run(&self) -> Value {
        let told = self.sandbox.send(&["--heartbeat", "--dry-run", "--json"]);
        assert_eq!(told.code, 0, "{told:?}");
        serde_json::from_str(&told.stdout).expect("a document")
    }
}

#[test]
fn the_agent_wakes_once_in_a_while_and_says_what_matters_once_a_day() {
    let mut times = Times::asleep("").at_a_half_hour();
    times.start();
    times.sandbox.put("workspace/SOUL.md", b"canary-soul");
    times.sandbox.put("workspace/USER.md", b"canary-user");
    std::fs::remove_file(times.sandbox.path("workspace/HEARTBEAT.md")).expect("the template");
    assert_eq!(
        times.heartbeat(),
        "The agent did not wake: there is no workspace/HEARTBEAT.md."
    );
    times
        .sandbox
        .put("workspace/HEARTBEAT.md", b"# Heartbeat\n\n");
    assert_eq!(
        times.heartbeat(),
        "The agent did not wake: workspace/HEARTBEAT.md has no item."
    );
    times.sandbox.put(
        "workspace/HEARTBEAT.md",
        b"# Heartbeat\n- look at the canary-mail\n",
    );
    let plan = times.dry_run();
    assert_eq!(
        (&plan["would_wake"], plan.get("reason")),
        (&Value::Bool(true), None),
        "{plan}"
    );
    assert!(
        plan["cost_usd"].as_f64().is_some_and(|usd| usd > 0.0)
            && plan["input_tokens"].as_u64() > Some(100),
        "{plan}"
    );
    assert_eq!(
        times.model.requests().len(),
        0,
        "nothing was spent until now"
    );

    times.model.push(Reply::Text("The mail is on fire.".into()));
    assert_eq!(times.heartbeat(), "The agent woke.");
    times.wait_heard(OWNER, "The mail is on fire.");
    let request = times.model.requests().pop().expect("a request").to_string();
    assert!(
        request.contains("canary-mail")
            && request.contains("canary-soul")
            && !request.contains("canary-user"),
        "{request}"
    );
    assert!(request.contains("you woke by yourself"), "{request}");
    assert_eq!(
        times.heartbeat(),
        "The agent did not wake: it woke already in these 30m ([heartbeat] every)."
    );
    assert_eq!(times.dry_run()["would_wake"], false);

    // The very same words are not said again, also by a daemon that knows them from the disk alone.
    times.stop();
    times.start();
    times.model.push(Reply::Text("The mail is on fire.".into()));
    times.beat(BEAT, |times| times.model.requests().len() == 2);
    times.model.push(Reply::Text("HEARTBEAT_OK".into()));
    times.beat(BEAT, |times| times.model.requests().len() == 3);
    // A day later they are.
    times.model.push(Reply::Text("The mail is on fire.".into()));
    times.beat(BEAT * 50, |times| times.heard(OWNER).len() == 2);
    assert_eq!(
        times.heard(OWNER),
        ["The mail is on fire.", "The mail is on fire."]
    );

    // The owner asks what that was about.
    times.telegram.say(OWNER, OWNER, "what?");
    times.wait_heard(OWNER, "echo: what?");
    let request = times.model.requests().pop().expect("a request").to_string();
    assert!(
        request.contains("you told them here, when you woke by yourself: The mail is on fire."),
        "{request}"
    );
}

#[test]
fn nothing_wakes_it_where_cron_does_outside_its_hours_or_when_its_money_is_spent() {
    let config = "[heartbeat]\ndriver = \"cron\"\nactive_start = \"00:00\"\nactive_end = \"23:59\"\n[cost]\nmessage_usd = 0.000001\n";
    let mut times = Times::with(config);
    times.sandbox.put("workspace/HEARTBEAT.md", b"- look\n");
    times.clock.later(BEAT);
    assert_eq!(times.heartbeat(), "The agent woke.");
    // The call is refused before it is made.
    wait_for("its end", SOON, || {
        let rows = times.sandbox.query(
            "queue",
            "SELECT id FROM inbox WHERE id LIKE 'heartbeat:%' AND state = 'done'",
        );
        (!rows.is_empty()).then_some(())
    });
    assert_eq!(
        (times.model.requests().len(), times.heard(OWNER).len()),
        (0, 0),
        "nobody is woken by a failure"
    );
    times.stop();

    let little =
        "[heartbeat]\nactive_start = \"00:00\"\nactive_end = \"23:59\"\nday_usd = 0.000001\n";
    let mut times = Times::with(little);
    times.sandbox.put("workspace/HEARTBEAT.md", b"- look\n");
    let why = "[heartbeat] day_usd = 0.000001 is too small for a call, which may cost up to ";
    let told = times.heartbeat();
    assert!(told.contains(why), "{told}");
    let plan = times.dry_run();
    assert!(
        plan["reason"]
            .as_str()
            .is_some_and(|told| told.starts_with(why)),
        "{plan}"
    );
    times.stop();

    let now = times.now().time();
    let [start, end] = [2, 4].map(|hours| {
        (now + chrono::TimeDelta::hours(hours))
            .format("%H:%M")
            .to_string()
    });
    let times = Times::with(&format!(
        "[heartbeat]\nactive_start = \"{start}\"\nactive_end = \"{end}\"\n"
    ));
    times.sandbox.put("workspace/HEARTBEAT.md", b"- look\n");
    let told = times.heartbeat();
    assert_eq!(
        told,
        format!(
            "The agent did not wake: the time is outside {start}–{end} ([heartbeat] active_start, active_end)."
        )
    );
}

#[test]
fn a_stretch_that_begins_outside_its_hours_is_not_lost() {
    // That of a day begins at midnight.
    let mut times = Times::asleep(
        "[heartbeat]\nevery = \"24h\"\nactive_start = \"15:00\"\nactive_end = \"17:00\"\n",
    );
    let tomorrow = (times.now() + chrono::TimeDelta::days(1)).format("%Y-%m-%d");
    let noon = serde_json::json!(format!("{tomorrow}T12:00:00Z"));
    times.clock.sleep_until(&noon);
    times.sandbox.put("workspace/HEARTBEAT.md", b"- look\n");
    times.model.push(Reply::Text("Tea is ready.".into()));
    times.start();
    assert_eq!(
        times.heartbeat(),
        "The agent did not wake: the time is outside 15:00–17:00 ([heartbeat] active_start, active_end)."
    );
    times.clock.later(Duration::from_secs(4 * 3600));
    times.wait_heard(OWNER, "Tea is ready.");
    assert_eq!(
        times.heartbeat(),
        "The agent did not wake: it woke already in these 1d ([heartbeat] every)."
    );
    times.stop();
}

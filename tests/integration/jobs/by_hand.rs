//! `jobs.json` as its owner edits it: what is wrong there is said where they look, until it is right.

use serde_json::json;

use super::{HOUR, OWNER, SOON, Times};
use crate::support::wait_for;

/// What every place says of a file that was set aside.
const NO_JSON: &str = "jobs.json was no JSON";

impl Times {
    /// Waits until the troubles of the status have `words`, or have them no more.
    fn wait_trouble(&self, words: &str, is_there: bool) {
        wait_for(&format!("{words}: {is_there}"), SOON, || {
            let status = self.sandbox.send(&["--status", "--json"]).json();
            let troubles = status["last_error"].as_str().unwrap_or_default();
            (troubles.contains(words) == is_there).then_some(())
        });
    }
}

#[test]
fn a_file_that_is_no_json_at_the_start_is_told_wherever_the_owner_looks_until_it_is_gone() {
    let mut times = Times::asleep("");
    times
        .sandbox
        .put("state/cron/jobs.json", b"{\"jobs\": [\n}");
    times.start();
    let told = times.wait_shown(OWNER, NO_JSON);
    let aside = told
        .split_whitespace()
        .find(|word| word.contains(".corrupt-"));
    let aside = aside.expect("the file is named").to_owned();
    assert!(
        told.contains("line 2") && told.contains("back into jobs.json"),
        "{told}"
    );
    let says = |place: &str, text: &str| {
        let is_said = text.contains(NO_JSON) && text.contains(&aside);
        assert!(is_said, "{place}: {text}");
    };
    let list = times.job(&["list"]);
    assert_eq!(list.code, 0, "{list:?}");
    says("--job list", &list.stderr);
    let check = times.sandbox.run("agent-daemon", &["check"], "");
    assert_eq!(check.code, 0, "{check:?}");
    says("check", &check.stderr);
    let monitor = times.sandbox.run("agent-monitor", &["--check"], "");
    assert_eq!(monitor.code, 1, "{monitor:?}");
    says("agent-monitor --check", &monitor.stdout);
    times.wait_trouble(NO_JSON, true);
    times.telegram.say(OWNER, OWNER, "/jobs");
    says("/jobs", &times.wait_shown(OWNER, "There are no jobs."));

    // A start tells what it is like, and nobody in the chat once more.
    times.stop();
    times.start();
    let pid = times.daemon.as_ref().map(|daemon| daemon.pid().as_raw());
    wait_for("the new daemon to look", SOON, || {
        let monitor = times.sandbox.read_json("state/monitor.json")?;
        let is_told = monitor["last_error"].as_str()?.contains(NO_JSON);
        (is_told && monitor["pid"] == json!(pid)).then_some(())
    });
    times.all_sent();
    let heard = times.heard(OWNER);
    let told = heard
        .iter()
        .filter(|text| text.starts_with("⚠️") && text.contains(NO_JSON));
    assert_eq!(told.count(), 1, "{heard:?}");

    std::fs::remove_file(&aside).expect("it is there");
    times.wait_trouble(NO_JSON, false);
    let monitor = times.sandbox.run("agent-monitor", &["--check"], "");
    assert_eq!(monitor.code, 0, "{monitor:?}");
    let list = times.job(&["list"]);
    assert!(!list.stderr.contains(NO_JSON), "{list:?}");
}

#[test]
fn a_key_of_a_job_that_nobody_knows_is_a_trouble_until_it_is_gone_and_the_job_runs() {
    let mut times = Times::new();
    let mut job =
        json!({"id": "look", "schedule": {"every": "1h"}, "text": "look", "modle": "small"});
    let put = |times: &Times, job: &serde_json::Value| {
        let file = json!({"version": 1, "jobs": [job]});
        times
            .sandbox
            .put("state/cron/jobs.json", file.to_string().as_bytes());
    };
    put(&times, &job);
    times.wait_trouble("\"modle\"", true);
    times.clock.later(HOUR);
    let ran = times.settled("look", "ok");
    assert!(ran["last_at"].is_string(), "{ran}");
    job.as_object_mut().expect("fields").remove("modle");
    put(&times, &job);
    times.wait_trouble("\"modle\"", false);
}

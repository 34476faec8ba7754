//! Jobs that a guest asked for: theirs to take back, and not done once they may not talk any more.

use super::{GUEST, OWNER, SOON, Times};
use crate::support::wait_for;

#[test]
fn what_somebody_asked_for_is_not_done_once_they_may_not_talk_and_what_still_goes_to_them_is_named()
{
    let times = Times::new();
    times.telegram.say(
        GUEST,
        GUEST,
        r#"[[tool cron {"op": "add", "id": "bobs", "every": "1h", "text": "spend money"}]]"#,
    );
    let asked = times.sandbox.wait_asked();
    assert_eq!(times.sandbox.send(&["--approve", &asked]).code, 0);
    wait_for("the job", SOON, || {
        times.job(&["list"]).stdout.contains("bobs").then_some(())
    });
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
    assert_eq!(times.job(&["run", "bobs"]).code, 0);
    times.wait_heard(GUEST, "echo: spend money");
    let blocked = times
        .sandbox
        .send(&["--pair", "block", &GUEST.to_string()])
        .stdout;
    assert!(
        blocked.contains("agent-send --job remove greet") && !blocked.contains("remove bobs"),
        "{blocked}"
    );
    let requests = times.model.requests().len();
    times.job(&["run", "bobs"]);
    times.settled("bobs", "error");
    assert_eq!(times.model.requests().len(), requests);
    let list = times.job(&["list"]).stdout;
    assert!(list.contains("may not talk any more"), "{list}");
}

#[test]
fn a_guest_takes_back_what_they_asked_for_and_nothing_else() {
    let times = Times::new();
    let remind = |who: i64, words: &str| {
        let call =
            format!(r#"[[tool schedule_message {{"at": "2199-01-01T09:00", "text": "{words}"}}]]"#);
        times.telegram.say(who, who, &call);
        if who == GUEST {
            let asked = times.sandbox.wait_asked();
            assert_eq!(times.sandbox.send(&["--approve", &asked]).code, 0);
        }
        wait_for("the job", SOON, || {
            let told = times.job(&["list", "--json"]).json();
            let mut jobs = told["jobs"].as_array()?.iter();
            let job = jobs.find(|job| job["text"] == words)?;
            job["id"].as_str().map(str::to_owned)
        })
    };
    let (owners, guests) = (remind(OWNER, "call Eve"), remind(GUEST, "Bread!"));
    let cancel = |id: &str| {
        let call = format!(r#"[[tool schedule_message {{"cancel_id": "{id}"}}]]"#);
        times.telegram.say(GUEST, GUEST, &call);
    };
    let wait_said = |words: &str| {
        wait_for(words, SOON, || {
            let mut requests = times.model.requests().into_iter();
            requests
                .any(|request| request.to_string().contains(words))
                .then_some(())
        });
    };
    cancel(&owners);
    wait_said("nothing here has the id");
    cancel(&guests);
    wait_said(&format!("Job {guests} removed"));
    let list = times.job(&["list"]).stdout;
    assert!(
        list.contains("call Eve") && !list.contains("Bread!"),
        "{list}"
    );
}

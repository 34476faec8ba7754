//! Jobs of somebody who may not talk any more.

use super::{GUEST, SOON, Times};
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

//! A model reads what was said: what counts of its answer, what it costs, and what happens when there is no money.

use serde_json::json;

use super::{TALK, consolidate, facts, run, shown, transcript};
use crate::support::{FakeModel, Reply, Sandbox};

/// What rules alone do not understand.
const SAID: [(&str, &str, &str); 4] = [
    (
        "user",
        "owner",
        "We have settled down in Porto at last, Rita and me, and I owe her mother the photos by 8 May.",
    ),
    ("assistant", "", "Lovely!"),
    (
        "user",
        "owner",
        "And everybody calls Robert Bob, by the way.",
    ),
    ("assistant", "", "I see."),
];

#[test]
fn what_only_the_daemons_model_may_read_waits_for_it() {
    let model = FakeModel::start();
    let sandbox = Sandbox::new();
    sandbox.put(
        "state/sessions/s1.2026-05-04.jsonl",
        transcript("s1", &SAID).as_bytes(),
    );
    sandbox.put("agent.toml", b"");
    // Its key is in the environment of its unit.
    let state = json!({"providers": [{"name": "anthropic", "state": "ok"}]});
    sandbox.put("state/monitor.json", state.to_string().as_bytes());
    let told = consolidate(&sandbox, &["-v"]);
    assert!(
        told.stderr
            .contains("the daemon uses anthropic, whose key is not visible here"),
        "{told:?}"
    );
    let sandbox = sandbox.with_anthropic(&model);
    run(&sandbox);
    assert_eq!(model.readings().len(), 1, "nothing was read without it");
}

#[test]
fn a_model_reads_what_was_said_and_is_paid_for_it() {
    let (model, sandbox) = Sandbox::with_model();
    sandbox.put(
        "state/sessions/s1.2026-05-04.jsonl",
        transcript("s1", &SAID).as_bytes(),
    );
    let told = consolidate(&sandbox, &["--dry-run"]);
    assert!(
        told.stderr.contains("a model would read 1 of the spans") && told.stderr.contains("$0.0"),
        "{told:?}"
    );
    assert_eq!(model.readings().len(), 0, "a dry run asks nobody");
    let answer = json!({
        "facts": [{"entity": "user", "attribute": "lives in", "value": "Porto", "confidence": 1, "line": 1},
                  {"entity": "Bob", "attribute": "is", "value": "called so by everybody", "confidence": 1, "line": 3},
                  {"entity": "user", "attribute": "is", "value": "an admin", "confidence": 1, "line": 2}],
        "aliases": [{"alias": "Bob", "name": "Robert", "line": 3}],
        "commitments": [{"who": "user", "what": "send the photos to Rita's mother", "deadline": "2026-05-08", "line": 1}],
        "episode": {"summary": "The user told that they settled down in Porto with Rita.", "topics": ["Porto"]},
    });
    model.push_found(Reply::Text(format!("```json\n{answer}\n```")));
    run(&sandbox);
    let asked = model.readings()[0].to_string();
    assert!(
        asked.contains("[1] user: We have settled down") && !asked.contains("Nowhere"),
        "{asked}"
    );
    let path = "state/sessions/s1.2026-05-04.jsonl";
    let expected = [
        format!("alias: Bob {path}:4"),
        format!("is: called so by everybody {path}:4"),
        format!("lives in: Porto {path}:2"),
    ];
    assert_eq!(shown(&sandbox, &[]), expected);
    assert!(facts(&sandbox, &["called"])[0]["entity"] == "Robert");
    let promised = &consolidate(&sandbox, &["commitments", "--json"]).json()["commitments"][0];
    assert_eq!(
        (&promised["deadline"], &promised["source_line"]),
        (&json!("2026-05-08"), &json!(2))
    );
    assert!(
        consolidate(&sandbox, &["commitments"])
            .stdout
            .contains("overdue")
    );
    assert!(
        consolidate(&sandbox, &["episodes", "porto"])
            .stdout
            .contains("settled down in Porto with Rita")
    );
    let cost = sandbox
        .send(&["--cost", "all", "--by", "source", "--json"])
        .json();
    assert!(
        cost["groups"]
            .as_array()
            .is_some_and(|all| all.iter().any(|one| one["name"] == "consolidation")),
        "{cost}"
    );

    // What it knows by now goes with the next question.
    let more = [
        "I met Bob again and he told me about Rome, which was nice to hear",
        "ok",
        "and so on",
        "ok",
    ];
    let more: Vec<(&str, &str, &str)> = more
        .iter()
        .enumerate()
        .map(|(at, text)| {
            if at % 2 == 0 {
                ("user", "owner", *text)
            } else {
                ("assistant", "", *text)
            }
        })
        .collect();
    sandbox.put(
        "state/sessions/s2.2026-05-04.jsonl",
        transcript("s2", &more).as_bytes(),
    );
    run(&sandbox);
    assert!(
        model.readings()[1]
            .to_string()
            .contains("Known names: Robert (also Bob)"),
        "{}",
        model.readings()[1]
    );

    // It expires unseen after a week, and the run can be taken back.
    let told = consolidate(&sandbox, &["maintain", "-v"]);
    assert!(
        told.stdout.contains("expired  user: send the photos"),
        "{told:?}"
    );
    let runs = consolidate(&sandbox, &["undo", "--json"]).json();
    let told = consolidate(
        &sandbox,
        &["undo", runs["runs"][0]["run"].as_str().expect("an id")],
    );
    assert!(
        told.stdout.contains("- user lives in: Porto") && told.code == 0,
        "{told:?}"
    );
    assert_eq!(shown(&sandbox, &[]), [] as [&str; 0]);
    run(&sandbox);
    assert_eq!(
        (shown(&sandbox, &[]).len(), model.readings().len()),
        (0, 2),
        "it is not read again"
    );
}

#[test]
fn no_money_and_no_key_leave_a_conversation_to_the_rules_until_there_is_some() {
    let (model, sandbox) = Sandbox::with_model();
    let mut sandbox = sandbox.config("[cost]\nday_usd = 0.000001");
    let said = [(
        "user",
        "owner",
        "My sister is Ana, and she has lived in Porto for a long time now.",
    )];
    let talk = [&said[..], &TALK[1..]].concat();
    sandbox.put(
        "state/sessions/s1.2026-05-04.jsonl",
        transcript("s1", &talk).as_bytes(),
    );
    run(&sandbox);
    assert_eq!(
        shown(&sandbox, &["sister"]),
        ["sister: Ana state/sessions/s1.2026-05-04.jsonl:2"],
        "rules read it"
    );
    let told = consolidate(&sandbox, &["-v"]);
    assert!(
        told.stderr.contains("[cost] day_usd = 0.00") || told.stderr.contains("day_usd"),
        "{told:?}"
    );
    assert_eq!(model.readings().len(), 0);
    sandbox.reconfigure("[cost]\nday_usd = 0.0");
    let fact = json!({"entity": "user", "attribute": "sister", "value": "Ana", "confidence": 1, "line": 1});
    model.push_found(Reply::Text(json!({"facts": [fact]}).to_string()));
    run(&sandbox);
    assert_eq!(
        (shown(&sandbox, &["sister"]).len(), model.readings().len()),
        (1, 1)
    );
}

//! Who is who: emoji that people compare, and what counts afterwards, also when the keys are lost.

use std::process::Command;

use serde_json::Value;

use crate::matrix::{ADA, AGENT, House, Person, SOON, installed, script};
use crate::support::{Running, wait_for};

#[test]
fn emoji_are_compared_in_the_shell_and_count_from_then_on() {
    let modules = installed("matrix-js");
    if !modules.exists() {
        println!(
            "skipped: matrix-js-sdk is not installed (.ci/run installs it where there is node)"
        );
        return;
    }
    let Some(house) = House::open() else {
        return;
    };
    let house = house.settle(ADA, "require_verified = true\n");
    let running = house.start();
    // Two processes with the same keys would ruin them.
    let refused = house.run(&["verify"], "");
    let hint = "systemctl --user stop agent-channel@matrix";
    assert!(
        refused.code == 75 && refused.stderr.contains(hint),
        "{refused:?}"
    );
    drop(Person::new(&house.server, "ada"));
    let mut command = Command::new("node");
    command.arg(script("element.mjs")).arg(modules).args([
        &house.server.url(),
        "@ada:home.test",
        "pw-ada",
        AGENT,
    ]);
    // The client that most people have is built on this library.
    let element = Running::start(&mut command);
    element.wait_said("\"joined\"");
    // Nobody is heard who was not verified.
    wait_for("her words not to be believed", SOON, || {
        let (_, log) = running.said();
        log.contains("the sender's device is not verified")
            .then_some(())
    });
    assert_eq!(house.model.requests().len(), 0);
    drop(running);
    they_compare(&house, &element);
    let is_verified = |house: &House| {
        let status = house.run(&["status"], "");
        let line = "@ada:home.test, verified; encrypted";
        assert!(status.stdout.contains(line), "{status:?}");
    };
    is_verified(&house);
    // The key that her words had before counts now.
    let running = house.start();
    element.write("say [[say Believed.]]\n");
    element.wait_said("Believed.");
    drop(running);
    // A device that the homeserver says is hers, and she did not sign.
    house.set("");
    let running = house.start();
    let other = Person::with_client(&house.server.url(), "ada");
    other.signs_in("ada");
    let room = other.asks("GET", "/_matrix/client/v3/joined_rooms", Value::Null);
    other.says(
        room["joined_rooms"][0].as_str().expect("a room"),
        "[[say leak]]",
    );
    wait_for("her other device not to be believed", SOON, || {
        let (_, log) = running.said();
        log.contains("has not signed the device that wrote it")
            .then_some(())
    });
    drop(running);
    the_identity_comes_back_when_the_keys_are_lost(&house, &element);
    is_verified(&house);
    let asked: String = house
        .model
        .requests()
        .iter()
        .map(Value::to_string)
        .collect();
    assert!(!asked.contains("leak"), "{asked}");
}

/// They do not agree, and then they do.
fn they_compare(house: &House, element: &Running) {
    for (round, answer, word) in [(1, "n\n", "cancelled"), (2, "y\n", "verified")] {
        // Either side asks.
        let process = if round == 1 {
            let process = Running::start(house.command().arg("verify"));
            process.wait_said("Waiting.");
            element.write("verify\n");
            process
        } else {
            Running::start(house.command().args(["verify", "@ada:home.test"]))
        };
        let shown = process.wait_said("Is it the same?");
        let mark = format!("{{\"round\":{round},");
        let theirs = element.wait_said(&mark);
        let theirs = theirs.lines().find(|line| line.starts_with(&mark));
        let theirs = theirs.expect("a line");
        let theirs: Value = serde_json::from_str(theirs).expect("json");
        for emoji in theirs["emoji"].as_array().expect("emoji") {
            assert!(
                shown.contains(emoji.as_str().expect("an emoji")),
                "{theirs}: {shown}"
            );
        }
        if word == "verified" {
            element.write("confirm\n");
        }
        process.write(answer);
        element.wait_said(&format!("\"{word}\""));
        let done = process.end();
        let is_verified = word == "verified";
        let says_so = done.stdout.contains("@ada:home.test is verified.");
        assert_eq!(
            (says_so, done.code == 0),
            (is_verified, is_verified),
            "{done:?}"
        );
    }
}

fn the_identity_comes_back_when_the_keys_are_lost(house: &House, element: &Running) {
    let place = house.sandbox.path("state/channels/matrix");
    std::fs::remove_dir_all(place.join("secret/store")).expect("the keys");
    // New keys under the old name would warn everybody.
    let lost = Running::start(&mut house.command()).end();
    let says = "the keys of the device are gone";
    assert!(lost.code == 77 && lost.stderr.contains(says), "{lost:?}");
    let key = house
        .sandbox
        .put("key", format!("{}\n", house.recovery_key).as_bytes());
    let key = key.to_str().expect("a path");
    let again = house.run(&["login", "--recovery-key-file", key], "");
    assert!(
        again.code == 0 && !again.stdout.contains("not signed"),
        "{again:?}"
    );
    let running = house.start();
    element.write("say [[say Recovered.]]\n");
    element.wait_said("Recovered.");
    // Nobody is warned: it is who it was.
    element.write("trust\n");
    let trust = element.wait_said("\"trust\"");
    let trust = trust.lines().find(|line| line.contains("\"trust\""));
    assert_eq!(trust, Some("{\"trust\":true}"));
    drop(running);
}

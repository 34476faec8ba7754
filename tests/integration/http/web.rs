//! The chat in a real Chromium, driven by `web/browser.mjs` with puppeteer-core; axe-core looks at what a screen reader
//! meets. .ci/run installs them into `target/ci-tools/browser`.

#![allow(clippy::print_stdout, reason = "a test says when it is skipped")]

use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde_json::json;

use super::{Api, TOKEN};
use crate::support::Reply;

/// Returns node, the browser and the directory of puppeteer-core.
fn programs() -> Option<(String, String, PathBuf)> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target"),
        PathBuf::from,
    );
    let find = |names: &str| {
        let script = format!("for name in {names}; do command -v $name && exit; done");
        let found = Command::new("sh").args(["-c", &script]).output().ok()?;
        let found = String::from_utf8(found.stdout).ok()?.trim().to_owned();
        (!found.is_empty()).then_some(found)
    };
    let dir = target.join("ci-tools/browser");
    let is_there = dir.join("node_modules/puppeteer-core").is_dir()
        && dir.join("node_modules/axe-core").is_dir();
    let browser = find("chromium chromium-browser google-chrome")?;
    is_there
        .then(|| Some((find("node")?, browser, dir)))
        .flatten()
}

/// Runs a story of the script in a browser; fails with what it says.
fn run(api: &Api, story: &str) {
    let Some((node, browser, dir)) = programs() else {
        println!(
            "skipped: chromium, node or puppeteer-core is not installed (npm install --prefix target/ci-tools/browser puppeteer-core axe-core)"
        );
        return;
    };
    let script =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/integration/http/web/browser.mjs");
    let ran = Command::new(node)
        .arg(script)
        .args([story, &format!("http://127.0.0.1:{}", api.port), TOKEN])
        .env("BROWSER", browser)
        .env("MODULES", dir.join("node_modules"))
        .stdin(Stdio::null())
        .output()
        .expect("node runs");
    let said = String::from_utf8_lossy(&ran.stdout);
    let wrong = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{story}: {said}\n{wrong}");
}

/// What tries to be more than words.
const HOSTILE: &str = "<script>window.pwned=1</script><img src=x onerror=\"window.pwned=1\"> [x](javascript:window.pwned=1) ![y](http://evil.example/y.png)\n\n```html\n</code></pre><script>window.pwned=1</script>\n```\n\n# <b>head</b>\n\n| <i>a</i> | b |\n|---|---|\n| <img src=x onerror=window.pwned=1> | \u{202e}c |\n";

#[test]
fn a_conversation_in_a_browser_streams_asks_and_stops() {
    let api = Api::with("[tools.exec]\npolicy = \"ask\"");
    api.model.push(Reply::Text("Hello **Ada**.".to_owned()));
    api.model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": "echo forty-two > answer.txt && cat answer.txt # \u{e0041}"}),
    ));
    api.model.push(Reply::Text("It says forty-two.".to_owned()));
    api.model.push(Reply::Hang);
    run(&api, "conversation");
}

#[test]
fn what_is_allowed_in_a_conversation_is_asked_again_in_another_one_only() {
    let api = Api::with("[tools.exec]\npolicy = \"ask\"");
    for said in ["first", "second", "third", "fourth"] {
        let call = json!({"command": "date"});
        api.model.push(Reply::Tool("exec".to_owned(), call));
        api.model.push(Reply::Text(format!("{said} done")));
    }
    run(&api, "granted");
}

#[test]
fn no_words_of_anybody_become_a_part_of_the_page() {
    let api = Api::new();
    api.model.push(Reply::Text(HOSTILE.to_owned()));
    api.model
        .push(Reply::Tool(HOSTILE.to_owned(), json!({"command": HOSTILE})));
    api.model.push(Reply::Text(HOSTILE.to_owned()));
    run(&api, "hostile");
}

#[test]
fn every_view_is_usable_by_keyboard_and_screen_reader_at_any_width_light_and_dark() {
    let api = Api::new();
    api.sandbox.put(
        "workspace/memory/2026-05-04.md",
        b"# Notes\n\nThe spare key of the canary-boat hangs behind the door.\n",
    );
    assert_eq!(api.sandbox.run("agent-index", &[], "").code, 0);
    api.sandbox.send(&[
        "--job", "add", "--every", "1h", "--name", "look", "--text", "look",
    ]);
    api.chat(&json!({"message": "hello", "sender": "ada"}));
    run(&api, "views");
}

//! A real browser behind the wall: Playwright's tool server with Debian's Chromium signs in, fills a form, and its picture
//! goes to the chat. `.ci/run` installs the server into `target/ci-tools/browser` where there is node.
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]
#![allow(clippy::disallowed_methods, reason = "a test writes plainly")]

use std::{fs, path::PathBuf, time::Duration};

use serde_json::{Value, json};

use crate::mcp::{listed, trust};
use crate::support::{FakeModel, FakeTelegram, House, Pages, Reply, Sandbox, Sent, Site, site};

const SOON: Duration = Duration::from_secs(60);
const OWNER: i64 = 1001;
const SERVER: &str = "node_modules/@playwright/mcp/cli.js";
const CHROMIUM: &str = "/usr/bin/chromium";

/// Returns where node and the tool server are; `None`, and says so, where something is missing.
pub(super) fn installed() -> Option<(String, PathBuf)> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("target"),
        PathBuf::from,
    );
    let dir = target.join("ci-tools/browser");
    let node = ["/usr/bin/node", "/usr/local/bin/node"];
    let node = node.into_iter().find(|node| PathBuf::from(node).is_file());
    match node.filter(|_| dir.join(SERVER).is_file() && PathBuf::from(CHROMIUM).is_file()) {
        Some(node) => Some((node.to_owned(), dir)),
        None => {
            println!(
                "skipped: node, chromium or the browser's tool server is not installed (npm install --ignore-scripts --prefix target/ci-tools/browser @playwright/mcp)"
            );
            None
        }
    }
}

/// Returns the settings of the recipe (docs/howto/browser.md), for these hosts.
pub(super) fn settings(node: &str, dir: &PathBuf, secrets: &str, hosts: &[String]) -> String {
    let command = json!([
        node,
        dir.join(SERVER),
        "--headless",
        "--isolated",
        "--no-sandbox",
        "--executable-path",
        CHROMIUM,
        "--proxy-server",
        "http://127.0.0.1:3128",
        "--secrets",
        secrets
    ]);
    format!(
        "[mcp.servers.web]\ncommand = {command}\nreads = {}\nnetwork = {{ allow = {hosts:?} }}\n\
         [tools.policies]\nweb = \"allow\"\n",
        json!([dir, secrets])
    )
}

pub(super) fn calls(model: &FakeModel, tool: &str, input: Value) {
    model.push(Reply::Tool(format!("web_browser_{tool}"), input));
}

pub(super) fn fill(model: &FakeModel, fields: &[(&str, &str)]) {
    let field = |(name, value): &(&str, &str)| json!({"target": format!("input[name={name}]"), "name": name, "type": "textbox", "value": value});
    let fields: Vec<Value> = fields.iter().map(field).collect();
    calls(model, "fill_form", json!({"fields": fields}));
    calls(model, "click", json!({"target": "button"}));
}

#[test]
fn a_browser_signs_in_fills_a_form_and_sends_its_picture_to_the_chat() {
    let Some((node, dir)) = installed() else {
        return;
    };
    let (site, elsewhere) = (Site::start(), Pages::start());
    elsewhere.put("/", 200, "text/html", "<p>elsewhere");
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    let secrets = sandbox.home().with_file_name("browser.env");
    fs::write(&secrets, format!("TABLE_PASSWORD=\"{}\"\n", site::PASSWORD)).expect("write");
    let secrets = secrets.display().to_string();
    let sandbox = sandbox.config(&settings(&node, &dir, &secrets, &[site.host()]));
    let house = House::of(sandbox, telegram, model);
    trust(&house.sandbox, "web");
    listed(&house.sandbox, "web", |server| server["on"] == true);
    let (model, telegram) = (&house.model, &house.telegram);
    let say = |words: &str| {
        let message = telegram.say(OWNER, OWNER, words).1;
        let answers = |sent: &Sent| sent.reply_to == Some(message);
        telegram.wait_sent(answers, SOON);
    };

    calls(
        model,
        "navigate",
        json!({"url": format!("{}/", site.url())}),
    );
    fill(
        model,
        &[("user", site::USER), ("password", "TABLE_PASSWORD")],
    );
    fill(model, &[("name", "Ada Lovelace"), ("day", "Friday")]);
    calls(model, "snapshot", json!({}));
    calls(model, "take_screenshot", json!({"scale": "css"}));
    // Another host is not reached, whatever the browser is told.
    calls(model, "navigate", json!({"url": elsewhere.url("/")}));
    model.push(Reply::Text("Booked.".to_owned()));
    say("book a table for Friday");
    let told = model.requests().pop().expect("a request").to_string();
    assert_eq!(
        site.orders(),
        [("Ada Lovelace".to_owned(), "Friday".to_owned())],
        "{told}"
    );
    assert!(told.contains("Booked for Ada Lovelace on Friday"), "{told}");
    assert_eq!(elsewhere.asked(), [], "{told}");
    let seen: String = model.requests().iter().map(Value::to_string).collect();
    assert!(
        !seen.contains(site::PASSWORD),
        "the model was told the password"
    );

    let pictures = house.sandbox.path("workspace/outbox/servers/web");
    let picture = fs::read_dir(&pictures)
        .expect("the picture is kept")
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|kind| kind == "png"))
        .expect("a picture");
    let name = picture.file_name().expect("a name").to_string_lossy();
    let paths = json!({"paths": [format!("outbox/servers/web/{name}")]});
    model.push(Reply::Tool("send_media".to_owned(), paths));
    model.push(Reply::Text("Here.".to_owned()));
    say("send me what it looks like");
    let sent = telegram.calls_of("sendPhoto").len() + telegram.calls_of("sendDocument").len();
    assert_eq!(sent, 1, "{}", model.requests().pop().expect("a request"));
}

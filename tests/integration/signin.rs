//! `login`, `logout` and `auth`: keys and sign-ins of providers, from the prompt to the header of a request.
//! Everything secret in here has the word `canary` in it, so that a leak is found by that word.

mod keys;
mod oauth;
mod renewal;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::{Path, PathBuf},
    time::Duration,
};

use crate::support::{FakeIssuer, FakeModel, Output, Running, Sandbox, wait_for};

/// Long against everything that happens here.
const SOON: Duration = Duration::from_secs(20);

/// Gets a page; returns its status, where it sends the browser, and its body.
fn get(url: &str) -> (u16, Option<String>, String) {
    let (host, path) = url
        .strip_prefix("http://")
        .expect("loopback")
        .split_once('/')
        .expect("a path");
    let mut stream =
        TcpStream::connect(host.replace("localhost", "127.0.0.1")).expect("it listens");
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("text");
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
    let location = head
        .lines()
        .find_map(|line| Some(line.strip_prefix("location: ")?.to_owned()));
    (
        head.split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok())
            .expect("a status"),
        location,
        body.to_owned(),
    )
}

/// A provider `house` with a sign-in at `issuer` whose models are those of `model`.
fn house(issuer: &FakeIssuer, model: &FakeModel) -> Sandbox {
    let file = format!(
        "type = \"openai\"\nbase_url = \"{}\"\n{}[models.primary]\nmodel = \"mock-model\"\ncost_per_mtok = [0, 0, 0]\n",
        model.url(),
        issuer.table()
    );
    Sandbox::new().provider_config("house", &file)
}

/// Starts a sign-in and returns it with the address it shows.
fn begin(sandbox: &Sandbox, arguments: &[&str]) -> (Running, String) {
    let running = sandbox.starting(
        "agent-daemon",
        &[&["login", "--oauth", "--no-browser"], arguments].concat(),
    );
    let url = wait_for("the address", SOON, || {
        let (_, talk) = running.said();
        let line = talk
            .lines()
            .find(|line| line.starts_with("  http"))?
            .trim()
            .to_owned();
        talk.contains(&format!("{line}\n")).then_some(line)
    });
    (running, url)
}

/// Signs in as a person with a browser does.
fn sign_in(sandbox: &Sandbox) {
    let (running, url) = begin(sandbox, &["house"]);
    let (status, location, _) = get(&url);
    assert_eq!(status, 302, "{url}");
    let (status, _, page) = get(&location.expect("the browser is sent back"));
    assert_eq!(status, 200);
    assert!(page.contains("You can close this page"), "{page}");
    let told = running.end();
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "signed in at house\n"),
        "{told:?}"
    );
    no_canary("login", &told);
}

fn no_canary(what: &str, told: &Output) {
    assert!(!format!("{told:?}").contains("canary"), "{what}: {told:?}");
}

/// Checks that no file of the home but auth.json has a secret in it.
fn no_secret_in_files(sandbox: &Sandbox) {
    let mut open = vec![sandbox.home()];
    let mut seen = 0;
    while let Some(dir) = open.pop() {
        for entry in fs::read_dir(&dir).expect("own directory").flatten() {
            let path: PathBuf = entry.path();
            let kind = entry.file_type().expect("a file");
            if kind.is_dir() {
                open.push(path);
            } else if kind.is_file() && !path.ends_with("state/auth.json") {
                seen += 1;
                assert!(!holds_canary(&path), "{} holds a secret", path.display());
            }
        }
    }
    assert!(seen > 5, "the files were not found");
}

fn holds_canary(path: &Path) -> bool {
    fs::read(path).is_ok_and(|bytes| bytes.windows(6).any(|word| word == b"canary"))
}

/// Returns what went out as a key in the last request to `model`.
fn last_key(model: &FakeModel) -> String {
    let last = model.exchanges().pop().expect("a request");
    let header = |name: &str| last.headers.get(name).cloned();
    header("x-api-key")
        .or_else(|| header("authorization"))
        .unwrap_or_default()
}

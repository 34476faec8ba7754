//! A sign-in at a server that wants one: against the authorization server of the official Python SDK, and against servers
//! that lead elsewhere.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt,
    thread,
    time::Duration,
};

use serde_json::{Value, json};

use super::sdk::{http_server, sdk};
use super::{call, listed, trust};
use crate::support::{FakeModel, Reply, Running, Sandbox, wait_for};

const SERVER: &str = include_str!("auth_server.py");
const SOON: Duration = Duration::from_secs(60);

/// Gets an address as a browser does, and returns the whole answer.
fn get(url: &str) -> String {
    let rest = url.strip_prefix("http://").expect("an address");
    let (host, path) = rest.split_once('/').expect("a path");
    let mut stream = TcpStream::connect(host).expect("it listens");
    let request = format!("GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("it reads");
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

/// Returns the address that a sign-in shows.
fn shown(login: &Running) -> String {
    wait_for("the address", SOON, || {
        let (_, err) = login.said();
        let mut lines = err.lines().map(str::trim);
        lines
            .find(|line| line.starts_with("http://"))
            .map(str::to_owned)
    })
}

/// Goes through the page of the issuer and returns where it sends the browser.
fn consent(url: &str) -> String {
    let answer = get(url);
    let mut lines = answer.lines();
    let location = lines.find(|line| line.to_ascii_lowercase().starts_with("location:"));
    let location = location.unwrap_or_else(|| panic!("{answer}"));
    location
        .split_once(':')
        .expect("a value")
        .1
        .trim()
        .to_owned()
}

fn query<'a>(url: &'a str, key: &str) -> Option<&'a str> {
    let (_, query) = url.split_once('?')?;
    query
        .split('&')
        .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
}

#[test]
fn one_signs_in_with_a_browser_or_a_pasted_address_and_tokens_are_renewed() {
    if sdk().is_none() {
        return;
    }
    let (model, sandbox) = Sandbox::with_model();
    let (port, _server) = http_server(&sandbox, SERVER, "auth");
    let sandbox = sandbox.config(&format!(
        "[mcp.servers.desk]\nurl = \"http://127.0.0.1:{port}/mcp\"\n[tools.exec]\npolicy = \"allow\"\n"
    ));
    let daemon = sandbox.ready();
    let broken = listed(&sandbox, "desk", |server| server["broken"].is_string());
    let why = broken["broken"].as_str().expect("why");
    assert!(why.contains("agent-send --mcp login desk"), "{why}");

    let login = sandbox.sending(&["--json", "--mcp", "login", "desk"]);
    let url = shown(&login);
    assert_eq!(query(&url, "code_challenge_method"), Some("S256"), "{url}");
    let resource = format!("http%3A%2F%2F127.0.0.1%3A{port}%2Fmcp");
    assert_eq!(query(&url, "resource"), Some(resource.as_str()), "{url}");
    let back = consent(&url);
    // An answer that is not ours changes nothing.
    let foreign = back.replace("state=", "state=x");
    assert!(get(&foreign).contains("does not belong to the sign-in"));
    assert!(get(&back).contains("You can close this page"));
    let ended = login.end();
    assert_eq!(ended.code, 0, "{ended:?}");
    assert_eq!(ended.json()["scope"], "desk");
    let path = sandbox.path("state/mcp-auth.json");
    let mode = fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    // The daemon uses it without being asked, and goes on when it has ended.
    trust(&sandbox, "desk");
    works_and_is_renewed(&sandbox, &model);

    // No word of it is anywhere else, and no command sees it.
    let stored: Value = serde_json::from_slice(&fs::read(&path).expect("read")).expect("JSON");
    let tokens = &stored["providers"]["mcp.desk"]["oauth"];
    model.push(Reply::Tool(
        "exec".to_owned(),
        json!({"command": format!("cat {}", path.display())}),
    ));
    assert_eq!(sandbox.send(&["--wait", "look"]).code, 0);
    let everything = sandbox.bash("cat state/logs/*.jsonl state/sessions/*.jsonl state/*.json state/audit.jsonl | grep -v '\"refresh\": \\|\"access\": '").stdout;
    for token in ["access", "refresh"] {
        let token = tokens[token].as_str().expect("a token");
        assert!(!everything.contains(token), "{token}");
        assert!(!format!("{:?}", model.requests()).contains(token));
    }

    // The issuer forgets all: told with the command that helps. The next sign-in is pasted.
    assert!(call(&sandbox, &model, "desk_forget", &json!({})).contains("forgotten"));
    let answer = call(&sandbox, &model, "desk_renewed", &json!({}));
    assert!(answer.contains("agent-send --mcp login desk"), "{answer}");
    let login = sandbox.sending(&["--mcp", "login", "desk"]);
    let back = consent(&shown(&login));
    login.write(&format!("{back}\n"));
    let ended = login.end();
    assert!(
        ended.code == 0 && ended.stdout.starts_with("signed in at "),
        "{ended:?}"
    );
    wait_for("the server to work again", SOON, || {
        let answer = call(&sandbox, &model, "desk_renewed", &json!({}));
        answer.contains("renewed ").then_some(())
    });
    let out = sandbox.send(&["--mcp", "logout", "desk"]);
    assert_eq!(out.code, 0, "{out:?}");
    assert_eq!(sandbox.send(&["--mcp", "logout", "desk"]).code, 1);
    assert_eq!(daemon.term(), 0);
}

/// What `agent-send` says of a daemon's first call with a token, and of one with the renewed token.
fn works_and_is_renewed(sandbox: &Sandbox, model: &FakeModel) {
    let times = |answer: &str| {
        let (_, rest) = answer.split_once("renewed ").expect("a count");
        let count = rest.split(' ').next().expect("a number");
        count.parse::<u32>().expect("a number")
    };
    let first = times(&call(sandbox, model, "desk_renewed", &json!({})));
    thread::sleep(Duration::from_secs(4));
    let later = times(&call(sandbox, model, "desk_renewed", &json!({})));
    assert!(later > first, "{first} {later}");
}

#[test]
fn a_client_of_the_owners_own_shows_its_secret_where_the_issuer_takes_it() {
    if sdk().is_none() {
        return;
    }
    for method in ["client_secret_basic", "client_secret_post"] {
        let (model, sandbox) = Sandbox::with_model();
        let back = crate::http::free_port();
        let way = format!("{method},http://127.0.0.1:{back}/callback");
        let (port, _server) = http_server(&sandbox, SERVER, &way);
        let sandbox = sandbox.config(&format!(
            "[mcp.servers.desk]\nurl = \"http://127.0.0.1:{port}/mcp\"\nclient_id = \"our:app\"\nclient_secret_env = \"DESK_SECRET\"\nredirect_port = {back}\n"
        ));
        // Without it, or with another, nothing is stored.
        let told = sandbox.send(&["--mcp", "login", "desk"]);
        assert!(
            told.code == 78 && told.stderr.contains("DESK_SECRET is not set"),
            "{told:?}"
        );
        let wrong = sandbox.env("DESK_SECRET", "wrong");
        let login = wrong.sending(&["--mcp", "login", "desk"]);
        get(&consent(&shown(&login)));
        let ended = login.end();
        assert!(
            ended.code == 1 && !ended.stderr.contains("wrong\""),
            "{ended:?}"
        );
        assert!(!wrong.path("state/mcp-auth.json").exists());

        let secret = "s e+c%r/t:ü";
        let sandbox = wrong.env("DESK_SECRET", secret);
        let daemon = sandbox.ready();
        let login = sandbox.sending(&["--mcp", "login", "desk"]);
        get(&consent(&shown(&login)));
        let ended = login.end();
        assert_eq!(ended.code, 0, "{method}: {ended:?}");
        trust(&sandbox, "desk");
        works_and_is_renewed(&sandbox, &model);
        let stored: Value =
            serde_json::from_slice(&fs::read(sandbox.path("state/mcp-auth.json")).expect("read"))
                .expect("JSON");
        assert_eq!(
            stored["providers"]["mcp.desk"]["oauth"]["client_auth"],
            method
        );
        let everything = sandbox
            .bash("cat state/logs/*.jsonl state/sessions/*.jsonl state/audit.jsonl")
            .stdout;
        assert!(!everything.contains(secret));
        assert_eq!(daemon.term(), 0);
    }
}

/// Answers every request at a port of its own with `answer`, and returns the port.
fn answering(answer: impl Fn(&str) -> String + Send + 'static) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut bytes = vec![0; 65536];
            let read = stream.read(&mut bytes).unwrap_or(0);
            let request =
                String::from_utf8_lossy(bytes.get(..read).unwrap_or_default()).into_owned();
            let _ = stream.write_all(answer(&request).as_bytes());
        }
    });
    port
}

fn json_answer(document: &Value) -> String {
    let body = document.to_string();
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn a_server_cannot_send_us_to_what_its_owner_did_not_write() {
    let inside = TcpListener::bind("127.0.0.1:0").expect("a port");
    inside.set_nonblocking(true).expect("a socket");
    let inside_url = format!("http://{}", inside.local_addr().expect("an address"));
    let refused = |named: &str, servers: Value, resource: Option<&str>, says: &str| {
        let (_model, sandbox) = Sandbox::with_model();
        let named = named.to_owned();
        let resource = resource.map(str::to_owned);
        let port = answering(move |request| {
            let host = request
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase()
                        .strip_prefix("host: ")
                        .map(str::to_owned)
                })
                .unwrap_or_default();
            if request.starts_with("POST") {
                let named = named.replace("HERE", &host);
                return format!(
                    "HTTP/1.1 401 Unauthorized\r\nwww-authenticate: Bearer resource_metadata=\"{named}\"\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
                );
            }
            let own = format!("http://{host}/mcp");
            json_answer(
                &json!({"resource": resource.as_ref().unwrap_or(&own), "authorization_servers": servers}),
            )
        });
        let sandbox = sandbox.config(&format!(
            "[mcp.servers.desk]\nurl = \"http://127.0.0.1:{port}/mcp\"\n"
        ));
        let told = sandbox.send(&["--mcp", "login", "desk"]);
        assert!(told.code == 1 && told.stderr.contains(says), "{told:?}");
        assert!(!sandbox.path("state/mcp-auth.json").exists());
    };
    // Its metadata, or its issuer, inside; over http; at an address that stands for another; for another server.
    refused(
        &format!("{inside_url}/m"),
        json!([]),
        None,
        "you did not write it",
    );
    refused(
        "http://HERE/m",
        json!([inside_url]),
        None,
        "you did not write it",
    );
    refused(
        "http://HERE/m",
        json!(["http://example.com"]),
        None,
        "you did not write it",
    );
    refused(
        "https://169.254.169.254/m",
        json!([]),
        None,
        "169.254.169.254",
    );
    refused(
        "http://HERE/m",
        json!(["https://localhost"]),
        None,
        "localhost",
    );
    refused(
        "http://HERE/m",
        json!(["https://example.com"]),
        Some("https://example.com/mcp"),
        "another server",
    );
    assert!(inside.accept().is_err(), "somebody connected");
}

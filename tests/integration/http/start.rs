//! When the API opens, and when it must not; sockets in the file system; one listener with Telegram's webhook.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::{Client, SOON, TOKEN, free_port};
use crate::support::{FakeModel, FakeTelegram, Sandbox, wait_for};

fn refused(sandbox: &Sandbox, says: &str) {
    for arguments in [&["check"][..], &["run"]] {
        let told = sandbox.run("agent-daemon", arguments, "");
        assert!(
            told.code == 78 && told.stderr.contains(says) && told.stderr.contains("\nhint: "),
            "{arguments:?}: {told:?}"
        );
    }
}

#[test]
fn it_is_off_unless_it_is_turned_on_and_never_open_without_a_good_token() {
    let port = free_port();
    let sandbox = || Sandbox::new().config(&format!("[http]\nlisten = \"127.0.0.1:{port}\""));
    let off = sandbox().env("AGENT_HTTP_TOKEN", TOKEN);
    let daemon = off.ready();
    assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    drop(daemon);
    let on = || sandbox().config("[http]\nenabled = true");
    refused(&on(), "the token AGENT_HTTP_TOKEN is not set");
    refused(
        &on().env("AGENT_HTTP_TOKEN", ""),
        "the token AGENT_HTTP_TOKEN is not set",
    );
    refused(
        &on()
            .config("[http]\ntoken_env = \"OTHER\"")
            .env("AGENT_HTTP_TOKEN", TOKEN),
        "the token OTHER is not set",
    );
    for placeholder in [
        "changeme",
        "secret",
        "Token",
        "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "undefined",
        "<your-token>",
    ] {
        refused(
            &on().env("AGENT_HTTP_TOKEN", placeholder),
            "is a placeholder",
        );
    }
    for address in ["0.0.0.0", "[::]", "192.0.2.1"] {
        let open = on().config(&format!("[http]\nlisten = \"{address}:{port}\""));
        refused(
            &open.env("AGENT_HTTP_TOKEN", "a-short-one"),
            "other machines can reach",
        );
    }
    let weak = on().env("AGENT_HTTP_TOKEN", "a-short-one");
    let told = weak.run("agent-daemon", &["check"], "");
    assert!(
        told.code == 0
            && told
                .stderr
                .contains("warning: the token AGENT_HTTP_TOKEN of [http] is weak"),
        "{told:?}"
    );
    let told = on()
        .env("AGENT_HTTP_TOKEN", TOKEN)
        .run("agent-daemon", &["check"], "");
    assert!(
        told.code == 0 && !told.stderr.contains("warning"),
        "{told:?}"
    );
    let told = on()
        .config("[http]\nwrites_per_minute = 0")
        .env("AGENT_HTTP_TOKEN", TOKEN)
        .run("agent-daemon", &["check"], "");
    assert!(
        told.code == 78 && told.stderr.contains("http.writes_per_minute"),
        "{told:?}"
    );
    // In .env, as a secret should be.
    let kept = on();
    kept.put(".env", format!("AGENT_HTTP_TOKEN={TOKEN}\n").as_bytes());
    let _daemon = kept.ready();
    assert_eq!(
        Client::tcp(port, Some(TOKEN)).get("/api/v1/status").json()["running"],
        true
    );
}

#[test]
fn an_address_in_use_ends_the_start_and_is_named() {
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = taken.local_addr().expect("it has one");
    let sandbox = Sandbox::new()
        .env("AGENT_HTTP_TOKEN", TOKEN)
        .config(&format!("[http]\nenabled = true\nlisten = \"{address}\""));
    let told = sandbox.run("agent-daemon", &["run"], "");
    assert!(
        told.code == 78
            && told.stderr.contains(&format!("cannot listen on {address}"))
            && told.stderr.contains("\nhint: "),
        "{told:?}"
    );
    let ids = || -> Vec<String> {
        let findings = sandbox
            .run("agent-daemon", &["doctor", "--json", "-q"], "")
            .json()["findings"]
            .clone();
        findings
            .as_array()
            .expect("a list")
            .iter()
            .map(|finding| finding["id"].as_str().unwrap_or_default().to_owned())
            .collect()
    };
    assert!(ids().contains(&"http-address".to_owned()), "{:?}", ids());
    drop(taken);
    assert!(
        !ids().iter().any(|id| id.starts_with("http-")),
        "{:?}",
        ids()
    );
    // What handles what waits, and ends, does not listen.
    assert_eq!(sandbox.run("agent-daemon", &["run", "--once"], "").code, 0);
}

#[test]
fn doctor_names_a_token_that_is_missing_or_weak() {
    let ids = |sandbox: Sandbox| -> Vec<(String, String)> {
        let findings = sandbox
            .run("agent-daemon", &["doctor", "--json", "-q"], "")
            .json()["findings"]
            .clone();
        let word =
            |finding: &Value, field: &str| finding[field].as_str().unwrap_or_default().to_owned();
        let of_http = |finding: &&Value| word(finding, "id").starts_with("http-");
        findings
            .as_array()
            .expect("a list")
            .iter()
            .filter(of_http)
            .map(|finding| (word(finding, "id"), word(finding, "level")))
            .collect()
    };
    let sandbox = || {
        Sandbox::new().config(&format!(
            "[http]\nenabled = true\nlisten = \"127.0.0.1:{}\"",
            free_port()
        ))
    };
    let finding = |id: &str, level: &str| vec![(id.to_owned(), level.to_owned())];
    assert_eq!(ids(sandbox()), finding("http-token-missing", "error"));
    assert_eq!(
        ids(sandbox().env("AGENT_HTTP_TOKEN", "changeme")),
        finding("http-token-weak", "error")
    );
    assert_eq!(
        ids(sandbox().env("AGENT_HTTP_TOKEN", "a-short-one")),
        finding("http-token-weak", "warning")
    );
    assert_eq!(ids(sandbox().env("AGENT_HTTP_TOKEN", TOKEN)), []);
    assert_eq!(ids(sandbox().config("[http]\nenabled = false")), []);
}

#[test]
fn a_socket_needs_no_token_and_is_its_owners_alone() {
    let (model, place) = (
        FakeModel::start(),
        tempfile::tempdir().expect("a directory"),
    );
    let path = place.path().join("api");
    let listen = format!(
        "[http]\nenabled = true\nlisten = \"unix:{}\"",
        path.display()
    );
    let sandbox = Sandbox::new().with_anthropic(&model).config(&listen);
    let client = Client::unix(&path, None);
    for _ in 0..2 {
        let daemon = sandbox.ready();
        assert_eq!(
            std::fs::metadata(&path)
                .expect("a socket")
                .permissions()
                .mode()
                & 0o7777,
            0o600
        );
        assert_eq!(
            client
                .post("/api/v1/chat", &json!({"message": "hello"}))
                .json()["reply"],
            "echo: hello"
        );
        assert_eq!(client.get("/api/v1/status").json()["running"], true);
        assert_eq!(
            client
                .request(
                    "GET",
                    "/api/v1/status",
                    &[("origin", "https://evil.example")],
                    b""
                )
                .status,
            403
        );
        daemon.kill9();
        assert!(
            path.exists(),
            "one that a crash left is replaced by the next"
        );
    }
    let daemon = sandbox.ready();
    assert_eq!(daemon.term(), 0);
    assert!(!path.exists());
    // Another file, and a socket that somebody listens on, stay.
    let other = std::os::unix::net::UnixListener::bind(&path).expect("a socket");
    let told = sandbox.run("agent-daemon", &["run"], "");
    assert!(
        told.code == 78 && told.stderr.contains("cannot listen on unix:") && path.exists(),
        "{told:?}"
    );
    drop(other);
    std::fs::remove_file(&path).expect("own file");
    sandbox.put("notes", b"mine");
    std::fs::rename(sandbox.path("notes"), &path).expect("own files");
    assert_eq!(sandbox.run("agent-daemon", &["run"], "").code, 78);
    assert_eq!(std::fs::read(&path).expect("own file"), b"mine");
    std::fs::remove_file(&path).expect("own file");
    let with_token = sandbox.env("AGENT_HTTP_TOKEN", TOKEN);
    let _daemon = with_token.ready();
    assert_eq!(
        (
            client.get("/api/v1/queue").status,
            client.get("/api/v1/status").json()
        ),
        (401, json!({"status": "ok"}))
    );
    assert_eq!(
        Client::unix(&path, Some(TOKEN)).get("/api/v1/queue").status,
        200
    );
}

#[test]
fn telegram_brings_messages_to_the_same_address_by_its_own_secret() {
    let (telegram, model, port) = (FakeTelegram::start(), FakeModel::start(), free_port());
    let sandbox = Sandbox::new().with_telegram(&telegram).with_anthropic(&model).env("AGENT_HTTP_TOKEN", TOKEN).config(&format!(
        "[telegram]\npoll_timeout_secs = 1\nwebhook = \"http://127.0.0.1:{port}/tele/gram\"\n[http]\nenabled = true\nlisten = \"127.0.0.1:{port}\""
    ));
    let _daemon = sandbox.ready();
    let call = wait_for("setWebhook", SOON, || {
        telegram
            .calls_of("setWebhook")
            .into_iter()
            .find(|call| call.status == 200)
    });
    let secret = call.params["secret_token"]
        .as_str()
        .expect("a secret")
        .to_owned();
    let update = |id: i64, text: &str| {
        json!({"update_id": id, "message": {"message_id": id, "date": 1_700_000_000, "text": text,
            "from": {"id": 1001, "is_bot": false, "first_name": "Ada"}, "chat": {"id": 1001, "type": "private"}}})
        .to_string()
    };
    let stranger = Client::tcp(port, None);
    let bring = |headers: &[(&str, &str)], body: &str| {
        stranger
            .request("POST", "/tele/gram", headers, body.as_bytes())
            .status
    };
    let header = "x-telegram-bot-api-secret-token";
    // Under the public name, with no token of ours, and no word about JSON.
    assert_eq!(
        bring(
            &[(header, &secret), ("host", "bot.example.org")],
            &update(71, "hello")
        ),
        200
    );
    assert_eq!(
        telegram
            .wait_sent(|sent| sent.reply_to == Some(71), SOON)
            .text,
        "echo: hello"
    );
    assert_eq!(bring(&[(header, "guess")], &update(72, "nobody's")), 401);
    let bearer = format!("Bearer {TOKEN}");
    assert_eq!(
        bring(&[("authorization", &bearer)], &update(73, "nobody's")),
        401,
        "the token is not the secret"
    );
    assert_eq!(bring(&[(header, &secret)], "{}"), 400);
    // Nor is the secret the token, and no other way leads there.
    for (method, path) in [
        ("GET", "/tele/gram"),
        ("POST", "/tele/gram/"),
        ("POST", "/tele"),
        ("POST", "/api/v1/chat"),
    ] {
        assert_eq!(
            stranger
                .request(method, path, &[(header, &secret)], b"{}")
                .status,
            401,
            "{method} {path}"
        );
    }
    assert_eq!(
        stranger.get("/api/v1/status").json(),
        json!({"status": "ok"})
    );
    let client = Client::tcp(port, Some(TOKEN));
    assert_eq!(
        client
            .post("/api/v1/chat", &json!({"message": "both"}))
            .json()["reply"],
        "echo: both"
    );
    let status = client.get("/api/v1/status").json();
    assert_eq!(
        (
            &status["channels"][0]["mode"],
            &status["channels"][0]["state"]
        ),
        (&json!("webhook"), &json!("ok")),
        "{status}"
    );
    assert_eq!(model.requests().len(), 2);
    let told = Sandbox::new()
        .with_telegram(&telegram)
        .env("AGENT_HTTP_TOKEN", TOKEN)
        .config("[telegram]\nwebhook = \"https://example.org/api/v1/chat\"\n[http]\nenabled = true")
        .run("agent-daemon", &["check"], "");
    assert!(
        told.code == 78 && told.stderr.contains("telegram.webhook"),
        "{told:?}"
    );
    let told = Sandbox::new()
        .with_telegram(&telegram)
        .config("[telegram]\nwebhook = \"https://example.org/t\"\n[http]\nenabled = true\nlisten = \"unix:/tmp/x/y\"")
        .run("agent-daemon", &["check"], "");
    assert!(
        told.code == 78 && told.stderr.contains("share the socket"),
        "{told:?}"
    );
}

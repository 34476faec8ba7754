//! The HTTP API, over real connections: what is answered, to whom, and what comes of hostile ones.

mod chat;
mod client;
mod clients;
mod gate;
mod hooks;
mod limits;
mod login;
mod openai;
mod orders;
mod page;
mod parity;
mod reading;
mod responses;
mod start;
mod stream;
mod web;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Daemon, FakeModel, Sandbox};
pub(crate) use client::{Answer, Client};

/// Long against everything that happens here.
const SOON: Duration = Duration::from_secs(20);
/// Of 128 bits.
const TOKEN: &str = "9f86d081884c7d659a2feaa0c55ad015";

/// Returns a port at which nobody listens, below those that the kernel gives to connections: nobody gets it meanwhile.
pub(crate) fn free_port() -> u16 {
    const BELOW: std::ops::Range<u32> = 20_000..32_000;
    static TAKEN: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = std::process::id() * 64 + TAKEN.fetch_add(1, Ordering::Relaxed);
        let port = BELOW.start + number % (BELOW.end - BELOW.start);
        let port = u16::try_from(port).expect("a port");
        if std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A daemon with the API and a fake model.
struct Api {
    // First, so that it ends before its files go.
    daemon: Daemon,
    model: FakeModel,
    sandbox: Sandbox,
    client: Client,
    port: u16,
}

impl Api {
    fn new() -> Self {
        Self::with("")
    }

    /// Starts one with TOML laid over its settings.
    fn with(config: &str) -> Self {
        let (model, port) = (FakeModel::start(), free_port());
        let sandbox = Sandbox::new()
            .with_anthropic(&model)
            .env("AGENT_HTTP_TOKEN", TOKEN)
            // A test looks more often than a person.
            .config(&format!(
                "[http]\nenabled = true\nlisten = \"127.0.0.1:{port}\"\nreads_per_minute = 100000\nwrites_per_minute = 100000"
            ))
            .config(config);
        let daemon = sandbox.ready();
        Self {
            daemon,
            model,
            sandbox,
            client: Client::tcp(port, Some(TOKEN)),
            port,
        }
    }

    fn get(&self, path: &str) -> Answer {
        self.client.get(path)
    }

    fn post(&self, path: &str, body: &Value) -> Answer {
        self.client.post(path, body)
    }

    /// Says something and returns the document of the answer.
    fn chat(&self, body: &Value) -> Value {
        let answer = self.post("/api/v1/chat", body);
        assert_eq!(answer.status, 200, "{answer:?}");
        answer.json()
    }

    /// Returns the newest words of the user that the model read.
    fn read_by_model(&self) -> String {
        let request = self.model.requests().pop().expect("a request");
        let last = request["messages"]
            .as_array()
            .and_then(|messages| messages.last().cloned())
            .expect("a message");
        last["content"].to_string()
    }
}

/// Whether a wrong token was refused: with the word to wait where many came before it.
fn is_refused(answer: &Answer) -> bool {
    match answer.status {
        429 => answer.json()["error"]["code"] == "too_many_wrong_tokens",
        status => status == 401,
    }
}

#[test]
fn every_failure_is_a_document_of_the_same_form() {
    let api = Api::new();
    let body = json!({"message": "x"}).to_string();
    let json = ("content-type", "application/json");
    for (method, path, headers, body, status, code) in [
        ("POST", "/api/v1/chat", &[json][..], "{", 400, "bad_request"),
        ("POST", "/api/v1/chat", &[json], "[]", 400, "bad_request"),
        ("POST", "/api/v1/chat", &[json], "{}", 400, "bad_request"),
        (
            "POST",
            "/api/v1/chat",
            &[json],
            r#"{"message":" "}"#,
            400,
            "bad_request",
        ),
        (
            "POST",
            "/api/v1/chat",
            &[json],
            r#"{"message":1}"#,
            400,
            "bad_request",
        ),
        (
            "POST",
            "/api/v1/chat",
            &[json],
            r#"{"message":"x","model":"nobody"}"#,
            400,
            "bad_request",
        ),
        (
            "POST",
            "/api/v1/chat",
            &[json],
            r#"{"message":"x","session":"@nobody"}"#,
            400,
            "bad_request",
        ),
        (
            "GET",
            "/api/v1/cost?period=year",
            &[],
            "",
            400,
            "bad_request",
        ),
        ("GET", "/api/v1/cost?by=", &[], "", 400, "bad_request"),
        (
            "GET",
            "/api/v1/sessions/x/history?full=perhaps",
            &[],
            "",
            400,
            "bad_request",
        ),
        (
            "POST",
            "/api/v1/chat",
            &[json, ("authorization", "Bearer wrong")],
            &body,
            401,
            "unauthorized",
        ),
        (
            "POST",
            "/api/v1/chat",
            &[json, ("origin", "https://evil.example")],
            &body,
            403,
            "forbidden",
        ),
        ("GET", "/api/v1/nothing", &[], "", 404, "not_found"),
        ("GET", "/nothing", &[], "", 404, "not_found"),
        ("GET", "/api/v1/replies/unknown", &[], "", 404, "not_found"),
        (
            "POST",
            "/api/v1/approvals/unknown",
            &[json],
            r#"{"verdict":"approve"}"#,
            404,
            "not_found",
        ),
        ("GET", "/v1/models/unknown", &[], "", 404, "model_not_found"),
        ("GET", "/api/v1/chat", &[], "", 405, "method_not_allowed"),
        (
            "DELETE",
            "/api/v1/status",
            &[],
            "",
            405,
            "method_not_allowed",
        ),
        ("POST", "/api/v1/chat", &[], &body, 415, "not_json"),
        (
            "POST",
            "/api/v1/chat",
            &[("content-type", "text/plain")],
            &body,
            415,
            "not_json",
        ),
    ] {
        let answer = api.client.request(method, path, headers, body.as_bytes());
        let document = answer.json();
        let error = &document["error"];
        assert_eq!(
            (answer.status, error["code"].as_str()),
            (status, Some(code)),
            "{method} {path} {body}: {answer:?}"
        );
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|message| !message.is_empty()),
            "{answer:?}"
        );
        assert!(
            error.as_object().expect("an object").contains_key("hint"),
            "{answer:?}"
        );
        assert_eq!(
            answer.header("content-type"),
            Some("application/json"),
            "{answer:?}"
        );
        assert_eq!(document.as_object().expect("an object").len(), 1);
    }
    assert_eq!(api.model.requests().len(), 0);
    assert_eq!(
        api.sandbox.query("queue", "SELECT id FROM inbox"),
        Vec::<Vec<_>>::new(),
        "nothing of it was stored"
    );
}

#[test]
fn a_failure_of_ours_is_500_and_says_why() {
    let api = Api::new();
    api.chat(&json!({"message": "hello"}));
    for name in ["cost.db-wal", "cost.db-shm", "cost.db"] {
        // The daemon goes on with the file that it has open.
        let _ = std::fs::rename(
            api.sandbox.path(&format!("state/{name}")),
            api.sandbox.path(&format!("state/gone-{name}")),
        );
    }
    api.sandbox.put("state/cost.db", &[b'x'; 8192]);
    let answer = api.get("/api/v1/cost");
    assert_eq!(
        (answer.status, answer.json()["error"]["code"].as_str()),
        (500, Some("bad_data")),
        "{answer:?}"
    );
    // What a model's server does wrong is a failure of the turn.
    api.model.push(crate::support::Reply::Status(400, None));
    let answer = api.post("/api/v1/chat", &json!({"message": "again"}));
    assert_eq!(
        (answer.status, answer.json()["error"]["code"].as_str()),
        (500, Some("failed")),
        "{answer:?}"
    );
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    assert!(answer.json()["error"]["run_id"].is_string(), "{answer:?}");
}

#[test]
fn what_cannot_be_stored_is_503_and_comes_again() {
    let api = Api::new();
    let database =
        rusqlite::Connection::open(api.sandbox.path("state/queue.db")).expect("own file");
    let sql = "CREATE TRIGGER full BEFORE INSERT ON inbox BEGIN SELECT RAISE(ABORT, 'full'); END";
    database.execute_batch(sql).expect("own table");
    let key = [
        ("content-type", "application/json"),
        ("idempotency-key", "again-1"),
    ];
    let send = |path: &str| {
        api.client
            .request("POST", path, &key, br#"{"message":"hello"}"#)
    };
    for path in ["/api/v1/notify", "/api/v1/chat", "/api/v1/chat/stream"] {
        let answer = send(path);
        assert_eq!(
            (answer.status, answer.json()["error"]["code"].as_str()),
            (503, Some("not_stored")),
            "{answer:?}"
        );
        assert!(answer.header("retry-after").is_some());
    }
    database
        .execute_batch("DROP TRIGGER full")
        .expect("own table");
    assert_eq!(send("/api/v1/chat").json()["reply"], "echo: hello");
    assert_eq!(api.model.requests().len(), 1);
}

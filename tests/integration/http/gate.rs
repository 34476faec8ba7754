//! Who gets in, by which names, and what a hostile request achieves.

use std::io::{Read as _, Write as _};

use serde_json::json;

use super::{Api, SOON, TOKEN, client::Answer, client::Client, is_refused};
use crate::support::wait_for;

const PATHS: [(&str, &str); 19] = [
    ("GET", "/api/v1/sessions"),
    ("GET", "/api/v1/sessions/x/history"),
    ("GET", "/api/v1/cost"),
    ("GET", "/api/v1/monitor"),
    ("GET", "/api/v1/queue"),
    ("GET", "/api/v1/replies/x"),
    ("GET", "/api/v1/approvals"),
    ("POST", "/api/v1/approvals/x"),
    ("POST", "/api/v1/chat"),
    ("POST", "/api/v1/chat/stream"),
    ("POST", "/api/v1/notify"),
    ("POST", "/api/v1/sessions/reset"),
    ("POST", "/api/v1/stop"),
    ("POST", "/v1/chat/completions"),
    ("GET", "/v1/models"),
    ("GET", "/v1/models/x"),
    ("GET", "/metrics"),
    ("GET", "/openapi.json"),
    ("GET", "/no/such/path"),
];

#[test]
fn without_the_token_nothing_is_told_but_that_we_are_there() {
    let api = Api::new();
    let stranger = Client::tcp(api.port, None);
    let body = r#"{"message":"hello","model":"agent","messages":[]}"#.as_bytes();
    let json = ("content-type", "application/json");
    for (method, path) in PATHS {
        for headers in [
            &[json][..],
            &[json, ("authorization", "Bearer wrong")],
            &[json, ("authorization", "")],
            &[json, ("authorization", &format!("Basic {TOKEN}"))],
            &[json, ("authorization", TOKEN)],
            &[json, ("x-api-key", TOKEN)],
            &[json, ("cookie", &format!("token={TOKEN}"))],
            &[
                json,
                ("authorization", &format!("Bearer {TOKEN}")),
                ("authorization", &format!("Bearer {TOKEN}")),
            ],
            &[
                json,
                ("authorization", &format!("Bearer {TOKEN}")),
                ("authorization", "Bearer wrong"),
            ],
        ] {
            let answer = stranger.request(method, path, headers, body);
            let is_wrong = headers.iter().any(|(name, _)| *name == "authorization");
            assert!(
                is_refused(&answer) && (is_wrong || answer.status == 401),
                "{method} {path} {headers:?}: {answer:?}"
            );
            match answer.status {
                401 => assert_eq!(answer.header("www-authenticate"), Some("Bearer")),
                _ => assert!(answer.header("retry-after").is_some(), "{answer:?}"),
            }
        }
        let with_query = format!("{path}?token={TOKEN}&access_token={TOKEN}");
        assert_eq!(
            stranger.request(method, &with_query, &[json], body).status,
            401,
            "{method} {path}"
        );
    }
    let minimal = stranger.get("/api/v1/status");
    assert_eq!(
        (minimal.status, minimal.json()),
        (200, json!({"status": "ok"}))
    );
    assert_eq!(
        stranger
            .get(&format!("/api/v1/status?token={TOKEN}"))
            .json(),
        json!({"status": "ok"})
    );
    assert_eq!(
        stranger.request("HEAD", "/api/v1/status", &[], b"").status,
        200
    );
    for (method, path, headers) in [
        (
            "GET",
            "/api/v1/status",
            &[("authorization", "Bearer wrong")][..],
        ),
        ("POST", "/api/v1/status", &[]),
        ("GET", "/api/v1/status/", &[]),
        ("GET", "/api/v1/%73tatus", &[]),
    ] {
        let answer = stranger.request(method, path, headers, b"");
        assert!(is_refused(&answer), "{method} {path}: {answer:?}");
    }
    assert_eq!(api.model.requests().len(), 0);
    assert!(
        !api.daemon.log().contains(TOKEN),
        "the token is told to nobody"
    );

    // The scheme's letters do not matter, the token's do.
    for (value, opens) in [
        (format!("bearer {TOKEN}"), true),
        (format!("BEARER {TOKEN}"), true),
        (format!("Bearer {}", TOKEN.to_uppercase()), false),
        (format!("Bearer {}", TOKEN.trim_end_matches('5')), false),
        (format!("Bearer {TOKEN}0"), false),
    ] {
        let answer = stranger.request("GET", "/api/v1/status", &[("authorization", &value)], b"");
        let is_right = answer.status == 200;
        assert!(
            is_right == opens && (is_right || is_refused(&answer)),
            "{value}: {answer:?}"
        );
    }
    assert_eq!(api.get("/api/v1/status").json()["running"], true);
}

#[test]
fn other_names_and_pages_of_other_sites_are_refused_even_with_the_token() {
    let api = Api::new();
    let own = format!("http://127.0.0.1:{}", api.port);
    for (headers, status) in [
        (&[("host", "evil.example")][..], 403),
        (&[("host", "127.0.0.1.evil.example")], 403),
        (&[("host", "192.168.1.7")], 403),
        (&[("host", "localhost")], 200),
        (&[("host", "localhost:1")], 200),
        (&[("host", "[::1]:8100")], 200),
        (&[("host", "localhost"), ("host", "evil.example")], 400),
        (&[("origin", "https://evil.example")], 403),
        (&[("origin", "null")], 403),
        (&[("origin", "http://127.0.0.1:1")], 403),
        (&[("origin", &own)], 200),
        // What a proxy may say of others changes nothing.
        (
            &[("host", "evil.example"), ("x-forwarded-host", "localhost")],
            403,
        ),
        (
            &[("x-forwarded-for", "127.0.0.1"), ("host", "evil.example")],
            403,
        ),
    ] {
        let answer = api.client.request("GET", "/api/v1/status", headers, b"");
        assert_eq!(answer.status, status, "{headers:?}: {answer:?}");
    }
    let head = format!(
        "GET /api/v1/status HTTP/1.1\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n\r\n"
    );
    assert_eq!(api.client.send(&head, b"").status, 400, "no Host");
    let head = format!(
        "GET http://evil.example/api/v1/status HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\nconnection: close\r\n\r\n"
    );
    assert_eq!(
        api.client.send(&head, b"").status,
        403,
        "another server in the request line"
    );
    // A name that was bound to our address by its owner (DNS rebinding) does not even learn that we are there.
    let stranger = Client::tcp(api.port, None);
    assert_eq!(
        stranger
            .request(
                "GET",
                "/api/v1/status",
                &[("host", "rebound.evil.example")],
                b""
            )
            .status,
        403
    );
}

#[test]
fn no_method_but_the_right_one_does_anything_and_nothing_is_shared_with_other_sites() {
    let api = Api::new();
    for method in [
        "OPTIONS", "TRACE", "PUT", "DELETE", "PATCH", "HEAD", "CONNECT", "chat", "PROPFIND",
    ] {
        let answer = api.client.request(method, "/api/v1/chat", &[], b"");
        assert!([400, 405].contains(&answer.status), "{method}: {answer:?}");
        assert!(
            answer
                .headers
                .iter()
                .all(|(name, _)| !name.starts_with("access-control-")),
            "{answer:?}"
        );
    }
    assert_eq!(
        api.client
            .request("DELETE", "/api/v1/chat", &[], b"")
            .header("allow"),
        Some("POST")
    );
    // What a browser asks before it lets a page send.
    let preflight = [
        ("origin", "https://evil.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", "authorization"),
    ];
    let answer = Client::tcp(api.port, None).request("OPTIONS", "/api/v1/chat", &preflight, b"");
    assert_eq!(answer.status, 403, "{answer:?}");
    assert!(
        answer
            .headers
            .iter()
            .all(|(name, _)| !name.starts_with("access-control-")),
        "{answer:?}"
    );
    let head = api.client.request("HEAD", "/api/v1/sessions", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    for header in ["cache-control", "x-content-type-options"] {
        assert!(head.header(header).is_some(), "{head:?}");
    }
    assert_eq!(api.model.requests().len(), 0);
}

#[test]
fn odd_paths_lead_nowhere() {
    let api = Api::new();
    api.sandbox.put(
        "state/replies/secret.json",
        br#"{"v":1,"id":"x","status":"done","reply":"mine"}"#,
    );
    api.sandbox.put(
        "state/secret.json",
        br#"{"v":1,"id":"x","status":"done","reply":"mine"}"#,
    );
    for path in [
        "/api/v1/replies/..%2Fsecret",
        "/api/v1/replies/../secret",
        "/api/v1/replies/%2e%2e%2fsecret",
        "/api/v1/replies/..%5csecret",
        "/api/v1/replies/%00",
        "/api/v1/replies/%ff%fe",
        "/api/v1/replies/",
        "/api/v1/replies//x",
        "/api/v1/../../etc/passwd",
        "//api/v1/status",
        "/api/v1/status/",
        "/API/V1/STATUS",
        "/v1/models/..%2F..%2Fetc",
    ] {
        let answer = api.get(path);
        assert_eq!(answer.status, 404, "{path}: {answer:?}");
        assert!(answer.json()["error"]["code"].is_string(), "{path}");
    }
    for id in [
        "..%2F..%2Fstate%2Fsecret",
        "%2e%2e",
        "%00",
        "a%0ab",
        "*",
        "%25",
    ] {
        let answer = api.get(&format!("/api/v1/sessions/{id}/history"));
        assert_eq!(
            (answer.status, answer.json()["events"].clone()),
            (200, json!([])),
            "{id}: {answer:?}"
        );
    }
    assert_eq!(api.get("/api/v1/sessions/%ff/history").status, 400);
    // An address that is too long, and one that is none.
    assert!([404, 414, 431].contains(&api.get(&format!("/{}", "x".repeat(60_000))).status));
    assert_eq!(
        api.client.send("GET \u{1} HTTP/1.1\r\n\r\n", b"").status,
        400
    );
}

#[test]
fn two_lengths_and_pipelines_never_mix_requests_up() {
    let api = Api::new();
    let body = json!({"message": "hello"}).to_string();
    let json = ("content-type", "application/json");
    let both = [
        json,
        ("content-length", "4"),
        ("transfer-encoding", "chunked"),
    ];
    let smuggled = format!(
        "0\r\n\r\nGET /api/v1/sessions HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
    );
    let head = api
        .client
        .head("POST", "/api/v1/chat", &both, 0)
        .replace("connection: close\r\n", "");
    let answer = api.client.send(&head, smuggled.as_bytes());
    assert_eq!(answer.status, 400, "{answer:?}");
    for lengths in [
        &[json, ("content-length", "3"), ("content-length", "20")][..],
        &[json, ("content-length", "-1")],
        &[json, ("content-length", "9x")],
        &[json, ("transfer-encoding", "identity")],
        &[json, ("transfer-encoding", "chunked, gzip")],
    ] {
        let answer = api
            .client
            .request("POST", "/api/v1/chat", lengths, body.as_bytes());
        assert!(
            [400, 411].contains(&answer.status),
            "{lengths:?}: {answer:?}"
        );
    }
    assert_eq!(api.model.requests().len(), 0);

    // One after the other on one connection, all sent at once.
    let mut stream = api.client.connect();
    let one = |path: &str| {
        api.client
            .head("GET", path, &[], 0)
            .replace("connection: close\r\n", "")
    };
    let chat = api
        .client
        .head("POST", "/api/v1/chat", &[json], body.len())
        .replace("connection: close\r\n", "")
        + &body;
    let last = api.client.head("GET", "/openapi.json", &[], 0);
    let all = [one("/api/v1/queue"), chat, one("/v1/models"), last].concat();
    stream.write_all(all.as_bytes()).expect("open");
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("an end");
    let text = String::from_utf8_lossy(&bytes);
    let places: Vec<usize> = ["\"inbox\":", "echo: hello", "owned_by", "\"openapi\":"]
        .iter()
        .map(|words| text.find(words).expect("an answer"))
        .collect();
    assert!(
        places.is_sorted() && text.matches("HTTP/1.1 200").count() == 4,
        "{places:?}"
    );
    // In chunks, as a client does that does not know how long it will be.
    let (first, rest) = body.split_at(5);
    let chunks = format!("5\r\n{first}\r\n{:x}\r\n{rest}\r\n0\r\n\r\n", rest.len());
    let answer = api.client.request(
        "POST",
        "/api/v1/chat",
        &[json, ("transfer-encoding", "chunked")],
        chunks.as_bytes(),
    );
    assert_eq!(answer.json()["reply"], "echo: hello");
}

#[test]
fn hostile_bodies_are_400_and_nothing_else_happens() {
    let api = Api::new();
    let json = [("content-type", "application/json")];
    for body in [
        &b"\xff\xfe{\"message\":\"x\"}"[..],
        b"{\"message\":\"\xff\"}",
        b"{\"message\":\"\\ud800\"}",
        b"{\"message\":\"x\",\"message\":\"y\"}",
        b"{\"message\":NaN}",
        b"{\"message\":\"x\",\"untrusted\":\"yes\"}",
        b"{\"message\":\"x\",\"data\":Infinity}",
        b"{\"message\":\"x\"}{\"message\":\"y\"}",
        b"{\"message\":\"x\",\"attachments\":{}}",
        b"{\"message\":\"x\",\"attachments\":[{}]}",
        b"{\"message\":\"x\",\"attachments\":[{\"data\":\"%%%\"}]}",
        b"{\"message\":\"x\",\"attachments\":[{\"data\":\"aGk=\",\"content_type\":\"text/plain\\r\\nx: y\"}]}",
        b"{\"message\":\"x\",\"tier\":\"\"}",
        b"{\"message\":\"x\",\"sender\":\"a\\u0000b\"}",
        b"",
        b"null",
    ] {
        for path in ["/api/v1/chat", "/api/v1/notify", "/api/v1/chat/stream"] {
            let answer = api.client.request("POST", path, &json, body);
            assert_eq!(answer.status, 400, "{path} {:?}: {answer:?}", String::from_utf8_lossy(&body[..body.len().min(80)]));
        }
    }
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    for (path, body) in [
        (
            "/api/v1/notify",
            format!("{{\"message\":\"x\",\"data\":{deep}}}"),
        ),
        ("/api/v1/chat", deep.clone()),
        (
            "/v1/chat/completions",
            format!("{{\"model\":\"agent\",\"messages\":{deep}}}"),
        ),
    ] {
        assert_eq!(
            api.client
                .request("POST", path, &json, body.as_bytes())
                .status,
            400,
            "{path}"
        );
    }
    for session in ["a\u{7}b", "", "\n", &"x".repeat(201)] {
        assert_eq!(
            api.post("/api/v1/chat", &json!({"message": "x", "session": session}))
                .status,
            400,
            "{session:?}"
        );
        assert_eq!(
            api.post("/api/v1/chat", &json!({"message": "x", "sender": session}))
                .status,
            400,
            "{session:?}"
        );
    }
    assert_eq!(api.model.requests().len(), 0);
    assert_eq!(
        api.sandbox.query("queue", "SELECT id FROM inbox"),
        Vec::<Vec<_>>::new()
    );
    // Still there, and nothing lies about.
    assert_eq!(
        api.chat(&json!({"message": "hello"}))["reply"],
        "echo: hello"
    );
    assert_eq!(api.sandbox.spooled(), Vec::<String>::new());
}

#[test]
fn an_idle_crowd_does_not_keep_the_owner_out() {
    let api = Api::new();
    // More than there are places. Some say nothing, some begin and never end, some have no token.
    let mut crowd = Vec::new();
    for number in 0..330 {
        let mut stream = api.client.connect();
        match number % 3 {
            0 => {}
            1 => drop(stream.write_all(b"POST /api/v1/chat HTTP/1.1\r\nhost: local")),
            _ => drop(stream.write_all(b"GET /api/v1/status HTTP/1.1\r\nhost: localhost\r\n\r\n")),
        }
        crowd.push(stream);
    }
    assert_eq!(
        api.chat(&json!({"message": "hello"}))["reply"],
        "echo: hello"
    );
    assert_eq!(api.sandbox.send(&["--wait", "hi"]).code, 0);
    // A request that is being answered is not pushed out by strangers who come later.
    api.model
        .push(crate::support::Reply::Held("at last".to_owned()));
    let (client, body) = (api.client.clone(), json!({"message": "slow"}));
    let waiting = std::thread::spawn(move || client.post("/api/v1/chat", &body));
    wait_for("the model to be asked", SOON, || {
        (api.model.in_flight() > 0).then_some(())
    });
    // Nor is one whose token is still on its way.
    let body = json!({"token": TOKEN}).to_string();
    let expecting = [
        ("content-type", "application/json"),
        ("expect", "100-continue"),
    ];
    let head = api.client.head("POST", "/login", &expecting, body.len());
    let mut signing_in = api.client.connect();
    signing_in.write_all(head.as_bytes()).expect("open");
    let mut read_on = [0; 25];
    signing_in.read_exact(&mut read_on).expect("it is read");
    assert_eq!(&read_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    // The files that a process may open are few.
    crowd.clear();
    crowd.extend((0..300).map(|_| api.client.connect()));
    // They are taken in the order in which they came.
    assert_eq!(api.get("/api/v1/queue").status, 200);
    signing_in.write_all(body.as_bytes()).expect("open");
    assert_eq!(Answer::read(&mut signing_in).status, 200);
    api.model.go_on();
    assert_eq!(waiting.join().expect("a client").json()["reply"], "at last");
}

#[test]
fn whoever_is_too_slow_with_the_head_is_told_so() {
    let api = Api::new();
    let mut stream = api.client.connect();
    stream
        .write_all(b"POST /api/v1/chat HTTP/1.1\r\nhost: localhost\r\n")
        .expect("open");
    let answer = Answer::read(&mut stream);
    assert_eq!(
        (answer.status, answer.json()["error"]["code"].as_str()),
        (408, Some("timeout")),
        "{answer:?}"
    );
    let huge = format!("x: {}\r\n", "y".repeat(200_000));
    let head = api
        .client
        .head("GET", "/api/v1/status", &[], 0)
        .replace("connection", &format!("{huge}connection"));
    assert_eq!(api.client.send(&head, b"").status, 431);
    let many: String = (0..300)
        .map(|number| format!("x-{number}: y\r\n"))
        .collect();
    let head = api
        .client
        .head("GET", "/api/v1/status", &[], 0)
        .replace("connection", &format!("{many}connection"));
    assert_eq!(api.client.send(&head, b"").status, 431);
}

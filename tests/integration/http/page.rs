//! The page at `/`: it shows what there is, to whoever has the token, and nothing of it can act.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::{Api, Client, TOKEN, json};

/// Returns the header that a browser sends for a password.
fn password(user: &str, password: &str) -> String {
    format!("Basic {}", STANDARD.encode(format!("{user}:{password}")))
}

#[test]
fn a_browser_shows_what_the_agent_does_and_finds_what_it_remembers() {
    let api = Api::new();
    api.sandbox.put(
        "workspace/memory/2026-05-04.md",
        b"# Notes\n\nThe spare key of the canary-boat hangs behind the <b>door</b>.\n",
    );
    assert_eq!(api.sandbox.run("agent-index", &[], "").code, 0);
    api.chat(&json!({"message": "hello", "sender": "<script>alert(1)</script>"}));
    let added = api.sandbox.send(&[
        "--job",
        "add",
        "--every",
        "1h",
        "--name",
        "<img src=x>",
        "--text",
        "look",
    ]);
    assert_eq!(added.code, 0, "{added:?}");
    let stranger = Client::tcp(api.port, None);
    let basic = password("me", TOKEN);
    let page = stranger.request("GET", "/", &[("authorization", &basic)], b"");
    assert_eq!(
        (page.status, page.header("content-type")),
        (200, Some("text/html; charset=utf-8")),
        "{page:?}"
    );
    let text = page.text();
    for shown in [
        "<h2>Costs</h2>",
        "<svg",
        "<h2>Conversations</h2>",
        "<h2>Queue</h2>",
        "&lt;script&gt;",
        "&lt;img src=x&gt;",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    for never in ["<script", "<img", "http://", "https://", TOKEN] {
        assert!(!text.contains(never), "{never}: {text}");
    }
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(
        policy.contains("default-src 'none'")
            && policy.contains("frame-ancestors 'none'")
            && !policy.contains("unsafe"),
        "{policy}"
    );
    assert_eq!(
        (page.header("cache-control"), page.header("referrer-policy")),
        (Some("no-store"), Some("no-referrer"))
    );

    let found = api
        .get("/?q=where+is+the+spare+key+of+the+canary-boat%3F")
        .text();
    assert!(
        found.contains("workspace/memory/2026-05-04.md:")
            && found.contains("behind the &lt;b&gt;door"),
        "{found}"
    );
    assert!(
        !found.contains("http-equiv"),
        "what is read is not taken away"
    );
    assert!(
        api.get("/?q=%3Cscript%3E")
            .text()
            .contains("value=\"&lt;script&gt;\"")
    );
}

#[test]
fn the_page_is_the_owners_and_a_password_opens_nothing_else() {
    let api = Api::new();
    let stranger = Client::tcp(api.port, None);
    let answer = stranger.get("/");
    assert_eq!(
        (answer.status, answer.header("www-authenticate")),
        (401, Some("Basic realm=\"agent\", charset=\"UTF-8\"")),
        "{answer:?}"
    );
    for wrong in [
        password("me", "wrong"),
        password("me", ""),
        format!("Basic {TOKEN}"),
        "Basic !".to_owned(),
        "Basic".to_owned(),
    ] {
        let answer = stranger.request("GET", "/", &[("authorization", &wrong)], b"");
        assert_eq!(answer.status, 401, "{wrong}: {answer:?}");
    }
    let basic = password("me", TOKEN);
    for path in [
        "/api/v1/sessions",
        "/api/v1/status",
        "/metrics",
        "/openapi.json",
    ] {
        assert_eq!(
            stranger
                .request("GET", path, &[("authorization", &basic)], b"")
                .status,
            401,
            "{path}"
        );
    }
    assert_eq!(
        stranger
            .request("POST", "/", &[("authorization", &basic)], b"")
            .status,
        405
    );
    assert_eq!(
        stranger
            .request(
                "GET",
                "/",
                &[("authorization", &basic), ("host", "evil.example")],
                b""
            )
            .status,
        403
    );
}

//! The page at `/`: it shows what there is, to whoever has the token, and no words of others act in it.

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
    for never in [
        "<script>",
        "<img",
        "http://",
        "https://",
        "onerror=\"",
        TOKEN,
    ] {
        assert!(!text.contains(never), "{never}: {text}");
    }
    assert_eq!(
        text.matches("<script").count(),
        text.matches("<script type=\"module\" src=\"/assets/app.js\"></script>")
            .count(),
        "the only script is our own"
    );
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

#[test]
fn descriptions_are_looked_at_and_corrected_by_no_other_sites_page() {
    let api = Api::with("[agent]\nconfig_path = [\"own\"]\n");
    let sticker = json!({
        "unique_id": "AgAD1", "kind": "sticker", "sticker_set_name": "Cats", "sticker_name": "😿",
        "description": "A <b>dog</b>.", "status": "generated", "mime_type": "image/webp", "ts": "2026-05-04T10:00:00Z",
    });
    api.sandbox
        .put("state/media/AgAD1.json", sticker.to_string().as_bytes());
    let basic = password("me", TOKEN);
    let stranger = Client::tcp(api.port, None);
    assert_eq!(stranger.get("/media").status, 401);
    let page = stranger.request(
        "GET",
        "/media?q=dog+cats",
        &[("authorization", &basic)],
        b"",
    );
    let text = page.text();
    assert_eq!(page.header("referrer-policy"), Some("same-origin"));
    for shown in [
        "Cats :: 😿",
        "AgAD1",
        "A &lt;b&gt;dog&lt;/b&gt;.",
        "by a model",
    ] {
        assert!(text.contains(shown), "{shown}: {text}");
    }
    assert!(!api.get("/media?q=bird").text().contains("AgAD1"));

    let ours = format!("http://127.0.0.1:{}", api.port);
    let form = ("content-type", "application/x-www-form-urlencoded");
    let send = |origin: Option<&str>, body: &str| {
        let mut headers = vec![("authorization", basic.as_str()), form];
        headers.extend(origin.map(|origin| ("origin", origin)));
        stranger.request("POST", "/media", &headers, body.as_bytes())
    };
    let correct = "unique_id=AgAD1&description=A+sad+cat%2C%0Acrying.&do=agent";
    for origin in [None, Some("null"), Some("http://evil.example")] {
        assert_eq!(send(origin, correct).status, 403, "{origin:?}");
    }
    for wrong in [
        "unique_id=../../x&description=x&do=all",
        "unique_id=AgAD1&description=+&do=all",
        "unique_id=AgAD1&do=shout",
        "unique_id=AgAD1&description=%00%ff&do=",
        "&&&",
    ] {
        assert_eq!(send(Some(&ours), wrong).status, 400, "{wrong}");
    }
    assert!(api.sandbox.read("own/media/AgAD1.json").is_none());
    let done = send(Some(&ours), correct);
    assert_eq!(
        (done.status, done.header("location")),
        (303, Some("/media"))
    );
    let written = api.sandbox.read_json("own/agents/agent/media/AgAD1.json");
    let written = written.expect("a file");
    assert_eq!(
        (
            &written["description"],
            &written["status"],
            &written["sticker_set_name"]
        ),
        (
            &json!("A sad cat, crying."),
            &json!("curated"),
            &json!("Cats")
        )
    );
    assert!(api.sandbox.read("state/media/AgAD1.json").is_none());
    assert!(api.get("/media").text().contains("A sad cat, crying."));

    let pixel = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x06\0\0\0\x1f\x15\xc4\x89";
    api.sandbox.put("state/downloads/tg-1/0-photo.jpg", pixel);
    api.sandbox.put(
        "state/downloads/tg-1/1-page.html",
        b"<script>alert(1)</script>",
    );
    std::os::unix::fs::symlink(
        "/etc/passwd",
        api.sandbox.path("state/downloads/tg-1/2-link"),
    )
    .expect("a link");
    for (id, picture) in [
        ("Seen", "tg-1/0-photo.jpg"),
        ("Html", "tg-1/1-page.html"),
        ("Link", "tg-1/2-link"),
        ("Out", "../people.json"),
        ("Abs", "/etc/passwd"),
        ("Gone", "tg-9/0-photo.jpg"),
    ] {
        let record = json!({"description": "x", "status": "generated", "picture": picture});
        let path = format!("state/media/{id}.json");
        api.sandbox.put(&path, record.to_string().as_bytes());
    }
    let page = api.get("/media");
    let shown = "<img loading=\"lazy\" alt=\"\" src=\"/media/picture?id=Seen\">";
    assert!(page.text().contains(shown), "{}", page.text());
    let policy = page.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'") && policy.contains("img-src 'self'"));
    assert_eq!(stranger.get("/media/picture?id=Seen").status, 401);
    let picture = |id: &str| {
        let path = format!("/media/picture?id={id}");
        stranger.request("GET", &path, &[("authorization", &basic)], b"")
    };
    let seen = picture("Seen");
    assert_eq!((seen.status, seen.body.as_slice()), (200, pixel.as_slice()));
    assert_eq!(seen.header("content-type"), Some("image/png"));
    assert_eq!(seen.header("x-content-type-options"), Some("nosniff"));
    let policy = seen.header("content-security-policy").expect("a policy");
    assert!(
        policy.starts_with("default-src 'none'; sandbox"),
        "{policy}"
    );
    for id in [
        "Html",
        "Link",
        "Out",
        "Abs",
        "Gone",
        "AgAD9",
        "../people",
        "%2e%2e%2fx",
    ] {
        assert_eq!(picture(id).status, 404, "{id}");
    }
    assert_eq!(api.get("/media/picture").status, 400);

    api.sandbox.put(
        "state/media/AgAD2.json",
        br#"{"status": "unsupported", "failure_reason": "no"}"#,
    );
    assert!(api.get("/media").text().contains("AgAD2"));
    assert_eq!(send(Some(&ours), "unique_id=AgAD2&do=clear").status, 303);
    assert!(api.sandbox.read("state/media/AgAD2.json").is_none());
}

//! Signing in with a browser: what the cookie opens, for whom, and what ends it.

use nix::sys::signal::Signal;
use serde_json::json;

use super::client::Answer;
use super::{Api, Client, SOON, TOKEN};
use crate::support::wait_for;

const HTML: (&str, &str) = ("accept", "text/html,application/xhtml+xml");
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const JSON: (&str, &str) = ("content-type", "application/json");

fn origin(api: &Api) -> String {
    format!("http://127.0.0.1:{}", api.port)
}

/// Signs in and returns the cookie as a browser sends it.
fn sign_in(api: &Api) -> String {
    let body = json!({"token": TOKEN});
    let answer = Client::tcp(api.port, None).post("/login", &body);
    assert_eq!(answer.status, 200, "{answer:?}");
    cookie(&answer)
}

fn cookie(answer: &Answer) -> String {
    let line = answer.header("set-cookie").expect("a cookie");
    line.split(';').next().expect("a pair").to_owned()
}

#[test]
fn the_token_gives_a_cookie_that_opens_what_the_token_opens_and_is_not_it() {
    let api = Api::new();
    let stranger = Client::tcp(api.port, None);
    let form = stranger.request("GET", "/", &[HTML], b"");
    assert_eq!(
        (form.status, form.header("www-authenticate")),
        (401, Some("Bearer")),
        "a browser shows the form and no window of its own: {form:?}"
    );
    assert!(form.text().contains("action=\"/login\"") && !form.text().contains("Costs"));
    let origin = origin(&api);
    let body = format!("token={TOKEN}&next=%2Fmedia");
    let answer = stranger.request(
        "POST",
        "/login",
        &[FORM, HTML, ("origin", &origin)],
        body.as_bytes(),
    );
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, Some("/media")),
        "{answer:?}"
    );
    let set = answer.header("set-cookie").expect("a cookie");
    assert!(
        set.contains("; HttpOnly")
            && set.contains("; SameSite=Strict")
            && set.contains("; Path=/")
            && !set.contains("Secure")
            && !set.contains(TOKEN),
        "{set}"
    );
    let pair = cookie(&answer);
    let mine = ("cookie", pair.as_str());
    for path in [
        "/",
        "/media",
        "/api/v1/sessions",
        "/metrics",
        "/openapi.json",
    ] {
        assert_eq!(
            stranger.request("GET", path, &[mine], b"").status,
            200,
            "{path}"
        );
    }
    let chat = json!({"message": "hello"}).to_string();
    let said = stranger.request(
        "POST",
        "/api/v1/chat",
        &[mine, JSON, ("origin", &origin)],
        chat.as_bytes(),
    );
    assert_eq!(said.status, 200, "{said:?}");
    // What is kept opens nothing.
    let kept = api.sandbox.read("state/http_sessions.json").expect("kept");
    let value = pair.split_once('=').expect("a pair").1;
    assert!(!kept.contains(value) && !kept.contains(TOKEN), "{kept}");
    let tag = serde_json::from_str::<serde_json::Value>(&kept).expect("JSON")["sessions"][0]["tag"]
        .as_str()
        .expect("a tag")
        .to_owned();
    let name = pair.split_once('=').expect("a pair").0;
    for wrong in [
        format!("{name}={tag}"),
        format!("{name}={TOKEN}"),
        format!("{name}="),
        format!("{pair}; {pair}"),
        format!("other_{pair}"),
    ] {
        let answer = stranger.request("GET", "/api/v1/sessions", &[("cookie", &wrong)], b"");
        assert_eq!(answer.status, 401, "{wrong}");
    }
    // A wrong token is not made good by a cookie.
    let both = [mine, ("authorization", "Bearer wrong")];
    assert_eq!(
        stranger
            .request("GET", "/api/v1/sessions", &both, b"")
            .status,
        401
    );
    // Behind a proxy with a certificate the cookie stays on encrypted ways.
    let proxied = stranger.request(
        "POST",
        "/login",
        &[JSON, ("host", "localhost"), ("origin", "https://localhost")],
        json!({"token": TOKEN}).to_string().as_bytes(),
    );
    assert!(
        proxied
            .header("set-cookie")
            .is_some_and(|set| set.ends_with("; Secure")),
        "{proxied:?}"
    );
    // No page of ours sends anybody elsewhere.
    let body = format!("token={TOKEN}&next=https%3A%2F%2Fevil.example");
    let answer = stranger.request(
        "POST",
        "/login",
        &[FORM, ("origin", &origin)],
        body.as_bytes(),
    );
    assert_eq!(answer.header("location"), Some("/"), "{answer:?}");
}

#[test]
fn another_sites_page_can_do_nothing_with_the_cookie() {
    let api = Api::new();
    let (pair, origin) = (sign_in(&api), origin(&api));
    let browser = Client::tcp(api.port, None);
    let body = json!({"message": "send it all to me"}).to_string();
    let check = |path: &str, headers: &[(&str, &str)], status: &[u16]| {
        let all = [&[("cookie", pair.as_str())], headers].concat();
        let answer = browser.request("POST", path, &all, body.as_bytes());
        assert!(
            status.contains(&answer.status),
            "{path} {headers:?}: {answer:?}"
        );
    };
    let before = api.model.requests().len();
    for path in ["/api/v1/chat", "/api/v1/stop", "/media", "/logout"] {
        check(path, &[JSON, ("origin", "https://evil.example")], &[403]);
        // Another port of this machine is the same site for a browser.
        check(path, &[JSON, ("origin", "http://127.0.0.1:3000")], &[403]);
        check(path, &[FORM, ("origin", "null")], &[403]);
        check(path, &[FORM], &[401]);
        // No browser leaves out where a request comes from, and who has the cookie alone is a program.
        check(path, &[JSON], &[401]);
        check(path, &[("content-type", "text/plain")], &[401]);
        let cross = ("sec-fetch-site", "cross-site");
        check(path, &[JSON, ("origin", &origin), cross], &[401]);
        check(path, &[JSON, ("sec-fetch-site", "same-site")], &[401]);
    }
    assert_eq!(
        api.model.requests().len(),
        before,
        "nothing reached the model"
    );
    for site in ["cross-site", "same-site"] {
        let headers = [("cookie", pair.as_str()), ("sec-fetch-site", site)];
        let answer = browser.request("GET", "/api/v1/sessions", &headers, b"");
        assert_eq!(answer.status, 401, "{site}");
    }
    // A name that was bound to this address since.
    let rebound = [("cookie", pair.as_str()), ("host", "evil.example")];
    assert_eq!(browser.request("GET", "/", &rebound, b"").status, 403);
    // A link from another site leads to the page all the same: it is asked for once more by itself.
    let link = [
        HTML,
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-mode", "navigate"),
    ];
    let answer = browser.request("GET", "/", &link, b"");
    assert!(
        answer.text().contains("content=\"0;url=/\""),
        "{}",
        answer.text()
    );
    let typed = [
        HTML,
        ("sec-fetch-site", "none"),
        ("sec-fetch-mode", "navigate"),
    ];
    let answer = browser.request("GET", "/", &typed, b"");
    assert!(!answer.text().contains("http-equiv"), "{}", answer.text());
}

#[test]
fn sites_of_the_settings_have_the_token_and_not_the_cookie() {
    let api = Api::with("[http]\norigins = [\"https://chat.example\"]");
    let pair = sign_in(&api);
    let headers = [
        ("cookie", pair.as_str()),
        ("origin", "https://chat.example"),
        JSON,
    ];
    let answer = Client::tcp(api.port, None).request(
        "POST",
        "/api/v1/chat",
        &headers,
        json!({"message": "hello"}).to_string().as_bytes(),
    );
    assert_eq!(answer.status, 401, "{answer:?}");
    // A page may send what the SDKs of OpenAI send with each request, and read what they heed.
    let wanted = "authorization,content-type,x-stainless-lang,x-stainless-retry-count";
    let preflight = [
        ("origin", "https://chat.example"),
        ("access-control-request-method", "POST"),
        ("access-control-request-headers", wanted),
    ];
    let path = "/v1/chat/completions";
    let answer = Client::tcp(api.port, None).request("OPTIONS", path, &preflight, b"");
    let allowed = answer.header("access-control-allow-headers");
    assert_eq!((answer.status, allowed), (204, Some(wanted)), "{answer:?}");
    let site = [("origin", "https://chat.example")];
    let answer = api.client.request("GET", "/v1/models", &site, b"");
    let shown = answer.header("access-control-expose-headers");
    assert_eq!(shown, Some("retry-after, x-should-retry"), "{answer:?}");
}

#[test]
fn a_session_outlives_the_daemon_and_ends_with_a_logout() {
    let mut api = Api::new();
    let (pair, origin) = (sign_in(&api), origin(&api));
    let other = sign_in(&api);
    assert_ne!(pair, other, "each time a new one");
    let get = |pair: &str| {
        let headers = [("cookie", pair)];
        Client::tcp(api.port, None)
            .request("GET", "/api/v1/sessions", &headers, b"")
            .status
    };
    // A cookie that somebody else put there is not taken over.
    let planted = format!(
        "{}={}",
        pair.split_once('=').expect("a pair").0,
        "a".repeat(64)
    );
    let headers = [JSON, ("cookie", planted.as_str())];
    let answer = Client::tcp(api.port, None).request(
        "POST",
        "/login",
        &headers,
        json!({"token": TOKEN}).to_string().as_bytes(),
    );
    assert_ne!(cookie(&answer), planted);
    assert_eq!(get(&planted), 401);

    let headers = [
        ("cookie", other.as_str()),
        ("origin", origin.as_str()),
        FORM,
        HTML,
    ];
    let answer = Client::tcp(api.port, None).request("POST", "/logout", &headers, b"");
    assert_eq!(
        (answer.status, answer.header("location")),
        (303, Some("/login")),
        "{answer:?}"
    );
    assert!(
        answer
            .header("set-cookie")
            .is_some_and(|set| set.contains("Max-Age=0"))
    );
    assert_eq!((get(&other), get(&pair)), (401, 200));
    api.daemon.signal(Signal::SIGKILL);
    wait_for("its end", SOON, || api.daemon.has_ended().then_some(()));
    api.daemon = api.sandbox.ready();
    let get = |pair: &str| {
        let headers = [("cookie", pair)];
        Client::tcp(api.port, None)
            .request("GET", "/api/v1/sessions", &headers, b"")
            .status
    };
    assert_eq!((get(&other), get(&pair)), (401, 200), "after kill -9");
}

#[test]
fn large_forms_are_refused() {
    let api = Api::new();
    let stranger = Client::tcp(api.port, None);
    for bad in ["{", "[]", "{}", "{\"token\":1}"] {
        let answer = stranger.request("POST", "/login", &[JSON], bad.as_bytes());
        assert_eq!(answer.status, 400, "{bad}: {answer:?}");
    }
    let large = json!({"token": "x".repeat(20_000)});
    assert_eq!(stranger.post("/login", &large).status, 413);
}

#[test]
fn wrong_tokens_are_told_to_wait_on_every_route_and_the_right_one_never_is() {
    let api = Api::new();
    let stranger = Client::tcp(api.port, None);
    let wrong = [("authorization", "Bearer wrong"), JSON];
    let read = || stranger.request("GET", "/api/v1/sessions", &wrong, b"");
    let write = || stranger.request("POST", "/api/v1/stop", &wrong, b"{}");
    let page = || stranger.request("GET", "/", &wrong, b"");
    let login = || stranger.post("/login", &json!({"token": "wrong"}));
    let form = || stranger.request("POST", "/login", &[FORM, HTML], b"token=wrong");
    let tried = (0..40).take_while(|_| read().status == 401).count();
    assert!((9..40).contains(&tried), "{tried}");
    // Whoever is known is shown another page there.
    let known = || stranger.request("GET", "/login", &wrong, b"");
    let ways: [&dyn Fn() -> Answer; 6] = [&read, &write, &page, &login, &form, &known];
    for way in ways {
        // A slow machine may have earned another try.
        let told = (0..40)
            .map(|_| way())
            .find(|answer| answer.status == 429)
            .expect("it is told to wait");
        let wait = told.header("retry-after").map(str::parse::<u64>);
        assert!(matches!(wait, Some(Ok(1..))), "{told:?}");
        assert_eq!(told.header("set-cookie"), None, "{told:?}");
        // Whoever has the token is let in meanwhile, from the same address.
        sign_in(&api);
        assert_eq!(api.get("/api/v1/sessions").status, 200);
        assert_eq!(api.post("/api/v1/stop", &json!({})).status, 200);
    }
}

#[test]
fn the_files_of_the_page_are_everybodys_and_known_again() {
    let api = Api::new();
    let stranger = Client::tcp(api.port, None);
    for (name, kind) in [
        ("app.js", "text/javascript; charset=utf-8"),
        ("app.css", "text/css; charset=utf-8"),
        ("icon.svg", "image/svg+xml"),
    ] {
        let path = format!("/assets/{name}");
        let answer = stranger.get(&path);
        assert_eq!(
            (
                answer.status,
                answer.header("content-type"),
                answer.header("cache-control")
            ),
            (200, Some(kind), Some("no-cache")),
            "{name}"
        );
        let tag = answer.header("etag").expect("a tag").to_owned();
        let again = stranger.request("GET", &path, &[("if-none-match", &tag)], b"");
        assert_eq!((again.status, again.body.len()), (304, 0), "{name}");
    }
    for path in [
        "/assets/",
        "/assets/app.html",
        "/assets/..%2Fmod.rs",
        "/assets/x",
    ] {
        assert_eq!(stranger.get(path).status, 401, "{path}");
    }
}

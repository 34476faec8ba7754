//! Signing in with a browser.
#![allow(clippy::disallowed_methods, reason = "a test writes files plainly")]

use std::os::unix::fs::PermissionsExt as _;

use super::{SOON, begin, get, house, last_key, no_canary, no_secret_in_files, sign_in};
use crate::support::{FakeIssuer, FakeModel, Sandbox, wait_for};

#[test]
fn a_sign_in_ends_with_a_token_that_the_daemon_sends() {
    let (issuer, model) = (FakeIssuer::start(), FakeModel::start());
    let sandbox = house(&issuer, &model);
    let told = sandbox.run("agent-daemon", &["check"], "");
    assert_eq!(told.code, 78);
    assert!(
        told.stderr
            .contains("hint: agent-daemon login house --oauth"),
        "{told:?}"
    );
    sign_in(&sandbox);
    assert_eq!((issuer.exchanged(), issuer.renewed()), (1, 0));
    let mode = std::fs::metadata(sandbox.path("state/auth.json"))
        .expect("it is there")
        .permissions()
        .mode()
        & 0o777;
    assert_eq!(mode, 0o600);
    let stored = sandbox.read_json("state/auth.json").expect("stored");
    let oauth = &stored["providers"]["house"]["oauth"];
    assert_eq!(
        (&stored["version"], &oauth["access"]),
        (&1.into(), &"access-canary-2".into()),
        "{stored}"
    );
    assert_eq!(
        (&oauth["refresh"], &oauth["scope"]),
        (&"refresh-canary-2".into(), &"models read".into())
    );

    let daemon = sandbox.ready();
    let told = sandbox.send(&["--wait", "hello"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (0, "echo: hello\n"),
        "{told:?}"
    );
    assert_eq!(last_key(&model), "Bearer access-canary-2");
    let told = sandbox.run("agent-daemon", &["auth"], "");
    assert!(
        told.stdout
            .starts_with("house  the sign-in in state/auth.json, ends in ry-2, until 2"),
        "{told:?}"
    );
    assert!(!daemon.log().contains("canary"), "{}", daemon.log());
    assert_eq!(daemon.term(), 0);
    no_secret_in_files(&sandbox);
}

#[test]
fn an_answer_with_another_state_is_refused_and_the_sign_in_waits_on() {
    let (issuer, model) = (FakeIssuer::start(), FakeModel::start());
    let sandbox = house(&issuer, &model);
    let (running, url) = begin(&sandbox, &["house"]);
    let back = get(&url).1.expect("the browser is sent back");
    let (address, _) = back.split_once('?').expect("a query");
    for forged in [
        "?code=code-canary-1&state=guess",
        "?code=code-canary-1",
        "?error=access_denied",
        "?error=x&state=",
        "",
    ] {
        let (status, _, page) = get(&format!("{address}{forged}"));
        assert_eq!(status, 400, "{forged}: {page}");
    }
    assert_eq!(get(&format!("{address}x")).0, 404);
    running.write(&format!("{address}?code=code-canary-1&state=guess\n"));
    assert_eq!(issuer.exchanged(), 0);
    assert_eq!(get(&back).0, 200);
    let told = running.end();
    assert_eq!(told.code, 0, "{told:?}");
    assert_eq!(
        told.stderr
            .matches("does not belong to this sign-in")
            .count(),
        5,
        "{told:?}"
    );
}

#[test]
fn over_ssh_the_address_or_the_code_is_pasted() {
    let (issuer, model) = (FakeIssuer::start(), FakeModel::start());
    for whole in [true, false] {
        let sandbox = house(&issuer, &model);
        let (running, url) = begin(&sandbox, &["house", "--json"]);
        let back = get(&url).1.expect("the browser is sent back");
        let code = back
            .split_once("code=")
            .and_then(|(_, rest)| rest.split_once('&'))
            .expect("a code")
            .0;
        running.write(&format!("\n{}\n", if whole { &back } else { code }));
        let told = running.end();
        let document = told.json();
        assert_eq!(
            (told.code, &document["stored"]),
            (0, &"oauth".into()),
            "{told:?}"
        );
        assert_eq!(
            (&document["provider"], &document["loaded"]),
            (&"house".into(), &true.into())
        );
    }
}

#[test]
fn a_person_who_says_no_and_a_code_that_came_late_store_nothing() {
    let (issuer, model) = (FakeIssuer::start(), FakeModel::start());
    let sandbox = house(&issuer, &model);
    for (denies, words) in [
        (true, "access_denied: the person said no"),
        (false, "invalid_grant: the code has expired"),
    ] {
        issuer.denies(denies);
        issuer.late(!denies);
        let (running, url) = begin(&sandbox, &["house"]);
        assert_eq!(get(&get(&url).1.expect("the browser is sent back")).0, 200);
        let told = running.end();
        assert_eq!((told.code, told.stdout.as_str()), (1, ""), "{told:?}");
        assert!(
            told.stderr.contains(words) && told.stderr.contains("nothing was stored\nhint: "),
            "{told:?}"
        );
        no_canary(words, &told);
        assert_eq!(sandbox.read("state/auth.json"), None);
    }
    assert_eq!(issuer.exchanged(), 0);
}

#[test]
fn openrouter_ends_with_a_key_and_sets_a_new_home_up() {
    let issuer = FakeIssuer::start();
    let file = format!(
        "type = \"openai\"\nbase_url = \"{}/api/v1\"\napi_key_env = \"OPENROUTER_API_KEY\"\n[models.primary]\nmodel = \"m\"\n",
        issuer.url()
    );
    let sandbox = Sandbox::new().provider_config("openrouter", &file);
    let (running, url) = begin(&sandbox, &[]);
    let back = get(&url).1.expect("the browser is sent back");
    let (front, end) = back
        .split_once("/callback/")
        .expect("the path of OpenRouter's callback");
    assert_eq!(
        get(&format!(
            "{front}/callback/guess?{}",
            end.split_once('?').expect("a query").1
        ))
        .0,
        404
    );
    assert_eq!(get(&back).0, 200);
    let told = running.end();
    let says = "signed in at openrouter: it gave a key that ends in 6789\n";
    assert_eq!((told.code, told.stdout.as_str()), (0, says), "{told:?}");
    let stored = sandbox.read_json("state/auth.json").expect("stored");
    assert_eq!(
        stored["providers"]["openrouter"]["api_key"]["key"],
        "sk-or-canary-0123456789"
    );
    let told = sandbox.run("agent-daemon", &["auth", "--check"], "");
    assert!(
        told.stdout
            .contains("\n              good: 4.50 US dollars left\n"),
        "{told:?}"
    );
}

#[test]
fn who_offers_no_sign_in_is_told_apart() {
    let sandbox = Sandbox::new();
    let told = sandbox.run(
        "agent-daemon",
        &["login", "anthropic", "--oauth", "--json"],
        "",
    );
    let error = &told.json()["error"];
    assert_eq!(
        (
            told.code,
            error["hint"]
                .as_str()
                .is_some_and(|hint| hint.contains("--api-key"))
        ),
        (2, true),
        "{told:?}"
    );
}

#[test]
fn the_browser_gets_the_address_from_a_page_of_its_owner_and_no_key() {
    let (issuer, model) = (FakeIssuer::start(), FakeModel::start());
    let sandbox = house(&issuer, &model);
    let programs = sandbox.path("programs");
    std::fs::create_dir(&programs).expect("a directory");
    let script = programs.join("xdg-open");
    let dir = programs.display();
    let text = format!(
        "#!/bin/sh\n/bin/cp -p \"$1\" {dir}/page\n/usr/bin/env >{dir}/env\necho \"$@\" >{dir}/draft\n/bin/mv {dir}/draft {dir}/said\n"
    );
    std::fs::write(&script, text).expect("write");
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700)).expect("chmod");
    let sandbox = sandbox
        .env("PATH", &programs.display().to_string())
        .env("DISPLAY", ":7")
        .env("OTHER_KEY", "sk-canary-environment");
    let running = sandbox.starting("agent-daemon", &["login", "--oauth", "house"]);
    let read = |name: &str| std::fs::read_to_string(programs.join(name)).unwrap_or_default();
    let said = wait_for("the browser", SOON, || {
        Some(read("said")).filter(|said| !said.is_empty())
    });
    let page = sandbox.path("state/sign-in.html");
    assert_eq!(
        said,
        format!("{}\n", page.display()),
        "the arguments of a program are for everybody"
    );
    let mode = std::fs::metadata(&page)
        .expect("it is there")
        .permissions()
        .mode()
        & 0o777;
    assert_eq!(mode, 0o600);
    assert!(
        !read("env").contains("canary") && read("env").contains("DISPLAY=:7"),
        "{}",
        read("env")
    );
    let text = read("page").replace("&amp;", "&");
    let url = text
        .split_once("0;url=")
        .and_then(|(_, rest)| rest.split_once('"'))
        .expect("an address")
        .0;
    assert_eq!(get(&get(url).1.expect("the browser is sent back")).0, 200);
    assert_eq!(running.end().code, 0);
    assert!(!page.exists());
}

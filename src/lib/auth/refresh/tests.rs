use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::post;
use serde_json::json;

use super::*;

fn secret(text: &str) -> Option<Secret> {
    Some(Secret::new(text))
}

fn tokens(number: u32, expires_at: i64) -> Tokens {
    Tokens {
        access: secret(&format!("access-{number}")),
        refresh: secret(&format!("refresh-{number}")),
        expires_at: Some(expires_at),
        obtained_at: Some(expires_at - 3_600_000),
        client_id: "me".to_owned(),
        ..Tokens::default()
    }
}

/// A store whose sign-in has ended, at an issuer that does `then` to the store before it answers.
async fn issuer(
    status: u16,
    answer: serde_json::Value,
    then: fn(&Store),
) -> (tempfile::TempDir, Arc<Store>, Arc<AtomicUsize>) {
    let dir = tempfile::tempdir().expect("dir");
    let store = Arc::new(Store::new(&dir.path().join("auth.json")));
    let asked = Arc::new(AtomicUsize::new(0));
    let (hand, count) = (store.clone(), asked.clone());
    let serve = move || {
        count.fetch_add(1, Ordering::Relaxed);
        then(&hand);
        let answer = (
            StatusCode::from_u16(status).expect("a status"),
            answer.to_string(),
        );
        std::future::ready(answer)
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let token_url = format!("http://{}/token", listener.local_addr().expect("bound"));
    tokio::spawn(
        async move { axum::serve(listener, Router::new().route("/token", post(serve))).await },
    );
    let ended = Tokens {
        token_url,
        ..tokens(1, clock::now_ms() - 1)
    };
    store.put_tokens("house", &ended).expect("store");
    (dir, store, asked)
}

async fn ask(store: &Arc<Store>) -> Result<String, Error> {
    let http = crate::net::client().expect("TLS");
    fresh(store, &http, "house", None)
        .await
        .map(|access| access.expose().to_owned())
}

/// Another process that got new tokens meanwhile.
fn other(store: &Store) {
    let url = store
        .entry("house")
        .expect("read")
        .tokens
        .expect("signed in")
        .token_url;
    let new = Tokens {
        token_url: url,
        ..tokens(2, clock::now_ms() + 3_600_000)
    };
    store.put_tokens("house", &new).expect("store");
}

#[test]
fn a_token_is_fresh_until_shortly_before_its_end() {
    let life = |secs: i64| Tokens {
        expires_at: Some(secs * 1000),
        obtained_at: Some(0),
        ..tokens(1, 0)
    };
    let cases = [(life(3600), 3539), (life(8), 5), (life(3600), -100)];
    for (tokens, until) in cases {
        assert!(is_fresh(&tokens, until * 1000), "{tokens:?} {until}");
    }
    for (tokens, from) in [(life(3600), 3540), (life(8), 6)] {
        assert!(!is_fresh(&tokens, from * 1000), "{tokens:?} {from}");
    }
    assert!(
        is_fresh(
            &Tokens {
                expires_at: None,
                ..life(1)
            },
            i64::MAX
        ),
        "the issuer named no end"
    );
    assert!(!is_fresh(
        &Tokens {
            access: None,
            expires_at: None,
            ..life(1)
        },
        0
    ));
    assert!(!is_fresh(
        &Tokens {
            signed_out: Some(String::new()),
            ..life(3600)
        },
        0
    ));
}

#[tokio::test]
async fn a_renewal_that_failed_uses_the_token_of_one_that_did_not() {
    for (status, answer) in [
        (400, json!({"error": "invalid_grant"})),
        (500, json!(null)),
        (200, json!({"access_token": "lost"})),
    ] {
        let (_dir, store, asked) = issuer(status, answer, other).await;
        assert_eq!(
            ask(&store).await.expect("the other's"),
            "access-2",
            "{status}"
        );
        assert_eq!(
            store
                .entry("house")
                .expect("read")
                .tokens
                .and_then(|tokens| tokens.refresh),
            secret("refresh-2")
        );
        assert_eq!(asked.load(Ordering::Relaxed), 1);
    }
}

#[tokio::test]
async fn a_sign_out_during_a_renewal_stands() {
    let sign_out = |store: &Store| drop(store.remove(None).expect("remove"));
    let (_dir, store, _) = issuer(
        200,
        json!({"access_token": "late-1234", "refresh_token": "late-5678"}),
        sign_out,
    )
    .await;
    assert!(matches!(ask(&store).await, Err(Error::Absent { .. })));
    assert_eq!(store.read().expect("read").entries.len(), 0);
}

#[tokio::test]
async fn what_the_issuer_gives_is_on_the_disk_before_it_is_used() {
    let (dir, store, asked) = issuer(
        200,
        json!({"access_token": "access-9", "refresh_token": "refresh-9"}),
        |_| {},
    )
    .await;
    assert_eq!(ask(&store).await.expect("renewed"), "access-9");
    let text = std::fs::read_to_string(dir.path().join("auth.json")).expect("read");
    assert!(
        text.contains("access-9") && text.contains("refresh-9") && !text.contains("renewing_at"),
        "{text}"
    );
    assert_eq!(ask(&store).await.expect("fresh"), "access-9");
    assert_eq!(asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_disk_that_cannot_be_written_shows_before_the_refresh_token_is_used_up() {
    let (dir, store, asked) = issuer(200, json!({"access_token": "access-9"}), |_| {}).await;
    // The lock's file is there already; the temporary file has nowhere to go.
    drop(store.renewing("house").expect("lock").expect("free"));
    let lock = dir.path().join("auth.lock");
    std::fs::remove_file(&lock).expect("remove");
    std::fs::create_dir(&lock).expect("a directory in its place");
    assert!(matches!(ask(&store).await, Err(Error::File(_))));
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn trouble_at_the_issuer_leaves_a_token_in_use_that_still_lives() {
    let (_dir, store, asked) = issuer(503, json!(null), |_| {}).await;
    assert!(
        matches!(ask(&store).await, Err(Error::Trouble { .. })),
        "it has ended"
    );
    let url = store
        .entry("house")
        .expect("read")
        .tokens
        .expect("signed in")
        .token_url;
    store
        .put_tokens(
            "house",
            &Tokens {
                token_url: url,
                ..tokens(1, clock::now_ms() + 30_000)
            },
        )
        .expect("store");
    assert_eq!(ask(&store).await.expect("it lives for 30 s"), "access-1");
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_sign_in_without_a_way_to_renew_ends_with_its_token() {
    let (_dir, store, asked) = issuer(200, json!({}), |_| {}).await;
    store
        .put_tokens(
            "house",
            &Tokens {
                refresh: None,
                ..tokens(1, clock::now_ms() - 1)
            },
        )
        .expect("store");
    assert!(matches!(ask(&store).await, Err(Error::SignedOut { .. })));
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn tokens_that_cannot_be_written_down_are_used_and_written_down_later() {
    let fill = |store: &Store| {
        let lock = store.path().with_extension("lock");
        std::fs::remove_file(&lock).expect("remove");
        std::fs::create_dir(&lock).expect("a directory in its place");
    };
    let (dir, store, asked) = issuer(
        200,
        json!({"access_token": "access-9", "refresh_token": "refresh-9"}),
        fill,
    )
    .await;
    assert_eq!(ask(&store).await.expect("kept"), "access-9");
    assert_eq!(ask(&store).await.expect("still kept"), "access-9");
    let stored = |store: &Store| {
        store
            .entry("house")
            .expect("read")
            .tokens
            .and_then(|tokens| tokens.refresh)
    };
    assert_eq!(stored(&store), secret("refresh-1"));
    std::fs::remove_dir(dir.path().join("auth.lock")).expect("there is room again");
    assert_eq!(ask(&store).await.expect("written"), "access-9");
    assert_eq!(
        (stored(&store), asked.load(Ordering::Relaxed)),
        (secret("refresh-9"), 1)
    );
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_never_given_back_is_trouble_and_no_wait_for_ever() {
    let dir = tempfile::tempdir().expect("dir");
    let store = Arc::new(Store::new(&dir.path().join("auth.json")));
    store
        .put_tokens("house", &tokens(1, clock::now_ms() - 1))
        .expect("store");
    let _held = store.renewing("house").expect("lock").expect("free");
    let error = ask(&store).await.expect_err("somebody has it");
    assert!(
        matches!(&error, Error::Trouble { reason, .. } if reason.contains("auth.house.lock")),
        "{error}"
    );
}

#[tokio::test]
async fn a_renewal_whose_asker_is_gone_is_waited_for_at_the_end() {
    let (_dir, store, asked) = issuer(
        200,
        json!({"access_token": "access-9", "refresh_token": "refresh-9"}),
        |_| {},
    )
    .await;
    let mut asking = Box::pin(ask(&store));
    // One look begins it.
    assert!(futures_util::poll!(&mut asking).is_pending());
    drop(asking);
    store.renewals.end().await;
    let refresh = store
        .entry("house")
        .expect("read")
        .tokens
        .and_then(|tokens| tokens.refresh);
    assert_eq!(
        (refresh, asked.load(Ordering::Relaxed)),
        (secret("refresh-9"), 1)
    );
}

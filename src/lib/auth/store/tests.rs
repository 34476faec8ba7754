use std::fs::Permissions;

use super::*;

fn store(text: Option<&str>) -> (tempfile::TempDir, Store) {
    let dir = tempfile::tempdir().expect("dir");
    let store = Store::new(&dir.path().join("auth.json"));
    if let Some(text) = text {
        atomic::write(store.path(), text.as_bytes(), atomic::Durability::Rename).expect("write");
    }
    (dir, store)
}

fn names(dir: &tempfile::TempDir) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir.path())
        .expect("list")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into())
        .collect();
    names.sort();
    names
}

fn text(store: &Store) -> Value {
    serde_json::from_slice(&std::fs::read(store.path()).expect("read")).expect("JSON")
}

fn tokens(access: &str, refresh: &str) -> Tokens {
    let secret = |text: &str| Some(Secret::new(text));
    let (token_url, client_id) = ("https://id.example/token".to_owned(), "me".to_owned());
    Tokens {
        access: secret(access),
        refresh: secret(refresh),
        token_url,
        client_id,
        ..Tokens::default()
    }
}

#[test]
fn a_key_is_stored_beside_what_others_wrote() {
    let (_dir, store) = store(Some(
        r#"{"version":1,"by":"hand","providers":{"other":{"api_key":{"key":"k-other"},"note":"x"},"mine":{"note":"y"}}}"#,
    ));
    store
        .put_key("mine", &Secret::new("k-mine-123456"))
        .expect("store");
    let mut written = text(&store);
    written["providers"]["mine"]["api_key"]
        .as_object_mut()
        .expect("object")
        .shift_remove("obtained_at")
        .expect("time");
    let expected = json!({"version": 1, "by": "hand", "providers": {
        "other": {"api_key": {"key": "k-other"}, "note": "x"},
        "mine": {"note": "y", "api_key": {"key": "k-mine-123456"}},
    }});
    assert_eq!(written, expected);
    assert_eq!(
        store
            .entry("mine")
            .expect("read")
            .key
            .map(|key| key.expose().to_owned()),
        Some("k-mine-123456".to_owned())
    );
}

#[test]
fn a_corrupt_file_configures_nothing_and_is_kept() {
    for broken in [
        "{\"providers\": {\"a\": sk-canary-0815",
        "[1]",
        "\u{0}",
        "{\"providers\": 7}",
        "{\"version\": \"x\"}",
    ] {
        let (dir, store) = store(Some(broken));
        let contents = store.read().expect("read");
        assert!(
            matches!(&contents.state, State::Corrupt { reason } if !reason.contains("canary")),
            "{contents:?}"
        );
        assert_eq!(contents.entries, BTreeMap::new());
        assert_eq!(
            store.remove(None).expect("nothing to do"),
            Vec::<String>::new()
        );
        assert_eq!(
            names(&dir),
            ["auth.json", "auth.lock"],
            "looking and removing leave it where it is"
        );
        let aside = store
            .put_key("a", &Secret::new("k-1"))
            .expect("store")
            .expect("it was set aside");
        assert_eq!(std::fs::read(aside).expect("kept"), broken.as_bytes());
        assert_eq!(store.read().expect("read").state, State::Good);
    }
}

#[test]
fn a_file_of_a_newer_version_is_refused_and_left_alone() {
    let (_dir, store) = store(Some("{\"version\": 2}"));
    for result in [
        store.read().map(drop),
        store.put_key("a", &Secret::new("k-1")).map(drop),
    ] {
        assert!(
            matches!(result, Err(Error::Newer { version: 2, .. })),
            "{result:?}"
        );
    }
    assert_eq!(text(&store), json!({"version": 2}));
}

#[test]
fn a_file_that_others_can_read_is_refused() {
    for mode in [0o640, 0o604, 0o660] {
        let (_dir, store) = store(Some("{}"));
        assert_eq!(store.read().expect("0600").state, State::Good);
        std::fs::set_permissions(store.path(), Permissions::from_mode(mode)).expect("chmod");
        assert!(matches!(store.read(), Err(Error::Mode { mode: found, .. }) if found == mode));
    }
}

#[test]
fn no_file_is_an_empty_one_and_removing_makes_none() {
    let (dir, store) = store(None);
    assert_eq!(store.read().expect("read"), Contents::default());
    assert_eq!(
        store.remove(Some("a")).expect("nothing to do"),
        Vec::<String>::new()
    );
    assert_eq!(names(&dir), ["auth.lock"]);
}

#[test]
fn an_update_of_a_sign_in_that_was_replaced_changes_nothing() {
    let (_dir, store) = store(None);
    store
        .put_tokens("a", &tokens("access-1", "refresh-1"))
        .expect("store");
    let old = Secret::new("refresh-1");
    assert!(
        store
            .update("a", &old, |tokens| tokens.refresh =
                Some(Secret::new("refresh-2")))
            .expect("update")
    );
    assert!(
        !store
            .update("a", &old, |tokens| tokens.signed_out = Some("late".into()))
            .expect("update")
    );
    assert_eq!(
        store.entry("a").expect("read").tokens,
        Some(tokens("access-1", "refresh-2"))
    );
    assert_eq!(store.remove(Some("a")).expect("remove"), ["a"]);
    assert!(
        !store
            .update("a", &Secret::new("refresh-2"), |_| {})
            .expect("update"),
        "what was signed out stays so"
    );
}

#[test]
fn a_key_takes_the_place_of_a_sign_in_and_a_sign_in_goes_before_a_key() {
    let (_dir, store) = store(None);
    store
        .put_key("a", &Secret::new("k-1234567"))
        .expect("store");
    store
        .put_tokens("a", &tokens("access-1", "refresh-1"))
        .expect("store");
    let entry = store.entry("a").expect("read");
    assert!(entry.key.is_some() && entry.tokens.is_some());
    store
        .put_key("a", &Secret::new("k-7654321"))
        .expect("store");
    assert_eq!(store.entry("a").expect("read").tokens, None);
}

#[test]
fn what_is_read_is_redacted_from_then_on() {
    let (_dir, store) = store(Some(
        r#"{"providers":{"a":{"api_key":{"key":"canary-key-1"},"oauth":{"access":"canary-access-1","refresh":"canary-refresh\"1"}}}}"#,
    ));
    let contents = store.read().expect("read");
    assert!(!format!("{contents:?} {store:?}").contains("canary"));
    let line = json!({"x": "canary-key-1 canary-access-1 canary-refresh\"1"}).to_string();
    assert_eq!(
        crate::secret::redact(&line),
        "{\"x\":\"[redacted] [redacted] [redacted]\"}"
    );
}

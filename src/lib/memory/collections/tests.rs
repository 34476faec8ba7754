//! Unreachable, silent or invalid servers delay nothing, and lists of hits keep their order.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use super::*;
use crate::config::{Collection, Environment, Home};

fn agent() -> (tempfile::TempDir, Home, Secrets) {
    let dir = tempfile::tempdir().expect("dir");
    let home = Home::at(dir.path());
    home.create().expect("directories");
    let secrets = Secrets::open(&home, &Environment::default()).expect("no secrets");
    (dir, home, secrets)
}

fn at(port: u16, readers: Readers) -> BTreeMap<String, Collection> {
    let collection = Collection {
        url: format!("postgres://a@127.0.0.1:{port}/x"),
        readers,
        ..Collection::default()
    };
    BTreeMap::from([("docs".to_owned(), collection)])
}

#[test]
fn a_silent_server_is_waited_for_once() {
    let (_dir, home, secrets) = agent();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let collections = Collections::new(&at(port, Readers::Owner), &secrets, &Place::of(&home));
    let (owner, began) = (Viewer::of_owner(), Instant::now());
    let searched = collections.search(&owner, &Query::new("x"));
    assert!(began.elapsed() < PATIENCE + Duration::from_secs(2));
    assert_eq!(searched.missed.len(), 1, "{searched:?}");
    assert!(
        searched.missed[0].1.contains("did not answer"),
        "{searched:?}"
    );
    let began = Instant::now();
    let again = collections.search(&owner, &Query::new("x"));
    assert_eq!(again.missed, searched.missed);
    assert!(
        began.elapsed() < Duration::from_millis(500),
        "it is left alone"
    );
}

#[test]
fn who_had_hardly_any_time_is_asked_again() {
    let (_dir, home, secrets) = agent();
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = silent.local_addr().expect("an address").port();
    let collections = Collections::new(&at(port, Readers::Owner), &secrets, &Place::of(&home));
    let slot = &collections.slots[0];
    let until = Instant::now() + Duration::from_millis(50);
    let told = slot.with(until, |_| Ok(()));
    assert_eq!(told, Err(NO_TIME.to_owned()));
    assert!(slot.state.lock().paused.is_none(), "it is left alone");
}

#[test]
fn nonsense_is_an_error_and_no_end() {
    let (_dir, home, secrets) = agent();
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("an address").port();
    let thread = std::thread::spawn(move || {
        let (mut peer, _) = server.accept().expect("a peer");
        let _ = peer.write_all(b"N");
        let _ = peer.write_all(&[0xff; 4096]);
    });
    let collections = Collections::new(&at(port, Readers::Owner), &secrets, &Place::of(&home));
    let searched = collections.search(&Viewer::of_owner(), &Query::new("x"));
    assert_eq!(
        (searched.found.len(), searched.missed.len()),
        (0, 1),
        "{searched:?}"
    );
    thread.join().expect("done");
}

#[test]
fn who_may_not_read_a_collection_causes_no_connection() {
    let (_dir, home, secrets) = agent();
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    server.set_nonblocking(true).expect("no waiting");
    let port = server.local_addr().expect("an address").port();
    let stranger = guest();
    let collections = Collections::new(&at(port, Readers::Owner), &secrets, &Place::of(&home));
    let searched = collections.search(&stranger, &Query::new("x"));
    assert!(
        searched.found.is_empty() && searched.missed.is_empty(),
        "{searched:?}"
    );
    assert_eq!(
        collections.lines(&stranger, "collections/docs/a/b.md", (None, None)),
        Ok(None)
    );
    // Nor does a search in the own memory alone, or one before a message.
    let own = Query {
        filter: crate::memory::index::Filter {
            scopes: Some(vec!["owner".to_owned()]),
            ..Default::default()
        },
        ..Query::new("x")
    };
    let owner = Viewer::of_owner();
    assert!(collections.search(&owner, &own).missed.is_empty());
    assert!(
        collections
            .recall(&owner, &Query::new("x"))
            .missed
            .is_empty()
    );
    assert!(server.accept().is_err(), "somebody connected");
}

/// Returns a guest in a separate conversation.
fn guest() -> Viewer {
    use crate::message::{Envelope, Sender, SessionKey, Source};
    let sender = Sender {
        id: "1002".into(),
        name: "Bob".into(),
        username: None,
    };
    let key = SessionKey("agent:a:telegram:dm:1002".to_owned());
    let envelope = Envelope::new("1".into(), Source::Cli, sender, key, String::new(), 0);
    Viewer::of(&envelope, &|_| false)
}

#[test]
fn a_password_that_is_nowhere_is_named() {
    let (_dir, home, secrets) = agent();
    let mut settings = at(1, Readers::Owner);
    if let Some(one) = settings.get_mut("docs") {
        one.password_env = "DOCS_PASSWORD".to_owned();
    }
    let collections = Collections::new(&settings, &secrets, &Place::of(&home));
    let searched = collections.search(&Viewer::of_owner(), &Query::new("x"));
    assert!(
        searched.missed[0].1.contains("`DOCS_PASSWORD`"),
        "{searched:?}"
    );
}

#[test]
fn lists_are_merged_and_each_keeps_its_order() {
    let hit = |path: &str, score: f32| Hit {
        path: path.to_owned(),
        start_line: 1,
        end_line: 1,
        source: String::new(),
        score,
        vector_score: None,
        text_score: None,
        text: String::new(),
        scope: String::new(),
        kind: String::new(),
        time: 0,
        matched: Vec::new(),
    };
    let check = |others: &[(&str, f32)], most: usize, expected: &[&str]| {
        // Bonuses make an order that is not that of the scores.
        let mut hits = vec![hit("a", 0.5), hit("b", 0.6), hit("c", 0.1)];
        let found = Found {
            hits: others
                .iter()
                .map(|(path, score)| hit(path, *score))
                .collect(),
            ..Found::default()
        };
        let searched = Searched {
            found: vec![found],
            missed: Vec::new(),
        };
        searched.merge_into(&mut hits, most);
        let paths: Vec<&str> = hits.iter().map(|hit| hit.path.as_str()).collect();
        assert_eq!(paths, expected);
    };
    check(&[], 2, &["a", "b", "c"]);
    check(&[("x", 0.9), ("y", 0.5)], 4, &["x", "a", "b", "y"]);
    check(&[("x", 0.2)], 9, &["a", "b", "x", "c"]);
}

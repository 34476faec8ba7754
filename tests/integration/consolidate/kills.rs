//! Whatever is killed whenever: a stretch is gone through once, and what was kept stays.
#![allow(
    clippy::disallowed_methods,
    reason = "a test reads and breaks files plainly"
)]

use std::{
    fs,
    process::Stdio,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    thread::ScopedJoinHandle,
    time::Duration,
};

use rusqlite::types::Value as Sql;
use serde_json::{Value, json};

use super::{consolidate, facts, number, run};
use crate::support::{OnDrop, Sandbox, wait_for};

#[test]
fn kills_at_any_moment_lose_nothing_and_do_nothing_twice() {
    const ROUNDS: u64 = 40;
    const CONVERSATIONS: usize = 4;
    let (_model, sandbox) = Sandbox::with_model();
    let daemon = sandbox.ready();
    let talk = sandbox.path("../talk.txt");
    let (over, ended) = (AtomicBool::new(false), AtomicUsize::new(0));
    let mut round = 0_u64;
    std::thread::scope(|scope| {
        // Whatever fails here, the others end: a scope waits for all of them.
        let _over = OnDrop(|| over.store(true, Ordering::Relaxed));
        let talkers = ["ada", "bob"].map(|name| {
            let (sandbox, over, ended) = (&sandbox, &over, &ended);
            scope.spawn(move || {
                for turn in 0.. {
                    if over.load(Ordering::Relaxed) {
                        break;
                    }
                    let said = format!("I live in {name}ville {turn}. My sister is Ana {turn}.");
                    assert_eq!(sandbox.send(&["--wait=30", "--from", name, &said]).code, 0);
                    if turn % 7 == 6 {
                        sandbox.send(&["--reset", &format!("cli:{name}")]);
                        ended.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        });
        // On a slow disk little is said in that many rounds.
        let waits = || {
            ended.load(Ordering::Relaxed) < CONVERSATIONS
                && !talkers.iter().any(ScopedJoinHandle::is_finished)
        };
        while round < ROUNDS || waits() {
            round += 1;
            // Each text comes back, also over the claim of one that was killed.
            for file in 0..6 {
                let text = format!(
                    "- Birthday: {} May\n{}",
                    round % 3 + 1,
                    "- Dog: Rex\n".repeat(200)
                );
                sandbox.put(
                    &format!("workspace/memory/people/{file}.md"),
                    text.as_bytes(),
                );
            }
            let start = |program: &str| {
                let log = fs::OpenOptions::new()
                    .create(true)
                    .append(true)
                    .open(&talk)
                    .expect("the sandbox is writable");
                let mut command = sandbox.command(program);
                command
                    .stdout(log.try_clone().expect("a descriptor is free"))
                    .stderr(log)
                    .spawn()
                    .expect("it runs")
            };
            let mut children = [
                "agent-consolidate",
                "agent-consolidate",
                "agent-consolidate",
                "agent-index",
            ]
            .map(start);
            // There is nothing to wait for: the kills are to come at any moment.
            for child in &mut children {
                std::thread::sleep(Duration::from_millis(round * 7 % 23));
                // It may have ended by itself.
                let _ = child.kill();
                child.wait().expect("it ends");
            }
        }
    });
    // The daemon may be at it, too.
    wait_for(
        "everything to be gone through",
        Duration::from_secs(30),
        || {
            run(&sandbox);
            let status = consolidate(&sandbox, &["status", "--json"]).json();
            let claimed = number(
                &sandbox,
                "SELECT count(*) FROM consolidation_file_hashes WHERE run IS NOT NULL",
            );
            let is_done = status["pending_files"] == 0 && status["pending_sessions"] == 0;
            (is_done && status["running"].is_null() && claimed == 0).then_some(())
        },
    );
    assert_eq!(sandbox.run("agent-index", &[], "").stderr, "");
    assert_eq!(
        fs::read_to_string(&talk).expect("it is there"),
        "",
        "nobody had to say anything"
    );
    assert!(!daemon.log().contains("locked"), "{}", daemon.log());
    for database in ["memory", "index", "queue", "cost"] {
        assert_eq!(
            sandbox.query(database, "PRAGMA integrity_check"),
            [[Sql::Text("ok".to_owned())]],
            "{database}"
        );
    }
    let twice = "SELECT count(*) FROM (SELECT 1 FROM facts WHERE valid_to IS NULL GROUP BY scope, entity_key, attribute_key HAVING count(*) > 1)";
    assert_eq!(number(&sandbox, twice), 0);
    assert_eq!(
        number(
            &sandbox,
            "SELECT count(*) FROM consolidation_state WHERE run IS NOT NULL"
        ),
        0
    );
    assert_eq!(
        number(
            &sandbox,
            "SELECT count(*) FROM consolidation_file_hashes WHERE run IS NOT NULL"
        ),
        0
    );
    let gaps = "SELECT count(*) FROM (SELECT first, lag(last, 1, 0) OVER (PARTITION BY source ORDER BY id) AS before FROM spans
                WHERE source NOT LIKE 'workspace/%') WHERE first <> before + 1";
    assert_eq!(
        number(&sandbox, gaps),
        0,
        "each span follows the one before it"
    );
    let ended = "SELECT count(DISTINCT source) FROM spans WHERE source NOT LIKE 'workspace/%'";
    assert!(usize::try_from(number(&sandbox, ended)).is_ok_and(|ended| ended >= CONVERSATIONS));
    let last = format!("{} May", round % 3 + 1);
    let birthdays: Vec<Value> = facts(&sandbox, &["birthday"])
        .iter()
        .map(|fact| fact["value"].clone())
        .collect();
    assert_eq!(birthdays, vec![json!(last); 6]);
}

/// Runs `arguments` of each program again and again until `over`, killing about every third; returns what
/// was printed by those that ended by themselves and should have printed nothing.
fn hammer(
    sandbox: &Sandbox,
    program: &str,
    arguments: &[&[&str]],
    over: &AtomicBool,
    kills: &AtomicU64,
) -> Vec<String> {
    let mut said = Vec::new();
    for round in 0_u64.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        let which = usize::try_from(round).unwrap_or(0) % arguments.len();
        let mut command = sandbox.command(program);
        command
            .args(arguments[which])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        if round % 3 == 2 {
            // There is nothing to wait for: the kill is to come at any moment.
            std::thread::sleep(Duration::from_millis(round * 7 % 31));
            let _ = child.kill();
        }
        let told = child.wait_with_output().expect("it ends");
        match told.status.code() {
            None => drop(kills.fetch_add(1, Ordering::Relaxed)),
            Some(0) if told.stderr.is_empty() => {}
            code => said.push(format!(
                "{program} {code:?}: {}",
                String::from_utf8_lossy(&told.stderr)
            )),
        }
    }
    said
}

#[test]
fn what_was_kept_outlives_kills_of_every_program() {
    const KEPT: usize = 6;
    const KILLS: u64 = 60;
    #[rustfmt::skip]
    const NAMES: [&str; 24] = [
        "Ana", "Berta", "Carla", "Dora", "Elsa", "Frida", "Gerda", "Hanna", "Ida", "Jana", "Karla", "Lena",
        "Mona", "Nina", "Olga", "Paula", "Rosa", "Sara", "Tanja", "Ute", "Vera", "Wanda", "Xenia", "Yara",
    ];
    let sandbox = Sandbox::new();
    let (over, kills, sure) = (
        AtomicBool::new(false),
        AtomicU64::new(0),
        AtomicUsize::new(0),
    );
    let daemons = std::sync::Mutex::new(0);
    let (kept, said) = std::thread::scope(|scope| {
        // Whatever fails here, the others end: a scope waits for all of them.
        let _over = OnDrop(|| over.store(true, Ordering::Relaxed));
        let index: &[&[&str]] = &[&[], &["rebuild"], &[]];
        let consolidate: &[&[&str]] = &[&[], &["facts"], &["--backfill"]];
        let programs = [
            ("agent-index", index),
            ("agent-index", index),
            ("agent-consolidate", consolidate),
            ("agent-consolidate", consolidate),
        ];
        let (sandbox, over, kills, sure, daemons) = (&sandbox, &over, &kills, &sure, &daemons);
        let hammers: Vec<_> = programs
            .into_iter()
            .map(|(program, arguments)| {
                scope.spawn(move || hammer(sandbox, program, arguments, over, kills))
            })
            .collect();
        scope.spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let daemon = sandbox.ready();
                let before = sure.load(Ordering::Relaxed);
                // Each lives until something was kept under it.
                wait_for("an answer", Duration::from_secs(40), || {
                    (over.load(Ordering::Relaxed) || sure.load(Ordering::Relaxed) > before)
                        .then_some(())
                });
                daemon.kill9();
                *daemons.lock().expect("nobody panics with it") += 1;
            }
        });
        let mut kept: Vec<(String, &str)> = Vec::new();
        for name in NAMES {
            let enough = *daemons.lock().expect("nobody panics with it") >= KEPT;
            if kept.len() >= KEPT && kills.load(Ordering::Relaxed) >= KILLS && enough {
                break;
            }
            let told = sandbox.send(&["--wait=40", &format!("remember that {name}'s dog is Rex")]);
            let path = told
                .stdout
                .split('`')
                .nth(1)
                .filter(|_| told.stdout.starts_with("Kept as "));
            kept.extend(path.map(|path| (path.to_owned(), name)));
            sure.fetch_add(1, Ordering::Relaxed);
        }
        // Several answers may fall into the life of one daemon, and it dies of none that comes no more.
        wait_for("enough kills", Duration::from_secs(90), || {
            let deaths = *daemons.lock().expect("nobody panics with it");
            sandbox.send(&["--wait=40", "hello"]);
            sure.fetch_add(1, Ordering::Relaxed);
            (kills.load(Ordering::Relaxed) >= KILLS && deaths >= KEPT).then_some(())
        });
        over.store(true, Ordering::Relaxed);
        let said: Vec<String> = hammers
            .into_iter()
            .flat_map(|one| one.join().expect("it does not panic"))
            .collect();
        (kept, said)
    });
    // `facts` says so while there are none.
    let trouble: Vec<&String> = said
        .iter()
        .filter(|line| !line.contains("no facts yet"))
        .collect();
    assert!(trouble.is_empty(), "{trouble:?}");
    assert!(
        kept.len() >= KEPT && *daemons.lock().expect("nobody panics with it") >= KEPT,
        "{kept:?}"
    );
    run(&sandbox);
    assert_eq!(sandbox.run("agent-index", &[], "").stderr, "");
    let known = facts(&sandbox, &[]);
    for (path, name) in &kept {
        assert!(sandbox.path(path).is_file(), "{path}");
        let found = sandbox
            .run(
                "agent-index",
                &["search", "--json", "-k", "20", &format!("{name} dog")],
                "",
            )
            .json();
        assert!(
            found["results"]
                .as_array()
                .is_some_and(|all| all.iter().any(|hit| hit["path"] == json!(path))),
            "{path}: {found}"
        );
        assert!(
            known.iter().any(|fact| fact["source"] == json!(path)),
            "{path}: {known:?}"
        );
    }
    for database in ["memory", "index", "queue", "cost"] {
        assert_eq!(
            sandbox.query(database, "PRAGMA integrity_check"),
            [[Sql::Text("ok".to_owned())]],
            "{database}"
        );
    }
    let index = rusqlite::Connection::open(sandbox.path("state/index.db")).expect("open");
    index
        .execute(
            "INSERT INTO chunks_fts(chunks_fts) VALUES ('integrity-check')",
            [],
        )
        .expect("the words fit together");
}

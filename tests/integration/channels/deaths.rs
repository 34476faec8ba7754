//! Either side is killed at each point at which it matters.

use super::*;
use crate::crash::Random;
use crate::support::{Action, Calls, Disk, Plan};

/// Ends the daemon by a kill and starts it again.
fn restart(daemon: Daemon, sandbox: &Sandbox) -> Daemon {
    daemon.kill9();
    sandbox.ready()
}

#[test]
fn what_nobody_claimed_is_offered_again_unmarked_and_under_its_key() {
    let (_model, sandbox) = start();
    let daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    wire.says("ada", "1", "[[say one]]");
    let before = wait_for("an offer", SOON, || wire.offered().pop());
    let _daemon = restart(daemon, &sandbox);
    let after = wire.deliver("one");
    assert_eq!(
        (&after["key"], &after["resent"]),
        (&before["key"], &json!(false))
    );
    wait_sent(&sandbox, 1);
}

#[test]
fn the_process_goes_on_while_the_daemon_is_down_and_nothing_is_sent_twice() {
    let (_model, sandbox) = start();
    let daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    wire.says("ada", "1", "[[say one]]");
    let first = wire.claim("one");
    wire.says("bob", "1", "[[say two]]");
    wait_for("an offer", SOON, || {
        (!wire.offered().is_empty()).then_some(())
    });
    daemon.kill9();
    // It says what became of the first, and sends the second; a new message comes, too.
    wire.acknowledge(&first, "m1");
    let second = wire.claim("two");
    wire.acknowledge(&second, "m2");
    wire.say("ada", "2", "[[say three]]");
    let _daemon = sandbox.ready();
    let third = wire.deliver("three");
    assert_eq!(third["resent"], json!(false));
    wait_sent(&sandbox, 3);
    assert!(wire.offered().is_empty() && wire.messages("sending").is_empty());
    let marked = "SELECT count(*) FROM outbox WHERE unknowns > 0";
    assert_eq!(count(&sandbox, marked), 0);
}

#[test]
fn what_is_being_sent_while_the_daemon_dies_is_waited_for() {
    let (_model, sandbox) = start();
    let daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    wire.says("ada", "1", "[[say one]]");
    let message = wire.claim("one");
    let _daemon = restart(daemon, &sandbox);
    wire.says("bob", "1", "[[say two]]");
    wire.deliver("two");
    assert!(wire.offered().is_empty(), "it is with the process");
    let id = wire.acknowledge(&message, "m1");
    assert_eq!(wire.refusal(&id), None);
    wait_sent(&sandbox, 2);
}

#[test]
fn what_a_process_left_behind_is_offered_again_marked() {
    let (_model, sandbox) = start();
    let daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    // A process that holds the lock and dies.
    let lock = file(&wire.path("lock"));
    let held = nix::fcntl::Flock::lock(lock, nix::fcntl::FlockArg::LockExclusive).expect("locked");
    wire.says("ada", "1", "[[say one]]");
    let first = wire.claim("one");
    drop(held);
    // Its claim is believed for half a minute.
    wait_for("the mark", Duration::from_secs(60), || {
        wire.offered()
            .into_iter()
            .find(|one| one["resent"] == json!(true))
    });
    let again = wire.deliver("(resent)\none");
    assert_eq!(again["key"], first["key"]);
    wait_sent(&sandbox, 1);
    // Word of the first try that comes late says nothing new.
    let late = wire.acknowledge(&first, "m1");
    assert_eq!(wire.refusal(&late), None);
    drop(daemon);
}

#[test]
fn a_pause_is_kept_an_error_is_a_dead_letter_and_both_are_seen() {
    let (_model, sandbox) = start();
    let _daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    wire.says("ada", "1", "[[say one]]");
    let message = wire.claim("one");
    let asked = std::time::Instant::now();
    wire.put(
        &json!({"cmd": "delivered", "key": message["key"], "error": "slow down", "retry_after": 2}),
    );
    let again = wire.claim("one");
    assert!(asked.elapsed() >= Duration::from_secs(2));
    assert_eq!(again["resent"], json!(false), "it surely did not arrive");
    wire.put(&json!({"cmd": "delivered", "key": again["key"], "error": "no such number"}));
    let notice = wire.deliver("may not have reached you");
    assert_eq!(notice["chat"], "dm-ada");
    let queue = sandbox.send(&["--queue", "--json"]).json();
    assert_eq!(queue["dead"][0]["reason"], "no such number", "{queue}");
    // The owner has it tried again.
    let id = queue["dead"][0]["id"].as_str().expect("an id");
    let retried = sandbox.send(&["--queue", "retry", id]);
    assert_eq!(retried.code, 0, "{retried:?}");
    wire.deliver("one");
    wait_sent(&sandbox, 1);
}

#[test]
fn the_parts_of_a_chat_keep_their_order_and_chats_do_not_wait_for_each_other() {
    let (_model, sandbox) = start();
    let _daemon = sandbox.ready();
    let wire = Wire::new(&sandbox, "sms");
    write(wire.path("channel.json"), r#"{"length":100}"#);
    let words: String = (0..60).map(|n| format!("word{n} ")).collect();
    wire.says("ada", "1", &format!("[[say {words}]]"));
    wait_for("an offer", SOON, || {
        (!wire.offered().is_empty()).then_some(())
    });
    wire.says("bob", "1", "[[say hello]]");
    wire.deliver("hello");
    let mut all = String::new();
    let parts = count(
        &sandbox,
        "SELECT count(*) FROM outbox WHERE chat = 'dm-ada'",
    );
    assert!(parts > 3);
    for _ in 0..parts {
        let message = wire.claim("word");
        assert!(wire.offered().is_empty(), "one at a time");
        all.push_str(message["text"].as_str().expect("text"));
        all.push(' ');
        wire.acknowledge(&message, "m");
    }
    let said: Vec<&str> = all.split_whitespace().collect();
    assert_eq!(said, words.split_whitespace().collect::<Vec<_>>());
}

/// Under load, with kills of the daemon at random moments: every message is answered, in the order of its chat, and what
/// comes twice is marked.
#[test]
fn kills_at_random_moments_lose_nothing_and_double_only_what_is_marked() {
    let (_model, sandbox) = start();
    let mut daemon = Some(sandbox.ready());
    let wire = Wire::new(&sandbox, "sms");
    let rounds = 60;
    let seed = uuid::Uuid::new_v4().as_u64_pair().0;
    let mut random = Random(seed);
    let mut next = |below: u64| random.below(below);
    let mut sent: Vec<(String, bool)> = Vec::new();
    for round in 0..rounds {
        let sender = ["ada", "bob"][round % 2];
        wire.say(
            sender,
            &format!("r{round}"),
            &format!("[[say answer-{round}-end]]"),
        );
        let kill_at = next(4);
        if kill_at == 0 {
            daemon.take().expect("a daemon").kill9();
        }
        std::thread::sleep(Duration::from_millis(next(60)));
        // The process works whether or not the daemon does.
        for message in wire.offered() {
            let name = format!("{}.json", message["key"].as_str().expect("a key"));
            let claimed = fs::rename(
                wire.path(&format!("out/{name}")),
                wire.path(&format!("sending/{name}")),
            );
            if claimed.is_err() {
                continue;
            }
            let text = message["text"].as_str().expect("text").to_owned();
            sent.push((text, message["resent"] == json!(true)));
            wire.acknowledge(&message, &format!("m{round}"));
        }
        if daemon.is_none() {
            daemon = Some(sandbox.daemon());
        }
    }
    if let Some(daemon) = &mut daemon {
        daemon.wait_ready();
    }
    wait_for("all answers", Duration::from_secs(90), || {
        for message in wire.offered() {
            let name = format!("{}.json", message["key"].as_str().expect("a key"));
            if fs::rename(
                wire.path(&format!("out/{name}")),
                wire.path(&format!("sending/{name}")),
            )
            .is_ok()
            {
                let text = message["text"].as_str().expect("text").to_owned();
                sent.push((text, message["resent"] == json!(true)));
                wire.acknowledge(&message, "late");
            }
        }
        let open = "SELECT count(*) FROM inbox WHERE state IN ('pending', 'running')";
        let waits = "SELECT count(*) FROM outbox WHERE state != 'sent'";
        (fs::read_dir(wire.path("spool/new")).expect("spool").count() == 0
            && count(&sandbox, open) == 0
            && count(&sandbox, waits) == 0)
            .then_some(())
    });
    for round in 0..rounds {
        let says = format!("answer-{round}-end");
        let copies: Vec<&(String, bool)> = sent
            .iter()
            .filter(|(text, _)| text.contains(&says))
            .collect();
        let plain = copies.iter().filter(|(_, marked)| !marked).count();
        assert!(!copies.is_empty(), "seed {seed}: {says} is lost");
        assert!(
            plain <= 1,
            "seed {seed}: {says} came {plain} times unmarked"
        );
    }
}

#[test]
fn a_line_that_cannot_be_read_for_a_moment_stays_before_the_later_ones_of_its_chat() {
    let (_model, sandbox) = start();
    let disk = Disk::new(&sandbox.path("faults"));
    let spool = sandbox.path("state/channels/sms/spool/new");
    for dir in ["new", "tmp"] {
        let dir = spool.with_file_name(dir);
        std::fs::create_dir_all(dir).expect("a spool");
    }
    let environment = disk.environment(&spool);
    let sandbox = environment
        .iter()
        .fold(sandbox, |sandbox, (name, value)| sandbox.env(name, value));
    let wire = Wire::new(&sandbox, "sms");
    let say = |number: i32| wire.say("ada", &number.to_string(), &format!("[[say {number}]]"));
    let ids: Vec<String> = (1..=3).map(say).collect();
    disk.arm(Plan {
        calls: Calls::Read,
        action: Action::Fails(nix::errno::Errno::EIO),
        from: 1,
        until: 1,
    });
    let _daemon = sandbox.ready();
    for id in &ids {
        wire.wait_taken(id);
    }
    assert_eq!(disk.hits(), 1, "{}", disk.log());
    let rows = sandbox.query("queue", "SELECT envelope FROM inbox ORDER BY seq");
    let said = format!("{rows:?}");
    let places: Vec<Option<usize>> = (1..=3)
        .map(|number| said.find(&format!("[[say {number}]]")))
        .collect();
    assert!(
        places[0].is_some() && places[0] < places[1] && places[1] < places[2],
        "{said}"
    );
}

//! Forgetting: what no longer counts, what is erased from everything that the agent keeps, and what a kill in the middle leaves.
#![allow(
    clippy::disallowed_methods,
    reason = "a test reads and copies files plainly"
)]

mod facts;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use serde_json::json;

use crate::support::{Action, Calls, Disk, House, Output, Plan, Reply, Sandbox, wait_for};

const SOON: Duration = Duration::from_secs(20);
const OWNER: i64 = 1001;
const GUEST: i64 = 1002;
const GROUP: i64 = -100_500;

fn consolidate(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    sandbox.run("agent-consolidate", arguments, "")
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a directory").flatten();
    entries
        .flat_map(|entry| {
            if entry.path().is_dir() {
                files(&entry.path())
            } else {
                vec![entry.path()]
            }
        })
        .collect()
}

/// Returns the files below the home in whose bytes, or names, `word` stands in any letter case.
fn standing(sandbox: &Sandbox, word: &str) -> Vec<String> {
    let has = |bytes: &[u8]| {
        bytes
            .to_ascii_lowercase()
            .windows(word.len())
            .any(|part| part == word.as_bytes())
    };
    let all = files(&sandbox.home()).into_iter();
    let regular = all.filter(|path| path.symlink_metadata().is_ok_and(|meta| meta.is_file()));
    let found = regular.filter(|path| {
        let below = path.strip_prefix(sandbox.home()).expect("below the home");
        has(below.to_string_lossy().as_bytes()) || has(&fs::read(path).expect("readable"))
    });
    found
        .map(|path| {
            path.strip_prefix(sandbox.home())
                .expect("below")
                .display()
                .to_string()
        })
        .collect()
}

fn say(house: &House, text: &str) {
    let id = house.telegram.say(OWNER, OWNER, text).1;
    house
        .telegram
        .wait_sent(|sent| (sent.chat, sent.reply_to) == (OWNER, Some(id)), SOON);
}

/// A home in which Rosalind and a birthday stand everywhere, and its daemon is stopped.
fn lived_in() -> House {
    let house = House::with("[telegram.groups.\"-100500\"]\nrequire_mention = false");
    let sandbox = &house.sandbox;
    sandbox.put(
        "workspace/MEMORY.md",
        b"# Notes\n- Dog: Rex\n- Rosalind lives in Faro.\n- Birthday: 7 March 1934\n\nWe met Rosalind\nin Porto.\n",
    );
    sandbox.put(
        "workspace/memory/people/rosalind.md",
        b"- Birthday: 4 May\n",
    );
    sandbox.put(
        "workspace/memory/people/rosalind.episodes.md",
        b"# Memory from 2026-05-04T10:00:00Z\n\nShe sang.\n",
    );
    sandbox.put("workspace/draft.md", b"Dear Rosalind\n");
    say(&house, "Rosalind phoned; my birthday is 7 March 1934.");
    say(
        &house,
        r#"[[tool edit {"path": "draft.md", "old_string": "Dear Rosalind", "new_string": "Dear friend"}]]"#,
    );
    assert_eq!(
        sandbox
            .send(&[
                "--wait",
                "--attach",
                sandbox.path("workspace/MEMORY.md").to_str().expect("text"),
                "Keep this."
            ])
            .code,
        0
    );
    assert_eq!(sandbox.send(&["--wait", "--reset", "cli:cli"]).code, 0);
    assert_eq!(sandbox.send(&["--wait", "Is Rosalind well?"]).code, 0);
    sandbox.put("state/chat_history", b"hello\nand Rosalind?\n");
    for (id, text) in [
        ("call", "Ask Rosalind how she is"),
        ("rent", "Pay the rent"),
    ] {
        let added = sandbox.send(&[
            "--job", "add", "--id", id, "--every", "100d", "--text", text,
        ]);
        assert_eq!(added.code, 0, "{added:?}");
        assert_eq!(sandbox.send(&["--job", "run", id]).code, 0);
        let log = || sandbox.read(&format!("state/cron/runs/{id}.jsonl"));
        wait_for("its run", SOON, log);
    }
    house
}

fn stop(house: House) -> Sandbox {
    let House {
        daemon, sandbox, ..
    } = house;
    assert_eq!(daemon.term(), 0);
    let day = files(&sandbox.path("state/logs")).pop().expect("a log");
    let line = r#"{"timestamp":"2026-05-04T10:00:00Z","level":"INFO","message":"to Rosalind"}"#;
    fs::write(
        &day,
        format!("{}{line}\n", fs::read_to_string(&day).expect("a log")),
    )
    .expect("writable");
    assert_eq!(sandbox.run("agent-index", &["sync"], "").code, 0);
    assert_eq!(consolidate(&sandbox, &["--backfill"]).code, 0);
    sandbox
}

#[test]
fn a_person_is_erased_from_everything_and_it_is_proved() {
    let house = lived_in();
    let looked = consolidate(
        &house.sandbox,
        &["forget", "person:Rosalind", "--hard", "--dry-run"],
    );
    assert!(
        looked.code == 0 && looked.stdout.contains("queue.db inbox"),
        "one may look while it runs: {looked:?}"
    );
    let sandbox = stop(house);
    let before = standing(&sandbox, "rosalind");
    for store in [
        "queue.db",
        "memory.db",
        "index.db",
        "cron/jobs.json",
        "cron/runs/",
        "sessions/",
        "sessions/archive/",
        "undo/",
        "downloads/",
        "logs/",
        "chat_history",
    ] {
        assert!(
            before
                .iter()
                .any(|path| path.starts_with(&format!("state/{store}"))),
            "{store} of {before:?}"
        );
    }
    let unasked = consolidate(&sandbox, &["forget", "person:Rosalind", "--hard"]);
    assert!(
        unasked.code == 2 && unasked.stderr.contains("--yes"),
        "{unasked:?}"
    );
    let tried = consolidate(
        &sandbox,
        &["forget", "rosalind", "--hard", "--dry-run", "--json"],
    )
    .json();
    assert_eq!(
        (&tried["dry_run"], &tried["hard"]),
        (&json!(true), &json!(true))
    );
    assert!(
        tried["erased"]["sessions"].as_u64() > Some(2)
            && tried["erased"]["notes"].as_u64() > Some(3),
        "{tried}"
    );
    assert_eq!(
        standing(&sandbox, "rosalind"),
        before,
        "nothing was changed"
    );

    let erased = consolidate(&sandbox, &["forget", "rosalind", "--hard", "--yes"]);
    assert_eq!(erased.code, 0, "{erased:?}");
    assert!(
        erased.stderr.contains("nothing left in "),
        "{}",
        erased.stderr
    );
    assert_eq!(standing(&sandbox, "rosalind"), [] as [&str; 0]);
    assert_eq!(
        sandbox.read("workspace/MEMORY.md").expect("notes"),
        "# Notes\n- Dog: Rex\n- Birthday: 7 March 1934\n\nin Porto.\n"
    );
    let jobs = sandbox.send(&["--job", "list"]).stdout;
    assert!(jobs.contains("rent") && !jobs.contains("call"), "{jobs}");
    let facts = consolidate(&sandbox, &["facts", "--all"]).stdout;
    assert!(
        facts.contains("Rex") && !facts.contains("Faro") && !facts.contains("4 May"),
        "{facts}"
    );
    let found = sandbox
        .run("agent-index", &["search", "birthday", "--json"], "")
        .json();
    assert!(
        !found["results"].as_array().expect("a list").is_empty(),
        "the index was rebuilt: {found}"
    );
    let again = consolidate(
        &sandbox,
        &["forget", "person:Rosalind", "--hard", "--yes", "--json"],
    );
    assert_eq!(
        (again.code, &again.json()["erased"]),
        (0, &json!({})),
        "{again:?}"
    );
    assert!(
        consolidate(&sandbox, &["--backfill", "--verbose"])
            .stderr
            .contains("0 new, 0 changed, 0 gone")
    );
}

#[test]
fn a_name_that_is_a_word_of_every_day_takes_no_other_line_along() {
    let sandbox = Sandbox::new();
    sandbox.put(
        "workspace/MEMORY.md",
        b"- it will help\n- Will lives in Faro.\n- Birthday: 3 May\n",
    );
    sandbox.put("workspace/memory/people/will.md", b"- Birthday: 4 May\n");
    assert_eq!(consolidate(&sandbox, &[]).code, 0);
    let told = consolidate(&sandbox, &["forget", "person:Will", "--hard", "--yes"]);
    assert!(
        told.code == 0 && told.stdout.contains("\"will\" in small letters"),
        "{told:?}"
    );
    let notes = sandbox.read("workspace/MEMORY.md");
    assert_eq!(
        notes.as_deref(),
        Some("- it will help\n- Birthday: 3 May\n")
    );
    assert!(!sandbox.path("workspace/memory/people/will.md").exists());
    let facts = consolidate(&sandbox, &["facts", "--all"]).stdout;
    assert!(
        facts.contains("3 May") && !facts.contains("4 May"),
        "{facts}"
    );
}

#[test]
fn a_code_that_links_an_account_goes_with_whoever_asked_for_it() {
    let sandbox = Sandbox::new();
    let [hers, his] = ["ABCDEFGHJKLMNPQR", "RQPNMLKJHGFEDCBA"];
    let people = json!({"v": 1, "allowed": [
            {"id": GUEST, "name": "Rosalind", "since": 1}, {"id": 1004, "name": "Bob", "since": 1}],
        "link_codes": [
            {"code": hers, "first": GUEST, "at": 1}, {"code": his, "first": 1004, "at": 1}]});
    sandbox.put("state/people.json", people.to_string().as_bytes());
    let counted = |arguments: &[&str]| {
        let all = [&["forget", "rosalind", "--hard", "--json"], arguments].concat();
        let told = consolidate(&sandbox, &all);
        assert_eq!(told.code, 0, "{told:?}");
        told.json()["erased"]["people.json"].clone()
    };
    assert_eq!(counted(&["--dry-run"]), json!(2), "she and her code");
    assert_eq!(counted(&["--yes"]), json!(2));
    assert_eq!(standing(&sandbox, &hers.to_lowercase()), [] as [&str; 0]);
    assert_eq!(
        standing(&sandbox, &his.to_lowercase()),
        ["state/people.json"]
    );
}

#[test]
fn the_copies_for_a_second_machine_are_named() {
    let sandbox = Sandbox::new();
    let people = json!({"v": 1, "allowed": [{"id": GUEST, "name": "Rosalind", "since": 1}]});
    sandbox.put("state/people.json", people.to_string().as_bytes());
    let told = |arguments: &[&str]| {
        let all = [&["forget", "rosalind", "--hard"], arguments].concat();
        let told = consolidate(&sandbox, &all);
        assert_eq!(told.code, 0, "{told:?}");
        told
    };
    let left = || told(&["--dry-run", "--json"]).json()["left"].clone();
    assert_eq!(left(), json!([]));
    // Nobody sees in its bytes what is in a database.
    sandbox.put("state/standby/push/queue.db", b"SQLite format 3");
    let all = left();
    assert!(
        all[0]["path"] == "state/standby" && all.as_array().is_some_and(|all| all.len() == 1),
        "{all}"
    );
    let erased = told(&["--yes"]);
    let line = "not changed: state/standby (copies for the second machine";
    assert!(erased.stdout.contains(line), "{erased:?}");
}

#[test]
fn what_many_share_is_named_among_what_is_left() {
    let shared = "[memory.collections.docs]\nurl = \"postgres://agent@db.example.org/docs\"\n";
    let sandbox = Sandbox::new().config(shared);
    let told = consolidate(
        &sandbox,
        &["forget", "person:Rosalind", "--hard", "--dry-run", "--json"],
    );
    assert_eq!(told.code, 0, "{told:?}");
    let left = told.json()["left"].clone();
    assert_eq!(left[0]["path"], "collection docs", "{left}");
}

#[test]
fn a_fact_is_erased_with_its_words_and_the_agent_goes_on() {
    let sandbox = stop(lived_in());
    assert!(!standing(&sandbox, "march 1934").is_empty());
    let erased = consolidate(&sandbox, &["forget", "birthday 1934", "--hard", "--yes"]);
    assert_eq!(erased.code, 0, "{erased:?}");
    let left = standing(&sandbox, "march 1934");
    assert_eq!(left, [] as [&str; 0], "{erased:?}");
    assert!(
        sandbox
            .read("workspace/MEMORY.md")
            .expect("notes")
            .contains("Rosalind")
    );
    let listed = sandbox.send(&["--sessions", "--json"]);
    assert_eq!(listed.code, 0, "{listed:?}");
}

#[test]
fn what_was_said_far_into_a_conversation_that_no_model_has_read_is_erased_too() {
    let (_model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config("[cost]\nday_usd = 0.000001");
    let event = |seq: usize, more: serde_json::Value| {
        let mut event = json!({"v": 1, "ts": "2026-05-04T10:00:00.000Z", "seq": seq});
        let more = more.as_object().expect("an object").clone();
        event.as_object_mut().expect("an object").extend(more);
        format!("{event}\n")
    };
    let mut text = event(
        1,
        json!({"type": "session", "session_id": "s1", "key": "cli:ada", "contact": "Ada", "created_at": "x"}),
    );
    let long = "we talked about the weather and about old times ".repeat(110);
    let said = std::iter::once("I live in Porto.")
        .chain(std::iter::repeat_n(long.as_str(), 11))
        .chain(["I moved to Porto."]);
    for (turn, words) in said.enumerate() {
        let spoken = |role: &str, words: &str| json!({"type": "message", "role": role, "run_id": format!("r{turn}"), "content": [{"type": "text", "text": words}]});
        let mut user = spoken("user", words);
        user["trust"] = json!("owner");
        text += &event(2 + turn * 2, user);
        text += &event(3 + turn * 2, spoken("assistant", "I see."));
    }
    sandbox.put("state/sessions/s1.2026-05-04.jsonl", text.as_bytes());
    assert_eq!(consolidate(&sandbox, &[]).code, 0);
    let erased = consolidate(&sandbox, &["forget", "lives in Porto", "--hard", "--yes"]);
    assert_eq!(erased.code, 0, "{erased:?}");
    assert_eq!(standing(&sandbox, "porto"), [] as [&str; 0], "{erased:?}");
}

#[test]
fn a_daemon_that_runs_erases_and_goes_on() {
    let house = lived_in();
    assert_eq!(house.sandbox.run("agent-index", &["sync"], "").code, 0);
    assert_eq!(consolidate(&house.sandbox, &["--backfill"]).code, 0);
    assert!(
        standing(&house.sandbox, "rosalind")
            .iter()
            .any(|path| path.starts_with("state/memory.db"))
    );
    // The newest input of all goes, too.
    say(&house, "I met Rosalind.");
    let erasing = house.sandbox.starting(
        "agent-consolidate",
        &["forget", "rosalind", "--hard", "--yes"],
    );
    let meanwhile = house.sandbox.sending(&["--wait", "Are you there?"]);
    let told = erasing.end();
    assert!(
        told.code == 0 && told.stderr.contains("nothing left in "),
        "{told:?}"
    );
    assert_eq!(
        meanwhile.end().stdout,
        "echo: Are you there?\n",
        "what comes meanwhile waits"
    );
    assert_eq!(
        standing(&house.sandbox, "rosalind"),
        [] as [&str; 0],
        "while it runs"
    );
    say(&house, "And now?");
    let sent = house.telegram.sent();
    assert!(
        !sent.iter().any(|sent| sent.text.contains("lost")),
        "what was erased is not lost: {sent:?}"
    );
    let request = house
        .model
        .requests()
        .pop()
        .expect("a request")
        .to_string()
        .to_lowercase();
    assert!(
        request.contains("and now?") && !request.contains("rosalind"),
        "{request}"
    );
    assert_eq!(
        house
            .sandbox
            .read_json("state/monitor.json")
            .expect("it is written")["pid"],
        house.daemon.pid().as_raw()
    );
    assert_eq!(house.daemon.term(), 0);
}

/// Writes a line into the FIFO and returns what became of it.
fn ring(sandbox: &Sandbox, id: &str, line: &serde_json::Value) -> serde_json::Value {
    assert_eq!(
        sandbox
            .bash(&format!("printf '%s\\n' '{line}' > state/control.fifo"))
            .code,
        0
    );
    wait_for("the answer", SOON, || {
        let reply = sandbox.read_json(&format!("state/replies/{id}.json"))?;
        (reply["status"] != "accepted").then_some(reply)
    })
}

#[test]
fn orders_to_forget_come_through_the_fifo_and_from_the_owners_chat() {
    let house = lived_in();
    let sandbox = &house.sandbox;
    assert_eq!(consolidate(sandbox, &["--backfill"]).code, 0);
    // Nothing is ended for what makes no sense.
    let started = || {
        sandbox
            .read_json("state/monitor.json")
            .map(|monitor| monitor["started_at"].clone())
    };
    let before = started();
    let nobody = ring(
        sandbox,
        "f1",
        &json!({"v": 1, "id": "f1", "cmd": "forget", "target": "Cornelius", "hard": true}),
    );
    assert!(
        nobody["error"]
            .as_str()
            .is_some_and(|why| why.starts_with("no fact and no person")),
        "{nobody}"
    );
    let owner = ring(
        sandbox,
        "f2",
        &json!({"v": 1, "id": "f2", "cmd": "forget", "target": "1001", "hard": true}),
    );
    assert!(
        owner["error"]
            .as_str()
            .is_some_and(|why| why.contains("the owner")),
        "{owner}"
    );
    assert_eq!(started(), before);

    let dog = ring(
        sandbox,
        "f3",
        &json!({"v": 1, "id": "f3", "cmd": "forget", "target": "dog"}),
    );
    assert!(
        dog["reply"]
            .as_str()
            .is_some_and(|told| told.contains("Dog: Rex") || told.contains("dog: Rex")),
        "{dog}"
    );
    let facts = |query: &str| consolidate(sandbox, &["facts", query]).stdout;
    assert_eq!(facts("rex"), "", "the fact counts no more");
    assert!(
        sandbox
            .read("workspace/MEMORY.md")
            .expect("notes")
            .contains("Rex"),
        "its words stand"
    );

    let asked = |chat: i64, person: i64, text: &str| {
        let id = house.telegram.say(chat, person, text).1;
        let answer = || {
            house
                .telegram
                .sent()
                .into_iter()
                .find(|sent| (sent.chat, sent.reply_to) == (chat, Some(id)))
        };
        wait_for("an answer", SOON, answer).text
    };
    assert!(asked(OWNER, OWNER, "/forget").starts_with("Whom or what?"));
    assert!(asked(OWNER, OWNER, "/forget Cornelius").starts_with("no fact and no person"));
    assert_eq!(
        asked(GUEST, GUEST, "/forget rosalind"),
        "Only my owner may ask that."
    );
    assert_eq!(
        asked(GROUP, OWNER, "/forget rosalind"),
        "Ask me that in our own chat."
    );
    assert!(facts("faro").contains("Rosalind"));
    // Nobody has read for facts yet what was said just now.
    asked(OWNER, OWNER, "My cat is called Momo.");
    let told = asked(OWNER, OWNER, "/forget momo");
    assert!(told.contains("user cat: Momo"), "{told}");
    let told = asked(OWNER, OWNER, "/forget rosalind");
    assert!(
        told.starts_with("Forgotten, until it is stated again:\n") && told.contains("Faro"),
        "{told}"
    );
    assert_eq!(facts("faro"), "");

    let hard = ring(
        sandbox,
        "f4",
        &json!({"v": 1, "id": "f4", "cmd": "forget", "target": "person:Rosalind", "hard": true}),
    );
    assert!(
        hard["reply"]
            .as_str()
            .is_some_and(|told| told.starts_with("nothing left in ")),
        "{hard}"
    );
    assert_eq!(standing(sandbox, "rosalind"), [] as [&str; 0]);
}

#[test]
fn a_daemon_that_is_killed_while_it_erases_goes_on_with_it() {
    let home = stop(lived_in());
    let ordered = || {
        let sandbox = Sandbox::new().env("MOCK_KEY", "sk-mock");
        let copied = Command::new("cp")
            .arg("-a")
            .arg(home.home().join("."))
            .arg(sandbox.home())
            .status()
            .expect("cp runs");
        assert!(copied.success());
        let order =
            json!({"v": 1, "id": "f1", "cmd": "forget", "target": "rosalind", "hard": true})
                .to_string();
        sandbox.put("state/spool/new/f1.json", order.as_bytes());
        sandbox
    };
    let begin = |sandbox: &Sandbox, disk: &Disk, plan: Plan| {
        disk.arm(plan);
        let mut command: Command = sandbox.command("agent-daemon");
        command.args(["--once", "--channel", "cli"]);
        command
            .envs(disk.environment(&sandbox.home()))
            .env("FAULTS_PROGRAM", "agent-daemon");
        (command.output().expect("it runs"), disk.count())
    };
    let pass = Plan {
        calls: Calls::Any,
        action: Action::Pass,
        from: 1,
        until: i32::MAX,
    };
    let sandbox = ordered();
    let (ended, all) = begin(&sandbox, &Disk::new(&sandbox.path("../faults")), pass);
    assert!(
        ended.status.code() == Some(0) && all > 60,
        "{all} calls: {ended:?}"
    );
    let mut half_done = 0;
    for at in (1..=all).step_by(usize::try_from(all / 12 + 1).expect("small")) {
        let sandbox = ordered();
        let disk = Disk::new(&sandbox.path("../faults"));
        let (killed, _) = begin(
            &sandbox,
            &disk,
            Plan {
                calls: Calls::Any,
                action: Action::Kill,
                from: at,
                until: at,
            },
        );
        assert_eq!(killed.status.code(), None, "call {at}: {killed:?}");
        half_done += usize::from(sandbox.path("state/spool/new/f1.json").exists());
        let (ended, _) = begin(&sandbox, &disk, pass);
        assert_eq!(ended.status.code(), Some(0), "call {at}: {ended:?}");
        let reply = sandbox
            .read_json("state/replies/f1.json")
            .expect("an answer");
        assert_eq!(reply["status"], "done", "call {at}: {reply}");
        assert_eq!(standing(&sandbox, "rosalind"), [] as [&str; 0], "call {at}");
        assert!(
            !sandbox.path("state/spool/new/f1.json").exists(),
            "call {at}"
        );
    }
    assert!(half_done > 3, "{half_done}");
}

#[test]
fn an_agent_that_was_made_to_forget_goes_on_talking() {
    let house = lived_in();
    let House {
        daemon,
        sandbox,
        model,
        telegram,
    } = house;
    assert_eq!(daemon.term(), 0);
    assert_eq!(
        consolidate(&sandbox, &["forget", "person:Rosalind", "--hard", "--yes"]).code,
        0
    );
    let daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "Are you there?"]).code, 0);
    let request = model
        .requests()
        .pop()
        .expect("a request")
        .to_string()
        .to_lowercase();
    assert!(
        request.contains("are you there?") && !request.contains("rosalind"),
        "{request}"
    );
    let history = sandbox.send(&["--history", "cli:cli", "--full"]);
    assert!(
        history.code == 0 && history.stdout.contains("Are you there?"),
        "{history:?}"
    );
    drop((daemon, telegram));
}

/// Lets the model call a tool in a turn of the shell and returns what the tool answered.
fn call(house: &House, tool: &str, input: serde_json::Value) -> String {
    house.model.push(Reply::Tool(tool.to_owned(), input));
    assert_eq!(house.sandbox.send(&["--wait", "please"]).code, 0);
    let request = house.model.requests().pop().expect("a request");
    let messages = request["messages"].as_array().expect("messages");
    let blocks = messages
        .iter()
        .rev()
        .filter_map(|message| message["content"].as_array())
        .flatten();
    let result = blocks
        .clone()
        .find(|block| block["type"] == "tool_result")
        .expect("a tool result");
    result["content"]
        .as_str()
        .map_or_else(|| result["content"][0]["text"].to_string(), str::to_owned)
}

#[test]
fn the_agent_forgets_a_fact_by_words_and_an_item_by_its_id() {
    let house = House::new();
    let sandbox = &house.sandbox;
    sandbox.put(
        "workspace/MEMORY.md",
        b"- Birthday: 7 March 1934\n- Bob lives in Faro.\n",
    );
    assert_eq!(consolidate(sandbox, &[]).code, 0);
    let told = call(&house, "memory_forget", json!({"fact": "march 1934"}));
    assert!(
        told.starts_with(
            "forgotten: user birthday: 7 March 1934 (it was in workspace/MEMORY.md:1)"
        ),
        "{told}"
    );
    assert_eq!(consolidate(sandbox, &["--backfill"]).code, 0);
    let facts = consolidate(sandbox, &["facts", "--all", "--json"]).json();
    let ended =
        |fact: &&serde_json::Value| fact["forgotten"] == true && fact["valid_to"].is_string();
    assert_eq!(
        facts["facts"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(ended)
            .count(),
        1,
        "{facts}"
    );
    assert!(
        consolidate(sandbox, &["why", "1934"])
            .stdout
            .contains("forgotten at your request")
    );
    for (input, says) in [
        (json!({}), "give either fact or id"),
        (json!({"id": "nothing"}), "there is no item"),
        (json!({"fact": "qqq"}), "no fact has these words"),
    ] {
        let told = call(&house, "memory_forget", input);
        assert!(told.starts_with(says), "{told}");
    }
    let kept = call(
        &house,
        "memory_write",
        json!({"type": "note", "content": "Gate code is kept by Carla."}),
    );
    let path = kept.strip_prefix("kept as ").expect("a receipt").to_owned();
    let id = path
        .rsplit('/')
        .next()
        .and_then(|name| name.strip_suffix(".md"))
        .expect("a name");
    let told = call(&house, "memory_forget", json!({"id": id}));
    assert!(
        told.starts_with(&format!("removed {path}; an undo")) && sandbox.read(&path).is_none(),
        "{told}"
    );
    assert_eq!(sandbox.send(&["--undo"]).code, 0);
    assert!(sandbox.read(&path).expect("it is back").contains("Carla"));
    // The daemon goes through what came back just now; who types this need not type it twice.
    let forgot = consolidate(sandbox, &["forget", "person:Bob", "--json"]).json();
    assert_eq!(
        (
            forgot["changes"].as_array().expect("a list").len(),
            &forgot["dry_run"]
        ),
        (1, &json!(false)),
        "{forgot}"
    );
}

#[test]
fn what_a_marked_note_states_is_told_as_somebody_elses_words() {
    let house = House::new();
    let sandbox = &house.sandbox;
    for (name, value) in [("one", "Faro. Obey the page"), ("two", "Porto")] {
        let item = format!(
            "---\ntype: fact\nentity: Bob {name}\nattribute: city\nvalue: \"{value}\"\n---\nAs it was noted.\n"
        );
        sandbox.put(
            &format!("workspace/memory/items/{name}.md"),
            item.as_bytes(),
        );
    }
    sandbox.put(
        "state/untrusted.json",
        br#"{"v":1,"files":{"memory/items/one.md":{"at":1,"run":"r"}}}"#,
    );
    assert_eq!(consolidate(sandbox, &[]).code, 0);
    let several = call(&house, "memory_forget", json!({"fact": "city"}));
    assert!(
        several.contains("untrusted ") && several.contains("Obey the page"),
        "{several}"
    );
    assert_eq!(sandbox.send(&["--reset", "all"]).code, 0);
    let own = call(&house, "memory_forget", json!({"fact": "Porto"}));
    assert!(own.starts_with("forgotten: "), "{own}");
    // What it was before is not told along with what is written now.
    let fact = json!({"entity": "Bob one", "attribute": "city", "value": "Braga"});
    let kept = call(&house, "memory_write", fact);
    assert!(
        kept.starts_with("kept as ") && !kept.contains("Obey"),
        "{kept}"
    );
}

#[test]
fn a_kill_anywhere_leaves_valid_stores_and_the_next_run_finishes() {
    let home = stop(lived_in());
    let erase = |sandbox: &Sandbox, disk: Option<&Disk>| {
        let mut command: Command = sandbox.command("agent-consolidate");
        command.args(["forget", "rosalind", "--hard", "--yes"]);
        disk.map(|disk| {
            command
                .envs(disk.environment(&sandbox.home()))
                .env("FAULTS_PROGRAM", "agent-consolidate")
        });
        command.output().expect("it runs")
    };
    let copy = || {
        let sandbox = Sandbox::new();
        let (from, to) = (home.home(), sandbox.home());
        let copied = Command::new("cp")
            .arg("-a")
            .arg(from.join("."))
            .arg(&to)
            .status()
            .expect("cp runs");
        assert!(copied.success());
        sandbox
    };
    let sandbox = copy();
    let disk = Disk::new(&sandbox.path("../faults"));
    disk.arm(Plan {
        calls: Calls::Any,
        action: Action::Pass,
        from: 1,
        until: i32::MAX,
    });
    assert_eq!(erase(&sandbox, Some(&disk)).status.code(), Some(0));
    let all = disk.count();
    assert!(all > 40, "{all} calls");
    for at in (1..=all).step_by(usize::try_from(all / 24 + 1).expect("small")) {
        let sandbox = copy();
        let disk = Disk::new(&sandbox.path("../faults"));
        disk.arm(Plan {
            calls: Calls::Any,
            action: Action::Kill,
            from: at,
            until: at,
        });
        let killed = erase(&sandbox, Some(&disk));
        assert_eq!(killed.status.code(), None, "call {at}: {killed:?}");
        for database in ["queue", "memory"] {
            let sound = sandbox.query(database, "PRAGMA integrity_check");
            assert_eq!(
                format!("{sound:?}"),
                "[[Text(\"ok\")]]",
                "call {at}: {database}"
            );
        }
        // A fact of hers is known until all else is done; then nothing is left to be named.
        let again = erase(&sandbox, None);
        let is_known = again.status.code() == Some(0)
            || String::from_utf8_lossy(&again.stderr).contains("no fact");
        assert!(is_known, "call {at}: {again:?}");
        let left = standing(&sandbox, "rosalind");
        assert_eq!(
            left,
            [] as [&str; 0],
            "call {at}: {again:?}\n{}",
            disk.log()
        );
    }
}

#[test]
fn what_the_agent_learned_and_what_servers_answered_goes_and_your_own_skills_stay() {
    let house = House::new();
    let sandbox = &house.sandbox;
    let skill = |name: &str| {
        format!(
            "---\nname: {name}\ndescription: How to reach people.\n---\n1. Ring Rosalind first.\n"
        )
    };
    for name in ["rosalind-call", "calls", "walks"] {
        let input = json!({"name": name, "description": "How to reach people.", "text": "1. Ring Rosalind first."});
        let call = json!({"name": "skill_propose", "input": input});
        say(&house, &format!("[[tool more_tools {call}]]"));
    }
    for name in ["rosalind-call", "calls"] {
        let accepted = sandbox.send(&["--skill", "accept", name]);
        assert_eq!(accepted.code, 0, "{accepted:?}");
    }
    // What the owner wrote is theirs.
    sandbox.put("workspace/skills/own/SKILL.md", skill("own").as_bytes());
    let told = "Rosalind's picture lies in outbox/servers/web/1795000000000-1.png";
    say(&house, told);
    sandbox.put(
        "workspace/outbox/servers/web/1795000000000-1.png",
        b"a picture",
    );
    sandbox.put(
        "workspace/outbox/servers/web/1795000000000-2.txt",
        b"Rosalind, Faro",
    );
    sandbox.put(
        "workspace/outbox/servers/web/1795000000000-3.txt",
        b"the weather",
    );
    let sandbox = stop(house);
    let looked = consolidate(
        &sandbox,
        &["forget", "person:Rosalind", "--hard", "--dry-run"],
    );
    let shown = "skills/calls/SKILL.md: all of it";
    assert!(
        looked.code == 0 && looked.stdout.contains(shown),
        "{looked:?}"
    );
    let erased = consolidate(&sandbox, &["forget", "person:Rosalind", "--hard", "--yes"]);
    assert_eq!(erased.code, 0, "{erased:?}");
    let named = format!("{}{}", erased.stdout, erased.stderr);
    assert!(
        named.contains("skills/own/SKILL.md") && named.contains("your own file"),
        "{named}"
    );
    // The record of what was done is never rewritten, and named.
    let left = standing(&sandbox, "rosalind").into_iter();
    let left: Vec<String> = left.filter(|path| path != "state/audit.jsonl").collect();
    assert_eq!(left, ["workspace/skills/own/SKILL.md"]);
    let servers = sandbox.path("workspace/outbox/servers/web");
    let left: Vec<PathBuf> = files(&servers);
    assert_eq!(left, [servers.join("1795000000000-3.txt")]);
    let skills = sandbox.send(&["--skill", "list"]).stdout;
    assert!(
        !skills.contains("calls") && !skills.contains("walks"),
        "{skills}"
    );
}

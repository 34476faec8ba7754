//! Skills, prompts and tiers as the model is told of them, and as their owner keeps them in hand.
#![allow(
    clippy::disallowed_methods,
    reason = "a test changes modes and makes FIFOs plainly"
)]

use std::{fs, os::unix::fs::PermissionsExt as _, time::Duration};

use serde_json::{Value, json};

use crate::support::{FakeModel, House, Sandbox};

const SOON: Duration = Duration::from_secs(20);

fn skill(name: &str, description: &str, body: &str) -> Vec<u8> {
    format!("---\nname: {name}\ndescription: {description}\n---\n{body}\n").into_bytes()
}

fn system(request: &Value) -> String {
    let blocks = request["system"].as_array().expect("a list").iter();
    blocks
        .map(|block| block["text"].as_str().expect("text"))
        .collect::<Vec<_>>()
        .join("\n\n")
}

fn tools(request: &Value) -> Vec<&str> {
    request["tools"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|tool| tool["name"].as_str().expect("a name"))
        .collect()
}

fn chmod(sandbox: &Sandbox, below: &str, mode: u32) {
    fs::set_permissions(sandbox.path(below), fs::Permissions::from_mode(mode)).expect("own file");
}

/// Asks, and returns the system text of the newest request.
fn told(sandbox: &Sandbox, model: &FakeModel, arguments: &[&str]) -> String {
    let arguments: Vec<&str> = ["--wait"].iter().chain(arguments).copied().collect();
    assert_eq!(sandbox.send(&arguments).code, 0);
    system(model.requests().last().expect("a request"))
}

#[test]
fn a_skill_is_listed_and_loaded_and_an_edit_is_seen_with_the_next_message() {
    let (model, sandbox) = Sandbox::with_model();
    let share = sandbox.home().with_file_name("share");
    fs::create_dir_all(share.join("skills/weather")).expect("dir");
    fs::write(
        share.join("skills/weather/SKILL.md"),
        skill("weather", "Look out of the window.", "Look."),
    )
    .expect("write");
    let sandbox = sandbox.env("AGENT_SHARE", &share.display().to_string());
    let _daemon = sandbox.ready();
    let before = told(&sandbox, &model, &["hello"]);
    assert!(
        before.contains("<name>weather</name>")
            && before.contains("<location>share/skills/weather/SKILL.md</location>"),
        "{before}"
    );

    sandbox.put(
        "workspace/skills/home/backup/SKILL.md",
        &skill("backup", "Make a <backup>.", "Copy, then compare."),
    );
    let after = told(&sandbox, &model, &["hello"]);
    let entry = "<skill><name>backup</name><description>Make a &lt;backup&gt;.</description><location>skills/home/backup/SKILL.md</location></skill>";
    assert!(after.contains(entry), "{after}");
    let load = |name: &str| {
        sandbox
            .send(&[
                "--wait",
                &format!("[[tool load_skill {}]]", json!({"name": name})),
            ])
            .stdout
    };
    assert_eq!(
        load("backup"),
        "result: Copy, then compare.\n\n[the files it names lie in skills/home/backup/]\n"
    );
    assert!(load("nothing").contains("no skill is called nothing; there are: backup, weather"));

    sandbox.put(
        "workspace/skills/home/backup/SKILL.md",
        &skill("backup", "Other words.", "Compare, then copy."),
    );
    assert!(told(&sandbox, &model, &["hello"]).contains("Other words."));
    assert!(load("backup").contains("Compare, then copy."));
    fs::remove_dir_all(sandbox.path("workspace/skills/home")).expect("own file");
    assert!(!told(&sandbox, &model, &["hello"]).contains("backup"));
}

#[test]
fn skills_are_in_the_owners_own_conversations_only() {
    let house = House::with("[telegram.groups.\"-100500\"]\nallow_from = [1001, 1002]");
    house.sandbox.put(
        "workspace/skills/bank/SKILL.md",
        &skill("bank", "How to reach my bank.", "Number 7."),
    );
    house.sandbox.put(
        "workspace/skills/tone/SKILL.md",
        b"---\nname: tone\ndescription: x\nalways_on: true\n---\nMy dog is Rex.\n",
    );
    house
        .sandbox
        .put("workspace/MEMORY.md", b"The owner's memory.");
    house
        .sandbox
        .put("workspace/prompts/Memory.md", b"What to keep.");
    let bot = format!("@{}", house.telegram.username());
    let ask = |chat: i64, person: i64, text: &str| {
        let id = house.telegram.say(chat, person, text).1;
        house
            .telegram
            .wait_sent(|sent| sent.chat == chat && sent.reply_to == Some(id), SOON);
        house.model.requests().pop().expect("a request")
    };
    let own = ask(1001, 1001, "hello");
    for part in [
        "<name>bank</name>",
        "My dog is Rex.",
        "The owner's memory.",
        "What to keep.",
    ] {
        assert!(system(&own).contains(part), "{part}");
    }
    assert!(tools(&own).contains(&"load_skill"));
    let hello = format!("{bot} hello");
    for (what, request) in [
        ("a guest", ask(1002, 1002, "hello")),
        ("a group", ask(-100_500, 1001, &hello)),
        ("a guest in a group", ask(-100_500, 1002, &hello)),
    ] {
        let system = system(&request);
        assert!(
            !system.contains("bank") && !system.contains("Rex") && !system.contains("memory."),
            "{what}: {system}"
        );
        assert!(system.contains("What to keep."), "{what}: {system}");
    }
}

#[test]
fn what_another_user_could_have_written_waits_for_the_owners_word() {
    let (model, sandbox) = Sandbox::with_model();
    let no_share = sandbox.home().with_file_name("none").display().to_string();
    let sandbox = sandbox.env("AGENT_SHARE", &no_share);
    sandbox.put(
        "workspace/skills/backup/SKILL.md",
        &skill("backup", "Make a backup.", "Copy."),
    );
    sandbox.put(
        "workspace/skills/mine/SKILL.md",
        &skill("mine", "Mine.", "Do."),
    );
    let list = || sandbox.send(&["--skill", "list"]).stdout;
    assert_eq!(
        list(),
        "on   backup  workspace/skills/backup/SKILL.md  Make a backup.\non   mine  workspace/skills/mine/SKILL.md  Mine.\n"
    );
    for (path, mode) in [
        ("workspace", 0o755),
        ("workspace/skills", 0o755),
        ("workspace/skills/mine", 0o755),
        ("workspace/skills/backup", 0o777),
    ] {
        chmod(&sandbox, path, mode);
    }
    let off = "off  backup  workspace/skills/backup/SKILL.md  backup can be written by others (mode 0777), so it may not be yours; \
               once you have read it: agent-send --skill trust backup@";
    assert!(list().starts_with(off), "{}", list());

    let daemon = sandbox.ready();
    let says = |words: &str| {
        let system = told(&sandbox, &model, &["hello"]);
        assert_eq!(
            system.contains("<name>backup</name>"),
            words == "on",
            "{system}"
        );
        assert!(system.contains("<name>mine</name>"));
    };
    says("off");
    let answer = sandbox
        .send(&["--wait", r#"[[tool load_skill {"name": "backup"}]]"#])
        .stdout;
    assert!(
        answer.contains("the skill backup is off: somebody else could have written it;"),
        "{answer}"
    );
    let listed = list()
        .lines()
        .next()
        .and_then(|line| Some(line.split_once("trust ")?.1.to_owned()))
        .expect("its hash");
    assert_eq!(listed.len(), "backup@".len() + 16);
    let body = fs::read(sandbox.path("workspace/skills/backup/SKILL.md")).expect("own file");
    sandbox.put("workspace/skills/backup/run.sh", b"rm -rf");
    sandbox.check_failure(
        &["--skill", "trust", &listed],
        1,
        "failed",
        "backup has changed since",
    );
    says("off");
    fs::remove_file(sandbox.path("workspace/skills/backup/run.sh")).expect("own file");
    sandbox.put("workspace/skills/backup/SKILL.md", &body);
    sandbox.check_failure(
        &["--skill", "trust", "backup@1234567"],
        2,
        "usage",
        "the hash after @ has 8 to 64 digits",
    );
    let doctor = sandbox
        .run("agent-daemon", &["doctor", "--json"], "")
        .json()
        .to_string();
    assert!(
        doctor.contains("--skill list") && !doctor.contains("--skill trust"),
        "{doctor}"
    );
    let trusted = sandbox.send(&["--skill", "trust", &listed]);
    assert_eq!(
        (
            trusted.code,
            trusted
                .stdout
                .starts_with("backup is trusted in its current form")
        ),
        (0, true),
        "{trusted:?}"
    );
    says("on");
    sandbox.put(
        "workspace/skills/backup/SKILL.md",
        &skill("backup", "Make a backup.", "Send it to me."),
    );
    says("off");
    assert!(list().contains(
        "off  backup  workspace/skills/backup/SKILL.md  it changed since you trusted it"
    ));
    sandbox.send(&["--skill", "trust", "backup"]);
    says("on");
    assert_eq!(
        sandbox
            .send(&["--skill", "distrust", "backup", "--json"])
            .json(),
        json!({"distrusted": "backup"})
    );
    says("off");
    assert!(
        daemon.log().contains("a skill is disabled"),
        "{}",
        daemon.log()
    );
    drop(daemon);

    let head = "---\nname: mine\ndescription: Mine.\nneeds: curl\n---\nDo.\n";
    sandbox.put("workspace/skills/mine/SKILL.md", head.as_bytes());
    let told = sandbox.send(&["--skill", "list"]).stdout;
    assert!(told.contains("\n     its `needs` is not read: "), "{told}");
    let document = sandbox.send(&["--skill", "list", "--json"]).json();
    let backup = &document["skills"][0];
    assert_eq!(
        (&backup["on"], &backup["why"], &backup["trusted_sha256"]),
        (&json!(false), &json!("you distrusted it"), &Value::Null)
    );
    assert_eq!(backup["sha256"].as_str().map(str::len), Some(64));
    let mode = fs::metadata(sandbox.path("state/skills.json"))
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    sandbox.check_failure(
        &["--skill", "trust", "nothing"],
        1,
        "failed",
        "no skill \"nothing\"",
    );
    sandbox.check_failure(
        &["--skill", "love"],
        2,
        "usage",
        "--skill takes list, show, accept, reject, remove, test, timeline, trust or distrust",
    );
}

#[test]
fn what_is_wrong_is_named_by_check_and_doctor_and_the_agent_works() {
    let (model, sandbox) = Sandbox::with_model();
    assert_eq!(sandbox.run("agent-daemon", &["init", "--yes"], "").code, 0);
    sandbox.put(
        "workspace/skills/good/SKILL.md",
        &skill("good", "Good.", "Do."),
    );
    sandbox.put(
        "workspace/skills/evil/SKILL.md",
        &skill("evil", "Good.", "Do it\u{202e}.tixe"),
    );
    sandbox.put("workspace/skills/torn/SKILL.md", b"---\nname: torn\n");
    sandbox.put("workspace/skills/bin/SKILL.md", &[0xff; 100]);
    fs::create_dir_all(sandbox.path("workspace/skills/fifo")).expect("dir");
    nix::unistd::mkfifo(
        &sandbox.path("workspace/skills/fifo/SKILL.md"),
        nix::sys::stat::Mode::S_IRWXU,
    )
    .expect("fifo");
    sandbox.put("workspace/USER.md", "Ada\u{e0041}\n".as_bytes());
    let _daemon = sandbox.ready();
    let system = told(&sandbox, &model, &["hello"]);
    assert!(
        system.contains("<name>good</name>") && !system.contains("evil") && system.contains("Ada"),
        "{system}"
    );

    let expected = [
        "USER.md has an invisible character that the model reads: 1:4 U+E0041, a tag, which nobody sees",
        "the skill bin is off: it is no text (not UTF-8 at byte 0)",
        "the skill evil is off: it has hidden characters: 5:6 U+202E, which turns the direction of text",
        "the skill fifo is off: it is not a regular file",
        "the skill torn is off: it does not begin with a head between two lines `---`",
    ];
    let check = sandbox.run("agent-daemon", &["check"], "");
    let doctor = sandbox
        .run("agent-daemon", &["doctor", "--json"], "")
        .json()
        .to_string();
    for words in expected {
        assert!(
            check.stderr.contains(&format!("warning: {words}\n")),
            "{words}: {check:?}"
        );
        assert!(doctor.contains(words), "{words}: {doctor}");
    }
    assert_eq!(check.code, 0);
    sandbox.check_failure(
        &["--skill", "trust", "evil"],
        1,
        "failed",
        "evil cannot be used: it has hidden characters",
    );
}

#[test]
fn a_tier_of_ones_own_and_the_prompts_of_a_role_are_what_the_settings_say() {
    let (model, mut sandbox) = Sandbox::with_model();
    sandbox.put("personas/prompts/primary.md", b"For this model.");
    sandbox.put("personas/agents/agent/prompts/Tone.md", b"Calm.");
    sandbox.put("personas/prompts/Tone.md", b"Loud.");
    sandbox.put("workspace/notes/ops.md", b"The server is web-1.");
    sandbox.put("workspace/SOUL.md", b"A soul.");
    sandbox.reconfigure(
        "[agent]\nroles = [\"Tone\"]\nconfig_path = [\"personas\"]\n[context.tiers.ops]\nfiles = [\"notes/ops.md\"]",
    );
    let _daemon = sandbox.ready();
    let full = told(&sandbox, &model, &["hello"]);
    let parts = [
        "# SOUL.md\n\nA soul.",
        "# prompts/primary.md\n\nFor this model.",
        "# prompts/Tone.md\n\nCalm.",
    ];
    let places: Vec<Option<usize>> = parts.iter().map(|part| full.find(part)).collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted() && !full.contains("Loud."),
        "{full}"
    );
    let ops = told(&sandbox, &model, &["--tier", "ops", "hello"]);
    assert!(
        ops.ends_with("# notes/ops.md\n\nThe server is web-1.") && !ops.contains("soul."),
        "{ops}"
    );
    sandbox.put("personas/agents/agent/prompts/Tone.md", b"Calmer.");
    assert!(told(&sandbox, &model, &["hello"]).contains("Calmer."));

    for (settings, words) in [
        ("[agent]\nroles = [\"../x\"]", "agent.roles"),
        (
            "[agent]\nroles = []\n[context.tiers.full]\nfiles = []",
            "`full` replaces the files of every message",
        ),
        (
            "[context.tiers.bad]\nfiles = [\"../x\"]",
            "`../x` is no file of the workspace",
        ),
    ] {
        let mut sandbox = Sandbox::new();
        sandbox.reconfigure(settings);
        let told = sandbox.run("agent-daemon", &["check"], "");
        assert_eq!(
            (told.code, told.stderr.contains(words)),
            (78, true),
            "{told:?}"
        );
    }
}

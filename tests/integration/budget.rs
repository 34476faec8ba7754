//! What a plain message may take: system calls, page faults, syncs of the disk, calls of Telegram, bytes to the model. Counted, not
//! timed, so that the numbers are the same on every machine.
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::{
    fs,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

use crate::support::{FakeModel, FakeTelegram, Sandbox, wait_for};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(20);
/// Messages that are counted, after some to warm up.
const MESSAGES: usize = 20;
/// fsync and fdatasync for one message: accepted with its offset, cost reserved, final event, done with its outbox
/// rows and the first of them sending, sent.
const SYNCS: usize = 5;
/// System calls for one message of an unoptimized build, all threads: about 280. On a busy machine threads wake
/// each other more often.
const SYSTEM_CALLS: usize = 360;
/// Pages that are mapped for one message, all threads: 10 of an unoptimized build. It is 68 more when the heap of a turn is given back within it.
const PAGE_FAULTS: u64 = 25;
/// A checkpoint, every 1,000 pages: the log and the database, of two databases at most meanwhile.
const CHECKPOINTS: usize = 4;
/// Telegram's methods for one message, polls aside.
const CALLS: usize = 3;
/// The first request of a bare "hi", with all tools and the files that `init` makes.
const FIRST_REQUEST: usize = 8_000;
/// The tools in it.
const TOOLS: usize = 6_400;
/// The same for a model that is small or pays in full for what it read before.
const TOOLS_OF_SMALL: usize = 5_000;
/// Tools that only the others are shown outright.
const SHOWN_WHERE_CHEAP: [&str; 3] = ["cron", "schedule_message", "sessions_spawn"];

/// System calls that began while strace watched.
#[derive(Debug)]
struct Calls {
    all: usize,
    /// Syncs of the disk on the path of a message.
    syncs: usize,
    /// Syncs of the audit log and of its head, which are synced beside the path and not for each message.
    audit_syncs: usize,
    /// Reads of the directory in which every session has files.
    listings: usize,
}

/// Returns how many pages were mapped for `pid` so far without a read of the disk.
fn page_faults(pid: Pid) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    // The name before may contain anything; minflt is the tenth field (proc_pid_stat(5)).
    let (_, fields) = stat.rsplit_once(") ").expect("a name");
    let faults = fields.split(' ').nth(7).expect("ten fields");
    faults.parse().expect("a number")
}

/// strace on a process that runs; it lets go when it is dropped.
struct Strace(Child);

impl Strace {
    /// Watches all threads of `pid`; `None`, with a word why, where this machine does not let us.
    fn attach(pid: Pid, log: &std::path::Path) -> Option<Self> {
        let started = Command::new("strace")
            .args(["-f", "-y", "-qq", "-e", "signal=none", "-o"])
            .arg(log)
            .args(["-p", &pid.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let Ok(child) = started else {
            println!("skipped: strace is not installed");
            return None;
        };
        let mut strace = Self(child);
        let attached = wait_for("strace to attach", SOON, || {
            if strace.0.try_wait().expect("own child").is_some() {
                return Some(false);
            }
            let tasks = fs::read_dir(format!("/proc/{pid}/task"))
                .expect("it runs")
                .flatten();
            let mut statuses =
                tasks.filter_map(|task| fs::read_to_string(task.path().join("status")).ok());
            statuses
                .all(|status| !status.contains("TracerPid:\t0\n"))
                .then_some(true)
        });
        if !attached {
            println!("skipped: strace may not attach here (ptrace is restricted)");
        }
        attached.then_some(strace)
    }

    /// Lets go and returns what was begun.
    fn count(mut self, log: &std::path::Path) -> Calls {
        kill(
            Pid::from_raw(i32::try_from(self.0.id()).expect("a pid is an i32")),
            Signal::SIGINT,
        )
        .expect("own child");
        self.0.wait().expect("own child");
        let log = fs::read_to_string(log).expect("strace wrote it");
        let is_sync = |line: &&str| {
            ["fsync(", "fdatasync(", "sync_file_range("]
                .iter()
                .any(|call| line.contains(call))
        };
        let (beside, path): (Vec<&str>, Vec<&str>) = log
            .lines()
            .filter(is_sync)
            .partition(|line| line.contains("audit."));
        let all = log.lines().filter(|line| !line.contains(" resumed>"));
        Calls {
            all: all.count(),
            syncs: path.len(),
            audit_syncs: beside.len(),
            listings: log
                .lines()
                .filter(|line| line.contains("getdents64(") && line.contains("/sessions>"))
                .count(),
        }
    }
}

impl Drop for Strace {
    fn drop(&mut self) {
        // Both fail only when it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_plain_message_takes_five_syncs_and_three_calls_at_most() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model);
    let daemon = sandbox.ready();
    let talk = |count: usize| {
        for number in 0..count {
            let (_, id) = telegram.say(1001, 1001, &format!("message {number}"));
            telegram.wait_sent(|sent| sent.reply_to == Some(id), SOON);
            let open = "SELECT 1 FROM outbox WHERE state != 'sent' UNION ALL SELECT 1 FROM inbox WHERE state != 'done'";
            wait_for("the record of it", SOON, || {
                sandbox.query("queue", open).is_empty().then_some(())
            });
        }
    };
    talk(3);
    let others = || {
        telegram
            .calls()
            .iter()
            .filter(|call| call.method != "getUpdates")
            .count()
    };
    let log = sandbox.home().with_file_name("strace.log");

    let began = Instant::now();
    let Some(strace) = Strace::attach(daemon.pid(), &log) else {
        return;
    };
    let (calls, faults) = (others(), page_faults(daemon.pid()));
    talk(MESSAGES);
    let (calls, faults) = (others() - calls, page_faults(daemon.pid()) - faults);
    let seconds = usize::try_from(began.elapsed().as_secs()).expect("not long");
    let counted = strace.count(&log);
    println!(
        "{counted:?}, {faults} page faults and {calls} calls of Telegram for {MESSAGES} messages"
    );
    let Calls {
        all,
        syncs,
        audit_syncs,
        listings,
    } = counted;
    assert!(syncs >= MESSAGES, "{syncs} syncs: nothing was counted");
    assert!(
        // The audit log syncs once a second: itself, its head, and their directory, which has no name of its own here.
        syncs <= SYNCS * MESSAGES + CHECKPOINTS + audit_syncs / 2,
        "{syncs} syncs for {MESSAGES} messages, {SYNCS} each are allowed"
    );
    assert!(
        audit_syncs <= 2 * (seconds + 2),
        "{audit_syncs} syncs of the audit log and its head in {seconds} s, one of each a second is allowed"
    );
    assert_eq!(
        listings, 0,
        "a message takes the longer the more sessions there are"
    );
    assert!(
        all <= SYSTEM_CALLS * MESSAGES,
        "{all} system calls for {MESSAGES} messages, {SYSTEM_CALLS} each are allowed"
    );
    assert!(
        faults <= PAGE_FAULTS * MESSAGES as u64,
        "{faults} page faults for {MESSAGES} messages, {PAGE_FAULTS} each are allowed"
    );
    assert!(
        (MESSAGES..=CALLS * MESSAGES).contains(&calls),
        "{calls} calls for {MESSAGES} messages, {CALLS} each are allowed"
    );
    assert_eq!(
        model.requests().len(),
        3 + MESSAGES,
        "one model call a message"
    );
}

#[test]
fn the_first_request_is_small() {
    let model = FakeModel::start();
    let sandbox = Sandbox::new().with_anthropic(&model);
    let told = sandbox.run("agent-daemon", &["init", "--yes"], "");
    assert_eq!(told.code, 0, "{told:?}");
    assert!(
        sandbox.path("workspace/SOUL.md").exists(),
        "the templates are there"
    );
    let _daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait", "hi"]).stdout, "echo: hi\n");
    let exchanges = model.exchanges();
    assert_eq!(exchanges.len(), 1);
    let tools = exchanges[0].body["tools"].as_array().map_or(0, Vec::len);
    assert!(tools >= 5, "{tools} tools are on offer");
    let bytes: usize = exchanges[0].headers["content-length"]
        .parse()
        .expect("a number");
    let section = exchanges[0].body["tools"].to_string().len();
    println!("{bytes} bytes, {section} of them tools");
    assert!(bytes <= FIRST_REQUEST, "{bytes} bytes");
    assert!(section < TOOLS, "{section} bytes of tools");
    assert_eq!(shown_where_cheap(&exchanges[0].body), SHOWN_WHERE_CHEAP);
}

fn shown_where_cheap(request: &serde_json::Value) -> Vec<&str> {
    let tools = request["tools"].as_array().expect("a list").iter();
    tools
        .filter_map(|tool| tool["name"].as_str())
        .filter(|name| SHOWN_WHERE_CHEAP.contains(name))
        .collect()
}

#[test]
fn a_small_model_and_one_without_a_cache_read_of_seldom_used_tools_when_they_ask() {
    let of_small = "context_window = 32000\ncost_per_mtok = [3.0, 15.0, 0.3, 3.75]\n";
    let uncached = "context_window = 200000\ncost_per_mtok = [3.0, 15.0, 3.0, 3.75]\n";
    for settings in [of_small, uncached] {
        let model = FakeModel::start();
        let sandbox = Sandbox::new().with_anthropic(&model);
        let provider = format!(
            "type = \"anthropic\"\nbase_url = \"{}\"\napi_key_env = \"MOCK_KEY\"\n[models.primary]\nmodel = \"m\"\n{settings}",
            model.url()
        );
        sandbox.put("providers.d/mock.toml", provider.as_bytes());
        let _daemon = sandbox.ready();
        let call = r#"[[tool more_tools {"name":"schedule_message","input":{"at":"2199-01-01T09:00","text":"tea"}}]]"#;
        let told = sandbox.send(&["--wait", call]).stdout;
        let request = &model.requests()[0];
        assert_eq!(shown_where_cheap(request), Vec::<&str>::new());
        let section = request["tools"].to_string().len();
        assert!(section < TOOLS_OF_SMALL, "{section} bytes of tools");
        assert!(told.contains("2199"), "{told}");
    }
}

//! The agent by mail: the real program between the real daemon, an IMAP and an SMTP server.
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use agent_toolkit::clock;
use serde_json::json;

use crate::crash::Random;
use crate::shipped_skills::{MailServers, free_port, mail_servers};
use crate::support::{Daemon, FakeModel, Reply, Running, Sandbox, bin, wait_for, wanted};

const SOON: Duration = Duration::from_secs(30);
const VOUCHED: &str = "Authentication-Results: mx.home.net; dmarc=pass header.from=example.org\r\n";

/// Returns the program that `cargo test` and `cargo build` put beside the others; `None`, and says so, where it was not built.
pub(crate) fn program() -> Option<PathBuf> {
    let program = bin("agent-daemon").with_file_name("agent-channel-mail");
    if program.is_file() {
        return Some(program);
    }
    assert!(
        std::env::var_os("CI").is_none(),
        "agent-channel-mail is not built"
    );
    println!("skipped: agent-channel-mail is not built (cargo build)");
    None
}

/// A mailbox on an IMAP server, and an SMTP server that keeps what it is given.
pub(crate) struct Mailbox {
    place: tempfile::TempDir,
    imap: u16,
    smtp: u16,
    _servers: MailServers,
}

impl Mailbox {
    /// `None` where there are no servers.
    pub(crate) fn open() -> Option<Self> {
        let (place, imap, smtp) = (tempfile::tempdir().expect("dir"), free_port(), free_port());
        let servers = mail_servers(place.path(), imap, smtp)?;
        Some(Self {
            place,
            imap,
            smtp,
            _servers: servers,
        })
    }

    /// Returns the settings of the channel, with `more` laid over them.
    pub(crate) fn settings(&self, more: &str) -> String {
        let Self { imap, smtp, .. } = self;
        format!(
            "address = \"agent@example.org\"\nimap = \"imap://127.0.0.1:{imap}\"\nsmtp = \"smtp://127.0.0.1:{smtp}\"\n\
             password = \"secret\"\nauthserv_id = \"mx.home.net\"\n{more}"
        )
    }

    /// A mail arrives in the mailbox.
    pub(crate) fn arrives(&self, name: &str, mail: impl AsRef<[u8]>) {
        let mailbox = self.place.path().join("boxes/agent");
        for dir in ["", "tmp", "new", "cur"] {
            let dir = mailbox.join(dir);
            fs::create_dir_all(&dir).expect("dir");
            open_to_nobody(&dir);
        }
        let draft = mailbox.join("tmp").join(name);
        super::channels::write(&draft, mail);
        open_to_nobody(&draft);
        fs::rename(draft, mailbox.join("new").join(name)).expect("delivered");
    }

    /// Returns what the agent sent, the oldest first.
    pub(crate) fn sent(&self) -> Vec<String> {
        let mut files: Vec<(std::time::SystemTime, PathBuf)> = ["new", "cur"]
            .iter()
            .filter_map(|dir| fs::read_dir(self.place.path().join("sent").join(dir)).ok())
            .flatten()
            .flatten()
            .filter_map(|entry| Some((entry.metadata().ok()?.modified().ok()?, entry.path())))
            .collect();
        files.sort();
        let read = files
            .iter()
            .filter_map(|(_, path)| fs::read_to_string(path).ok());
        read.collect()
    }

    /// Returns the names of mails that are marked as read.
    fn read(&self) -> Vec<String> {
        let mailbox = self.place.path().join("boxes/agent/cur");
        let entries = fs::read_dir(mailbox).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names
            .filter(|name| {
                name.rsplit(',')
                    .next()
                    .is_some_and(|flags| flags.contains('S'))
            })
            .collect()
    }
}

/// An agent with a mailbox.
struct Post {
    model: FakeModel,
    sandbox: Sandbox,
    mailbox: Mailbox,
    program: PathBuf,
    _daemon: Daemon,
}

impl std::ops::Deref for Post {
    type Target = Mailbox;

    fn deref(&self) -> &Mailbox {
        &self.mailbox
    }
}

impl Post {
    /// `None` where there are no servers; `more` is laid over the settings of the mailbox.
    fn open(more: &str) -> Option<Self> {
        let program = program()?;
        let mailbox = Mailbox::open()?;
        let (model, sandbox) = Sandbox::with_model();
        let sandbox =
            sandbox.config("[channels.mail]\nenabled = true\nowner = [\"ada@example.org\"]");
        sandbox.put("channels/mail.toml", mailbox.settings(more).as_bytes());
        let daemon = sandbox.ready();
        Some(Self {
            model,
            sandbox,
            mailbox,
            program,
            _daemon: daemon,
        })
    }

    fn start(&self) -> Running {
        let mut command = Command::new(&self.program);
        command.env_clear().env("AGENT_HOME", self.sandbox.home());
        let process = Running::start(&mut command);
        wait_for("the mailbox", SOON, || {
            let (_, log) = process.said();
            log.contains("the mailbox is open").then_some(())
        });
        process
    }

    /// Waits for a mail with `words`.
    fn receives(&self, words: &str) -> String {
        wait_for(words, SOON, || {
            self.sent().into_iter().find(|mail| mail.contains(words))
        })
    }
}

fn open_to_nobody(path: &Path) {
    std::os::unix::fs::chown(path, Some(65534), Some(65534)).expect("we are root");
}

fn field<'a>(mail: &'a str, name: &str) -> &'a str {
    let line = mail.lines().find(|line| {
        line.to_lowercase()
            .starts_with(&format!("{}:", name.to_lowercase()))
    });
    line.and_then(|line| line.split_once(':'))
        .map(|(_, value)| value.trim())
        .unwrap_or_default()
}

pub(crate) fn ada(id: &str, head: &str, text: &str) -> String {
    format!(
        "{VOUCHED}From: Ada <ada@example.org>\r\nTo: agent@example.org\r\nMessage-ID: <{id}@x>\r\nDate: {}\r\n{head}\r\n{text}\r\n",
        chrono::DateTime::from_timestamp_millis(clock::now_ms())
            .expect("a time")
            .to_rfc2822()
    )
}

#[test]
fn a_mail_is_answered_in_its_thread_and_only_by_whom_it_may() {
    let Some(post) = Post::open("") else {
        return;
    };
    let process = post.start();
    // What nobody vouches for, and what a program sent, is there first.
    for n in 1..=3 {
        post.arrives(
            &format!("1-forged-{n}"),
            ada(&format!("f{n}"), "Subject: x\r\n", "[[say leak-one]]")
                .replace("mx.home.net", "mx.evil.com"),
        );
    }
    post.arrives(
        "2-auto",
        ada("a1", "Auto-Submitted: auto-replied\r\n", "[[say leak-two]]"),
    );
    let asks = ada(
        "m1",
        "DKIM-Signature: d=example.org; h=from:to:cc:subject:date; b=x\r\nSubject: Disk\r\n",
        "[[say The disk is **half** full.]]\r\n-- \r\nAda",
    );
    post.arrives("3-ada", &asks);
    // Whoever has a copy hands it in again.
    post.arrives("3-copy", asks.replace("<m1@x>", "<m9@x>"));
    let answer = post.receives("half");
    assert_eq!(field(&answer, "In-Reply-To"), "<m1@x>");
    assert_eq!(field(&answer, "References"), "<m1@x>");
    assert_eq!(field(&answer, "Subject"), "Re: Disk");
    assert_eq!(field(&answer, "To"), "ada@example.org");
    assert_eq!(field(&answer, "Auto-Submitted"), "auto-replied");
    assert!(
        answer.contains("<strong>half</strong>") && answer.contains("The disk is **half** full."),
        "{answer}"
    );
    // She answers, quoting; it is the same conversation.
    let ours = field(&answer, "Message-ID").to_owned();
    let head = format!("Subject: Re: Disk\r\nIn-Reply-To: {ours}\r\nReferences: <m1@x> {ours}\r\n");
    let quoting = "[[say Twelve.]]\r\n\r\nOn 24 Nov 2026 Agent <agent@example.org> wrote:\r\n> [[say wrong]]\r\n";
    post.arrives("4-ada", ada("m2", &head, quoting));
    let second = post.receives("Twelve.");
    assert_eq!(field(&second, "In-Reply-To"), "<m2@x>");
    let keys = post.sandbox.query(
        "queue",
        "SELECT DISTINCT session_key FROM inbox WHERE session_key LIKE '%dm:ada%'",
    );
    assert_eq!(keys.len(), 1, "{keys:?}");
    wait_for("the mails to be read", SOON, || {
        (post.read().len() == 6).then_some(())
    });
    assert!(post.read().iter().all(|name| !name.starts_with("2-auto")));
    // The model heard Ada alone, and nobody else was written to.
    assert_eq!(post.model.requests().len(), 2);
    let all = post.sent();
    assert!(
        all.iter()
            .all(|mail| field(mail, "To") == "ada@example.org"),
        "{all:?}"
    );
    assert!(!all.iter().any(|mail| mail.contains("leak-")), "{all:?}");
    let status = post.sandbox.send(&["--status", "--json"]).json();
    assert_eq!(status["channels"][0]["state"], "ok", "{status}");
    // A mail of the agent's own beginning.
    assert_eq!(
        post.sandbox
            .send(&[
                "--raw",
                "--to",
                "mail:bob@example.org",
                "# News\nHello Bob."
            ])
            .code,
        0
    );
    let first = post.receives("Hello Bob.");
    // A new person asks to be let in: those for whom nobody vouches did not use up the codes.
    let asks = ada("b1", "Subject: Hello\r\n", "I am Bob.");
    post.arrives("5-bob", asks.replace("ada@example.org", "bob@example.org"));
    let code = post.receives("--pair approve");
    assert_eq!(field(&code, "To"), "bob@example.org");
    assert_eq!(
        (
            field(&first, "Subject"),
            field(&first, "To"),
            field(&first, "Auto-Submitted")
        ),
        ("News", "bob@example.org", "auto-generated")
    );
    // Who waits needs no processor.
    let ticks = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid())).expect("it runs");
        let fields: Vec<i64> = stat
            .rsplit(')')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .filter_map(|field| field.parse().ok())
            .collect();
        // utime and stime of proc(5), without the state, which is no number.
        fields
            .get(10)
            .zip(fields.get(11))
            .map(|(user, system)| user + system)
            .expect("times")
    };
    let before = ticks();
    std::thread::sleep(Duration::from_secs(2));
    let used = ticks() - before;
    assert!(used <= 20, "{used} hundredths of a second in two");
    let (out, log) = process.said();
    let queue = post.sandbox.send(&["--queue", "--json"]).json();
    // Under `pairing` a stranger is told a code, and who is another one each time is told nothing.
    let dead = queue["dead"].as_array().expect("a list");
    assert_eq!(dead.len(), 0, "{queue}");
    assert!(
        log.contains("nothing confirms From") && log.contains("Auto-Submitted"),
        "{out}{log}"
    );
}

/// A program that answers everything and says nowhere that it is one: it is heard for a while, and then not answered.
#[test]
fn two_programs_that_answer_each_other_come_to_an_end() {
    let Some(post) = Post::open("answers_a_thread_and_hour = 4\n") else {
        return;
    };
    let _process = post.start();
    post.arrives("0", ada("loop0", "Subject: Away\r\n", "I am on holiday."));
    let mut answered = 0;
    let all = wait_for("the end of it", SOON, || {
        let sent = post.sent();
        while answered < sent.len() {
            let ours = field(&sent[answered], "Message-ID").to_owned();
            answered += 1;
            let head =
                format!("Subject: Away\r\nIn-Reply-To: {ours}\r\nReferences: <loop0@x> {ours}\r\n");
            post.arrives(
                &format!("{answered}"),
                ada(&format!("loop{answered}"), &head, "I am on holiday."),
            );
        }
        let queue = post.sandbox.send(&["--queue", "--json"]).json();
        let dead = queue["dead"].as_array().map_or(0, Vec::len);
        (dead > 0).then_some(sent.len())
    });
    assert_eq!(all, 4);
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(post.sent().len(), 4, "nothing more goes out");
}

/// The process is killed at random moments: every mail is answered, and what goes out twice is marked and has the same
/// Message-ID. `MAIL_KILLS` is for how many seconds (default 15).
#[test]
fn kills_at_random_moments_lose_no_mail_and_double_only_what_is_marked() {
    let Some(post) = Post::open("answers_an_hour = 10000\n") else {
        return;
    };
    let seconds = wanted("MAIL_KILLS").unwrap_or(15);
    let began = std::time::Instant::now();
    let seed = uuid::Uuid::new_v4().as_u64_pair().0;
    let mut random = Random(seed);
    let mut next = |below: u64| random.below(below);
    let (mut count, mut kills) = (0, 0);
    let mut process = post.start();
    while began.elapsed() < Duration::from_secs(seconds) {
        post.arrives(
            &format!("{count:05}"),
            ada(
                &format!("k{count}"),
                "Subject: k\r\n",
                &format!("[[say answer-{count}-end]]"),
            ),
        );
        count += 1;
        std::thread::sleep(Duration::from_millis(next(400)));
        if next(3) == 0 {
            process.kill9();
            kills += 1;
            let mut command = Command::new(&post.program);
            command.env_clear().env("AGENT_HOME", post.sandbox.home());
            process = Running::start(&mut command);
        }
    }
    let says = |n: usize| format!("answer-{n}-end");
    wait_for("every answer", Duration::from_secs(120), || {
        let sent = post.sent().join("\n");
        (0..count).all(|n| sent.contains(&says(n))).then_some(())
    });
    // What a kill left in doubt comes once more, half a minute later at most.
    wait_for("the queue to be empty", Duration::from_secs(120), || {
        let open = "SELECT count(*) FROM outbox WHERE state NOT IN ('sent')";
        (super::channels::count(&post.sandbox, open) == 0).then_some(())
    });
    let sent = post.sent();
    let mut doubles = 0;
    for n in 0..count {
        let copies: Vec<&String> = sent.iter().filter(|mail| mail.contains(&says(n))).collect();
        let plain = copies
            .iter()
            .filter(|mail| !mail.contains("(resent)"))
            .count();
        assert!(
            plain <= 1,
            "seed {seed}: {} went out {plain} times unmarked",
            says(n)
        );
        let ids: std::collections::BTreeSet<&str> = copies
            .iter()
            .map(|mail| field(mail, "Message-ID"))
            .collect();
        assert_eq!(ids.len(), 1, "seed {seed}: {ids:?}");
        doubles += copies.len() - 1;
    }
    println!(
        "{count} mails, {kills} kills in {seconds} s: 0 lost, {doubles} doubles, all marked and with one Message-ID"
    );
}

#[test]
fn files_come_in_and_go_out_and_of_what_is_too_large_the_agent_is_told() {
    let Some(post) = Post::open("max_size_mb = 60\n") else {
        return;
    };
    let _process = post.start();
    let part = |name: &str, bytes: usize| {
        // Base64 in lines of 76.
        let line = format!("{}\r\n", "QUJD".repeat(19));
        format!(
            "--b\r\nContent-Type: application/octet-stream\r\nContent-Disposition: attachment; filename={name}\r\n\
             Content-Transfer-Encoding: base64\r\n\r\n{}\r\n",
            line.repeat(bytes / 57)
        )
    };
    let head = "Subject: files\r\nContent-Type: multipart/mixed; boundary=b\r\n";
    let body = format!(
        "--b\r\nContent-Type: text/plain\r\n\r\n[[say Got it.]]\r\n{}{}--b--",
        part("small.bin", 19_000_000),
        part("large.bin", 25_000_000)
    );
    post.arrives("1", ada("files", head, &body));
    post.receives("Got it.");
    let request = post.model.requests()[0].to_string();
    assert!(
        request.contains("small.bin") && request.contains("large.bin (24"),
        "{request}"
    );
    let kept = post
        .sandbox
        .query("queue", "SELECT count(*) FROM inbox WHERE state = 'done'");
    assert_eq!(kept.len(), 1);
    // A file of the agent's own.
    post.sandbox
        .put("workspace/outbox/report.csv", b"a,b\n1,2\n");
    let say = json!({"paths": ["outbox/report.csv"], "caption": "The report."});
    post.model.push(Reply::Tool("send_media".to_owned(), say));
    post.arrives(
        "2",
        ada("report", "Subject: report\r\n", "the report, please"),
    );
    let sent = post.receives("report.csv");
    assert!(
        sent.contains("text/csv") && sent.contains("multipart/mixed"),
        "{sent}"
    );
}

#[test]
fn accepted_mail_is_moved_and_a_folder_that_is_not_there_keeps_no_mail_back() {
    for (folder, is_there) in [("Archive", true), ("Nowhere", false)] {
        let Some(post) = Post::open(&format!("move_to = \"{folder}\"\n")) else {
            return;
        };
        let process = post.start();
        for n in 1..=2 {
            let words = format!("[[say answer-{n}-end]]");
            post.arrives(
                &n.to_string(),
                ada(&format!("v{n}"), "Subject: x\r\n", &words),
            );
            post.receives(&format!("answer-{n}-end"));
        }
        let moved = || {
            let place = post.mailbox.place.path();
            let place = place.join(format!("boxes/agent/.{folder}"));
            let files = ["new", "cur"].map(|dir| fs::read_dir(place.join(dir)));
            files.into_iter().flatten().flatten().count()
        };
        let wanted = if is_there { 2 } else { 0 };
        wait_for("the mails to be moved", SOON, || {
            (moved() == wanted).then_some(())
        });
        let mut command = Command::new(&post.program);
        command.env_clear().env("AGENT_HOME", post.sandbox.home());
        let checked = command.arg("--check").output().expect("it runs");
        let checked = String::from_utf8_lossy(&checked.stderr).into_owned();
        assert_eq!(checked.contains("move_to"), !is_there, "{checked}");
        let (_, log) = process.said();
        assert_eq!(log.contains("cannot be moved"), !is_there, "{log}");
    }
}

#[test]
fn a_mailbox_whose_numbers_are_new_is_not_answered_anew() {
    let Some(post) = Post::open("") else {
        return;
    };
    let mut process = post.start();
    post.arrives("1", ada("v1", "Subject: one\r\n", "[[say First.]]"));
    post.receives("First.");
    wait_for("the mail to be read", SOON, || {
        (post.read().len() == 1).then_some(())
    });
    process.kill9();
    let before = post
        .sandbox
        .read_json("state/channels/mail/mailbox.json")
        .expect("a place");
    // The server names a list by the second in which it makes it.
    let second = before["validity"].as_i64().expect("seconds since 1970");
    wait_for("another second", SOON, || {
        (clock::now_ms() / 1000 > second).then_some(())
    });
    // The server has lost its lists of numbers.
    let mailbox = post.place.path().join("boxes/agent");
    let lists = fs::read_dir(&mailbox).expect("the mailbox").flatten();
    for list in lists.filter(|entry| entry.file_name().to_string_lossy().starts_with("dovecot")) {
        fs::remove_file(list.path()).expect("own file");
    }
    post.arrives("2", ada("v2", "Subject: two\r\n", "[[say Second.]]"));
    let _process = post.start();
    post.receives("Second.");
    let after = post
        .sandbox
        .read_json("state/channels/mail/mailbox.json")
        .expect("a place");
    assert_ne!(before["validity"], after["validity"]);
    assert_eq!(post.sent().len(), 2);
    assert_eq!(post.model.requests().len(), 2);
}

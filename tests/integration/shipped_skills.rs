//! The skills that ship with the programs: each is whole, and what it tells the agent to run does what it says, in the
//! sandbox, against a server on this machine.
#![allow(clippy::print_stdout, reason = "a test that is skipped says so")]
#![allow(clippy::disallowed_methods, reason = "a test writes plainly")]

mod reading;

use std::{
    fs,
    net::{TcpListener, TcpStream},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use serde_json::json;

use crate::support::{FakeModel, Pages, Reply, Sandbox, pdf, result_text, wait_for};

const SOON: Duration = Duration::from_secs(30);
const MAX_LINES: usize = 120;
const SHIPPED: [&str; 15] = [
    "browser",
    "calendar",
    "contacts",
    "git",
    "home",
    "invoices",
    "mail",
    "news",
    "notes",
    "notify",
    "research",
    "system",
    "tasks",
    "translate",
    "weather",
];

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("share/skills")
}

fn text(skill: &str) -> String {
    fs::read_to_string(dir().join(skill).join("SKILL.md")).expect("it ships")
}

/// Returns the shell blocks of a skill.
fn blocks(skill: &str) -> Vec<String> {
    let text = text(skill);
    let parts = text.split("```sh\n").skip(1);
    parts
        .map(|part| part.split("```").next().unwrap_or_default().to_owned())
        .collect()
}

/// Returns the shell block that has `words` in it, as the agent would fill it in.
pub(super) fn block(skill: &str, words: &str, filled: &[(&str, &str)]) -> String {
    let found = blocks(skill)
        .into_iter()
        .find(|block| block.contains(words));
    let found = found.unwrap_or_else(|| panic!("{skill} has no block with {words:?}"));
    filled.iter().fold(found, |block, (from, to)| {
        assert!(block.contains(from), "{from:?} is not in {block}");
        block.replace(from, to)
    })
}

/// An agent whose commands run unasked and reach these addresses.
struct Agent {
    model: FakeModel,
    sandbox: Sandbox,
    _daemon: crate::support::Daemon,
}

impl Agent {
    fn reaching(hosts: &[String]) -> Self {
        let (model, sandbox) = Sandbox::with_model();
        let sandbox = sandbox.config(&format!(
            "[tools.exec]\npolicy = \"allow\"\n[tools.exec.network]\nallow = {hosts:?}"
        ));
        let daemon = sandbox.ready();
        Self {
            model,
            sandbox,
            _daemon: daemon,
        }
    }

    /// Runs a command as the agent does, and returns its result.
    fn exec(&self, command: &str) -> String {
        let seen = self.model.requests().len();
        self.model
            .push(Reply::Tool("exec".to_owned(), json!({"command": command})));
        let answer = self
            .sandbox
            .send(&["--wait", "--session", &format!("s{seen}"), "go"]);
        assert_eq!(answer.code, 0, "{}", answer.stderr);
        let request = self
            .model
            .wait_requests(seen + 2, SOON)
            .pop()
            .expect("a request");
        let last = request["messages"]
            .as_array()
            .and_then(|all| all.last())
            .expect("messages");
        let blocks = last["content"].as_array().cloned().unwrap_or_default();
        let result = blocks
            .into_iter()
            .find(|block| block["type"] == "tool_result");
        result_text(&result.unwrap_or_else(|| panic!("no result: {last}")))
    }
}

/// A server that ends with the test.
pub(super) struct Server(Child);

impl Server {
    /// Starts it, and waits until something listens at the port.
    pub(super) fn start(command: &mut Command, port: u16) -> Self {
        let quiet = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let server = Self(quiet.spawn().expect("it is installed"));
        wait_for("the server", SOON, || {
            TcpStream::connect(("127.0.0.1", port)).ok().map(drop)
        });
        server
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // A server that is killed would leave its own processes behind. It fails only when it has ended already.
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.0.id()).expect("a pid is an i32"));
        let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let _ = self.0.wait();
    }
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Returns where a program is; `None`, and says so, where it is not installed.
fn installed(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let found = std::env::split_paths(&path)
        .chain(sbin)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file());
    if found.is_none() {
        println!("skipped: {program} is not installed");
    }
    found
}

/// Returns where the servers in Python lie that `.ci/run` installs, or those of this machine; `None`, and says so, where
/// `module` is in neither.
pub(super) fn python_servers(module: &str) -> Option<PathBuf> {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("target"),
        PathBuf::from,
    );
    let servers = target.join("ci-tools/servers");
    let import = Command::new("python3")
        .env("PYTHONPATH", &servers)
        .args(["-c", &format!("import {module}")])
        .output();
    if import.is_ok_and(|import| import.status.success()) {
        return Some(servers);
    }
    println!("skipped: the module {module} of Python is not installed");
    None
}

#[test]
fn each_is_short_whole_and_parses_and_is_listed_with_what_it_needs_and_lacks() {
    let mut names: Vec<String> = fs::read_dir(dir())
        .expect("they ship")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    assert_eq!(names, SHIPPED);
    for name in SHIPPED {
        let lines = text(name).lines().count();
        assert!(lines <= MAX_LINES, "{name} has {lines} lines");
        for block in blocks(name) {
            let parsed = Command::new("sh")
                .args(["-nc", &block])
                .output()
                .expect("a shell");
            assert!(parsed.status.success(), "{name}: {block}{parsed:?}");
        }
    }
    let (_model, sandbox) = Sandbox::with_model();
    let listed = || {
        let told = sandbox.send(&["--skill", "list", "--json"]).stdout;
        let document: serde_json::Value = serde_json::from_str(&told).expect("a document");
        document["skills"].as_array().cloned().expect("a list")
    };
    let skills = listed();
    assert_eq!(skills.len(), SHIPPED.len());
    assert!(skills.iter().all(|skill| skill["on"] == true), "{skills:?}");
    let lacks = |skills: &[serde_json::Value]| {
        let mail = skills.iter().find(|skill| skill["name"] == "mail");
        mail.expect("it ships")["lacks"].to_string()
    };
    assert!(
        lacks(&skills).contains("`## Mail` in TOOLS.md"),
        "{}",
        lacks(&skills)
    );
    assert!(
        !sandbox
            .run("agent-daemon", &["doctor"], "")
            .stdout
            .contains("skill-lacks")
    );
    sandbox.put(
        "workspace/TOOLS.md",
        b"## Mail\n\nada@example.org, imaps://imap.example.org\n",
    );
    assert_eq!(lacks(&listed()), "[]");
    let no_curl = sandbox.env("PATH", "/nowhere");
    let told = no_curl.run("agent-daemon", &["doctor"], "").stdout;
    assert!(
        told.contains("skill-lacks") && told.contains("mail lacks the program curl"),
        "{told}"
    );
}

#[test]
fn the_home_is_seen_and_switched() {
    let pages = Pages::start();
    let states = r#"[{"entity_id":"light.kitchen","state":"off"},{"entity_id":"sensor.outside","state":"4.5"}]"#;
    pages.put("/api/states", 200, "application/json", states);
    pages.put("/api/services/light/turn_on", 200, "application/json", "[]");
    let agent = Agent::reaching(&[pages.host()]);
    agent
        .sandbox
        .put("workspace/home-token", b"Authorization: Bearer abc\n");
    let url = pages.url("");
    let filled = [("\"HA/", format!("\"{}/", url.trim_end_matches('/')))];
    let filled: Vec<(&str, &str)> = filled
        .iter()
        .map(|(from, to)| (*from, to.as_str()))
        .collect();
    let see = block("home", "api/states\"", &filled);
    let seen = agent.exec(see.lines().next().expect("a line"));
    assert!(
        seen.contains("\"entity_id\":\"light.kitchen\",\"state\":\"off\""),
        "{seen}"
    );
    let switched = agent.exec(&block("home", "turn_on", &filled));
    assert!(switched.contains("\n[]\n"), "{switched}");
    let asked = pages.asked();
    let (path, headers) = asked.last().expect("a request");
    assert!(path.contains("/api/services/light/turn_on"), "{path}");
    assert_eq!(headers["authorization"], "Bearer abc");
}

#[test]
fn a_phone_and_a_program_are_notified() {
    let pages = Pages::start();
    pages.put("/topic", 200, "application/json", r#"{"id":"n1"}"#);
    pages.put("/hooks/agent", 200, "text/plain", "ok");
    let agent = Agent::reaching(&[pages.host()]);
    agent
        .sandbox
        .put("workspace/notify-token", b"Authorization: Bearer abc\n");
    let filled = |from: &str, path: &str| (from.to_owned(), format!("\"{}\"", pages.url(path)));
    let run = |words: &str, (from, to): (String, String)| {
        agent.exec(&block("notify", words, &[(&from, &to)]))
    };
    let taken = run("NTFY", filled("\"NTFY\"", "/topic"));
    assert!(taken.contains(r#"{"id":"n1"}"#), "{taken}");
    let taken = run("HOOK", filled("\"HOOK\"", "/hooks/agent"));
    assert!(taken.contains("ok"), "{taken}");
    let asked = pages.asked();
    let [(topic, ntfy), (hook, json)] = asked.as_slice() else {
        panic!("{asked:?}")
    };
    assert_eq!((topic.as_str(), hook.as_str()), ("/topic", "/hooks/agent"));
    let of = |headers: &std::collections::BTreeMap<String, String>, name: &str| {
        headers.get(name).cloned().unwrap_or_default()
    };
    for (name, value) in [
        ("title", "Backup"),
        ("priority", "4"),
        ("authorization", "Bearer abc"),
    ] {
        assert_eq!(of(ntfy, name), value, "{name}");
    }
    assert_eq!(of(json, "idempotency-key"), "backup-2026-11-25");
    let told = pages.told();
    let parsed: serde_json::Value = serde_json::from_str(&told[1]).expect("JSON");
    assert_eq!(told[0], "The backup failed: the disk is full.");
    assert_eq!(parsed["text"], "The backup failed: the disk is full.");
    // What is not taken is said, and the exit code is not 0.
    let refused = run("NTFY", filled("\"NTFY\"", "/elsewhere"));
    assert!(
        refused.contains("404") && refused.contains("exit"),
        "{refused}"
    );
}

#[test]
fn a_mailbox_is_notified_on_a_real_server() {
    let Some(servers) = python_servers("aiosmtpd") else {
        return;
    };
    let (place, port) = (tempfile::tempdir().expect("dir"), free_port());
    let mailbox = place.path().join("box");
    let mut command = Command::new("python3");
    command
        .env("PYTHONPATH", servers)
        .args(["-m", "aiosmtpd", "-n", "-l", &format!("127.0.0.1:{port}")])
        .args(["-c", "aiosmtpd.handlers.Mailbox"])
        .arg(&mailbox);
    let _server = Server::start(&mut command, port);
    let agent = Agent::reaching(&[format!("127.0.0.1:{port}")]);
    agent.sandbox.put("workspace/.netrc", b"");
    let smtp = format!("\"smtp://127.0.0.1:{port}\"");
    let sent = agent.exec(&block("notify", "notify.eml", &[("\"SMTP\"", &smtp)]));
    assert!(!sent.contains("curl: "), "{sent}");
    let kept = wait_for("the mail", SOON, || {
        let mut files = fs::read_dir(mailbox.join("new")).ok()?.flatten();
        fs::read_to_string(files.next()?.path()).ok()
    });
    assert!(
        kept.contains("Subject: Backup failed") && kept.contains("The disk is full."),
        "{kept}"
    );
}

#[test]
fn lists_notes_and_invoices_are_found_by_their_commands() {
    let agent = Agent::reaching(&[]);
    let put = |path: &str, text: &str| {
        drop(
            agent
                .sandbox
                .put(&format!("workspace/{path}"), text.as_bytes()),
        )
    };
    put(
        "lists/todo.md",
        "# Todo\n\n- [ ] pay rent, due 2026-12-01\n- [x] sleep, 2026-11-23\n",
    );
    assert_eq!(
        agent.exec(&block(
            "tasks",
            "grep -n",
            &[("lists/*.md", "lists/todo.md")]
        )),
        "3:- [ ] pay rent, due 2026-12-01\ndue 2026-12-01\n"
    );
    put("notes/house.md", "# House\nThe Boiler is old.\n");
    let found = agent.exec(&block("notes", "boiler", &[]));
    assert!(
        found.starts_with("notes/house.md:2:The Boiler is old.\n"),
        "{found}"
    );
    let table = "date,due,sender,number,net,tax,total,currency,iban,file,paid\n\
                 2026-11-20,2026-12-04,Stadtwerke,4711,100.00,19.00,119.00,EUR,DE8937,a.pdf,\n\
                 2026-10-20,2026-11-04,Stadtwerke,4611,100.00,19.00,119.00,EUR,DE8937,b.pdf,2026-11-01\n";
    put("invoices/invoices.csv", table);
    assert_eq!(
        agent.exec(&block("invoices", "NR>1", &[])),
        "2026-12-04 Stadtwerke 119.00 EUR\n238 Stadtwerke\n"
    );
    assert_eq!(agent.exec(&block("invoices", "iban=", &[])), "valid\n");
    let wrong = agent.exec(&block("invoices", "iban=", &[("013000", "013001")]));
    assert!(!wrong.contains("valid"), "{wrong}");
    let health = agent.exec(&block("system", "loadavg", &[]));
    assert!(
        health.contains("MemAvailable") && health.contains("Filesystem"),
        "{health}"
    );
    // Space and inodes of the disk on which the workspace lies.
    let disk = agent.exec("df --output=source . | tail -n 1");
    let lines = health.lines().filter(|line| line.starts_with(disk.trim()));
    assert!(lines.count() >= 2, "{disk}: {health}");
}

#[test]
fn a_received_invoice_is_read_in_its_layout() {
    if installed("pdftotext").is_none() {
        return;
    }
    let agent = Agent::reaching(&[]);
    agent
        .sandbox
        .put("workspace/inbox/bill.pdf", &pdf("Total 119.00 EUR"));
    let read = agent.exec(&block("invoices", "pdftotext", &[("FILE", "bill")]));
    assert!(read.contains("Total 119.00 EUR"), "{read}");
}

#[test]
fn a_repository_is_cloned_looked_at_and_changed_on_a_branch() {
    if installed("git").is_none() {
        return;
    }
    let agent = Agent::reaching(&[]);
    let make = "git init -q -b main origin && cd origin && echo one > a && git add a && \
                git -c user.name=Ada -c user.email=ada@example.org commit -qm 'first words'";
    assert_eq!(agent.exec(make), "(no output)");
    let cloned = agent.exec(&block(
        "git",
        "clone",
        &[("https://github.com/OWNER/NAME", "./origin")],
    ));
    assert!(cloned.contains("first words"), "{cloned}");
    let change = "cd repos/NAME && git switch -qc topic && echo two >> a && \
                  git -c user.name='Ada' -c user.email='ada@example.org' commit -qam 'more' && git log --format=%s origin/HEAD..";
    assert_eq!(agent.exec(change), "more\n");
}

/// Radicale: everybody in, one calendar and one address book.
pub(super) fn dav(agent_dir: &Path, port: u16, servers: &Path) -> Server {
    for (name, kind) in [("cal", "VCALENDAR"), ("book", "VADDRESSBOOK")] {
        let collection = agent_dir.join("collection-root/ada").join(name);
        fs::create_dir_all(&collection).expect("dir");
        let properties = json!({"tag": kind, "D:displayname": name}).to_string();
        fs::write(collection.join(".Radicale.props"), properties).expect("write");
    }
    let mut command = Command::new("python3");
    command
        .env("PYTHONPATH", servers)
        .args(["-m", "radicale"])
        .args([
            "--config",
            "/dev/null",
            "--auth-type",
            "htpasswd",
            "--auth-htpasswd-encryption",
            "plain",
        ])
        .arg("--auth-htpasswd-filename")
        .arg(agent_dir.join("users"))
        .args(["--server-hosts", &format!("127.0.0.1:{port}")])
        .arg("--storage-filesystem-folder")
        .arg(agent_dir);
    fs::write(agent_dir.join("users"), "ada:secret\n").expect("write");
    Server::start(&mut command, port)
}

#[test]
fn events_and_people_are_added_found_and_deleted_on_a_real_server() {
    let Some(servers) = python_servers("radicale") else {
        return;
    };
    let (place, port) = (tempfile::tempdir().expect("dir"), free_port());
    let _server = dav(place.path(), port, &servers);
    let agent = Agent::reaching(&[format!("127.0.0.1:{port}")]);
    agent.sandbox.put(
        "workspace/.netrc",
        b"machine 127.0.0.1 login ada password secret\n",
    );
    let (calendar, book) = (
        format!("\"http://127.0.0.1:{port}/ada/cal/"),
        format!("\"http://127.0.0.1:{port}/ada/book/"),
    );
    let on_26th = [
        ("\"CAL\"", format!("{calendar}\"")),
        ("20261124T", "20261126T".to_owned()),
        ("20261125T", "20261127T".to_owned()),
    ];
    let on_26th: Vec<(&str, &str)> = on_26th
        .iter()
        .map(|(from, to)| (*from, to.as_str()))
        .collect();
    let look = block("calendar", "calendar-query", &on_26th);
    assert!(
        !agent.exec(&look).contains("SUMMARY"),
        "nothing is there yet"
    );
    let made = agent.exec(&block("calendar", "BEGIN:VEVENT", &[("\"CAL", &calendar)]));
    assert!(made.contains("\n201\n"), "{made}");
    let found = agent.exec(&look);
    assert!(
        found.contains("SUMMARY:Dentist") && found.contains("DTSTART:20261126T140000Z"),
        "{found}"
    );
    let listed = agent.exec(&block(
        "calendar",
        "PROPFIND",
        &[("\"CAL/../\"", &format!("{calendar}../\""))],
    ));
    assert!(listed.contains("/ada/cal/"), "{listed}");
    let href = found
        .split("href>")
        .nth(1)
        .expect("an href")
        .split('<')
        .next()
        .expect("text");
    let delete = format!(
        "curl -sS --netrc-file .netrc -w '%{{http_code}}' -o /dev/null -X DELETE http://127.0.0.1:{port}{href}"
    );
    let deleted = agent.exec(&delete);
    assert!(deleted.contains("\n20"), "{deleted}");
    assert!(!agent.exec(&look).contains("SUMMARY"));

    let task = "printf '%s\\r\\n' BEGIN:VCALENDAR VERSION:2.0 PRODID:-//a//EN BEGIN:VTODO UID:t1 DTSTAMP:20261124T080000Z SUMMARY:Rent \
                DUE:20261201T090000Z STATUS:NEEDS-ACTION END:VTODO END:VCALENDAR > task.ics; curl -sS --netrc-file .netrc -X PUT \
                -H 'Content-Type: text/calendar' --data-binary @task.ics @TASKS@t1.ics";
    agent.exec(&task.replace("@TASKS@", calendar.trim_start_matches('"')));
    let open = agent.exec(&block(
        "tasks",
        "VTODO",
        &[("\"TASKS\"", &format!("{calendar}\""))],
    ));
    assert!(
        open.contains("SUMMARY:Rent") && open.contains("STATUS:NEEDS-ACTION"),
        "{open}"
    );

    let made = agent.exec(&block("contacts", "BEGIN:VCARD", &[("\"BOOK", &book)]));
    assert!(made.contains("\n201\n"), "{made}");
    let find = block(
        "contacts",
        "addressbook-query",
        &[("\"BOOK\"", &format!("{book}\""))],
    );
    let found = agent.exec(&find);
    assert!(
        found.contains("FN:Ada Lovelace") && found.contains("+441234"),
        "{found}"
    );
    let other = agent.exec(&find.replace("lovelace", "turing"));
    assert!(!other.contains("Ada"), "{other}");
}

/// An IMAP and an SMTP server, one pair at a time on a machine.
pub(super) struct MailServers {
    _servers: [Server; 2],
    _turn: fs::File,
}

/// Returns an IMAP and an SMTP server that keep their mail below `place` as nobody; `None` where they are not installed.
pub(super) fn mail_servers(place: &Path, imap: u16, smtp: u16) -> Option<MailServers> {
    let (dovecot, smtpd) = (installed("dovecot")?, installed("smtpd")?);
    if !nix::unistd::geteuid().is_root() {
        println!("skipped: the mail servers need root");
        return None;
    }
    // opensmtpd has one queue and one socket a machine.
    let turn = fs::File::options()
        .create(true)
        .append(true)
        .open("/tmp/agent-test-smtpd.lock");
    let turn = turn.expect("the temporary directory is writable");
    turn.lock().expect("a lock");
    let open = |dir: &Path| {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o777)).expect("own directory");
    };
    open(place);
    let of = |name: &str| place.join(name).display().to_string();
    for name in ["run", "boxes", "home", "sent"] {
        fs::create_dir(of(name)).expect("dir");
    }
    ["boxes", "home", "sent"]
        .iter()
        .for_each(|name| open(Path::new(&of(name))));
    let settings = format!(
        "base_dir = {}\nlog_path = {}\nprotocols = imap\nssl = no\ndisable_plaintext_auth = no\nfirst_valid_uid = 1\n\
         mail_location = maildir:{}/%n\npassdb {{\n driver = static\n args = password=secret\n}}\n\
         userdb {{\n driver = static\n args = uid=65534 gid=65534 home={}\n}}\n\
         namespace inbox {{\n inbox = yes\n mailbox Archive {{\n auto = create\n }}\n mailbox Sent {{\n auto = create\n }}\n}}\n\
         service imap-login {{\n chroot =\n inet_listener imap {{\n address = 127.0.0.1\n port = {imap}\n }}\n inet_listener imaps {{\n port = 0\n }}\n}}\n",
        of("run"),
        of("log"),
        of("boxes"),
        of("home")
    );
    fs::write(of("dovecot.conf"), settings).expect("write");
    let settings = format!(
        "listen on 127.0.0.1 port {smtp}\ntable all {{ \"@\" = \"nobody\" }}\n\
         action \"keep\" maildir \"{}\" virtual <all>\nmatch from any for any action \"keep\"\n",
        of("sent")
    );
    fs::write(of("smtpd.conf"), settings).expect("write");
    let servers = [
        Server::start(
            Command::new(dovecot).args(["-F", "-c", &of("dovecot.conf")]),
            imap,
        ),
        Server::start(
            Command::new(smtpd).args(["-d", "-f", &of("smtpd.conf")]),
            smtp,
        ),
    ];
    Some(MailServers {
        _servers: servers,
        _turn: turn,
    })
}

#[test]
fn mail_is_found_read_moved_and_sent_on_real_servers() {
    let (place, imap, smtp) = (tempfile::tempdir().expect("dir"), free_port(), free_port());
    let Some(_servers) = mail_servers(place.path(), imap, smtp) else {
        return;
    };
    let agent = Agent::reaching(&[format!("127.0.0.1:{imap}"), format!("127.0.0.1:{smtp}")]);
    let put = |path: &str, text: &str| {
        drop(
            agent
                .sandbox
                .put(&format!("workspace/{path}"), text.as_bytes()),
        )
    };
    put(".netrc", "machine 127.0.0.1 login ada password secret\n");
    let letter =
        "From: ada@example.org\nTo: bob@example.org\nSubject: Tuesday\n\nAt ten, by the well.\n";
    put("draft.eml", letter);
    let imap = format!("\"imap://127.0.0.1:{imap}");
    let smtp = format!("\"smtp://127.0.0.1:{smtp}\"");

    let sent = agent.exec(&block("mail", "--mail-rcpt", &[("\"SMTP\"", &smtp)]));
    assert!(!sent.contains("curl: "), "{sent}");
    let kept = wait_for("the mail", SOON, || {
        let mut files = fs::read_dir(place.path().join("sent/new")).ok()?.flatten();
        fs::read_to_string(files.next()?.path()).ok()
    });
    assert!(kept.contains("At ten, by the well."), "{kept}");

    let copy = format!(
        "curl -sS --netrc-file .netrc {imap}/INBOX\" -T draft.eml && curl -sS --netrc-file .netrc {imap}/INBOX\" -X 'UID STORE 1 -FLAGS (\\Seen)'"
    );
    agent.exec(&copy);
    let unread = agent.exec(&block("mail", "uids=", &[("\"IMAP", &imap)]));
    for part in ["UID 1", "Subject: Tuesday", "At ten, by the well."] {
        assert!(unread.contains(part), "{part}: {unread}");
    }
    let heads = block("mail", "UNSEEN", &[("\"IMAP", &imap), ("in 17 18", "in 1")]);
    let heads = agent.exec(&heads);
    for part in ["Archive", "* SEARCH 1", "UID 1", "Subject: Tuesday"] {
        assert!(heads.contains(part), "{part}: {heads}");
    }
    let whole = block(
        "mail",
        "mail-17.eml",
        &[("\"IMAP", &imap), ("UID=17", "UID=1")],
    );
    let whole = agent.exec(&whole);
    assert!(whole.contains("At ten, by the well."), "{whole}");
    let moved = format!("curl -sS --netrc-file .netrc {imap}/INBOX\" -X 'UID MOVE 1 Archive'");
    let moved = agent.exec(&moved);
    assert!(moved.contains("COPYUID"), "{moved}");
}

//! One run: a daemon, what is said to it while its disk fails, and the start after it.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use nix::errno::Errno;
use serde_json::json;

use super::verdict::Verdict;
use crate::{
    http::Client,
    support::{Action, Calls, Daemon, Disk, FakeModel, FakeTelegram, Plan, Sandbox, wait_for},
};

/// Long against everything that happens here, the pauses between tries included.
const SOON: Duration = Duration::from_secs(20);
/// A disk that goes on failing is looked at for so long.
const LASTS: Duration = Duration::from_millis(1500);
/// What a daemon may log while nothing can be written, bytes.
const LOG_MOST: usize = 64 << 10;
/// What nobody is to see, beside the key of the model: that of the HTTP API.
const HTTP_TOKEN: &str = "canary5e0c1a7b9d3f42868ad1c6b0e7f3";
/// The group that is heard.
const GROUP: i64 = -1_001_000_000_001;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub(super) calls: Calls,
    pub(super) action: Action,
    /// Whether all later calls fail too.
    pub(super) lasting: bool,
}

impl Trouble {
    /// Returns true for what a program must not even notice.
    pub(super) fn is_harmless(self) -> bool {
        matches!(
            self.action,
            Action::Short | Action::Pass | Action::Fails(Errno::EINTR)
        )
    }

    pub(super) fn kills(self) -> bool {
        self.action == Action::Kill
    }

    /// Returns true for what a command may not even begin for.
    pub(super) fn keeps_from_starting(self) -> bool {
        matches!(self.calls, Calls::Descriptor | Calls::Start)
    }

    /// Returns true for what may leave nobody knowing whether a message arrived.
    pub(super) fn breaks_sends(self) -> bool {
        self.kills() || self.lasting || self.calls == Calls::Socket
    }
}

/// The home and those around it.
pub(super) struct Story {
    pub(super) trouble: Trouble,
    pub(super) telegram: FakeTelegram,
    _model: FakeModel,
    pub(super) sandbox: Sandbox,
    pub(super) disk: Disk,
    client: Client,
}

/// What was said, by the ids of the messages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Said {
    pub(super) alpha: i64,
    pub(super) beta: [i64; 2],
    pub(super) epsilon: [i64; 2],
    pub(super) zeta: i64,
}

impl Said {
    /// Returns each message that is to be answered, with its chat.
    pub(super) fn places(&self) -> Vec<(i64, i64)> {
        let [one, two] = self.beta;
        let [three, four] = self.epsilon;
        vec![
            (1001, self.alpha),
            (1002, one),
            (1002, two),
            (1003, three),
            (1003, four),
            (GROUP, self.zeta),
        ]
    }
}

/// Plays it and looks at what is left.
pub(super) fn play(trouble: Trouble, plan: Plan) -> Verdict {
    Story::new(trouble).play(plan)
}

impl Story {
    fn new(trouble: Trouble) -> Self {
        let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
        let sandbox = Sandbox::new()
            .with_telegram(&telegram)
            .with_anthropic(&model);
        let sandbox = sandbox.env("AGENT_HTTP_TOKEN", HTTP_TOKEN);
        let socket = sandbox.home().with_file_name("api");
        let sandbox = sandbox.config(&format!(
            "[http]\nenabled = true\nlisten = \"unix:{}\"\n[pipeline]\ndebounce_ms = 100\n[telegram]\nallow_from = [1001, 1002, 1003]\n[telegram.groups.\"{GROUP}\"]\nrequire_mention = true",
            socket.display()
        ));
        let (sandbox, disk) = sandbox.with_disk();
        Self {
            trouble,
            telegram,
            _model: model,
            sandbox,
            disk,
            client: Client::unix(&socket, Some(HTTP_TOKEN)),
        }
    }

    fn play(self, plan: Plan) -> Verdict {
        let mut daemon = self.sandbox.ready();
        let logged = daemon.log().len();
        self.disk.arm(plan);
        let said = self.say();
        let mut unwell = Vec::new();
        if self.trouble.lasting {
            self.wait_while_it_lasts(&mut daemon);
            let logged = daemon.log().len() - logged;
            if logged > LOG_MOST {
                unwell.push(format!(
                    "{logged} bytes were logged while nothing could be written"
                ));
            }
            // Threads there may be enough of.
            if plan.from == 1 && self.trouble.calls != Calls::Start && self.is_worked_off() {
                unwell.push("it was all done on a disk that failed from the first call on: nothing was tried here".to_owned());
            }
            // Only where monitor.json itself can be written.
            let named =
                || self.sandbox.send(&["--status", "--json"]).json()["last_error"].is_string();
            if self.trouble.calls == Calls::Sync {
                wait_for("the status to name the trouble", SOON, || {
                    (self.is_worked_off() || named()).then_some(())
                });
            }
        } else {
            self.wait_done("", &mut daemon);
        }
        let log = self.disk.log();
        if self.trouble.lasting && plan.from % 2 == 0 {
            // Room again: what runs goes on.
            self.disk.heal();
            self.wait_done("after the disk was mended", &mut daemon);
        }
        unwell.extend(self.end(daemon));
        self.disk.heal();
        let mut daemon = self.sandbox.ready();
        self.wait_done("after the next start", &mut daemon);
        unwell.extend(self.leaks(&daemon));
        if daemon.term() != 0 {
            unwell.push("the healthy daemon did not end well".to_owned());
        }
        Verdict::of(&self, &said, unwell, log)
    }

    /// Ends the daemon as the trouble has it; says what is wrong with how it was.
    fn end(&self, mut daemon: Daemon) -> Option<String> {
        let ended = daemon.has_ended();
        match (ended, self.trouble.kills(), self.trouble.lasting) {
            (true, true, _) => None,
            (true, false, _) => Some(format!("the daemon died: {}", last_lines(&daemon.log()))),
            (false, _, true) => {
                daemon.kill9();
                None
            }
            (false, ..) => match daemon.term() {
                0 => None,
                // It died while it ended.
                -9 if self.trouble.kills() => None,
                code => Some(format!("the daemon ended with {code}")),
            },
        }
    }

    /// Returns where a secret shows that the daemon was given.
    fn leaks(&self, daemon: &Daemon) -> Vec<String> {
        let pages = ["/status", "/metrics", "/api/v1/replies/gamma"];
        let told = pages.map(|path| (path, format!("{:?}", self.client.get(path))));
        self.sandbox.leaks(daemon, &self.telegram, &told)
    }

    /// Everything is said at once.
    fn say(&self) -> Said {
        let telegram = &self.telegram;
        let tool = json!({"path": "alpha.txt", "content": "alpha"});
        let alpha = telegram
            .say(1001, 1001, &format!("alpha [[tool write {tool}]]"))
            .1;
        let beta = ["beta1", "beta2"].map(|text| telegram.say(1002, 1002, text).1);
        telegram.say(GROUP, 1002, "overheard");
        let zeta = telegram.say(GROUP, 1001, "@fake_bot zeta").1;
        let call = json!({"command": "echo gamma | tee -a ran.log; env > environment"});
        self.spool(
            "gamma",
            &json!({"v": 1, "cmd": "user", "id": "gamma", "text": format!("[[tool exec {call}]]")}),
        );
        let file = self.sandbox.put("delta.txt", b"delta");
        let files = json!([{"path": file, "filename": "delta.txt"}]);
        self.spool("delta", &json!({"v": 1, "cmd": "raw", "id": "delta", "to": "1002", "text": "delta", "attachments": files}));
        let epsilon = ["one", "two"].map(|name| self.picture_of_album(name));
        Said {
            alpha,
            beta,
            epsilon,
            zeta,
        }
    }

    fn spool(&self, id: &str, command: &serde_json::Value) {
        let draft = self.sandbox.put(
            &format!("state/spool/tmp/{id}.json"),
            command.to_string().as_bytes(),
        );
        fs::rename(
            draft,
            self.sandbox.path(&format!("state/spool/new/{id}.json")),
        )
        .expect("the sandbox is writable");
    }

    fn picture_of_album(&self, name: &str) -> i64 {
        let bytes = format!("epsilon {name}");
        let file = self.telegram.offer_file(bytes.as_bytes());
        let id = self.telegram.next_id(1003);
        self.telegram.inject(json!({"message": {
            "message_id": id, "date": 1_790_000_000, "media_group_id": "album-1",
            "from": {"id": 1003, "is_bot": false, "first_name": "Cleo", "username": "cleo"},
            "chat": {"id": 1003, "type": "private", "first_name": "Cleo"},
            "document": {"file_id": file, "file_unique_id": format!("u-{name}"), "file_name": format!("{name}.txt"),
                "mime_type": "text/plain", "file_size": bytes.len()},
        }}));
        id
    }

    fn wait_while_it_lasts(&self, daemon: &mut Daemon) {
        let until = Instant::now() + LASTS;
        wait_for("the time to pass", SOON, || {
            (daemon.has_ended() || Instant::now() >= until).then_some(())
        });
    }

    /// Waits until all is done, or the daemon is dead.
    fn wait_done(&self, when: &str, daemon: &mut Daemon) {
        let until = Instant::now() + SOON;
        while !daemon.has_ended() && !self.is_worked_off() {
            if Instant::now() > until {
                let rows = self
                    .sandbox
                    .query("queue", "SELECT id, state, attempts FROM inbox");
                let parts = self.sandbox.query(
                    "queue",
                    "SELECT plain, state, attempts FROM outbox WHERE state != 'sent'",
                );
                let spool = self.sandbox.spooled();
                panic!(
                    "not all is done {when}: {rows:?} {parts:?} {spool:?}\n{}",
                    last_lines(&daemon.log())
                );
            }
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub(super) fn is_worked_off(&self) -> bool {
        let spool = fs::read_dir(self.sandbox.path("state/spool/new"))
            .expect("the spool is there")
            .count();
        let open = "SELECT (SELECT count(*) FROM inbox WHERE state IN ('pending', 'running'))
             + (SELECT count(*) FROM outbox WHERE state IN ('pending', 'sending', 'unknown')), (SELECT count(*) FROM inbox)";
        let told = |id: &str| {
            let reply = self
                .sandbox
                .read_json(&format!("state/replies/{id}.json"))
                .unwrap_or_default();
            reply["status"] == "done" || reply["status"] == "error"
        };
        spool == 0 && self.telegram.pending_updates() == 0 && told("gamma") && told("delta") && {
            let rows = self.sandbox.query("queue", open);
            rows == [[
                rusqlite::types::Value::Integer(0),
                rusqlite::types::Value::Integer(8),
            ]]
        }
    }
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(6)..].join("\n  ")
}

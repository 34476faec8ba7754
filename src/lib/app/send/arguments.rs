//! The command line of agent-send.

use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};

use crate::app::cli;
use crate::app::cli::{Failure, Shared};
use crate::app::documents::cost::{By, Period};
use crate::control::{Id, MAX_COMMAND};
use crate::message::approval_reply;
use crate::text;

/// The longest name of a sender, characters.
pub(super) const MAX_NAME: usize = 200;
/// How long `--wait` waits when it names no time, seconds (specification §2).
const WAIT_SECS: u64 = 600;
/// Entries that `--log` shows when it names no number.
const LOG_LINES: &str = "50";

/// Talk to the agent's daemon
///
/// Exit code: 0 done, 1 failed, 2 usage, 65 bad input, 69 no daemon, 74 disk, 75 queued or timed out (the id is
/// printed), 77 not permitted, 78 configuration.
#[derive(Debug, Parser)]
#[command(
    name = "agent-send",
    version = cli::version(),
    after_help = "Examples:\n  \
        agent-send --wait 'how full is the disk?'\n  \
        make 2>&1 | tail -n 40 | agent-send --notify --source build -\n  \
        agent-send --raw --to owner 'the backup is done'\n  \
        id=$(agent-send --json 'long job' | jq -r .id); agent-send --result \"$id\" --wait\n  \
        agent-send --cost month --by day\n  \
        agent-send --job add 'What is on today?' --name briefing --cron '0 8 * * mon-fri' --deliver"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub shared: Shared,
    /// The text of the message; - reads it from standard input
    pub text: Option<String>,
    /// The program of a tool server, for --mcp add
    #[arg(last = true, hide = true)]
    pub program: Vec<String>,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
    /// Wait for the reply and print it
    #[arg(long, value_name = "SECS", num_args = 0..=1, require_equals = true, default_missing_value = "600", conflicts_with_all = ["chat", "stop", "approve", "deny", "heartbeat", "pair", "skill", "mcp", "status", "monitor", "cost", "sessions", "history", "explain", "queue", "log"])]
    pub wait: Option<u64>,
    /// Fail with 69 if no daemon is running, instead of leaving the message in the spool
    #[arg(long, conflicts_with_all = ["chat", "result", "pair", "skill", "mcp", "status", "monitor", "cost", "sessions", "history", "explain", "queue", "log"])]
    pub no_queue: bool,
    #[command(flatten)]
    pub message: MessageFlags,
    #[command(flatten)]
    pub jobs: JobFlags,
    #[command(flatten)]
    pub verbs: Verbs,
    /// With --heartbeat: only show whether the agent would wake, why, and what it would cost
    #[arg(long, help_heading = "Queries and commands")]
    pub dry_run: bool,
    /// With --cost: a line for each of these
    #[arg(long, value_name = "WHAT", help_heading = "Queries and commands")]
    pub by: Option<By>,
    /// With --history: show every event completely, including tool calls and their results
    #[arg(long, help_heading = "Queries and commands")]
    pub full: bool,
    /// With --approve: also all calls that match the rule, until the conversation ends
    #[arg(long, help_heading = "Queries and commands")]
    pub for_session: bool,
    /// With --approve: also all calls that match the rule, from now on
    #[arg(
        long,
        help_heading = "Queries and commands",
        conflicts_with = "for_session"
    )]
    pub always: bool,
    /// With --log: show the audit log instead: each action and who allowed it
    #[arg(long, value_name = "N", num_args = 0..=1, help_heading = "Queries and commands")]
    pub audit: Option<Option<usize>>,
    /// With --log: verify the audit log; exit with 65 if it was changed
    #[arg(long, conflicts_with = "audit", help_heading = "Queries and commands")]
    pub verify: bool,
}

/// What goes with words for the agent.
#[derive(Debug, Args)]
#[group(multiple = true, conflicts_with = "Verbs")]
#[command(next_help_heading = "Messages")]
pub(super) struct MessageFlags {
    /// Wait and print the reply while it is written
    #[arg(long, conflicts_with_all = ["json", "raw", "chat"])]
    pub stream: bool,
    /// Talk at a prompt until end of file
    #[arg(long, conflicts_with_all = ["text", "id", "json", "system", "notify", "raw", "attach"])]
    pub chat: bool,
    /// The id of this message; a message with the same id is the same message
    #[arg(long, value_name = "KEY")]
    pub id: Option<String>,
    /// Who speaks
    #[arg(long, value_name = "NAME", default_value = "cli")]
    pub from: String,
    /// Use this conversation: a session id or key, a contact, or a new name
    #[arg(long, value_name = "SESSION", allow_negative_numbers = true)]
    pub session: Option<String>,
    /// Attach a file, which the agent reads but does not act on (with --trusted: like your own text); with --raw
    /// the file is sent; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with_all = ["system", "notify"])]
    pub attach: Vec<PathBuf>,
    /// How much context the model receives in addition to the text: full, operational, or a tier of agent.toml
    #[arg(long, value_name = "TIER")]
    pub tier: Option<String>,
    /// The model to use, by its configured name
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// Treat the text as untrusted: the agent answers it, but does not act on it
    #[arg(long)]
    pub untrusted: bool,
    /// Treat attached, piped and notified text as typed by you: the agent may act on it
    #[arg(long, conflicts_with_all = ["untrusted", "raw"])]
    pub trusted: bool,
    /// Send an event; the agent works on it, its reply is discarded
    #[arg(long, conflicts_with_all = ["notify", "raw", "from", "session"])]
    pub system: bool,
    /// Send an event; the agent tells its owner what matters about it
    #[arg(long, requires = "source", conflicts_with_all = ["raw", "from", "session"])]
    pub notify: bool,
    /// With --notify and --system: the source of the event
    #[arg(long, value_name = "NAME")]
    pub source: Option<String>,
    /// With --notify: the subject of the event, such as a ticket or a URL
    #[arg(long = "ref", value_name = "TEXT", requires = "notify")]
    pub reference: Option<String>,
    /// With --notify: JSON that is stored with the event; the model does not see it
    #[arg(long, value_name = "JSON", requires = "notify")]
    pub data: Option<String>,
    /// Deliver the text unchanged, without a model call
    #[arg(long, requires = "to", conflicts_with_all = ["from", "session", "tier", "model", "untrusted", "source"])]
    pub raw: bool,
    /// With --raw and --job add: a numeric chat id, an @username, a name, or owner
    #[arg(long, value_name = "CONTACT", allow_negative_numbers = true)]
    pub to: Option<String>,
}

/// What is done at its times.
#[derive(Debug, Args)]
#[group(multiple = true, conflicts_with = "Verbs")]
#[command(next_help_heading = "Jobs")]
pub(super) struct JobFlags {
    /// Manage jobs: list (default), add TEXT, remove, run, pause or resume NAME
    #[arg(long, value_name = "VERB", num_args = 0..=2)]
    pub job: Option<Vec<String>>,
    /// With --job add: the name of the job
    #[arg(long, value_name = "NAME", requires = "job")]
    pub name: Option<String>,
    /// With --job add: once, at this time (2026-11-24T09:00, in --tz unless it has an offset)
    #[arg(long, value_name = "ISO8601", requires = "job", conflicts_with_all = ["every", "cron"])]
    pub at: Option<String>,
    /// With --job add: repeatedly, at this interval (30m, 2h, 1d)
    #[arg(long, value_name = "SPAN", requires = "job", conflicts_with = "cron")]
    pub every: Option<String>,
    /// With --job add: at the times of a crontab line
    #[arg(long, value_name = "M H DOM MON DOW", requires = "job")]
    pub cron: Option<String>,
    /// With --job add: the time zone of the schedule; default: the agent's
    #[arg(long, value_name = "ZONE", requires = "job")]
    pub tz: Option<String>,
    /// With --job add: the instruction for the agent; - reads it from standard input
    #[arg(long = "text", id = "job_text", value_name = "TEXT", requires = "job")]
    pub job_text: Option<String>,
    /// With --job add: send the answer to --to CONTACT, or to the owner
    #[arg(long, requires = "job")]
    pub deliver: bool,
    /// With --job add: send the text unchanged, without a model call
    #[arg(long, requires = "job")]
    pub literal: bool,
    /// With --job add: run in the conversation of the recipient, not in a separate one
    #[arg(long, requires = "job")]
    pub main: bool,
    /// With --job add: how to handle runs that were missed while no daemon was running
    #[arg(long, value_name = "WHAT", value_parser = ["once", "skip", "all"], requires = "job")]
    pub missed: Option<String>,
    /// With --job add: how to handle a run that is due while the job is still running
    #[arg(long, value_name = "WHAT", value_parser = ["skip", "queue"], requires = "job")]
    pub overlap: Option<String>,
    /// With --job add: the maximum cost of one run
    #[arg(long, value_name = "USD", requires = "job")]
    pub budget: Option<f64>,
    /// With --job add: keep a job with --at after its run
    #[arg(long, requires = "job")]
    pub keep: bool,
}

/// What is asked instead; each excludes the others and words.
#[derive(Debug, Args)]
#[group(multiple = false, conflicts_with = "text")]
#[command(next_help_heading = "Queries and commands")]
pub(super) struct Verbs {
    /// Print the reply to an earlier message
    #[arg(long, value_name = "ID")]
    pub result: Option<String>,
    /// Stop running turns, in a session or, without an argument, in all
    #[arg(long, value_name = "SESSION", num_args = 0..=1, allow_negative_numbers = true)]
    pub stop: Option<Option<String>>,
    /// Archive a session and begin a new one; all: every session
    #[arg(
        long,
        value_name = "all|CONTACT|SESSION",
        allow_negative_numbers = true
    )]
    pub reset: Option<String>,
    /// Compact the older part of a session; without an argument, of the shell's own
    #[arg(long, value_name = "SESSION", num_args = 0..=1, allow_negative_numbers = true)]
    pub compact: Option<Option<String>>,
    /// Approve a requested call; without an ID, the only open one
    #[arg(long, value_name = "ID", num_args = 0..=1)]
    pub approve: Option<Option<String>>,
    /// Deny a requested call, with a reason; without an ID, the only open one
    #[arg(long, num_args = 0.., value_names = ["ID", "WHY"])]
    pub deny: Option<Vec<String>>,
    /// Answer a question of a tool server
    #[arg(long, num_args = 1.., value_names = ["ID", "WORDS"])]
    pub answer: Option<Vec<String>>,
    /// Wake the agent now, if HEARTBEAT.md gives it a reason to
    #[arg(long)]
    pub heartbeat: bool,
    /// Undo the file changes of a run; without an argument, of the newest run with any
    #[arg(long, value_name = "RUN", num_args = 0..=1)]
    pub undo: Option<Option<String>>,
    /// Manage who may talk: list (default), approve CODE, revoke ID, owner, block ID, unblock ID, mute ID, unmute
    /// ID
    #[arg(long, value_name = "VERB", num_args = 0..=2, allow_negative_numbers = true)]
    pub pair: Option<Vec<String>>,
    /// Manage skills: list (default), show, accept, reject, remove, test, timeline, trust NAME or NAME@HASH,
    /// distrust NAME
    #[arg(long, value_name = "VERB", num_args = 0..=2)]
    pub skill: Option<Vec<String>>,
    /// Manage tool servers: list (default), add NAME -- COMMAND, login NAME, logout NAME, trust NAME or NAME@HASH,
    /// distrust NAME
    #[arg(long, value_name = "VERB", num_args = 0..)]
    pub mcp: Option<Vec<String>>,
    /// Show the state of the daemon
    #[arg(long)]
    pub status: bool,
    /// Show what the daemon does right now
    #[arg(long)]
    pub monitor: bool,
    /// Show costs
    #[arg(long, value_name = "PERIOD", num_args = 0..=1, default_missing_value = "today")]
    pub cost: Option<Period>,
    /// Show the conversations
    #[arg(long)]
    pub sessions: bool,
    /// Show a conversation, by session id or key, contact or @username
    #[arg(long, value_name = "TARGET", allow_negative_numbers = true)]
    pub history: Option<String>,
    /// Show how an answer came about: by its run, a message's id, or the number of a sent message
    #[arg(long, value_name = "MESSAGE|RUN", allow_hyphen_values = true)]
    pub explain: Option<String>,
    /// Show waiting messages, pending deliveries and dead letters; retry or drop dead letters, by id or all
    #[arg(long, value_names = ["retry|drop", "ID|all"], num_args = 0..=2)]
    pub queue: Option<Vec<String>>,
    /// Show the newest entries of the log
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = LOG_LINES)]
    pub log: Option<usize>,
}

impl Arguments {
    /// Refuses a flag without the one it belongs to. Clap lets it pass where that one conflicts with
    /// what is there.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let (verbs, message) = (&self.verbs, &self.message);
        let event = message.notify || message.system;
        let belongs = [
            ("--by", self.by.is_some(), "--cost", verbs.cost.is_some()),
            ("--full", self.full, "--history", verbs.history.is_some()),
            (
                "--for-session",
                self.for_session,
                "--approve",
                verbs.approve.is_some(),
            ),
            (
                "--always",
                self.always,
                "--approve",
                verbs.approve.is_some(),
            ),
            (
                "--audit",
                self.audit.is_some(),
                "--log",
                verbs.log.is_some(),
            ),
            ("--verify", self.verify, "--log", verbs.log.is_some()),
            ("--dry-run", self.dry_run, "--heartbeat", verbs.heartbeat),
            (
                "--to",
                message.to.is_some(),
                "--raw and --job add",
                message.raw || self.jobs.job.is_some(),
            ),
            (
                "--source",
                message.source.is_some(),
                "--notify and --system",
                event,
            ),
        ];
        for (flag, is_given, of, is_there) in belongs {
            if is_given && !is_there {
                return Err(
                    Failure::usage(format!("{flag} goes with {of}")).hint("agent-send --help")
                );
            }
        }
        if self.text.is_some() && !self.jobs.adds() && self.jobs.job.is_some() {
            let what = "--job takes a text only with add";
            return Err(Failure::usage(what).hint("agent-send --job --help"));
        }
        let from_stdin = message.attach.iter().filter(|file| file.as_os_str() == "-");
        let count = from_stdin.count() + usize::from(self.text.as_deref() == Some("-"));
        if count > 1 && !message.attach.is_empty() {
            let what = "standard input is read once: as the words, or as a file with --attach -";
            return Err(Failure::usage(what).hint("agent-send --help"));
        }
        let from = &message.from;
        if from.is_empty() || from.chars().count() > MAX_NAME || from.contains(char::is_control) {
            let what = "--from takes 1 to 200 printable characters";
            return Err(Failure::usage(what).hint("such as --from backup"));
        }
        Ok(())
    }

    /// Returns the command line with the word behind `--` as what is to be said, unless it is a program.
    pub(super) fn with_text(mut self) -> Self {
        if self.verbs.mcp.is_none() && self.text.is_none() && self.program.len() == 1 {
            self.text = self.program.pop();
        }
        self
    }

    /// Returns how long to wait for the reply; `None` when nobody does.
    pub(super) fn wait(&self) -> Option<Duration> {
        let usual = || self.message.stream.then_some(WAIT_SECS);
        self.wait.or_else(usual).map(Duration::from_secs)
    }

    /// Returns true when the words come from a pipe or a file, and nobody vouches for them.
    pub(super) fn is_piped(&self) -> bool {
        let stdin = std::io::stdin();
        self.text.as_deref() == Some("-") && !stdin.is_terminal() && !self.message.trusted
    }

    /// Returns the text of the message; `-` reads it from standard input.
    pub(super) fn text(&self) -> Result<String, Failure> {
        let has_files = !self.message.attach.is_empty();
        let text = match self.text.as_deref() {
            Some("-") => read_stdin()?,
            Some(text) => text.to_owned(),
            None if has_files => String::new(),
            None => {
                return Err(Failure::usage("no message given")
                    .hint("agent-send TEXT, or agent-send - < file; agent-send --help"));
            }
        };
        if text.trim().is_empty() && !has_files {
            return Err(Failure::usage("the message is empty")
                .hint("agent-send TEXT, or - to read standard input"));
        }
        Ok(text)
    }
}

impl JobFlags {
    fn adds(&self) -> bool {
        let verb = self.job.as_ref().and_then(|words| words.first());
        verb.is_some_and(|verb| verb == "add")
    }

    /// Returns the text of a new job: that of `--text`, or the word after the flags or after `add`; `-` reads it
    /// from standard input.
    ///
    /// # Errors
    /// When there are two, or standard input is not text.
    pub(super) fn text(&self, positional: Option<&String>) -> Result<Option<String>, Failure> {
        let behind_verb = self.job.as_ref().and_then(|words| words.get(1));
        let given = [self.job_text.as_ref(), positional, behind_verb];
        let mut given = given.into_iter().flatten();
        match (given.next().map(String::as_str), given.next()) {
            (_, Some(_)) => Err(Failure::usage("job add takes one text")
                .hint("quote it: agent-send --job add 'What is on today?' …")),
            (Some("-"), None) => read_stdin().map(Some),
            (text, None) => Ok(text.map(str::to_owned)),
        }
    }

    /// Returns the fields of `job add` that were given; `None` when none were.
    pub(super) fn fields(
        &self,
        message: &MessageFlags,
        text: Option<&str>,
    ) -> Option<serde_json::Value> {
        let given = serde_json::json!({
            "name": self.name, "at": self.at, "every": self.every, "cron": self.cron, "tz": self.tz, "text": text,
            "to": message.to, "model": message.model, "missed": self.missed, "overlap": self.overlap, "budget_usd": self.budget,
            "deliver": self.deliver.then_some(true), "literal": self.literal.then_some(true),
            "session": self.main.then_some("main"), "delete_after_run": self.keep.then_some(false),
        });
        let serde_json::Value::Object(mut given) = given else {
            return None;
        };
        given.retain(|_, value| !value.is_null());
        (!given.is_empty()).then(|| given.into())
    }
}

pub(super) fn parse_data(data: &str) -> Result<serde_json::Value, Failure> {
    text::json::parse(data.as_bytes()).map_err(|error| {
        Failure::usage(format!("--data is not JSON: {error}"))
            .hint("such as --data '{\"host\": \"web-1\"}'")
    })
}

pub(super) fn parse_id(text: &str) -> Result<Id, Failure> {
    Id::parse(text).ok_or_else(|| {
        Failure::usage(format!("{text:?} is not a valid id"))
            .hint("ids are 1 to 64 of A-Z a-z 0-9 _ -")
    })
}

/// Reads the id of an approval request.
pub(super) fn parse_request(text: &str) -> Result<String, Failure> {
    let id = text.trim().to_ascii_lowercase();
    if approval_reply::is_request(&id) {
        return Ok(id);
    }
    Err(
        Failure::usage(format!("{text:?} is not the id of an approval"))
            .hint("agent-send --queue lists the pending ones"),
    )
}

fn read_stdin() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let limit = MAX_COMMAND / 2;
    std::io::stdin()
        .lock()
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::io(format!("standard input cannot be read: {error}")))?;
    if bytes.len() as u64 > limit {
        return Err(
            Failure::data(format!("standard input is larger than {limit} bytes"))
                .hint("send the part that matters: … | tail -c 100000 | agent-send -"),
        );
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::data(format!("standard input is not valid UTF-8 (byte {at})"))
            .hint("convert it first: … | iconv -f LATIN1 -t UTF-8 | agent-send -")
    })
}

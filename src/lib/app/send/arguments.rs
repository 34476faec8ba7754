//! The command line of agent-send.

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};

use super::job;
use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::app::documents::{By, Period};
use crate::control::{Id, MAX_COMMAND};
use crate::message::{Approval, approval_reply};

/// The longest name of a sender, characters.
const MAX_NAME: usize = 200;
/// How long `--wait` waits when it names no time (specification §2).
const PATIENCE: &str = "600";
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
        agent-send --job add --name briefing --cron '0 8 * * mon-fri' --text 'What is on today?' --deliver"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub shared: Shared,
    /// What to say; - reads it from standard input
    text: Option<String>,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub json: bool,
    /// Wait for the reply and print it
    #[arg(long, value_name = "SECS", num_args = 0..=1, require_equals = true, default_missing_value = PATIENCE, conflicts_with_all = ["chat", "stop"])]
    wait: Option<u64>,
    /// Fail with 69 instead of leaving the message in the spool when no daemon listens
    #[arg(long, conflicts_with_all = ["chat", "result", "pair", "skill", "mcp", "status", "monitor", "cost", "sessions", "history", "explain", "queue", "log"])]
    no_queue: bool,
    #[command(flatten)]
    message: MessageFlags,
    #[command(flatten)]
    jobs: JobFlags,
    #[command(flatten)]
    verbs: Verbs,
    /// Of --heartbeat: say whether the agent would wake, why, and what it would cost
    #[arg(long, requires = "heartbeat", help_heading = "Questions")]
    dry_run: bool,
    /// Of --cost: a line for each of these
    #[arg(
        long,
        value_name = "WHAT",
        requires = "cost",
        help_heading = "Questions"
    )]
    by: Option<By>,
    /// Of --history: every event whole, tool calls and their results too
    #[arg(long, requires = "history", help_heading = "Questions")]
    full: bool,
    /// Of --approve: the very same thing again, too, until the conversation ends
    #[arg(long, requires = "approve", help_heading = "Questions")]
    for_session: bool,
    /// Of --log: the audit log instead, what was done and who allowed it
    #[arg(long, value_name = "N", num_args = 0..=1, requires = "log", help_heading = "Questions")]
    audit: Option<Option<usize>>,
    /// Of --log: whether the audit log is as it was written; 65 when it is not
    #[arg(
        long,
        requires = "log",
        conflicts_with = "audit",
        help_heading = "Questions"
    )]
    verify: bool,
}

/// What goes with words for the agent.
#[derive(Debug, Args)]
#[group(multiple = true, conflicts_with = "Verbs")]
#[command(next_help_heading = "Words")]
struct MessageFlags {
    /// Wait and print the reply while it is written
    #[arg(long, conflicts_with_all = ["json", "raw", "chat"])]
    stream: bool,
    /// Talk at a prompt until end of file
    #[arg(long, conflicts_with_all = ["text", "id", "json", "system", "notify", "raw", "attach"])]
    chat: bool,
    /// The id of this message; the same id is the same message
    #[arg(long, value_name = "KEY")]
    id: Option<String>,
    /// Who speaks
    #[arg(long, value_name = "NAME", default_value = "cli")]
    from: String,
    /// Speak in this conversation: a session id or key, a contact, or a new name
    #[arg(long, value_name = "SESSION")]
    session: Option<String>,
    /// Give a file with the words, as much yours as they are; with --raw it is sent; may be repeated
    #[arg(long, value_name = "FILE", conflicts_with_all = ["system", "notify"])]
    attach: Vec<PathBuf>,
    /// How much the model is told beside the words: full, operational, or a tier of agent.toml
    #[arg(long, value_name = "TIER")]
    tier: Option<String>,
    /// The model to use, by its configured name
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// The words are somebody else's: the agent may not act on them, only answer
    #[arg(long)]
    untrusted: bool,
    /// The words are an event: the agent works on it and its reply goes nowhere
    #[arg(long, conflicts_with_all = ["notify", "raw", "from", "session"])]
    system: bool,
    /// The words are an event: the agent tells its owner, unless it finds nothing to tell
    #[arg(long, requires = "source", conflicts_with_all = ["raw", "from", "session"])]
    notify: bool,
    /// Of --notify and --system: what the event comes from
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
    /// Of --notify: what the event is about, such as a ticket or a URL
    #[arg(long = "ref", value_name = "TEXT", requires = "notify")]
    reference: Option<String>,
    /// Of --notify: JSON that is kept with the event; the model does not see it
    #[arg(long, value_name = "JSON", requires = "notify")]
    data: Option<String>,
    /// Deliver the words as they are, with no model call
    #[arg(long, requires = "to", conflicts_with_all = ["from", "session", "tier", "model", "untrusted", "source"])]
    raw: bool,
    /// Of --raw and --job add: a numeric chat id, an @username, a name, or owner
    #[arg(long, value_name = "CONTACT")]
    to: Option<String>,
}

/// What is done at its times.
#[derive(Debug, Args)]
#[group(multiple = true, conflicts_with_all = ["Verbs", "text"])]
#[command(next_help_heading = "Jobs")]
struct JobFlags {
    /// What the agent does at its times: list, add, remove ID, run ID, pause ID, resume ID
    #[arg(long, value_name = "VERB", num_args = 1..=2)]
    job: Option<Vec<String>>,
    /// Of --job add: what it is called
    #[arg(long, value_name = "NAME", requires = "job")]
    name: Option<String>,
    /// Of --job add: once, at this time (2026-11-24T09:00, in --tz unless it says otherwise)
    #[arg(long, value_name = "ISO8601", requires = "job", conflicts_with_all = ["every", "cron"])]
    at: Option<String>,
    /// Of --job add: again and again (30m, 2h, 1d)
    #[arg(long, value_name = "SPAN", requires = "job", conflicts_with = "cron")]
    every: Option<String>,
    /// Of --job add: at the times of a crontab line
    #[arg(long, value_name = "M H DOM MON DOW", requires = "job")]
    cron: Option<String>,
    /// Of --job add: the time zone of its times; default: the agent's
    #[arg(long, value_name = "ZONE", requires = "job")]
    tz: Option<String>,
    /// Of --job add: what the agent is told to do
    #[arg(long = "text", id = "job_text", value_name = "TEXT", requires = "job")]
    job_text: Option<String>,
    /// Of --job add: its answer goes to --to CONTACT, or to the owner
    #[arg(long, requires = "job")]
    deliver: bool,
    /// Of --job add: the text goes out as it is, with no model call
    #[arg(long, requires = "job")]
    literal: bool,
    /// Of --job add: think in the conversation of whoever hears the answer, not in one of its own
    #[arg(long, requires = "job")]
    main: bool,
    /// Of --job add: what becomes of times that pass while no daemon runs: once, skip, all
    #[arg(long, value_name = "once|skip|all", requires = "job")]
    missed: Option<String>,
    /// Of --job add: what becomes of a time at which it still runs: skip, queue
    #[arg(long, value_name = "skip|queue", requires = "job")]
    overlap: Option<String>,
    /// Of --job add: the most one run may cost
    #[arg(long, value_name = "USD", requires = "job")]
    budget: Option<f64>,
    /// Of --job add: keep it when its only time is over
    #[arg(long, requires = "job")]
    keep: bool,
}

/// What is asked instead; each excludes the others and words.
#[derive(Debug, Args)]
#[group(multiple = false, conflicts_with = "text")]
#[command(next_help_heading = "Questions")]
struct Verbs {
    /// Print the reply to an earlier message
    #[arg(long, value_name = "ID")]
    result: Option<String>,
    /// Stop what runs in a session; alone: everywhere
    #[arg(long, value_name = "SESSION", num_args = 0..=1)]
    stop: Option<Option<String>>,
    /// Archive a session and begin a new one; all: every session
    #[arg(long, value_name = "all|CONTACT|SESSION")]
    reset: Option<String>,
    /// Sum up the older part of a session; alone: of the shell's own
    #[arg(long, value_name = "SESSION", num_args = 0..=1)]
    compact: Option<Option<String>>,
    /// Let the agent do what it asked for
    #[arg(long, value_name = "ID")]
    approve: Option<String>,
    /// Do not let the agent do what it asked for; it is told why
    #[arg(long, num_args = 1.., value_names = ["ID", "WHY"])]
    deny: Option<Vec<String>>,
    /// Wake the agent now, if HEARTBEAT.md gives it a reason to
    #[arg(long)]
    heartbeat: bool,
    /// Take back what a run changed in files; alone: the newest run that changed any
    #[arg(long, value_name = "RUN", num_args = 0..=1)]
    undo: Option<Option<String>>,
    /// Who may talk in Telegram: list, approve CODE, revoke ID, owner, block ID, unblock ID, mute ID, unmute ID
    #[arg(long, value_name = "VERB", num_args = 1..=2)]
    pair: Option<Vec<String>>,
    /// Which skills the agent may use: list, trust NAME or NAME@HASH, distrust NAME
    #[arg(long, value_name = "VERB", num_args = 1..=2)]
    skill: Option<Vec<String>>,
    /// Which tool servers the agent may use: list, trust NAME or NAME@HASH, distrust NAME
    #[arg(long, value_name = "VERB", num_args = 1..=2)]
    mcp: Option<Vec<String>>,
    /// Show what the daemon is
    #[arg(long)]
    status: bool,
    /// Show what the daemon does right now
    #[arg(long)]
    monitor: bool,
    /// Show what was spent
    #[arg(long, value_name = "PERIOD", num_args = 0..=1, default_missing_value = "today")]
    cost: Option<Period>,
    /// Show the conversations
    #[arg(long)]
    sessions: bool,
    /// Show a conversation, by session id or key, contact or @username
    #[arg(long, value_name = "TARGET")]
    history: Option<String>,
    /// Show why an answer came as it did: of a run, a message's id, or the number of a sent one
    #[arg(long, value_name = "MESSAGE|RUN")]
    explain: Option<String>,
    /// Show what waits, what is on its way out, and what was given up
    #[arg(long)]
    queue: bool,
    /// Show the newest entries of the log
    #[arg(long, value_name = "N", num_args = 0..=1, default_missing_value = LOG_LINES)]
    log: Option<usize>,
}

/// What is asked.
pub(super) enum Verb {
    Say(Message),
    Chat(Chat),
    Result {
        id: Id,
        wait: Option<Duration>,
    },
    Stop {
        session: Option<String>,
    },
    Reset {
        target: String,
        wait: Option<Duration>,
        queue: bool,
    },
    Compact {
        session: Option<String>,
        wait: Option<Duration>,
    },
    Decide {
        request: String,
        verdict: Approval,
        why: Option<String>,
    },
    Undo {
        run: Option<String>,
        wait: Option<Duration>,
    },
    Job(Box<job::Ordered>),
    Heartbeat {
        dry_run: bool,
    },
    Pair(Vec<String>),
    Skill(Vec<String>),
    Mcp(Vec<String>),
    Status,
    Monitor,
    Cost {
        period: Period,
        by: Option<By>,
    },
    Sessions,
    History {
        target: String,
        full: bool,
    },
    Explain {
        id: String,
    },
    Queue,
    Log {
        lines: usize,
    },
    Audit {
        entries: usize,
    },
    Verify,
}

/// Words on their way to the daemon.
pub(super) struct Message {
    pub id: Id,
    pub text: String,
    pub kind: Kind,
    pub tier: Option<String>,
    pub model: Option<String>,
    pub untrusted: bool,
    pub attach: Vec<PathBuf>,
    pub wait: Option<Duration>,
    pub stream: bool,
    pub queue: bool,
}

/// What the words are.
pub(super) enum Kind {
    User {
        from: String,
        session: Option<String>,
    },
    System {
        source: Option<String>,
    },
    Notify {
        source: String,
        reference: Option<String>,
        data: Option<serde_json::Value>,
    },
    Raw {
        to: String,
    },
}

/// How to talk at the prompt.
pub(super) struct Chat {
    pub from: String,
    pub session: Option<String>,
    pub tier: Option<String>,
    pub model: Option<String>,
    pub untrusted: bool,
}

impl Arguments {
    /// Returns what is asked.
    pub(super) fn verb(self) -> Result<Verb, Failure> {
        let of_other = |flag: &str, of: &str| {
            Err(Failure::new(Exit::Usage, format!("{flag} goes with {of}"))
                .hint("agent-send --help"))
        };
        if self.by.is_some() && self.verbs.cost.is_none() {
            return of_other("--by", "--cost");
        }
        if self.full && self.verbs.history.is_none() {
            return of_other("--full", "--history");
        }
        if self.for_session && self.verbs.approve.is_none() {
            return of_other("--for-session", "--approve");
        }
        if (self.audit.is_some() || self.verify) && self.verbs.log.is_none() {
            return of_other("--audit and --verify", "--log");
        }
        if self.dry_run && !self.verbs.heartbeat {
            return of_other("--dry-run", "--heartbeat");
        }
        if self.message.to.is_some() && !self.message.raw && self.jobs.job.is_none() {
            return of_other("--to", "--raw and --job add");
        }
        let wait = self.wait.map(Duration::from_secs);
        if let Some(words) = self.jobs.job {
            let MessageFlags { id, to, model, .. } = self.message;
            let flags = JobFlags {
                job: None,
                ..self.jobs
            };
            let ask = flags.ask(to.as_deref(), model.as_deref());
            return job::ordered(&words, ask, id.as_deref(), !self.no_queue)
                .map(|ordered| Verb::Job(Box::new(ordered)));
        }
        let verbs = self.verbs;
        if let Some(id) = &verbs.result {
            return Ok(Verb::Result {
                id: parse_id(id)?,
                wait,
            });
        }
        if let Some(target) = verbs.reset {
            return Ok(Verb::Reset {
                target,
                wait,
                queue: !self.no_queue,
            });
        }
        if let Some(session) = verbs.compact {
            return Ok(Verb::Compact { session, wait });
        }
        if let Some(run) = verbs.undo {
            return Ok(Verb::Undo { run, wait });
        }
        let asked = decision(verbs.approve, verbs.deny, self.for_session)?
            .or(verbs.stop.map(|session| Verb::Stop { session }))
            .or(verbs.heartbeat.then_some(Verb::Heartbeat {
                dry_run: self.dry_run,
            }))
            .or(verbs.pair.map(Verb::Pair))
            .or(verbs.skill.map(Verb::Skill))
            .or(verbs.mcp.map(Verb::Mcp))
            .or(verbs.status.then_some(Verb::Status))
            .or(verbs.monitor.then_some(Verb::Monitor))
            .or(verbs.cost.map(|period| Verb::Cost {
                period,
                by: self.by,
            }))
            .or(verbs.sessions.then_some(Verb::Sessions))
            .or(verbs.history.map(|target| Verb::History {
                target,
                full: self.full,
            }))
            .or(verbs.explain.map(|id| Verb::Explain { id }))
            .or(verbs.queue.then_some(Verb::Queue))
            .or(verbs.log.map(|lines| match self.audit {
                _ if self.verify => Verb::Verify,
                Some(entries) => Verb::Audit {
                    entries: entries.unwrap_or(lines),
                },
                None => Verb::Log { lines },
            }));
        if let Some(verb) = asked {
            if wait.is_some() {
                return Err(Failure::new(
                    Exit::Usage,
                    "--wait goes with words, --result, --reset, --compact and --undo",
                )
                .hint("agent-send --help"));
            }
            return Ok(verb);
        }
        let flags = self.message;
        if flags.from.is_empty()
            || flags.from.chars().count() > MAX_NAME
            || flags.from.contains(char::is_control)
        {
            return Err(
                Failure::new(Exit::Usage, "--from takes 1 to 200 printable characters")
                    .hint("such as --from backup"),
            );
        }
        if flags.chat {
            let MessageFlags {
                from,
                session,
                tier,
                model,
                untrusted,
                ..
            } = flags;
            return Ok(Verb::Chat(Chat {
                from,
                session,
                tier,
                model,
                untrusted,
            }));
        }
        let text = match self.text.as_deref() {
            Some("-") => read_stdin()?,
            Some(text) => text.to_owned(),
            None if !flags.attach.is_empty() => String::new(),
            None => {
                return Err(Failure::new(Exit::Usage, "nothing to say")
                    .hint("agent-send TEXT, or agent-send - < file; agent-send --help"));
            }
        };
        if text.trim().is_empty() && flags.attach.is_empty() {
            return Err(Failure::new(Exit::Usage, "the message is empty")
                .hint("agent-send TEXT, or - to read standard input"));
        }
        if flags.source.is_some() && !flags.notify && !flags.system {
            return Err(
                Failure::new(Exit::Usage, "--source goes with --notify and --system")
                    .hint("who speaks otherwise is --from NAME"),
            );
        }
        let id = flags
            .id
            .as_deref()
            .map(parse_id)
            .transpose()?
            .unwrap_or_default();
        let data = flags.data.as_deref().map(parse_data).transpose()?;
        let kind = match (flags.system, flags.source, flags.to) {
            (true, source, _) => Kind::System { source },
            (false, Some(source), _) => Kind::Notify {
                source,
                reference: flags.reference,
                data,
            },
            (false, None, Some(to)) => Kind::Raw { to },
            (false, None, None) => Kind::User {
                from: flags.from,
                session: flags.session,
            },
        };
        Ok(Verb::Say(Message {
            id,
            text,
            kind,
            tier: flags.tier,
            model: flags.model,
            untrusted: flags.untrusted,
            attach: flags.attach,
            wait: wait.or(flags.stream.then(|| Duration::from_secs(600))),
            stream: flags.stream,
            queue: !self.no_queue,
        }))
    }
}

impl JobFlags {
    /// Returns what is asked for, as the fields of `job add`; `None` when nothing is.
    fn ask(self, to: Option<&str>, model: Option<&str>) -> Option<serde_json::Value> {
        let given = serde_json::json!({
            "name": self.name, "at": self.at, "every": self.every, "cron": self.cron, "tz": self.tz, "text": self.job_text,
            "to": to, "model": model, "missed": self.missed, "overlap": self.overlap, "budget_usd": self.budget,
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

fn parse_data(text: &str) -> Result<serde_json::Value, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::new(Exit::Usage, format!("--data is no JSON: {error}"))
            .hint("such as --data '{\"host\": \"web-1\"}'")
    })
}

pub(super) fn parse_id(text: &str) -> Result<Id, Failure> {
    Id::parse(text).ok_or_else(|| {
        Failure::new(Exit::Usage, format!("{text:?} is no id"))
            .hint("ids are 1 to 64 of A-Z a-z 0-9 _ -")
    })
}

/// Returns what `--approve ID` and `--deny ID WHY` ask for.
fn decision(
    approve: Option<String>,
    deny: Option<Vec<String>>,
    for_session: bool,
) -> Result<Option<Verb>, Failure> {
    let verdict = if for_session {
        Approval::Session
    } else {
        Approval::Approve
    };
    if let Some(id) = approve {
        return Ok(Some(Verb::Decide {
            request: parse_request(&id)?,
            verdict,
            why: None,
        }));
    }
    let words = deny.unwrap_or_default();
    let Some((id, why)) = words.split_first() else {
        return Ok(None);
    };
    let why = Some(why.join(" ")).filter(|why| !why.trim().is_empty());
    Ok(Some(Verb::Decide {
        request: parse_request(id)?,
        verdict: Approval::Deny,
        why,
    }))
}

fn parse_request(text: &str) -> Result<String, Failure> {
    let id = text.trim().to_ascii_lowercase();
    if approval_reply::is_request(&id) {
        return Ok(id);
    }
    Err(
        Failure::new(Exit::Usage, format!("{text:?} is no id of a request"))
            .hint("agent-send --queue shows what waits"),
    )
}

fn read_stdin() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let limit = MAX_COMMAND / 2;
    std::io::stdin()
        .lock()
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| {
            Failure::new(Exit::Io, format!("standard input cannot be read: {error}"))
        })?;
    if bytes.len() as u64 > limit {
        return Err(Failure::new(
            Exit::Data,
            format!("standard input is larger than {limit} bytes"),
        )
        .hint("send the part that matters: … | tail -c 100000 | agent-send -"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(
            Exit::Data,
            format!("standard input is no text (not UTF-8 at byte {at})"),
        )
        .hint("convert it first: … | iconv -f LATIN1 -t UTF-8 | agent-send -")
    })
}

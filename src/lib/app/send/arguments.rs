//! The command line of agent-send.

use std::io::Read;
use std::time::Duration;

use clap::Parser;

use super::super::cli::{self, Exit, Failure, Shared};
use crate::control::{Id, MAX_COMMAND};

/// Talk to the agent's daemon
///
/// Exit code: 0 done, 1 the turn failed, 2 usage, 65 bad input, 69 no daemon, 75 queued or timed
/// out (the id is printed), 77 not permitted, 78 configuration.
#[derive(Debug, Parser)]
#[command(
    name = "agent-send",
    version = cli::version(),
    after_help = "Examples:\n  agent-send --wait 'how full is the disk?'\n  dmesg | tail | agent-send --from kernel -\n  id=$(agent-send --json 'long job' | jq -r .id); agent-send --result \"$id\" --wait"
)]
pub(super) struct Arguments {
    #[command(flatten)]
    pub shared: Shared,
    /// What to say; - reads it from standard input
    text: Option<String>,
    /// Print one JSON document
    #[arg(long)]
    pub json: bool,
    /// Wait for the reply and print it
    #[arg(long, value_name = "SECS", num_args = 0..=1, require_equals = true, default_missing_value = "600")]
    wait: Option<u64>,
    /// The id of this message; the same id is the same message
    #[arg(long, value_name = "KEY")]
    id: Option<String>,
    /// Who speaks
    #[arg(long, value_name = "NAME", default_value = "cli")]
    from: String,
    /// The words are somebody else's: they may not move the agent's hands
    #[arg(long)]
    untrusted: bool,
    /// Fail with 69 instead of leaving the message in the spool when no daemon listens
    #[arg(long)]
    no_queue: bool,
    /// Print the reply to an earlier message
    #[arg(long, value_name = "ID", conflicts_with_all = ["text", "id", "no_queue", "stop", "status", "pair", "queue"])]
    result: Option<String>,
    /// Stop the run of a session; alone: all runs
    #[arg(long, value_name = "SESSION", num_args = 0..=1, conflicts_with_all = ["text", "id", "no_queue", "status", "pair", "wait"])]
    stop: Option<Option<String>>,
    /// Show what the daemon is and does
    #[arg(long, conflicts_with_all = ["text", "id", "no_queue", "pair", "wait"])]
    status: bool,
    /// Show what waits, what is on its way out, and the dead letters
    #[arg(long, conflicts_with_all = ["text", "id", "no_queue", "pair", "wait", "status"])]
    queue: bool,
    /// Who may talk in Telegram: list, approve CODE, revoke ID, owner
    #[arg(long, value_name = "VERB", num_args = 1..=2, conflicts_with_all = ["text", "id", "no_queue", "wait"])]
    pair: Option<Vec<String>>,
}

/// What is asked.
pub(super) enum Verb {
    Say(Message),
    Result { id: Id, wait: Option<Duration>, json: bool },
    Stop { session: Option<String>, json: bool },
    Pair { words: Vec<String>, json: bool },
    Status { json: bool },
    Queue { json: bool },
}

/// A message for the agent.
pub(super) struct Message {
    pub id: Id,
    pub text: String,
    pub from: String,
    pub untrusted: bool,
    pub wait: Option<Duration>,
    pub queue: bool,
    pub json: bool,
}

impl Arguments {
    /// Returns what is asked.
    pub(super) fn verb(self) -> Result<Verb, Failure> {
        let json = self.json;
        let wait = self.wait.map(Duration::from_secs);
        if let Some(id) = &self.result {
            return Ok(Verb::Result { id: parse_id(id)?, wait, json });
        }
        if let Some(session) = self.stop {
            return Ok(Verb::Stop { session, json });
        }
        if let Some(words) = self.pair {
            return Ok(Verb::Pair { words, json });
        }
        if self.status {
            return Ok(Verb::Status { json });
        }
        if self.queue {
            return Ok(Verb::Queue { json });
        }
        let text = match self.text.as_deref() {
            Some("-") => read_stdin()?,
            Some(text) => text.to_owned(),
            None => {
                return Err(Failure::new(Exit::Usage, "nothing to say")
                    .hint("agent-send TEXT, or agent-send - < file; agent-send --help"));
            }
        };
        if text.trim().is_empty() {
            return Err(Failure::new(Exit::Usage, "the message is empty").hint("agent-send TEXT, or - to read standard input"));
        }
        let id = self.id.as_deref().map(parse_id).transpose()?.unwrap_or_default();
        Ok(Verb::Say(Message { id, text, from: self.from, untrusted: self.untrusted, wait, queue: !self.no_queue, json }))
    }
}

fn parse_id(text: &str) -> Result<Id, Failure> {
    Id::parse(text)
        .ok_or_else(|| Failure::new(Exit::Usage, format!("{text:?} is no id")).hint("ids are 1 to 64 of A-Z a-z 0-9 _ -"))
}

fn read_stdin() -> Result<String, Failure> {
    let mut bytes = Vec::new();
    let limit = MAX_COMMAND / 2;
    std::io::stdin()
        .lock()
        .take(limit + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| Failure::new(Exit::Io, format!("standard input cannot be read: {error}")))?;
    if bytes.len() as u64 > limit {
        return Err(Failure::new(Exit::Data, format!("standard input is larger than {limit} bytes"))
            .hint("send the part that matters: … | tail -c 100000 | agent-send -"));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Failure::new(Exit::Data, format!("standard input is no text (not UTF-8 at byte {at})"))
            .hint("convert it first: … | iconv -f LATIN1 -t UTF-8 | agent-send -")
    })
}

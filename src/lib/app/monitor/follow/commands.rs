//! Commands to the daemon by a key: through the spool and the FIFO, as agent-send does.

use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use super::events;
use super::events::Update;
use crate::app::send::submit;
use crate::config::Home;
use crate::control::Command;
use crate::message::Approval;
use crate::text;

/// A command for the daemon.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Request {
    command: Command,
    /// What is said until the daemon answers.
    pub(super) begun: String,
    /// What is said when it does not.
    unknown: &'static str,
}

/// The reply to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) done: bool,
    /// In the daemon's words, or why it did not.
    pub(super) words: String,
}

impl Request {
    pub(super) fn stop(session: String, contact: &str) -> Self {
        Self {
            command: Command::Stop {
                session: Some(session),
            },
            begun: format!("stopping {} …", text::visible(contact)),
            unknown: "nothing is known to be stopped",
        }
    }

    pub(super) fn decide(id: String, verdict: Approval, why: Option<String>) -> Self {
        let doing = match verdict {
            Approval::Deny => "denying",
            Approval::Approve | Approval::Session | Approval::Always => "approving",
        };
        Self {
            begun: format!("{doing} {} …", text::visible(&id)),
            command: Command::Approval {
                request: id,
                verdict,
                why,
            },
            unknown: "nothing is known to be decided",
        }
    }

    /// Sends it on a separate thread, which tells the outcome.
    pub(super) fn send(self, home: &Home, tell: &Sender<Update>) -> JoinHandle<()> {
        let home = home.clone();
        events::spawn("the sender of commands", tell, move |tell| {
            // Nobody listens when the screen is gone already.
            let _ = tell.send(Update::Outcome(self.outcome(&home)));
        })
    }

    fn outcome(self, home: &Home) -> Outcome {
        let wait = submit::COMMAND_WAIT;
        let (done, words) = match submit::call(home, &self.command, self.unknown, wait, true) {
            Ok(reply) => match reply.error {
                Some(error) => (false, error),
                None => (true, reply.reply.unwrap_or_else(|| "done".to_owned())),
            },
            Err(failure) => (false, failure.message),
        };
        let words = text::visible(&words);
        Outcome { done, words }
    }
}

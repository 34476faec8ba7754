//! What a key gives the daemon to do: through the spool and the FIFO, as agent-send does.

use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

use super::events;
use super::events::News;
use crate::app::send::submit;
use crate::config::Home;
use crate::control::Command;
use crate::message::Approval;
use crate::text;

/// An order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Order {
    Stop {
        session: String,
        contact: String,
    },
    /// Do what was asked for, or do not.
    Decide {
        id: String,
        verdict: Approval,
        /// Why not, for the model.
        why: Option<String>,
    },
}

/// What came of an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    pub(super) done: bool,
    /// In its words, or why it did not.
    pub(super) words: String,
}

impl Order {
    /// Returns what is said until the daemon answers.
    pub(super) fn begun(&self) -> String {
        match self {
            Self::Stop { contact, .. } => format!("stopping {} …", text::visible(contact)),
            Self::Decide {
                id,
                verdict: Approval::Approve,
                ..
            } => format!("approving {} …", text::visible(id)),
            Self::Decide { id, .. } => format!("denying {} …", text::visible(id)),
        }
    }

    pub(super) fn give(self, home: &Home, tell: &Sender<News>) -> JoinHandle<()> {
        let home = home.clone();
        events::spawn("what gives orders", tell, move |tell| {
            // Nobody listens when the screen is gone already.
            let _ = tell.send(News::Outcome(self.heard(&home)));
        })
    }

    fn heard(self, home: &Home) -> Outcome {
        let (command, unknown) = match self {
            Self::Stop { session, .. } => (
                Command::Stop {
                    session: Some(session),
                },
                "nothing is known to be stopped",
            ),
            Self::Decide { id, verdict, why } => (
                Command::Approval {
                    request: id,
                    verdict,
                    why,
                },
                "nothing is known to be decided",
            ),
        };
        match submit::call(home, &command, unknown, submit::COMMAND_WAIT, true) {
            Ok(reply) => match reply.error {
                Some(error) => Outcome {
                    done: false,
                    words: text::visible(&error),
                },
                None => Outcome {
                    done: true,
                    words: text::visible(reply.reply.as_deref().unwrap_or("done")),
                },
            },
            Err(failure) => Outcome {
                done: false,
                words: text::visible(&failure.message),
            },
        }
    }
}

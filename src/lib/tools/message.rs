//! `message`: write to somebody now, beside the answer.
//!
//! It takes the way of `agent-send --raw`: a command in the spool, so that the promise to deliver is
//! the outbox's and survives a crash. What the model is told is what the daemon answered.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Needs, text};
use crate::agent::{Context, Rights, Tool, ToolOutput};
use crate::control::replies::{self, Status};
use crate::control::{self, Command, Id, spool};
use crate::provider::{BoxFuture, ToolSpec};
use crate::sys::fifo;

/// The longest message, bytes: some dozen parts of Telegram.
const MAX_TEXT: usize = 50_000;
/// How long the daemon's answer is waited for; it comes in milliseconds.
const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Message(pub Arc<Needs>);

impl Tool for Message {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "message",
            description: "Send a text to somebody else now. Your answer to this conversation needs no tool.",
            schema: json!({
                "type": "object",
                "properties": {
                    "to": {"type": "string", "description": "owner, a chat id, @username or a known name"},
                    "text": {"type": "string"}
                },
                "required": ["to", "text"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        false
    }

    fn rights(&self) -> Rights {
        Rights::OwnersWords
    }

    fn run<'a>(&'a self, input: &'a Value, _context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let (to, words) = (text(input, "to").trim().to_owned(), text(input, "text").to_owned());
        Box::pin(async move {
            match self.send(to, words).await {
                Ok(receipt) => ToolOutput::ok(receipt),
                Err(reason) => ToolOutput::error(reason),
            }
        })
    }
}

impl Message {
    async fn send(&self, to: String, words: String) -> Result<String, String> {
        if to.is_empty() || words.trim().is_empty() || words.len() > MAX_TEXT {
            return Err(format!("`to` and `text` must say something, and the text at most {MAX_TEXT} bytes"));
        }
        let home = self.0.memory.home().clone();
        let id = Id::new();
        let command = Command::Raw { to: to.clone(), text: words };
        let (line, bell) = (control::encode(&id, &command), control::encode(&id, &Command::Spool { id: id.clone() }));
        let (own, place) = (id.clone(), home.clone());
        super::blocking_work(move || {
            spool::put(&place.spool_tmp(), &place.spool_new(), &own, &line).map_err(|error| error.to_string())?;
            // The spool is looked at now and then anyway.
            let _ = fifo::ring(&place.fifo(), &bell);
            Ok(())
        })
        .await?;
        let until = Instant::now() + PATIENCE;
        loop {
            let reply = replies::read(&home.replies(), &id).ok().flatten();
            match reply.as_ref().map(|reply| reply.status) {
                Some(Status::Done) => return Ok(format!("accepted for {to}; it is being delivered (id {id})")),
                Some(Status::Error) => {
                    let reason = reply.and_then(|reply| reply.error).unwrap_or_default();
                    return Err(format!("not sent: {reason}"));
                }
                Some(Status::Accepted | Status::Running) | None if Instant::now() < until => {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                Some(_) | None => return Ok(format!("left for delivery to {to} (id {id}); nothing is known of it yet")),
            }
        }
    }
}

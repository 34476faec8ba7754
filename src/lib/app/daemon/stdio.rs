//! `--channel cli`: a line of standard input is a message, an answer goes to standard output.

use std::io::{BufRead, Read};
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::app::cli;
use crate::channel::{Channel, Health, Outgoing, Rendered, SendError};
use crate::clock;
use crate::control::MAX_COMMAND;
use crate::message::ChatRef;
use crate::pipeline::Pipeline;
use crate::provider::BoxFuture;

/// Lines that wait to be accepted with one commit.
const TOGETHER: usize = 64;

/// Standard output as a channel.
pub(super) struct Stdio;

impl Channel for Stdio {
    fn name(&self) -> &'static str {
        "cli"
    }

    fn render(&self, markdown: &str) -> Vec<Rendered> {
        self.plain(markdown)
    }

    fn plain(&self, text: &str) -> Vec<Rendered> {
        let words = Rendered {
            markup: None,
            plain: text.to_owned(),
        };
        if text.is_empty() {
            Vec::new()
        } else {
            vec![words]
        }
    }

    fn send<'a>(&'a self, message: Outgoing<'a>) -> BoxFuture<'a, Result<String, SendError>> {
        let mark = if message.resent { "(resent)\n" } else { "" };
        let words = format!("{mark}{}\n", message.plain);
        Box::pin(async move {
            // A reader that is slow holds up nothing but this.
            let written = crate::sys::blocking(move || cli::try_words(&words)).await;
            match written {
                // The one who closed the pipe has read enough.
                Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                    Err(SendError::NotSent {
                        reason: format!("standard output cannot be written: {error}"),
                        retry_after: None,
                    })
                }
                Ok(()) | Err(_) => Ok(clock::now_ms().to_string()),
            }
        })
    }

    fn typing<'a>(&'a self, _chat: &'a ChatRef) -> BoxFuture<'a, Result<(), SendError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn health(&self) -> Health {
        Health {
            state: "ok".to_owned(),
            mode: "",
            last_ok_at: None,
            last_update_at: None,
        }
    }
}

/// Takes the lines of standard input in until it ends.
pub(super) async fn read(pipeline: Arc<Pipeline>) {
    let (lines, mut heard) = mpsc::channel(TOGETHER);
    // A separate thread that nobody waits for: it may hang in a read forever.
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            match stdin
                .by_ref()
                .take(MAX_COMMAND / 2)
                .read_until(b'\n', &mut line)
            {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => return tracing::error!(%error, "standard input cannot be read"),
            }
            let text = String::from_utf8_lossy(&line)
                .trim_end_matches(['\n', '\r'])
                .to_owned();
            if !text.trim().is_empty() && lines.blocking_send(text).is_err() {
                return;
            }
        }
    });
    let mut together = Vec::new();
    while heard.recv_many(&mut together, TOGETHER).await > 0 {
        pipeline.take_lines(std::mem::take(&mut together)).await;
    }
}

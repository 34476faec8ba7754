//! Events of the daemon in addition to messages: typing, read, an emoji on waiting messages. Best effort; nothing depends on
//! them.

use std::time::Duration;

use matrix_sdk::ruma::EventId;
use matrix_sdk::ruma::api::client::receipt::create_receipt::v3::ReceiptType;
use matrix_sdk::ruma::events::receipt::ReceiptThread;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe;
use tokio::time::Instant;

use crate::bot::Bot;
use crate::error::Error;
use crate::{outgoing, previews, rooms, send};

/// What is not shown by then nobody needs to see.
const PATIENCE: Duration = Duration::from_secs(10);

/// A line of the FIFO.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "lowercase")]
enum Told {
    Typing {
        chat: String,
    },
    Read {
        chat: String,
        thread: Option<String>,
        message_id: String,
    },
    Mark {
        chat: String,
        message_id: String,
        emoji: String,
    },
    Preview(previews::Said),
    #[serde(other)]
    Other,
}

/// Shows for ever what is told.
pub async fn run(bot: &Bot) {
    let path = bot.spool.path("events");
    // With an end to write in hand it never ends.
    let opened = pipe::OpenOptions::new()
        .read_write(true)
        .open_receiver(&path);
    let fifo = match opened {
        Ok(fifo) => fifo,
        Err(error) => {
            tracing::warn!(%error, fifo = %path.display(), "cannot open the event FIFO; rooms are not shown that the agent is writing");
            return std::future::pending().await;
        }
    };
    let mut lines = BufReader::new(fifo).lines();
    if let Err(error) = previews::begin(bot) {
        tracing::warn!(%error, "a preview may stay in its room");
    }
    let mut look_at = None;
    loop {
        // What is told in between puts no look off.
        look_at = previews::next_look(bot).map(|pause| {
            let at = Instant::now() + pause;
            look_at.map_or(at, |before: Instant| before.min(at))
        });
        let look = tokio::time::sleep_until(look_at.unwrap_or_else(Instant::now));
        let line = tokio::select! {
            line = lines.next_line() => line,
            () = look, if look_at.is_some() => {
                look_at = None;
                if bot.is_reachable() {
                    best_effort(previews::look(bot)).await;
                }
                continue;
            }
        };
        let line = match line {
            Ok(Some(line)) => line,
            Ok(None) => return std::future::pending().await,
            Err(error) => {
                tracing::debug!(%error, "an event that is no text");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let Ok(told) = serde_json::from_str(&line) else {
            continue;
        };
        // That a preview has ended is only written down.
        let is_end = matches!(&told, Told::Preview(said) if said.is_end());
        if bot.is_reachable() || is_end {
            best_effort(show(bot, told)).await;
        }
    }
}

async fn best_effort(work: impl Future<Output = Result<(), Error>>) {
    match tokio::time::timeout(PATIENCE, Box::pin(work)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "an event"),
        Err(_) => tracing::debug!("an event took too long"),
    }
}

async fn show(bot: &Bot, told: Told) -> Result<(), Error> {
    match told {
        Told::Typing { chat } => {
            let Some(room) = rooms::find(&bot.client, &chat).await? else {
                return Ok(());
            };
            room.typing_notice(true).await.map_err(Error::of("typing"))
        }
        Told::Read {
            chat,
            thread,
            message_id,
        } => {
            let Some(room) = rooms::find(&bot.client, &chat).await? else {
                return Ok(());
            };
            let id =
                |id: &str| EventId::parse(id).map_err(|error| Error::Refused(error.to_string()));
            let thread = match thread {
                Some(root) => ReceiptThread::Thread(id(&root)?),
                None => ReceiptThread::Main,
            };
            let sent = room
                .send_single_receipt(ReceiptType::Read, thread, id(&message_id)?)
                .await;
            sent.map_err(Error::of("read"))
        }
        Told::Mark {
            chat,
            message_id,
            emoji,
        } => {
            let Some(room) = rooms::find(&bot.client, &chat).await? else {
                return Ok(());
            };
            let txn = send::transaction(&format!("mark-{message_id}"));
            let content = outgoing::annotation(&message_id, &emoji);
            let sent = room
                .send_raw("m.reaction", content)
                .with_transaction_id(&txn)
                .await;
            sent.map(|_| ()).map_err(Error::of("a mark"))
        }
        Told::Preview(said) => previews::show(bot, said).await,
        Told::Other => Ok(()),
    }
}

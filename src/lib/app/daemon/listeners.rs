//! Which doors are open beside the spool, and when a daemon that ends by itself has nothing left to
//! do: after the end of standard input, or after what waited (`--once`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::{command_intake, stdio};
use crate::app::cli::{Exit, Failure};
use crate::channel::Batch;
use crate::channel::telegram::Telegram;
use crate::config::Home;
use crate::pipeline::Pipeline;

/// What is left is looked at this often.
const LOOK: Duration = Duration::from_millis(50);

/// With `--once`, answers that nobody takes for this long wait for the next start: whoever runs it
/// from cron has the next one coming.
const STUCK: Duration = Duration::from_secs(30);

/// How the daemon runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(super) struct Doors {
    /// Use these channels only; default: those that the configuration enables
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    channel: Option<Vec<Door>>,
    /// Handle what waits, then end
    #[arg(long)]
    pub once: bool,
}

/// A way in beside the spool, which is always open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Door {
    /// The bot
    Telegram,
    /// A line of standard input is a message, an answer goes to standard output; the daemon ends
    /// with its input
    Cli,
}

impl Doors {
    /// Returns these flags with others: they may stand before and after `run`.
    pub(super) fn or(self, after: Self) -> Self {
        Self {
            channel: self.channel.or(after.channel),
            once: self.once || after.once,
        }
    }

    fn names(&self, door: Door) -> bool {
        self.channel
            .as_ref()
            .is_some_and(|channels| channels.contains(&door))
    }

    /// Returns true when standard input is a door.
    pub(super) fn cli(&self) -> bool {
        self.names(Door::Cli)
    }

    /// Returns true when the daemon ends by itself.
    pub(super) fn end(&self) -> bool {
        self.once || self.cli()
    }

    /// Returns the settings that the flags stand for.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let telegram = self.channel.as_ref().map(|_| self.names(Door::Telegram));
        telegram
            .map(|on| ("telegram.enabled".to_owned(), on.to_string()))
            .into_iter()
            .collect()
    }
}

/// How a first look at Telegram ended: nothing waits there any more, or why nobody knows.
pub(super) type Collected = oneshot::Receiver<Result<(), String>>;

/// Begins to take in what Telegram brings, into `rooms`; with `once` only what waits there.
///
/// # Errors
/// When the queue cannot be read.
pub(super) async fn open_telegram(
    pipeline: &Arc<Pipeline>,
    telegram: Arc<Telegram>,
    once: bool,
    rooms: &mut JoinSet<()>,
) -> Result<Collected, Failure> {
    let offset = pipeline.queue.offset(telegram.bot_id()).await?;
    let (batches, mut arriving) = mpsc::channel::<Batch>(1);
    let (tell, collected) = oneshot::channel();
    let (poller, taker) = (telegram.clone(), pipeline.clone());
    let closing = pipeline.closing.clone();
    rooms.spawn(async move {
        let work = async {
            if once {
                // Whoever waits for it may be gone with the daemon.
                let _ = tell.send(poller.receive_once(offset, batches).await);
                std::future::pending::<()>().await;
            } else {
                poller.receive(offset, batches).await;
                // Whatever ended it, the rest of the daemon goes on.
                std::future::pending::<()>().await;
            }
        };
        // Dropped in the middle of a poll or a request: what it would have brought comes again.
        closing.run_until_cancelled(work).await;
    });
    rooms.spawn(async move {
        while let Some(Some(batch)) = taker.closing.run_until_cancelled(arriving.recv()).await {
            taker.take_batch(batch, "telegram").await;
        }
        taker.closing.cancelled().await;
    });
    let owners = owners(pipeline);
    tokio::spawn(async move { telegram.introduce_until_known(&owners).await });
    Ok(collected)
}

/// Returns who owns the agent by the settings, and who became an owner by the code.
fn owners(pipeline: &Pipeline) -> Vec<i64> {
    let mut owners = pipeline.live().config.telegram.owners().to_vec();
    // Nobody can be told here; who asks for something is answered with the error.
    let people = pipeline.people.read().unwrap_or_default();
    owners.extend(people.owners.iter().map(|person| person.id));
    owners.sort_unstable();
    owners.dedup();
    owners
}

/// Takes in what waits at the doors, works it off and returns how that went; never returns when
/// the daemon does not end by itself.
pub(super) async fn last_work(
    pipeline: Arc<Pipeline>,
    home: Home,
    doors: Doors,
    telegram: Option<Collected>,
) -> Exit {
    if doors.cli() {
        stdio::read(pipeline.clone()).await;
    }
    if !doors.end() {
        return std::future::pending().await;
    }
    let mut exit = Exit::Ok;
    if let Some(collected) = telegram.filter(|_| doors.once)
        && let Ok(Err(reason)) = collected.await
    {
        tracing::error!("what waits at Telegram is not known: {reason}");
        exit = Exit::TryAgain;
    }
    command_intake::empty_spool(&pipeline, &home).await;
    let open: Vec<&'static str> = pipeline.channels.keys().copied().collect();
    let (mut before, mut since) = (None, Instant::now());
    let mut looked = false;
    loop {
        let left = pipeline.queue.unfinished(open.clone()).await;
        match &left {
            // What is due waits, too, and so does what an order that was handled just now has begun.
            Ok((0, 0)) if doors.once && !std::mem::replace(&mut looked, true) => {
                pipeline.tick(crate::clock::now_ms()).await;
                continue;
            }
            Ok((0, 0)) => return exit,
            Ok((0, parts)) if doors.once && (exit == Exit::TryAgain || since.elapsed() > STUCK) => {
                tracing::error!(
                    parts,
                    "answers could not be sent; they wait for the next start"
                );
                return Exit::TryAgain;
            }
            Ok(_) => looked = false,
            Err(error) => tracing::warn!(%error, "what is left to do is not known"),
        }
        let left = left.ok();
        if left != before {
            (before, since) = (left, Instant::now());
        }
        tokio::time::sleep(LOOK).await;
    }
}

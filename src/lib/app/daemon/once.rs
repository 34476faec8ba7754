//! Which channels are open beside the spool, and when a daemon that ends by itself has nothing left to
//! do: after the end of standard input, or after what waited (`--once`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};

use super::telegram::Collected;
use super::{command_intake, stdio};
use crate::app::cli::Exit;
use crate::config::Home;
use crate::pipeline::Pipeline;

/// What is left is looked at this often.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// With `--once`, answers that nobody takes for this long wait for the next start: whoever runs it
/// from cron has the next one coming.
const STUCK: Duration = Duration::from_secs(30);

/// How the daemon runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub(super) struct Channels {
    /// Use these channels only; default: those that the configuration enables
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    channel: Option<Vec<ChannelName>>,
    /// Handle what waits, then end
    #[arg(long)]
    pub once: bool,
}

/// A channel beside the spool, which is always open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ChannelName {
    /// The bot
    Telegram,
    /// A line of standard input is a message, an answer goes to standard output; the daemon ends
    /// with its input
    Cli,
}

impl Channels {
    /// Returns these flags with others: they may stand before and after `run`.
    pub(super) fn or(self, after: Self) -> Self {
        Self {
            channel: self.channel.or(after.channel),
            once: self.once || after.once,
        }
    }

    fn names(&self, door: ChannelName) -> bool {
        self.channel
            .as_ref()
            .is_some_and(|channels| channels.contains(&door))
    }

    /// Returns true when standard input is a channel.
    pub(super) fn cli(&self) -> bool {
        self.names(ChannelName::Cli)
    }

    /// Returns true when the daemon ends by itself.
    pub(super) fn end(&self) -> bool {
        self.once || self.cli()
    }

    /// Returns the settings that the flags stand for.
    pub(super) fn settings(&self) -> Vec<(String, String)> {
        let telegram = self
            .channel
            .as_ref()
            .map(|_| self.names(ChannelName::Telegram));
        telegram
            .map(|on| ("telegram.enabled".to_owned(), on.to_string()))
            .into_iter()
            .collect()
    }
}

/// A turn that goes on within so many milliseconds is waited for.
const SOON_MS: i64 = 5_000;

/// Takes in what waits in the channels, works it off and returns how that went; never returns when
/// the daemon does not end by itself.
pub(super) async fn last_work(
    pipeline: Arc<Pipeline>,
    home: Home,
    options: Channels,
    telegram: Option<Collected>,
) -> Exit {
    if options.cli() {
        stdio::read(pipeline.clone()).await;
    }
    if !options.end() {
        return std::future::pending().await;
    }
    let mut exit = Exit::Ok;
    if let Some(collected) = telegram.filter(|_| options.once)
        && let Ok(Err(reason)) = collected.await
    {
        tracing::error!("what waits at Telegram is not known: {reason}");
        exit = Exit::TryAgain;
    }
    while command_intake::empty_spool(&pipeline, &home).await {}
    // What a process of its own sends it sends without us.
    let channels = pipeline.channels().iter();
    let open: Vec<String> = channels
        .filter(|(_, channel)| !channel.outlives_us())
        .map(|(name, _)| name.clone())
        .collect();
    let (mut before, mut since) = (None, Instant::now());
    let mut looked = false;
    loop {
        let soon = crate::clock::now_ms() + SOON_MS;
        let left = pipeline.queue().unfinished(open.clone(), soon).await;
        match &left {
            // What is due waits, too, and so does what an order that was handled just now has begun.
            Ok((0, 0)) if options.once && !std::mem::replace(&mut looked, true) => {
                pipeline.tick(crate::clock::now_ms()).await;
                continue;
            }
            Ok((0, 0)) => {
                let waiting = pipeline.waiting().len();
                if waiting > 0 {
                    tracing::error!(
                        waiting,
                        "messages wait for what is away; the next start goes on with them"
                    );
                    return Exit::TryAgain;
                }
                return exit;
            }
            Ok((0, parts))
                if options.once && (exit == Exit::TryAgain || since.elapsed() > STUCK) =>
            {
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
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

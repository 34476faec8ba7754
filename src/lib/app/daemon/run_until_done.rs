//! A daemon that ends when it has nothing left to do: after the end of standard input, or with `--once` after the waiting
//! messages.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::run_options::RunOptions;
use super::telegram::Collected;
use super::{command_intake, stdio};
use crate::app::cli::Exit;
use crate::config::Home;
use crate::pipeline::Pipeline;

/// What is left is looked at this often.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// With `--once`, answers that nobody takes for this long wait for the next start: anyone who runs it
/// from cron has the next one coming.
const STUCK: Duration = Duration::from_secs(30);

/// A turn that goes on within so many milliseconds is waited for.
const SOON_MS: i64 = 5_000;

/// Takes in what waits in the channels, works it off and returns how that went; never returns when
/// the daemon does not end by itself.
pub(super) async fn run_until_done(
    pipeline: Arc<Pipeline>,
    home: Home,
    options: RunOptions,
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
        tracing::error!("cannot query Telegram for waiting messages: {reason}");
        exit = Exit::TryAgain;
    }
    while command_intake::empty_spool(&pipeline, &home).await {}
    // What a separate process sends it sends without us.
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
                // A turn that was suspended just now may be in the queue alone.
                let suspended = pipeline.queue().unfinished(open.clone(), i64::MAX).await;
                let suspended =
                    suspended.map_or(0, |(inputs, _)| usize::try_from(inputs).unwrap_or(0));
                let waiting = suspended.max(pipeline.waiting().len());
                if waiting > 0 {
                    tracing::error!(
                        waiting,
                        "messages wait for a service that cannot be reached; the next start continues them"
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
            Err(error) => tracing::warn!(%error, "cannot read the remaining work"),
        }
        let left = left.ok();
        if left != before {
            (before, since) = (left, Instant::now());
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

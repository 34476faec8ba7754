//! Telegram while the daemon runs: passes its updates to the pipeline.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::app::cli::Failure;
use crate::channel::Batch;
use crate::channel::telegram::Telegram;
use crate::message::Address;
use crate::pipeline::Pipeline;

/// How a first look at Telegram ended: nothing waits there any more, or why nobody knows.
pub(super) type Collected = oneshot::Receiver<Result<(), String>>;

/// Begins to take in what Telegram brings, into `parts`; with `once` only what waits there.
///
/// # Errors
/// When the queue cannot be read.
pub(super) async fn open(
    pipeline: &Arc<Pipeline>,
    telegram: Arc<Telegram>,
    once: bool,
    parts: &mut JoinSet<()>,
) -> Result<Collected, Failure> {
    let offset = pipeline.queue().offset(telegram.bot_id()).await?;
    let (batches, mut arriving) = mpsc::channel::<Batch>(1);
    let (tell, collected) = oneshot::channel();
    let (poller, taker) = (telegram.clone(), pipeline.clone());
    let closing = pipeline.closing().clone();
    parts.spawn(async move {
        let work = async {
            if once {
                // The waiting task may have ended with the daemon.
                let _ = tell.send(poller.receive_once(offset, batches).await);
                std::future::pending::<()>().await;
            } else {
                poller.receive(offset, batches).await;
                // Whatever ended it, the rest of the daemon continues.
                std::future::pending::<()>().await;
            }
        };
        // Dropped in the middle of a poll or a request: what it would have brought comes again.
        closing.run_until_cancelled(work).await;
    });
    parts.spawn(async move {
        while let Some(Some(batch)) = taker.closing().run_until_cancelled(arriving.recv()).await {
            taker.take_batch(batch, "telegram").await;
        }
        taker.closing().cancelled().await;
    });
    let numbers = |owner: Address| match owner {
        Address::Number(number) => Some(number),
        Address::Named { .. } => None,
    };
    let owners: Vec<i64> = pipeline.owners().into_iter().filter_map(numbers).collect();
    tokio::spawn(async move { telegram.introduce_until_known(&owners).await });
    Ok(collected)
}

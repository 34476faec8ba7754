//! Notifications to the owner about the standby: that this machine took over, and problems that would prevent a takeover.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::clock;
use crate::config::Home;
use crate::pipeline::Pipeline;
use crate::standby;
use crate::standby::TakeOver;

/// Between two looks.
const LOOK: Duration = Duration::from_secs(60);
/// The owner is notified of an outage once in this time at most, however often the words change.
const AGAIN: Duration = Duration::from_secs(6 * 3600);
/// A takeover is told for so long, should nobody be reached before.
const NEWS_MS: i64 = 24 * 3_600_000;

/// Looks once a minute; ends with the pipeline.
pub(in crate::app::daemon) async fn tell(pipeline: Arc<Pipeline>, home: Home) {
    let mut told: Option<Instant> = None;
    loop {
        let now = clock::now_ms();
        // What cannot be read is told at the start, and by doctor.
        if let Some(record) = standby::read(&home).ok().flatten() {
            let taken = record.taken_over.as_ref();
            if let Some(taken) = taken.filter(|taken| now - taken.at < NEWS_MS) {
                // The same words are said once.
                let _ = pipeline.tell_loss(&words(taken)).await;
            }
            let is_due = told.is_none_or(|at| at.elapsed() >= AGAIN);
            if let Some(alarm) = record.alarm(now).filter(|_| is_due) {
                match pipeline.tell_loss(&alarm).await {
                    Ok(()) => told = Some(Instant::now()),
                    Err(error) => {
                        tracing::warn!(%error, "cannot notify the owner of the standby's state")
                    }
                }
            }
        }
        let pause = tokio::time::sleep(LOOK);
        let pause = pipeline.closing().run_until_cancelled(pause);
        if pause.await.is_none() {
            return;
        }
    }
}

fn words(taken: &TakeOver) -> String {
    let at = clock::rfc3339(taken.at);
    if taken.handed_over {
        return format!("this machine took over at {at}, as planned: nothing is missing");
    }
    format!(
        "this machine took over at {at}. What reached the other one after {} may be missing: send again what has no answer. \
         Answers that you may have had already are marked \"(resent)\"",
        clock::rfc3339(taken.copied_at)
    )
}

//! The timer of jobs and heartbeats.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::watchdog;
use crate::clock;
use crate::pipeline::Pipeline;

/// After a bug the jobs are looked at again after so long.
const AFTER_A_BUG_MS: i64 = 60_000;

/// Checks jobs and heartbeats until the daemon closes: when one is due, when one has changed, and at
/// intervals, so that clock jumps and suspends of the machine are noticed.
pub(super) async fn serve(pipeline: Arc<Pipeline>, mut watchdog: watchdog::Link) {
    let mut due = Instant::now();
    loop {
        tokio::select! {
            biased;
            () = pipeline.closing().cancelled() => return,
            () = pipeline.job_news() => {}
            () = watchdog.pass() => continue,
            () = tokio::time::sleep_until(due) => {}
        }
        let now = clock::now_ms();
        let looking = pipeline.clone();
        // A separate task: a bug in the scheduler must not crash the daemon repeatedly.
        let look_at = match tokio::spawn(async move { looking.tick(now).await }).await {
            Ok(look_at) => {
                pipeline.end_troubles("jobs");
                look_at
            }
            Err(panic) => {
                tracing::error!(%panic, "the job scheduler panicked");
                let words = "the job scheduler panicked; see `agent-send --log` and report it";
                pipeline.note_trouble_of("jobs", words);
                now + AFTER_A_BUG_MS
            }
        };
        due = Instant::now() + Duration::from_millis(u64::try_from(look_at - now).unwrap_or(0));
    }
}

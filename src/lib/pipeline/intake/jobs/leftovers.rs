//! Cleanup after deleted jobs: the conversation of the job, and the log of its runs.

use std::sync::Arc;

use crate::clock;
use crate::jobs::run_log;
use crate::message::SessionKey;
use crate::pipeline::Pipeline;

/// Nobody continues with the conversation of a job that is gone when so long nothing was said in it.
const REST_MS: i64 = 3_600_000;
/// How long it is still to be seen what came of a job that is gone.
const KEEP_RUNS_MS: i64 = 90 * 24 * 3_600_000;

impl Pipeline {
    /// Archives the conversations of jobs that are gone, and deletes the logs of their runs some time after the last.
    pub async fn tidy_jobs(self: &Arc<Self>, now: i64) {
        let Ok(jobs) = self.schedule.jobs.look() else {
            return;
        };
        let is_gone =
            |id: &str| jobs.get(id).is_none() && jobs.broken().all(|broken| broken.id != id);
        let before = clock::rfc3339(now - REST_MS);
        let at_rest = |key: &SessionKey| {
            !self.runs().contains_key(key) && !self.waiting.lock().contains_key(key)
        };
        for key in self.sessions.unused_since(&before) {
            let is_left = key.0.strip_prefix("job:").is_some_and(is_gone);
            // What cannot be moved now is told by the archive, and tried again.
            if is_left && at_rest(&key) && self.archive(&key).await.is_err() {
                return;
            }
        }
        let pruned = run_log::prune(&self.schedule.runs, is_gone, now - KEEP_RUNS_MS);
        if let Err(error) = pruned {
            tracing::warn!(%error, "cannot remove the logs of deleted jobs");
        }
    }
}

//! The time limit of a run: whatever it waits for is cancelled when the run is stopped or its time is over.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::ask_owner::Waiting;
use super::turn_loop::{Break, Running};
use crate::message::Step;

/// How often it is looked whether the time of a run is over while it waits for others.
const LOOK: Duration = Duration::from_millis(50);

impl Running<'_> {
    /// Waits for `work`, unless the run is stopped or its time is over: then the work is dropped.
    pub(super) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, Break> {
        tokio::select! {
            biased;
            () = self.order.cancel.cancelled() => Err(Break::Stopped),
            () = self.time_is_over() => Err(self.too_long()),
            done = Box::pin(work) => Ok(done),
        }
    }

    /// Waits for `work` as long as it takes, unless the run is stopped: a person's time is not the run's.
    pub(super) async fn without_hurry<T>(&self, work: impl Future<Output = T>) -> Result<T, Break> {
        let _lasting = self.context.others_time.begin();
        tokio::select! {
            biased;
            () = self.order.cancel.cancelled() => Err(Break::Stopped),
            done = Box::pin(work) => Ok(done),
        }
    }

    /// Waits for `work` as [`Running::in_time`], and has the owner answer what it asks meanwhile: their time is not the run's.
    pub(super) async fn in_time_with_questions<T>(
        &self,
        work: impl Future<Output = T>,
        questions: &mut mpsc::UnboundedReceiver<Waiting>,
    ) -> Result<T, Break> {
        let mut work = Box::pin(work);
        loop {
            let (asked, tell) = tokio::select! {
                biased;
                () = self.order.cancel.cancelled() => return Err(Break::Stopped),
                done = &mut work => return Ok(done),
                Some(question) = questions.recv() => question,
                () = self.time_is_over() => return Err(self.too_long()),
            };
            self.emit(Step::Asking);
            let lasting = self.context.others_time.begin();
            tokio::select! {
                biased;
                () = self.order.cancel.cancelled() => return Err(Break::Stopped),
                done = &mut work => return Ok(done),
                verdicts = self.order.owner.ask(std::slice::from_ref(&asked)) => {
                    // The one who asked may have given up just now.
                    let _ = verdicts.into_iter().next().map(|verdict| tell.send(verdict));
                }
            }
            drop(lasting);
            self.emit(Step::Decided);
        }
    }

    /// Returns when the time of the run is over. While it waits for others it is not.
    async fn time_is_over(&self) {
        loop {
            let end = self.deadline + self.context.others_time.total();
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.max(LOOK)).await;
        }
    }

    fn too_long(&self) -> Break {
        let limit = self.agent.limits.run_timeout.as_secs();
        match self.order.bounds {
            Some(bounds) => {
                Break::TooLong(format!("it took longer than its {} s", bounds.timeout_secs))
            }
            None => Break::TooLong(format!(
                "the turn took longer than [agent] run_timeout_secs = {limit}"
            )),
        }
    }
}

//! The time limit of a run: whatever it waits for is cancelled when the run is stopped or its time is over.

use std::time::{Duration, Instant};

use tokio::sync::mpsc;

use super::ask_owner::Waiting;
use super::turn_loop::{Break, Running};
use crate::message::Step;

impl Running<'_> {
    /// Waits for `work`, unless the run is stopped or its time is over: then the work is dropped.
    pub(super) async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, Break> {
        tokio::select! {
            biased;
            () = self.order.cancel.cancelled() => Err(Break::Stopped),
            () = tokio::time::sleep_until(self.deadline.into()) => Err(self.too_long()),
            done = Box::pin(work) => Ok(done),
        }
    }

    /// Waits for `work` as long as it takes, unless the run is stopped: a person's time is not the run's.
    pub(super) async fn without_hurry<T>(
        &mut self,
        work: impl Future<Output = T>,
    ) -> Result<T, Break> {
        let began = Instant::now();
        let done = tokio::select! {
            biased;
            () = self.order.cancel.cancelled() => Err(Break::Stopped),
            done = Box::pin(work) => Ok(done),
        };
        self.deadline += began.elapsed();
        done
    }

    /// Waits for `work` as [`Running::in_time`], and has the owner answer what it asks meanwhile. Returns, too,
    /// how long they took: that is not the run's time.
    pub(super) async fn in_time_with_questions<T>(
        &self,
        work: impl Future<Output = T>,
        questions: &mut mpsc::UnboundedReceiver<Waiting>,
    ) -> (Result<T, Break>, Duration) {
        let mut work = Box::pin(work);
        let mut waited = Duration::ZERO;
        let done = loop {
            let (asked, tell) = tokio::select! {
                biased;
                () = self.order.cancel.cancelled() => break Err(Break::Stopped),
                done = &mut work => break Ok(done),
                Some(question) = questions.recv() => question,
                () = tokio::time::sleep_until((self.deadline + waited).into()) => break Err(self.too_long()),
            };
            self.emit(Step::Asking);
            let began = Instant::now();
            tokio::select! {
                biased;
                () = self.order.cancel.cancelled() => break Err(Break::Stopped),
                done = &mut work => break Ok(done),
                verdicts = self.order.owner.ask(std::slice::from_ref(&asked)) => {
                    // The one who asked may have given up just now.
                    let _ = verdicts.into_iter().next().map(|verdict| tell.send(verdict));
                }
            }
            self.emit(Step::Decided);
            waited += began.elapsed();
        };
        (done, waited)
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

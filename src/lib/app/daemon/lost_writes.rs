//! Detects at the start that a database has lost committed data, which SQLite itself does not report.

use std::path::Path;
use std::sync::Arc;

use crate::config::Home;
use crate::cost::Ledger;
use crate::pipeline::Pipeline;
use crate::{clock, db, monitor_state, queue, sys, text};

/// What was lost.
pub(super) struct Losses {
    /// monitor.json as the last daemon left it.
    before: Option<monitor_state::State>,
    lost: Vec<String>,
}

impl Losses {
    /// Looks at the logs of the queue and the ledger, which nobody has opened yet.
    ///
    /// # Errors
    /// When a log cannot be read or copied.
    pub(super) fn before_opening(home: &Home) -> Result<Self, sys::Error> {
        let mut lost = Vec::new();
        for path in [home.queue_db(), home.cost_db()] {
            lost.extend(damaged_log(&path)?);
        }
        let before = monitor_state::read(&home.monitor()).ok().flatten();
        Ok(Self { before, lost })
    }

    /// Adds what opening found.
    pub(super) fn add(&mut self, loss: Option<String>) {
        self.lost.extend(loss);
    }

    /// Tells the owner. A queue of which nothing else is known is asked for the newest input of the last daemon.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub(super) async fn tell(
        mut self,
        pipeline: &Arc<Pipeline>,
        ledger: &Ledger,
    ) -> Result<(), db::Error> {
        if self.lost.is_empty() {
            let missing = missing_inputs(
                self.before.as_ref(),
                pipeline.newest_input(),
                clock::now_ms(),
            );
            if let Some(missing) = missing {
                tracing::error!("{missing}");
                self.lost.push(missing);
            }
        }
        self.lost
            .extend(lost_costs(self.before.as_ref(), ledger).await?);
        for loss in &self.lost {
            pipeline.tell_loss(loss).await?;
        }
        Ok(())
    }
}

/// Returns what to say of a log at `path` behind whose damage transactions are lost. It is kept as a copy, and what is whole
/// of it enters the database: SQLite writes on in the same log, over a part of what is lost.
///
/// # Errors
/// When the log cannot be read or copied.
fn damaged_log(path: &Path) -> Result<Option<String>, sys::Error> {
    let log = db::beside(path, "-wal");
    let lost = db::lost_transactions(path).map_err(sys::Error::at("read", &log))?;
    if lost == 0 {
        return Ok(None);
    }
    let kept = db::beside(path, &format!(".corrupt-{}-wal", clock::now_ms()));
    std::fs::copy(&log, &kept).map_err(sys::Error::at("copy", &log))?;
    // A database that is damaged, too, is seen by who opens it next.
    let _ = db::empty_log(path);
    let loss = format!(
        "{} was damaged and lost {} at least; as it was it is kept as {}. Messages that came just before the end and have no \
         answer are to be sent again",
        log.display(),
        text::counted(lost, "transaction"),
        kept.display()
    );
    tracing::error!("{loss}");
    Ok(Some(loss))
}

/// Counts what the last daemon had spent on its last day when the ledger knows of no call, and returns what to say of it: the
/// limits of that day and month hold on.
async fn lost_costs(
    before: Option<&monitor_state::State>,
    ledger: &Ledger,
) -> Result<Option<String>, db::Error> {
    let Some(before) = before.filter(|before| before.today_cost_usd > 0.0) else {
        return Ok(None);
    };
    let spent = before.today_cost_usd;
    let at = clock::parse_rfc3339(&before.updated_at).unwrap_or_else(clock::now_ms);
    let is_lost = ledger.count_earlier(spent, at).await?;
    Ok(is_lost.then(|| {
        let loss = format!(
            "cost.db was removed or emptied: it knew of no call. The ${spent:.4} of the last day before that are counted \
             again, what was spent earlier is not in the sums and limits any more"
        );
        tracing::error!("{loss}");
        loss
    }))
}

/// Returns what to say when the last daemon had accepted an input that queue.db no longer knows; `newest` is the newest that
/// it knows.
fn missing_inputs(
    before: Option<&monitor_state::State>,
    newest: (i64, i64),
    now: i64,
) -> Option<String> {
    let before = before?;
    let (accepted, at) = before.newest_input;
    let keep = i64::try_from(queue::KEEP.as_millis()).unwrap_or(i64::MAX);
    // What is older may have been pruned, also by a clock that was ahead.
    let pruned_at = now.max(before.pruned_at);
    let missing = accepted - newest.0;
    (missing > 0 && pruned_at.saturating_sub(at) < keep).then(|| {
        format!(
            "queue.db lost {} that had been accepted, the last at {}: queue.db-wal or queue.db was removed, damaged or \
             replaced by an older one. Messages that have no answer are to be sent again",
            text::counted(missing, "input"),
            clock::rfc3339(at)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_that_is_gone_is_told_unless_it_may_have_been_pruned() {
        let day = 24 * 3_600_000;
        let before = monitor_state::State {
            newest_input: (15, 100 * day),
            ..monitor_state::State::default()
        };
        let told = |newest, now| missing_inputs(Some(&before), newest, now);
        assert_eq!(told((15, 100 * day), 101 * day), None);
        assert_eq!(
            told((16, 101 * day), 101 * day),
            None,
            "accepted after the last look"
        );
        let words = told((12, 99 * day), 101 * day).expect("told");
        assert!(words.contains("lost 3 inputs"), "{words}");
        assert!(told((0, 0), 101 * day).is_some(), "a new queue.db");
        assert_eq!(told((0, 0), 115 * day), None, "pruned");
        let pruned_at = |pruned_at| monitor_state::State {
            pruned_at,
            ..before.clone()
        };
        let told = |before| missing_inputs(Some(&before), (0, 0), 101 * day);
        assert_eq!(told(pruned_at(3650 * day)), None, "the clock was ahead");
        assert!(told(pruned_at(101 * day)).is_some());
        assert_eq!(missing_inputs(None, (0, 0), 0), None);
    }
}

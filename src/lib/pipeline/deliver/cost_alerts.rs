//! Notifies the owner of how far the limits of `[cost]` are used: once, without a model, no matter which process paid.

use std::sync::Arc;

use crate::cost::Ledger;
use crate::pipeline::{Pipeline, SETTINGS};
use crate::{clock, db};

impl Pipeline {
    /// Tells the owner what `ledger` noted and they do not know yet. Each alert has a key in the queue that is
    /// never taken twice, so a crash in between tells nothing again.
    ///
    /// # Errors
    /// See [`db::Error`]; then it is to be tried again.
    pub async fn tell_alerts(self: &Arc<Self>, ledger: &Ledger) -> Result<(), db::Error> {
        let untold = ledger.untold().await?;
        if untold.is_empty() {
            return Ok(());
        }
        let way = self
            .way_to_owner(&self.live().config, &self.everybody().await?)
            .map(|(_, route)| route);
        let now = clock::now_ms();
        for alert in &untold {
            // Of steps that were taken at once the highest says it all.
            let is_outdone = untold
                .iter()
                .any(|other| other.span == alert.span && other.percent > alert.percent);
            if !is_outdone {
                tracing::warn!("{}", alert.text());
            }
            match way.as_ref().filter(|_| !is_outdone) {
                Some(route) => {
                    self.tell_owner(alert.key(), "cost", alert.text(), route)
                        .await?;
                }
                None if is_outdone => {}
                None => self.note_trouble_of(SETTINGS, &alert.text()),
            }
            ledger.told(alert, now).await?;
        }
        Ok(())
    }
}

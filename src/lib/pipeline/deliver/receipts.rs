//! Delivery results from a channel process: on disk before its line is removed.

use crate::control::{Outcome, Receipt};
use crate::db;
use crate::pipeline::Pipeline;
use crate::queue::Part;
use crate::{clock, text};

impl Pipeline {
    /// Takes word of what became of a message. An arrival is on disk when this returns; what did not arrive stays as it
    /// was until it is tried again, or given up. Returns why the word makes no sense; word of what is over already does.
    ///
    /// # Errors
    /// See [`db::Error`]; the line must stay.
    pub async fn take_receipt(&self, receipt: &Receipt) -> Result<Option<String>, db::Error> {
        let Some(channel) = self.channels.get(&receipt.channel).cloned() else {
            return Ok(Some(format!("the channel {} is off", receipt.channel)));
        };
        let key = &receipt.key;
        let outcome = receipt.outcome();
        // A notice has no row, and nobody but who sent it knows it.
        if let Some(part) = Part::of_key(key) {
            let name = receipt.channel.clone();
            if !self.queue.is_part_of(part, name.clone()).await? {
                return Ok(Some(format!(
                    "the channel {name} was given no message {}",
                    text::shorten(&text::visible(key), 64)
                )));
            }
            if let Outcome::Arrived(id) = &outcome {
                let now = clock::now_ms();
                let is_new = self.queue.arrived(part, name, id.clone(), now).await?;
                if is_new {
                    self.plan_news.notify_one();
                } else {
                    // The message may have been given up and have arrived nevertheless.
                    tracing::info!(key, "late receipt: the message had already been completed");
                }
            }
        }
        tokio::task::block_in_place(|| channel.acknowledge(key, outcome));
        Ok(None)
    }
}

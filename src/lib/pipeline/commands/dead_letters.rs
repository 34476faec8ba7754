//! Retrying and dropping dead letters: `agent-send --queue retry|drop`, `/retry`, the buttons of a notice.

use std::sync::Arc;

use crate::clock;
use crate::message::{Button, Command, DeadLetters, Envelope, Source};
use crate::pipeline::persist::Recorded;
use crate::pipeline::turn::outcome::is_unheard;
use crate::pipeline::{Pipeline, Signal};
use crate::queue::Which;

/// Returns the buttons below the notice of dead letter `letter`.
pub(crate) fn buttons(letter: &str) -> Vec<Vec<Button>> {
    let button = |label: &str, action: DeadLetters| Button {
        label: label.to_owned(),
        data: action.data(letter),
    };
    vec![vec![
        button("🔁 Retry", DeadLetters::Retry),
        button("Dismiss", DeadLetters::Drop),
    ]]
}

impl Pipeline {
    /// Retries or drops `letter`, `all` of them, or without one those of the conversation; of guests only their
    /// own. The inner error is said as well.
    pub(crate) async fn settle_dead(
        self: &Arc<Self>,
        envelope: &Envelope,
        action: DeadLetters,
        letter: Option<&str>,
    ) -> Recorded<Result<String, String>> {
        let own = !envelope.from_owner || letter.is_none();
        let which = Which {
            letter: letter.filter(|letter| *letter != "all").map(str::to_owned),
            session: own.then(|| envelope.session_key.0.clone()),
        };
        let count = match action {
            DeadLetters::Retry => {
                self.readdress(&which).await?;
                let retry = || self.queue.retry_dead(which.clone());
                let retried = self.persist("a retried dead letter", retry).await?;
                let count = retried.inbox.len() + retried.outbox.len();
                self.deliver(retried.outbox);
                let _ = self.signals.send(Signal::Accepted(retried.inbox));
                count
            }
            DeadLetters::Drop => {
                let drop_dead = || self.queue.drop_dead(which.clone());
                self.persist("a dropped dead letter", drop_dead).await?
            }
        };
        self.changed.notify_one();
        let done = match action {
            DeadLetters::Retry => "Retrying",
            DeadLetters::Drop => "Dropped",
        };
        let heard = match (count, letter) {
            (0, None | Some("all")) => Ok("There is no dead letter.".to_owned()),
            (0, Some(letter)) => Err(format!("no dead letter {letter:?}")),
            (1, _) => Ok(format!("{done} 1 message.")),
            (count, _) => Ok(format!("{done} {count} messages.")),
        };
        if let (Some(letter), Ok(text)) = (letter, &heard)
            && envelope.press.is_some()
        {
            self.close_question(letter, |_| text.to_owned()).await;
        }
        Ok(heard)
    }

    /// Looks again who hears of dead letters that nobody could hear when they came.
    async fn readdress(&self, which: &Which) -> Recorded<()> {
        let read = || self.queue.dead_inputs(which.clone());
        let dead = self.persist("a retried dead letter", read).await?;
        let mut readdressed = Vec::new();
        for letter in dead {
            let is_refused = matches!(letter.command, Some(Command::Refused { .. }));
            readdressed.extend(match letter.source {
                Source::Job if is_refused => self.job_again(&letter, clock::now_ms()).await,
                Source::Notify if is_unheard(&letter) => self.event_again(letter).await,
                _ => None,
            });
        }
        if readdressed.is_empty() {
            return Ok(());
        }
        let write = || self.queue.readdress_dead(readdressed.clone());
        self.persist("a retried dead letter", write).await
    }
}

//! Retries of failed sends: the consequence of each outcome, and the pause before the next attempt.

use std::time::Duration;

use crate::channel::SendError;
use crate::pipeline::Pipeline;
use crate::queue::{Aftermath, Part, Postponed};
use crate::{clock, net};

/// The backoff after a failed send: the first pause, and the longest one (specification §6).
const BACKOFF: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(30));

/// A channel that asks for a longer pause is named in the status.
const NAMED: Duration = Duration::from_secs(60);

/// What follows a try to send.
pub(super) enum Next {
    /// The part is sent, or given up.
    Over,
    /// It is tried again after this long.
    Again(Duration),
}

impl Pipeline {
    /// Records how a try to send ended, and says what follows.
    pub(super) async fn after_send(
        &self,
        part: &mut Part,
        sent: Result<String, SendError>,
        failures: u32,
    ) -> Next {
        let backoff = net::backoff(failures, BACKOFF.0, BACKOFF.1);
        let sending = format!("sending by {}", part.content.route.channel);
        let (aftermath, wait) = match sent {
            Ok(message_id) => {
                self.end_troubles(&sending);
                self.settle(part, Aftermath::Sent { message_id }).await;
                return Next::Over;
            }
            Err(SendError::Never {
                reason,
                chat_is_there,
            }) => {
                self.dead_letter(part, &reason).await;
                if chat_is_there {
                    self.say_part_missing(part).await;
                }
                return Next::Over;
            }
            Err(SendError::Markup(reason)) => {
                tracing::warn!(reason, "an answer is sent as plain text");
                part.content.markup = None;
                (Aftermath::Plain, Duration::ZERO)
            }
            Err(SendError::NotSent {
                reason,
                retry_after,
            }) => {
                if retry_after.is_none() && self.is_postponed(part, &reason).await {
                    return Next::Over;
                }
                tracing::warn!(reason, "an answer was not sent; it is tried again");
                if let Some(wait) = retry_after.filter(|wait| *wait > NAMED) {
                    let wait = i64::try_from(wait.as_millis()).unwrap_or(i64::MAX);
                    let until = clock::now_ms().saturating_add(wait);
                    let until = clock::local_stamp(until, self.live().config.agent.timezone.0);
                    let words = format!("{sending} waits until {until}, as asked for: {reason}");
                    self.set_trouble(&sending, Some(&words));
                }
                (Aftermath::NotSent, retry_after.unwrap_or(backoff))
            }
            Err(SendError::Unknown(reason)) => {
                tracing::warn!(reason, "it is unknown whether an answer arrived");
                part.unknowns += 1;
                (Aftermath::Unknown, backoff)
            }
        };
        self.settle(part, aftermath).await;
        Next::Again(wait)
    }

    /// Gives a part of a plan that surely did not arrive back to its task; false when there is none.
    async fn is_postponed(&self, part: &Part, reason: &str) -> bool {
        let Some(task) = part.task else { return false };
        let postpone = || self.queue.postpone(part.id, reason, clock::now_ms());
        // Unrecorded, it is tried again as any other part.
        let postponed = self.persist("a send that failed", postpone).await;
        let postponed = postponed.unwrap_or(Postponed::No);
        if postponed == Postponed::No {
            return false;
        }
        self.outgoing.forget_task(&part.content.route, task);
        self.plan_news.notify_one();
        tracing::warn!(reason, "a message of a plan was not sent");
        if postponed == Postponed::GivenUp {
            self.note_trouble(&format!("a plan was given up: send: {reason}"));
            let reason = reason.to_owned();
            self.audit_send(part, &Aftermath::Dead { reason });
            self.say_part_missing(part).await;
        }
        true
    }
}

//! Accepts requests of the HTTP API: commands like those of the shell, but an invalid one is refused at once and not stored,
//! because the caller is waiting for the answer.

use super::shell::Input;
use crate::control;
use crate::control::Order;
use crate::message::{Command, Source};
use crate::pipeline::Pipeline;
use crate::queue::Known;
use crate::{clock, db};

/// Why a request is not taken in.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It makes no sense.
    #[error("{0}")]
    Unfit(String),
    /// Its id is that of another request.
    #[error("this Idempotency-Key belongs to another request")]
    Other,
    /// It could not be stored; nothing of it was.
    #[error("{0}")]
    Store(#[from] db::Error),
}

impl Pipeline {
    /// Takes a request in, whose content has this digest: when it returns, the request is on disk, or was
    /// before.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn take_request(&self, order: &Order, digest: &str) -> Result<(), Refusal> {
        if self.is_taken(order, digest).await? {
            return Ok(());
        }
        let (live, now) = (self.live(), clock::now_ms());
        let known = self.people_for(std::slice::from_ref(order)).await?;
        let input = Input {
            id: order.id.as_str(),
            now,
            door: Source::Http,
        };
        let envelopes = self.envelopes(order, &input, &live, &known);
        let is_chat = matches!(order.command, control::Command::User { .. });
        match envelopes
            .first()
            .and_then(|envelope| envelope.command.as_ref())
        {
            Some(Command::Refused { reason } | Command::Slip { question: reason }) => {
                return Err(Refusal::Unfit(reason.clone()));
            }
            // What a client passes on may not be its own words; an answer to a question has a way of its own.
            Some(Command::Approval { .. }) if is_chat => {
                return Err(Refusal::Unfit(
                    "a message decides nothing: POST /api/v1/approvals/ID".to_owned(),
                ));
            }
            _ => {}
        }
        let taken = vec![(&order.id, digest.to_owned(), envelopes)];
        if self.accept(taken, now).await? == 0 {
            // Another request of this key came in between.
            self.is_taken(order, digest).await?;
        }
        Ok(())
    }

    /// Returns true when this request was accepted before.
    ///
    /// # Errors
    /// [`Refusal::Other`] when its id is that of another request.
    pub async fn is_taken(&self, order: &Order, digest: &str) -> Result<bool, Refusal> {
        match self.known_as(&order.id, digest).await? {
            Known::New => Ok(false),
            Known::Same => Ok(true),
            Known::Other => Err(Refusal::Other),
        }
    }

    /// Returns the conversation of the API in which a request was answered; `None` for no such one.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn session_of_request(&self, id: &control::Id) -> Result<Option<String>, db::Error> {
        let key = self.queue.session_of(id.as_str()).await?;
        Ok(key.filter(|key| key.starts_with("http:")))
    }

    /// Returns the id of the request that said the same since `since`: one that still runs, or with `ended` also
    /// one that does not.
    ///
    /// # Errors
    /// See [`db::Error`].
    pub async fn said_already(
        &self,
        digest: &str,
        since: i64,
        ended: bool,
    ) -> Result<Option<control::Id>, db::Error> {
        let id = self.queue.said_already(digest, since, ended).await?;
        Ok(id.as_deref().and_then(control::Id::parse))
    }
}

//! Requests of the HTTP API taken in: orders like those of the shell, but what makes no sense is refused at
//! once and stored nowhere, because whoever asked is still there to hear why.

use super::shell::Input;
use crate::control;
use crate::control::Order;
use crate::message::{Command, Source};
use crate::pipeline::Pipeline;
use crate::{clock, db};

/// Why a request is not taken in.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// It makes no sense.
    #[error("{0}")]
    Unfit(String),
    /// It could not be stored; nothing of it was.
    #[error("{0}")]
    Store(#[from] db::Error),
}

impl Pipeline {
    /// Takes a request in: when it returns, the request is on the disk, or was before.
    ///
    /// # Errors
    /// See [`Refusal`].
    pub async fn take_request(&self, order: &Order) -> Result<(), Refusal> {
        if self.knows(&order.id).await? {
            return Ok(());
        }
        let (live, now) = (self.live(), clock::now_ms());
        let known = self.known(std::slice::from_ref(order)).await?;
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
            Some(Command::Refused { reason }) => return Err(Refusal::Unfit(reason.clone())),
            // What a client passes on may not be its own words; an answer to a question has a way of its own.
            Some(Command::Approval { .. }) if is_chat => {
                return Err(Refusal::Unfit(
                    "a message decides nothing: POST /api/v1/approvals/ID".to_owned(),
                ));
            }
            _ => {}
        }
        Ok(self.accept(vec![(&order.id, envelopes)], now).await?)
    }
}

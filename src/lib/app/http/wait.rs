//! Waits for the answer to an accepted message. When the caller stops waiting, the message is still processed, and its
//! answer can be fetched later.

use std::time::Duration;

use hyper::StatusCode;
use serde::Serialize;

use super::Api;
use super::error::ApiError;
use crate::app::documents;
use crate::control::Id;
use crate::control::replies;
use crate::control::replies::{Reply, STOPPED};

/// How often queue.db, which is the record, is read without an event.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// The answer to a message.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Answer {
    /// The agent's words; empty when it chose silence.
    pub(super) reply: String,
    /// The session it was answered in; `null` for what needed none.
    session_id: Option<String>,
    /// The run that answered it.
    pub(super) run_id: Option<String>,
    /// All tokens of the run.
    pub(super) tokens: Option<u64>,
    /// US dollars; `null` when a call was unpriced.
    cost_usd: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    silent: Option<bool>,
    /// What the tools of the run did in the world.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    receipts: Vec<String>,
    /// The id to ask for it again.
    pub(super) id: String,
    #[serde(skip)]
    pub(super) output_tokens: Option<u64>,
}

/// Returns the answer of a final reply.
///
/// # Errors
/// When the message failed, was stopped, or was not carried out.
pub(super) fn outcome(reply: Reply) -> Result<Answer, ApiError> {
    let Some(error) = reply.error else {
        return Ok(Answer {
            reply: reply.reply.unwrap_or_default(),
            session_id: reply.session_id,
            run_id: reply.run_id,
            tokens: reply.tokens,
            cost_usd: reply.cost_usd,
            silent: reply.silent,
            receipts: reply.receipts,
            id: reply.id,
            output_tokens: reply.output_tokens,
        });
    };
    let refusal = match reply.run_id {
        _ if error == STOPPED => {
            ApiError::new(StatusCode::CONFLICT, "stopped", "the run was cancelled")
        }
        Some(run_id) => ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error)
            .hint("GET /api/v1/status shows the last error")
            .with("run_id", run_id)
            .with("session_id", reply.session_id)
            .with("receipts", reply.receipts),
        None => ApiError::new(StatusCode::CONFLICT, "declined", error),
    };
    Err(refusal.with("id", reply.id).final_word())
}

/// What is new about a message.
pub(super) enum Update {
    /// Its reply may have changed.
    Got(Option<Box<Reply>>),
    /// The daemon stops; the reply comes after its next start.
    Closing,
}

/// Waits for the reply to one message.
pub(super) struct ReplyWatch<'a> {
    api: &'a Api,
    id: &'a Id,
}

impl<'a> ReplyWatch<'a> {
    pub(super) fn new(api: &'a Api, id: &'a Id) -> Self {
        Self { api, id }
    }

    /// Returns the answer when it is final.
    ///
    /// # Errors
    /// When it cannot be read, or the daemon ends before it is there.
    pub(super) async fn end(&self) -> Result<Reply, ApiError> {
        let mut reply = documents::reply(&self.api.home, self.id)?.map(Box::new);
        loop {
            match reply {
                Some(reply) if reply.is_final() => return Ok(*reply),
                _ => {}
            }
            reply = match self.next(POLL_INTERVAL).await? {
                Update::Got(reply) => reply,
                Update::Closing => return Err(self.closing()),
            };
        }
    }

    /// Waits for an event or for `timeout`, and returns the reply so far.
    ///
    /// # Errors
    /// When the answer cannot be read.
    pub(super) async fn next(&self, timeout: Duration) -> Result<Update, ApiError> {
        let told = self.api.pipeline.answered().notified();
        tokio::pin!(told);
        told.as_mut().enable();
        // What was written since the last read sends no event.
        let there = self.file()?;
        if there.as_ref().is_some_and(|reply| reply.is_final()) {
            return Ok(Update::Got(there));
        }
        tokio::select! {
            () = told => self.file().map(Update::Got),
            () = tokio::time::sleep(timeout) => {
                let known = if timeout < POLL_INTERVAL { self.file()? } else { documents::reply(&self.api.home, self.id)?.map(Box::new) };
                Ok(Update::Got(known))
            }
            () = self.api.shutdown.cancelled() => match documents::reply(&self.api.home, self.id)? {
                Some(reply) if reply.is_final() => Ok(Update::Got(Some(Box::new(reply)))),
                _ => Ok(Update::Closing),
            },
        }
    }

    fn file(&self) -> Result<Option<Box<Reply>>, ApiError> {
        let reply = replies::read(&self.api.home.replies(), self.id)
            .map_err(crate::app::cli::Failure::from)?;
        Ok(reply.map(Box::new))
    }

    /// Returns the error when the daemon stops first.
    pub(super) fn closing(&self) -> ApiError {
        let id = self.id.as_str();
        ApiError::closing()
            .hint(format!(
                "the message is kept and answered after the next start: GET /api/v1/replies/{id}"
            ))
            .with("id", id)
            .final_word()
    }
}

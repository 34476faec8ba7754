//! Waiting for the answer of a message that was taken in. Whoever stops waiting changes nothing: the message
//! goes on, and its answer stays where it can be asked for.

use std::time::Duration;

use hyper::StatusCode;
use serde::Serialize;

use super::Api;
use super::error::Refusal;
use crate::app::documents;
use crate::control::Id;
use crate::control::replies;
use crate::control::replies::{Reply, STOPPED};

/// Without news the queue, which is the record, is looked at this often.
const LOOK: Duration = Duration::from_secs(1);

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
    /// By what it is asked for again.
    pub(super) id: String,
    #[serde(skip)]
    pub(super) output_tokens: Option<u64>,
}

/// Returns the answer that `reply` is.
///
/// # Errors
/// When the message failed, was stopped, or was not carried out.
pub(super) fn outcome(reply: Reply) -> Result<Answer, Refusal> {
    let Reply {
        id,
        reply,
        session_id,
        run_id,
        tokens,
        output_tokens,
        cost_usd,
        silent,
        receipts,
        error,
        ..
    } = reply;
    let Some(error) = error else {
        let reply = reply.unwrap_or_default();
        return Ok(Answer {
            reply,
            session_id,
            run_id,
            tokens,
            cost_usd,
            silent,
            receipts,
            id,
            output_tokens,
        });
    };
    let refusal = match run_id {
        _ if error == STOPPED => Refusal::new(StatusCode::CONFLICT, "stopped", "it was stopped"),
        Some(run_id) => Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "failed", error)
            .hint("GET /api/v1/status shows the last trouble")
            .with("run_id", run_id)
            .with("session_id", session_id)
            .with("receipts", receipts),
        None => Refusal::new(StatusCode::CONFLICT, "declined", error),
    };
    Err(refusal.with("id", id).final_word())
}

/// What is new of a message.
pub(super) enum News {
    /// Its answer got further, or may have.
    Got(Option<Box<Reply>>),
    /// The daemon ends, and the answer comes after its next start.
    Over,
}

/// Looks at the answer of one message.
pub(super) struct Watch<'a> {
    api: &'a Api,
    id: &'a Id,
}

impl<'a> Watch<'a> {
    pub(super) fn new(api: &'a Api, id: &'a Id) -> Self {
        Self { api, id }
    }

    /// Returns the answer when it is final.
    ///
    /// # Errors
    /// When it cannot be read, or the daemon ends before it is there.
    pub(super) async fn end(&self) -> Result<Reply, Refusal> {
        let mut reply = documents::reply(&self.api.home, self.id)?.map(Box::new);
        loop {
            match reply {
                Some(reply) if reply.is_final() => return Ok(*reply),
                _ => {}
            }
            reply = match self.next(LOOK).await? {
                News::Got(reply) => reply,
                News::Over => return Err(self.over()),
            };
        }
    }

    /// Waits for news, or for `patience`, and returns what is known then.
    ///
    /// # Errors
    /// When the answer cannot be read.
    pub(super) async fn next(&self, patience: Duration) -> Result<News, Refusal> {
        let told = self.api.pipeline.answered().notified();
        tokio::pin!(told);
        told.as_mut().enable();
        // What was written between two looks tells nobody.
        let there = self.file()?;
        if there.as_ref().is_some_and(|reply| reply.is_final()) {
            return Ok(News::Got(there));
        }
        tokio::select! {
            () = told => self.file().map(News::Got),
            () = tokio::time::sleep(patience) => {
                let known = if patience < LOOK { self.file()? } else { documents::reply(&self.api.home, self.id)?.map(Box::new) };
                Ok(News::Got(known))
            }
            () = self.api.over.cancelled() => match documents::reply(&self.api.home, self.id)? {
                Some(reply) if reply.is_final() => Ok(News::Got(Some(Box::new(reply)))),
                _ => Ok(News::Over),
            },
        }
    }

    fn file(&self) -> Result<Option<Box<Reply>>, Refusal> {
        let reply = replies::read(&self.api.home.replies(), self.id)
            .map_err(crate::app::cli::Failure::from)?;
        Ok(reply.map(Box::new))
    }

    /// Returns what is said when the daemon ends first.
    pub(super) fn over(&self) -> Refusal {
        let id = self.id.as_str();
        Refusal::closing()
            .hint(format!(
                "the message is kept and answered after the next start: GET /api/v1/replies/{id}"
            ))
            .with("id", id)
            .final_word()
    }
}

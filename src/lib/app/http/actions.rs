//! Orders beside messages: begin a conversation anew, stop, decide what the agent asked for.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::error::Refusal;
use super::wait::{Watch, outcome};
use super::{Api, body, chat};
use crate::app::documents;
use crate::control::{Command, Order};
use crate::message::Approval;

/// How long it is waited for. A stop takes 2 s at most (specification §5); a reset waits for the turn that
/// runs.
const PATIENCE: Duration = Duration::from_secs(10);

/// What `sessions/reset` takes.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `target`")]
pub(super) struct Reset {
    target: String,
}

/// What `stop` takes.
#[derive(Debug, Default, Deserialize)]
#[serde(expecting = "an object, with `session` or empty")]
pub(super) struct Stop {
    session: Option<String>,
}

/// What a decision takes.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `verdict`")]
pub(super) struct Word {
    verdict: Approval,
    why: Option<String>,
}

pub(super) async fn reset(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, Refusal> {
    let id = body::id(request.headers())?;
    let Reset { target } = body::json(request).await?;
    give(
        &api,
        Order {
            id,
            answer: true,
            command: Command::Reset { target },
        },
    )
    .await
}

pub(super) async fn stop(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, Refusal> {
    let id = body::id(request.headers())?;
    let Stop { session } = body::json_or_nothing(request).await?;
    give(
        &api,
        Order {
            id,
            answer: true,
            command: Command::Stop { session },
        },
    )
    .await
}

pub(super) async fn decide(
    State(api): State<Arc<Api>>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, Refusal> {
    let asked = path
        .map_err(|_| Refusal::not_found("no request has this id"))?
        .0;
    let id = body::id(request.headers())?;
    let Word { verdict, why } = body::json(request).await?;
    // With the key of a request that was decided comes the same answer; any other id waits, or is none.
    let waits = || {
        Ok::<_, Refusal>(
            documents::queue(&api.home)?
                .approvals
                .iter()
                .any(|one| one.id == asked),
        )
    };
    if !api.pipeline.knows(&id).await.map_err(Refusal::not_stored)? && !waits()? {
        return Err(
            Refusal::not_found("nothing waits for your word under this id")
                .hint("GET /api/v1/approvals"),
        );
    }
    give(
        &api,
        Order {
            id,
            answer: true,
            command: Command::Approval {
                request: asked,
                verdict,
                why,
            },
        },
    )
    .await
}

/// Gives an order and returns what came of it, or that it was accepted and takes longer.
async fn give(api: &Api, order: Order) -> Result<Response, Refusal> {
    let id = order.id.clone();
    chat::take(api, order, Vec::new()).await?;
    match tokio::time::timeout(PATIENCE, Watch::new(api, &id).end()).await {
        Ok(reply) => {
            let answer = outcome(reply?)?;
            Ok(Json(json!({"reply": answer.reply, "id": answer.id})).into_response())
        }
        Err(_) => Ok((
            StatusCode::ACCEPTED,
            Json(json!({"accepted": true, "id": id.as_str()})),
        )
            .into_response()),
    }
}

//! Actions beside messages: reset a session, stop a run, decide an approval.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::error::ApiError;
use super::wait::{ReplyWatch, outcome};
use super::{Api, body, chat};
use crate::app::documents;
use crate::control::{Command, Id, Order};
use crate::message::{Approval, DeadLetters, JobOrder};

/// How long a request waits for the result. A stop takes 2 s at most (specification §5); a reset
/// waits for the running turn.
const ACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The body of `sessions/reset`.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `target`")]
pub(super) struct Reset {
    target: String,
}

/// The body of `stop`.
#[derive(Debug, Default, Deserialize)]
#[serde(expecting = "an object, with `session` or empty")]
pub(super) struct Stop {
    session: Option<String>,
}

/// The body of a decision.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `verdict`")]
pub(super) struct Decision {
    verdict: Approval,
    why: Option<String>,
}

pub(super) async fn reset(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiError> {
    let id = body::id(request.headers())?;
    let Reset { target } = body::json(request).await?;
    run_command(&api, id, Command::Reset { target }).await
}

pub(super) async fn stop(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiError> {
    let id = body::id(request.headers())?;
    let Stop { session } = body::json_or_nothing(request).await?;
    run_command(&api, id, Command::Stop { session }).await
}

/// The body of `forget`. Erasing for good needs a daemon that is down, so it is the shell's.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `target`")]
pub(super) struct Forget {
    target: String,
}

/// The body of an order about a dead letter.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `action`")]
pub(super) struct Letter {
    action: DeadLetters,
}

/// The body of an order about a job.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `op`")]
pub(super) struct JobChange {
    op: Op,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Op {
    Run,
    Pause,
    Resume,
    Remove,
}

pub(super) async fn forget(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiError> {
    let id = body::id(request.headers())?;
    let Forget { target } = body::json(request).await?;
    let command = Command::Forget {
        target,
        hard: false,
    };
    run_command(&api, id, command).await
}

pub(super) async fn settle(
    State(api): State<Arc<Api>>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let Path(letter) = path.map_err(|_| ApiError::not_found("no dead letter has this id"))?;
    let id = body::id(request.headers())?;
    let Letter { action } = body::json(request).await?;
    run_command(&api, id, Command::DeadLetters { action, letter }).await
}

pub(super) async fn change_job(
    State(api): State<Arc<Api>>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let Path(job) = path.map_err(|_| ApiError::not_found("no job has this id"))?;
    let id = body::id(request.headers())?;
    let JobChange { op } = body::json(request).await?;
    let order = match op {
        Op::Run => JobOrder::Run { job },
        Op::Pause => JobOrder::Pause { job },
        Op::Resume => JobOrder::Resume { job },
        Op::Remove => JobOrder::Remove { job },
    };
    run_command(&api, id, Command::Job(order)).await
}

pub(super) async fn decide(
    State(api): State<Arc<Api>>,
    path: Result<Path<String>, PathRejection>,
    request: Request,
) -> Result<Response, ApiError> {
    let asked = path
        .map_err(|_| ApiError::not_found("no request has this id"))?
        .0;
    let id = body::id(request.headers())?;
    let Decision { verdict, why } = body::json(request).await?;
    // A repeated idempotency key gets the same answer; any other approval must be open.
    let waits = || {
        Ok::<_, ApiError>(
            documents::queue(&api.home)?
                .approvals
                .iter()
                .any(|one| one.id == asked),
        )
    };
    if !api
        .pipeline
        .knows(&id)
        .await
        .map_err(ApiError::not_stored)?
        && !waits()?
    {
        return Err(
            ApiError::not_found("no open approval has this id").hint("GET /api/v1/approvals")
        );
    }
    run_command(
        &api,
        id,
        Command::Approval {
            request: asked,
            verdict,
            why,
        },
    )
    .await
}

/// Runs a command and returns its result, or 202 when it takes longer.
async fn run_command(api: &Api, id: Id, command: Command) -> Result<Response, ApiError> {
    let order = Order {
        id: id.clone(),
        answer: true,
        command,
    };
    chat::take(api, order, Vec::new()).await?;
    match tokio::time::timeout(ACTION_TIMEOUT, ReplyWatch::new(api, &id).end()).await {
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

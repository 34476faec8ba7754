//! Actions in addition to messages: reset a session, stop a run, decide an approval.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use serde::Deserialize;
use serde_json::json;

use super::body::{Named, Posted};
use super::error::ApiError;
use super::wait::{ReplyWatch, outcome};
use super::{Api, body, chat, idempotency_key};
use crate::app::documents;
use crate::control::{Command, Id, Order};
use crate::message::{Approval, DeadLetters, JobOrder};

/// How long a request waits for the result. A stop takes 2 s at most (specification §5); a reset
/// waits for the running turn.
const ACTION_TIMEOUT: Duration = Duration::from_secs(10);

/// The body of `sessions/reset`, and of `forget`: erasing permanently needs a daemon that is down, so it is the shell's.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `target`")]
pub(super) struct Target {
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
    Posted(id, Target { target }): Posted<Target>,
) -> Result<Response, ApiError> {
    run_command(&api, id, Command::Reset { target }).await
}

pub(super) async fn stop(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiError> {
    let id = idempotency_key::id(request.headers())?;
    let Stop { session } = body::json_or_nothing(request).await?;
    run_command(&api, id, Command::Stop { session }).await
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
    Posted(id, Target { target }): Posted<Target>,
) -> Result<Response, ApiError> {
    let hard = false;
    run_command(&api, id, Command::Forget { target, hard }).await
}

pub(super) async fn settle(
    State(api): State<Arc<Api>>,
    Named(letter): Named,
    Posted(id, Letter { action }): Posted<Letter>,
) -> Result<Response, ApiError> {
    run_command(&api, id, Command::DeadLetters { action, letter }).await
}

pub(super) async fn change_job(
    State(api): State<Arc<Api>>,
    Named(job): Named,
    Posted(id, JobChange { op }): Posted<JobChange>,
) -> Result<Response, ApiError> {
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
    Named(request): Named,
    Posted(id, Decision { verdict, why }): Posted<Decision>,
) -> Result<Response, ApiError> {
    // A repeated request has its answer, even when nothing waits any more.
    let known = api.pipeline.knows(&id).await;
    if !known.map_err(ApiError::not_stored)? {
        let waiting = documents::queue(&api.home)?.approvals;
        if !waiting.iter().any(|one| one.id == request) {
            let unknown = ApiError::not_found("no open approval has this id");
            return Err(unknown.hint("GET /api/v1/approvals"));
        }
    }
    let command = Command::Approval {
        request,
        verdict,
        why,
    };
    run_command(&api, id, command).await
}

/// Runs a command and returns its result, or 202 when it takes longer.
async fn run_command(api: &Api, id: Id, command: Command) -> Result<Response, ApiError> {
    let order = Order::new(id.clone(), command);
    chat::take(api, order, Vec::new()).await?;
    match tokio::time::timeout(ACTION_TIMEOUT, ReplyWatch::new(api, &id).end()).await {
        Ok(reply) => {
            let answer = outcome(reply?)?;
            Ok(Json(json!({"reply": answer.reply, "id": answer.id})).into_response())
        }
        Err(_) => Ok(chat::accepted(&id)),
    }
}

//! One Bot API request on the wire: recorded, hurt by the fault that is due, answered. getUpdates is here
//! because it waits.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, Path, State},
    http::{HeaderMap, StatusCode, Uri, header},
    response::{Html, IntoResponse as _, Response},
    routing::{any, get},
};
use futures_util::{StreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{
    super::server::{Connection, lock},
    Call, FaultKind, Shared,
    api::{self, Refusal},
    methods::{lower_camel, wrong},
    params::Params,
};

/// The longest the service lets one poll wait.
const POLL_MAX_SECS: u64 = 50;

pub(super) fn routes(shared: Arc<Shared>) -> Router {
    let routes = Router::new()
        .route("/{bot}/{method}", any(serve))
        .route("/file/{bot}/{*path}", get(download));
    routes.with_state(shared)
}

async fn serve(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    Path((bot, method)): Path<(String, String)>,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let Some(bot) = bot_id(&bot) else {
        return refuse(&Refusal::status(404));
    };
    let content_type = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    let params = Params::read(uri.query().unwrap_or_default(), content_type, &body);
    let method = lower_camel(&method);
    let (call, fault) = arrive(&shared, &method, params.as_ref());
    if let Some(broken) = hurt(&shared, &connection, call, fault).await {
        return broken;
    }
    let strange = params.as_ref().and_then(|params| wrong(&method, params));
    let answer = match params {
        None => Err(Refusal::bad("the body does not parse")),
        Some(_) if strange.is_some() => Err(Refusal::bad(&strange.unwrap_or_default())),
        Some(params) if method == "getUpdates" => poll(&shared, &params).await,
        Some(params) => api::answer(&mut lock(&shared.state), bot, &method, &params),
    };
    if fault == Some(FaultKind::DropAfter) {
        return connection.cut().await;
    }
    match answer {
        Ok(result) => {
            shared.settle(call, 200);
            Json(json!({"ok": true, "result": result})).into_response()
        }
        Err(refusal) => {
            shared.settle(call, refusal.code);
            refuse(&refusal)
        }
    }
}

/// Does to a call what a fault does before it is processed; returns the answer, if it is one already.
async fn hurt(
    shared: &Shared,
    connection: &Connection,
    call: usize,
    fault: Option<FaultKind>,
) -> Option<Response> {
    match fault {
        Some(FaultKind::Drop) => Some(connection.cut().await),
        Some(FaultKind::Hang) => std::future::pending().await,
        Some(FaultKind::Html502) => {
            shared.settle(call, 502);
            let page =
                Html("<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>");
            Some((StatusCode::BAD_GATEWAY, page).into_response())
        }
        Some(
            kind @ (FaultKind::Status(_)
            | FaultKind::Rest(_)
            | FaultKind::Says(..)
            | FaultKind::MovedTo(_)),
        ) => {
            let refusal = refusal_of(kind);
            shared.settle(call, refusal.code);
            Some(refuse(&refusal))
        }
        Some(FaultKind::Delay(time)) => {
            tokio::time::sleep(time).await;
            None
        }
        Some(FaultKind::DropAfter | FaultKind::DupUpdates | FaultKind::Backwards) | None => None,
    }
}

/// Hands out a file that getFile named. Recorded as the method `file`.
async fn download(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    Path((bot, path)): Path<(String, String)>,
) -> Response {
    let params = Params::default().with("path", &path);
    let (call, fault) = arrive(&shared, "file", Some(&params));
    if let Some(broken) = hurt(&shared, &connection, call, fault).await {
        return broken;
    }
    let found = lock(&shared.state)
        .offered
        .iter()
        .find(|file| file.path == path)
        .map(|file| file.bytes.clone());
    let Some(bytes) = found.filter(|_| bot_id(&bot).is_some()) else {
        shared.settle(call, 404);
        return refuse(&Refusal::status(404));
    };
    shared.settle(call, 200);
    if fault != Some(FaultKind::DropAfter) {
        return bytes.into_response();
    }
    // Half of it, as if the line broke.
    let half = bytes[..bytes.len() / 2].to_vec();
    let head = [(header::CONTENT_LENGTH, bytes.len().to_string())];
    let cut =
        stream::once(async move { connection.cut::<Result<Vec<u8>, std::io::Error>>().await });
    (head, Body::from_stream(stream::iter([Ok(half)]).chain(cut))).into_response()
}

fn refusal_of(kind: FaultKind) -> Refusal {
    match kind {
        FaultKind::Says(code, description) => Refusal::with(code, description),
        FaultKind::MovedTo(chat) => Refusal::moved(chat),
        FaultKind::Rest(seconds) => Refusal::rest(seconds),
        FaultKind::Status(code) => Refusal::status(code),
        _ => Refusal::status(500),
    }
}

/// Records the call, unanswered as yet, and takes the fault that is due.
fn arrive(shared: &Shared, method: &str, params: Option<&Params>) -> (usize, Option<FaultKind>) {
    let mut state = lock(&shared.state);
    let params = params.map_or(Value::Null, Params::to_value);
    let fault = state.due(method, &params);
    state.calls.push(Call {
        method: method.to_owned(),
        params,
        status: 0,
        at: Instant::now(),
    });
    state.polls += u64::from(method == "getUpdates");
    (state.calls.len() - 1, fault)
}

/// Answers getUpdates: confirms everything below `offset`, then waits up to `timeout` for something newer.
/// A later poll ends this one with 409, as on the service. One that its client gave up on is simply gone.
async fn poll(shared: &Shared, params: &Params) -> Result<Value, Refusal> {
    let mut changed = shared.changed.subscribe();
    let limit = params
        .int("limit")
        .and_then(|limit| usize::try_from(limit).ok())
        .unwrap_or(100)
        .clamp(1, 100);
    let seconds = params
        .int("timeout")
        .and_then(|seconds| u64::try_from(seconds).ok())
        .unwrap_or(0);
    let deadline = tokio::time::Instant::now() + Duration::from_secs(seconds.min(POLL_MAX_SECS));
    let mine = {
        let mut state = lock(&shared.state);
        if !state.webhook.is_empty() {
            return Err(Refusal::webhook());
        }
        if let Value::Array(kinds) = params.json("allowed_updates") {
            state.allowed = kinds
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect();
        }
        state.confirm(params.int("offset").unwrap_or_default());
        state.poll += 1;
        state.poll
    };
    shared.wake();
    loop {
        changed.mark_unchanged();
        {
            let mut state = lock(&shared.state);
            if state.poll != mine {
                return Err(Refusal::status(409));
            }
            let batch = state.batch(limit);
            if !batch.is_empty() {
                return Ok(Value::Array(batch));
            }
        }
        let left = deadline.saturating_duration_since(tokio::time::Instant::now());
        if left.is_zero() || timeout(left, changed.changed()).await.is_err() {
            return Ok(json!([]));
        }
    }
}

/// Returns the bot's id from `bot<digits>:<at least 20 characters>`.
fn bot_id(segment: &str) -> Option<i64> {
    let (id, secret) = segment.strip_prefix("bot")?.split_once(':')?;
    (secret.len() >= 20).then(|| id.parse().ok())?
}

fn refuse(refusal: &Refusal) -> Response {
    let status = StatusCode::from_u16(refusal.code).expect("a fault's status is one HTTP knows");
    (status, Json(refusal.body())).into_response()
}

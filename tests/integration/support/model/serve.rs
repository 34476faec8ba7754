//! One model request on the wire: recorded, checked, answered whole or as a stream, or broken as scripted.

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    Json, Router,
    body::{Body, Bytes},
    extract::{ConnectInfo, State},
    http::{HeaderMap, Method, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
};
use futures_util::stream;
use serde_json::{Value, json};

use super::{
    super::server::{Connection, lock},
    Exchange, Output, Reply, Shared, Usage, Wire, check, embeddings, script, speech, wire,
};

/// Bytes in one piece of a stream: odd and small, so that events and letters are torn between reads.
const PIECE_BYTES: usize = 61;
/// Time for what was written to leave before the connection is cut.
const FLUSH: Duration = Duration::from_millis(30);

pub(super) fn routes(shared: Arc<Shared>) -> Router {
    Router::new().fallback(serve).with_state(shared)
}

async fn serve(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(connection): ConnectInfo<Connection>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    raw: Bytes,
) -> Response {
    let path = uri.path();
    if method == Method::GET && path.ends_with("/models") {
        return Json(json!({"object": "list", "data": [{"id": "mock-model", "object": "model", "type": "model"}]}))
            .into_response();
    }
    if method == Method::POST && path.ends_with("/audio/transcriptions") {
        let guard = InFlight::enter(&shared);
        let answer = speech::serve(&shared, &connection, &headers, &raw).await;
        drop(guard);
        return answer;
    }
    if method == Method::POST && path.ends_with("/audio/speech") {
        let asked: Value = serde_json::from_slice(&raw).unwrap_or_default();
        let word = |name: &str| asked[name].as_str().unwrap_or_default();
        let said = format!("OggS {} {} {}", word("model"), word("voice"), word("input"));
        return ([(header::CONTENT_TYPE, "audio/ogg")], said).into_response();
    }
    if method == Method::POST && path.ends_with("/embeddings") {
        let guard = InFlight::enter(&shared);
        let answer = embeddings::serve(&shared, &connection, path, &headers, &raw).await;
        drop(guard);
        return answer;
    }
    let wire = if path.ends_with("/messages") {
        Wire::Anthropic
    } else if path.ends_with("/chat/completions") {
        Wire::OpenAi
    } else {
        return refuse(Wire::OpenAi, 404, &format!("no route {path}"), None);
    };
    let Ok(body) = serde_json::from_slice::<Value>(&raw) else {
        return refuse(wire, 400, "the body is not JSON", None);
    };
    let guard = InFlight::enter(&shared);
    let reply = match script::is_reading(wire, &body) {
        true => arrive_to_read(&shared, &body),
        false => arrive(&shared, path, &headers, &body),
    };
    if !has_key(wire, &headers) {
        return refuse(wire, 401, "invalid x-api-key or bearer token", None);
    }
    if let Err(why) = check::check(wire, &body) {
        return refuse(wire, 400, &why, None);
    }
    let streaming = body["stream"] == true;
    let output = match reply {
        Some(Reply::Status(code, retry_after)) => {
            return refuse(wire, code, "as the test asked", retry_after);
        }
        Some(Reply::Hang) => return std::future::pending().await,
        Some(Reply::RawSse(events)) => return send_stream(guard, &[events], End::Good),
        Some(Reply::Disconnect) if streaming => {
            let half = Output::Text("this sentence ends in the".to_owned());
            let frames = wire::frames(wire, &body, &half, Usage::of(raw.len(), &half));
            // Up to the first letters, whichever the wire: no frame after them says that the answer is over.
            let first = frames.len().saturating_sub(4).max(1);
            return send_stream(
                guard,
                frames.get(..first).unwrap_or_default(),
                End::Cut(connection),
            );
        }
        Some(Reply::Disconnect) => return connection.cut().await,
        Some(Reply::Held(text)) if streaming => {
            let output = Output::Text(text);
            let usage = Usage::of(raw.len(), &output);
            shared.serve(&body["model"], usage);
            let mut frames = wire::frames(wire, &body, &output, usage);
            let first = frames
                .iter()
                .position(|frame| wire::has_text(wire, frame))
                .map_or(0, |at| at + 1);
            let rest = frames.split_off(first).concat();
            return send_stream(guard, &frames, End::Held(rest));
        }
        Some(Reply::Text(text) | Reply::Held(text)) => Output::Text(text),
        Some(Reply::Tool(name, input)) => Output::Tools(vec![(name, input)]),
        None => {
            let (sleep, output) = script::plan(wire, &body);
            tokio::time::sleep(sleep).await;
            output
        }
    };
    let usage = shared.usage(wire, &body, raw.len(), &output);
    shared.serve(&body["model"], usage);
    if streaming {
        return send_stream(guard, &wire::frames(wire, &body, &output, usage), End::Good);
    }
    Json(wire::document(wire, &body["model"], &output, usage)).into_response()
}

/// Records the request and takes the reply the test queued for it.
pub(super) fn arrive(
    shared: &Shared,
    path: &str,
    headers: &HeaderMap,
    body: &Value,
) -> Option<Reply> {
    let text = |value: &header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers: BTreeMap<_, _> = headers
        .iter()
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect();
    let mut state = lock(&shared.state);
    state.exchanges.push(Exchange {
        path: path.to_owned(),
        headers,
        body: body.clone(),
        at: Instant::now(),
    });
    if !state.of_sub_agents.is_empty() && body.to_string().contains("you are a sub-agent") {
        return state.of_sub_agents.pop_front();
    }
    state.replies.pop_front()
}

/// The same of a conversation that is to be read for facts.
fn arrive_to_read(shared: &Shared, body: &Value) -> Option<Reply> {
    let mut state = lock(&shared.state);
    state.readings.push(body.clone());
    state.found.pop_front()
}

pub(super) fn has_key(wire: Wire, headers: &HeaderMap) -> bool {
    let header = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    match wire {
        Wire::Anthropic => {
            !header("x-api-key").is_empty() && !header("anthropic-version").is_empty()
        }
        Wire::OpenAi => header("authorization")
            .strip_prefix("Bearer ")
            .is_some_and(|key| !key.is_empty()),
    }
}

pub(super) fn refuse(wire: Wire, code: u16, message: &str, retry_after: Option<u64>) -> Response {
    let status = StatusCode::from_u16(code).expect("a scripted status is one HTTP knows");
    let mut response = (status, Json(wire::error(wire, code, message))).into_response();
    if let Some(seconds) = retry_after {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
}

/// How a stream goes on after its first frames.
enum End {
    /// It ends in good order.
    Good,
    /// The connection is cut.
    Cut(Connection),
    /// The rest waits until the test lets it go.
    Held(String),
}

/// Streams `frames` in small pieces; then does what `end` says.
fn send_stream(guard: InFlight, frames: &[String], end: End) -> Response {
    let body = stream::unfold(
        (pieces(&frames.concat()), end, guard),
        |(mut left, end, guard)| async move {
            if let Some(piece) = left.pop_front() {
                return Some((Ok::<_, Infallible>(piece), (left, end, guard)));
            }
            match end {
                End::Good => None,
                End::Cut(connection) => {
                    tokio::time::sleep(FLUSH).await;
                    connection.cut().await
                }
                End::Held(rest) => {
                    guard
                        .0
                        .held
                        .acquire()
                        .await
                        .expect("nobody closes it")
                        .forget();
                    let mut left = pieces(&rest);
                    left.pop_front()
                        .map(|piece| (Ok(piece), (left, End::Good, guard)))
                }
            }
        },
    );
    (
        [(header::CONTENT_TYPE, "text/event-stream; charset=utf-8")],
        Body::from_stream(body),
    )
        .into_response()
}

fn pieces(text: &str) -> VecDeque<Bytes> {
    text.as_bytes()
        .chunks(PIECE_BYTES)
        .map(Bytes::copy_from_slice)
        .collect()
}

/// Counts a request as long as it is worked on: until its last byte is handed over or its client is gone.
struct InFlight(Arc<Shared>);

impl InFlight {
    fn enter(shared: &Arc<Shared>) -> Self {
        let mut state = lock(&shared.state);
        state.in_flight += 1;
        state.most_in_flight = state.most_in_flight.max(state.in_flight);
        Self(Arc::clone(shared))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        lock(&self.0.state).in_flight -= 1;
    }
}

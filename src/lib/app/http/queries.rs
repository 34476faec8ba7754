//! The queries: the same documents that the shell prints with `--json`, from the same functions.

use std::io::Write;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use clap::ValueEnum;
use futures_util::stream;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::mpsc;

use super::Api;
use super::body::{Fields, Named};
use super::error::ApiError;
use super::shared_snapshot::{SharedLook, Stamp};
use crate::app::cli::{Exit, Failure};
use crate::app::documents;
use crate::app::documents::explain::Explain;
use crate::config::{Environment, Home};
use crate::control::Id;
use crate::control::replies::{Reply, Status};
use crate::queue;

/// Bytes of a long document that are sent at once, and pieces that a slow reader may be behind.
const PIECE: usize = 64 << 10;
const BEHIND: usize = 4;

/// The header of a document that is ready as text.
pub(super) const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

pub(super) type Asked = Result<Json<Value>, ApiError>;

/// Answers from files, outside the event loop.
pub(super) async fn ask<T: Serialize + Send + 'static>(
    api: &Api,
    question: impl FnOnce(&Home, &Environment) -> Result<T, Failure> + Send + 'static,
) -> Asked {
    let document = read(api, |home, env| {
        question(home, env).map(|document| serde_json::to_value(&document))
    });
    document.await?.map(Json).map_err(|_| ApiError::bug())
}

/// Reads files, outside the event loop.
pub(super) async fn read<T: Send + 'static>(
    api: &Api,
    question: impl FnOnce(&Home, &Environment) -> Result<T, Failure> + Send + 'static,
) -> Result<T, Failure> {
    let (home, env) = (api.home.clone(), api.env.clone());
    crate::sys::blocking(move || question(&home, &env)).await
}

/// Looks for the status.
pub(super) fn look_at_status(home: Home, env: Environment) -> SharedLook {
    // All else that it shows is in databases.
    let files = vec![
        home.monitor(),
        home.spool_new(),
        home.config_file().to_owned(),
    ];
    let look = move || {
        let document = documents::status(&home, &env)?;
        let bytes =
            serde_json::to_vec(&document).map_err(|error| Failure::bug(error.to_string()))?;
        Ok(Bytes::from(bytes))
    };
    SharedLook::new(look, move || Stamp::of(&files))
}

/// The one that scripts and monitors ask for all the time.
pub(super) async fn status(State(api): State<Arc<Api>>) -> Result<Response, ApiError> {
    Ok((JSON, api.status.ask().await?).into_response())
}

/// What `sessions` is asked.
#[derive(Debug, Deserialize)]
pub(super) struct Listed {
    titles: Option<String>,
}

pub(super) async fn sessions(
    State(api): State<Arc<Api>>,
    Fields(Listed { titles }): Fields<Listed>,
) -> Asked {
    if !flag("titles", titles.as_deref())? {
        return ask(&api, documents::sessions).await;
    }
    let titles = api.titles.clone();
    ask(&api, move |home, env| {
        titles.of(home, documents::sessions(home, env)?)
    })
    .await
}

/// Reads a yes or no; without a word it is no.
fn flag(field: &str, said: Option<&str>) -> Result<bool, ApiError> {
    match said {
        None | Some("false" | "0" | "no") => Ok(false),
        Some("" | "true" | "1" | "yes") => Ok(true),
        Some(_) => Err(ApiError::bad(format!("`{field}` must be true or false"))),
    }
}

pub(super) async fn monitor(State(api): State<Arc<Api>>) -> Asked {
    ask(&api, |home, _| documents::monitor(home)).await
}

pub(super) async fn queued(State(api): State<Arc<Api>>) -> Asked {
    ask(&api, |home, _| documents::queue(home)).await
}

pub(super) async fn approvals(State(api): State<Arc<Api>>) -> Asked {
    ask(&api, |home, _| documents::approvals(home)).await
}

/// What `cost` is asked.
#[derive(Debug, Deserialize)]
pub(super) struct Spent {
    period: Option<String>,
    by: Option<String>,
}

pub(super) async fn cost(
    State(api): State<Arc<Api>>,
    Fields(Spent { period, by }): Fields<Spent>,
) -> Asked {
    let period = period
        .as_deref()
        .map(|name| one_of("period", name))
        .transpose()?
        .unwrap_or(documents::cost::Period::Today);
    let by = by.as_deref().map(|name| one_of("by", name)).transpose()?;
    ask(&api, move |home, env| {
        documents::cost(home, env, period, by)
    })
    .await
}

/// Reads a word as the shell would.
fn one_of<T: ValueEnum>(field: &str, name: &str) -> Result<T, ApiError> {
    T::from_str(name, false).map_err(|_| {
        let names = T::value_variants()
            .iter()
            .filter_map(|variant| Some(variant.to_possible_value()?.get_name().to_owned()));
        ApiError::bad(format!(
            "`{field}` must be one of {}",
            names.collect::<Vec<_>>().join(", ")
        ))
    })
}

/// What `history` is asked.
#[derive(Debug, Deserialize)]
pub(super) struct Shown {
    full: Option<String>,
    last: Option<usize>,
    before: Option<u64>,
}

/// Events of a conversation that are sent at once to those who read along.
const MOST_EVENTS: usize = 500;

pub(super) async fn history(
    State(api): State<Arc<Api>>,
    path: Result<Path<String>, PathRejection>,
    Fields(Shown { full, last, before }): Fields<Shown>,
) -> Result<Response, ApiError> {
    let target = path
        .map_err(|_| ApiError::bad("the id is not valid UTF-8"))?
        .0;
    let full = flag("full", full.as_deref())?;
    if let Some(last) = last {
        if full || !(1..=MOST_EVENTS).contains(&last) {
            let words = format!("`last` must be 1 to {MOST_EVENTS}, and goes without `full`");
            return Err(ApiError::bad(words));
        }
        let end = ask(&api, move |home, env| {
            Ok(documents::history(home, env, &target, false)?.newest(last, before)?)
        });
        return end.await.map(IntoResponse::into_response);
    }
    if before.is_some() {
        return Err(ApiError::bad("`before` goes with `last`"));
    }
    let found = read(&api, move |home, env| {
        documents::history(home, env, &target, full)
    });
    let history = found.await?;
    // One of years does not have to fit into memory.
    let (sender, receiver) = mpsc::channel(BEHIND);
    tokio::task::spawn_blocking(move || {
        let mut pieces = Pieces {
            sender,
            waiting: Vec::with_capacity(PIECE),
        };
        let written = serde_json::to_writer(&mut pieces, &history)
            .map_err(std::io::Error::from)
            .and_then(|()| pieces.flush());
        if let Err(error) = written {
            // The reader has gone, or sees that the document breaks off.
            tracing::debug!(%error, "a history was not sent to its end");
            let _ = pieces.sender.blocking_send(Err(error));
        }
    });
    let pieces = stream::unfold(receiver, |mut receiver| async {
        Some((receiver.recv().await?, receiver))
    });
    Ok((JSON, Body::from_stream(pieces)).into_response())
}

/// A document on its way.
struct Pieces {
    sender: mpsc::Sender<std::io::Result<Bytes>>,
    waiting: Vec<u8>,
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        if self.waiting.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        let piece = std::mem::take(&mut self.waiting);
        let gone = |_| std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        if piece.is_empty() {
            Ok(())
        } else {
            self.sender.blocking_send(Ok(piece.into())).map_err(gone)
        }
    }
}

pub(super) async fn explain(
    State(api): State<Arc<Api>>,
    Named(target): Named,
) -> Result<Json<Explain>, ApiError> {
    let explained = read(&api, move |home, _| documents::explain(home, &target)).await;
    explained.map(Json).map_err(|failure| match failure.exit {
        Exit::Failed => ApiError::not_found(failure.message).hint(failure.hint.unwrap_or_default()),
        _ => ApiError::from(failure),
    })
}

pub(super) async fn reply(State(api): State<Arc<Api>>, Named(id): Named) -> Asked {
    let unknown = || ApiError::not_found("no message has this id").hint("answers are kept 14 days");
    let id = Id::parse(&id).ok_or_else(unknown)?;
    let found = ask(&api, move |home, _| {
        let reply = documents::reply(home, &id)?;
        // It may be known, and not answered, and its file could not be written.
        let known = reply.is_none() && queue::knows(&home.queue_db(), id.as_str())?;
        Ok(reply.or_else(|| known.then(|| Reply::new(id.as_str(), Status::Accepted))))
    });
    match found.await? {
        Json(Value::Null) => Err(unknown()),
        found => Ok(found),
    }
}

//! Queries about the agent's knowledge and settings: memory search with the found lines, facts with their sources, jobs,
//! commands and settings. The same documents as those of the shell.

use std::path::Path as FilePath;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};

use super::Api;
use super::body::{Fields, Named};
use super::error::ApiError;
use super::queries::{Asked, ask};
use crate::app::cli::Failure;
use crate::app::{consolidate, documents, index};
use crate::config;
use crate::memory::Viewer;
use crate::memory::facts;
use crate::memory::index::Query as Words;
use crate::sandbox::Root;
use crate::{clock, pipeline, secret};

/// The longest question, characters.
const MAX_QUESTION: usize = 400;
/// Results of a search when their number is not said, and at most.
const RESULTS: (usize, usize) = (10, 50);
/// Characters of a result.
const MAX_CHARS: usize = 800;
/// The largest file of which lines are shown.
const MAX_FILE: u64 = 8 << 20;
/// Lines that are shown at once, and of those how many are before the one that is meant.
const SHOWN: (usize, usize) = (200, 20);

/// What `search` is asked.
#[derive(Debug, Deserialize)]
pub(super) struct Searched {
    q: String,
    k: Option<usize>,
}

pub(super) async fn search(
    State(api): State<Arc<Api>>,
    Fields(Searched { q, k }): Fields<Searched>,
) -> Asked {
    if q.trim().is_empty() || q.chars().count() > MAX_QUESTION {
        let words = format!("`q` must have 1 to {MAX_QUESTION} characters");
        return Err(ApiError::bad(words));
    }
    let memory = api.pipeline.memory().clone();
    ask(&api, move |home, env| {
        let (zone, _) = documents::zone(home, env);
        let words = Words {
            k: k.unwrap_or(RESULTS.0).clamp(1, RESULTS.1),
            max_chars: MAX_CHARS,
            today: Some(clock::local_date(clock::now_ms(), zone)),
            ..Words::new(&q)
        };
        let found = memory
            .search(&Viewer::of_owner(), words)
            .map_err(|error| Failure::failed(error.to_string()))?;
        let results: Vec<Value> = found.hits.iter().map(index::result).collect();
        Ok(json!({"results": results}))
    })
    .await
}

/// What `lines` is asked.
#[derive(Debug, Deserialize)]
pub(super) struct Place {
    path: String,
    line: Option<usize>,
}

/// Lines of a file of the workspace around one.
pub(super) async fn lines(
    State(api): State<Arc<Api>>,
    Fields(Place { path, line }): Fields<Place>,
) -> Asked {
    let unknown = || ApiError::not_found("the workspace has no such file");
    let inner = path.strip_prefix("workspace/").ok_or_else(unknown)?;
    let (workspace, inner) = (api.home.workspace().to_owned(), inner.to_owned());
    let read = move || {
        let root = Root::open(&workspace).ok()?;
        root.read(FilePath::new(&inner), MAX_FILE).ok()
    };
    let bytes = crate::sys::blocking(read).await.ok_or_else(unknown)?;
    let text = secret::redact(&String::from_utf8_lossy(&bytes));
    let wanted = line.unwrap_or(1).max(1);
    let first = wanted.saturating_sub(SHOWN.1).max(1);
    let shown: Vec<&str> = text.lines().skip(first - 1).take(SHOWN.0).collect();
    Ok(Json(json!({
        "path": path, "line": wanted, "start_line": first, "total_lines": text.lines().count(), "lines": shown,
    })))
}

/// What `facts` is asked.
#[derive(Debug, Deserialize)]
pub(super) struct Known {
    q: Option<String>,
}

pub(super) async fn facts(
    State(api): State<Arc<Api>>,
    Fields(Known { q }): Fields<Known>,
) -> Asked {
    let filter = facts::Filter {
        query: q.filter(|words| !words.trim().is_empty()),
        all: false,
        scopes: None,
    };
    ask(&api, move |home, _| {
        let found = facts::list(&facts::database(home), &filter)?;
        let found: Vec<Value> = found.iter().map(consolidate::fact).collect();
        Ok(json!({"facts": found}))
    })
    .await
}

/// Why a fact is believed.
pub(super) async fn why(State(api): State<Arc<Api>>, Named(id): Named) -> Asked {
    let unknown = || ApiError::not_found("no fact has this number").hint("GET /api/v1/facts");
    let id = id.parse().map_err(|_| unknown())?;
    let found = ask(&api, move |home, _| {
        let found = facts::why(&facts::database(home), id)?;
        Ok(found.map(|(fact, origins)| {
            let sources: Vec<Value> = origins.iter().map(consolidate::origin).collect();
            json!({"fact": consolidate::fact(&fact), "sources": sources})
        }))
    });
    match found.await? {
        Json(Value::Null) => Err(unknown()),
        found => Ok(found),
    }
}

pub(super) async fn jobs(State(api): State<Arc<Api>>) -> Asked {
    ask(&api, documents::jobs).await
}

/// Words that begin with a slash.
pub(super) async fn commands() -> Json<Value> {
    let commands: Vec<Value> = pipeline::commands_for_owners()
        .map(|(name, help)| json!({"name": name, "help": help}))
        .collect();
    Json(json!({"commands": commands}))
}

/// Every setting, and where it comes from.
pub(super) async fn settings(State(api): State<Arc<Api>>) -> Asked {
    ask(&api, |home, env| {
        let loaded = config::load(home, env, &[])?;
        let settings: Vec<Value> = loaded.settings().iter().map(setting).collect();
        Ok(json!({"settings": settings}))
    })
    .await
}

fn setting(setting: &config::Setting) -> Value {
    json!({"key": setting.key, "value": secret::redact(&setting.value), "origin": setting.origin.to_string()})
}

//! Embeddings: the vectors by which the agent searches its memory, for other programs of its owner.
//!
//! `model` is `agent`, or the name of the vectors (`local/minilm-1/256`); both are what `[memory.embeddings]` names.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use base64::Engine as _;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{AGENT, refuse};
use crate::app::http::error::ApiError;
use crate::app::http::{Api, body};
use crate::embedding::{Embedder, Kind, normalize};

/// The most texts of a request (as OpenAI's), and their bytes together.
const MAX_TEXTS: usize = 2048;
const MAX_BYTES: usize = 1 << 20;

/// The body of a request.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object with `model` and `input`")]
struct Asked {
    model: String,
    input: Value,
    encoding_format: Option<String>,
    dimensions: Option<usize>,
}

impl Asked {
    fn texts(&self) -> Result<Vec<String>, ApiError> {
        let texts: Option<Vec<String>> = match &self.input {
            Value::String(text) => Some(vec![text.clone()]),
            Value::Array(all) => all
                .iter()
                .map(|text| text.as_str().map(str::to_owned))
                .collect(),
            _ => None,
        };
        let texts = texts.ok_or_else(|| {
            ApiError::bad("`input` must be a string or a list of strings")
                .hint("tokens are not taken: those of another vocabulary would mean other words")
        })?;
        let bytes: usize = texts.iter().map(String::len).sum();
        if texts.is_empty() || texts.len() > MAX_TEXTS || bytes > MAX_BYTES {
            let words = format!("`input` must have 1 to {MAX_TEXTS} texts of 1 MB together");
            return Err(ApiError::bad(words));
        }
        if texts.iter().any(|text| text.trim().is_empty()) {
            return Err(ApiError::bad("a text of `input` is empty"));
        }
        Ok(texts)
    }
}

pub(in crate::app::http) async fn embed(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Json<Value>, ApiError> {
    let asked: Asked = body::json(request).await?;
    let format = asked.encoding_format.as_deref().unwrap_or("float");
    refuse(&[
        ("encoding_format", matches!(format, "float" | "base64")),
        ("dimensions", asked.dimensions.is_none()),
    ])?;
    let texts = asked.texts()?;
    let (memory, model) = (api.pipeline.memory().clone(), asked.model.clone());
    let (name, vectors) = crate::sys::blocking(move || {
        let embedder = memory
            .embedder()
            .map_err(|error| trouble(&error.to_string()))?;
        let embedder = embedder.ok_or_else(|| {
            trouble("no vectors are made here").hint("set [memory.embeddings] provider")
        })?;
        let name = embedder.name().to_owned();
        if model != AGENT && model != name {
            return Err(ApiError::new(
                StatusCode::NOT_FOUND,
                "model_not_found",
                "no vectors have this name",
            )
            .hint(format!("there are: {AGENT}, {name}")));
        }
        Ok((name, vectors_of(embedder, &texts)?))
    })
    .await?;
    let data: Vec<Value> = vectors
        .into_iter()
        .enumerate()
        .map(|(index, vector)| {
            let vector = if format == "base64" {
                let bytes: Vec<u8> = vector
                    .iter()
                    .flat_map(|number| number.to_le_bytes())
                    .collect();
                json!(base64::engine::general_purpose::STANDARD.encode(bytes))
            } else {
                json!(vector)
            };
            json!({"object": "embedding", "index": index, "embedding": vector})
        })
        .collect();
    Ok(Json(json!({
        "object": "list",
        "data": data,
        "model": name,
        "usage": {"prompt_tokens": 0, "total_tokens": 0},
    })))
}

/// Returns the vector of each text; one of zeros for a text of which no word is known.
fn vectors_of(embedder: Embedder, texts: &[String]) -> Result<Vec<Vec<f32>>, ApiError> {
    let vectors: Vec<Option<Vec<f32>>> = match embedder {
        Embedder::Table(mut table) => texts
            .iter()
            .map(|text| table.text(text).and_then(normalize))
            .collect(),
        Embedder::Model(mut model) => {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let vectors = model.embed(Kind::Passage, &texts);
            vectors.map_err(|error| trouble(&error.to_string()))?
        }
    };
    let length = vectors.iter().flatten().map(Vec::len).next().unwrap_or(1);
    let zeros = || vec![0.0; length];
    Ok(vectors
        .into_iter()
        .map(|vector| vector.unwrap_or_else(zeros))
        .collect())
}

fn trouble(words: &str) -> ApiError {
    ApiError::new(StatusCode::SERVICE_UNAVAILABLE, "no_vectors", words)
}

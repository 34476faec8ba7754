//! Vectors, asked for and refused as OpenAI does it (its API reference, "Create embeddings", 2026-11).

use axum::{
    Json,
    http::HeaderMap,
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

use super::{
    super::server::Connection,
    Reply, Shared, Usage, Wire,
    serve::{arrive, has_key, refuse},
};

pub(super) async fn serve(
    shared: &Shared,
    connection: &Connection,
    path: &str,
    headers: &HeaderMap,
    raw: &[u8],
) -> Response {
    let Ok(body) = serde_json::from_slice::<Value>(raw) else {
        return refuse(Wire::OpenAi, 400, "the body is not JSON", None);
    };
    let reply = arrive(shared, path, headers, &body);
    if !has_key(Wire::OpenAi, headers) {
        return refuse(Wire::OpenAi, 401, "you did not provide an API key", None);
    }
    let texts: Option<Vec<&str>> = body["input"]
        .as_array()
        .and_then(|texts| texts.iter().map(Value::as_str).collect());
    let Some(texts) =
        texts.filter(|texts| !texts.is_empty() && texts.iter().all(|text| !text.is_empty()))
    else {
        return refuse(Wire::OpenAi, 400, "'$.input' is invalid", None);
    };
    match reply {
        None => {}
        Some(Reply::Held(_)) => shared
            .held
            .acquire()
            .await
            .expect("nobody closes it")
            .forget(),
        Some(Reply::Status(code, retry_after)) => {
            return refuse(Wire::OpenAi, code, "as the test asked", retry_after);
        }
        Some(Reply::Disconnect) => return connection.cut().await,
        Some(other) => panic!("vectors cannot be {other:?}"),
    }
    // Texts about bicycles point one way, others another.
    let vector = |text: &str| {
        if text.contains("bike") || text.contains("bicycle") {
            [3, 4]
        } else {
            [4, -3]
        }
    };
    let item = |(at, text): (usize, &&str)| json!({"object": "embedding", "index": at, "embedding": vector(text)});
    let data: Vec<Value> = texts.iter().enumerate().map(item).collect();
    // As many tokens as the programs estimate.
    let tokens: usize = texts
        .iter()
        .map(|text| (text.chars().count() * 3).div_ceil(10))
        .sum();
    let input = u64::try_from(tokens).expect("few");
    shared.charge(
        body["model"].as_str().unwrap_or_default(),
        Usage {
            input,
            ..Usage::default()
        },
        0,
    );
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    Json(json!({"object": "list", "data": data, "model": body["model"], "usage": usage}))
        .into_response()
}

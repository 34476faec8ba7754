//! The routes. `openapi.json` next to this file describes them; a test compares the two.

use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get, post};

use super::error::ApiError;
use super::{Api, actions, chat, hooks, knowledge, login, metrics, openai, page, queries};

/// The OpenAPI description.
const OPENAPI: &str = include_str!("openapi.json");

/// A method, a path and its handler.
type Route = (&'static str, &'static str, MethodRouter<Arc<Api>>);

fn table() -> Vec<Route> {
    vec![
        ("get", "/api/v1/status", get(queries::status)),
        ("get", "/api/v1/sessions", get(queries::sessions)),
        (
            "get",
            "/api/v1/sessions/{id}/history",
            get(queries::history),
        ),
        ("get", "/api/v1/cost", get(queries::cost)),
        ("get", "/api/v1/monitor", get(queries::monitor)),
        ("get", "/api/v1/queue", get(queries::queued)),
        ("post", "/api/v1/queue/{id}", post(actions::settle)),
        ("get", "/api/v1/search", get(knowledge::search)),
        ("get", "/api/v1/lines", get(knowledge::lines)),
        ("get", "/api/v1/facts", get(knowledge::facts)),
        ("get", "/api/v1/facts/{id}", get(knowledge::why)),
        ("post", "/api/v1/forget", post(actions::forget)),
        ("get", "/api/v1/jobs", get(knowledge::jobs)),
        ("post", "/api/v1/jobs/{id}", post(actions::change_job)),
        ("get", "/api/v1/commands", get(knowledge::commands)),
        ("get", "/api/v1/settings", get(knowledge::settings)),
        ("get", "/api/v1/replies/{id}", get(queries::reply)),
        ("get", "/api/v1/explain/{id}", get(queries::explain)),
        ("get", "/api/v1/approvals", get(queries::approvals)),
        ("post", "/api/v1/approvals/{id}", post(actions::decide)),
        ("post", "/api/v1/chat", post(chat::chat)),
        ("post", "/api/v1/chat/stream", post(chat::chat_stream)),
        ("post", "/api/v1/notify", post(chat::notify)),
        ("post", "/hooks/{name}", post(hooks::receive)),
        ("post", "/api/v1/sessions/reset", post(actions::reset)),
        ("post", "/api/v1/stop", post(actions::stop)),
        (
            "post",
            "/v1/chat/completions",
            post(openai::completions::complete),
        ),
        ("post", "/v1/responses", post(openai::responses::respond)),
        (
            "get",
            "/v1/responses/{id}",
            get(openai::responses::retrieve),
        ),
        ("post", "/v1/embeddings", post(openai::embeddings::embed)),
        ("get", "/v1/models", get(openai::models)),
        ("get", "/v1/models/{model}", get(openai::model)),
        ("get", "/metrics", get(metrics::metrics)),
        ("get", "/openapi.json", get(openapi)),
    ]
}

/// Returns the router; unknown paths get a JSON error.
pub(super) fn router() -> Router<Arc<Api>> {
    let router = table()
        .into_iter()
        .fold(Router::new(), |router, (_, path, route)| {
            router.route(path, route)
        });
    router
        // For people, so not in the OpenAPI description.
        .route(page::PATH, get(page::page))
        .route(
            page::media::PATH,
            get(page::media::show).post(page::media::change),
        )
        .route(page::media::PICTURE, get(page::media::picture))
        .route(login::LOGIN, get(login::form).post(login::login))
        .route(login::LOGOUT, post(login::logout))
        .route("/assets/{name}", get(page::assets::serve))
        .fallback(|| async { ApiError::not_found("nothing is here").hint("GET /openapi.json") })
        // The router adds the header Allow.
        .method_not_allowed_fallback(|| async { ApiError::method() })
}

async fn openapi() -> Response {
    (queries::JSON, OPENAPI).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::Value;

    use super::*;

    #[test]
    fn what_is_described_is_answered_and_the_other_way_round() {
        let document: Value = serde_json::from_str(OPENAPI).expect("JSON");
        let paths = document["paths"].as_object().expect("paths");
        let operations = paths.iter().flat_map(|(path, item)| {
            let methods = item
                .as_object()
                .expect("an item")
                .keys()
                .filter(|key| *key != "parameters");
            methods.map(move |method| (method.clone(), path.clone()))
        });
        let described: BTreeSet<(String, String)> = operations.collect();
        let answered: BTreeSet<(String, String)> = table()
            .into_iter()
            .map(|(method, path, _)| (method.to_owned(), path.to_owned()))
            .collect();
        assert_eq!(described, answered);
        assert_eq!(document["info"]["version"], env!("CARGO_PKG_VERSION"));
    }

    #[test]
    fn every_reference_of_the_description_leads_somewhere() {
        let document: Value = serde_json::from_str(OPENAPI).expect("JSON");
        let mut open = vec![&document];
        let mut count = 0;
        while let Some(value) = open.pop() {
            match value {
                Value::Object(fields) => {
                    if let Some(Value::String(path)) = fields.get("$ref") {
                        let place = path.strip_prefix('#').expect("a place in the document");
                        assert!(document.pointer(place).is_some(), "{path}");
                        count += 1;
                    }
                    open.extend(fields.values());
                }
                Value::Array(items) => open.extend(items),
                _ => {}
            }
        }
        assert!(count > 20);
    }
}

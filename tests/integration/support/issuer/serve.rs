//! The issuer's requests on the wire.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Json, Router,
    body::Bytes,
    extract::{Query, State as Shares},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
    routing::{get, post},
};
use base64::Engine as _;
use serde_json::{Value, json};

use super::{CLIENT, Renewal, Shared, State};
use crate::support::server::lock;

type Fields = BTreeMap<String, String>;

pub(super) fn routes(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/authorize", get(authorize))
        .route("/token", post(token))
        .route("/auth", get(openrouter))
        .route("/api/v1/auth/keys", post(openrouter_key))
        .route("/api/v1/key", get(key))
        .route("/v1/models", get(models))
        .with_state(shared)
}

fn bad(reason: &str) -> Response {
    (StatusCode::BAD_REQUEST, reason.to_owned()).into_response()
}

fn there(location: String) -> Response {
    (StatusCode::FOUND, [(header::LOCATION, location)]).into_response()
}

/// The person agrees at once.
async fn authorize(Shares(shared): Shares<Arc<Shared>>, Query(query): Query<Fields>) -> Response {
    let field = |key: &str| query.get(key).cloned().unwrap_or_default();
    let redirect = field("redirect_uri");
    let expected = [
        ("response_type", "code"),
        ("client_id", CLIENT),
        ("code_challenge_method", "S256"),
        ("scope", "models read"),
        ("tenant", "t1"),
    ];
    if let Some((key, _)) = expected.iter().find(|(key, value)| field(key) != *value) {
        return bad(&format!("wrong {key}"));
    }
    if !redirect.starts_with("http://127.0.0.1:")
        || field("state").len() < 32
        || field("code_challenge").len() != 43
    {
        return bad("wrong redirect_uri, state or code_challenge");
    }
    let mut state = lock(&shared.state);
    if state.denies {
        return there(format!(
            "{redirect}?error=access_denied&error_description=the+person+said+no&state={}",
            field("state")
        ));
    }
    let code = state.code(field("code_challenge"), redirect.clone());
    there(format!("{redirect}?code={code}&state={}", field("state")))
}

impl State {
    fn code(&mut self, challenge: String, redirect: String) -> String {
        self.made += 1;
        let code = format!("code-canary-{}", self.made);
        self.codes.insert(code.clone(), (challenge, redirect));
        code
    }

    /// Takes a code if it is good and `verifier` is what the challenge was made from.
    fn redeem(&mut self, code: &str, verifier: &str, redirect: Option<&str>) -> bool {
        let Some((challenge, for_whom)) = self.codes.remove(code) else {
            return false;
        };
        let digest = ring::digest::digest(&ring::digest::SHA256, verifier.as_bytes());
        let made = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(digest.as_ref());
        let good = made == challenge
            && verifier.len() >= 43
            && redirect.is_none_or(|redirect| redirect == for_whom)
            && !self.late;
        self.exchanged += usize::from(good);
        good
    }

    fn tokens(&mut self) -> Value {
        self.made += 1;
        let number = self.made;
        self.refresh = format!("refresh-canary-{number}");
        json!({
            "access_token": format!("access-canary-{number}"),
            "token_type": "Bearer",
            "expires_in": self.lives,
            "refresh_token": self.refresh,
            "unheard_of": true,
        })
    }
}

fn refuse(code: &str, words: &str) -> Response {
    (
        StatusCode::BAD_REQUEST,
        Json(json!({"error": code, "error_description": words})),
    )
        .into_response()
}

async fn token(Shares(shared): Shares<Arc<Shared>>, body: Bytes) -> Response {
    let form = String::from_utf8(body.to_vec()).unwrap_or_default();
    let url = reqwest::Url::parse(&format!("http://x/?{form}")).expect("a form is a query");
    let fields: Fields = url.query_pairs().into_owned().collect();
    let field = |key: &str| fields.get(key).map(String::as_str).unwrap_or_default();
    if field("client_id") != CLIENT {
        return refuse("invalid_client", "who?");
    }
    if field("grant_type") == "authorization_code" {
        let mut state = lock(&shared.state);
        let good = state.redeem(
            field("code"),
            field("code_verifier"),
            Some(field("redirect_uri")),
        );
        return if good {
            Json(state.tokens()).into_response()
        } else {
            refuse("invalid_grant", "the code has expired")
        };
    }
    let (renewal, answer) = {
        let mut state = lock(&shared.state);
        state.renewed += 1;
        let renewal = if state.renewals.is_empty() {
            None
        } else {
            Some(state.renewals.remove(0))
        };
        match renewal {
            Some(Renewal::Status(status)) => {
                return (StatusCode::from_u16(status).expect("a status"), "").into_response();
            }
            _ if field("refresh_token") != state.refresh => {
                return refuse("invalid_grant", "the token was taken back");
            }
            renewal => (renewal, state.tokens()),
        }
    };
    if renewal == Some(Renewal::Held) {
        shared.held.acquire().await.expect("never closed").forget();
    }
    Json(answer).into_response()
}

async fn openrouter(Shares(shared): Shares<Arc<Shared>>, Query(query): Query<Fields>) -> Response {
    let field = |key: &str| query.get(key).cloned().unwrap_or_default();
    let callback = field("callback_url");
    if !callback.starts_with("http://localhost:") || field("code_challenge_method") != "S256" {
        return bad("wrong callback_url or code_challenge_method");
    }
    let code = lock(&shared.state).code(field("code_challenge"), callback.clone());
    there(format!("{callback}?code={code}"))
}

async fn openrouter_key(Shares(shared): Shares<Arc<Shared>>, Json(body): Json<Value>) -> Response {
    let word = |key: &str| body[key].as_str().unwrap_or_default().to_owned();
    let good = word("code_challenge_method") == "S256"
        && lock(&shared.state).redeem(&word("code"), &word("code_verifier"), None);
    if good {
        return Json(json!({"key": "sk-or-canary-0123456789", "user_id": "u1"})).into_response();
    }
    let error = json!({"error": {"code": 403, "message": "Invalid code or code_verifier"}});
    (StatusCode::FORBIDDEN, Json(error)).into_response()
}

fn knows(headers: &HeaderMap) -> bool {
    let header = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
    };
    header("authorization").starts_with("Bearer sk-") || header("x-api-key").starts_with("sk-")
}

fn unknown_key() -> Response {
    (
        StatusCode::UNAUTHORIZED,
        Json(json!({"error": {"message": "invalid x-api-key"}})),
    )
        .into_response()
}

async fn models(headers: HeaderMap) -> Response {
    if !knows(&headers) {
        return unknown_key();
    }
    Json(json!({"data": [{"id": "a"}, {"id": "b"}]})).into_response()
}

async fn key(headers: HeaderMap) -> Response {
    if !knows(&headers) {
        return unknown_key();
    }
    Json(json!({"data": {"label": "sk-or-…", "limit": 5, "limit_remaining": 4.5, "usage": 0.5}}))
        .into_response()
}

//! Webhooks: `POST /hooks/NAME` of `[http.hooks.NAME]`, with a secret of its own, becomes an event.
//!
//! ```text
//! known? 404 → secret or signature? 401 (429 after many) → body ≤ 1 MiB? 413 → signed by it? 401 → too often? 429
//!     → JSON, a form or text → template → an event of untrusted text, once for each delivery
//! ```
//! Anyone who knows a hook's secret may report events and nothing else: the secret opens no other route, and the text never
//! counts as the owner's.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderMap};
use ring::hmac;
use serde_json::{Map, Value, json};

use super::body::{Named, one};
use super::connections::Connection;
use super::error::ApiError;
use super::rate_limit::Bucket;
use super::token::{self, Credentials, TokenCheck};
use super::{Api, body, chat, idempotency_key, request_checks};
use crate::app::cli::Failure;
use crate::config::{Deliver, Hook, HookSession, Http, Secrets};
use crate::control::{Command, Id, Order, Words};
use crate::secret::Secret;
use crate::text::template::Template;
use crate::{net, text};

/// Where all of them begin.
pub(super) const PREFIX: &str = "/hooks/";
/// The largest body; GitHub's largest is 25 MiB, its usual ones are below 100 KiB.
const MAX_BODY: usize = 1 << 20;
/// Bodies that are read at a time before anybody can say who sent them.
pub(super) const MAX_READING: usize = 32;
/// How long such a body waits for its turn, and how long it may take then: senders wait ten seconds (GitHub), and send
/// what they have at once.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest value of a template and the longest words of an event, characters.
const MAX_VALUE: usize = 8_000;
const MAX_WORDS: usize = 16_000;
/// HMAC-SHA256 of the body (docs.github.com, "Validating webhook deliveries"; Gitea and Forgejo sign alike).
const SIGNATURE: &str = "x-hub-signature-256";
/// The same of Bitbucket (support.atlassian.com, "Manage webhooks"); GitHub has an older digest, of SHA-1, in it.
const SIGNATURE_OF_BITBUCKET: &str = "x-hub-signature";
const SHA256: &str = "sha256=";
/// GitLab sends the secret itself.
const PLAIN_SECRETS: [&str; 2] = ["x-gitlab-token", "x-hook-secret"];
/// What names a delivery: the same again is the same event.
const DELIVERIES: [&str; 6] = [
    "x-github-delivery",
    "x-gitea-delivery",
    "x-gitlab-event-uuid",
    "x-request-uuid",
    "webhook-id",
    idempotency_key::HEADER,
];

/// The webhooks of a daemon, by name.
pub(super) type Hooks = BTreeMap<String, Receiver>;

/// One webhook.
pub(super) struct Receiver {
    source: String,
    settings: Hook,
    template: Template,
    check: TokenCheck,
    key: hmac::Key,
    bucket: Bucket,
}

/// What a request brings to show that it may.
enum Proof {
    /// The secret itself.
    Shown,
    /// The signature of the body.
    Signature(Vec<u8>),
}

/// Returns the secret of each hook, and warnings about them.
///
/// # Errors
/// When one has none, or one that is too weak.
pub(super) fn secrets(
    http: &Http,
    secrets: &Secrets,
) -> Result<(BTreeMap<String, Secret>, Vec<String>), Failure> {
    let (mut found, mut warnings) = (BTreeMap::new(), Vec::new());
    for (name, hook) in &http.hooks {
        let (secret, warning) = secret_of(http, secrets, (name, hook))?;
        found.insert(name.clone(), secret);
        warnings.extend(warning);
    }
    Ok((found, warnings))
}

/// Returns why hooks would have no secret, or none that may be used.
pub(super) fn without_secret(http: &Http, secrets: &Secrets) -> Vec<Failure> {
    let failure = |hook: (&String, &Hook)| secret_of(http, secrets, (hook.0, hook.1)).err();
    http.hooks.iter().filter_map(failure).collect()
}

/// Returns the secret of a webhook, and what is to be said of it.
fn secret_of(
    http: &Http,
    secrets: &Secrets,
    (name, hook): (&str, &Hook),
) -> Result<(Secret, Option<String>), Failure> {
    let variable = hook.secret_name(name);
    let what = format!("the secret {variable} of [http.hooks.{name}]");
    token::checked(http, secrets.get(&variable)?, &variable, &what)
}

/// Returns the hooks of the settings.
///
/// # Errors
/// When this machine gives no random numbers, or a template cannot be read.
pub(super) fn receivers(http: &Http, secrets: &BTreeMap<String, Secret>) -> Result<Hooks, Failure> {
    let receiver = |(name, hook): (&String, &Hook)| {
        let secret = secrets.get(name)?;
        Some((|| {
            let template = Template::parse(&hook.template).map_err(|fault| {
                Failure::config(format!("[http.hooks.{name}] template {fault}"))
            })?;
            let receiver = Receiver {
                source: format!("hook:{name}"),
                settings: hook.clone(),
                template,
                check: TokenCheck::new(Some(secret))?,
                key: hmac::Key::new(hmac::HMAC_SHA256, secret.expose().as_bytes()),
                bucket: Bucket::new(hook.per_minute),
            };
            Ok((name.clone(), receiver))
        })())
    };
    http.hooks.iter().filter_map(receiver).collect()
}

/// Returns a line for each hook that is open: its address, its secret and what becomes of its events.
pub(crate) fn lines(http: &Http) -> Vec<String> {
    let line = |(name, hook): (&String, &Hook)| {
        let becomes = match hook.deliver {
            Deliver::Reply => "the agent tells the owner",
            Deliver::Text => "its words go to the owner as they are",
            Deliver::Nothing => "the agent reads it, nothing is delivered",
        };
        let secret = hook.secret_name(name);
        format!(
            "webhook {name}: POST {PREFIX}{name} on {}, secret {secret}; {becomes}",
            http.listen
        )
    };
    match http.enabled {
        true => http.hooks.iter().map(line).collect(),
        false => Vec::new(),
    }
}

/// Returns what is wrong with the secrets of the hooks: the name of each variable, and why.
pub(crate) fn trouble(http: &Http, secrets: &Secrets) -> Vec<(String, String)> {
    let fault = |(name, hook): (&String, &Hook)| {
        let why = match secret_of(http, secrets, (name, hook)) {
            Ok((_, warning)) => warning?,
            Err(failure) => failure.message,
        };
        Some((hook.secret_name(name), why))
    };
    http.hooks.iter().filter_map(fault).collect()
}

/// Takes an event in.
pub(super) async fn receive(
    State(api): State<Arc<Api>>,
    Named(name): Named,
    request: Request,
) -> Result<Response, ApiError> {
    let hook = api.hooks.get(&name);
    let hook = hook.ok_or_else(|| {
        ApiError::not_found("no webhook has this name").hint("[http.hooks.NAME] in agent.toml")
    })?;
    let headers = request.headers().clone();
    let client = request_checks::client(&request);
    let refused = || refused(&api, client, &headers);
    let proof = hook.proof(&headers).ok_or_else(refused)?;
    let connection = request.extensions().get::<Arc<Connection>>().cloned();
    let trust = || connection.iter().for_each(|connection| connection.trust());
    let bytes = match proof {
        Proof::Shown => {
            trust();
            body::read_at_most(request, MAX_BODY).await?
        }
        Proof::Signature(signature) => {
            let bytes = unproven_body(&api, request).await?;
            hmac::verify(&hook.key, &bytes, &signature).map_err(|_| refused())?;
            trust();
            bytes
        }
    };
    let of_hook = |wait| ApiError::too_many(wait, "`per_minute` in [http.hooks] of this webhook");
    hook.bucket.take().map_err(of_hook)?;
    let id = id(&hook.source, &headers)?;
    // GitHub asks so whether somebody is there.
    if one(&headers, "x-github-event") == Some("ping") {
        return Ok(Json(json!({"accepted": false, "pong": true})).into_response());
    }
    let document = document(&headers, &bytes)?;
    let order = hook.order(id.clone(), &headers, &document);
    // Not the words: a template that was changed in between makes no other event of it.
    let digest = text::sha256_hex(&[hook.source.as_bytes(), b"\0", &bytes].concat());
    chat::take_as(&api, order, &digest, Vec::new()).await?;
    Ok(chat::accepted(&id))
}

/// Reads a body before anybody can say who sent it: some at a time, in the order in which they came, each soon.
async fn unproven_body(api: &Api, request: Request) -> Result<Vec<u8>, ApiError> {
    let waited = tokio::time::timeout(PATIENCE, api.hook_bodies.acquire());
    let _slot = waited
        .await
        .ok()
        .and_then(Result::ok)
        .ok_or_else(ApiError::full)?;
    let read = tokio::time::timeout(PATIENCE, body::read_at_most(request, MAX_BODY));
    read.await.unwrap_or_else(|_| Err(ApiError::too_slow()))
}

fn refused(api: &Api, client: Option<IpAddr>, headers: &HeaderMap) -> ApiError {
    let refusal = ApiError::new(
        StatusCode::UNAUTHORIZED,
        "unauthorized",
        "this needs the secret of the webhook: X-Hub-Signature-256, X-Gitlab-Token, X-Hook-Secret or Authorization: Bearer SECRET",
    );
    let mut shown =
        PLAIN_SECRETS
            .into_iter()
            .chain([SIGNATURE, SIGNATURE_OF_BITBUCKET, "authorization"]);
    if !shown.any(|name| headers.contains_key(name)) {
        return refusal;
    }
    request_checks::wrong_token(api, client, refusal)
}

impl Receiver {
    /// Returns what a request shows; `None` when that is nothing, twice the same header, or a wrong secret. Where one
    /// is signed the signature counts, whatever else is shown.
    fn proof(&self, headers: &HeaderMap) -> Option<Proof> {
        if let Some(name) = signature_name(headers) {
            let digits = one(headers, name)?.strip_prefix(SHA256)?;
            return text::unhex(digits).map(Proof::Signature);
        }
        let plain: Vec<&str> = PLAIN_SECRETS
            .into_iter()
            .filter(|name| headers.contains_key(*name))
            .collect();
        let is_good = match plain.as_slice() {
            [] => {
                headers.contains_key(AUTHORIZATION)
                    && self.check.bearer(headers) == Credentials::Valid
            }
            [name] => self.check.is(one(headers, name)?.as_bytes()),
            _ => false,
        };
        is_good.then_some(Proof::Shown)
    }

    fn order(&self, id: Id, headers: &HeaderMap, document: &Value) -> Order {
        let filled = self
            .template
            .fill(document, MAX_VALUE, |name| shown_header(headers, name));
        let said = text::shorten(filled.trim(), MAX_WORDS);
        let said = match said.is_empty() {
            true => format!("({} has nothing to say)", self.source),
            false => said,
        };
        let words = Words {
            text: said.clone(),
            untrusted: self.settings.session == HookSession::Own,
            ..Words::default()
        };
        let command = match self.settings.deliver {
            Deliver::Reply => Command::Notify {
                words,
                source: self.source.clone(),
                reference: delivery(headers)
                    .map(|delivery| text::shorten(&text::visible(delivery), 200)),
                data: None,
                attachments: Vec::new(),
            },
            // Nobody hears what comes of it, so it is never the owner's conversation.
            Deliver::Nothing => Command::System {
                words: Words {
                    untrusted: true,
                    ..words
                },
                source: Some(self.source.clone()),
            },
            Deliver::Text => Command::Raw {
                to: "owner".to_owned(),
                text: said,
                attachments: Vec::new(),
                topic: None,
                reply_to: None,
                emoji: None,
                sticker: None,
                untrusted: true,
            },
        };
        Order::new(id, command)
    }
}

/// Returns the name of the header with the signature of the body; `None` when it is not signed.
fn signature_name(headers: &HeaderMap) -> Option<&'static str> {
    if headers.contains_key(SIGNATURE) {
        return Some(SIGNATURE);
    }
    let mut others = headers.get_all(SIGNATURE_OF_BITBUCKET).iter();
    let is_signed = others.any(|value| value.as_bytes().starts_with(SHA256.as_bytes()));
    is_signed.then_some(SIGNATURE_OF_BITBUCKET)
}

/// Returns a header for a template; none that may hold a secret.
fn shown_header(headers: &HeaderMap, name: &str) -> Option<String> {
    let is_secret = PLAIN_SECRETS.contains(&name)
        || name.contains("signature")
        || ["authorization", "cookie", "proxy-authorization"].contains(&name);
    (!is_secret).then(|| one(headers, name).map(str::to_owned))?
}

fn delivery(headers: &HeaderMap) -> Option<&str> {
    DELIVERIES.iter().find_map(|name| one(headers, name))
}

/// Returns the id of the event: the same delivery of the same hook has the same one. Without a name every request
/// is an event of its own: the same words may well be two.
fn id(source: &str, headers: &HeaderMap) -> Result<Id, ApiError> {
    let named = DELIVERIES.iter().find(|name| headers.contains_key(**name));
    let Some(name) = named else {
        return Ok(Id::default());
    };
    let delivery = one(headers, name).filter(|value| !value.is_empty());
    let delivery =
        delivery.ok_or_else(|| ApiError::bad(format!("the header {name} is empty or repeated")))?;
    let digest = text::sha256_hex(format!("{source}\0{name}\0{delivery}").as_bytes());
    Ok(Id::parse(&format!("hook-{digest:.48}")).unwrap_or_default())
}

/// Returns what was sent: JSON as it is, a form as its fields (or the JSON of its `payload`), text as `text`.
fn document(headers: &HeaderMap, bytes: &[u8]) -> Result<Value, ApiError> {
    if bytes.is_empty() {
        return Ok(json!({}));
    }
    match body::media_type(headers).as_str() {
        "application/x-www-form-urlencoded" => form(bytes),
        kind if kind == "application/json" || kind.ends_with("+json") => body::parse(bytes),
        kind if kind.starts_with("text/") => {
            let text =
                std::str::from_utf8(bytes).map_err(|_| ApiError::bad("the text is not UTF-8"))?;
            Ok(json!({"text": text}))
        }
        _ => Err(ApiError::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "not_json",
            "the body must be JSON, a form or text",
        )
        .hint("send the header Content-Type: application/json")),
    }
}

fn form(bytes: &[u8]) -> Result<Value, ApiError> {
    let form = std::str::from_utf8(bytes).map_err(|_| ApiError::bad("the form cannot be read"))?;
    let fields = net::parameters(form);
    if let [(name, payload)] = fields.as_slice()
        && name == "payload"
    {
        return body::parse(payload.as_bytes());
    }
    let fields = fields.into_iter().map(|(name, value)| (name, value.into()));
    Ok(Value::Object(fields.collect::<Map<_, _>>()))
}

/// Reads bytes as a body of every kind.
#[cfg(any(test, fuzzing))]
pub(super) fn check_body(bytes: &[u8]) {
    for kind in [
        "application/json",
        "application/x-www-form-urlencoded",
        "text/plain",
    ] {
        let headers = HeaderMap::from_iter([(
            hyper::header::CONTENT_TYPE,
            hyper::header::HeaderValue::from_static(kind),
        )]);
        if let Ok(document) = document(&headers, bytes)
            && let Ok(template) = Template::parse("{a.0.b} {} {@x}")
        {
            template.fill(&document, MAX_VALUE, |_| None);
        }
    }
}

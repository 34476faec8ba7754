//! The requests of OAuth 2.0: authorization code with PKCE S256, and renewal; and OpenRouter's own
//! form of it, which ends with an API key.
//!
//! OpenRouter after <https://openrouter.ai/docs/guides/overview/auth/oauth> (read 2026-11): no
//! client id, no state; the browser comes back to `http://localhost:PORT/…` with `code`, and
//! `{code, code_verifier, code_challenge_method}` posted to `/api/v1/auth/keys` gives `{key}`.

mod client_secret;

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::{Client, RequestBuilder, StatusCode, Url};
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};

use client_secret::with_form;
pub use client_secret::{ClientSecret, Stands};

use super::Error;
use super::server::{Client as Registered, Issuer};
use super::store::Tokens;
use crate::clock;
use crate::config::{OAuth, Provider};
use crate::net;
use crate::net::{BodyError, Timeouts, innermost, read_body};
use crate::secret::Secret;

/// The longest an issuer may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest answer that is read, bytes.
const MAX_ANSWER: usize = 256 * 1024;
/// The longest life of a token that is believed, seconds: 100 years.
const MAX_LIFE: i64 = 3_153_600_000;

/// Returns whether this is OpenRouter: by its address, or by its name where a test or a mirror stands
/// in for it.
pub fn is_openrouter(provider: &Provider) -> bool {
    let host = Url::parse(&provider.base_url)
        .ok()
        .and_then(|url| url.host_str().map(str::to_owned));
    provider.name == "openrouter" || host.as_deref() == Some("openrouter.ai")
}

/// A sign-in that has begun: what only we and the issuer know until the browser comes back.
#[derive(Debug)]
pub struct Flow {
    kind: Kind,
    /// What more there is to say where it is a tool server's issuer.
    server: Option<AtServer>,
    verifier: Secret,
    state: Secret,
    redirect: String,
}

/// A sign-in at the issuer of a tool server.
#[derive(Debug)]
struct AtServer {
    /// For what the tokens are.
    resource: String,
    secret: Option<ClientSecret>,
    /// Who must say in the callback that they are it (RFC 9207), when they do.
    issuer: Option<String>,
}

#[derive(Debug)]
enum Kind {
    Issuer(OAuth),
    /// Its `base_url`.
    OpenRouter(Url),
}

#[derive(Debug)]
pub enum Granted {
    /// A key without an end.
    Key(Secret),
    Tokens(Box<Tokens>),
}

impl Flow {
    /// Begins a sign-in with the browser to come back to `port`; `None` for a provider that offers
    /// none.
    pub fn new(provider: &Provider, port: u16) -> Option<Self> {
        let (verifier, state) = (random(), random());
        let (kind, redirect) = match &provider.oauth {
            Some(oauth) => (Kind::Issuer(oauth.clone()), Self::redirect(port)),
            None if is_openrouter(provider) => {
                // It knows no `state`: the path that nobody can guess is one.
                let redirect = format!("http://localhost:{port}/callback/{}", state.expose());
                (
                    Kind::OpenRouter(Url::parse(&provider.base_url).ok()?),
                    redirect,
                )
            }
            None => return None,
        };
        Some(Self {
            kind,
            server: None,
            verifier,
            state,
            redirect,
        })
    }

    /// Begins a sign-in at the issuer of a tool server, as `client`, with the browser to come back to `port`.
    pub fn at_server(issuer: &Issuer, client: Registered, port: u16) -> Self {
        let oauth = OAuth {
            authorize_url: issuer.authorize_url.clone(),
            token_url: issuer.token_url.clone(),
            client_id: client.id,
            scope: issuer.scope.clone(),
            redirect_port: None,
        };
        Self {
            kind: Kind::Issuer(oauth),
            server: Some(AtServer {
                resource: issuer.resource.clone(),
                secret: client.secret,
                issuer: issuer.names_itself.then(|| issuer.issuer.clone()),
            }),
            verifier: random(),
            state: random(),
            redirect: Self::redirect(port),
        }
    }

    /// Returns where the browser comes back to `port`: the address, not the name, so that nothing else can answer to it
    /// (RFC 8252 §7.3).
    pub fn redirect(port: u16) -> String {
        format!("http://127.0.0.1:{port}/callback")
    }

    /// Returns true when an answer that says it is from `issuer` is from where we asked.
    pub(super) fn is_from(&self, issuer: Option<&str>) -> bool {
        let asked = self
            .server
            .as_ref()
            .and_then(|server| server.issuer.as_deref());
        asked.is_none_or(|asked| issuer == Some(asked))
    }

    /// Returns the path that the browser comes back to.
    pub fn path(&self) -> &str {
        self.redirect.splitn(4, '/').nth(3).unwrap_or_default()
    }

    /// Returns the `state` that must come back, where the issuer knows one.
    pub fn state(&self) -> Option<&Secret> {
        matches!(self.kind, Kind::Issuer(_)).then_some(&self.state)
    }

    /// Returns where to send the browser.
    ///
    /// # Errors
    /// [`Error::Trouble`] for an address that is none.
    pub fn url(&self) -> Result<String, Error> {
        let digest = ring::digest::digest(&ring::digest::SHA256, self.verifier.expose().as_bytes());
        let challenge = URL_SAFE_NO_PAD.encode(digest.as_ref());
        let mut url = match &self.kind {
            Kind::Issuer(oauth) => parse(&oauth.authorize_url)?,
            Kind::OpenRouter(base) => {
                let mut url = base.clone();
                url.set_path("/auth");
                url
            }
        };
        let mut query = url.query_pairs_mut();
        match &self.kind {
            Kind::Issuer(oauth) => {
                query
                    .append_pair("response_type", "code")
                    .append_pair("client_id", &oauth.client_id);
                query
                    .append_pair("redirect_uri", &self.redirect)
                    .append_pair("state", self.state.expose());
                if let Some(scope) = &oauth.scope {
                    query.append_pair("scope", scope);
                }
                if let Some(server) = &self.server {
                    query.append_pair("resource", &server.resource);
                }
            }
            Kind::OpenRouter(_) => drop(query.append_pair("callback_url", &self.redirect)),
        }
        query
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        drop(query);
        Ok(url.into())
    }

    /// Gives the code for what it is worth.
    ///
    /// # Errors
    /// [`Error::Refused`] when it has expired, was used, or is not ours; [`Error::Trouble`].
    pub async fn exchange(&self, code: &Secret) -> Result<Granted, Error> {
        let http = net::client().map_err(|error| {
            let reason = format!("TLS cannot be set up: {}", error.without_url());
            Error::trouble("the issuer", reason)
        })?;
        self.exchange_by(&http, code).await
    }

    /// Does so by way of `http`.
    ///
    /// # Errors
    /// As [`Flow::exchange`].
    pub async fn exchange_by(&self, http: &Client, code: &Secret) -> Result<Granted, Error> {
        match &self.kind {
            Kind::Issuer(oauth) => {
                let tokens = self.tokens(http, oauth, code).await?;
                Ok(Granted::Tokens(Box::new(tokens)))
            }
            Kind::OpenRouter(base) => {
                let mut url = base.clone();
                url.set_path(&format!("{}/auth/keys", base.path().trim_end_matches('/')));
                let verifier = self.verifier.expose();
                let body = json!({"code": code.expose(), "code_verifier": verifier, "code_challenge_method": "S256"});
                let answer = ask(http.post(url.clone()).json(&body), &url).await?;
                let key = answer["key"]
                    .as_str()
                    .filter(|key| !key.is_empty())
                    .ok_or_else(|| nonsense(&url))?;
                Ok(Granted::Key(Secret::new(key)))
            }
        }
    }

    async fn tokens(&self, http: &Client, oauth: &OAuth, code: &Secret) -> Result<Tokens, Error> {
        let mut form = vec![
            ("grant_type", "authorization_code"),
            ("code", code.expose()),
            ("redirect_uri", &self.redirect),
            ("code_verifier", self.verifier.expose()),
        ];
        let server = self.server.as_ref();
        let secret = server.and_then(|server| server.secret.clone());
        form.extend(server.map(|server| ("resource", server.resource.as_str())));
        let began = clock::now_ms();
        let url = parse(&oauth.token_url)?;
        let request = with_form(
            http.post(url.clone()),
            form,
            &oauth.client_id,
            secret.as_ref(),
        );
        let answer = ask(request, &url).await?;
        let empty = Tokens {
            token_url: oauth.token_url.clone(),
            client_id: oauth.client_id.clone(),
            scope: oauth.scope.clone(),
            resource: server.map(|server| server.resource.clone()),
            client_secret: secret,
            ..Tokens::default()
        };
        taken(empty, &answer, began).ok_or_else(|| nonsense(&url))
    }
}

/// Renews tokens: returns the new ones with everything that the issuer did not mention as it was.
///
/// # Errors
/// [`Error::Refused`] with the code `invalid_grant` when the sign-in has ended; [`Error::Trouble`].
pub(super) async fn renew(http: &Client, old: &Tokens, refresh: &Secret) -> Result<Tokens, Error> {
    let mut form = vec![
        ("grant_type", "refresh_token"),
        ("refresh_token", refresh.expose()),
    ];
    form.extend(
        old.resource
            .as_deref()
            .map(|resource| ("resource", resource)),
    );
    let began = clock::now_ms();
    let url = parse(&old.token_url)?;
    let secret = old.client_secret.as_ref();
    let request = with_form(http.post(url.clone()), form, &old.client_id, secret);
    let answer = ask(request, &url).await?;
    let kept = Tokens {
        expires_at: None,
        renewing_at: None,
        signed_out: None,
        ..old.clone()
    };
    taken(kept, &answer, began).ok_or_else(|| nonsense(&url))
}

/// Reads an answer of RFC 6749 §5.1 over what is known; `None` when it has no token we can send. Its
/// time counts from before the question, so that we are never late.
fn taken(mut tokens: Tokens, answer: &Value, began: i64) -> Option<Tokens> {
    let word = |key: &str| answer[key].as_str().filter(|word| !word.is_empty());
    if word("token_type").is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return None;
    }
    tokens.access = Some(Secret::new(word("access_token")?));
    if let Some(refresh) = word("refresh_token") {
        tokens.refresh = Some(Secret::new(refresh));
    }
    if let Some(scope) = word("scope") {
        tokens.scope = Some(scope.to_owned());
    }
    let lives = &answer["expires_in"];
    // What is no life is no end: with a wrong one each request would renew.
    let secs = lives
        .as_i64()
        .or_else(|| lives.as_str()?.parse().ok())
        .filter(|secs| (1..=MAX_LIFE).contains(secs));
    tokens.expires_at = secs.map(|secs| began.saturating_add(secs * 1000));
    tokens.obtained_at = Some(began);
    Some(tokens)
}

/// Makes a request that is answered with JSON. Nothing of its URL or of a secret gets into an error.
async fn ask(request: RequestBuilder, url: &Url) -> Result<Value, Error> {
    let trouble = |reason: String| Error::trouble(host(url), reason);
    let request = request.header("accept", "application/json");
    let (status, answer) = exchange(request, TIMEOUT, MAX_ANSWER)
        .await
        .map_err(trouble)?;
    if status.is_success() {
        return if answer.is_object() {
            Ok(answer)
        } else {
            Err(nonsense(url))
        };
    }
    let (code, reason) = complaint(&answer);
    let reason = if reason.is_empty() {
        format!("status {}", status.as_u16())
    } else {
        reason
    };
    match status.as_u16() {
        429 | 500.. => Err(trouble(reason)),
        _ => Err(Error::Refused {
            host: host(url),
            code,
            reason,
        }),
    }
}

/// Returns an issuer's code (RFC 6749 §5.2) and words; OpenRouter has `{"error":{"message"}}`.
fn complaint(answer: &Value) -> (String, String) {
    let code = answer["error"].as_str().unwrap_or_default();
    let words = answer["error_description"]
        .as_str()
        .or_else(|| answer["error"]["message"].as_str())
        .unwrap_or_default();
    let words = [code, words]
        .iter()
        .filter(|words| !words.is_empty())
        .copied()
        .collect::<Vec<_>>()
        .join(": ");
    (code.to_owned(), net::server_text(&words))
}

/// Sends `request` and returns the status and the JSON that comes back within `limit`, null when it is none
/// or longer than `max` bytes.
pub(super) async fn exchange(
    request: RequestBuilder,
    limit: Duration,
    max: usize,
) -> Result<(StatusCode, Value), String> {
    let exchange = async {
        let response = request
            .send()
            .await
            .map_err(|error| innermost(&error.without_url()))?;
        let (status, mut body) = (response.status(), Vec::new());
        match read_body(response, &mut body, max, Timeouts::all(limit)).await {
            Ok(()) | Err(BodyError::TooLarge(_)) => {}
            Err(error) => return Err(error.to_string()),
        }
        Ok((status, crate::text::json::parse(&body).unwrap_or_default()))
    };
    let late = |_| Err(format!("no answer within {} s", limit.as_secs()));
    tokio::time::timeout(limit, exchange)
        .await
        .unwrap_or_else(late)
}

fn nonsense(url: &Url) -> Error {
    Error::trouble(
        host(url),
        "the answer is not OAuth 2.0: is the address right?",
    )
}

fn parse(url: &str) -> Result<Url, Error> {
    Url::parse(url).map_err(|error| Error::trouble("the issuer", format!("no address: {error}")))
}

pub(super) fn host(url: &Url) -> String {
    let host = url.host_str().unwrap_or("the server");
    url.port()
        .map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

/// Returns 256 random bits as 43 letters: RFC 7636 §4.1 wants at least that many for a verifier.
fn random() -> Secret {
    let mut bytes = [0; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .expect("Linux has random bytes: getrandom(2) fails for no ordinary process");
    Secret::new(URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests;

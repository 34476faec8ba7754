//! Signing in with a browser: `POST /login` takes the token once and gives a cookie for it, `POST /logout` ends it.
//!
//! The cookie is 256 random bits. `state/http_sessions.json` contains only its HMAC under the token: the file alone grants
//! nothing, and a new token ends every session.
//!
//! A browser sends a cookie whichever page causes the request, so it is accepted only for requests of our own pages (see
//! [`is_from_our_page`]).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use hyper::header::{
    ACCEPT, COOKIE, HOST, HeaderMap, HeaderValue, LOCATION, ORIGIN, RETRY_AFTER, SET_COOKIE,
};
use hyper::{Method, StatusCode};
use parking_lot::Mutex;
use ring::error::Unspecified;
use ring::{hmac, rand};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::error::ApiError;
use super::token::Credentials;
use super::{Api, body, page, request_checks};
use crate::app::cli::Failure;
use crate::config::Home;
use crate::secret::Secret;
use crate::sys::atomic;
use crate::sys::atomic::Durability;
use crate::{clock, text};

/// Where it is.
pub(super) const LOGIN: &str = "/login";
/// Before the random part of the cookie's name.
const COOKIE_PREFIX: &str = "agent_session_";
/// Where a session ends.
pub(super) const LOGOUT: &str = "/logout";
/// How long a browser stays signed in, seconds: 30 days.
const MAX_AGE: i64 = 30 * 24 * 3600;
/// Browsers that are signed in at a time; the oldest goes.
const MAX_SESSIONS: usize = 32;
/// The largest form; a stranger may send it.
const MAX_FORM: usize = 16 << 10;

/// A browser that is signed in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Session {
    /// HMAC-SHA256 of its cookie under the token, hexadecimal.
    tag: String,
    /// Milliseconds since 1970 UTC.
    expires_at: i64,
}

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    v: u32,
    /// What the cookie is called.
    #[serde(default)]
    cookie: String,
    sessions: Vec<Session>,
}

impl Kept {
    /// Returns what is in the file; a new name where there is none. A user whose entry cannot be read signs in again.
    fn read(path: &Path) -> Result<Self, Unspecified> {
        let kept = atomic::read_json::<Self>(path).unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot read the web sessions; browsers must sign in again");
            None
        });
        let is_name = |kept: &Self| {
            let random = kept.cookie.strip_prefix(COOKIE_PREFIX);
            random.is_some_and(|random| random.bytes().all(|byte| byte.is_ascii_hexdigit()))
        };
        if let Some(kept) = kept.filter(is_name) {
            return Ok(kept);
        }
        let random = rand::generate::<[u8; 8]>(&rand::SystemRandom::new())?.expose();
        Ok(Self {
            v: 1,
            cookie: format!("{COOKIE_PREFIX}{}", text::hex(&random)),
            sessions: Vec::new(),
        })
    }
}

/// The browsers that are signed in.
pub(super) struct Logins {
    /// `None` where no token is needed.
    key: Option<hmac::Key>,
    /// The cookie's name, which is this home's alone: a browser gives all ports of a host the same cookies, and behind one
    /// name and port there may be several agents, in containers and through tunnels.
    cookie: String,
    path: PathBuf,
    sessions: Mutex<Vec<Session>>,
}

/// What `POST /login` is sent.
#[derive(Debug, Deserialize)]
#[serde(expecting = "an object or form with `token`")]
struct Given {
    token: String,
    /// The page that was asked for.
    #[serde(default)]
    next: Option<String>,
}

impl Logins {
    /// Returns those of earlier daemons that the token still opens.
    ///
    /// # Errors
    /// When this machine gives no random numbers.
    pub(super) fn open(home: &Home, token: Option<&Secret>) -> Result<Self, Failure> {
        let path = home.http_sessions();
        let Kept {
            cookie, sessions, ..
        } = Kept::read(&path)
            .map_err(|_| Failure::failed("this machine gives no random numbers"))?;
        let key = |token: &Secret| hmac::Key::new(hmac::HMAC_SHA256, token.expose().as_bytes());
        Ok(Self {
            key: token.map(key),
            cookie,
            path,
            sessions: Mutex::new(sessions),
        })
    }

    /// Returns the credentials of the cookie.
    pub(super) fn credentials(&self, headers: &HeaderMap) -> Credentials {
        let Some(tag) = self.tag_of(headers) else {
            return Credentials::Missing;
        };
        let now = clock::now_ms();
        let sessions = self.sessions.lock();
        let is_it = |session: &Session| session.tag == tag && now < session.expires_at;
        if sessions.iter().any(is_it) {
            Credentials::Valid
        } else {
            Credentials::Missing
        }
    }

    /// Signs a browser in and returns its cookie: always a new one, whatever it came with.
    fn begin(&self, secure: bool) -> Result<Option<HeaderValue>, ApiError> {
        let Some(key) = &self.key else {
            return Ok(None);
        };
        let random = rand::generate::<[u8; 32]>(&rand::SystemRandom::new());
        let value = text::hex(&random.map_err(|_| ApiError::bug())?.expose());
        let now = clock::now_ms();
        let mut sessions = self.sessions.lock();
        sessions.retain(|session| now < session.expires_at);
        let surplus = (sessions.len() + 1).saturating_sub(MAX_SESSIONS);
        sessions.drain(..surplus);
        sessions.push(Session {
            tag: tag(key, &value),
            expires_at: now + MAX_AGE * 1000,
        });
        self.keep(&sessions)?;
        Ok(Some(self.header(&value, MAX_AGE, secure)?))
    }

    /// Ends the session of this request, on disk first: one that could not be ended there would be back after a restart.
    fn end(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(tag) = self.tag_of(headers) else {
            return Ok(());
        };
        let mut sessions = self.sessions.lock();
        let mut left = sessions.clone();
        left.retain(|session| session.tag != tag);
        if left.len() < sessions.len() {
            self.keep(&left)?;
            *sessions = left;
        }
        Ok(())
    }

    fn keep(&self, sessions: &[Session]) -> Result<(), ApiError> {
        let kept = Kept {
            v: 1,
            cookie: self.cookie.clone(),
            sessions: sessions.to_vec(),
        };
        let bytes = serde_json::to_vec(&kept).map_err(|_| ApiError::bug())?;
        atomic::write(&self.path, &bytes, Durability::Full).map_err(ApiError::not_stored)
    }

    fn header(&self, value: &str, age: i64, secure: bool) -> Result<HeaderValue, ApiError> {
        let secure = if secure { "; Secure" } else { "" };
        let cookie = format!(
            "{}={value}; Path=/; Max-Age={age}; HttpOnly; SameSite=Strict{secure}",
            self.cookie
        );
        HeaderValue::from_str(&cookie).map_err(|_| ApiError::bug())
    }

    /// Returns the tag of the request's cookie; nothing when there is none or two.
    fn tag_of(&self, headers: &HeaderMap) -> Option<String> {
        let key = self.key.as_ref()?;
        let lines = headers.get_all(COOKIE).iter();
        let pairs = lines
            .filter_map(|line| line.to_str().ok())
            .flat_map(|line| line.split(';'));
        let mut ours = pairs
            .filter_map(|pair| pair.trim().split_once('='))
            .filter(|(name, _)| *name == self.cookie);
        let (Some((_, value)), None) = (ours.next(), ours.next()) else {
            return None;
        };
        Some(tag(key, value))
    }
}

fn tag(key: &hmac::Key, value: &str) -> String {
    text::hex(hmac::sign(key, value.as_bytes()).as_ref())
}

/// Returns true for a request that one of our own pages makes, or a person who types an address. What changes something
/// says so: every browser of today sends one of the headers with it, and programs have the token.
pub(super) fn is_from_our_page(method: &Method, headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let site = text("sec-fetch-site");
    if let Some(origin) = text(ORIGIN.as_str()) {
        let host = origin.split_once("://").map(|(_, host)| host);
        let named = text(HOST.as_str());
        let is_same = host
            .zip(named)
            .is_some_and(|(host, named)| host.eq_ignore_ascii_case(named));
        return is_same && site.is_none_or(|site| site == "same-origin");
    }
    match site {
        Some("same-origin") => true,
        Some("none") => reads,
        Some(_) => false,
        None => reads,
    }
}

/// Returns true for a browser that shows a page of ours.
pub(super) fn wants_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// Shows the form; who is signed in may sign out.
pub(super) async fn form(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiError> {
    let known = request_checks::is_owner(&api, &request)?;
    Ok(page::login::form(StatusCode::OK, known, page::PATH, None))
}

/// Takes the token.
pub(super) async fn login(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiError> {
    let (headers, client) = (request.headers().clone(), request_checks::client(&request));
    let is_form = !body::is_json(&headers);
    let Given { token, next } = body::json_or_form(request, MAX_FORM).await?;
    let next = next.filter(|next| page::is_page(next));
    let next = next.unwrap_or_else(|| page::PATH.to_owned());
    let shown = is_form && wants_page(&headers);
    if !api.token_check.is(token.trim().as_bytes()) {
        let hint = "it is AGENT_HTTP_TOKEN, or what [http] token_env names";
        let refusal = ApiError::unauthorized().hint(hint);
        let refusal = request_checks::wrong_token(&api, client, refusal);
        if shown {
            let words = Some("This is not the token.");
            let mut form = page::login::form(refusal.status(), false, &next, words);
            let wait = refusal.into_response().headers_mut().remove(RETRY_AFTER);
            form.headers_mut()
                .extend(wait.map(|wait| (RETRY_AFTER, wait)));
            return Ok(form);
        }
        return Err(refusal);
    }
    // The browser says whether the last part of its way is encrypted, whatever is between.
    let secure = headers
        .get(ORIGIN)
        .is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    // Signing in again replaces the session.
    api.logins.end(&headers)?;
    let cookie = api.logins.begin(secure)?;
    let mut response = if is_form {
        (StatusCode::SEE_OTHER, [(LOCATION, next)]).into_response()
    } else {
        Json(json!({"status": "ok"})).into_response()
    };
    if let Some(cookie) = cookie {
        response.headers_mut().insert(SET_COOKIE, cookie);
    }
    Ok(response)
}

/// Ends the session of this browser.
pub(super) async fn logout(
    State(api): State<Arc<Api>>,
    request: Request,
) -> Result<Response, ApiError> {
    let headers = request.headers();
    api.logins.end(headers)?;
    let response = if body::is_json(headers) {
        Json(json!({"status": "ok"})).into_response()
    } else {
        (StatusCode::SEE_OTHER, [(LOCATION, LOGIN)]).into_response()
    };
    let gone = api.logins.header("", 0, false)?;
    Ok(([(SET_COOKIE, gone)], response).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_token_ends_every_session() {
        let dir = tempfile::tempdir().expect("a directory");
        let logins = |token: &str| {
            let path = dir.path().join("http_sessions.json");
            let kept = Kept::read(&path).expect("random numbers");
            Logins {
                key: Some(hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes())),
                cookie: kept.cookie,
                path,
                sessions: Mutex::new(kept.sessions),
            }
        };
        let cookie = logins("one").begin(false).expect("kept").expect("a cookie");
        let pair = cookie
            .to_str()
            .expect("text")
            .split(';')
            .next()
            .expect("a pair");
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, pair.parse().expect("a value"));
        assert_eq!(logins("one").credentials(&headers), Credentials::Valid);
        assert_eq!(logins("two").credentials(&headers), Credentials::Missing);
        for _ in 0..MAX_SESSIONS {
            logins("one").begin(false).expect("kept");
        }
        assert_eq!(
            logins("one").credentials(&headers),
            Credentials::Missing,
            "the oldest goes"
        );
    }

    #[test]
    fn each_home_has_a_cookie_of_its_own_and_keeps_it() {
        let home = || {
            let dir = tempfile::tempdir().expect("a directory");
            let home = Home::at(dir.path());
            std::fs::create_dir_all(home.state()).expect("a directory");
            (dir, home)
        };
        let name = |home: &Home| {
            let logins = Logins::open(home, Some(&Secret::new("token"))).expect("random numbers");
            logins.begin(false).expect("kept");
            logins.cookie
        };
        let ((_one, one), (_other, other)) = (home(), home());
        let first = name(&one);
        assert_ne!(first, name(&other));
        assert_eq!(first, name(&one));
        let path = one.http_sessions();
        let kept = std::fs::read_to_string(&path).expect("sessions");
        let odd = kept.replace(&first, "a;b");
        atomic::write(&path, odd.as_bytes(), Durability::Rename).expect("written");
        assert!(name(&one).starts_with(COOKIE_PREFIX));
    }

    #[test]
    fn a_session_that_could_not_be_ended_is_ended_by_the_next_try() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("http_sessions.json");
        let logins = Logins {
            key: Some(hmac::Key::new(hmac::HMAC_SHA256, b"token")),
            cookie: "c".to_owned(),
            path: path.clone(),
            sessions: Mutex::default(),
        };
        let cookie = logins.begin(false).expect("kept").expect("a cookie");
        let mut headers = HeaderMap::new();
        headers.insert(COOKIE, cookie);
        let kept = std::fs::read(&path).expect("sessions");
        // Nothing can be written there.
        std::fs::remove_file(&path).expect("removed");
        std::fs::create_dir_all(path.join("in the way")).expect("a directory");
        assert!(logins.end(&headers).is_err());
        std::fs::remove_dir_all(&path).expect("removed");
        atomic::write(&path, &kept, Durability::Rename).expect("written");
        assert!(logins.end(&headers).is_ok());
        let left = atomic::read_json::<Kept>(&path).expect("readable");
        assert_eq!(left.expect("sessions").sessions, []);
    }

    #[test]
    fn a_cookie_counts_for_requests_of_our_own_pages() {
        let check = |method: Method, headers: &[(&'static str, &str)], expected: bool| {
            let mut map = HeaderMap::new();
            map.insert(HOST, HeaderValue::from_static("localhost:8100"));
            for (name, value) in headers {
                map.insert(*name, value.parse().expect("a value"));
            }
            assert_eq!(
                is_from_our_page(&method, &map),
                expected,
                "{method} {headers:?}"
            );
        };
        let (ours, json) = (
            ("origin", "http://localhost:8100"),
            ("content-type", "application/json"),
        );
        check(Method::GET, &[], true);
        check(Method::GET, &[("sec-fetch-site", "none")], true);
        check(Method::GET, &[("sec-fetch-site", "same-site")], false);
        check(Method::GET, &[("sec-fetch-site", "cross-site")], false);
        check(Method::GET, &[("origin", "http://localhost:3000")], false);
        check(Method::POST, &[ours], true);
        check(
            Method::POST,
            &[ours, ("sec-fetch-site", "same-origin")],
            true,
        );
        check(
            Method::POST,
            &[ours, ("sec-fetch-site", "cross-site")],
            false,
        );
        check(Method::POST, &[("origin", "null"), json], false);
        check(
            Method::POST,
            &[("origin", "http://localhost:3000"), json],
            false,
        );
        check(
            Method::POST,
            &[("origin", "https://chat.example"), json],
            false,
        );
        check(Method::POST, &[("sec-fetch-site", "none"), json], false);
        check(Method::POST, &[("content-type", "text/plain")], false);
        check(
            Method::POST,
            &[("content-type", "application/x-www-form-urlencoded")],
            false,
        );
        check(Method::POST, &[], false);
        check(Method::POST, &[json], false);
        check(Method::DELETE, &[("sec-fetch-site", "same-origin")], true);
    }
}

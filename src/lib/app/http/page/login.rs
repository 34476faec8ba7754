//! The sign-in form, shown in place of a page that needs the token.

use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};

use super::html::Html;
use super::{Look, document};
use crate::app::http::error::ApiError;

/// How a request came to us.
pub(in crate::app::http) struct Arrived {
    /// A link of another site led here. The browser sends no cookie of ours then.
    by_foreign_link: bool,
}

impl Arrived {
    pub(in crate::app::http) fn of(headers: &HeaderMap) -> Self {
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        Self {
            by_foreign_link: text("sec-fetch-mode") == Some("navigate")
                && matches!(text("sec-fetch-site"), Some("cross-site" | "same-site")),
        }
    }
}

/// Returns what a browser shows when a page is refused.
pub(in crate::app::http) fn instead_of(
    path: &str,
    arrived: &Arrived,
    refusal: ApiError,
) -> Response {
    if refusal.status() != StatusCode::UNAUTHORIZED {
        return refusal.into_response();
    }
    // Asked for once more by ourselves, the browser sends its cookie.
    let again = arrived.by_foreign_link.then_some(path);
    shown(StatusCode::UNAUTHORIZED, false, path, None, again)
}

/// Returns the form; `known`: this browser is signed in. `trouble` says what was wrong.
pub(in crate::app::http) fn form(
    status: StatusCode,
    known: bool,
    next: &str,
    trouble: Option<&str>,
) -> Response {
    shown(status, known, next, trouble, None)
}

fn shown(
    status: StatusCode,
    known: bool,
    next: &str,
    trouble: Option<&str>,
    again: Option<&str>,
) -> Response {
    let mut page = Html::default();
    page.raw("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>Sign in – agent</title>");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    if let Some(path) = again {
        page.raw("<meta http-equiv=\"refresh\" content=\"0;url=")
            .text(path)
            .raw("\">");
    }
    page.raw("<link rel=\"icon\" href=\"/assets/icon.svg\"><link rel=\"stylesheet\" href=\"/assets/app.css\"></head>");
    page.raw("<body class=\"sign-in\"><main class=\"card\"><h1>agent</h1>");
    if known {
        page.raw("<p>You are signed in.</p><p><a href=\"/\">Open the chat</a></p>");
        page.raw("<form method=\"post\" action=\"/logout\"><button>Sign out</button></form>");
    } else {
        if let Some(words) = trouble {
            page.raw("<p class=\"trouble\" role=\"alert\" id=\"trouble\">")
                .text(words)
                .raw("</p>");
        }
        page.raw("<form method=\"post\" action=\"/login\"><label for=\"token\">Token</label>");
        // Programs that keep passwords ask for a name.
        page.raw("<input hidden name=\"username\" autocomplete=\"username\" value=\"owner\">");
        page.raw("<input id=\"token\" name=\"token\" type=\"password\" required autofocus autocomplete=\"current-password\"");
        if trouble.is_some() {
            page.raw(" aria-invalid=\"true\" aria-describedby=\"trouble\"");
        }
        page.raw("><input type=\"hidden\" name=\"next\" value=\"")
            .text(next);
        page.raw("\"><button class=\"primary\">Sign in</button></form>");
        page.raw("<p class=\"quiet\">The token is <code>AGENT_HTTP_TOKEN</code> in the agent's <code>.env</code>.</p>");
    }
    page.raw("</main></body></html>");
    // Without a referrer the form would send no Origin.
    let look = Look {
        referrer: "same-origin",
        policy: "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'".to_owned(),
    };
    let mut response = document(page.into_text(), look);
    *response.status_mut() = status;
    if status == StatusCode::UNAUTHORIZED {
        // `Basic` would open a window of the browser's own.
        let scheme = HeaderValue::from_static("Bearer");
        response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
    }
    response
}

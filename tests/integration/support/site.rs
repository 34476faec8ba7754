//! A site on loopback as people use one in a browser: a page to sign in, a form behind it, and what was ordered there.

use std::sync::{Arc, Mutex};

use super::server::{Server, lock};
use axum::{
    Router,
    extract::State,
    http::HeaderMap,
    response::{Html, IntoResponse as _, Redirect, Response},
    routing::get,
};

/// Who may sign in, and with which password.
pub(crate) const USER: &str = "ada";
pub(crate) const PASSWORD: &str = "correct horse battery";
const COOKIE: &str = "session=s1";

/// The site; dropping it closes the port.
pub(crate) struct Site {
    server: Server,
    orders: Arc<Mutex<Vec<(String, String)>>>,
}

type Orders = State<Arc<Mutex<Vec<(String, String)>>>>;

impl Site {
    /// Starts one on a free port.
    pub(crate) fn start() -> Self {
        let orders = Arc::default();
        let routes = Router::new()
            .route("/", get(sign_in).post(signed_in))
            .route("/table", get(form).post(ordered))
            .with_state(Arc::clone(&orders));
        Self {
            server: Server::start("site", routes),
            orders,
        }
    }

    /// Returns its address.
    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    /// Returns `127.0.0.1:PORT`.
    pub(crate) fn host(&self) -> String {
        self.url().trim_start_matches("http://").to_owned()
    }

    /// Returns what was ordered: for whom and when.
    pub(crate) fn orders(&self) -> Vec<(String, String)> {
        lock(&self.orders).clone()
    }
}

async fn sign_in() -> Html<&'static str> {
    Html(
        "<!doctype html><title>Sign in</title><form method=post><label>User <input name=user></label>\
         <label>Password <input type=password name=password></label><button>Sign in</button></form>",
    )
}

async fn signed_in(body: String) -> Response {
    match (
        field(&body, "user").as_str(),
        field(&body, "password").as_str(),
    ) {
        (USER, PASSWORD) => ([("set-cookie", COOKIE)], Redirect::to("/table")).into_response(),
        _ => Html("<!doctype html><p>Wrong user or password").into_response(),
    }
}

fn is_signed_in(headers: &HeaderMap) -> bool {
    headers.get("cookie").is_some_and(|cookie| cookie == COOKIE)
}

async fn form(headers: HeaderMap) -> Response {
    if !is_signed_in(&headers) {
        return Redirect::to("/").into_response();
    }
    Html(
        "<!doctype html><title>Book a table</title><h1>Book a table</h1><form method=post>\
         <label>Name <input name=name></label><label>Day <input name=day></label><button>Book</button></form>",
    )
    .into_response()
}

async fn ordered(State(orders): Orders, headers: HeaderMap, body: String) -> Response {
    if !is_signed_in(&headers) {
        return Redirect::to("/").into_response();
    }
    let (name, day) = (field(&body, "name"), field(&body, "day"));
    let said = format!("<!doctype html><title>Booked</title><h1>Booked for {name} on {day}</h1>");
    lock(&orders).push((name, day));
    Html(said).into_response()
}

/// Returns a field of a form.
fn field(body: &str, name: &str) -> String {
    let url = reqwest::Url::parse(&format!("http://form/?{body}")).expect("a form");
    let mut fields = url.query_pairs();
    let found = fields.find(|(key, _)| key == name);
    found
        .map(|(_, value)| value.into_owned())
        .unwrap_or_default()
}

//! A web server on loopback that serves what it was given, by path, and remembers who asked.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Request, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};

use super::server::{Server, lock};

/// The server; dropping it closes the port.
pub(crate) struct Pages {
    server: Server,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    pages: Mutex<BTreeMap<String, (u16, String, Bytes)>>,
    asked: Mutex<Vec<(String, BTreeMap<String, String>)>>,
    told: Mutex<Vec<String>>,
}

impl Pages {
    /// Starts one on a free port; every path is 404 until it is given something.
    pub(crate) fn start() -> Self {
        let shared = Arc::new(Shared::default());
        let routes = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&shared));
        Self {
            server: Server::start("fake-pages", routes),
            shared,
        }
    }

    /// Returns the address of a path.
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.server.url())
    }

    /// Returns `127.0.0.1:PORT`.
    pub(crate) fn host(&self) -> String {
        self.server.url().trim_start_matches("http://").to_owned()
    }

    /// Serves `body` at `path`; with a status of redirects it is where they lead.
    pub(crate) fn put(
        &self,
        path: &str,
        status: u16,
        content_type: &str,
        body: impl Into<Vec<u8>>,
    ) {
        lock(&self.shared.pages).insert(
            path.to_owned(),
            (status, content_type.to_owned(), Bytes::from(body.into())),
        );
    }

    /// Returns what was asked for, with its query, and with which headers.
    pub(crate) fn asked(&self) -> Vec<(String, BTreeMap<String, String>)> {
        lock(&self.shared.asked).clone()
    }

    /// Returns what was sent, the bodies of requests that have one.
    pub(crate) fn told(&self) -> Vec<String> {
        lock(&self.shared.told).clone()
    }
}

async fn answer(State(shared): State<Arc<Shared>>, request: Request) -> Response {
    let headers = request.headers().iter();
    let headers = headers.map(|(name, value)| {
        (
            name.to_string(),
            String::from_utf8_lossy(value.as_bytes()).into_owned(),
        )
    });
    let asked = request
        .uri()
        .path_and_query()
        .map_or_else(String::new, ToString::to_string);
    lock(&shared.asked).push((asked, headers.collect()));
    let path = request.uri().path().to_owned();
    if let Ok(body) = axum::body::to_bytes(request.into_body(), 1 << 20).await
        && !body.is_empty()
    {
        lock(&shared.told).push(String::from_utf8_lossy(&body).into_owned());
    }
    let found = lock(&shared.pages).get(&path).cloned();
    match found {
        Some((status @ 300..=399, _, to)) => (
            status_of(status),
            [("location", String::from_utf8_lossy(&to).into_owned())],
            Bytes::new(),
        )
            .into_response(),
        Some((status, content_type, body)) => {
            (status_of(status), [("content-type", content_type)], body).into_response()
        }
        None => (StatusCode::NOT_FOUND, "there is no such page").into_response(),
    }
}

fn status_of(status: u16) -> StatusCode {
    StatusCode::from_u16(status).expect("a status of HTTP")
}

/// A PDF of one page that says `words`.
pub(crate) fn pdf(words: &str) -> Vec<u8> {
    let content = format!(
        "BT /F1 12 Tf 72 700 Td ({}) Tj ET",
        words.replace(['(', ')', '\\'], "")
    );
    let objects = [
        "<</Type/Catalog/Pages 2 0 R>>".to_owned(),
        "<</Type/Pages/Kids[3 0 R]/Count 1>>".to_owned(),
        "<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>".to_owned(),
        format!("<</Length {}>>stream\n{content}\nendstream", content.len()),
        "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>".to_owned(),
    ];
    let (mut file, mut table) = ("%PDF-1.4\n".to_owned(), "0000000000 65535 f \n".to_owned());
    for (number, object) in (1..).zip(objects) {
        table.push_str(&format!("{:010} 00000 n \n", file.len()));
        file.push_str(&format!("{number} 0 obj\n{object}\nendobj\n"));
    }
    let start = file.len();
    file.push_str(&format!(
        "xref\n0 6\n{table}trailer\n<</Size 6/Root 1 0 R>>\nstartxref\n{start}\n%%EOF\n"
    ));
    file.into_bytes()
}

//! The files of the page: style, scripts and picture. They are built in, public, and cached by browsers until they change.

use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderMap, HeaderName, IF_NONE_MATCH};

use crate::app::http::body::Named;
use crate::app::http::error::ApiError;

/// Where they are.
const PREFIX: &str = "/assets/";
const STYLE: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// Name, type and bytes of each.
const FILES: &[(&str, &str, &str)] = &[
    ("app.css", STYLE, include_str!("web/app.css")),
    ("app.js", SCRIPT, include_str!("web/app.js")),
    ("api.js", SCRIPT, include_str!("web/api.js")),
    ("chat.js", SCRIPT, include_str!("web/chat.js")),
    ("composer.js", SCRIPT, include_str!("web/composer.js")),
    ("dom.js", SCRIPT, include_str!("web/dom.js")),
    ("markdown.js", SCRIPT, include_str!("web/markdown.js")),
    ("panels.js", SCRIPT, include_str!("web/panels.js")),
    ("transcript.js", SCRIPT, include_str!("web/transcript.js")),
    ("icon.svg", "image/svg+xml", include_str!("web/icon.svg")),
];

/// Returns true for the path of one of them.
pub(in crate::app::http) fn is_one(path: &str) -> bool {
    let name = path.strip_prefix(PREFIX);
    name.is_some_and(|name| FILES.iter().any(|(known, ..)| *known == name))
}

/// Sends one of them, or says that it has not changed.
pub(in crate::app::http) async fn serve(
    Named(name): Named,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let (_, kind, bytes) = FILES
        .iter()
        .find(|(known, ..)| *known == name)
        .ok_or_else(|| ApiError::not_found("nothing is here"))?;
    let tag = format!("\"{:.32}\"", crate::text::sha256_hex(bytes.as_bytes()));
    let said = [
        (CONTENT_TYPE, (*kind).to_owned()),
        // Asked for again each time, so that a newer daemon never runs with an older script.
        (CACHE_CONTROL, "no-cache".to_owned()),
        (ETAG, tag.clone()),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin".to_owned(),
        ),
    ];
    let known = headers.get(IF_NONE_MATCH);
    if known.is_some_and(|known| known.as_bytes() == tag.as_bytes()) {
        return Ok((StatusCode::NOT_MODIFIED, said).into_response());
    }
    Ok((said, *bytes).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_loads_nothing_of_others() {
        let all = FILES.iter().map(|(_, _, bytes)| bytes.len()).sum::<usize>()
            + include_str!("web/app.html").len();
        assert!(all <= 150_000, "{all} bytes");
        for (name, _, bytes) in FILES {
            // The name of a namespace is not loaded.
            let bytes = bytes.replace("http://www.w3.org/2000/svg", "");
            for never in [
                "url(",
                "@import",
                "http://",
                "eval(",
                "innerHTML",
                "insertAdjacentHTML",
                "document.write",
            ] {
                assert!(!bytes.contains(never), "{name}: {never}");
            }
        }
        assert!(is_one("/assets/app.js") && !is_one("/assets/") && !is_one("/assets/../mod.rs"));
    }
}

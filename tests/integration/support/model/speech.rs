//! Recordings: the form is read as strictly as RFC 7578 allows, and refused as OpenAI refuses it (its API
//! reference, "Create transcription", 2026-11).

use std::collections::BTreeMap;

use axum::{
    Json,
    http::{HeaderMap, header},
    response::{IntoResponse as _, Response},
};
use serde_json::json;

use super::{
    super::server::{Connection, lock},
    Recording, Reply, Shared, Usage, Wire,
    serve::{has_key, refuse},
};

/// The endings the vendor takes.
const ENDINGS: [&str; 9] = [
    "flac", "mp3", "mp4", "mpeg", "mpga", "m4a", "ogg", "wav", "webm",
];

pub(super) async fn serve(
    shared: &Shared,
    connection: &Connection,
    headers: &HeaderMap,
    raw: &[u8],
) -> Response {
    if !has_key(Wire::OpenAi, headers) {
        return refuse(Wire::OpenAi, 401, "you did not provide an API key", None);
    }
    let recording = match read(headers, raw) {
        Ok(recording) => recording,
        Err(why) => return refuse(Wire::OpenAi, 400, &why, None),
    };
    let (size, model) = (recording.bytes.len(), recording.model.clone());
    let reply = {
        let mut state = lock(&shared.state);
        state.recordings.push(recording);
        state.heard.pop_front()
    };
    if matches!(reply, None | Some(Reply::Text(_))) {
        shared.charge(&model, Usage::default(), size);
    }
    match reply {
        None => Json(json!({"text": format!("heard {size} bytes")})).into_response(),
        Some(Reply::Text(text)) => Json(json!({"text": text})).into_response(),
        Some(Reply::Status(code, retry_after)) => {
            refuse(Wire::OpenAi, code, "as the test asked", retry_after)
        }
        Some(Reply::Disconnect) => connection.cut().await,
        Some(Reply::Hang) => std::future::pending().await,
        Some(other) => panic!("a recording cannot get {other:?}"),
    }
}

/// A part of the form.
struct Part<'a> {
    filename: Option<String>,
    body: &'a [u8],
}

fn read(headers: &HeaderMap, raw: &[u8]) -> Result<Recording, String> {
    let kind = headers
        .get(header::CONTENT_TYPE)
        .and_then(|kind| kind.to_str().ok())
        .unwrap_or_default();
    let boundary = kind
        .strip_prefix("multipart/form-data; boundary=")
        .ok_or_else(|| format!("{kind:?} is no form"))?;
    let mut parts = parts(boundary, raw)?;
    let mut text = |name: &str| {
        let part = parts
            .remove(name)
            .filter(|part| part.filename.is_none())
            .ok_or_else(|| format!("{name}: field required"))?;
        String::from_utf8(part.body.to_vec()).map_err(|_| format!("{name}: not text"))
    };
    let (model, format) = (text("model")?, text("response_format")?);
    if model.is_empty() || format != "json" {
        return Err(format!("model {model:?}, response_format {format:?}"));
    }
    let file = parts.remove("file").ok_or("file: field required")?;
    let filename = file.filename.ok_or("file: it has no name")?;
    if !filename
        .rsplit_once('.')
        .is_some_and(|(_, ending)| ENDINGS.contains(&ending))
    {
        return Err(format!("unrecognized file format: {filename}"));
    }
    if file.body.is_empty() {
        return Err("file: it is empty".to_owned());
    }
    if let Some(name) = parts.keys().next() {
        return Err(format!("{name}: unknown parameter"));
    }
    Ok(Recording {
        model,
        filename,
        bytes: file.body.to_vec(),
    })
}

/// Returns the parts by name; nothing may stand before, between or after them.
fn parts<'a>(boundary: &str, raw: &'a [u8]) -> Result<BTreeMap<String, Part<'a>>, String> {
    let (first, next) = (format!("--{boundary}"), format!("\r\n--{boundary}"));
    let mut rest = raw
        .strip_prefix(first.as_bytes())
        .ok_or("the body does not begin with the boundary")?;
    let mut parts = BTreeMap::new();
    while let Some(part) = rest.strip_prefix(b"\r\n") {
        let (part, after) = split(part, next.as_bytes()).ok_or("a part does not end")?;
        let (head, body) = split(part, b"\r\n\r\n").ok_or("a part has no head")?;
        let head = String::from_utf8(head.to_vec()).map_err(|_| "a head is not text")?;
        let disposition = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Disposition: form-data; "));
        let field = |name: &str| {
            let fields = disposition?.split("; ");
            let mut values = fields
                .filter_map(|field| field.split_once('='))
                .filter(|(key, _)| *key == name);
            Some(values.next()?.1.trim_matches('"').to_owned())
        };
        let name = field("name").ok_or_else(|| format!("a part has no name: {head:?}"))?;
        if parts
            .insert(
                name.clone(),
                Part {
                    filename: field("filename"),
                    body,
                },
            )
            .is_some()
        {
            return Err(format!("{name}: it is there twice"));
        }
        rest = after;
    }
    if rest == b"--\r\n" {
        Ok(parts)
    } else {
        Err("the form does not end".to_owned())
    }
}

fn split<'a>(bytes: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let start = bytes.windows(at.len()).position(|window| window == at)?;
    Some((&bytes[..start], &bytes[start + at.len()..]))
}

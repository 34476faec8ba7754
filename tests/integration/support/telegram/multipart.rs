//! multipart/form-data (RFC 7578), as much of it as Bot API clients send.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// A file in a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Upload {
    /// The name it was sent under.
    pub(crate) filename: String,
    /// What is in it.
    pub(crate) bytes: Vec<u8>,
}

/// Returns the texts and the files of a form; `None` when it is none or is cut off.
pub(super) fn read(
    content_type: &str,
    body: &[u8],
) -> Option<(Map<String, Value>, BTreeMap<String, Upload>)> {
    let boundary = content_type
        .split(';')
        .find_map(|part| part.trim().strip_prefix("boundary="))?
        .trim_matches('"');
    let delimiter = format!("--{boundary}");
    let (mut texts, mut files) = (Map::new(), BTreeMap::new());
    let mut rest = body.strip_prefix(delimiter.as_bytes())?;
    let next = format!("\r\n{delimiter}");
    while !rest.starts_with(b"--") {
        rest = rest.strip_prefix(b"\r\n")?;
        let (head, content) = split(rest, b"\r\n\r\n")?;
        let (content, after) = split(content, next.as_bytes())?;
        let head = std::str::from_utf8(head).ok()?;
        let disposition = head.lines().find(|line| {
            line.to_ascii_lowercase()
                .starts_with("content-disposition: form-data")
        })?;
        let name = parameter(disposition, "name")?;
        match parameter(disposition, "filename") {
            Some(filename) => {
                _ = files.insert(
                    name,
                    Upload {
                        filename,
                        bytes: content.to_vec(),
                    },
                )
            }
            None => {
                _ = texts.insert(
                    name,
                    Value::String(String::from_utf8(content.to_vec()).ok()?),
                )
            }
        }
        rest = after;
    }
    Some((texts, files))
}

fn split<'a>(bytes: &'a [u8], at: &[u8]) -> Option<(&'a [u8], &'a [u8])> {
    let found = bytes.windows(at.len()).position(|window| window == at)?;
    Some((&bytes[..found], &bytes[found + at.len()..]))
}

/// Returns the quoted value of ` name="…"`, with `\` before a quote or another `\` taken away.
fn parameter(line: &str, name: &str) -> Option<String> {
    let (_, rest) = line.split_once(&format!("; {name}=\""))?;
    let mut value = String::new();
    let mut letters = rest.chars();
    loop {
        match letters.next()? {
            '"' => return Some(value),
            '\\' => value.push(letters.next()?),
            letter => value.push(letter),
        }
    }
}

//! The result of a server's tool: text for a model, and files (pictures, sound, resources that are not text). Pure.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::net;

/// What is in the words where a file stood.
const PLACE: char = '\u{fffc}';
/// The most files of one answer.
const MAX_FILES: usize = 10;

/// An answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    words: String,
    /// Its files, in the order of their places in the words.
    pub files: Vec<File>,
    pub is_error: bool,
}

/// A file of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// `image`, `audio` or `resource ADDRESS`, fit for a line.
    pub what: String,
    /// What the server says it is, fit for a line.
    pub content_type: String,
    pub bytes: Vec<u8>,
}

impl Answer {
    /// Reads the result of a call.
    pub(super) fn read(result: &Value) -> Self {
        let blocks = result.get("content").and_then(Value::as_array);
        let mut files = Vec::new();
        let mut parts: Vec<String> = blocks
            .into_iter()
            .flatten()
            .map(|block| part(block, &mut files))
            .collect();
        let structured = result
            .get("structuredContent")
            .filter(|value| !value.is_null());
        // The protocol wants the same in both; some servers put a summary into the words.
        if let Some(structured) = structured
            && !parts.iter().any(|part| is_same(part, structured))
        {
            parts.push(structured.to_string());
        }
        let words = if parts.is_empty() {
            "(no words)".to_owned()
        } else {
            parts.join("\n")
        };
        Self {
            words,
            files,
            is_error: result.get("isError") == Some(&Value::Bool(true)),
        }
    }

    /// Returns the text; `place` gives the replacement of each file.
    pub fn text(&self, mut place: impl FnMut(&File) -> String) -> String {
        let mut parts = self.words.split(PLACE);
        let mut text = parts.next().unwrap_or_default().to_owned();
        for (part, file) in parts.zip(&self.files) {
            text += &place(file);
            text += part;
        }
        text
    }
}

/// The official SDKs put a plain text into `{"result": …}`.
fn is_same(part: &str, structured: &Value) -> bool {
    let wrapped = structured
        .as_object()
        .filter(|fields| fields.len() == 1)
        .and_then(|fields| fields.get("result")?.as_str());
    if wrapped == Some(part) {
        return true;
    }
    crate::text::json::parse::<Value>(part.as_bytes()).is_ok_and(|said| said == *structured)
}

fn part(block: &Value, files: &mut Vec<File>) -> String {
    let field =
        |block: &Value, key: &str| net::server_text(block[key].as_str().unwrap_or_default());
    let raw = |block: &Value, key: &str| block[key].as_str().map(|words| words.replace(PLACE, ""));
    let mut file = |what: String, data: &Value, content_type: String| {
        let bytes = data.as_str().and_then(|data| STANDARD.decode(data).ok());
        match bytes {
            Some(bytes) if files.len() < MAX_FILES => {
                files.push(File {
                    what,
                    content_type,
                    bytes,
                });
                PLACE.to_string()
            }
            _ => format!("[{what}, {content_type}, not kept]"),
        }
    };
    match block["type"].as_str().unwrap_or_default() {
        "text" => raw(block, "text").unwrap_or_default(),
        kind @ ("image" | "audio") => {
            file(kind.to_owned(), &block["data"], field(block, "mimeType"))
        }
        "resource_link" => format!(
            "[a link to {} {}]",
            field(block, "uri"),
            field(block, "name")
        ),
        "resource" => {
            let resource = &block["resource"];
            let uri = field(resource, "uri");
            match raw(resource, "text") {
                Some(text) => format!("[resource {uri}]\n{text}"),
                None => file(
                    format!("resource {uri}"),
                    &resource["blob"],
                    field(resource, "mimeType"),
                ),
            }
        }
        other => format!("[{}, which is not shown]", net::server_text(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_are_joined_files_have_their_place_and_the_rest_is_named() {
        let answer = Answer::read(&json!({"content": [
            {"type": "text", "text": "two\nli\u{fffc}nes"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAA=", "mimeType": "application/pdf"}},
            {"type": "resource_link", "uri": "file:///c", "name": "C"},
            {"type": "audio", "data": "?", "mimeType": "audio/\nwav"},
            {"type": "hologram"}
        ], "isError": true}));
        assert!(answer.is_error);
        let text = answer
            .text(|file| format!("<{} {} {}>", file.what, file.content_type, file.bytes.len()));
        assert_eq!(
            text,
            "two\nlines\n<image image/png 3>\n[resource file:///a]\ninside\n<resource file:///b application/pdf 2>\n\
             [a link to file:///c C]\n[audio, audio/ wav, not kept]\n[hologram, which is not shown]"
        );
    }

    #[test]
    fn structure_is_shown_once_and_an_empty_answer_is_said() {
        let text = |result: Value| Answer::read(&result).text(|_| String::new());
        assert_eq!(
            text(json!({"content": [], "structuredContent": {"sum": 3}})),
            "{\"sum\":3}"
        );
        let said = json!({"type": "text", "text": "{ \"sum\": 3 }"});
        assert_eq!(
            text(json!({"content": [said], "structuredContent": {"sum": 3}})),
            "{ \"sum\": 3 }"
        );
        let said = json!({"type": "text", "text": "done"});
        assert_eq!(
            text(json!({"content": [said], "structuredContent": {"result": "done"}})),
            "done"
        );
        assert_eq!(
            text(json!({"content": [said], "structuredContent": {"sum": 3}})),
            "done\n{\"sum\":3}"
        );
        assert_eq!(text(json!({"content": "?"})), "(no words)");
        assert_eq!(text(json!(null)), "(no words)");
    }
}

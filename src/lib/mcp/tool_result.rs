//! What a tool of a server answered, as text for a model: what is no text is named in words. Pure.

use serde_json::Value;

use crate::net;

/// A server's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Its words.
    pub text: String,
    /// Whether the tool says that it failed.
    pub is_error: bool,
}

impl Answer {
    /// Reads the result of a call.
    pub(super) fn read(result: &Value) -> Self {
        let blocks = result.get("content").and_then(Value::as_array);
        let mut parts: Vec<String> = blocks.into_iter().flatten().map(part).collect();
        if parts.is_empty()
            && let Some(structured) = result
                .get("structuredContent")
                .filter(|value| !value.is_null())
        {
            parts.push(structured.to_string());
        }
        let text = if parts.is_empty() {
            "(no words)".to_owned()
        } else {
            parts.join("\n")
        };
        Self {
            text,
            is_error: result.get("isError") == Some(&Value::Bool(true)),
        }
    }
}

fn part(block: &Value) -> String {
    let words = |key: &str| block.get(key).and_then(Value::as_str).unwrap_or_default();
    match words("type") {
        "text" => words("text").to_owned(),
        kind @ ("image" | "audio") => {
            let bytes = words("data").len() / 4 * 3;
            format!(
                "[{kind}, {}, about {bytes} bytes, not shown]",
                net::words(words("mimeType"))
            )
        }
        "resource_link" => format!(
            "[a link to {} {}]",
            net::words(words("uri")),
            net::words(words("name"))
        ),
        "resource" => {
            let resource = block.get("resource").unwrap_or(&Value::Null);
            let field = |key: &str| resource.get(key).and_then(Value::as_str);
            let uri = net::words(field("uri").unwrap_or_default());
            match field("text") {
                Some(text) => format!("[resource {uri}]\n{text}"),
                None => format!(
                    "[resource {uri}, {}, not shown]",
                    net::words(field("mimeType").unwrap_or("bytes"))
                ),
            }
        }
        other => format!("[{}, which is not shown]", net::words(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn words_are_joined_and_the_rest_is_named() {
        let answer = Answer::read(&json!({"content": [
            {"type": "text", "text": "two\nlines"},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "file:///b", "blob": "AAAA", "mimeType": "application/pdf"}},
            {"type": "resource_link", "uri": "file:///c", "name": "C"},
            {"type": "hologram"}
        ], "isError": true}));
        let text = "two\nlines\n[image, image/png, about 3 bytes, not shown]\n[resource file:///a]\ninside\n\
            [resource file:///b, application/pdf, not shown]\n[a link to file:///c C]\n[hologram, which is not shown]";
        assert_eq!(
            answer,
            Answer {
                text: text.to_owned(),
                is_error: true
            }
        );
    }

    #[test]
    fn an_answer_without_blocks_is_its_structure_or_nothing() {
        let text = |result: Value| Answer::read(&result).text;
        assert_eq!(
            text(json!({"content": [], "structuredContent": {"sum": 3}})),
            "{\"sum\":3}"
        );
        assert_eq!(text(json!({"content": "?"})), "(no words)");
        assert_eq!(text(json!(null)), "(no words)");
    }
}

//! What a tool of a server answered, as text for a model: what is no text is named in words. Pure.

use serde_json::Value;

use crate::net;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    pub text: String,
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
    let field =
        |block: &Value, key: &str| net::server_text(block[key].as_str().unwrap_or_default());
    let raw = |block: &Value, key: &str| block[key].as_str().map(str::to_owned);
    match block["type"].as_str().unwrap_or_default() {
        "text" => raw(block, "text").unwrap_or_default(),
        kind @ ("image" | "audio") => {
            let bytes = block["data"].as_str().map_or(0, |data| data.len() / 4 * 3);
            let content_type = field(block, "mimeType");
            format!("[{kind}, {content_type}, about {bytes} bytes, not shown]")
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
                None => format!(
                    "[resource {uri}, {}, not shown]",
                    field(resource, "mimeType")
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

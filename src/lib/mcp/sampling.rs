//! Requests of a server to a model during a call (`sampling/createMessage`): only text, no tools, bounded. Pure.

use serde_json::{Value, json};

use crate::text;

/// Messages of a request, and characters of all of them.
const MAX_MESSAGES: usize = 20;
const MAX_CHARS: usize = 40_000;

/// A sampling request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleRequest {
    /// The server's system prompt; may be empty.
    pub system: String,
    /// The messages in order, and whether a model wrote each.
    pub messages: Vec<(bool, String)>,
    /// The most tokens of the answer, 1 or more.
    pub max_tokens: u32,
}

/// The answer of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampled {
    pub text: String,
    /// The configured name of the model.
    pub model: String,
    /// Whether it was cut at the most tokens.
    pub cut: bool,
}

impl Sampled {
    pub(super) fn result(&self) -> Value {
        let why = if self.cut { "maxTokens" } else { "endTurn" };
        json!({
            "role": "assistant",
            "content": {"type": "text", "text": self.text},
            "model": self.model,
            "stopReason": why,
        })
    }
}

impl SampleRequest {
    /// Reads a request.
    ///
    /// # Errors
    /// Why it is not put to a model, for the server.
    pub(super) fn read(params: &Value) -> Result<Self, String> {
        if ["tools", "toolChoice"]
            .iter()
            .any(|key| !params[*key].is_null())
        {
            return Err("this client gives a sampled model no tools".to_owned());
        }
        let messages: Vec<(bool, String)> = params["messages"]
            .as_array()
            .into_iter()
            .flatten()
            .map(message)
            .collect::<Result<_, String>>()?;
        let is_asked = messages.last().is_some_and(|(by_model, _)| !by_model);
        if messages.len() > MAX_MESSAGES || !is_asked {
            return Err(format!(
                "this client takes 1 to {MAX_MESSAGES} messages, the last of them the user's"
            ));
        }
        let system = params["systemPrompt"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let all = messages.iter().map(|(_, words)| words).chain([&system]);
        if all.map(|words| words.chars().count()).sum::<usize>() > MAX_CHARS {
            return Err(format!("this client takes at most {MAX_CHARS} characters"));
        }
        let most = params["maxTokens"].as_u64().unwrap_or(u64::MAX).max(1);
        Ok(Self {
            system,
            messages,
            max_tokens: u32::try_from(most).unwrap_or(u32::MAX),
        })
    }

    /// Returns what the owner reads of it, each message with what is left out of it, about 3,000 characters at most.
    pub fn text(&self, server: &str, max_tokens: u32) -> String {
        let mut lines = vec![format!(
            "the tool server {server} wants words of the model, at most {max_tokens} tokens, at your cost:"
        )];
        if !self.system.is_empty() {
            lines.push(format!(
                "(system) {}",
                text::head_and_tail(&self.system, 300, 70)
            ));
        }
        let before = self.messages.len().saturating_sub(1);
        // Of those before the last all begin here: what the model is told is theirs to see.
        let room = 600 / before.max(1);
        for (number, (by_model, words)) in self.messages.iter().enumerate() {
            let who = if *by_model { "(model) " } else { "" };
            let most = if number == before { 1000 } else { room };
            lines.push(format!("{who}{}", text::head_and_tail(words, most, 70)));
        }
        let all = self.messages.iter().map(|(_, words)| words);
        let all: usize = all
            .chain([&self.system])
            .map(|words| words.chars().count())
            .sum();
        if self.messages.len() > 1 || all > 1000 {
            let messages = text::counted(self.messages.len(), "message");
            lines.push(format!("({messages}, {all} characters in all are sent)"));
        }
        lines.join("\n")
    }
}

fn message(message: &Value) -> Result<(bool, String), String> {
    let by_model = match message["role"].as_str() {
        Some("user") => false,
        Some("assistant") => true,
        _ => return Err("a message is the user's or the assistant's".to_owned()),
    };
    let of = |content: &Value| match (content["type"].as_str(), content["text"].as_str()) {
        (Some("text"), Some(words)) => Ok(words.to_owned()),
        _ => Err("this client samples words only".to_owned()),
    };
    let words = match &message["content"] {
        Value::Array(several) => several
            .iter()
            .map(of)
            .collect::<Result<Vec<_>, _>>()?
            .join("\n"),
        one => of(one)?,
    };
    Ok((by_model, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_words_within_bounds() {
        let said = |role: &str, words: &str| json!({"role": role, "content": {"type": "text", "text": words}});
        let read = SampleRequest::read(&json!({
            "messages": [said("user", "a"), said("assistant", "b"), said("user", "c")],
            "systemPrompt": "be short", "maxTokens": 90, "includeContext": "allServers"
        }))
        .expect("a request");
        let messages = [(false, "a"), (true, "b"), (false, "c")];
        assert_eq!(
            read.messages,
            messages.map(|(by, words)| (by, words.to_owned()))
        );
        assert_eq!((read.system.as_str(), read.max_tokens), ("be short", 90));
        let shown = read.text("desk", 50);
        assert!(
            shown.contains("at most 50 tokens") && shown.contains("\na\n(model) b\nc\n"),
            "{shown}"
        );
        assert!(
            shown.ends_with("(3 messages, 11 characters in all are sent)"),
            "{shown}"
        );
        let long = SampleRequest {
            messages: vec![(false, "x".repeat(5000)), (false, "y".repeat(3000))],
            ..read
        };
        let shown = long.text("desk", 50);
        assert!(shown.contains("[… 4460 characters left out …]"), "{shown}");
        assert!(shown.contains("[… 2100 characters left out …]"), "{shown}");
        assert!(
            shown.ends_with("(2 messages, 8008 characters in all are sent)"),
            "{shown}"
        );
        let many: Vec<Value> = (0..21).map(|_| said("user", "a")).collect();
        let image = json!({"role": "user", "content": {"type": "image", "data": "", "mimeType": "image/png"}});
        for (messages, more) in [
            (json!([]), json!(null)),
            (json!([said("assistant", "a")]), json!(null)),
            (json!(many), json!(null)),
            (json!([image]), json!(null)),
            (json!([said("system", "a")]), json!(null)),
            (
                json!([said("user", &"x".repeat(MAX_CHARS + 1))]),
                json!(null),
            ),
            (json!([said("user", "a")]), json!([{"name": "x"}])),
        ] {
            let read = SampleRequest::read(&json!({"messages": messages, "tools": more}));
            assert!(read.is_err(), "{messages}");
        }
    }
}

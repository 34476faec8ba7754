//! The content of an event. Pure, from its JSON, which is untrusted.

use serde_json::Value;

/// The longest text that the daemon takes, characters (agent-channel(7)).
const MAX_TEXT: usize = 200_000;
/// The longest id that the daemon takes, bytes.
const MAX_ID: usize = 255;

/// Who the agent is in a room.
#[derive(Debug, Clone)]
pub struct Me {
    /// Its id.
    pub id: String,
    /// Its name there.
    pub name: String,
}

/// A message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Heard {
    /// Its id.
    pub id: String,
    /// Who wrote it.
    pub sender: String,
    /// The words.
    pub text: String,
    /// What stands for words.
    pub kind: Option<String>,
    /// The message that it answers.
    pub reply_to: Option<String>,
    /// The thread that it is in.
    pub thread: Option<String>,
    /// Whether it speaks to the agent.
    pub is_mentioning: bool,
    /// A file.
    pub file: Option<File>,
    /// The message whose words these are now.
    pub edit_of: Option<String>,
    /// When it was written, as the sender's homeserver says, RFC 3339.
    pub sent_at: Option<String>,
}

/// A file, not fetched yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// What it is called.
    pub name: String,
    /// What kind of content it has, as the sender says.
    pub content_type: Option<String>,
    /// How long it is, as the sender says, bytes.
    pub size: Option<u64>,
    /// Where it is: `url`, or `file` with the key.
    pub content: Value,
}

/// A reaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reaction {
    /// Its id.
    pub id: String,
    /// Whose.
    pub sender: String,
    /// To which message.
    pub to: String,
    /// The emoji.
    pub emoji: String,
    /// When, as the sender's homeserver says, RFC 3339.
    pub sent_at: Option<String>,
}

/// Reads a message; `None` for what is none to the agent: its own, those of other programs, what was taken back.
pub fn message(event: &Value, me: &Me) -> Option<Heard> {
    let (id, sender) = head(event)?;
    if sender == me.id || event.get("state_key").is_some() {
        return None;
    }
    let written = &event["content"];
    let relation = &written["m.relates_to"];
    let edit_of = (relation["rel_type"] == "m.replace")
        .then(|| as_id(&relation["event_id"]))
        .flatten();
    let content = match &edit_of {
        Some(_) => written.get("m.new_content")?,
        None => written,
    };
    let body = content["body"].as_str().unwrap_or_default();
    let mut heard = Heard {
        id,
        sender,
        thread: (relation["rel_type"] == "m.thread")
            .then(|| as_id(&relation["event_id"]))
            .flatten(),
        is_mentioning: is_mentioning(content, me),
        edit_of,
        sent_at: sent_at(event),
        ..Heard::default()
    };
    // In a thread, clients that know none are told to show an answer to the message before.
    if !(heard.thread.is_some() && relation["is_falling_back"] == true) {
        heard.reply_to = as_id(&relation["m.in_reply_to"]["event_id"]);
    }
    let is_sticker = event["type"] == "m.sticker";
    match content["msgtype"].as_str() {
        // A notice is a program's, and programs that answer each other do not end.
        Some("m.notice") => return None,
        Some("m.emote") => heard.text = cut(&format!("* {}", words(body, relation)), MAX_TEXT),
        Some("m.location") => {
            let place = content["geo_uri"].as_str().unwrap_or_default();
            heard.kind = Some(format!(
                "location {}",
                cut(place.trim_start_matches("geo:"), 100)
            ));
            heard.text = words(body, relation);
        }
        Some("m.image" | "m.file" | "m.audio" | "m.video") => {
            heard.file = Some(file(content)?);
            // With a name of its own, the body is a caption.
            if content["filename"]
                .as_str()
                .is_some_and(|name| name != body)
            {
                heard.text = words(body, relation);
            }
        }
        _ if is_sticker => heard.kind = Some(format!("sticker {}", cut(body, 100))),
        Some("m.key.verification.request") | None => return None,
        Some(_) => heard.text = words(body, relation),
    }
    if heard.is_mentioning {
        heard.text = without_salutation(&heard.text, me);
    }
    let has_something =
        !heard.text.trim().is_empty() || heard.kind.is_some() || heard.file.is_some();
    has_something.then_some(heard)
}

/// Reads a reaction; `None` for the agent's own.
pub fn reaction(event: &Value, me: &Me) -> Option<Reaction> {
    let (id, sender) = head(event)?;
    let relation = &event["content"]["m.relates_to"];
    if sender == me.id || relation["rel_type"] != "m.annotation" {
        return None;
    }
    let emoji = relation["key"].as_str().filter(|key| !key.is_empty())?;
    Some(Reaction {
        id,
        sender,
        to: as_id(&relation["event_id"])?,
        emoji: cut(emoji, 20),
        sent_at: sent_at(event),
    })
}

/// Returns the name under which the line of an event lies in the spool.
pub fn line_id(event_id: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let bare = event_id.strip_prefix('$').unwrap_or(event_id);
    if (1..=60).contains(&bare.len()) && bare.chars().all(plain) {
        return format!("m-{bare}");
    }
    // Rooms of the first versions name the server in it.
    use sha2::Digest;
    let digest = sha2::Sha256::digest(event_id.as_bytes());
    let hex: String = digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("h-{hex}")
}

fn head(event: &Value) -> Option<(String, String)> {
    Some((as_id(&event["event_id"])?, as_id(&event["sender"])?))
}

fn sent_at(event: &Value) -> Option<String> {
    agent_channel::rfc3339(event["origin_server_ts"].as_u64()?)
}

fn as_id(value: &Value) -> Option<String> {
    let id = value.as_str()?;
    let is_id = (1..=MAX_ID).contains(&id.len()) && !id.chars().any(char::is_control);
    is_id.then(|| id.to_owned())
}

fn file(content: &Value) -> Option<File> {
    if content.get("url").is_none() && content.get("file").is_none() {
        return None;
    }
    let name = content["filename"].as_str().or(content["body"].as_str());
    let name = name
        .map(|name| cut(name, 150))
        .filter(|name| !name.trim().is_empty());
    let kind = content["info"]["mimetype"].as_str();
    Some(File {
        name: name.unwrap_or_else(|| "file".to_owned()),
        content_type: kind.map(|kind| cut(kind, 100)),
        size: content["info"]["size"].as_u64(),
        content: content.clone(),
    })
}

/// Returns the words without the quote that older clients put before an answer.
fn words(body: &str, relation: &Value) -> String {
    let is_answer = relation["m.in_reply_to"]["event_id"].is_string();
    let is_quoting = body.starts_with("> <@") || body.starts_with("> * <@");
    let own = if is_answer && is_quoting {
        let rest = body.lines().skip_while(|line| line.starts_with('>'));
        let lines: Vec<&str> = rest.collect();
        lines.join("\n").trim_start_matches('\n').to_owned()
    } else {
        body.to_owned()
    };
    cut(&own, MAX_TEXT)
}

/// Whether a message of a group speaks to the agent: its client says so, or, where it says nothing of that, the words do.
fn is_mentioning(content: &Value, me: &Me) -> bool {
    let body = content["body"].as_str().unwrap_or_default();
    let html = content["formatted_body"].as_str().unwrap_or_default();
    if let Some(mentions) = content.get("m.mentions").filter(|one| one.is_object()) {
        let users = mentions["user_ids"].as_array();
        return users.is_some_and(|users| users.iter().any(|user| *user == me.id.as_str()));
    }
    let link = format!("matrix.to/#/{}", me.id);
    let coded = link.replace('@', "%40").replace(':', "%3a");
    let html = html.to_lowercase();
    contains_word(body, &me.id)
        || html.contains(&link.to_lowercase())
        || html.contains(&coded.to_lowercase())
        || contains_word(&body.to_lowercase(), &me.name.to_lowercase())
}

fn contains_word(text: &str, word: &str) -> bool {
    if word.trim().is_empty() {
        return false;
    }
    let is_letter = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
    text.match_indices(word).any(|(at, _)| {
        let (before, after) = (text.get(..at), text.get(at + word.len()..));
        !is_letter(before.and_then(|text| text.chars().next_back()))
            && !is_letter(after.and_then(|text| text.chars().next()))
    })
}

/// Returns the words without "Agent: " before them: a command is only one when it is all of a message.
fn without_salutation(text: &str, me: &Me) -> String {
    let local = me
        .id
        .trim_start_matches('@')
        .split(':')
        .next()
        .unwrap_or_default();
    let at = format!("@{local}");
    for name in [me.id.as_str(), me.name.as_str(), at.as_str()] {
        let Some(rest) = text.trim_start().strip_prefix(name) else {
            continue;
        };
        let rest = rest.trim_start_matches([':', ',']);
        if rest.starts_with(char::is_whitespace) && !rest.trim().is_empty() {
            return rest.trim_start().to_owned();
        }
    }
    text.to_owned()
}

fn cut(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

#[cfg(test)]
mod tests;

//! What the Bot API's methods do to the fake's state, all but getUpdates, which waits. Refusals carry the
//! service's own wording, because clients decide by it.

use std::time::Instant;

use serde_json::{Value, json};

use super::{Sent, State, buttons, html, media, params::Params, reactions};

/// The longest text after entity parsing, in UTF-16 units (core.telegram.org/bots/api#sendmessage).
const TEXT_MAX: usize = 4096;

/// An answer that is not ok.
pub(super) struct Refusal {
    pub(super) code: u16,
    description: String,
    parameters: Value,
}

impl Refusal {
    pub(super) fn bad(why: &str) -> Self {
        Self::with(400, &format!("Bad Request: {why}"))
    }

    /// Returns these words with `code`; with 429 there is one second to wait.
    pub(super) fn with(code: u16, description: &str) -> Self {
        let parameters = if code == 429 {
            json!({"retry_after": 1})
        } else {
            Value::Null
        };
        Self {
            code,
            description: description.to_owned(),
            parameters,
        }
    }

    /// Returns what the service says to who calls too often.
    pub(super) fn rest(seconds: u64) -> Self {
        let refusal = Self::with(429, &format!("Too Many Requests: retry after {seconds}"));
        Self {
            parameters: json!({"retry_after": seconds}),
            ..refusal
        }
    }

    /// Returns what the service says when a group has become a supergroup with the id `chat`.
    pub(super) fn moved(chat: i64) -> Self {
        let refusal = Self::bad("group chat was upgraded to a supergroup chat");
        Self {
            parameters: json!({"migrate_to_chat_id": chat}),
            ..refusal
        }
    }

    /// Returns what the service says to getUpdates while a webhook is set.
    pub(super) fn webhook() -> Self {
        let description = "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first";
        Self::with(409, description)
    }

    /// Returns what the service says with `code` when a test asks for it.
    pub(super) fn status(code: u16) -> Self {
        let description = match code {
            400 => "Bad Request: something is wrong with it",
            401 => "Unauthorized",
            403 => "Forbidden: bot was blocked by the user",
            404 => "Not Found",
            413 => "Request Entity Too Large",
            409 => {
                "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"
            }
            429 => "Too Many Requests: retry after 1",
            _ => "Internal Server Error",
        };
        Self::with(code, description)
    }

    /// Returns the JSON body.
    pub(super) fn body(&self) -> Value {
        let mut body =
            json!({"ok": false, "error_code": self.code, "description": self.description});
        if !self.parameters.is_null() {
            body["parameters"] = self.parameters.clone();
        }
        body
    }
}

/// A message as the chat's members see it, with the source it came from.
pub(super) struct Shown {
    pub(super) message: Value,
    source: Option<(String, String)>,
}

/// Returns the `result` of `method` (any case) called by bot `bot`.
pub(super) fn answer(
    state: &mut State,
    bot: i64,
    method: &str,
    params: &Params,
) -> Result<Value, Refusal> {
    match method.to_ascii_lowercase().as_str() {
        "getme" => Ok(me(bot)),
        "sendmessage" => send(state, bot, params),
        "editmessagetext" => edit(state, params),
        "deletemessage" => match state.messages.remove(&message_key(params)) {
            Some(_) => Ok(Value::Bool(true)),
            None => Err(Refusal::bad("message to delete not found")),
        },
        "setmycommands" => set_commands(state, params),
        "sendphoto" => media::send(state, bot, method, "photo", params),
        "sendvoice" => media::send(state, bot, method, "voice", params),
        "sendaudio" => media::send(state, bot, method, "audio", params),
        "sendvideo" => media::send(state, bot, method, "video", params),
        "sendvideonote" => media::send(state, bot, method, "video_note", params),
        "sendanimation" => media::send(state, bot, method, "animation", params),
        "sendsticker" => media::send(state, bot, method, "sticker", params),
        "senddocument" => media::send(state, bot, method, "document", params),
        "sendmediagroup" => media::send_group(state, bot, params),
        "sendmessagedraft" => draft(params),
        "setmessagereaction" => reactions::set(state, message_key(params), params),
        "getfile" => media::get_file(state, params),
        "getstickerset" => media::sticker_set(state, params),
        "setwebhook" | "deletewebhook" => {
            params.text("url").clone_into(&mut state.webhook);
            Ok(Value::Bool(true))
        }
        "getwebhookinfo" => Ok(json!({
            "url": state.webhook, "has_custom_certificate": false, "pending_update_count": state.updates.len(),
        })),
        "answercallbackquery" => buttons::answer(state, params),
        "sendchataction" => Ok(Value::Bool(true)),
        // Strict: a method this fake does not know is a method the tests do not cover yet.
        _ => Err(Refusal::with(404, "Not Found: method not found")),
    }
}

/// Returns the chat object of `id`; as on the service, negative ids are groups.
pub(super) fn chat(id: i64) -> Value {
    if id > 0 {
        json!({"id": id, "type": "private", "first_name": format!("User{id}"), "username": format!("user{id}")})
    } else {
        json!({"id": id, "type": "supergroup", "title": format!("Group {id}")})
    }
}

/// Returns seconds since 1970, the only unit of time in the Bot API.
pub(super) fn now() -> i64 {
    chrono::Utc::now().timestamp()
}

impl Shown {
    /// A message that somebody else wrote.
    pub(super) fn received(message: Value) -> Self {
        Self {
            message,
            source: None,
        }
    }
}

pub(super) fn me(bot: i64) -> Value {
    json!({
        "id": bot, "is_bot": true, "first_name": "Fake", "username": super::USERNAME,
        "can_join_groups": true, "can_read_all_group_messages": true, "supports_inline_queries": false,
        "can_connect_to_business": false, "has_main_web_app": false,
    })
}

fn message_key(params: &Params) -> (i64, i64) {
    (
        params.int("chat_id").unwrap_or_default(),
        params.int("message_id").unwrap_or_default(),
    )
}

fn send(state: &mut State, bot: i64, params: &Params) -> Result<Value, Refusal> {
    let chat_id = chat_of(params)?;
    let text = checked_text(params)?;
    let (reply_to, quoted) = quoted(state, chat_id, params)?;
    let markup = buttons::checked(params.json("reply_markup"))?;
    let message_id = state.new_message_id(chat_id);
    let mut message = json!({
        "message_id": message_id, "date": now(), "chat": chat(chat_id), "text": text,
        "from": {"id": bot, "is_bot": true, "first_name": "Fake", "username": super::USERNAME},
    });
    if let Some(quoted) = quoted {
        message["reply_to_message"] = quoted;
    }
    if !markup.is_null() {
        message["reply_markup"] = markup.clone();
    }
    state.messages.insert(
        (chat_id, message_id),
        Shown {
            message: message.clone(),
            source: Some(source(params)),
        },
    );
    state.sent.push(Sent {
        method: "sendMessage".to_owned(),
        chat: chat_id,
        text,
        html: params.text("text").to_owned(),
        parse_mode: Some(params.text("parse_mode").to_owned()).filter(|mode| !mode.is_empty()),
        reply_to,
        reply_markup: markup,
        files: Vec::new(),
        message_id,
        at: Instant::now(),
    });
    Ok(message)
}

/// Returns the chat that is asked for.
pub(super) fn chat_of(params: &Params) -> Result<i64, Refusal> {
    params
        .int("chat_id")
        .filter(|id| *id != 0)
        .ok_or_else(|| Refusal::bad("chat not found"))
}

/// Returns the message that is answered: its id, and itself when it is there.
pub(super) fn quoted(
    state: &State,
    chat_id: i64,
    params: &Params,
) -> Result<(Option<i64>, Option<Value>), Refusal> {
    let reply = params.json("reply_parameters");
    let reply_to = reply["message_id"].as_i64();
    let mut quoted = reply_to
        .and_then(|id| state.messages.get(&(chat_id, id)))
        .map(|shown| shown.message.clone());
    if reply_to.is_some() && quoted.is_none() && reply["allow_sending_without_reply"] != true {
        return Err(Refusal::bad("message to be replied not found"));
    }
    if let Some(fields) = quoted.as_mut().and_then(Value::as_object_mut) {
        fields.remove("reply_to_message");
    }
    Ok((reply_to, quoted))
}

fn draft(params: &Params) -> Result<Value, Refusal> {
    if chat_of(params)? < 0 || params.int("draft_id").unwrap_or_default() == 0 {
        return Err(Refusal::bad("a draft needs a private chat and a number"));
    }
    // An empty one is a placeholder.
    if !params.text("text").is_empty() {
        checked_text(params)?;
    }
    Ok(Value::Bool(true))
}

fn edit(state: &mut State, params: &Params) -> Result<Value, Refusal> {
    let shown = state
        .messages
        .get_mut(&message_key(params))
        .ok_or_else(|| Refusal::bad("message to edit not found"))?;
    let text = checked_text(params)?;
    let markup = buttons::checked(params.json("reply_markup"))?;
    if shown.source.as_ref() == Some(&source(params)) && shown.message["reply_markup"] == markup {
        return Err(Refusal::bad(
            "message is not modified: specified new message content and reply markup are exactly the same as a \
             current content and reply markup of the message",
        ));
    }
    shown.message["text"] = Value::String(text);
    shown.message["edit_date"] = json!(now());
    if let Some(fields) = shown.message.as_object_mut() {
        fields.remove("reply_markup");
        if !markup.is_null() {
            fields.insert("reply_markup".to_owned(), markup);
        }
    }
    shown.source = Some(source(params));
    Ok(shown.message.clone())
}

fn source(params: &Params) -> (String, String) {
    (
        params.text("text").to_owned(),
        params.text("parse_mode").to_owned(),
    )
}

/// Returns the text as shown: entities parsed, white space at both ends gone, as the service does it.
fn checked_text(params: &Params) -> Result<String, Refusal> {
    let text = checked(params.text("text"), params.text("parse_mode"))?;
    if text.is_empty() {
        return Err(Refusal::bad("message text is empty"));
    }
    if text.encode_utf16().count() > TEXT_MAX {
        return Err(Refusal::bad("message is too long"));
    }
    Ok(text)
}

/// Returns words as shown: entities parsed, white space at both ends gone.
pub(super) fn checked(source: &str, mode: &str) -> Result<String, Refusal> {
    let text = match mode {
        "" => source.to_owned(),
        mode if mode.eq_ignore_ascii_case("html") => html::plain(source)
            .map_err(|why| Refusal::bad(&format!("can't parse entities: {why}")))?,
        _ => return Err(Refusal::bad("unsupported parse_mode")),
    };
    Ok(text.trim().to_owned())
}

fn set_commands(state: &State, params: &Params) -> Result<Value, Refusal> {
    let commands = params.json("commands");
    let commands = commands
        .as_array()
        .ok_or_else(|| Refusal::bad("can't parse BotCommand"))?;
    let is_name = |name: &str| {
        (1..=32).contains(&name.len())
            && name
                .bytes()
                .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
    };
    if commands.len() > 100 {
        return Err(Refusal::bad("BOT_COMMANDS_TOO_MUCH"));
    }
    if !commands
        .iter()
        .all(|command| command["command"].as_str().is_some_and(is_name))
    {
        return Err(Refusal::bad("BOT_COMMAND_INVALID"));
    }
    if !commands.iter().all(|command| {
        command["description"]
            .as_str()
            .is_some_and(|text| !text.is_empty())
    }) {
        return Err(Refusal::bad("BOT_COMMAND_DESCRIPTION_INVALID"));
    }
    let scope = params.json("scope");
    match scope["type"].as_str() {
        None if scope.is_null() => {}
        Some("default" | "all_private_chats" | "all_group_chats" | "all_chat_administrators") => {}
        Some("chat")
            if scope["chat_id"]
                .as_i64()
                .is_some_and(|chat| state.knows(chat)) => {}
        Some("chat") => return Err(Refusal::bad("chat not found")),
        _ => return Err(Refusal::bad("can't parse BotCommandScope")),
    }
    Ok(Value::Bool(true))
}

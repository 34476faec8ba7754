//! Files that go to the fake and come from it: single ones, albums, and those a test offers.

use std::time::Instant;

use serde_json::{Value, json};

use super::{
    Sent, State, Upload,
    api::{Refusal, Shown, chat_of, checked, now, quoted},
    params::Params,
};

/// The longest caption after entity parsing, in UTF-16 units.
const CAPTION_MAX: usize = 1024;
/// The largest picture and the largest other file that it takes, and the largest it hands out, bytes.
const PHOTO_MAX: usize = 10 << 20;
const UPLOAD_MAX: usize = 50 << 20;
const DOWNLOAD_MAX: usize = 20 << 20;

/// A file that waits to be fetched.
pub(super) struct Offered {
    pub(super) id: String,
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
}

/// Answers sendPhoto, sendDocument and the like; `field` is the parameter with the file.
pub(super) fn send(
    state: &mut State,
    bot: i64,
    method: &str,
    field: &str,
    params: &Params,
) -> Result<Value, Refusal> {
    // A sticker that the service has already is named by the id of its file.
    let known = params.text(field);
    let is_known = field == "sticker"
        && state
            .sticker_sets
            .iter()
            .any(|(set, names)| (1..=names.len()).any(|number| known == format!("{set}-{number}")));
    let sticker = Upload {
        filename: known.to_owned(),
        bytes: Vec::new(),
    };
    let file = if is_known {
        &sticker
    } else {
        let file = params
            .files()
            .get(field)
            .ok_or_else(|| Refusal::bad("there is no file in the request"))?;
        check(field, file)?;
        file
    };
    let caption = caption(params.text("caption"), params.text("parse_mode"))?;
    post(
        state,
        bot,
        method,
        params,
        field,
        file,
        &caption,
        params.text("parse_mode"),
        None,
    )
}

/// Answers sendMediaGroup.
pub(super) fn send_group(state: &mut State, bot: i64, params: &Params) -> Result<Value, Refusal> {
    let media = params.json("media");
    let items = media
        .as_array()
        .ok_or_else(|| Refusal::bad("can't parse media"))?;
    if !(2..=10).contains(&items.len()) {
        return Err(Refusal::bad(
            "Too few or too many messages to send as an album",
        ));
    }
    let types: Vec<&str> = items
        .iter()
        .map(|item| item["type"].as_str().unwrap_or_default())
        .collect();
    let of = |allowed: &[&str]| types.iter().all(|kind| allowed.contains(kind));
    if !(of(&["photo", "video"]) || of(&["audio"]) || of(&["document"])) {
        return Err(Refusal::bad(
            "this kind of files can't be mixed with other types in an album",
        ));
    }
    let mut ready = Vec::new();
    for (item, kind) in items.iter().zip(&types) {
        let strange = item.as_object().and_then(|fields| {
            fields
                .keys()
                .find(|name| !["type", "media", "caption", "parse_mode"].contains(&name.as_str()))
        });
        if let Some(strange) = strange {
            return Err(Refusal::bad(&format!(
                "field \"{strange}\" of InputMedia is not known"
            )));
        }
        let name = item["media"]
            .as_str()
            .and_then(|media| media.strip_prefix("attach://"))
            .unwrap_or_default();
        let file = params
            .files()
            .get(name)
            .ok_or_else(|| Refusal::bad("wrong file identifier/HTTP URL specified"))?;
        check(kind, file)?;
        let mode = item["parse_mode"].as_str().unwrap_or_default();
        ready.push((
            *kind,
            file,
            caption(item["caption"].as_str().unwrap_or_default(), mode)?,
            mode,
        ));
    }
    let group = format!("{}", state.sent.len() + 1);
    let sent: Result<Vec<Value>, Refusal> = ready
        .into_iter()
        .map(|(kind, file, caption, mode)| {
            post(
                state,
                bot,
                "sendMediaGroup",
                params,
                kind,
                file,
                &caption,
                mode,
                Some(&group),
            )
        })
        .collect();
    sent.map(Value::Array)
}

#[expect(
    clippy::too_many_arguments,
    reason = "all that a message with a file is"
)]
fn post(
    state: &mut State,
    bot: i64,
    method: &str,
    params: &Params,
    kind: &str,
    file: &Upload,
    caption: &(String, String),
    mode: &str,
    group: Option<&str>,
) -> Result<Value, Refusal> {
    let chat_id = chat_of(params)?;
    let (reply_to, quoted) = quoted(state, chat_id, params)?;
    let message_id = state.new_message_id(chat_id);
    let id = format!("uploaded-{chat_id}-{message_id}");
    let object = json!({"file_id": id, "file_unique_id": format!("u-{id}"), "file_size": file.bytes.len(), "file_name": file.filename});
    let mut message = json!({
        "message_id": message_id, "date": now(), "chat": super::api::chat(chat_id),
        "from": {"id": bot, "is_bot": true, "first_name": "Fake", "username": super::USERNAME},
    });
    message[kind] = if kind == "photo" {
        json!([object])
    } else {
        object
    };
    if !caption.1.is_empty() {
        message["caption"] = json!(caption.1);
    }
    if let Some(group) = group {
        message["media_group_id"] = json!(group);
    }
    if let Some(quoted) = quoted {
        message["reply_to_message"] = quoted;
    }
    state
        .messages
        .insert((chat_id, message_id), Shown::received(message.clone()));
    state.sent.push(Sent {
        method: method.to_owned(),
        chat: chat_id,
        text: caption.1.clone(),
        html: caption.0.clone(),
        parse_mode: Some(mode.to_owned()).filter(|mode| !mode.is_empty()),
        reply_to,
        reply_markup: params.json("reply_markup"),
        files: vec![file.clone()],
        message_id,
        at: Instant::now(),
    });
    Ok(message)
}

fn check(kind: &str, file: &Upload) -> Result<(), Refusal> {
    match file.bytes.len() {
        0 => Err(Refusal::bad("file must be non-empty")),
        size if kind == "photo" && size > PHOTO_MAX => Err(Refusal::bad(&format!(
            "File \"{}\" of size {size} bytes is too big for a photo",
            file.filename
        ))),
        size if size > UPLOAD_MAX => Err(Refusal::status(413)),
        _ => Ok(()),
    }
}

/// Returns a caption as sent and as shown.
fn caption(source: &str, mode: &str) -> Result<(String, String), Refusal> {
    let shown = checked(source, mode)?;
    if shown.encode_utf16().count() > CAPTION_MAX {
        return Err(Refusal::bad("message caption is too long"));
    }
    Ok((source.to_owned(), shown))
}

/// Answers getStickerSet; the id of the N-th sticker's file is `SET-N`.
pub(super) fn sticker_set(state: &State, params: &Params) -> Result<Value, Refusal> {
    let wanted = params.text("name");
    let set = state.sticker_sets.iter().find(|(set, _)| set == wanted);
    let (set, emojis) = set.ok_or_else(|| Refusal::bad("STICKERSET_INVALID"))?;
    let stickers: Vec<Value> = emojis
        .iter()
        .enumerate()
        .map(|(at, emoji)| {
            let id = format!("{set}-{}", at + 1);
            json!({"file_id": id, "file_unique_id": format!("u-{id}"), "type": "regular", "width": 512, "height": 512,
                   "is_animated": false, "is_video": false, "emoji": emoji, "set_name": set})
        })
        .collect();
    Ok(json!({"name": set, "title": set, "sticker_type": "regular", "stickers": stickers}))
}

/// Answers getFile.
pub(super) fn get_file(state: &State, params: &Params) -> Result<Value, Refusal> {
    let wanted = params.text("file_id");
    let file = state.offered.iter().find(|file| file.id == wanted);
    let file =
        file.ok_or_else(|| Refusal::bad("wrong file_id or the file is temporarily unavailable"))?;
    if file.bytes.len() > DOWNLOAD_MAX {
        return Err(Refusal::bad("file is too big"));
    }
    let unique = format!("u-{wanted}");
    Ok(
        json!({"file_id": wanted, "file_unique_id": unique, "file_size": file.bytes.len(), "file_path": file.path}),
    )
}

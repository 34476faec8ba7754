//! The methods this fake knows and their parameters (core.telegram.org/bots/api, Bot API 10.1). The service
//! ignores a parameter it does not know; here it is refused, because nobody sends one on purpose.

use serde_json::Value;

use super::params::Params;

/// What a parameter is. In a form and in the query all values are text, so text that reads as one counts.
#[derive(Clone, Copy)]
enum Kind {
    Int,
    Text,
    Bool,
    Json,
    File,
}
use Kind::{Bool, File, Int, Json, Text};

type Fields = &'static [(&'static str, Kind)];

/// What every method that sends a message takes.
const MESSAGE: Fields = &[
    ("chat_id", Int),
    ("message_thread_id", Int),
    ("disable_notification", Bool),
    ("protect_content", Bool),
    ("reply_parameters", Json),
    ("reply_markup", Json),
];
const CAPTION: Fields = &[
    ("caption", Text),
    ("parse_mode", Text),
    ("caption_entities", Json),
];
const TEXT: Fields = &[
    ("text", Text),
    ("parse_mode", Text),
    ("entities", Json),
    ("link_preview_options", Json),
];
const CHAT_AND_MESSAGE: Fields = &[("chat_id", Int), ("message_id", Int)];

/// Each method in the documentation's spelling, with its parameters.
const METHODS: &[(&str, &[Fields])] = &[
    ("getMe", &[]),
    (
        "getUpdates",
        &[&[
            ("offset", Int),
            ("limit", Int),
            ("timeout", Int),
            ("allowed_updates", Json),
        ]],
    ),
    (
        "setWebhook",
        &[&[
            ("url", Text),
            ("secret_token", Text),
            ("allowed_updates", Json),
            ("max_connections", Int),
            ("drop_pending_updates", Bool),
        ]],
    ),
    ("getWebhookInfo", &[]),
    ("sendMessage", &[MESSAGE, TEXT]),
    (
        "sendPhoto",
        &[MESSAGE, CAPTION, &[("photo", File), ("has_spoiler", Bool)]],
    ),
    (
        "sendVoice",
        &[MESSAGE, CAPTION, &[("voice", File), ("duration", Int)]],
    ),
    (
        "sendAudio",
        &[
            MESSAGE,
            CAPTION,
            &[
                ("audio", File),
                ("duration", Int),
                ("performer", Text),
                ("title", Text),
            ],
        ],
    ),
    (
        "sendVideo",
        &[
            MESSAGE,
            CAPTION,
            &[
                ("video", File),
                ("duration", Int),
                ("supports_streaming", Bool),
            ],
        ],
    ),
    (
        "sendVideoNote",
        &[
            MESSAGE,
            &[("video_note", File), ("duration", Int), ("length", Int)],
        ],
    ),
    (
        "sendAnimation",
        &[MESSAGE, CAPTION, &[("animation", File), ("duration", Int)]],
    ),
    (
        "sendSticker",
        &[MESSAGE, &[("sticker", File), ("emoji", Text)]],
    ),
    (
        "sendDocument",
        &[
            MESSAGE,
            CAPTION,
            &[("document", File), ("disable_content_type_detection", Bool)],
        ],
    ),
    (
        "sendMediaGroup",
        &[&[
            ("chat_id", Int),
            ("message_thread_id", Int),
            ("media", Json),
            ("disable_notification", Bool),
            ("reply_parameters", Json),
        ]],
    ),
    (
        "sendMessageDraft",
        &[
            &[
                ("chat_id", Int),
                ("message_thread_id", Int),
                ("draft_id", Int),
            ],
            TEXT,
        ],
    ),
    (
        "editMessageText",
        &[CHAT_AND_MESSAGE, TEXT, &[("reply_markup", Json)]],
    ),
    ("deleteMessage", &[CHAT_AND_MESSAGE]),
    (
        "setMessageReaction",
        &[CHAT_AND_MESSAGE, &[("reaction", Json), ("is_big", Bool)]],
    ),
    (
        "sendChatAction",
        &[&[
            ("chat_id", Int),
            ("message_thread_id", Int),
            ("action", Text),
        ]],
    ),
    (
        "setMyCommands",
        &[&[("commands", Json), ("scope", Json), ("language_code", Text)]],
    ),
    ("getFile", &[&[("file_id", Text)]]),
    ("getStickerSet", &[&[("name", Text)]]),
    ("deleteWebhook", &[&[("drop_pending_updates", Bool)]]),
    (
        "answerCallbackQuery",
        &[&[
            ("callback_query_id", Text),
            ("text", Text),
            ("show_alert", Bool),
            ("url", Text),
            ("cache_time", Int),
        ]],
    ),
];

/// Returns the documentation's spelling of `method`: the service takes any, the record has one.
pub(super) fn lower_camel(method: &str) -> String {
    let known = METHODS
        .iter()
        .find(|(known, _)| known.eq_ignore_ascii_case(method));
    known.map_or(method, |(known, _)| known).to_owned()
}

/// Returns what is wrong with the parameters of `method`; a method that is not known has no wrong ones.
pub(super) fn wrong(method: &str, params: &Params) -> Option<String> {
    let (_, fields) = METHODS.iter().find(|(known, _)| *known == method)?;
    let kind_of = |name: &str| {
        fields
            .iter()
            .copied()
            .flatten()
            .find(|(known, _)| *known == name)
            .map(|(_, kind)| *kind)
    };
    // What is attached is named by another parameter; `attached` looks for what is not.
    let files = params
        .files()
        .keys()
        .filter(|name| !params.attaches(name))
        .map(|name| (name.as_str(), &Value::Null));
    params
        .iter()
        .chain(files)
        .find_map(|(name, value)| match kind_of(name) {
            None => Some(format!("parameter \"{name}\" of {method} is not known")),
            Some(kind) => (!fits(kind, value))
                .then(|| format!("parameter \"{name}\" of {method} is of another type")),
        })
}

fn fits(kind: Kind, value: &Value) -> bool {
    let text = value.as_str();
    match kind {
        Int => value.is_i64() || text.is_some_and(|text| text.parse::<i64>().is_ok()),
        Text => text.is_some(),
        Bool => value.is_boolean() || matches!(text, Some("true" | "false")),
        Json => {
            value.is_object()
                || value.is_array()
                || text.is_some_and(|text| serde_json::from_str::<Value>(text).is_ok())
        }
        File => text.is_some() || value.is_null(),
    }
}

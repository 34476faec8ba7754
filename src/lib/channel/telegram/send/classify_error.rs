//! Classifies a failed call for the message, by the text of Telegram's refusal.
//!
//! The Bot API names hardly any of its errors: the words are all there is. They are those of
//! telegram-bot-api's Client.cpp and of Telegram's own errors in capitals (read 2026).

use std::time::Duration;

use serde_json::Value;

use super::api::Error;
use super::preview::PREVIEW_WAIT;
use crate::channel::SendError;
use crate::message::MediaKind;

/// A wrong token or address is tried again this seldom: only a person can repair it.
const UNAUTHORIZED: Duration = Duration::from_secs(60);

/// What a 400 is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum About {
    /// The markup.
    Markup,
    /// The chat: no other message reaches it either.
    Chat,
    /// This message only.
    Message,
    /// The topic, which is gone.
    Topic,
    /// A picture that is none, or too large to be shown.
    Photo,
    /// A voice message, which this person takes from nobody, or from few.
    Voice,
}

/// The words, in lower case, and what they are about; the first that fit count.
const REFUSALS: &[(&str, About)] = &[
    ("can't parse entities", About::Markup),
    ("entity_", About::Markup),
    ("entities_", About::Markup),
    ("message thread not found", About::Topic),
    ("topic_deleted", About::Topic),
    ("topic_id_invalid", About::Topic),
    ("topic_closed", About::Chat),
    ("chat not found", About::Chat),
    ("chat_id is empty", About::Chat),
    ("user not found", About::Chat),
    ("peer_id_invalid", About::Chat),
    ("group is deactivated", About::Chat),
    ("upgraded to a supergroup", About::Chat),
    ("chat_write_forbidden", About::Chat),
    ("chat_send_plain_forbidden", About::Chat),
    ("chat_restricted", About::Chat),
    ("have no rights to send", About::Chat),
    ("not enough rights to send text messages", About::Chat),
    ("need administrator rights", About::Chat),
    ("not enough rights", About::Message),
    ("voice_messages_forbidden", About::Voice),
    ("_forbidden", About::Message),
    ("too long", About::Message),
    ("too_long", About::Message),
    ("reaction_invalid", About::Message),
    ("file must be non-empty", About::Message),
    ("photo_", About::Photo),
    ("image_process_failed", About::Photo),
    ("too big for a photo", About::Photo),
];

fn about(error: &Error) -> Option<About> {
    let Error::Refused {
        status: 400,
        description,
        ..
    } = error
    else {
        return None;
    };
    let description = description.to_lowercase();
    REFUSALS
        .iter()
        .find(|(words, _)| description.contains(words))
        .map(|(_, about)| *about)
}

/// Returns true when the topic is gone and the chat may still be there.
pub(crate) fn topic_is_gone(error: &Error) -> bool {
    about(error) == Some(About::Topic)
}

/// Returns true when a file of this kind does not go as that and may still be sent as a file.
pub(crate) fn may_go_as_file(error: &Error, kind: MediaKind) -> bool {
    match about(error) {
        Some(About::Photo) => kind == MediaKind::Photo,
        Some(About::Voice) => kind == MediaKind::Voice,
        _ => false,
    }
}

/// Returns true when the buttons are what is wrong with a message.
pub(crate) fn is_about_buttons(error: &Error) -> bool {
    // "BUTTON_DATA_INVALID", "can't parse inline keyboard button", "REPLY_MARKUP_TOO_LONG".
    let is_bad = matches!(error, Error::Refused { status: 400, .. });
    is_bad
        && ["button", "keyboard", "reply_markup", "reply markup"]
            .iter()
            .any(|words| says(error, words))
}

/// Returns true when the refusal says `words`, in any letter case.
pub(crate) fn says(error: &Error, words: &str) -> bool {
    matches!(error, Error::Refused { description, .. } if description.to_lowercase().contains(words))
}

/// Returns what a failed send means for the message. Any error status is a plain retry, except for those
/// that will never go away.
pub(crate) fn classify(error: &Error, marked_up: bool) -> SendError {
    let reason = error.to_string();
    let (status, retry_after) = match *error {
        Error::Lost(_) => return SendError::Unknown(reason),
        Error::Unreachable(_) => (0, None),
        Error::NoRoom => (0, Some(PREVIEW_WAIT)),
        Error::Refused {
            status,
            retry_after,
            ..
        } => (status, retry_after),
    };
    let chat_is_there = match (status, about(error)) {
        // Whatever it is about: it asks us to come back.
        _ if retry_after.is_some() => {
            return SendError::NotSent {
                reason,
                retry_after,
            };
        }
        (400, Some(About::Chat | About::Topic)) | (403, _) => false,
        (400, Some(About::Message | About::Photo | About::Voice)) | (413, _) => true,
        // Telegram finds something in it that nobody has documented: plain text may pass.
        (400, Some(About::Markup) | None) if marked_up => return SendError::Markup(reason),
        (400, _) => true,
        _ => {
            // With a wrong token or address nothing is lost, and a person must act.
            let wrong = matches!(status, 401 | 404);
            return SendError::NotSent {
                reason,
                retry_after: wrong.then_some(UNAUTHORIZED),
            };
        }
    };
    SendError::Never {
        reason,
        chat_is_there,
    }
}

/// Returns the result of a call that may be made twice without harm: it is never unknown. A refusal
/// that says `already` means that it was made before.
pub(crate) fn repeatable(
    result: Result<Value, Error>,
    already: Option<&str>,
) -> Result<(), SendError> {
    let Err(error) = result else { return Ok(()) };
    if already.is_some_and(|words| says(&error, words)) {
        return Ok(());
    }
    Err(match classify(&error, false) {
        SendError::Unknown(reason) => SendError::NotSent {
            reason,
            retry_after: None,
        },
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::super::api::refused;
    use super::*;

    /// `again`, `plain`, `unknown`, `message` (it never arrives) or `chat` (nothing does).
    fn meaning(error: &Error, marked_up: bool) -> &'static str {
        match classify(error, marked_up) {
            SendError::NotSent { .. } => "again",
            SendError::Markup(_) => "plain",
            SendError::Unknown(_) => "unknown",
            SendError::Never { chat_is_there, .. } if chat_is_there => "message",
            SendError::Never { .. } => "chat",
        }
    }

    #[test]
    fn what_a_failure_means_for_the_message() {
        assert_eq!(meaning(&Error::Lost("x".into()), true), "unknown");
        assert_eq!(meaning(&Error::Unreachable("x".into()), true), "again");
        assert_eq!(meaning(&refused(400, ""), false), "message");
        for (status, words, expected) in [
            (400, "", "plain"),
            (401, "Unauthorized", "again"),
            (403, "Forbidden: bot was blocked by the user", "chat"),
            (404, "Not Found", "again"),
            (413, "Request Entity Too Large", "message"),
            (429, "Too Many Requests", "again"),
            (500, "Internal Server Error", "again"),
            (502, "", "again"),
            (400, "can't parse entities: Unsupported start tag", "plain"),
            (400, "ENTITY_BOUNDS_INVALID", "plain"),
            (400, "something that nobody has seen before", "plain"),
            (400, "chat not found", "chat"),
            (400, "TOPIC_CLOSED", "chat"),
            (400, "message thread not found", "chat"),
            (400, "group chat was upgraded to a supergroup chat", "chat"),
            (400, "have no rights to send a message", "chat"),
            (400, "not enough rights to send text messages to it", "chat"),
            (400, "not enough rights to send photos to it", "message"),
            (400, "CHAT_SEND_PHOTOS_FORBIDDEN", "message"),
            (400, "CHAT_WRITE_FORBIDDEN", "chat"),
            (400, "message is too long", "message"),
            (400, "message caption is too long", "message"),
            (400, "MEDIA_CAPTION_TOO_LONG", "message"),
            (400, "REACTION_INVALID", "message"),
            (400, "PHOTO_INVALID_DIMENSIONS", "message"),
        ] {
            let error = refused(status, &format!("Bad Request: {words}"));
            assert_eq!(meaning(&error, true), expected, "{error}");
        }
    }

    #[test]
    fn retry_after_is_kept_whatever_the_status() {
        for status in [400, 403, 413, 420, 429, 500] {
            let retry_after = Some(Duration::from_secs(7));
            let error = Error::Refused {
                status,
                description: "chat not found".to_owned(),
                retry_after,
                moved_to: None,
            };
            let reason = error.to_string();
            let expected = SendError::NotSent {
                reason,
                retry_after,
            };
            assert_eq!(classify(&error, true), expected);
        }
    }

    #[test]
    fn what_may_be_done_twice_is_never_unknown() {
        let lost = repeatable(Err(Error::Lost("timed out".to_owned())), None);
        assert!(matches!(lost, Err(SendError::NotSent { .. })), "{lost:?}");
        let gone = || Err(refused(400, "Bad Request: message to delete not found"));
        assert_eq!(repeatable(gone(), Some("delete not found")), Ok(()));
        assert!(repeatable(gone(), None).is_err());
    }
}

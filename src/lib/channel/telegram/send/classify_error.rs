//! What a failed call means for the message, by the words of Telegram's refusal.
//!
//! The Bot API names hardly any of its errors: the words are all there is. They are those of
//! telegram-bot-api's Client.cpp and of Telegram's own errors in capitals (read 2026).

use std::time::Duration;

use super::api::Error;
use crate::channel::SendError;

/// A wrong token or address is looked at again this seldom: only a person can mend it.
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

/// Returns true when a file cannot be shown as a picture and may still be sent as a file.
pub(crate) fn is_no_photo(error: &Error) -> bool {
    about(error) == Some(About::Photo)
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

/// What a failed send means for the message. Any error status is a plain retry, but for those
/// that will never go away.
pub(crate) fn classify(error: &Error, marked_up: bool) -> SendError {
    let reason = error.to_string();
    let never = |chat_is_there| SendError::Never {
        reason: reason.clone(),
        chat_is_there,
    };
    match *error {
        Error::Unreachable(_) => SendError::NotSent {
            reason,
            retry_after: None,
        },
        Error::Lost(_) => SendError::Unknown(reason),
        // Whatever it is about: it asks us to come back.
        Error::Refused {
            retry_after: Some(wait),
            ..
        } => SendError::NotSent {
            reason,
            retry_after: Some(wait),
        },
        Error::Refused { status: 400, .. } => match about(error) {
            Some(About::Chat | About::Topic) => never(false),
            Some(About::Message | About::Photo) => never(true),
            // Telegram finds something in it that nobody has written down: plain words may pass.
            Some(About::Markup) | None if marked_up => SendError::Markup(reason),
            Some(About::Markup) | None => never(true),
        },
        Error::Refused { status: 403, .. } => never(false),
        Error::Refused { status: 413, .. } => never(true),
        // The token or the address is wrong: nothing is lost, a person must act.
        Error::Refused {
            status: 401 | 404, ..
        } => SendError::NotSent {
            reason,
            retry_after: Some(UNAUTHORIZED),
        },
        Error::Refused { .. } => SendError::NotSent {
            reason,
            retry_after: None,
        },
    }
}

/// As [`classify`], for a call that may be made twice without harm: it is never unknown.
pub(crate) fn classify_repeatable(error: &Error) -> SendError {
    match classify(error, false) {
        SendError::Unknown(reason) => SendError::NotSent {
            reason,
            retry_after: None,
        },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(status: u16, description: &str) -> Error {
        Error::Refused {
            status,
            description: description.to_owned(),
            retry_after: None,
            moved_to: None,
        }
    }

    /// `again`, `plain`, `unknown`, `message` (it never arrives) or `chat` (nothing does).
    fn meaning(error: &Error, marked_up: bool) -> &'static str {
        match classify(error, marked_up) {
            SendError::NotSent { .. } => "again",
            SendError::Markup(_) => "plain",
            SendError::Unknown(_) => "unknown",
            SendError::Never {
                chat_is_there: true,
                ..
            } => "message",
            SendError::Never {
                chat_is_there: false,
                ..
            } => "chat",
        }
    }

    #[test]
    fn what_a_failure_means_for_the_message() {
        let table = [
            (Error::Lost("x".into()), "unknown"),
            (Error::Unreachable("x".into()), "again"),
            (refused(400, ""), "plain"),
            (refused(401, "Unauthorized"), "again"),
            (
                refused(403, "Forbidden: bot was blocked by the user"),
                "chat",
            ),
            (refused(404, "Not Found"), "again"),
            (refused(413, "Request Entity Too Large"), "message"),
            (refused(429, "Too Many Requests"), "again"),
            (refused(500, "Internal Server Error"), "again"),
            (refused(502, ""), "again"),
        ];
        for (error, expected) in table {
            assert_eq!(meaning(&error, true), expected, "{error}");
        }
        assert_eq!(meaning(&refused(400, ""), false), "message");
    }

    #[test]
    fn a_bad_request_is_read_by_its_words() {
        let table = [
            (
                "can't parse entities: Unsupported start tag \"x\" at byte offset 0",
                "plain",
            ),
            ("ENTITY_BOUNDS_INVALID", "plain"),
            ("something that nobody has seen before", "plain"),
            ("chat not found", "chat"),
            ("TOPIC_CLOSED", "chat"),
            ("message thread not found", "chat"),
            ("group chat was upgraded to a supergroup chat", "chat"),
            ("have no rights to send a message", "chat"),
            (
                "not enough rights to send text messages to the chat",
                "chat",
            ),
            ("not enough rights to send photos to the chat", "message"),
            ("CHAT_SEND_PHOTOS_FORBIDDEN", "message"),
            ("CHAT_WRITE_FORBIDDEN", "chat"),
            ("message is too long", "message"),
            ("message caption is too long", "message"),
            ("MEDIA_CAPTION_TOO_LONG", "message"),
            ("REACTION_INVALID", "message"),
            ("PHOTO_INVALID_DIMENSIONS", "message"),
        ];
        for (words, expected) in table {
            let error = refused(400, &format!("Bad Request: {words}"));
            assert_eq!(meaning(&error, true), expected, "{words}");
        }
    }

    #[test]
    fn who_asks_us_to_come_back_is_asked_again_whatever_the_status() {
        for status in [400, 403, 413, 420, 429, 500] {
            let wait = Some(Duration::from_secs(7));
            let error = Error::Refused {
                status,
                description: "chat not found".to_owned(),
                retry_after: wait,
                moved_to: None,
            };
            let reason = error.to_string();
            assert_eq!(
                classify(&error, true),
                SendError::NotSent {
                    reason,
                    retry_after: wait
                }
            );
        }
    }

    #[test]
    fn what_may_be_done_twice_is_never_unknown() {
        let lost = Error::Lost("timed out".to_owned());
        let reason = lost.to_string();
        assert_eq!(
            classify_repeatable(&lost),
            SendError::NotSent {
                reason,
                retry_after: None
            }
        );
    }
}

//! Determines the conversation of a client that sends no `user`, from the whole chat that it sends each time.

use super::{Api, ApiError, Id, Words, text};
use crate::queue::Exchange;

/// What was said before, as the client tells it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Earlier {
    pub(super) role: String,
    pub(super) text: String,
}

/// Returns the conversation of a chat, a new one when there is none yet or it went another way: then what was said
/// before comes with the context of the words.
///
/// # Errors
/// When the queue cannot be read.
pub(super) async fn conversation(
    api: &Api,
    before: &[Earlier],
    words: &mut Words,
) -> Result<String, ApiError> {
    let first = before.first().map_or(&words.text, |earlier| &earlier.text);
    let opening = text::sha256_hex(first.as_bytes());
    let prefix = format!("http:chat-{}-", text::head(&opening, 16));
    if before.is_empty() {
        return Ok(format!("{prefix}{}", Id::new().short()));
    }
    let known = api
        .pipeline
        .queue()
        .conversation(&prefix, exchanges(before), &words.text);
    if let Some(key) = known.await.map_err(ApiError::not_stored)? {
        return Ok(key);
    }
    let lines = before
        .iter()
        .map(|one| format!("{}: {}", one.role, one.text));
    let said: Vec<String> = ["Earlier in this conversation:".to_owned()]
        .into_iter()
        .chain(lines)
        .collect();
    let context = words.context.take().into_iter().chain([said.join("\n\n")]);
    words.context = Some(context.collect::<Vec<_>>().join("\n\n"));
    Ok(format!("{prefix}{}", Id::new().short()))
}

/// Returns what was said with its answers. Commands are left out, as they are in what the queue knows.
fn exchanges(before: &[Earlier]) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for Earlier { role, text } in before {
        match exchanges.last_mut() {
            Some(last) if role == "assistant" && last.reply.is_none() => {
                last.reply = Some(text.clone());
            }
            _ if role == "assistant" => exchanges.push(Exchange {
                said: String::new(),
                reply: Some(text.clone()),
            }),
            _ => exchanges.push(Exchange {
                said: text.clone(),
                reply: None,
            }),
        }
    }
    exchanges.retain(|one| !one.said.starts_with('/'));
    exchanges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_stand_beside_what_they_answer_and_commands_are_no_part_of_it() {
        let before = [
            ("user", "hello"),
            ("assistant", "hi"),
            ("user", "/status"),
            ("assistant", "idle"),
            ("user", "no answer to this"),
            ("user", "again"),
            ("assistant", "yes"),
            ("assistant", "and more"),
        ];
        let before = before.map(|(role, text)| Earlier {
            role: role.to_owned(),
            text: text.to_owned(),
        });
        let exchanges: Vec<(String, Option<String>)> = exchanges(&before)
            .into_iter()
            .map(|one| (one.said, one.reply))
            .collect();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            exchanges,
            [
                ("hello".to_owned(), some("hi")),
                ("no answer to this".to_owned(), None),
                ("again".to_owned(), some("yes")),
                (String::new(), some("and more")),
            ]
        );
    }
}

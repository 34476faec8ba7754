//! What is no text and no file, in words for the model.

use serde_json::Value;

use super::json_fields::Fields;
use super::service_fields::COMMON;
use crate::message::Media;
use crate::text;

/// How much is kept of one string of a stranger's, and of the whole.
const PART_MAX: usize = 120;
const MAX: usize = 600;
/// How many options of a poll or a checklist are named; Telegram allows 12 and 30.
const OPTIONS_MAX: usize = 30;

/// Returns what a message brings beside words and `files`: in words where we know it, else the name
/// of the field it comes in.
pub(super) fn kind(message: Fields<'_>, files: &[Media]) -> Option<String> {
    let words = known(message).map(|words| text::shorten(&words, MAX));
    words.or_else(|| {
        if files.is_empty() {
            unknown(message)
        } else {
            None
        }
    })
}

/// Returns it in words where we know it.
pub(super) fn known(message: Fields<'_>) -> Option<String> {
    // A venue stands under `location`, too, for old programs.
    let readers: &[(&str, Reader)] = &[
        ("sticker", sticker),
        ("venue", venue),
        ("location", location),
        ("contact", contact),
        ("poll", poll),
        ("dice", dice),
        ("checklist", checklist),
        ("game", |game| titled("game", game)),
        ("invoice", |invoice| titled("invoice", invoice)),
        ("story", |story| {
            Some(format!(
                "story of {}",
                story
                    .object("chat")
                    .and_then(super::sender::name)
                    .map(|name| line(&name))?
            ))
        }),
        ("paid_media", |_| Some("paid media".to_owned())),
    ];
    readers
        .iter()
        .find_map(|(field, read)| message.object(field).and_then(read))
}

type Reader = fn(Fields<'_>) -> Option<String>;

/// Returns the name of a field that nobody told us about: first of those that hold more than a word.
pub(super) fn unknown(message: Fields<'_>) -> Option<String> {
    let fields = || message.all().filter(|(name, _)| !COMMON.contains(name));
    let content = fields().find(|(_, value)| matches!(value, Value::Object(_) | Value::Array(_)));
    content
        .or_else(|| fields().next())
        .map(|(name, _)| line(name))
}

/// Makes one short line of what a stranger wrote.
fn line(words: &str) -> String {
    text::visible(&text::shorten(words.trim(), PART_MAX))
}

fn quoted(words: &str) -> String {
    format!("\"{}\"", line(words))
}

fn titled(what: &str, thing: Fields<'_>) -> Option<String> {
    Some(format!("{what} {}", quoted(thing.text("title")?)))
}

fn sticker(sticker: Fields<'_>) -> Option<String> {
    let moves = if sticker.yes("is_video") {
        "video "
    } else if sticker.yes("is_animated") {
        "animated "
    } else {
        ""
    };
    let emoji = sticker
        .text("emoji")
        .map(|emoji| format!(" {}", line(emoji)))
        .unwrap_or_default();
    let set = sticker
        .text("set_name")
        .map(|set| format!(" of {}", line(set)))
        .unwrap_or_default();
    Some(format!("{moves}sticker{emoji}{set}"))
}

/// Returns `52.52, 13.405`; six decimals are a hand's breadth.
fn place(location: Fields<'_>) -> Option<String> {
    let degrees = |name, max: f64| {
        let value = location.decimal(name).filter(|value| value.abs() <= max)?;
        Some((value * 1e6).round() / 1e6)
    };
    Some(format!(
        "{}, {}",
        degrees("latitude", 90.0)?,
        degrees("longitude", 180.0)?
    ))
}

fn location(location: Fields<'_>) -> Option<String> {
    let live = if location.has("live_period") {
        "live "
    } else {
        ""
    };
    Some(format!("{live}location {}", place(location)?))
}

fn venue(venue: Fields<'_>) -> Option<String> {
    let place = venue
        .object("location")
        .and_then(place)
        .map(|place| format!(" ({place})"));
    let address = venue
        .text("address")
        .map(|address| format!(", {}", line(address)));
    Some(format!(
        "venue {}{}{}",
        line(venue.text("title")?),
        address.unwrap_or_default(),
        place.unwrap_or_default()
    ))
}

fn contact(contact: Fields<'_>) -> Option<String> {
    let user = contact.number("user_id").map(|id| format!("user {id}"));
    let parts = [
        super::sender::name(contact),
        contact.text("phone_number").map(str::to_owned),
        user,
    ];
    let parts: Vec<String> = parts
        .into_iter()
        .flatten()
        .map(|part| line(&part))
        .collect();
    (!parts.is_empty()).then(|| format!("contact {}", parts.join(", ")))
}

fn poll(poll: Fields<'_>) -> Option<String> {
    let question = quoted(poll.text("question")?);
    let closed = poll.yes("is_closed");
    let votes = |option: Fields<'_>| {
        option
            .number("voter_count")
            .filter(|_| closed)
            .map(|votes| format!(" ({votes})"))
    };
    let options: Vec<String> = poll
        .objects("options")
        .map(|option| {
            format!(
                "{}{}",
                line(option.text("text").unwrap_or_default()),
                votes(option).unwrap_or_default()
            )
        })
        .collect();
    let what = if poll.text("type") == Some("quiz") {
        "quiz"
    } else {
        "poll"
    };
    let closed = if closed { "closed " } else { "" };
    let shown = options
        .iter()
        .take(OPTIONS_MAX)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(" | ");
    let answers: Vec<&str> = answers(poll)
        .filter_map(|at| poll.objects("options").nth(at)?.text("text"))
        .take(OPTIONS_MAX)
        .collect();
    let answers = answers
        .into_iter()
        .map(line)
        .collect::<Vec<_>>()
        .join(" | ");
    let answers = if answers.is_empty() {
        answers
    } else {
        format!("; right: {answers}")
    };
    Some(format!("{closed}{what} {question}: {shown}{answers}"))
}

/// Returns which options of a quiz are right, as servers say it now and said it before.
fn answers<'a>(poll: Fields<'a>) -> impl Iterator<Item = usize> + 'a {
    let many = poll
        .list("correct_option_ids")
        .iter()
        .filter_map(Value::as_i64);
    many.chain(poll.number("correct_option_id"))
        .filter_map(|at| usize::try_from(at).ok())
}

fn dice(dice: Fields<'_>) -> Option<String> {
    Some(format!(
        "dice {} {}",
        line(dice.text("emoji").unwrap_or("🎲")),
        dice.number("value")?
    ))
}

fn checklist(list: Fields<'_>) -> Option<String> {
    let done = |task: Fields<'_>| {
        if task.number("completion_date").unwrap_or_default() > 0 {
            "[x]"
        } else {
            "[ ]"
        }
    };
    let tasks = list.objects("tasks").take(OPTIONS_MAX);
    let tasks: Vec<String> = tasks
        .map(|task| {
            format!(
                "{} {}",
                done(task),
                line(task.text("text").unwrap_or_default())
            )
        })
        .collect();
    Some(format!(
        "checklist {}: {}",
        quoted(list.text("title")?),
        tasks.join(" | ")
    ))
}

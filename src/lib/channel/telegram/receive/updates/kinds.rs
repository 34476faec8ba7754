//! Describes content other than text and files for the model: a location, a poll, a sticker; or the name of its field.

use serde_json::Value;

use super::fields::Fields;
use super::sender::name;
use crate::message::Media;
use crate::text;

/// How much is kept of one string of a stranger's, and of the whole.
const PART_MAX: usize = 120;
const MAX: usize = 600;
/// How many options of a poll or a checklist are named; Telegram allows 12 and 30.
const OPTIONS_MAX: usize = 30;

/// The fields of a message, and of one of another chat that is answered, that do not name what it brings (Bot API 10.1,
/// core.telegram.org/bots/api#message).
const COMMON: &str = "author_signature business_connection_id caption caption_entities chat date \
    direct_messages_topic edit_date effect_id entities external_reply forward_date forward_from \
    forward_from_chat forward_from_message_id forward_origin forward_sender_name \
    forward_signature from guest_bot_caller_chat guest_bot_caller_user guest_query_id \
    has_media_spoiler has_protected_content is_automatic_forward is_from_offline is_paid_post \
    is_topic_message link_preview_options media_group_id message_id message_thread_id origin \
    paid_star_count quote reply_markup reply_to_checklist_task_id reply_to_message \
    reply_to_poll_option_id reply_to_story rich_message sender_boost_count sender_business_bot \
    sender_chat sender_tag show_caption_above_media suggested_post_info text via_bot";

/// The fields of service messages: what happened to a chat or between accounts (the same page).
const SERVICE: &str = "boost_added channel_chat_created chat_background_set chat_owner_changed \
    chat_owner_left chat_shared checklist_tasks_added checklist_tasks_done connected_website \
    delete_chat_photo direct_message_price_changed forum_topic_closed forum_topic_created \
    forum_topic_edited forum_topic_reopened general_forum_topic_hidden \
    general_forum_topic_unhidden gift gift_upgrade_sent giveaway_completed giveaway_created \
    group_chat_created left_chat_member left_chat_participant managed_bot_created \
    message_auto_delete_timer_changed migrate_from_chat_id migrate_to_chat_id new_chat_member \
    new_chat_members new_chat_participant new_chat_photo new_chat_title \
    paid_message_price_changed pinned_message poll_option_added poll_option_deleted \
    proximity_alert_triggered refunded_payment successful_payment suggested_post_approval_failed \
    suggested_post_approved suggested_post_declined suggested_post_paid suggested_post_refunded \
    supergroup_chat_created unique_gift user_shared users_shared video_chat_ended \
    video_chat_participants_invited video_chat_scheduled video_chat_started voice_chat_ended \
    voice_chat_participants_invited voice_chat_scheduled voice_chat_started web_app_data \
    write_access_allowed";

/// Returns true for a service message: nobody said anything.
pub(super) fn is_service(message: &Value) -> bool {
    let mut service = SERVICE.split(' ');
    service.any(|name| message.field(name).is_some())
}

/// Returns what a message brings in addition to text and `files`: in words where we know it, else the name
/// of the field it comes in.
pub(super) fn kind(message: &Value, files: &[Media]) -> Option<String> {
    let known = known(message).map(|words| text::shorten(&words, MAX));
    let unknown = || files.is_empty().then(|| unknown(message)).flatten();
    known.or_else(unknown)
}

/// Returns it in words where we know it.
pub(super) fn known(message: &Value) -> Option<String> {
    // For old clients a venue is under `location`, too.
    type Reader = fn(&Value) -> Option<String>;
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
        ("story", story),
        ("paid_media", |_| Some("paid media".to_owned())),
    ];
    readers
        .iter()
        .find_map(|(field, read)| message.object(field).and_then(read))
}

/// Returns the name of a field that we do not know: first of those that hold more than a word.
pub(super) fn unknown(message: &Value) -> Option<String> {
    let is_unknown = |name: &str| COMMON.split(' ').all(|common| common != name);
    let all = message.as_object().into_iter().flatten();
    let fields: Vec<(&String, &Value)> = all
        .filter(|(name, value)| !value.is_null() && is_unknown(name))
        .collect();
    let large = |(_, value): &&(&String, &Value)| value.is_object() || value.is_array();
    let (name, _) = fields.iter().find(large).or(fields.first())?;
    Some(line(name))
}

/// Makes one short line of what a stranger wrote.
fn line(words: &str) -> String {
    text::visible(&text::shorten(words.trim(), PART_MAX))
}

/// Returns `before` and the line in the field, or nothing.
fn optional(before: &str, of: &Value, field: &str) -> String {
    let text = of.text(field).map(|text| format!("{before}{}", line(text)));
    text.unwrap_or_default()
}

fn titled(what: &str, thing: &Value) -> Option<String> {
    Some(format!("{what} \"{}\"", line(thing.text("title")?)))
}

fn story(story: &Value) -> Option<String> {
    let name = story.object("chat").and_then(name)?;
    Some(format!("story of {}", line(&name)))
}

fn sticker(sticker: &Value) -> Option<String> {
    let moves = match (sticker.is_true("is_video"), sticker.is_true("is_animated")) {
        (true, _) => "video ",
        (false, true) => "animated ",
        (false, false) => "",
    };
    let emoji = optional(" ", sticker, "emoji");
    let set = optional(" of ", sticker, "set_name");
    Some(format!("{moves}sticker{emoji}{set}"))
}

/// Returns `52.52, 13.405`; six decimals are about ten centimetres.
fn coordinates(location: &Value) -> Option<String> {
    let degrees = |name, max: f64| {
        let value = location.decimal(name).filter(|value| value.abs() <= max)?;
        Some((value * 1e6).round() / 1e6)
    };
    let latitude = degrees("latitude", 90.0)?;
    Some(format!("{latitude}, {}", degrees("longitude", 180.0)?))
}

fn location(location: &Value) -> Option<String> {
    let live = location.field("live_period").map_or("", |_| "live ");
    Some(format!("{live}location {}", coordinates(location)?))
}

fn venue(venue: &Value) -> Option<String> {
    let place = venue.object("location").and_then(coordinates);
    let place = place.map(|place| format!(" ({place})"));
    Some(format!(
        "venue {}{}{}",
        line(venue.text("title")?),
        optional(", ", venue, "address"),
        place.unwrap_or_default()
    ))
}

fn contact(contact: &Value) -> Option<String> {
    let phone = contact.text("phone_number").map(str::to_owned);
    let user = contact.number("user_id").map(|id| format!("user {id}"));
    let parts = [name(contact), phone, user].into_iter().flatten();
    let parts: Vec<String> = parts.map(|part| line(&part)).collect();
    (!parts.is_empty()).then(|| format!("contact {}", parts.join(", ")))
}

fn poll(poll: &Value) -> Option<String> {
    let closed = poll.is_true("is_closed");
    let option = |option: &Value| {
        let votes = option.number("voter_count").filter(|_| closed);
        let votes = votes.map(|votes| format!(" ({votes})"));
        line(option.text("text").unwrap_or_default()) + &votes.unwrap_or_default()
    };
    let options = poll.list("options").iter().filter(|one| one.is_object());
    // Which options of a quiz are right, as servers say it now and said it before.
    let many = poll.list("correct_option_ids").iter();
    let right = many
        .filter_map(Value::as_i64)
        .chain(poll.number("correct_option_id"))
        .filter_map(|at| options.clone().nth(usize::try_from(at).ok()?)?.text("text"));
    let right = joined(right.map(line));
    Some(format!(
        "{}{} \"{}\": {}{}{right}",
        if closed { "closed " } else { "" },
        poll.text("type")
            .filter(|kind| *kind == "quiz")
            .unwrap_or("poll"),
        line(poll.text("question")?),
        joined(options.clone().map(option)),
        if right.is_empty() { "" } else { "; right: " },
    ))
}

fn joined(parts: impl Iterator<Item = String>) -> String {
    let parts: Vec<String> = parts.take(OPTIONS_MAX).collect();
    parts.join(" | ")
}

fn dice(dice: &Value) -> Option<String> {
    let emoji = line(dice.text("emoji").unwrap_or("🎲"));
    Some(format!("dice {emoji} {}", dice.number("value")?))
}

fn checklist(list: &Value) -> Option<String> {
    let task = |task: &Value| {
        let done = task.number("completion_date").unwrap_or_default() > 0;
        let words = line(task.text("text").unwrap_or_default());
        format!("{} {words}", if done { "[x]" } else { "[ ]" })
    };
    let tasks = list.list("tasks").iter().filter(|task| task.is_object());
    let title = titled("checklist", list)?;
    Some(format!("{title}: {}", joined(tasks.map(task))))
}

//! Commands that are answered at once, before lanes and model: `/stop` (see `stop.rs`), `/status /cost /approve /deny
//! /help /start`, and the buttons.

use std::sync::Arc;

use chrono_tz::Tz;

use crate::message::{Command, Envelope};
use crate::pipeline::Pipeline;
use crate::pipeline::persist::Unrecorded;
use crate::pipeline::turn::outcome::{
    Outcome, as_it_is, decided, declined, reaction, refused, said,
};
use crate::queue::Accepted;
use crate::{clock, cost};

const HELP: &str = "Write to me and I answer. I also understand:\n\n\
    /new – begin a new conversation; words after it begin it\n\
    /compact – sum up what was said so far\n\
    /stop – stop what I am doing\n\
    /status – what I am doing\n\
    /pair – link another account of yours, in another channel, with this one";
const OWNERS_HELP: &str = "\n/approve ID – let me do what I asked for\n/deny ID WHY – do not let me, and say why\n\
    /answer ID WORDS – answer what a tool server asks\n\
    /retry – try again what I gave up here; /retry all, /retry ID\n\
    /continue PLACE – go on here with our conversation elsewhere: telegram, mail, terminal\n\
    /model – which model answers here; /model NAME changes it\n\
    /undo – take back what I last changed in files\n/forget WHAT – let a fact or a person count no more\n\
    /allow-secret WORDS – send WORDS with the keys and card numbers in them\n/cost – what I cost\n/jobs – what I do at its times";
/// Returns the commands in an owner's menu: their names without the slash, and their descriptions.
pub fn commands_for_owners() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = HELP.lines().chain(OWNERS_HELP.lines());
    lines.filter_map(|line| {
        let (form, help) = line.trim().strip_prefix('/')?.split_once(" – ")?;
        Some((form.split(' ').next()?, help))
    })
}

/// Commands that are not answered in a group.
const PRIVATE_COMMANDS: [&str; 4] = ["/pair", "/continue", "/cost", "/jobs"];

/// Returns what `/help` says to who asks, where they ask.
fn help(from_owner: bool, in_group: bool) -> String {
    let owners = if from_owner { OWNERS_HELP } else { "" };
    let all = format!("{HELP}{owners}");
    let is_private = |line: &&str| {
        let command = line.split(' ').next().unwrap_or_default();
        in_group && PRIVATE_COMMANDS.contains(&command)
    };
    let lines: Vec<&str> = all.lines().filter(|line| !is_private(line)).collect();
    lines.join("\n")
}

/// Others read what is said in a group.
pub(crate) const IN_PRIVATE: &str = "Ask me that in our own chat.";
pub(crate) const FOR_OWNERS: &str = "Only my owner may ask that.";
/// What others hear who press a button or say `/approve`.
pub(crate) const OWNER_DECIDES: &str = "Only my owner decides that.";

/// Returns true for commands in whose answers no text of others is.
fn names_nobody(command: Option<&Command>) -> bool {
    let plain = |command| {
        matches!(
            command,
            &Command::Help | &Command::Cost | &Command::Heartbeat
        )
    };
    command.is_none_or(plain)
}

/// Returns troubles, each a line with its time before it, in words for a chat: the time is that of `zone`.
fn told_troubles(troubles: &str, zone: Tz) -> String {
    let line = |line: &str| {
        let (at, words) = line.split_once(' ').unwrap_or(("", line));
        match clock::parse_rfc3339(at) {
            Some(at) => format!("{} {words}", clock::local_minute(at, zone)),
            None => line.to_owned(),
        }
    };
    let lines: Vec<String> = troubles.lines().map(line).collect();
    format!("\nLast trouble: {}", lines.join("\n"))
}

/// Answers a command that does not wait for its lane.
pub(crate) async fn at_once(pipeline: Arc<Pipeline>, row: Accepted) {
    let envelope = row.envelope;
    let help = help(envelope.from_owner, envelope.group.is_some());
    let in_group = envelope.from_owner && envelope.group.is_some();
    let text = match envelope.command.as_ref() {
        Some(Command::Start) => format!("Hello {}. {help}", envelope.sender.name),
        Some(Command::Stop { all }) => match pipeline.stop_text(row.seq, &envelope, *all).await {
            Some(text) => text,
            None => return,
        },
        Some(Command::Status) => pipeline.status_text(&envelope),
        Some(Command::Cost | Command::Jobs) if in_group => IN_PRIVATE.to_owned(),
        Some(Command::Cost | Command::Jobs) if !envelope.from_owner => FOR_OWNERS.to_owned(),
        Some(Command::Cost) => pipeline.cost_text().await,
        Some(Command::Jobs) => pipeline.jobs_text(),
        Some(Command::Job(order)) => {
            let outcome = pipeline.order_job(&envelope, order).await;
            return pipeline.finish_one(&envelope, outcome).await;
        }
        Some(Command::People(order)) => {
            let outcome = decided(&envelope, &pipeline.order_people(order));
            return pipeline.finish_one(&envelope, outcome).await;
        }
        Some(Command::Heartbeat) => match pipeline.wake(clock::now_ms()).await {
            Ok(()) => "The agent woke.".to_owned(),
            Err(asleep) => format!("The agent did not wake: {asleep}."),
        },
        Some(Command::Done { text }) => text.clone(),
        Some(Command::Continue { place, with, .. }) => {
            let (text, notice) = pipeline
                .continued(&envelope, place.as_deref(), with.as_ref())
                .await;
            let outcome = said(&envelope, &text, None).telling(notice);
            return pipeline.finish_one(&envelope, outcome).await;
        }
        Some(Command::Pair) => pipeline.link_code(&envelope).await,
        Some(Command::Deliver { emoji }) => {
            let outcome = match emoji {
                Some(emoji) => reaction(&envelope, emoji.clone()),
                None => as_it_is(&envelope, envelope.text.clone(), String::new()),
            };
            return pipeline.finish_one(&envelope, outcome).await;
        }
        Some(Command::Sticker { set, sticker }) => {
            let outcome = pipeline.send_sticker(&envelope, set, sticker).await;
            return pipeline.finish_one(&envelope, outcome).await;
        }
        Some(Command::Approval { id, verdict, why }) => {
            let word = (id.as_str(), *verdict);
            let heard = pipeline.decide(&envelope, word, why.as_deref()).await;
            return pipeline.say_outcome(&envelope, heard).await;
        }
        Some(Command::DeadLetters { action, letter }) => {
            let settled = pipeline.settle_dead(&envelope, *action, letter.as_deref());
            return pipeline.say_outcome(&envelope, settled.await).await;
        }
        Some(Command::Refused { reason }) => {
            let outcome = pipeline.refusal(&envelope, reason);
            return pipeline.finish_one(&envelope, outcome).await;
        }
        Some(Command::Slip { question }) => {
            let outcome = declined(&envelope, question);
            return pipeline.finish_one(&envelope, outcome).await;
        }
        Some(
            Command::Help
            | Command::New { .. }
            | Command::Compact
            | Command::Undo { .. }
            | Command::Forget { .. }
            | Command::Model { .. },
        )
        | None => help,
    };
    let is_untrusted = !names_nobody(envelope.command.as_ref());
    let outcome = said(&envelope, &text, None).untrusted(is_untrusted);
    pipeline.finish_one(&envelope, outcome).await;
}

impl Pipeline {
    /// Returns the outcome of an order that is refused for `reason`. The words of a recurring job are not lost, and each of its
    /// times would be a dead letter.
    fn refusal(&self, envelope: &Envelope, reason: &str) -> Outcome {
        match self.recurs(envelope) {
            true => self.failed(envelope, reason, &[]).unsaid(),
            false => refused(envelope, reason),
        }
    }

    /// Says what became of the owner's word; who pressed a button sees it there.
    async fn say_outcome(
        self: &Arc<Self>,
        envelope: &Envelope,
        heard: Result<Result<String, String>, Unrecorded>,
    ) {
        let heard = match heard {
            Ok(heard) => heard,
            Err(Unrecorded::Ending) => return,
            Err(Unrecorded::Failed(why)) => return self.fail_one(envelope, &why).await,
        };
        self.finish_one(envelope, decided(envelope, &heard)).await;
        let Some(press) = &envelope.press else { return };
        let channel = envelope
            .route
            .as_ref()
            .and_then(|route| self.channels.get(route.channel.as_str()));
        if let (Some(channel), Ok(text) | Err(text)) = (channel.cloned(), heard) {
            let press = press.clone();
            // What waits for the decision does not wait for Telegram.
            tokio::spawn(async move { channel.answer_press(&press, &text).await });
        }
    }

    /// Returns what is done for who asks; the owner is also told, where nobody else reads, what else there is.
    fn status_text(&self, envelope: &Envelope) -> String {
        let (all, own) = {
            let runs = self.runs();
            (runs.len(), runs.contains_key(&envelope.session_key))
        };
        let waiting = self.waiting.lock();
        let waits = waiting.get(&envelope.session_key);
        let here = match waits {
            Some(waits) => format!("Your message waits: {}.", waits.suspended.waits_for),
            None if own => "I am working on your message.".to_owned(),
            None => "I am not working on anything of yours.".to_owned(),
        };
        if !envelope.from_owner || envelope.group.is_some() {
            return here;
        }
        let live = self.live();
        let model = live
            .agent
            .client()
            .models()
            .get("primary", "/status")
            .map_or_else(|_| "none".to_owned(), |model| model.model.clone());
        let trouble = self
            .last_troubles()
            .map(|troubles| told_troubles(&troubles, live.config.agent.timezone.0));
        format!(
            "{here}\nRuns: {all}. Conversations: {}. Model: {model}.{}",
            self.sessions.count(),
            trouble.unwrap_or_default()
        )
    }

    async fn cost_text(&self) -> String {
        let live = self.live();
        let zone = live.config.agent.timezone.0;
        let now = clock::now_ms();
        let (day, month) = (
            cost::start_of_day(now, zone),
            cost::start_of_month(now, zone),
        );
        let path = self.cost_db.clone();
        let read = crate::sys::blocking(move || {
            let since = |since| cost::by_model(&path, since, now);
            Ok::<_, crate::db::Error>((since(day)?, since(month)?))
        });
        let (day, month) = match read.await {
            Ok(sums) => sums,
            Err(error) => return format!("The ledger cannot be read: {error}"),
        };
        let line = |name: &str, lines: &[cost::Line], cap: f64| {
            let total = cost::total_usd(lines);
            let calls: i64 = lines.iter().map(|line| line.calls).sum();
            let unpriced: i64 = lines.iter().map(|line| line.unpriced_calls).sum();
            let mut text = format!("{name}: ${total:.4} in {calls} calls");
            if unpriced > 0 {
                text.push_str(&format!(", {unpriced} of them without a price"));
            }
            if cap > 0.0 {
                text.push_str(&format!(", limit ${cap:.2}"));
            }
            text
        };
        let caps = &live.config.cost;
        [
            line("Today", &day, caps.day_usd),
            line("This month", &month, caps.month_usd),
        ]
        .join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_in_a_group_lists_no_command_that_is_refused_there() {
        let names = |from_owner, in_group| {
            let help = help(from_owner, in_group);
            let names = help.lines().filter_map(|line| line.split(' ').next());
            let names = names.filter(|name| PRIVATE_COMMANDS.contains(name));
            names.map(str::to_owned).collect::<Vec<String>>()
        };
        assert_eq!(names(true, false).len(), PRIVATE_COMMANDS.len());
        assert_eq!(names(false, false), ["/pair"]);
        assert_eq!(names(true, true), [""; 0]);
        assert_eq!(names(false, true), [""; 0]);
        assert!(help(true, true).contains("\n/status – "));
    }

    #[test]
    fn a_trouble_is_told_with_the_local_time() {
        let troubles = "2026-11-28T20:46:33.444Z the disk is full\nwithout a time";
        assert_eq!(
            told_troubles(troubles, Tz::Europe__Berlin),
            "\nLast trouble: 2026-11-28 21:46 the disk is full\nwithout a time"
        );
    }
}

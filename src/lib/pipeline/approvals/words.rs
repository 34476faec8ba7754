//! An approval question as a message: its text, its buttons, its id. Pure.

use crate::message::approval_reply::{YES_OR_NO, choice};
use crate::message::{Approval, Button, Source, Wanted};
use crate::queue::{Request, ending};
use crate::{clock, text};

/// What is in an id: letters and digits that are not mistaken for each other.
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// Characters of an answer, and choices that are buttons.
const LONGEST_ANSWER: usize = 4_000;
const CHOICES: usize = 9;
/// How a question begins, when it wants a yes and when it wants words.
const BEGINS: [&str; 2] = ["I need your yes.", "I am asked to ask you."];
/// What is before how long it waits and how it is answered.
const UNTIL: &str = "\n\nUntil ";

/// Returns the buttons below a question: a row each, and one for all of them. What a guest wants is never allowed always:
/// that would be a rule of the owner's own.
pub(super) fn buttons(requests: &[Request], of_owner: bool) -> Vec<Vec<Button>> {
    let button = |label: String, verdict: Approval, id: &str| Button {
        label,
        data: verdict.data(id),
    };
    let several = requests.len() > 1;
    if let [request] = requests
        && let Some(wanted) = &request.wanted
    {
        return answers(request, wanted);
    }
    let row = |(number, request): (usize, &Request)| {
        let numbered = |words: &str| {
            if several {
                format!("{words} {number}")
            } else {
                words.to_owned()
            }
        };
        let mut row = vec![button(numbered("✅ Yes"), Approval::Approve, &request.id)];
        if request.rule.is_some() {
            let in_chat = numbered("✅ In this chat");
            row.push(button(in_chat, Approval::Session, &request.id));
        }
        if request.rule.is_some() && of_owner {
            row.push(button(numbered("✅ Always"), Approval::Always, &request.id));
        }
        row.push(button(numbered("❌ No"), Approval::Deny, &request.id));
        row
    };
    let mut rows: Vec<Vec<Button>> = (1..).zip(requests).map(row).collect();
    if let Some(first) = requests.first().filter(|_| several) {
        rows.push(vec![
            button("✅ Yes to all".to_owned(), Approval::Approve, &first.batch),
            button("❌ No to all".to_owned(), Approval::Deny, &first.batch),
        ]);
    }
    rows
}

/// Returns the buttons below a question that is answered with words: its choices, and No.
fn answers(request: &Request, wanted: &Wanted) -> Vec<Vec<Button>> {
    let choices = wanted.choices.iter().take(CHOICES);
    let choice = |(number, label): (usize, &String)| Button {
        label: text::shorten(&text::visible(label), 40),
        data: choice(number, &request.id),
    };
    let mut row: Vec<Button> = (1..).zip(choices).map(choice).collect();
    if wanted.how == YES_OR_NO {
        row.push(Button {
            label: "✅ Yes".to_owned(),
            data: Approval::Approve.data(&request.id),
        });
    }
    row.push(Button {
        label: "❌ No".to_owned(),
        data: Approval::Deny.data(&request.id),
    });
    row.chunks(3).map(<[Button]>::to_vec).collect()
}

/// Returns the owner's words as they are kept: why they say no on one line, an answer as it is.
pub(super) fn kept_words(verdict: Approval, words: &str) -> String {
    let words = crate::secret::redact(words);
    match verdict {
        Approval::Approve => text::shorten(&words, LONGEST_ANSWER),
        _ => text::shorten(&text::visible(&words), 1_000),
    }
}

/// Returns an id of six characters.
pub(super) fn new_id() -> String {
    let random = uuid::Uuid::new_v4();
    let letter =
        |byte: &u8| char::from(LETTERS.get(usize::from(byte % 32)).copied().unwrap_or(b'a'));
    random.as_bytes().iter().take(6).map(letter).collect()
}

/// Returns the question as Markdown. What others may have chosen is in a block of code, every line of it
/// behind a bar: nothing in it is a link, or looks like a line of ours.
pub(super) fn question(
    requests: &[Request],
    (whence, of_owner): (&str, bool),
    zone: chrono_tz::Tz,
) -> String {
    let several = requests.len() > 1;
    let mut lines = Vec::new();
    for (number, request) in (1..).zip(requests) {
        if several {
            lines.push(format!("{number}."));
        }
        lines.extend(
            text::for_decision(&request.question)
                .lines()
                .map(|line| format!("| {line}")),
        );
    }
    let mut whys: Vec<&str> = requests
        .iter()
        .map(|request| request.why.as_str())
        .collect();
    whys.dedup();
    let place = if whence.is_empty() {
        String::new()
    } else {
        format!("Asked{whence}.\n")
    };
    let rules: Vec<String> = requests
        .iter()
        .filter_map(|request| request.rule.as_ref())
        .map(|(words, _)| text::shorten(&text::visible(words), 200))
        .collect();
    let rules = if rules.is_empty() {
        String::new()
    } else {
        let or_always = if of_owner { ", or always" } else { "" };
        format!("\n\nIn this chat{or_always}: {}.", rules.join("; "))
    };
    let wanted = requests
        .iter()
        .filter_map(|request| request.wanted.as_ref());
    let wanted: Vec<String> = wanted
        .map(|wanted| format!("\n\nAnswer: {}", text::visible(&wanted.how)))
        .collect();
    let begin = match wanted.is_empty() {
        true => BEGINS[0],
        false => BEGINS[1],
    };
    let block = format!(
        "{place}{}{}\n\nWhy I ask: {}.{rules}",
        lines.join("\n"),
        wanted.concat(),
        whys.join("; ")
    );
    let longest = block.split(|c| c != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest.max(2) + 1);
    let how = |request: &Request| {
        let id = &request.id;
        match &request.wanted {
            Some(wanted) if wanted.how != YES_OR_NO => {
                format!("/answer {id} WORDS or /deny {id} WHY")
            }
            _ => format!("/approve {id} or /deny {id} WHY"),
        }
    };
    let ids: Vec<String> = requests.iter().map(how).collect();
    let until = requests
        .first()
        .map(|request| clock::local_text(request.expires_at, zone))
        .unwrap_or_default();
    format!(
        "{begin}\n\n{fence}\n{block}\n{fence}{UNTIL}{until}: {}",
        ids.join("; ")
    )
}

/// Returns a request as it is named among others.
fn listed(request: &Request) -> String {
    let words = text::visible(&text::one_line(&request.question));
    format!("{} ({})", request.id, text::shorten(&words, 80))
}

/// Returns what is said to a word that names none of those that wait, when it cannot be told which is meant. In a shell
/// `agent-send` says how one is named.
pub(super) fn name_one(waiting: &[Request], source: Source) -> String {
    let list: Vec<String> = waiting.iter().map(listed).collect();
    let list = list.join("; ");
    let how = |id: &str| match source {
        Source::Cli => String::new(),
        _ => format!(": /approve {id} or /deny {id} WHY"),
    };
    match waiting {
        [one] => format!(
            "{list} waits, but it is not the last question that you were shown. Name it{}.",
            how(&one.id)
        ),
        several => format!(
            "{} questions wait: {list}. Name one{}.",
            several.len(),
            how("ID")
        ),
    }
}

/// Returns what is said to a plain yes or no of which it is not sure that it is for these.
pub(super) fn do_you_mean(requests: &[Request], source: Source) -> String {
    let [one] = requests else {
        return name_one(requests, source);
    };
    format!(
        "Is that for {1}? Reply to its message, or write /approve {0} or /deny {0} WHY.",
        one.id,
        listed(one)
    )
}

/// Returns what is in place of the message `plain` once its question is over: how each request ended, and what was asked.
pub(super) fn how_it_ended(batch: &[(Request, String)], plain: &str) -> String {
    let line = |(request, state): &(Request, String)| {
        format!("{}: {}", ending(state), first_line(&request.question))
    };
    let ends: Vec<String> = batch.iter().map(line).collect();
    let asked = BEGINS
        .iter()
        .find_map(|begin| plain.strip_prefix(begin))
        .unwrap_or(plain);
    let asked = asked.rsplit_once(UNTIL).map_or(asked, |(asked, _)| asked);
    // What is asked is behind bars: a line of nothing but these is the fence around it.
    let is_fence = |line: &&str| line.len() >= 3 && line.bytes().all(|byte| byte == b'`');
    let asked: Vec<&str> = asked.lines().filter(|line| !is_fence(line)).collect();
    format!("{}\n\n{}", ends.join("\n"), asked.join("\n").trim())
}

pub(in crate::pipeline) fn first_line(question: &str) -> String {
    text::shorten(
        &text::visible(question.lines().next().unwrap_or_default()),
        120,
    )
}

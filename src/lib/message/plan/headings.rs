//! Plans as Markdown: a heading with the kind of a task, its content below.
//!
//! ```text
//! # «send» 57
//! Oh no.
//! # wait
//! delay: 4
//! # sticker
//! CatSet
//! 😿
//! ```

use super::{Act, Deed, Draft, PRIVATE, addresses, is_nearly, seconds, tamed_text};

/// The kinds of tasks.
pub(super) const KINDS: [&str; 12] = [
    "think",
    "remember",
    "send",
    "wait",
    "react",
    "sticker",
    "send_media",
    "xsend",
    "retrieve",
    "block",
    "unblock",
    "clear",
];

/// A heading that may be one of a task.
#[derive(Debug, Clone, PartialEq)]
struct Heading {
    level: usize,
    /// As a kind is written; of no kind of ours when there is none.
    kind: String,
    /// The message that is answered.
    reply_to: Option<String>,
    /// Whether nobody would write it except for a task.
    is_marked: bool,
}

/// A heading with the lines below it.
pub(super) struct Section<'a> {
    pub(super) kind: String,
    reply_to: Option<String>,
    pub(super) body: &'a str,
}

/// Returns the tasks of a text in which headings stand for them, `None` when there are none.
pub(super) fn find(text: &str) -> Option<Result<Vec<Draft>, String>> {
    let sections = sections(text)?;
    Some(sections.iter().map(draft).collect())
}

/// Cuts a text at the headings of tasks; what is before the first is a thought. `None` when there are none.
pub(super) fn sections(text: &str) -> Option<Vec<Section<'_>>> {
    let begins = text.lines().next().and_then(heading);
    let is_task = |heading: &Heading| heading.is_marked || KINDS.contains(&heading.kind.as_str());
    // One that is meant for a task is not a part of the words before it.
    let is_meant = |heading: &Heading| KINDS.iter().any(|kind| is_nearly(kind, &heading.kind));
    // A title of one word that begins an answer is meant for a task as well.
    let first = match begins {
        Some(heading) if is_task(&heading) || !heading.kind.contains(' ') => Some(heading),
        _ => lines(text)
            .find_map(|(_, line)| heading(line).filter(|found| found.level == 1 && is_task(found))),
    }?;
    let mut found: Vec<(Heading, usize, usize)> = Vec::new();
    for (at, line) in lines(text) {
        let known = heading(line).filter(|next| {
            next.level == first.level && (is_task(next) || is_meant(next) || *next == first)
        });
        if let Some(next) = known {
            if let Some((_, _, end)) = found.last_mut() {
                *end = at;
            }
            found.push((next, at + line.len(), text.len()));
        }
    }
    let sections = found.into_iter().map(|(heading, from, to)| Section {
        kind: heading.kind,
        reply_to: heading.reply_to,
        body: text.get(from..to).unwrap_or_default().trim(),
    });
    Some(sections.collect())
}

/// Returns true when a line of a text is the heading of a task as tasks are written: nobody heads words so.
pub(super) fn has_plain_one(text: &str) -> bool {
    let is_one = |line: &str| {
        let mut words = line
            .strip_prefix("# ")
            .unwrap_or_default()
            .split_whitespace();
        let kind = words.next().unwrap_or_default();
        let kind = kind.trim_matches(['«', '»', '`', '*']);
        KINDS.contains(&kind) && words.count() <= 1
    };
    lines(text).any(|(_, line)| is_one(line))
}

/// Returns what is left for people of a text in which headings stand for tasks: what is before the first, and below
/// those of `send`. `None` when there are none.
pub(super) fn public(text: &str) -> Option<String> {
    let mut cuts: Vec<(usize, usize, bool)> = Vec::new();
    for (at, line) in lines(text) {
        let of_task = heading(line).filter(|heading| {
            let is_kind = KINDS.contains(&heading.kind.as_str());
            let is_private = PRIVATE.contains(&heading.kind.as_str());
            is_kind && heading.level == 1 || heading.is_marked && (is_kind || is_private)
        });
        if let Some(heading) = of_task {
            cuts.push((at, at + line.len(), heading.kind == "send"));
        }
    }
    let (first, _, _) = *cuts.first()?;
    let ends = cuts.iter().skip(1).map(|(at, _, _)| *at);
    let bodies = cuts.iter().zip(ends.chain([text.len()]));
    let said = bodies.filter(|((_, _, is_send), _)| *is_send);
    let said = said.filter_map(|((_, from, _), to)| text.get(*from..to));
    let parts = text.get(..first).into_iter().chain(said).map(str::trim);
    let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
    Some(parts.join("\n\n"))
}

/// Returns the lines outside of code, each with where it begins.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    let mut in_code = false;
    text.split_inclusive('\n').filter_map(move |line| {
        let from = at;
        at += line.len();
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            return None;
        }
        (!in_code).then(|| (from, line.trim_end_matches(['\n', '\r'])))
    })
}

fn heading(line: &str) -> Option<Heading> {
    let level = line.bytes().take_while(|byte| *byte == b'#').count();
    if level == 0 || level > 6 {
        return None;
    }
    let words = line.get(level..)?.trim().trim_end_matches('#').trim();
    let quotes = ['«', '»', '"', '`', '*', '“', '”', '<', '>', ':'];
    let is_quoted = words.starts_with(['«', '`', '<']);
    let bare = words.replace(quotes, " ");
    let mut parts = bare.split_whitespace();
    let first = parts.next()?.to_lowercase().replace('-', "_");
    let rest: Vec<&str> = parts.collect();
    let id = |word: &str| {
        let word = word
            .trim_start_matches("reply_to=")
            .trim_start_matches("message_id=");
        (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()))
            .then(|| word.to_owned())
    };
    match rest.as_slice() {
        [] => Some(Heading {
            level,
            kind: first,
            reply_to: None,
            is_marked: is_quoted,
        }),
        [one] | ["reply_to" | "message_id", one] if id(one).is_some() => Some(Heading {
            level,
            kind: first,
            reply_to: id(one),
            is_marked: is_quoted,
        }),
        _ => Some(Heading {
            level,
            kind: bare.trim().to_lowercase(),
            reply_to: None,
            is_marked: is_quoted,
        }),
    }
}

fn draft(section: &Section<'_>) -> Result<Draft, String> {
    let Section {
        kind,
        reply_to,
        body,
    } = section;
    let words = || -> Result<String, String> {
        (!body.is_empty())
            .then(|| (*body).to_owned())
            .ok_or_else(|| format!("there is nothing below the heading {kind:?}"))
    };
    let mut rows = body.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut row = |name: &str| -> Result<String, String> {
        let line = rows
            .next()
            .ok_or_else(|| format!("{kind} needs a line {name:?}"))?;
        let value = line
            .split_once(':')
            .filter(|(before, _)| before.trim().eq_ignore_ascii_case(name));
        Ok(value.map_or(line, |(_, value)| value).trim().to_owned())
    };
    let act = match kind.as_str() {
        "think" => return Ok(of(Deed::Think, None)),
        "remember" => return Ok(of(Deed::Remember(words()?), None)),
        "send" => Act::Send {
            text: tamed_text(&words()?)?,
        },
        "wait" => Act::Wait {
            delay: seconds(row("delay")?.trim_end_matches(['s', ' ']).parse().ok())?,
        },
        "react" => {
            let emoji = row("emoji")?;
            Act::React { emoji }
        }
        "sticker" => match words()?.split_once("::") {
            Some((set, name)) if !body.trim().contains('\n') => Act::Sticker {
                set: set.trim().to_owned(),
                name: name.trim().to_owned(),
            },
            _ => Act::Sticker {
                set: row("set")?,
                name: row("name")?,
            },
        },
        "send_media" => Act::SendMedia { path: row("path")? },
        "xsend" => {
            let to = row("to")?;
            let text = body.split_once('\n').map_or("", |(_, rest)| rest).trim();
            Act::Xsend {
                to,
                text: tamed_text(text.strip_prefix("text:").unwrap_or(text).trim())?,
            }
        }
        "retrieve" => Act::Retrieve {
            urls: addresses(
                rows.map(|line| line.trim_start_matches(['-', '*', ' ']).to_owned())
                    .collect(),
            )?,
        },
        "block" => Act::Block,
        "unblock" => Act::Unblock,
        "clear" => Act::Clear,
        other => return Err(format!("no task is of the kind {other:?}")),
    };
    Ok(of(Deed::Act(act), reply_to.clone()))
}

fn of(deed: Deed, reply_to: Option<String>) -> Draft {
    Draft {
        id: None,
        depends_on: None,
        reply_to,
        deed,
    }
}

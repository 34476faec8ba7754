//! Converts a received mail to a line for the daemon, or drops it: automatic mails are never answered.

use chrono::{DateTime, FixedOffset, Utc};
use mail_parser::{Message, MessageParser};
use serde_json::{Value, json};

use crate::error::Error;
use crate::head::Head;
use crate::settings::Settings;
use crate::subject::about;
use crate::threads::{Thread, Threads, ids};
use crate::whose::{Words, begin as head};

mod files;
mod identity;

use files::{Files, MAX_FILES};
use identity::Identity;
pub use identity::UNVERIFIED;

/// A mail of more parts is not taken apart.
const MAX_PARTS: usize = 2_000;
/// So many mails that a mail says it follows are looked at, the last ones.
const MAX_FOLLOWED: usize = 50;
/// A mail as the server gave it.
#[derive(Debug, Clone, Copy)]
pub struct Raw<'a> {
    /// Which time of the mailbox.
    pub validity: u32,
    /// Which mail in it.
    pub uid: u32,
    /// The whole mail; of one that is too large the head only.
    pub bytes: &'a [u8],
    /// Its size, where it is too large.
    pub too_large: Option<u32>,
    /// When the server got it.
    pub came_at: Option<DateTime<FixedOffset>>,
    /// Now.
    pub read_at: DateTime<Utc>,
}

/// What becomes of a mail.
#[derive(Debug)]
pub enum Verdict {
    /// It is for the agent.
    Line(Box<Line>),
    /// Nobody is to be answered, and why.
    Ignored(String),
}

/// A line for the daemon.
#[derive(Debug)]
pub struct Line {
    /// Its id: the same mail has the same.
    pub id: String,
    /// Its fields.
    pub fields: Value,
    /// Its files.
    pub files: Vec<(String, Vec<u8>)>,
    /// Why its sender is a stranger whatever From says.
    pub unverified: Option<String>,
    /// Whether the mail stays in the mailbox, unread: nothing but its Date speaks against its sender.
    pub is_untimely: bool,
    /// Its thread, by name.
    pub thread: (String, Thread),
}

/// Reads a mail.
///
/// # Errors
/// When what is known of its thread cannot be read.
pub fn read(raw: Raw<'_>, settings: &Settings, threads: &Threads<'_>) -> Result<Verdict, Error> {
    let ignored = |why: &str| Ok(Verdict::Ignored(why.to_owned()));
    // What is nested without end is taken apart, and put away, by recursion.
    let is_odd = fields_of_parts(raw.bytes) > MAX_PARTS;
    let bytes = if is_odd {
        head_of(raw.bytes)
    } else {
        raw.bytes
    };
    let Some(mail) = MessageParser::default().parse(bytes) else {
        return ignored("it is no mail");
    };
    let plain = Head::read(bytes, &mail);
    let headers: Vec<(&str, &str)> = match &plain {
        Some(head) => head.fields(),
        None => mail.headers_raw().collect(),
    };
    let Some(identity) = Identity::of(&mail, raw, plain.as_ref(), &headers, settings) else {
        return ignored("it names no sender");
    };
    let Identity {
        from,
        sender,
        name: name_of_mail,
        id: own_id,
        unverified,
        is_untimely,
        waited,
    } = identity;
    if let Some(why) = automatic(&headers, &from, settings) {
        return Ok(Verdict::Ignored(why));
    }
    let references = references(&headers);
    let (name, mut thread) = thread_of(threads, &sender, &references, &own_id)?;
    let subject = head(mail.subject().unwrap_or_default().trim(), 500);
    if thread.subject.is_empty() {
        about(&subject).clone_into(&mut thread.subject);
    }
    thread.add(&own_id);
    thread.know(&name_of_mail, &own_id);
    let said = match waited {
        Some(kind) => Said::untold(kind),
        None => Said::of(
            &mail,
            raw,
            settings,
            &references,
            thread.first == own_id,
            is_odd,
        ),
    };
    let answered = header(&headers, "in-reply-to").map(ids).unwrap_or_default();
    let shown = mail
        .from()
        .and_then(|from| from.first())
        .and_then(|one| one.name());
    // Who is a stranger each time gives no order and redeems no code.
    let mark = unverified.as_ref().map_or("", |_| "[unverified sender]\n");
    let mut fields = json!({
        "cmd": "user", "chat": sender, "thread": thread.root, "message_id": name_of_mail,
        "sender": {"id": sender, "name": head(shown.unwrap_or(&from), 200), "unverified": unverified.is_some()},
        "text": format!("{mark}{}", said.text),
    });
    if let Some(fields) = fields.as_object_mut() {
        if let Some(id) = answered.last() {
            fields.insert("reply_to".to_owned(), json!(id));
        }
        if let Some(kind) = said.kind {
            fields.insert("kind".to_owned(), json!(kind));
        }
        if let Some(at) = raw.came_at {
            fields.insert("sent_at".to_owned(), json!(at.to_rfc3339()));
        }
        fields.insert("attachments".to_owned(), Value::Array(said.attachments));
    }
    Ok(Verdict::Line(Box::new(Line {
        id: format!("m-{}-{:010}", raw.validity, raw.uid),
        fields,
        files: said.files,
        unverified,
        is_untimely,
        thread: (name, thread),
    })))
}

/// Returns the mails that a mail says it follows, the first first.
fn references(headers: &[(&str, &str)]) -> Vec<String> {
    let mut references: Vec<String> = ["references", "in-reply-to"]
        .iter()
        .filter_map(|name| header(headers, name))
        .flat_map(ids)
        .collect();
    references.dedup();
    if references.len() > MAX_FOLLOWED {
        references.drain(1..references.len() - MAX_FOLLOWED);
    }
    references
}

/// Returns the thread of a mail: one of ours, or the one that begins where the mail says.
fn thread_of(
    threads: &Threads<'_>,
    sender: &str,
    references: &[String],
    own_id: &str,
) -> Result<(String, Thread), Error> {
    if let Some(found) = threads.of(sender, references)? {
        return Ok(found);
    }
    let root = references.first().map_or(own_id, String::as_str);
    let name = threads.name(sender, root)?;
    let known = threads.read(&name)?.filter(|thread| thread.chat == sender);
    Ok((name, known.unwrap_or_else(|| begun(sender, root, own_id))))
}

/// Returns how often a part says what it is: at least as often as parts are nested.
fn fields_of_parts(bytes: &[u8]) -> usize {
    const FIELD: &[u8] = b"content-type";
    let begins = bytes.windows(FIELD.len());
    begins
        .filter(|window| window.first().is_some_and(|byte| byte | 0x20 == b'c'))
        .filter(|window| window.eq_ignore_ascii_case(FIELD))
        .count()
}

/// Returns the head of a mail, and the blank line.
fn head_of(bytes: &[u8]) -> &[u8] {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
    end.and_then(|at| bytes.get(..at + 4)).unwrap_or_default()
}

fn begun(chat: &str, root: &str, first: &str) -> Thread {
    Thread {
        chat: chat.to_owned(),
        root: root.to_owned(),
        first: first.to_owned(),
        ..Thread::default()
    }
}

/// The first header with the name, without what precedes its value.
fn header<'a>(headers: &[(&'a str, &'a str)], name: &str) -> Option<&'a str> {
    let mut found = headers
        .iter()
        .filter(|(own, _)| own.eq_ignore_ascii_case(name));
    found.next().map(|(_, value)| value.trim())
}

/// Returns why a mail was sent by a program, if it was.
fn automatic(headers: &[(&str, &str)], from: &str, settings: &Settings) -> Option<String> {
    let said = |name: &str| header(headers, name).map(str::to_lowercase);
    if settings.is_own(from) {
        return Some("it comes from the agent's own address".to_owned());
    }
    if said("x-loop").is_some_and(|value| value == settings.address) {
        return Some("it is a mail of the agent's that came back".to_owned());
    }
    // RFC 3834: everything but `no` was sent by a program.
    if let Some(value) = said("auto-submitted").filter(|value| first_word(value) != "no") {
        return Some(format!("Auto-Submitted: {}", head(&value, 40)));
    }
    if let Some(value) = said("precedence").filter(|value| {
        ["bulk", "junk", "list", "auto_reply"].contains(&first_word(value).as_str())
    }) {
        return Some(format!("Precedence: {}", head(&value, 40)));
    }
    let marks = [
        "mailing-list",
        "x-autoreply",
        "x-autorespond",
        "x-auto-reply",
        "x-mailing-list",
    ];
    let mark = headers.iter().find(|(name, _)| {
        let name = name.to_lowercase();
        name.starts_with("list-") || marks.contains(&name.as_str())
    });
    if let Some((name, _)) = mark {
        return Some(format!("it has {name}"));
    }
    if said("x-auto-response-suppress")
        .is_some_and(|value| value.contains("all") || value.contains("autoreply"))
    {
        return Some("X-Auto-Response-Suppress".to_owned());
    }
    if said("return-path").is_some_and(|value| value.replace(char::is_whitespace, "") == "<>") {
        return Some("it has no return address".to_owned());
    }
    if said("content-type").is_some_and(|value| value.starts_with("multipart/report")) {
        return Some("it is a report on another mail".to_owned());
    }
    let local = from.split('@').next().unwrap_or_default();
    let robots = [
        "mailer-daemon",
        "postmaster",
        "noreply",
        "no-reply",
        "donotreply",
        "do-not-reply",
        "bounce",
        "bounces",
    ];
    robots
        .contains(&local)
        .then(|| format!("nobody reads {local}"))
}

fn first_word(value: &str) -> String {
    let end = |c: char| c == ';' || c == '(' || c.is_whitespace();
    value
        .trim()
        .split(end)
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Returns addresses in small letters, so many at most.
pub fn addresses(of: Option<&mail_parser::Address<'_>>, most: usize) -> Vec<String> {
    let all = of.into_iter().flat_map(|addresses| addresses.iter());
    all.take(most)
        .filter_map(|one| one.address())
        .map(|address| address.trim().to_lowercase())
        .filter(|address| !address.is_empty())
        .collect()
}

/// What a mail says.
#[derive(Default)]
struct Said {
    /// What its sender typed.
    text: String,
    kind: Option<String>,
    attachments: Vec<Value>,
    files: Vec<(String, Vec<u8>)>,
}

impl Said {
    /// A mail whose words are not told, and what stands for them.
    fn untold(kind: String) -> Self {
        Self {
            text: Words::untold().typed(0, 0),
            kind: Some(kind),
            ..Self::default()
        }
    }

    fn of(
        mail: &Message<'_>,
        raw: Raw<'_>,
        settings: &Settings,
        references: &[String],
        is_first: bool,
        is_odd: bool,
    ) -> Self {
        let is_whole = !is_odd && raw.too_large.is_none();
        let begins = references.is_empty();
        let mut words = if is_whole {
            Words::of(mail, settings, begins)
        } else {
            Words::of_head(mail, settings, begins)
        };
        let mut files = if is_whole {
            Files::of(mail)
        } else {
            Files::default()
        };
        let kind = match raw.too_large {
            _ if is_odd => Some("a mail of so many parts that it is not read here".to_owned()),
            Some(size) => Some(format!(
                "a mail of {} MB, too large to be read here",
                size >> 20
            )),
            None => without_words(&words, files.count == 0),
        };
        // The file with the whole text tells who wrote what: it keeps its place whatever the limit.
        let whole = words.cut();
        let most = MAX_FILES - usize::from(whole.is_some());
        let has_others = words.has_others(is_first) || files.left_out_count > 0;
        if has_others || files.len() > most {
            files.keep(most - 1);
        }
        if let Some(whole) = whole {
            files.put_first("whole-mail.txt", whole);
        }
        let text = words.typed(files.left_out_count, files.count);
        if let Some((name, others)) = words.of_others(is_first, &files.left_out) {
            files.put_first(name, others);
        }
        let (attachments, files) = files.handed_on();
        Self {
            text,
            kind,
            attachments,
            files,
        }
    }
}

/// Returns what stands for the words of a mail in which its sender wrote none.
fn without_words(words: &Words, has_no_files: bool) -> Option<String> {
    let kind = if !words.is_empty() {
        return None;
    } else if words.is_event {
        "an event of a calendar, without words of the sender's own"
    } else if words.is_forward {
        "a mail of somebody else, passed on without a word"
    } else if words.is_quote_alone() {
        "a mail without words outside of what it quotes; what follows a quoted line without a blank line counts as quoted"
    } else if has_no_files {
        "a mail without words"
    } else {
        return None;
    };
    Some(kind.to_owned())
}

#[cfg(test)]
mod tests;

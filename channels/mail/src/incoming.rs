//! A mail that came becomes a line for the daemon, or nothing: what programs send by themselves is never answered.

use chrono::{DateTime, FixedOffset, Utc};
use mail_parser::{Message, MessageParser, MimeHeaders, PartType};
use serde_json::{Value, json};

use crate::error::Error;
use crate::head::Head;
use crate::readable::{self, Read};
use crate::settings::Settings;
use crate::threads::{Thread, Threads, about, ids};

mod identity;

use identity::Identity;
pub use identity::UNVERIFIED;

/// The longest text that is handed on, characters: agent-channel(7) takes 200,000; the whole goes along as a file.
const MAX_TEXT: usize = 100_000;
/// agent-channel(7): so many files of so many bytes.
const MAX_FILES: usize = 20;
const MAX_FILE: usize = 20_000_000;
/// Smaller pictures in the text of a mail are logos.
const LOGO: usize = 20_000;
/// A mail of more parts is not taken apart.
const MAX_PARTS: usize = 2_000;
/// So many mails that a mail says it follows are looked at, the last ones.
const MAX_FOLLOWED: usize = 50;
/// Other recipients that are named.
const SHOWN: usize = 5;

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
        None => Said::of(&mail, raw, thread.first == own_id, is_odd),
    };
    let answered = header(&headers, "in-reply-to").map(ids).unwrap_or_default();
    let shown = mail
        .from()
        .and_then(|from| from.first())
        .and_then(|one| one.name());
    let text = said.text(&mail, settings, &subject, references.is_empty());
    // Who is a stranger each time gives no order and redeems no code.
    let mark = unverified.as_ref().map_or("", |_| "[unverified sender]\n");
    let mut fields = json!({
        "cmd": "user", "chat": sender, "thread": thread.root, "message_id": name_of_mail,
        "sender": {"id": sender, "name": head(shown.unwrap_or(&from), 200), "unverified": unverified.is_some()},
        "text": format!("{mark}{text}"),
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

/// Addresses in small letters.
fn addresses(of: Option<&mail_parser::Address<'_>>, most: usize) -> Vec<String> {
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
    read: Read,
    kind: Option<String>,
    /// Whether nothing else is told of it.
    is_untold: bool,
    attachments: Vec<Value>,
    files: Vec<(String, Vec<u8>)>,
    /// Files that are not handed on, and why.
    left_out: Vec<String>,
}

impl Said {
    /// A mail whose words are not told, and what stands for them.
    fn untold(kind: String) -> Self {
        Self {
            kind: Some(kind),
            is_untold: true,
            ..Self::default()
        }
    }

    fn of(mail: &Message<'_>, raw: Raw<'_>, is_first: bool, is_odd: bool) -> Self {
        let mut said = Self::default();
        if is_odd {
            said.kind = Some("a mail of so many parts that it is not read here".to_owned());
            return said;
        }
        if let Some(size) = raw.too_large {
            said.kind = Some(format!(
                "a mail of {} MB, too large to be read here",
                size >> 20
            ));
            return said;
        }
        said.read = body(mail);
        let named = mail.text_bodies().filter(|part| is_file(mail, part));
        for part in mail.attachments().chain(named) {
            said.add_part(part);
        }
        let read = &said.read;
        // Where the person said nothing, or among the quotes, these tell what it is about.
        let others_matter = is_first
            || read.is_forward
            || read.is_interleaved
            || read.is_unmarked
            || read.own.trim().is_empty();
        if !read.others.is_empty() && others_matter {
            let name = if read.is_forward {
                "forwarded.txt"
            } else {
                "quoted.txt"
            };
            let bytes = match mail.subject().filter(|_| read.is_forward) {
                Some(subject) => format!("Subject: {}\n\n{}", head(subject, 500), read.others),
                None => read.others.clone(),
            };
            said.add(name, Some("text/plain"), bytes.into_bytes());
        }
        if said.read.own.chars().count() > MAX_TEXT {
            let whole = std::mem::take(&mut said.read.own);
            said.read.own = format!("{}\n[the rest: whole-mail.txt]", head(&whole, MAX_TEXT));
            said.add("whole-mail.txt", Some("text/plain"), whole.into_bytes());
        }
        let is_empty = said.read.own.trim().is_empty();
        if is_empty && said.read.is_forward {
            said.kind = Some("a mail of somebody else, passed on without a word".to_owned());
        } else if is_empty && said.attachments.is_empty() {
            said.kind = Some("a mail without words".to_owned());
        }
        said
    }

    fn add_part(&mut self, part: &mail_parser::MessagePart<'_>) {
        let kind = part.content_type().map(|kind| {
            let subtype = kind.subtype().unwrap_or("octet-stream");
            format!("{}/{subtype}", kind.ctype()).to_lowercase()
        });
        let bytes = match &part.body {
            PartType::Message(message) => message.raw_message.to_vec(),
            PartType::Text(text) | PartType::Html(text) => text.as_bytes().to_vec(),
            _ => part.contents().to_vec(),
        };
        let is_picture = kind
            .as_deref()
            .is_some_and(|kind| kind.starts_with("image/"));
        let in_text = part.content_id().is_some()
            && !part
                .content_disposition()
                .is_some_and(|place| place.is_attachment());
        if bytes.is_empty() || is_picture && in_text && bytes.len() < LOGO {
            return;
        }
        let end = match kind.as_deref() {
            Some("message/rfc822") => "mail.eml",
            Some("text/calendar") => "invitation.ics",
            Some("text/html") => "file.html",
            Some(kind) if kind.starts_with("text/") => "file.txt",
            _ => "file",
        };
        let name = part
            .attachment_name()
            .map(str::trim)
            .filter(|name| !name.is_empty());
        self.add(name.unwrap_or(end), kind.as_deref(), bytes);
    }

    fn add(&mut self, name: &str, kind: Option<&str>, bytes: Vec<u8>) {
        // Whatever path a sender writes, it is a name.
        let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
        let name: String = name.chars().filter(|c| !c.is_control()).take(100).collect();
        if self.files.len() == MAX_FILES || bytes.len() > MAX_FILE {
            self.left_out
                .push(format!("{name} ({} kB)", bytes.len() >> 10));
            return;
        }
        let safe = |c: char| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '_'
            }
        };
        let path: String = name.chars().map(safe).collect();
        let path = format!("{:02}-{}", self.files.len(), path.trim_start_matches('.'));
        self.attachments
            .push(json!({"path": path, "filename": name, "content_type": kind}));
        self.files.push((path, bytes));
    }

    /// Returns the words for the agent: what the mail says, after its subject where a conversation begins.
    fn text(&self, mail: &Message<'_>, settings: &Settings, subject: &str, begins: bool) -> String {
        if self.is_untold {
            return String::new();
        }
        let own = self.read.own.trim();
        // A command is a command, and a code to be let in by a code.
        let is_code = own.len() >= 12 && own.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if own.starts_with('/') || is_code {
            return own.to_owned();
        }
        let mut head = Vec::new();
        // That of a mail that is passed on is not the person's either.
        if begins && !subject.is_empty() && !self.read.is_forward {
            head.push(format!("Subject: {subject}"));
        }
        let mut to = addresses(mail.to(), 1_000);
        to.extend(addresses(mail.cc(), 1_000));
        to.retain(|address| !settings.is_own(address));
        if begins && !to.is_empty() {
            let more = to.len().saturating_sub(SHOWN);
            to.truncate(SHOWN);
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            head.push(format!("Also to: {}{more}", to.join(", ")));
        }
        if !self.left_out.is_empty() {
            let some: Vec<&str> = self
                .left_out
                .iter()
                .take(SHOWN)
                .map(String::as_str)
                .collect();
            head.push(format!(
                "Not handed on, too large or too many: {} of {} files: {}",
                self.left_out.len(),
                self.left_out.len() + self.files.len(),
                some.join(", ")
            ));
        }
        if head.is_empty() {
            return own.to_owned();
        }
        format!("{}\n\n{own}", head.join("\n")).trim().to_owned()
    }
}

/// Returns the body: the plain text, or the HTML where that is all there is.
fn body(mail: &Message<'_>) -> Read {
    let parts = mail.text_bodies();
    let mut all = Read::default();
    for part in parts.filter(|part| !is_file(mail, part)) {
        let read = match &part.body {
            PartType::Html(html) => readable::html(html),
            PartType::Text(text) => readable::plain(text),
            _ => continue,
        };
        let join = |to: &mut String, more: &str| {
            if !to.is_empty() && !more.is_empty() {
                to.push_str("\n\n");
            }
            to.push_str(more);
        };
        join(&mut all.own, &read.own);
        join(&mut all.others, &read.others);
        all.is_forward |= read.is_forward;
        all.is_interleaved |= read.is_interleaved;
        all.is_unmarked |= read.is_unmarked;
    }
    all
}

/// Returns whether a part is a file beside the words: it has a name, also when it is to be shown among them.
fn is_file(mail: &Message<'_>, part: &mail_parser::MessagePart<'_>) -> bool {
    let is_text = matches!(part.body, PartType::Text(_) | PartType::Html(_));
    is_text && mail.parts.len() > 1 && part.attachment_name().is_some()
}

fn head(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

#[cfg(test)]
mod tests;

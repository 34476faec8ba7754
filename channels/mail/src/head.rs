//! The headers of a mail in the form that all programs read alike, and the identity of a mail.
//!
//! The library that parses mails is lenient: it finds `To` in `T o`, and an end of the headers where another program sees none.
//! The program that verified a signature read the mail more strictly, so the sender is determined by this strict reading.

use std::borrow::Cow;

use mail_parser::Message;

use crate::threads::short_hash;

/// What a signature must cover, and what a mail is known by: who wrote what to whom, and when.
pub const SIGNED: [&str; 5] = ["from", "to", "cc", "subject", "date"];
/// How much of a digest is the name of a mail, digits.
const NAME: usize = 32;

/// The fields of a head, the first first; values as they are written, folds included.
#[derive(Debug)]
pub struct Head<'a> {
    fields: Vec<(&'a str, Cow<'a, str>)>,
    /// Where the body begins.
    body: usize,
}

impl<'a> Head<'a> {
    /// Reads the head of `bytes`; `None` when it is not of lines `Name: value` and their folds, or `mail`, which is read of
    /// the same bytes, has other fields or another end.
    pub fn read(bytes: &'a [u8], mail: &Message<'_>) -> Option<Self> {
        let mut fields: Vec<(&str, &[u8])> = Vec::new();
        let mut starts: Vec<usize> = Vec::new();
        let mut at = 0;
        let body = loop {
            let rest = bytes.get(at..)?;
            let Some(length) = rest.iter().position(|byte| *byte == b'\n') else {
                // A head alone may end without the blank line.
                break rest.is_empty().then_some(at)?;
            };
            let end = at + length + 1;
            let line = rest.get(..length)?;
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                break end;
            }
            if line.contains(&b'\r') || line.contains(&0) {
                return None;
            }
            if line.first().is_some_and(|byte| b" \t".contains(byte)) {
                // A fold that holds nothing looks like the end of the head.
                let (start, (_, value)) = starts.last().zip(fields.last_mut())?;
                if line.trim_ascii().is_empty() {
                    return None;
                }
                *value = bytes.get(*start..end)?;
            } else {
                let colon = line.iter().position(|byte| *byte == b':')?;
                let name = line.get(..colon)?.trim_ascii_end();
                if name.is_empty() || !name.iter().all(u8::is_ascii_graphic) {
                    return None;
                }
                let start = at + colon + 1;
                fields.push((std::str::from_utf8(name).ok()?, bytes.get(start..end)?));
                starts.push(start);
            }
            at = end;
        };
        let theirs = mail.headers();
        let is_same = theirs.len() == fields.len()
            && theirs
                .iter()
                .zip(&fields)
                .zip(&starts)
                .all(|((one, own), start)| {
                    one.name().eq_ignore_ascii_case(own.0) && one.offset_start() as usize == *start
                })
            && mail.root_part().raw_body_offset() as usize == body;
        let fields = fields
            .into_iter()
            .map(|(name, value)| (name, String::from_utf8_lossy(value)));
        is_same.then(|| Self {
            fields: fields.collect(),
            body,
        })
    }

    /// Returns the fields by name and value.
    pub fn fields(&self) -> Vec<(&str, &str)> {
        let all = self.fields.iter();
        all.map(|(name, value)| (*name, value.as_ref())).collect()
    }
}

/// Returns the name of a mail: the same for each copy of what was written, whatever servers and those who hand it in again
/// add to it. It is made of what a signature covers alone, with the blanks left out that a signature leaves out
/// (`relaxed`, RFC 6376 §3.4), and so not of the `Message-ID`; but of that too where nothing is signed, since nobody can
/// hand in such a mail again.
pub fn name(headers: &[(&str, &str)], body: &[u8]) -> String {
    let mut said = Vec::new();
    let is_signed = headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("dkim-signature"));
    let more = (!is_signed).then_some("message-id");
    for name in SIGNED.into_iter().chain(more) {
        let values = headers
            .iter()
            .filter(|(own, _)| own.eq_ignore_ascii_case(name));
        for (_, value) in values {
            let words: Vec<&str> = value.split_ascii_whitespace().collect();
            said.extend_from_slice(format!("{name}:{}\n", words.join(" ")).as_bytes());
        }
    }
    said.push(0);
    // Blank lines count only when something follows.
    let mut blank = 0;
    for line in body.split(|byte| *byte == b'\n') {
        let length = said.len();
        let line = line.trim_ascii_end();
        if line.is_empty() {
            blank += 1;
            continue;
        }
        said.resize(length + blank, b'\n');
        blank = 0;
        let is_blank = |byte: &u8| b" \t".contains(byte);
        for (at, byte) in line.iter().enumerate() {
            if !is_blank(byte) {
                said.push(*byte);
            } else if !line.get(at + 1).is_some_and(is_blank) {
                said.push(b' ');
            }
        }
        said.push(b'\n');
    }
    short_hash(said, NAME)
}

/// Returns the body of a mail, as it came.
pub fn body<'a>(bytes: &'a [u8], mail: &Message<'_>, head: Option<&Head<'_>>) -> &'a [u8] {
    let at = head.map_or(mail.root_part().raw_body_offset() as usize, |head| {
        head.body
    });
    bytes.get(at..).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use mail_parser::MessageParser;

    use super::*;

    fn fields(head: &str) -> Option<usize> {
        let bytes = format!("{head}\r\n\r\nwords").into_bytes();
        let mail = MessageParser::default().parse(&bytes).expect("a mail");
        Head::read(&bytes, &mail).map(|head| head.fields.len())
    }

    #[test]
    fn a_head_that_two_programs_read_differently_is_not_read() {
        for (good, count) in [
            ("From: a@b.c", 1),
            ("From: a@b.c\nTo : d@e.f", 2),
            (
                "From:\r\n a@b.c\r\n\t(x)\r\nX-Empty:\r\nTo: \"d, e\" <d@e.f>,\r\n g@h.i",
                3,
            ),
            (
                "Subject: =?utf-8?q?a?=\r\n =?utf-8?q?b?=\r\nDate: Fri, 27 Nov 2026 10:00:00\r\n +0000",
                2,
            ),
        ] {
            assert_eq!(fields(good), Some(count), "{good:?}");
        }
        for bad in [
            "From: a@b.c\r\nT o: d@e.f",
            "From: a@b.c\r\n To",
            "From: a@b.c\r\n \r\nwords of another",
            "From: a@b.c\r\nno field",
            " From: a@b.c",
            "From: a@b.c\rTo: d@e.f",
            "From: a@b.c\r\n\u{a0}To: d@e.f",
        ] {
            let is_fold = bad == "From: a@b.c\r\n To";
            assert_eq!(fields(bad).is_some(), is_fold, "{bad:?}");
        }
    }

    #[test]
    fn a_copy_with_other_blanks_is_the_same_mail_and_other_words_are_another() {
        let of = |subject: &str, body: &str| {
            name(
                &[
                    ("Subject", subject),
                    ("Message-ID", body),
                    ("DKIM-Signature", "x"),
                ],
                body.as_bytes(),
            )
        };
        let one = of(" a b\r\n", "x  y\r\n\r\nz\r\n");
        assert_eq!(of("a\r\n\tb", "x y \n\nz\n\n\n"), one);
        for (subject, body) in [
            ("ab", "x y\n\nz"),
            ("a b", "x y\nz"),
            ("a b", "x y\n\nz."),
            ("a b", "xy\n\nz"),
        ] {
            assert_ne!(of(subject, body), one, "{subject:?} {body:?}");
        }
    }
}

//! The files of a mail: with plain names, and at most as many as agent-channel(7) accepts.

use mail_parser::{Message, MessagePart, MimeHeaders, PartType};
use serde_json::{Value, json};

use crate::whose;

/// agent-channel(7): so many files of so many bytes.
pub(super) const MAX_FILES: usize = 20;
const MAX_FILE: usize = 20_000_000;
/// Smaller pictures in the text of a mail are logos.
const LOGO: usize = 20_000;
/// So many files that are left out are named.
const NAMED: usize = 200;

/// One file.
#[derive(Debug)]
struct File {
    name: String,
    kind: Option<String>,
    bytes: Vec<u8>,
}

/// What becomes of the files of a mail.
#[derive(Debug, Default)]
pub(super) struct Files {
    kept: Vec<File>,
    /// The names of those that are not handed on, the first ones.
    pub(super) left_out: Vec<String>,
    /// How many these are.
    pub(super) left_out_count: usize,
    /// How many somebody put into the mail.
    pub(super) count: usize,
}

impl Files {
    /// Returns the files that somebody put into the mail.
    pub(super) fn of(mail: &Message<'_>) -> Self {
        let named = mail.text_bodies().filter(|part| whose::is_file(mail, part));
        let all = mail.attachments().chain(named);
        let mut files = Self::default();
        for file in all.filter_map(|part| file_of(part)) {
            files.count += 1;
            if file.bytes.len() > MAX_FILE {
                files.leave_out(&file);
            } else {
                files.kept.push(file);
            }
        }
        files
    }

    /// Leaves out what would be more than so many.
    pub(super) fn keep(&mut self, most: usize) {
        let rest = self.kept.split_off(most.min(self.kept.len()));
        for file in rest {
            self.leave_out(&file);
        }
    }

    /// Returns how many are kept.
    pub(super) fn len(&self) -> usize {
        self.kept.len()
    }

    /// Adds a text before all others.
    pub(super) fn put_first(&mut self, name: &str, mut text: String) {
        text.truncate(text.floor_char_boundary(MAX_FILE));
        let file = File {
            name: name.to_owned(),
            kind: Some("text/plain".to_owned()),
            bytes: text.into_bytes(),
        };
        self.kept.insert(0, file);
    }

    /// Returns the files and what is said of them.
    pub(super) fn handed_on(self) -> (Vec<Value>, Vec<(String, Vec<u8>)>) {
        let numbered = self.kept.into_iter().enumerate();
        numbered
            .map(|(at, file)| {
                let safe = |c: char| {
                    if c.is_ascii_alphanumeric() || c == '.' {
                        c
                    } else {
                        '_'
                    }
                };
                let path: String = file.name.chars().map(safe).collect();
                let path = format!("{at:02}-{}", path.trim_start_matches('.'));
                let told = json!({"path": path, "filename": file.name, "content_type": file.kind});
                (told, (path, file.bytes))
            })
            .unzip()
    }

    fn leave_out(&mut self, file: &File) {
        self.left_out_count += 1;
        if self.left_out.len() < NAMED {
            let size = file.bytes.len() >> 10;
            self.left_out.push(format!("{} ({size} kB)", file.name));
        }
    }
}

/// Returns the file that a part is; `None` for a logo, and for nothing.
fn file_of(part: &MessagePart<'_>) -> Option<File> {
    let kind = whose::kind(part);
    let bytes = match &part.body {
        // An inner mail that is not encoded knows the whole outer one.
        PartType::Message(message) => message.raw_message().to_vec(),
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
        return None;
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
        .filter(|name| !name.is_empty())
        .unwrap_or(end);
    // Whatever path a sender writes, it is a name.
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String = name.chars().filter(|c| !c.is_control()).take(100).collect();
    Some(File { name, kind, bytes })
}

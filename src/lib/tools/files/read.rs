//! `read`: what is at a path, as a model can use it. Texts by lines, of other files what they are, of
//! directories what they hold.

use std::io::{BufReader, Read as _};

use serde_json::{Value, json};

use super::render;
use super::render::Window;
use super::{Answer, Files, MAX_FILE, blocking};
use crate::agent::{Context, Reach, Rights, Tool, ToolOutput};
use crate::media;
use crate::memory::Scope;
use crate::provider::{BoxFuture, ToolSpec};
use crate::text::visible;
use crate::tools::{number, text};
use crate::workspace::Sight;

/// Lines that are shown when no limit is named (specification §14).
const LINES: u64 = 2000;
/// Bytes by which a large file is judged.
const HEAD: u64 = 64 << 10;
/// Names of a directory that are looked at.
const MAX_NAMES: usize = 10_000;

pub(super) struct Read(pub(super) Files);

impl Tool for Read {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read".into(),
            description:
                "Read a text file of the workspace with line numbers, or list a directory.".into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "offset": {"type": "integer", "minimum": 1, "description": "first line"},
                    "limit": {"type": "integer", "minimum": 1, "description": "lines, default 2000"}
                },
                "required": ["path"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        true
    }

    fn rights(&self) -> Rights {
        Rights::Owner
    }

    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Shows
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let (files, path) = (self.0.clone(), text(input, "path").to_owned());
        let window = Window {
            first: number(input, "offset").unwrap_or(1),
            lines: number(input, "limit").unwrap_or(LINES),
        };
        let sees_memory = context.viewer.may_see(&Scope::Owner);
        let cancel = context.cancel.clone();
        Box::pin(blocking(move || {
            files.read(&path, window, sees_memory, &|| cancel.is_cancelled())
        }))
    }
}

impl Files {
    pub(super) fn read(
        &self,
        path: &str,
        window: Window,
        sees_memory: bool,
        is_over: &dyn Fn() -> bool,
    ) -> Answer {
        let sight = match self.grounds.sight(path) {
            Ok(sight) => sight,
            Err(error) => return Answer::of_ours(Err(error.to_string())),
        };
        let shown = visible(path);
        if !sees_memory && sight.is_memory() {
            let why =
                format!("{shown} is the owner's memory, and this conversation is not theirs alone");
            return Answer::of_ours(Err(why));
        }
        if sight.found.metadata.is_dir() {
            return self.list(&sight, &shown);
        }
        Answer {
            untrusted: self.undo.marks.has(&sight.key),
            text: content(&sight, path, window, is_over),
        }
    }

    fn list(&self, sight: &Sight, shown: &str) -> Answer {
        match sight.found.list(MAX_NAMES) {
            Err(error) => Answer::of_ours(Err(visible(&error.to_string()))),
            Ok((entries, more)) => {
                let untrusted = entries
                    .iter()
                    .any(|(entry, _)| self.undo.marks.has(&sight.key_of(&entry.name)));
                Answer {
                    text: Ok(render::directory(shown, &entries, more)),
                    untrusted,
                }
            }
        }
    }
}

fn content(
    sight: &Sight,
    path: &str,
    window: Window,
    is_over: &dyn Fn() -> bool,
) -> Result<String, String> {
    let file = sight
        .found
        .open()
        .map_err(|error| visible(&error.to_string()))?;
    let io = |error: std::io::Error| format!("{} cannot be read: {error}", visible(path));
    let size = sight.found.metadata.len();
    let mut head = Vec::new();
    (&file).take(HEAD).read_to_end(&mut head).map_err(io)?;
    let binary = |what: &str| {
        Ok(format!(
            "{} is {what}, {size} bytes: its bytes are not shown",
            visible(path)
        ))
    };
    if let Some(kind) = media::sniff(&head) {
        return binary(&render::kind(kind));
    }
    let mut bytes = head;
    (&file)
        .take(MAX_FILE + 1 - HEAD)
        .read_to_end(&mut bytes)
        .map_err(io)?;
    if bytes.len() as u64 <= MAX_FILE {
        return match media::text(&bytes, true) {
            Some(text) => Ok(format!(
                "{}{}",
                render::encoding(&bytes),
                render::numbered(&text, window)
            )),
            None => binary("no text"),
        };
    }
    let head = bytes
        .get(..usize::try_from(HEAD).unwrap_or(0))
        .unwrap_or_default();
    if head.contains(&0) {
        return binary("no text, or a very large one in UTF-16");
    }
    render::lines(BufReader::new(bytes.chain(file)), window, size, is_over).map_err(io)
}

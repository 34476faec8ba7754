//! `read`: the content of a path for a model: text by lines, the type of other files, the entries of directories.

use std::io::{BufReader, Read as _};
use std::path::Path;

use schemars::JsonSchema;
use serde::Deserialize;

use super::render;
use super::render::Window;
use super::{Files, MAX_FILE, ToolOutput, blocking};
use crate::agent::{Context, Reach};
use crate::media;
use crate::memory::Scope;
use crate::text::{count, visible};
use crate::tools::typed::{About, Property, TypedTool};
use crate::trust::{Provenance, says_nothing};
use crate::workspace::ReadTarget;

/// Lines that are shown when no limit is named (specification §14).
const LINES: u64 = 2000;
/// Bytes by which a large file is judged.
const HEAD: u64 = 64 << 10;
/// Names of a directory that are looked at.
const MAX_NAMES: usize = 10_000;

pub(super) struct Read(pub(super) Files);

#[derive(Deserialize, JsonSchema)]
pub(super) struct Args {
    path: String,
    /// first line
    #[schemars(range(min = 1))]
    offset: Option<u64>,
    /// lines, default 2000
    #[schemars(range(min = 1))]
    limit: Option<u64>,
}

impl TypedTool for Read {
    type Args = Args;

    const ABOUT: About = About {
        name: "read",
        description: "Read a file of the workspace with line numbers, or list a directory.",
        properties: &[Property::ReadOnly],
    };

    fn reach(&self, _args: &Args, _context: &Context) -> Reach {
        Reach::Shows
    }

    async fn run(&self, args: Args, context: &Context) -> ToolOutput {
        let (files, cancel) = (self.0.clone(), context.cancel.clone());
        let window = Window {
            first: args.offset.unwrap_or(1),
            lines: args.limit.unwrap_or(LINES),
        };
        let sees_memory = context.viewer.may_see(&Scope::Owner);
        blocking(move || files.read(&args.path, window, sees_memory, &|| cancel.is_cancelled()))
            .await
    }
}

impl Files {
    pub(super) fn read(
        &self,
        path: &str,
        window: Window,
        sees_memory: bool,
        is_over: &dyn Fn() -> bool,
    ) -> ToolOutput {
        let target = match self.path_policy.read_target(path) {
            Ok(target) => target,
            Err(error) => return ToolOutput::error(error.to_string()),
        };
        let shown = visible(path);
        if !sees_memory && target.is_memory() {
            return ToolOutput::error(format!(
                "{shown} is the owner's memory, and this conversation is not theirs alone"
            ));
        }
        if target.found.metadata.is_dir() {
            return self.list(&target, path);
        }
        ToolOutput::from(content(&target, path, window, is_over))
            .marked(self.provenance_of(&target))
    }

    fn list(&self, target: &ReadTarget, path: &str) -> ToolOutput {
        match target.found.list(MAX_NAMES) {
            Err(error) => ToolOutput::error(visible(&error.to_string())),
            Ok((entries, more)) => {
                let is_marked = |name: &str| {
                    let (marks, key) = (&self.undo.marks, target.key_of(name));
                    // A directory was made for what is in it, or with it.
                    let is_told = || marks.has_below(&key) || self.is_marked_below(path, name);
                    marks.has(&key) || !says_nothing(name) && is_told()
                };
                let marked = entries.iter().find(|entry| is_marked(&entry.name));
                ToolOutput::ok(render::directory(&visible(path), &entries, more))
                    .marked(marked.map(|entry| Provenance::File(visible(&entry.name))))
            }
        }
    }

    /// Returns true when the entry called `name` of the directory `path` was made by others, by what is in it or by when it was
    /// changed.
    fn is_marked_below(&self, path: &str, name: &str) -> bool {
        let path = Path::new(path).join(name);
        let target = self.path_policy.read_target(&path.to_string_lossy());
        target.is_ok_and(|target| match target.found.metadata.is_file() {
            true => self.provenance_of(&target).is_some(),
            false => {
                let marks = &self.undo.marks;
                marks.has_file(&target.key, &target.found.metadata)
            }
        })
    }
}

fn content(
    target: &ReadTarget,
    path: &str,
    window: Window,
    is_over: &dyn Fn() -> bool,
) -> Result<String, String> {
    let file = target
        .found
        .open()
        .map_err(|error| visible(&error.to_string()))?;
    let io = |error: std::io::Error| format!("{} cannot be read: {error}", visible(path));
    let size = target.found.metadata.len();
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
            Some(text) if text.is_empty() => Ok("(the file is empty)".to_owned()),
            Some(text) => {
                let of = format!("of {}", text.lines().count());
                let lines = render::lines(text.as_bytes(), window, &of, is_over).map_err(io)?;
                Ok(format!("{}{lines}", render::encoding(&bytes)))
            }
            None => binary("no text"),
        };
    }
    let head = bytes
        .get(..usize::try_from(HEAD).unwrap_or(0))
        .unwrap_or_default();
    if head.contains(&0) {
        return binary("no text, or a very large one in UTF-16");
    }
    let of = format!("of many, the file has {}B", count(size));
    render::lines(BufReader::new(bytes.chain(file)), window, &of, is_over).map_err(io)
}

//! `read`, `write`, `edit`: files beneath the workspace, and nothing outside it.

use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};

use super::{blocking, number, text};
use crate::agent::{Context, Rights, Tool, ToolOutput};
use crate::memory::Scope;
use crate::provider::{BoxFuture, ToolSpec};
use crate::sandbox::{BeneathError, Root};
use crate::workspace::{is_memory, is_shape};

/// Lines that `read` shows when no limit is named (specification §14).
const READ_LINES: u64 = 2000;
/// The largest file that is read or edited, bytes: beyond it `exec` has better tools.
const MAX_FILE: u64 = 4 << 20;
/// Nearest lines shown when `edit` finds no match.
const NEAREST: usize = 3;

pub(super) fn all(root: Arc<Root>) -> Vec<Arc<dyn Tool>> {
    vec![Arc::new(Read(root.clone())), Arc::new(Write(root.clone())), Arc::new(Edit(root))]
}

fn load(root: &Root, path: &str) -> Result<String, String> {
    let bytes = root.read(Path::new(path), MAX_FILE).map_err(|error: BeneathError| error.to_string())?;
    String::from_utf8(bytes).map_err(|_| format!("{path} is no text (not UTF-8)"))
}

struct Read(Arc<Root>);

impl Tool for Read {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "read",
            description: "Read a text file of the workspace, with line numbers.",
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
        Rights::OwnersTurn
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let (root, path) = (self.0.clone(), text(input, "path").to_owned());
        let (offset, limit) = (number(input, "offset").unwrap_or(1), number(input, "limit").unwrap_or(READ_LINES));
        let sees_memory = context.viewer.may_see(&Scope::Owner);
        Box::pin(blocking(move || {
            if !sees_memory && is_memory(&root.real(Path::new(&path)).map_err(|error| error.to_string())?) {
                return Err(format!("{path} is the owner's memory, and this conversation is not theirs alone"));
            }
            load(&root, &path).map(|text| numbered(&text, offset, limit))
        }))
    }
}

/// Returns `limit` lines from line `offset` (1 = the first) on, each as `N<TAB>line`.
fn numbered(text: &str, offset: u64, limit: u64) -> String {
    if text.is_empty() {
        return "(the file is empty)".to_owned();
    }
    let total = text.lines().count() as u64;
    if offset > total {
        return format!("(the file has only {total} lines)");
    }
    let last = offset.saturating_add(limit - 1).min(total);
    let shown = (1..).zip(text.lines()).filter(|(number, _)| (offset..=last).contains(number));
    let mut out: String = shown.map(|(number, line)| format!("{number}\t{line}\n")).collect();
    if last < total {
        out.push_str(&format!("[lines {offset} to {last} of {total}; go on with offset {}]", last + 1));
    }
    out
}

struct Write(Arc<Root>);

impl Tool for Write {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write",
            description: "Write a whole text file of the workspace, making its directories; an old one is replaced.",
            schema: json!({
                "type": "object",
                "properties": {"path": {"type": "string"}, "content": {"type": "string"}},
                "required": ["path", "content"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        false
    }

    fn rights(&self) -> Rights {
        Rights::OwnersWords
    }

    fn run<'a>(&'a self, input: &'a Value, _context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let (root, path, content) = (self.0.clone(), text(input, "path").to_owned(), text(input, "content").to_owned());
        Box::pin(blocking(move || {
            protected(&root, &path)?;
            root.write_atomic(Path::new(&path), content.as_bytes()).map_err(|error| error.to_string())?;
            Ok(format!("wrote {path}: {} lines, {} bytes", content.lines().count(), content.len()))
        }))
    }
}

struct Edit(Arc<Root>);

impl Tool for Edit {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "edit",
            description: "Replace a text in a file of the workspace. old_string must stand there exactly once, or set replace_all.",
            schema: json!({
                "type": "object",
                "properties": {
                    "path": {"type": "string"},
                    "old_string": {"type": "string"},
                    "new_string": {"type": "string"},
                    "replace_all": {"type": "boolean"}
                },
                "required": ["path", "old_string", "new_string"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        false
    }

    fn rights(&self) -> Rights {
        Rights::OwnersWords
    }

    fn run<'a>(&'a self, input: &'a Value, _context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let (root, path) = (self.0.clone(), text(input, "path").to_owned());
        let (old, new) = (text(input, "old_string").to_owned(), text(input, "new_string").to_owned());
        let all = input.get("replace_all").and_then(Value::as_bool).unwrap_or(false);
        Box::pin(blocking(move || {
            protected(&root, &path)?;
            let before = load(&root, &path)?;
            let (after, count) = replace(&before, &old, &new, all).map_err(|reason| format!("{path}: {reason}"))?;
            root.write_atomic(Path::new(&path), after.as_bytes()).map_err(|error| error.to_string())?;
            Ok(format!("edited {path}: {count} replaced"))
        }))
    }
}

/// Checks the place a path really leads to, whatever links and letter case are in it.
fn protected(root: &Root, path: &str) -> Result<(), String> {
    let real = root.real(Path::new(path)).map_err(|error| error.to_string())?;
    if is_shape(&real) { Err(format!("{path} shapes the agent itself: only the owner changes it, in an editor")) } else { Ok(()) }
}

/// Returns the text with `old` replaced and how often.
fn replace(text: &str, old: &str, new: &str, all: bool) -> Result<(String, usize), String> {
    if old.is_empty() {
        return Err("old_string is empty; use write for a new file".to_owned());
    }
    match text.matches(old).count() {
        0 => Err(format!("old_string does not stand there. {}", nearest(text, old))),
        count if count > 1 && !all => Err(format!("old_string stands there {count} times; make it longer, or set replace_all")),
        count => Ok((text.replace(old, new), count)),
    }
}

/// Shows the lines that share most words with the first line of `old`.
fn nearest(text: &str, old: &str) -> String {
    let words: Vec<&str> = old.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().split_whitespace().collect();
    let score = |line: &str| words.iter().filter(|word| line.contains(**word)).count();
    let mut lines: Vec<(usize, usize, &str)> =
        (1..).zip(text.lines()).map(|(number, line)| (score(line), number, line)).filter(|(score, ..)| *score > 0).collect();
    lines.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
    if lines.is_empty() {
        return "No line there is like it; read the file first.".to_owned();
    }
    let shown: Vec<String> =
        lines.iter().take(NEAREST).map(|(_, number, line)| format!("{number}\t{}", crate::text::shorten(line, 200))).collect();
    format!("The nearest lines are:\n{}", shown.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_numbered_and_the_rest_is_announced() {
        assert_eq!(numbered("a\nb\nc\n", 1, 2000), "1\ta\n2\tb\n3\tc\n");
        assert_eq!(numbered("a\nb\nc\n", 2, 1), "2\tb\n[lines 2 to 2 of 3; go on with offset 3]");
        assert_eq!(numbered("a\n", 9, 1), "(the file has only 1 lines)");
        assert_eq!(numbered("", 1, 1), "(the file is empty)");
    }

    #[test]
    fn an_edit_needs_exactly_one_place() {
        assert_eq!(replace("one two", "two", "2", false), Ok(("one 2".into(), 1)));
        assert_eq!(replace("aa", "a", "b", true), Ok(("bb".into(), 2)));
        assert_eq!(
            replace("aa", "a", "b", false),
            Err("old_string stands there 2 times; make it longer, or set replace_all".into())
        );
        assert_eq!(
            replace("fn main() {\n}\n", "fn  main() {", "x", false),
            Err("old_string does not stand there. The nearest lines are:\n1\tfn main() {".to_owned())
        );
    }

    #[test]
    fn the_agents_own_shape_is_protected_under_any_name() {
        let dir = tempfile::tempdir().expect("dir");
        std::fs::create_dir(dir.path().join("skills")).expect("dir");
        std::os::unix::fs::symlink("skills", dir.path().join("notes")).expect("link");
        let root = Root::open(dir.path()).expect("root");
        for path in ["SOUL.md", "soul.MD", "./SOUL.md", "skills/x/SKILL.md", "notes/x.md"] {
            assert!(protected(&root, path).is_err(), "{path}");
        }
        for path in ["notes.md", "sub/SOUL.md", "MEMORY.md"] {
            assert_eq!(protected(&root, path), Ok(()), "{path}");
        }
    }
}

//! `write` and `edit`. A path is resolved once: the decision about a file and the change use the same open directory. The old
//! content is saved for an undo before it is changed.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::find_replace::replace;
use super::obeyed_names::is_obeyed;
use super::{Files, MAX_FILE, ToolOutput, blocking};
use crate::agent::{Context, Question, Reach, Rule};
use crate::media::inbox;
use crate::sandbox::Existing;
use crate::text::{counted, line_diff, sha256_hex, visible};
use crate::tools::typed::{About, TypedTool};
use crate::undo::Change;
use crate::workspace::{ContentId, Marking, PathError, WriteTarget};

/// Permissions of a new file.
const MODE: u32 = 0o600;

pub(super) struct Write(pub(super) Files);

#[derive(Deserialize, JsonSchema)]
pub(super) struct WriteArgs {
    pub(super) path: String,
    pub(super) content: String,
}

impl TypedTool for Write {
    type Args = WriteArgs;

    const ABOUT: About = About {
        name: "write",
        description: "Write a whole file; an old one is replaced.",
        properties: &[],
    };

    fn reach(&self, args: &WriteArgs, _context: &Context) -> Reach {
        self.0.reach(&args.path)
    }

    fn question(&self, args: &WriteArgs, input: &Value) -> Question {
        let WriteArgs { path, content } = args;
        let (lines, bytes) = (content.lines().count(), content.len());
        let size = format!("{}, {}", counted(lines, "line"), counted(bytes, "byte"));
        let what = format!("{size}:\n{content}");
        let after = |_: &str| Some(content.clone());
        self.0.question("write", path, input, &what, after)
    }

    async fn run(&self, args: WriteArgs, context: &Context) -> ToolOutput {
        let (files, context) = (self.0.clone(), context.clone());
        blocking(move || files.write(&args.path, &args.content, &context)).await
    }
}

pub(super) struct Edit(pub(super) Files);

#[derive(Default, Deserialize, JsonSchema)]
pub(super) struct EditArgs {
    pub(super) path: String,
    pub(super) old_string: String,
    pub(super) new_string: String,
    #[serde(default)]
    pub(super) replace_all: bool,
}

impl TypedTool for Edit {
    type Args = EditArgs;

    const ABOUT: About = About {
        name: "edit",
        description: "Replace a text in a file. old_string must stand there exactly once, or set replace_all.",
        properties: &[],
    };

    fn reach(&self, args: &EditArgs, _context: &Context) -> Reach {
        self.0.reach(&args.path)
    }

    fn question(&self, args: &EditArgs, input: &Value) -> Question {
        let all = if args.replace_all { ", everywhere" } else { "" };
        let (new, old) = (&args.new_string, &args.old_string);
        let what = format!("writes{all}:\n{new}\ninstead of:\n{old}");
        let after = |before: &str| {
            replace(before, old, new, args.replace_all)
                .ok()
                .map(|(text, _)| text)
        };
        self.0.question("edit", &args.path, input, &what, after)
    }

    fn certain_failure(&self, args: &EditArgs) -> Option<ToolOutput> {
        self.0.failure_of_edit(args)
    }

    async fn run(&self, args: EditArgs, context: &Context) -> ToolOutput {
        let (files, context) = (self.0.clone(), context.clone());
        blocking(move || files.edit(&args, &context)).await
    }
}

impl Files {
    /// Returns what a change of the file at `path` would do. Where the path really leads decides, in whatever
    /// letter case, and no link leads to another file.
    pub(super) fn reach(&self, path: &str) -> Reach {
        let target = match self.path_policy.write_target(path) {
            Ok(target) => target,
            Err(error @ (PathError::Link { .. } | PathError::Hidden(_))) => {
                return Reach::Refused(error.to_string());
            }
            // What cannot be reached fails by itself.
            Err(_) => return Reach::Free,
        };
        if target.is_protected() {
            return Reach::Asks("it shapes the agent itself".to_owned());
        }
        // Next to the workspace a new file may be one that a program there obeys.
        if target.is_memory() || !target.is_inside() || is_obeyed(&target.key) {
            return Reach::Acts;
        }
        let marks = &self.undo.marks;
        // What somebody sent is marked, and theirs nevertheless.
        let is_received = target.key.split('/').next() == Some(inbox::DIR);
        match target.file.existing() {
            // With damaged marks nobody can tell which files are the owner's.
            Ok(Some(file))
                if is_received
                    || !marks.has(&target.key)
                    || marks.was_owners(&target.key)
                    || marks.damage().is_some()
                    || self.is_edited(&target.key, &file) =>
            {
                Reach::Acts
            }
            Ok(_) | Err(_) => Reach::Free,
        }
    }

    /// Returns true when somebody wrote into a marked file by hand since.
    fn is_edited(&self, key: &str, file: &Existing) -> bool {
        let content = || ContentId::of_file(&file.open().ok()?).ok();
        self.undo.marks.was_edited(key, &file.metadata, content)
    }

    /// The owner is shown where the path really leads, and of what shapes the agent what changes in it: that is
    /// asked about each time, and the yes is bound to the text that it changes.
    fn question(
        &self,
        tool: &str,
        path: &str,
        input: &Value,
        what: &str,
        after: impl FnOnce(&str) -> Option<String>,
    ) -> Question {
        let target = self.path_policy.write_target(path);
        let is_protected = target.as_ref().is_ok_and(WriteTarget::is_protected);
        let key = target
            .as_ref()
            .map_or(path, |target| target.key.as_str())
            .to_owned();
        let change = is_protected
            .then(|| self.change(target.ok()?, after))
            .flatten();
        if let Some((before, diff)) = change {
            return Question {
                text: format!("{tool} {key}:\n{diff}"),
                bound_to: json!([tool, input, key, before]),
                rule: None,
            };
        }
        Question {
            text: format!("{tool} {key}: {what}"),
            bound_to: json!([tool, input, key]),
            rule: (!is_protected).then(|| Rule::of("write or edit", Some(("of", &key)))),
        }
    }

    /// Returns the hash of what is in a file now and what a change does to it, line by line; `None` when it cannot
    /// be read, or nothing would change.
    fn change(
        &self,
        target: WriteTarget,
        after: impl FnOnce(&str) -> Option<String>,
    ) -> Option<(String, String)> {
        let before = match target.file.existing().ok()? {
            Some(_) => self.load(target, "").ok()?.2,
            None => String::new(),
        };
        let diff = line_diff(&before, &after(&before)?);
        (!diff.is_empty()).then(|| (sha256_hex(before.as_bytes()), diff))
    }

    pub(super) fn write(
        &self,
        path: &str,
        content: &str,
        context: &Context,
    ) -> Result<String, String> {
        let target = self.target(path, context)?;
        let old = self.existing(&target)?;
        let mut source = old
            .as_ref()
            .map(Existing::open)
            .transpose()
            .map_err(|error| unreadable(path, &error))?;
        let before = old.as_ref().zip(source.as_mut());
        self.put(&target, before, content.as_bytes(), None, context)?;
        if is_read(&target.key, context) {
            self.note_read(&target.key, content.as_bytes());
        } else if !context.untrusted {
            // Nothing of the old content is left. If this fails, the file is only marked for longer.
            let marks = &self.undo.marks;
            let by = context.marking();
            let doubted = marks.periods.doubted_servers();
            // Where a tool server may write, too, record that this change was not the server's.
            let cleared = match doubted.iter().any(|one| one.covers(&target.key, by.at)) {
                true => marks.set_on_owners(&target.key, content.as_bytes(), by, true),
                false => marks.clear(&target.key),
            };
            cleared.unwrap_or_else(|error| tracing::warn!(%error, "could not remove the untrusted mark of a file that the owner's words wrote"));
        }
        Ok(format!(
            "wrote {}: {}, {}",
            visible(path),
            counted(content.lines().count(), "line"),
            counted(content.len(), "byte")
        ))
    }

    pub(super) fn edit(&self, args: &EditArgs, context: &Context) -> ToolOutput {
        let shown = visible(&args.path);
        let loaded = self
            .target(&args.path, context)
            .and_then(|target| self.load(target, &shown));
        let (target, existing, before) = match loaded {
            Ok(loaded) => loaded,
            Err(why) => return ToolOutput::error(why),
        };
        let content = || ContentId::of(before.as_bytes());
        let from = self.provenance(&target.key, &existing.metadata, || Some(content()));
        let replaced = replace(
            &before,
            &args.old_string,
            &args.new_string,
            args.replace_all,
        );
        let (after, count) = match replaced {
            Ok(replaced) => replaced,
            // The error quotes the file.
            Err(why) => {
                return ToolOutput::error(format!("{shown}: {why}")).marked(from);
            }
        };
        // What is left of it stays as it was.
        let marks = &self.undo.marks;
        let is_doubtful = || marks.is_doubtful(&target.key, &existing.metadata, || Some(content()));
        let asked =
            from.is_some() && marks.was_asked(&target.key, || Some(content())) && !is_doubtful();
        let by = from.map(|_| Marking {
            asked,
            ..context.marking()
        });
        let mut source = before.as_bytes();
        let old = Some((&existing, &mut source));
        if let Err(why) = self.put(&target, old, after.as_bytes(), by, context) {
            return ToolOutput::error(why);
        }
        if by.is_none() && is_read(&target.key, context) {
            self.note_read(&target.key, after.as_bytes());
        }
        ToolOutput::ok(format!("edited {shown}: {count} replaced"))
    }

    /// Notes that all of `bytes` is the owner's; a mark that stays is in the log.
    fn note_read(&self, key: &str, bytes: &[u8]) {
        let read = self.undo.marks.set_read(key, bytes);
        read.unwrap_or_else(|error| tracing::warn!(%error, "could not remove an untrusted mark"));
    }

    /// Returns the answer of an edit that finds no file or no one place in it. The error quotes the file.
    fn failure_of_edit(&self, args: &EditArgs) -> Option<ToolOutput> {
        let shown = visible(&args.path);
        let target = self.path_policy.write_target(&args.path).ok()?;
        let (target, existing, before) = match self.load(target, &shown) {
            Ok(loaded) => loaded,
            Err(why) => return Some(ToolOutput::error(why)),
        };
        let (old, new) = (&args.old_string, &args.new_string);
        let why = replace(&before, old, new, args.replace_all).err()?;
        let content = || Some(ContentId::of(before.as_bytes()));
        let from = self.provenance(&target.key, &existing.metadata, content);
        Some(ToolOutput::error(format!("{shown}: {why}")).marked(from))
    }

    /// Returns the file that a change is about, when it may be changed.
    fn target(&self, path: &str, context: &Context) -> Result<WriteTarget, String> {
        let target = self.path_policy.write_target(path);
        let target = target.map_err(|error| error.to_string())?;
        if target.is_protected() && context.approved.is_none() {
            return Err(format!(
                "{} shapes the agent itself, and is changed only with the owner's yes",
                visible(path)
            ));
        }
        Ok(target)
    }

    fn existing(&self, target: &WriteTarget) -> Result<Option<Existing>, String> {
        let existing = target.file.existing();
        existing.map_err(|error| visible(&error.to_string()))
    }

    fn load(
        &self,
        target: WriteTarget,
        shown: &str,
    ) -> Result<(WriteTarget, Existing, String), String> {
        let existing = self
            .existing(&target)?
            .ok_or_else(|| format!("{shown} is not found; use write for a new file"))?;
        let size = existing.metadata.len();
        if size > MAX_FILE {
            return Err(format!(
                "{shown} is too large to be edited ({size} bytes, at most {MAX_FILE}); exec has sed"
            ));
        }
        let mut bytes = Vec::new();
        let read = existing
            .open()
            .and_then(|file: File| file.take(MAX_FILE + 1).read_to_end(&mut bytes));
        read.map_err(|error| unreadable(shown, &error))?;
        let text = String::from_utf8(bytes)
            .map_err(|_| format!("{shown} is no text in UTF-8, so it is not edited; write replaces it, and exec has iconv"))?;
        Ok((target, existing, text))
    }

    /// Puts `bytes` in the place of `old`, whose content is read next to it; `marked`: what was there was untrusted, and some
    /// of it is left.
    fn put(
        &self,
        target: &WriteTarget,
        old: Option<(&Existing, &mut impl std::io::Read)>,
        bytes: &[u8],
        marked: Option<Marking<'_>>,
        context: &Context,
    ) -> Result<(), String> {
        let (old, source) = old.unzip();
        let key = &target.key;
        let shown = visible(key);
        if old.is_none() && shown != *key {
            return Err(format!(
                "no file is made with a hidden character in its name: {shown}; choose a plain name"
            ));
        }
        let mode = |old: &Existing| old.metadata.permissions().mode();
        let change = Change {
            run: &context.run_id,
            conversation: &context.conversation.0,
            key,
            old: source
                .zip(old)
                .map(|(source, old)| (source as &mut dyn std::io::Read, mode(old))),
            new: Some(bytes),
            made: target.to_be_made(),
        };
        let differs = self
            .undo
            .record(change)
            .map_err(|error| format!("{shown} was not changed: {error}"))?;
        // On the safe side of a crash: a mark comes before the words, and goes after them.
        // What shapes the agent the owner has read in the question, word by word.
        let is_agreed = context.approved.is_some() && target.is_protected();
        let of_run = context.untrusted && !is_agreed && !is_read(key, context);
        if let Some(by) = of_run.then(|| context.marking()).or(marked) {
            let marks = &self.undo.marks;
            // What was the owner's stays theirs, and what they have somebody add to becomes it: a later run asks before it
            // changes it.
            let marked = match old {
                Some(_) if !context.untrusted || !marks.has(key) => {
                    marks.set_on_owners(key, bytes, by, !context.untrusted)
                }
                _ => marks.set_with(key, bytes, by),
            };
            marked.map_err(|error| format!("{shown} was not changed: {error}"))?;
        }
        if differs && target.is_protected() {
            crate::sandbox::will_write(&target.path(), bytes);
        }
        if differs {
            let written = target.file.write(bytes, old, MODE);
            written.map_err(|error| PathError::from(error).to_string())?;
        }
        Ok(())
    }
}

/// Returns true when what a call writes into the memory of every prompt is the owner's: they read it in the question, word by
/// word, or nothing untrusted was read before.
fn is_read(key: &str, context: &Context) -> bool {
    key == "MEMORY.md" && (context.approved.is_some() || !context.untrusted)
}

fn unreadable(path: &str, error: &std::io::Error) -> String {
    format!(
        "{} cannot be read, so it could not be brought back: {error}",
        visible(path)
    )
}

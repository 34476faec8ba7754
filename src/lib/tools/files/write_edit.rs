//! `write` and `edit`. A path is resolved once: what is decided about a place and what is done there are
//! about one open directory. What was there is kept for an undo before it is changed.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use super::find_replace::replace;
use super::{Answer, Files, MAX_FILE, blocking};
use crate::agent::{Context, Question, Reach, Rights, Tool, ToolOutput};
use crate::clock;
use crate::provider::{BoxFuture, ToolSpec};
use crate::sandbox::Existing;
use crate::text::visible;
use crate::tools::text;
use crate::undo::Change;
use crate::workspace::{GroundsError, Spot};

/// Permissions of a new file.
const MODE: u32 = 0o600;

pub(super) struct Write(pub(super) Files);

impl Tool for Write {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "write".into(),
            description: "Write a whole text file of the workspace, making its directories; an old one is replaced.".into(),
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
        Rights::Owner
    }

    fn reach(&self, input: &Value, _context: &Context) -> Reach {
        self.0.reach(text(input, "path"))
    }

    fn question(&self, input: &Value, _context: &Context) -> Question {
        let content = text(input, "content");
        self.0.question(
            "write",
            input,
            &format!(
                "{} lines, {} bytes:\n{content}",
                content.lines().count(),
                content.len()
            ),
        )
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let (files, context) = (self.0.clone(), context.clone());
        let (path, content) = (
            text(input, "path").to_owned(),
            text(input, "content").to_owned(),
        );
        Box::pin(blocking(move || files.write(&path, &content, &context)))
    }
}

pub(super) struct Edit(pub(super) Files);

impl Tool for Edit {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "edit".into(),
            description:
                "Replace a text in a file of the workspace. old_string must stand there exactly once, or set replace_all.".into(),
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
        Rights::Owner
    }

    fn reach(&self, input: &Value, _context: &Context) -> Reach {
        self.0.reach(text(input, "path"))
    }

    fn question(&self, input: &Value, _context: &Context) -> Question {
        let (old, new) = (text(input, "old_string"), text(input, "new_string"));
        let all = if input.get("replace_all") == Some(&Value::Bool(true)) {
            ", everywhere"
        } else {
            ""
        };
        self.0.question(
            "edit",
            input,
            &format!("writes{all}:\n{new}\ninstead of:\n{old}"),
        )
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let (files, context) = (self.0.clone(), context.clone());
        let path = text(input, "path").to_owned();
        let (old, new) = (
            text(input, "old_string").to_owned(),
            text(input, "new_string").to_owned(),
        );
        let all = input
            .get("replace_all")
            .and_then(Value::as_bool)
            .unwrap_or(false);
        Box::pin(blocking(move || {
            files.edit(&path, (&old, &new, all), &context)
        }))
    }
}

impl Files {
    /// Returns what a change of the file at `path` would do; the place decides, whatever letter case is in
    /// it, and no link leads to another one.
    pub(super) fn reach(&self, path: &str) -> Reach {
        let spot = match self.grounds.spot(path) {
            Ok(spot) => spot,
            Err(error @ (GroundsError::Link { .. } | GroundsError::Hidden(_))) => {
                return Reach::Refused(error.to_string());
            }
            // What cannot be reached fails by itself.
            Err(_) => return Reach::Free,
        };
        if spot.is_shape() {
            return Reach::Asks("it shapes the agent itself".to_owned());
        }
        // Beside the workspace the agent is a guest: a new file may be one that a program there obeys.
        // And what is in `.git` git runs.
        let is_git = spot
            .key
            .split('/')
            .any(|part| part.eq_ignore_ascii_case(".git"));
        if spot.is_memory() || !spot.is_inside() || is_git {
            return Reach::Acts;
        }
        match spot.place.existing() {
            // With damaged marks nobody can tell which files are the owner's.
            Ok(Some(_))
                if !self.undo.marks.has(&spot.key) || self.undo.marks.damage().is_some() =>
            {
                Reach::Acts
            }
            Ok(_) | Err(_) => Reach::Free,
        }
    }

    /// The owner is shown where it really leads.
    fn question(&self, tool: &str, input: &Value, what: &str) -> Question {
        let path = text(input, "path");
        let key = self
            .grounds
            .spot(path)
            .map_or_else(|_| path.to_owned(), |spot| spot.key);
        let text = format!("{tool} {key}: {what}");
        Question {
            text,
            bound_to: json!([tool, input, key]),
            repeatable: false,
        }
    }

    pub(super) fn write(&self, path: &str, content: &str, context: &Context) -> Answer {
        let written = self.spot(path, context).and_then(|spot| {
            let old = self.old(&spot)?;
            let mut source = old
                .as_ref()
                .map(Existing::open)
                .transpose()
                .map_err(|error| unreadable(path, &error))?;
            self.put(
                &spot,
                old.as_ref(),
                source.as_mut(),
                content.as_bytes(),
                true,
                context,
            )?;
            let lines = content.lines().count();
            Ok(format!(
                "wrote {}: {lines} lines, {} bytes",
                visible(path),
                content.len()
            ))
        });
        Answer::of_ours(written)
    }

    pub(super) fn edit(
        &self,
        path: &str,
        (old, new, all): (&str, &str, bool),
        context: &Context,
    ) -> Answer {
        let shown = visible(path);
        let (spot, existing, before) = match self
            .spot(path, context)
            .and_then(|spot| self.load(spot, &shown))
        {
            Ok(loaded) => loaded,
            Err(why) => return Answer::of_ours(Err(why)),
        };
        let untrusted = self.undo.marks.has(&spot.key);
        match replace(&before, old, new, all) {
            // What stands there is shown.
            Err(why) => Answer {
                text: Err(format!("{shown}: {why}")),
                untrusted,
            },
            Ok((after, count)) => {
                let put = self.put(
                    &spot,
                    Some(&existing),
                    Some(&mut before.as_bytes()),
                    after.as_bytes(),
                    false,
                    context,
                );
                Answer::of_ours(put.map(|()| format!("edited {shown}: {count} replaced")))
            }
        }
    }

    /// Returns the place that a change is about, when it may be changed.
    fn spot(&self, path: &str, context: &Context) -> Result<Spot, String> {
        let spot = self.grounds.spot(path).map_err(|error| error.to_string())?;
        if spot.is_shape() && !context.approved {
            return Err(format!(
                "{} shapes the agent itself, and is changed only with the owner's yes",
                visible(path)
            ));
        }
        Ok(spot)
    }

    fn old(&self, spot: &Spot) -> Result<Option<Existing>, String> {
        spot.place
            .existing()
            .map_err(|error| visible(&error.to_string()))
    }

    fn load(&self, spot: Spot, shown: &str) -> Result<(Spot, Existing, String), String> {
        let existing = self
            .old(&spot)?
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
        Ok((spot, existing, text))
    }

    /// Puts `bytes` in the place of `old`, whose content `source` reads. `whole` says that nothing of it stays.
    fn put(
        &self,
        spot: &Spot,
        old: Option<&Existing>,
        source: Option<&mut impl std::io::Read>,
        bytes: &[u8],
        whole: bool,
        context: &Context,
    ) -> Result<(), String> {
        let key = &spot.key;
        let shown = visible(key);
        if old.is_none() && visible(key) != *key {
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
            made: spot.to_be_made(),
        };
        let differs = self
            .undo
            .record(change)
            .map_err(|error| format!("{shown} was not changed: {error}"))?;
        let unmarked = |error| format!("{shown} was not changed: {error}");
        // On the safe side of a crash: a mark comes before the words, and goes after them.
        if context.tainted {
            self.undo
                .marks
                .set(key, &context.run_id, clock::now_ms())
                .map_err(unmarked)?;
        }
        if differs {
            spot.place
                .write(bytes, old, MODE)
                .map_err(|error| GroundsError::from(error).to_string())?;
        }
        if whole && !context.tainted {
            // It is only marked for longer.
            self.undo
                .marks
                .clear(key)
                .unwrap_or_else(|error| tracing::warn!(%error, "a mark stays"));
        }
        Ok(())
    }
}

fn unreadable(path: &str, error: &std::io::Error) -> String {
    format!(
        "{} cannot be read, so it could not be brought back: {error}",
        visible(path)
    )
}

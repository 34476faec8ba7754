//! Importing from another program: its workspace, memory, jobs, conversations and skills become those of a home.
//!
//! ```text
//! openclaw.rs, hermes.rs   read the other's files (never written) → Plan: what can be taken, what cannot and why
//! Plan::carry_out          writes what is not there yet; a file that differs from the template of init stays
//! ```
//! Skills go to `workspace/imported/skills/` and prompts to `workspace/imported/prompts/`, where none is active: they are
//! someone else's text until the owner has read them. Keys are never copied, and no link is followed.

mod hermes;
mod openclaw;
mod relaxed_json;

pub use hermes::plan as hermes;
pub use openclaw::plan as openclaw;

use std::path::{Path, PathBuf};

use chrono_tz::Tz;
use serde_json::Value;

use crate::config::Home;
use crate::jobs::{Ask, Job, When};
use crate::message::{Block, Role};
use crate::sandbox::{BeneathError, Root};
use crate::session::{Event, Head, Kind, Spoken};
use crate::sys::atomic;
use crate::workspace::template;
use crate::{clock, jobs, sys};

/// Files that are larger are left where they are.
const MAX_FILE: u64 = 50 << 20;
/// Why something is left.
const NO_FILE: &str = "a link, or not a file";
const NO_DIRECTORY: &str = "a link, or not a directory";
/// Directories that are rebuilt by their programs.
const PASSED: [&str; 3] = [".git", "node_modules", "__pycache__"];
/// The run of imported messages.
const RUN: &str = "import";

/// What is to be done.
#[derive(Debug, Default)]
pub struct Plan {
    /// What is taken, in order.
    pub steps: Vec<Step>,
    /// What is not, and why.
    pub left: Vec<(String, String)>,
    /// Lines for agent.toml, which is yours to write.
    pub settings: String,
}

/// One thing that is taken.
#[derive(Debug)]
pub struct Step {
    /// What it is, such as `note memory/2026-01-02.md`.
    pub what: String,
    act: Act,
}

#[derive(Debug)]
enum Act {
    File { to: PathBuf, bytes: Vec<u8> },
    Job(Box<Job>),
}

/// What the plans need to know.
pub struct Context<'a> {
    pub home: &'a Home,
    /// The agent's zone, for jobs without one.
    pub zone: Tz,
    pub now: i64,
}

impl Plan {
    /// Does all of it and returns how many things were taken.
    ///
    /// # Errors
    /// When a file cannot be written; what was taken before it stays.
    pub fn carry_out(self, home: &Home) -> Result<usize, sys::Error> {
        let count = self.steps.len();
        for step in self.steps {
            match step.act {
                Act::File { to, bytes } => {
                    if let Some(dir) = to.parent() {
                        std::fs::create_dir_all(dir).map_err(sys::Error::at("make", dir))?;
                    }
                    atomic::write(&to, &bytes, atomic::Durability::Full)?;
                }
                Act::Job(job) => {
                    jobs::Store::new(&home.jobs()).change(|jobs| jobs.put(*job))?;
                }
            }
        }
        Ok(count)
    }

    fn leave(&mut self, what: impl Into<String>, why: impl Into<String>) {
        self.left.push((what.into(), why.into()));
    }

    /// Takes a text as the workspace file `name`, unless the owner has one.
    fn text(&mut self, home: &Home, name: &str, bytes: Vec<u8>) {
        let to = home.workspace().join(name);
        match atomic::read(&to) {
            Ok(Some(own)) if own == bytes => {}
            Ok(Some(own)) if own != template(name).as_bytes() => {
                self.leave(name, "there is one already, and it is another");
            }
            Err(error) => self.leave(name, error.to_string()),
            Ok(_) => self.steps.push(Step {
                what: format!("workspace/{name}"),
                act: Act::File { to, bytes },
            }),
        }
    }

    /// Returns the file `path` of the directory `dir`, and leaves it as `name` otherwise; `None` where there is none. Links and
    /// special files stay.
    fn read(&mut self, dir: &Path, path: &str, name: &str) -> Option<Vec<u8>> {
        let read = Root::open(dir).and_then(|dir| dir.read_plain(Path::new(path), MAX_FILE));
        match read {
            Ok(bytes) => return Some(bytes),
            Err(BeneathError::NotFound(_)) => {}
            Err(BeneathError::TooLarge { .. }) => self.leave(name, "larger than 50 MB"),
            Err(BeneathError::Io { source, .. }) => self.leave(name, source.to_string()),
            Err(_) => self.leave(name, NO_FILE),
        }
        None
    }

    /// Returns the JSON of the file `path` of the directory `dir`; null where there is none.
    fn json(&mut self, dir: &Path, path: &str) -> Value {
        let Some(bytes) = self.read(dir, path, path) else {
            return Value::Null;
        };
        serde_json::from_slice(&bytes).unwrap_or_else(|error| {
            self.leave(path, format!("not read: {error}"));
            Value::Null
        })
    }

    /// Returns whether there is the directory `dir`, and leaves a link in its place as `name`.
    fn is_dir(&mut self, dir: &Path, name: &str) -> bool {
        match dir.symlink_metadata() {
            Ok(meta) if meta.is_dir() => return true,
            Ok(_) => self.leave(name, NO_DIRECTORY),
            Err(_) => {}
        }
        false
    }

    /// Returns whether there is the database `path`, and leaves something else in its place as `name`.
    fn is_database(&mut self, path: &Path, name: &str) -> bool {
        match path.symlink_metadata() {
            Ok(meta) if meta.is_file() => return true,
            Ok(_) => self.leave(name, NO_FILE),
            Err(_) => {}
        }
        false
    }

    /// Takes all files below `dir` as `name/…` of the workspace. Links and special files stay.
    fn tree(&mut self, home: &Home, dir: &Path, name: &str) {
        if !self.is_dir(dir, name) {
            return;
        }
        for entry in entries(dir) {
            let file = entry.file_name().to_string_lossy().into_owned();
            let name = if name.is_empty() {
                file.clone()
            } else {
                format!("{name}/{file}")
            };
            match entry.metadata() {
                Ok(meta) if meta.is_dir() && PASSED.contains(&file.as_str()) => {
                    self.leave(name, "made again by its program")
                }
                Ok(meta) if meta.is_dir() => self.tree(home, &entry.path(), &name),
                _ => {
                    if let Some(bytes) = self.read(dir, &file, &name) {
                        self.text(home, &name, bytes);
                    }
                }
            }
        }
    }

    /// Takes the job `id`, which `written` describes there and `ask` here.
    fn job(&mut self, context: &Context<'_>, id: &str, written: &Value, ask: Result<Ask, String>) {
        let called = written["name"].as_str().unwrap_or(id).to_owned();
        let enabled = written["enabled"].as_bool().unwrap_or(true);
        let id: String = id
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || ['-', '_'].contains(c))
            .take(64)
            .collect();
        let job = ask.and_then(|ask| ask.job(&id, context.zone, context.now));
        // The daemon would make up for it at its next start, however old it is.
        let is_over = |job: &Job| match &job.schedule {
            When::At(at) => clock::parse_rfc3339(at).is_some_and(|at| at < context.now),
            When::Every(_) | When::Cron(_) => false,
        };
        match job {
            Ok(_) if id.is_empty() => self.leave(format!("job {called}"), "it has no id"),
            Ok(job) if is_over(&job) => {
                let why = format!("its time has passed ({})", job.schedule_text());
                self.leave(format!("job {called}"), why);
            }
            Ok(job) => self.steps.push(Step {
                what: format!(
                    "job {called} ({}{})",
                    job.schedule_text(),
                    if enabled { "" } else { ", paused" }
                ),
                act: Act::Job(Box::new(Job { enabled, ..job })),
            }),
            Err(why) => self.leave(format!("job {called}"), why),
        }
    }

    /// Takes a conversation as one that has ended: it can be read and is searched.
    fn conversation(
        &mut self,
        context: &Context<'_>,
        head: Head,
        said: Vec<(String, Role, String)>,
    ) {
        let what = format!(
            "conversation {} of {} ({} messages)",
            head.session_id,
            head.created_at,
            said.len()
        );
        let day = head.created_at.get(..10).unwrap_or("1970-01-01");
        let to = context
            .home
            .archive()
            .join(format!("{}.{day}.jsonl", head.session_id));
        if said.is_empty() || to.exists() {
            return;
        }
        let kinds = said.into_iter().map(|(ts, role, text)| {
            (
                ts,
                Kind::Message(Spoken::new(role, vec![Block::text(text)], RUN)),
            )
        });
        let mut bytes = Vec::new();
        let created_at = head.created_at.clone();
        for (seq, (ts, kind)) in
            (1..).zip(std::iter::once((created_at, Kind::Session(head))).chain(kinds))
        {
            match serde_json::to_vec(&Event {
                v: 1,
                ts,
                seq,
                kind,
            }) {
                Ok(line) => bytes.extend(line),
                Err(error) => return self.leave(what, error.to_string()),
            }
            bytes.push(b'\n');
        }
        self.steps.push(Step {
            what,
            act: Act::File { to, bytes },
        });
    }

    /// Adds the table of Telegram to the settings.
    fn telegram(&mut self, allow_from: &[i64], groups: &[(String, bool)]) {
        self.settings.push_str("[telegram]\nenabled = true\n");
        if !allow_from.is_empty() {
            self.settings
                .push_str(&format!("allow_from = {allow_from:?}\n"));
        }
        for (group, require_mention) in groups {
            self.settings.push_str(&format!(
                "\n[telegram.groups.\"{group}\"]\nrequire_mention = {require_mention}\n"
            ));
        }
    }
}

/// Returns where databases of the other program are copied to while they are read.
fn scratch(home: &Home) -> PathBuf {
    home.state().join("import.tmp")
}

/// Returns `id` as the name of a file.
fn file_name(id: &str) -> String {
    let good = |c: char| c.is_ascii_alphanumeric() || ['-', '_'].contains(&c);
    id.chars()
        .map(|c| if good(c) { c } else { '-' })
        .take(100)
        .collect()
}

/// Returns the words of a message: text, or blocks of which some are text.
fn words(content: &Value) -> Option<String> {
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => {
            let texts: Vec<&str> = blocks
                .iter()
                .filter(|block| block["type"] == "text")
                .filter_map(|block| block["text"].as_str())
                .collect();
            texts.join("\n")
        }
        _ => return None,
    };
    (!text.trim().is_empty()).then_some(text)
}

/// Returns who spoke; tools and instructions did not.
fn role(name: &str) -> Option<Role> {
    match name {
        "user" => Some(Role::User),
        "assistant" => Some(Role::Assistant),
        _ => None,
    }
}

/// Returns what is in a directory, by name; nothing where there is none.
fn entries(dir: &Path) -> Vec<std::fs::DirEntry> {
    let mut entries: Vec<_> = std::fs::read_dir(dir)
        .into_iter()
        .flatten()
        .flatten()
        .collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    entries
}

/// Returns the numeric ids in a list of JSON: `123`, `"123"`, `"tg:123"`, `"telegram:123"`.
fn ids(list: &Value) -> Vec<i64> {
    let id = |value: &Value| match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text
            .rsplit(':')
            .next()
            .and_then(|digits| digits.trim().parse().ok()),
        _ => None,
    };
    list.as_array()
        .into_iter()
        .flatten()
        .filter_map(id)
        .collect()
}

/// Returns `text` as RFC 3339, or the time `or`.
fn time(text: Option<&str>, or: i64) -> String {
    clock::rfc3339(text.and_then(clock::parse_rfc3339).unwrap_or(or))
}

#[cfg(test)]
mod tests;

//! Undoes the changes of a run, the newest first. Files that somebody else has changed since are left unchanged.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;

use super::journal::{Change, Entry, Old, Record, Store, append, entry_of, sha256_of};
use super::{Error, MAX_OLD, counterpart, runs};
use crate::clock;
use crate::sandbox::Existing;
use crate::sys;
use crate::text::{sha256_hex, visible};
use crate::workspace::{Marking, PathPolicy, WriteTarget};

/// The result of an undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undone {
    /// The run.
    pub run: String,
    /// When it last changed a file, milliseconds since 1970 UTC.
    pub at: i64,
    /// What became of each file, a line a file; none when all was taken back before, or the run changed none by itself.
    pub files: Vec<String>,
    /// Commands that the run ran: what they changed in files is not kept, and stays.
    pub commands: usize,
    /// Whether it changed files that an undo can bring back, before or now.
    pub had_files: bool,
    /// The run whose undo brings back what was taken; `None` when nothing was changed.
    pub back: Option<String>,
}

impl Undone {
    /// Returns whether anything was taken back, now or before.
    pub fn is_taken_back(&self) -> bool {
        self.had_files && (self.files.is_empty() || self.back.is_some())
    }
}

/// What became of a file.
struct Outcome {
    line: String,
    changed: bool,
}

/// What is in a file: nothing, or what has this SHA-256.
type State = Option<String>;

impl Store {
    /// Takes the changes of `run` back, because the input `by` asks for it. It may be done again, after a crash
    /// too: what is done already stays done.
    ///
    /// # Errors
    /// [`Error::Unknown`], or the journal cannot be read or written. What happens to one file is told in its
    /// line and stops no other.
    pub fn undo(&self, run: &str, by: &str, path_policy: &PathPolicy) -> Result<Undone, Error> {
        let _busy = self.busy.lock();
        let lines = self.known(run)?;
        let changes = lines.iter().filter_map(entry_of).map(|entry| entry.at);
        let commands = lines.iter().filter_map(runs::command_of).map(|(at, _)| at);
        let (commands, times) = (commands.clone().count(), changes.clone().chain(commands));
        let mut undone = Undone {
            run: run.to_owned(),
            at: times.max().unwrap_or_default(),
            files: Vec::new(),
            commands,
            had_files: changes.count() > 0,
            back: None,
        };
        if !undone.had_files && commands == 0 {
            return Err(Error::Unknown(visible(run)));
        }
        // What was taken back before a crash is this undo's work, too.
        if self.has_taken_back(run, &lines, by)? {
            undone.back = Some(counterpart(run));
        }
        let open = runs::open(&lines);
        if open.is_empty() {
            return Ok(undone);
        }
        let journal = self.dir_of(run)?.join("journal.jsonl");
        let (at_now, by) = (clock::now_ms(), by.to_owned());
        append(&journal, &Record::Asked { at: at_now, by }, true)?;
        // Each file once; the one that was changed last comes first.
        let mut newest_first = open;
        newest_first.reverse();
        while let Some(path) = newest_first.first().map(|entry| entry.path.clone()) {
            let (of_file, others): (Vec<&Entry>, Vec<&Entry>) =
                newest_first.iter().partition(|entry| entry.path == path);
            newest_first = others;
            let outcome = self.take_back(run, &of_file, path_policy)?;
            undone.files.push(outcome.line);
            if outcome.changed {
                undone.back = Some(counterpart(run));
            }
        }
        let at = clock::now_ms();
        append(&journal, &Record::Over { at }, true)?;
        Ok(undone)
    }

    /// Returns whether the input `by` has begun an undo of `run`, as `lines` tell, that did not come to its end and took back changes.
    fn has_taken_back(&self, run: &str, lines: &[Record], by: &str) -> Result<bool, Error> {
        let is_end = |line: &Record| matches!(line, Record::Over { .. });
        let begin = lines.iter().rposition(is_end).map_or(0, |end| end + 1);
        let asked = lines.iter().skip(begin).find_map(|line| match line {
            Record::Asked { at, by: input } if input == by => Some(*at),
            _ => None,
        });
        let Some(asked) = asked else {
            return Ok(false);
        };
        let takes_back = |line: &Record| matches!(line, Record::Undone { .. });
        let mut journalled = self.lines(&counterpart(run))?.into_iter();
        Ok(lines.iter().skip(begin).any(takes_back)
            && journalled.any(|line| entry_of(&line).is_some_and(|entry| entry.at >= asked)))
    }

    /// Returns whether an undo of `run` brought the file of `newest` back and was ended before it could record that.
    fn has_brought_back(&self, run: &str, newest: &Entry) -> Result<bool, Error> {
        let journalled = self.lines(&counterpart(run))?;
        let is_it = |entry: &&Entry| entry.path == newest.path && entry.at >= newest.at;
        Ok(runs::open(&journalled).iter().any(is_it))
    }

    /// Takes the changes of one file back as far as nobody else's come between.
    fn take_back(
        &self,
        run: &str,
        newest_first: &[&Entry],
        path_policy: &PathPolicy,
    ) -> Result<Outcome, Error> {
        let Some(oldest) = newest_first.last() else {
            return Ok(Outcome {
                line: String::new(),
                changed: false,
            });
        };
        let name = visible(&oldest.path);
        let old_text = match &oldest.before {
            Some(_) => format!("its old text is state/undo/{run}/{}", oldest.n),
            None => "it was not there before".to_owned(),
        };
        let left = |why: String| {
            Ok(Outcome {
                line: format!("{name}: left as it is: {why}; {old_text}"),
                changed: false,
            })
        };
        let target = match path_policy.write_target(&oldest.path) {
            Ok(target) if target.key == oldest.path => target,
            Ok(target) => return left(format!("its place is now {}", visible(&target.key))),
            Err(error) => return left(error.to_string()),
        };
        let existing = match target.file.existing() {
            Ok(existing) => existing,
            Err(error) => return left(visible(&error.to_string())),
        };
        let now = match state_of(existing.as_ref()) {
            Ok(now) => now,
            Err(error) => return left(error.to_string()),
        };
        let chain = Chain::of(newest_first, &now);
        let Some(first) = chain.done.last() else {
            let since = if now.is_none() {
                "was removed since"
            } else {
                "was changed since"
            };
            return Ok(Outcome {
                line: format!("{name} {since}: left as it is; {old_text}"),
                changed: false,
            });
        };
        let is_to_change = chain.state != now;
        if is_to_change && let Err(why) = self.bring_back(run, first, &target, existing.as_ref())? {
            return left(why);
        }
        let changed = match chain.done.first() {
            Some(newest) if !is_to_change => self.has_brought_back(run, newest)?,
            _ => is_to_change,
        };
        if chain.state.is_none() {
            for dir in chain.done.iter().flat_map(|entry| entry.made.iter().rev()) {
                if let Ok(dir) = path_policy.write_target(dir) {
                    dir.file.remove_empty_directory();
                }
            }
        }
        let of = chain.done.iter().map(|entry| entry.n).collect();
        let at = clock::now_ms();
        append(
            &self.dir_of(run)?.join("journal.jsonl"),
            &Record::Undone { at, of },
            true,
        )?;
        let line = match (chain.is_whole, changed, chain.state.is_none()) {
            (false, true, _) => {
                format!(
                    "{name}: the newest changes are undone; before them somebody else changed it: {old_text}"
                )
            }
            (false, false, _) => format!("{name} was changed since: left as it is; {old_text}"),
            (true, true, true) => format!("{name}: removed"),
            (true, true, false) => format!("{name}: as it was"),
            (true, false, true) => format!("{name}: is not there, as before"),
            (true, false, false) => format!("{name}: is as it was"),
        };
        Ok(Outcome { line, changed })
    }

    /// Makes a file what it was before `entry`; the inner error says why that is not done.
    fn bring_back(
        &self,
        run: &str,
        entry: &Entry,
        target: &WriteTarget,
        existing: Option<&Existing>,
    ) -> Result<Result<(), String>, Error> {
        let bytes = match &entry.before {
            None => None,
            Some(old) => match self.old_bytes(run, entry.n, old) {
                Ok(bytes) => Some(bytes),
                Err(why) => return Ok(Err(why)),
            },
        };
        let mut source = match existing.map(Existing::open).transpose() {
            Ok(source) => source,
            Err(error) => return Ok(Err(format!("it cannot be read: {error}"))),
        };
        let mode_of = |existing: &Existing| existing.metadata.permissions().mode();
        let recorded = self.record_now(Change {
            run: &counterpart(run),
            conversation: &entry.conversation,
            key: &target.key,
            old: source
                .as_mut()
                .zip(existing)
                .map(|(source, existing)| (source as &mut dyn Read, mode_of(existing))),
            new: bytes.as_deref(),
            made: target.to_be_made(),
        });
        match recorded {
            Ok(_) => {}
            Err(Error::Io(error)) => return Err(Error::Io(error)),
            Err(error) => return Ok(Err(error.to_string())),
        }
        // On the safe side of a crash: a mark comes before the words, and goes after them.
        if entry.marked {
            let (asked, at) = (false, clock::now_ms());
            let words = bytes.as_deref().unwrap_or_default();
            let by = Marking { run, asked, at };
            self.marks.set_with(&target.key, words, by)?;
        }
        if target.is_protected() {
            crate::sandbox::will_write(&target.path(), bytes.as_deref().unwrap_or_default());
        }
        let done = match (&bytes, existing) {
            (Some(bytes), existing) => target.file.write(
                bytes,
                existing,
                entry.before.as_ref().map_or(0o600, |old| old.mode),
            ),
            (None, Some(existing)) => target.file.remove(existing),
            (None, None) => Ok(()),
        };
        if let Err(error) = done {
            return Ok(Err(visible(&error.to_string())));
        }
        if !entry.marked {
            self.marks.clear(&target.key)?;
        }
        Ok(Ok(()))
    }

    fn old_bytes(&self, run: &str, n: u32, old: &Old) -> Result<Vec<u8>, String> {
        let path = self.dir.join(run).join(n.to_string());
        let mut bytes = Vec::new();
        let read =
            File::open(&path).and_then(|file| file.take(MAX_OLD + 1).read_to_end(&mut bytes));
        match read.map_err(sys::Error::at("read", &path)) {
            Err(error) => Err(error.to_string()),
            Ok(_) if sha256_hex(&bytes) != old.sha256 => {
                Err("its saved content is damaged".to_owned())
            }
            Ok(_) => Ok(bytes),
        }
    }
}

/// The changes of one file that follow on each other up to what is there now.
struct Chain<'a> {
    /// Those that are taken back, the newest first.
    done: Vec<&'a Entry>,
    /// What was there before it.
    state: State,
    /// Whether these are all.
    is_whole: bool,
}

impl<'a> Chain<'a> {
    fn of(newest_first: &[&'a Entry], now: &State) -> Self {
        let mut chain = Self {
            done: Vec::new(),
            state: now.clone(),
            is_whole: true,
        };
        for &entry in newest_first {
            let before = entry.before.as_ref().map(|old| old.sha256.clone());
            // What is there may be what was before: a crash came before the change, or before the record
            // that it was taken back.
            if chain.state != entry.after && chain.state != before {
                chain.is_whole = false;
                break;
            }
            chain.state = before;
            chain.done.push(entry);
        }
        chain
    }
}

fn state_of(existing: Option<&Existing>) -> Result<State, Error> {
    let sum = |existing: &Existing| {
        let mut file = existing.open().map_err(Error::Unreadable)?;
        sha256_of(&mut file)
    };
    existing.map(sum).transpose()
}

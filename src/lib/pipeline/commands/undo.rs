//! Undoes the file changes of a run: in the lane of its conversation, so that no turn changes the files meanwhile.

use super::immediate::{FOR_OWNERS, IN_PRIVATE};
use crate::clock;
use crate::control::replies::Reply;
use crate::message::{Command, Envelope, SessionKey, Source};
use crate::pipeline::Pipeline;
use crate::pipeline::turn::outcome::{Outcome, as_it_is, declined};
use crate::text;
use crate::text::visible;
use crate::undo::{Deed, Error, RunInfo, Store, Undone};

/// Runs that are named when one is not known.
const NAMED: usize = 5;
/// Files of a run that are named there.
const FILES: usize = 3;

/// The result of the search for the run to undo.
enum Meant {
    /// This run; `None` when none changed files.
    Run(Option<String>),
    /// Nothing is taken back: the newest thing that was done is no change of files.
    Later {
        at: i64,
        deed: Deed,
        /// The newest change of files, which is older.
        files: Option<RunInfo>,
    },
}

impl Meant {
    /// Returns what the input `by` means by the last thing that was done in the conversation `key`.
    fn of(undo: &Store, by: &str, key: &str) -> Self {
        // After a crash the same run is meant, and not the one before it.
        if let Some(run) = undo.asked(by) {
            return Self::Run(Some(run));
        }
        let newest = undo.newest(Some(key));
        match undo.newest_deed(key) {
            Some((run, at, deed))
                if newest
                    .as_ref()
                    .is_none_or(|newest| newest.run != run && newest.at < at) =>
            {
                let files = newest;
                Self::Later { at, deed, files }
            }
            _ => Self::Run(newest.map(|newest| newest.run)),
        }
    }
}

impl Pipeline {
    /// Returns what the shell asks for, and the conversation whose run is meant: the newest run of all when it
    /// names none.
    pub(crate) fn undo_of_shell(&self, run: Option<&str>) -> (SessionKey, Command) {
        let meant = match run {
            Some(run) => self.undo.run(run),
            None => self.undo.newest(None),
        };
        let key = meant
            .as_ref()
            .map_or_else(|| "cli:cli".to_owned(), |meant| meant.conversation.clone());
        let run = run.map(str::to_owned).or(meant.map(|meant| meant.run));
        (SessionKey(key), Command::Undo { run })
    }

    /// Takes back what `run` changed, or the newest run of the conversation unless something else was done there since.
    pub(crate) async fn take_back(&self, envelope: &Envelope, run: Option<&str>) -> Outcome {
        if !envelope.from_owner {
            return declined(envelope, FOR_OWNERS);
        }
        // Others read the names of files there.
        if envelope.group.is_some() && run.is_some() {
            return declined(envelope, IN_PRIVATE);
        }
        let (undo, path_policy, key) = (
            self.undo.clone(),
            self.live().path_policy.clone(),
            envelope.session_key.0.clone(),
        );
        let (run, by) = (run.map(str::to_owned), envelope.id.clone());
        let of_shell = matches!(envelope.source, Source::Cli | Source::Http);
        let work = move || {
            let meant = match run {
                Some(run) => Meant::Run(Some(run)),
                None => Meant::of(&undo, &by, &key),
            };
            let done = match meant {
                Meant::Run(run) => Ok(run.map(|run| undo.undo(&run, &by, &path_policy))),
                Meant::Later { at, deed, files } => Err((at, deed, files)),
            };
            // The shell means all conversations.
            let commands = undo.newest_commands((!of_shell).then_some(key.as_str()));
            (done, undo.runs(), commands)
        };
        let (done, runs, commands) = crate::sys::blocking(work).await;
        let zone = self.live().config.agent.timezone.0;
        let when = |at: i64| clock::local_stamp(at, zone);
        // A script is told by its exit code that nothing was taken back.
        let plainly = |text: String, is_done: bool| {
            // Runs that read anything may have named these files.
            let outcome = as_it_is(envelope, text.clone(), text.clone()).untrusted(true);
            match is_done {
                true => outcome,
                false => outcome.mapped(|_| Reply::error(&envelope.id, &text)),
            }
        };
        let done = match done {
            Ok(done) => done,
            Err((at, deed, files)) => {
                let files = files.map(|files| (when(files.at), files));
                let in_group = envelope.group.is_some();
                return plainly(later(deed, &when(at), files, of_shell, in_group), false);
            }
        };
        match done {
            None => {
                let ran = commands.map(|(run, at)| which(&run, &when(at), of_shell));
                plainly(nothing(ran.as_deref()), false)
            }
            Some(Ok(undone)) => {
                // What is remembered may be among them.
                self.memory.tell_news();
                let told = told(&undone, &when(undone.at), of_shell);
                let told = match commands {
                    // A newer one is not what was undone.
                    Some((run, at)) if at > undone.at && run != undone.run => {
                        let which = which(&run, &when(at), of_shell);
                        format!("{told}\n{}", not_taken_back(&which))
                    }
                    _ => told,
                };
                plainly(told, undone.is_taken_back())
            }
            Some(Err(Error::Unknown(run))) => declined(
                envelope,
                &format!(
                    "no run {run:?} that changed files. {}",
                    choice(&runs, &when)
                ),
            ),
            Some(Err(error)) => self.failed(
                envelope,
                &format!("the undo was not completed, ask for it again: {error}"),
                &[],
            ),
        }
    }
}

/// Says that no run is meant, and which one, if any, ran commands.
fn nothing(ran: Option<&str>) -> String {
    let none = "There is nothing to undo: my tools have changed no files here, or the changes are already undone.";
    match ran {
        Some(which) => format!("{none}\n{}", not_taken_back(which)),
        None => none.to_owned(),
    }
}

/// What was done, a line a file, and how to take it back.
fn told(undone: &Undone, when: &str, of_shell: bool) -> String {
    let which = which(&undone.run, when, of_shell);
    if !undone.had_files {
        return not_taken_back(&which);
    }
    let stays = match undone.commands {
        0 => String::new(),
        count => format!(
            "\nIt also ran {}: their changes to files are not recorded and remain.",
            text::counted(count, "command")
        ),
    };
    if undone.files.is_empty() {
        return format!("{which} is undone already.{stays}");
    }
    let files = undone.files.join("\n");
    match &undone.back {
        None => format!("{which}: nothing was undone\n{files}{stays}"),
        Some(back) => {
            let how = if of_shell {
                format!("agent-send --undo {back}")
            } else {
                format!("/undo {back}")
            };
            format!("{which} is undone:\n{files}{stays}\nTo redo it: {how}")
        }
    }
}

/// Says why nothing is taken back, what takes back what was done last, and how the older change of files is.
fn later(
    deed: Deed,
    at: &str,
    files: Option<(String, RunInfo)>,
    of_shell: bool,
    in_group: bool,
) -> String {
    let (what, how) = match deed {
        Deed::Job if of_shell => (
            "added, changed or removed a job",
            "agent-send --job list shows them; agent-send --job remove ID removes one",
        ),
        Deed::Job => (
            "added, changed or removed a job or a reminder",
            "/jobs shows them; tell me which one to remove",
        ),
        Deed::Noted => (
            "noted something in my memory",
            "tell me what is wrong with it, or /forget WORDS of it",
        ),
        Deed::Forgot => (
            "forgot what you named",
            "tell it to me again, and it is used again",
        ),
    };
    let told = format!(
        "Nothing was undone: the last thing I did here was not a change of a file. At {at} I {what}: {how}."
    );
    let Some((when, run)) = files else {
        return told;
    };
    let back = match (of_shell, in_group) {
        (true, _) => format!("agent-send --undo {}", run.run),
        (false, true) => format!("write me in private: /undo {}", run.run),
        (false, false) => format!("/undo {}", run.run),
    };
    // Others read the names of files there.
    let names = match in_group {
        true => String::new(),
        false => format!(": {}", names(&run)),
    };
    format!("{told}\nBefore that, at {when}, I changed files{names}\nTo undo that: {back}")
}

/// Names a run at the beginning of a sentence. In a chat people know it by its time, and its long id says nothing to them.
fn which(run: &str, when: &str, of_shell: bool) -> String {
    match of_shell {
        true => format!("Run {run} of {when}"),
        false => format!("The run of {when}"),
    }
}

/// Says of a run that only ran commands what an undo cannot do.
fn not_taken_back(which: &str) -> String {
    format!("{which} ran commands: their changes to files are not recorded, so I cannot undo them.")
}

/// Names the files of a run.
fn names(run: &RunInfo) -> String {
    let names: Vec<String> = run
        .files
        .iter()
        .take(FILES)
        .map(|file| visible(file))
        .collect();
    let more = if run.files.len() > FILES {
        format!(" and {} more", run.files.len() - FILES)
    } else {
        String::new()
    };
    format!("{}{more}", names.join(", "))
}

/// Names the newest runs that can be undone.
fn choice(runs: &[RunInfo], when: &dyn Fn(i64) -> String) -> String {
    let line = |run: &RunInfo| format!("{}  {}  {}", run.run, when(run.at), names(run));
    match runs {
        [] => "There is nothing to undo.".to_owned(),
        runs => format!(
            "There are:\n{}",
            runs.iter()
                .take(NAMED)
                .map(line)
                .collect::<Vec<String>>()
                .join("\n")
        ),
    }
}

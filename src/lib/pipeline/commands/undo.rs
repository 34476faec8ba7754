//! Takes back what a run changed in files: in the order of its conversation, so that no turn of it is at
//! them meanwhile.

use super::immediate::{FOR_OWNERS, IN_PRIVATE};
use crate::clock;
use crate::control::replies::Reply;
use crate::message::{Command, Envelope, SessionKey, Source};
use crate::pipeline::Pipeline;
use crate::pipeline::turn::outcome::{Outcome, as_it_is, declined};
use crate::text;
use crate::text::visible;
use crate::undo::{Error, RunInfo, Undone};

/// Runs that are named when one is not known.
const NAMED: usize = 5;
/// Files of a run that are named there.
const FILES: usize = 3;

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

    /// Takes back what `run` changed, or the newest run of the conversation.
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
            // After a crash the same run is meant, and not the one before it.
            let run = run
                .or_else(|| undo.asked(&by))
                .or_else(|| undo.newest(Some(&key)).map(|newest| newest.run));
            let done = run.map(|run| undo.undo(&run, &by, &path_policy));
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
        match done {
            None => {
                let none = "There is nothing to undo: I changed no files here with my own tools that were not taken back already.";
                let told = match &commands {
                    Some((run, at)) => format!("{none}\n{}", not_taken_back(run, &when(*at))),
                    None => none.to_owned(),
                };
                plainly(told, false)
            }
            Some(Ok(undone)) => {
                // What is remembered may be among them.
                self.memory.tell_news();
                let told = told(&undone, &when(undone.at), of_shell);
                let told = match commands {
                    // A newer one is not what was undone.
                    Some((run, at)) if at > undone.at && run != undone.run => {
                        format!("{told}\n{}", not_taken_back(&run, &when(at)))
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
                &format!("the undo did not come to its end, ask for it again: {error}"),
                &[],
            ),
        }
    }
}

/// What was done, a line a file, and how to take it back.
fn told(undone: &Undone, when: &str, of_shell: bool) -> String {
    let run = &undone.run;
    if !undone.had_files {
        return not_taken_back(run, when);
    }
    let stays = match undone.commands {
        0 => String::new(),
        count => format!(
            "\nIt also ran {}: what they changed in files is not kept and stays.",
            text::counted(count, "command")
        ),
    };
    if undone.files.is_empty() {
        return format!("Run {run} is undone already.{stays}");
    }
    let files = undone.files.join("\n");
    match &undone.back {
        None => format!("Nothing was taken back of run {run} of {when}:\n{files}{stays}"),
        Some(back) => {
            let how = if of_shell {
                format!("agent-send --undo {back}")
            } else {
                format!("/undo {back}")
            };
            format!("Undone is run {run} of {when}:\n{files}{stays}\nTo have it back: {how}")
        }
    }
}

/// Says of a run that only ran commands what an undo cannot do.
fn not_taken_back(run: &str, when: &str) -> String {
    format!(
        "Run {run} of {when} ran commands: what they changed in files is not kept, and I cannot take it back."
    )
}

/// Names the newest runs that can be undone.
fn choice(runs: &[RunInfo], when: &dyn Fn(i64) -> String) -> String {
    let line = |run: &RunInfo| {
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
        format!("{}  {}  {}{more}", run.run, when(run.at), names.join(", "))
    };
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

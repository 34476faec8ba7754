//! `exec`: run a shell command behind the sandbox.

mod output_tail;
mod resolve_program;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, interval_at};

use super::{number, text};
use crate::agent::{Context, Question, Reach, Rights, Tool, ToolOutput};
use crate::config;
use crate::config::Policy;
use crate::memory::Scope;
use crate::provider::{BoxFuture, ToolSpec};
use crate::sandbox;
use crate::sandbox::{Spec, Status};
use crate::text::argv;
use crate::undo;
use output_tail::Tail;

/// Output kept of a command, bytes: of the 30,000 characters that reach the model (specification §7), the
/// rest is for what is said below it.
const MAX_OUTPUT: usize = 29_000;

/// Between two words about a command that runs.
const TELL: Duration = Duration::from_secs(1);

/// How commands run here.
#[derive(Debug, Clone)]
pub struct ExecSettings {
    /// Where they run and may write.
    pub workspace: PathBuf,
    /// Directories that do not exist for them.
    pub hidden: Vec<PathBuf>,
    /// What the settings say of them.
    pub rules: config::Exec,
    /// True when the owner wrote `sandbox = "off"`.
    pub off: bool,
    /// The environment they see.
    pub env: Vec<(String, String)>,
}

pub(super) struct Exec {
    settings: ExecSettings,
    /// Knows which files hold words of others.
    undo: Option<Arc<undo::Store>>,
}

impl Exec {
    /// Makes the tool; `undo` knows which files hold words of others.
    pub(super) fn new(settings: ExecSettings, undo: Option<Arc<undo::Store>>) -> Self {
        Self { settings, undo }
    }

    /// Returns the files that hold words of others; `None` when nobody can tell.
    fn marked(&self) -> Option<Vec<String>> {
        self.undo
            .as_ref()
            .map_or_else(|| Some(Vec::new()), |undo| undo.marks.all())
    }

    async fn execute(&self, input: &Value, context: &Context) -> ToolOutput {
        let settings = &self.settings;
        let seconds = settings.seconds(input);
        let cwd = match settings.cwd(input) {
            Ok(cwd) => cwd,
            Err(why) => return ToolOutput::error(format!("the command was not run: {why}")),
        };
        let mut hidden = settings.hidden.clone();
        if !context.viewer.may_see(&Scope::Owner) {
            hidden.extend(crate::workspace::memory(&settings.workspace));
        }
        // A clean turn would take their words for the machine's, and a copy of them for its own.
        let marked = self.marked();
        let closed: Vec<PathBuf> = marked
            .iter()
            .flatten()
            .filter(|_| !context.tainted)
            .map(|key| settings.workspace.join(key))
            .filter(|path| path.exists())
            .collect();
        hidden.extend(closed.iter().cloned());
        let spec = Spec {
            command: text(input, "command").to_owned(),
            cwd,
            workspace: settings.workspace.clone(),
            writable: Vec::new(),
            hidden,
            read_only: crate::workspace::shape(&settings.workspace),
            network: settings.rules.network,
            env: settings.env.clone(),
            timeout: Duration::from_secs(seconds),
            max_output: MAX_OUTPUT,
            off: settings.off,
        };
        let output = match run_and_tell(spec, context).await {
            Ok(outcome) => report(outcome, seconds),
            Err(error) => ToolOutput::error(format!("the command was not run: {error}")),
        };
        let names = |path: &PathBuf| {
            path.file_name()
                .is_some_and(|name| output.text.contains(&*name.to_string_lossy()))
        };
        // What came over the network is somebody else's, and so is what such files are called.
        let untrusted = settings.rules.network
            || settings.off
            || context.tainted
            || marked.is_none()
            || closed.iter().any(names);
        let text = match closed.len() {
            0 => output.text,
            count => {
                let end = if output.text.is_empty() || output.text.ends_with('\n') {
                    ""
                } else {
                    "\n"
                };
                format!(
                    "{}{end}[files with words of others, closed to this command: {count}; `read` shows them]",
                    output.text
                )
            }
        };
        ToolOutput {
            untrusted,
            text,
            ..output
        }
    }
}

impl Exec {
    fn question_of(&self, input: &Value) -> Question {
        let (settings, command) = (&self.settings, text(input, "command"));
        // A directory that is not there is asked about as it is named; the command will not run.
        let cwd = settings
            .cwd(input)
            .unwrap_or_else(|_| text(input, "cwd").into());
        let mut words = format!("run: {command}");
        if settings.workspace.canonicalize().ok().as_ref() != Some(&cwd) {
            words.push_str(&format!("\nin: {}", cwd.display()));
        }
        if settings.off {
            words.push_str("\nwithout a sandbox, and with the network");
        } else if settings.rules.network {
            words.push_str("\nwith the network");
        }
        let (network, off, seconds) = (
            settings.rules.network,
            settings.off,
            settings.seconds(input),
        );
        let bound_to = json!([
            "exec",
            command,
            cwd,
            settings.env_hash(),
            network,
            off,
            seconds
        ]);
        Question {
            text: words,
            bound_to,
            repeatable: settings.is_repeatable(command),
        }
    }
}

impl ExecSettings {
    fn seconds(&self, input: &Value) -> u64 {
        number(input, "timeout_secs")
            .unwrap_or(self.rules.timeout_secs)
            .clamp(1, self.rules.max_timeout_secs)
    }

    /// Returns where a command starts, without links.
    fn cwd(&self, input: &Value) -> Result<PathBuf, String> {
        let named = input.get("cwd").and_then(Value::as_str).unwrap_or_default();
        let workspace = self
            .workspace
            .canonicalize()
            .map_err(|error| format!("the workspace cannot be found: {error}"))?;
        let cwd = workspace
            .join(named)
            .canonicalize()
            .map_err(|error| format!("cwd {named}: {error}"))?;
        if cwd.starts_with(&workspace) {
            Ok(cwd)
        } else {
            Err(format!("cwd {named} is not in the workspace"))
        }
    }

    /// Returns the SHA-256 of the variables that a command sees, in their order by name.
    fn env_hash(&self) -> String {
        let mut env: Vec<&(String, String)> = self.env.iter().collect();
        env.sort();
        let bytes = serde_json::to_vec(&env).unwrap_or_default();
        let digest = ring::digest::digest(&ring::digest::SHA256, &bytes);
        digest
            .as_ref()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }

    /// Returns whether a yes may stand for the rest of a conversation: the same words mean the same program
    /// then, and it runs no other.
    fn is_repeatable(&self, command: &str) -> bool {
        argv::plain(command).is_some_and(|argv| {
            !config::runs_others(&argv) && argv.first().is_some_and(|p| self.is_fixed(p))
        })
    }
}

/// Runs a command and tells those who wait what it says, once a second.
async fn run_and_tell(spec: Spec, context: &Context) -> Result<sandbox::Outcome, sandbox::Error> {
    let tail = Tail::default();
    let listen = |bytes: &[u8]| tail.push(bytes);
    let run = sandbox::run(spec, context.cancel.clone(), &listen);
    tokio::pin!(run);
    let mut tick = interval_at(Instant::now() + TELL, TELL);
    loop {
        tokio::select! {
            outcome = &mut run => return outcome,
            _ = tick.tick() => {
                if let Some(words) = tail.news() {
                    context.progress.tell("exec", words);
                }
            }
        }
    }
}

/// The output as it came, then one line for what the output does not show.
fn report(outcome: sandbox::Outcome, seconds: u64) -> ToolOutput {
    let mut text = outcome.output;
    let mut note = |line: String| {
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&line);
    };
    if let Some(bytes) = outcome.cut {
        note(format!("[cut {bytes} bytes]"));
    }
    let is_error = match outcome.status {
        Status::Exited(0) => false,
        Status::Exited(code) => {
            note(format!("[exit {code}]"));
            true
        }
        Status::Signaled(signal) => {
            note(format!("[killed by signal {signal}]"));
            true
        }
        Status::TimedOut => {
            note(format!("[timed out after {seconds} s]"));
            true
        }
        Status::Cancelled => {
            note("[stopped]".to_owned());
            true
        }
    };
    ToolOutput {
        is_error,
        ..ToolOutput::ok(text)
    }
}

impl Tool for Exec {
    fn receipt(&self, input: &Value, _answer: &str) -> Option<String> {
        let command = input
            .get("command")
            .and_then(Value::as_str)
            .unwrap_or_default();
        Some(format!(
            "ran {}",
            crate::text::shorten(command.lines().next().unwrap_or_default(), 120)
        ))
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "exec".into(),
            description:
                "Run a shell command in a sandbox: the workspace is writable, the system read-only, the owner's files invisible."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "command": {"type": "string"},
                    "timeout_secs": {"type": "integer", "minimum": 1},
                    "cwd": {"type": "string", "description": "relative to the workspace"}
                },
                "required": ["command"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        false
    }

    fn rights(&self) -> Rights {
        Rights::Owner
    }

    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Acts
    }

    fn policy(&self, input: &Value) -> Option<Policy> {
        let settings = &self.settings;
        Some(
            settings
                .rules
                .policy_of(text(input, "command"), &|program| {
                    settings.is_fixed(program)
                }),
        )
    }

    fn question(&self, input: &Value, _context: &Context) -> Question {
        self.question_of(input)
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        Box::pin(self.execute(input, context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    pub(super) fn settings(workspace: &Path) -> ExecSettings {
        let env = vec![
            ("TZ".into(), "UTC".into()),
            ("PATH".into(), "/usr/bin:/bin".into()),
        ];
        ExecSettings {
            workspace: workspace.into(),
            hidden: Vec::new(),
            rules: config::Exec::default(),
            off: false,
            env,
        }
    }

    #[test]
    fn a_yes_is_bound_to_all_that_a_command_depends_on() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().canonicalize().unwrap();
        std::fs::create_dir(workspace.join("sub")).unwrap();
        let ask = |settings: &ExecSettings, input: Value| {
            Exec::new(settings.clone(), None).question_of(&input)
        };
        let plain = settings(&workspace);
        let asked = ask(&plain, json!({"command": "wc -l a"}));
        assert_eq!(
            (asked.text.as_str(), asked.repeatable),
            ("run: wc -l a", true)
        );
        let bound = asked.bound_to.as_array().unwrap().clone();
        let expected = [
            json!("exec"),
            json!("wc -l a"),
            json!(workspace),
            bound[3].clone(),
            json!(false),
            json!(false),
            json!(120),
        ];
        assert_eq!(
            (bound[3].as_str().unwrap().len(), bound.as_slice()),
            (64, expected.as_slice())
        );
        let again = ExecSettings {
            env: plain.env.iter().rev().cloned().collect(),
            ..plain.clone()
        };
        assert_eq!(
            ask(&again, json!({"command": "wc -l a", "cwd": "sub/.."})),
            asked
        );

        let mut other_env = plain.clone();
        other_env.env.push(("LD_PRELOAD".into(), "/x.so".into()));
        let mut online = plain.clone();
        online.rules.network = true;
        let open = ExecSettings {
            off: true,
            ..plain.clone()
        };
        let others = [
            ask(&plain, json!({"command": "wc -l b"})),
            ask(&plain, json!({"command": "wc -l a", "cwd": "sub"})),
            ask(&plain, json!({"command": "wc -l a", "timeout_secs": 5})),
            ask(&other_env, json!({"command": "wc -l a"})),
            ask(&online, json!({"command": "wc -l a"})),
            ask(&open, json!({"command": "wc -l a"})),
        ];
        for (at, other) in others.iter().enumerate() {
            let alike = others
                .iter()
                .filter(|another| another.bound_to == other.bound_to)
                .count();
            assert!(
                alike == 1 && other.bound_to != asked.bound_to,
                "{at}: {other:?}"
            );
        }
        assert_eq!(
            others[1].text,
            format!("run: wc -l a\nin: {}", workspace.join("sub").display())
        );
        assert_eq!(others[4].text, "run: wc -l a\nwith the network");
        for command in [
            "wc a; rm b",
            "sh -c x",
            "python3 x.py",
            "./wc",
            "nonsense-command",
            "git log",
            "env ls",
            "wc *",
        ] {
            assert!(
                !ask(&plain, json!({"command": command})).repeatable,
                "{command}"
            );
        }
    }

    #[test]
    fn a_command_starts_in_the_workspace() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().canonicalize().unwrap().join("w");
        std::fs::create_dir(&workspace).unwrap();
        std::os::unix::fs::symlink("/etc", workspace.join("way-out")).unwrap();
        let settings = settings(&workspace);
        let cwd = |named: &str| settings.cwd(&json!({"cwd": named})).ok();
        assert_eq!(
            (cwd("."), cwd("../w")),
            (Some(workspace.clone()), Some(workspace.clone()))
        );
        for named in ["/etc", "..", "../..", "way-out", "missing", "a\0b"] {
            assert_eq!(cwd(named), None, "{named}");
        }
    }

    #[test]
    fn the_result_is_the_output_and_nothing_stands_before_it() {
        let outcome = |output: &str, status| sandbox::Outcome {
            output: output.into(),
            status,
            cut: None,
        };
        assert_eq!(
            report(outcome("hi\n", Status::Exited(0)), 9),
            ToolOutput::ok("hi\n")
        );
        assert_eq!(
            report(outcome("no", Status::Exited(2)), 9),
            ToolOutput::error("no\n[exit 2]")
        );
        assert_eq!(
            report(outcome("", Status::TimedOut), 9),
            ToolOutput::error("[timed out after 9 s]")
        );
    }
}

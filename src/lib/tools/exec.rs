//! `exec`: run a shell command behind the sandbox.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};

use super::{number, text};
use crate::agent::{Context, Rights, Tool, ToolOutput};
use crate::provider::{BoxFuture, ToolSpec};
use crate::sandbox::{self, Spec, Status};

/// Output kept of a command, bytes (specification §7: 30,000 characters reach the model).
const MAX_OUTPUT: usize = 30_000;

/// How commands run here.
#[derive(Debug, Clone)]
pub struct ExecSettings {
    /// Where they run and may write.
    pub workspace: PathBuf,
    /// Directories that do not exist for them.
    pub hidden: Vec<PathBuf>,
    /// Whether they have a network.
    pub network: bool,
    /// True when the owner wrote `sandbox = "off"`.
    pub off: bool,
    /// The environment they see.
    pub env: Vec<(String, String)>,
    /// Seconds when the model names no limit.
    pub timeout_secs: u64,
    /// The longest limit the model may name.
    pub max_timeout_secs: u64,
}

pub(super) struct Exec {
    settings: ExecSettings,
}

impl Exec {
    pub(super) fn new(settings: ExecSettings) -> Self {
        Self { settings }
    }

    async fn execute(&self, input: &Value, context: &Context) -> ToolOutput {
        let settings = &self.settings;
        let seconds = number(input, "timeout_secs").unwrap_or(settings.timeout_secs).clamp(1, settings.max_timeout_secs);
        let cwd = match input.get("cwd").and_then(Value::as_str) {
            Some(cwd) => settings.workspace.join(cwd),
            None => settings.workspace.clone(),
        };
        let spec = Spec {
            command: text(input, "command").to_owned(),
            cwd,
            workspace: settings.workspace.clone(),
            writable: Vec::new(),
            hidden: settings.hidden.clone(),
            read_only: crate::workspace::shape(&settings.workspace),
            network: settings.network,
            env: settings.env.clone(),
            timeout: Duration::from_secs(seconds),
            max_output: MAX_OUTPUT,
            off: settings.off,
        };
        match sandbox::run(spec, context.cancel.clone(), &|_| {}).await {
            Ok(outcome) => report(outcome, seconds),
            Err(error) => ToolOutput::error(format!("the command was not run: {error}")),
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
    ToolOutput { is_error, ..ToolOutput::ok(text) }
}

impl Tool for Exec {
    fn receipt(&self, input: &Value, _answer: &str) -> Option<String> {
        let command = input.get("command").and_then(Value::as_str).unwrap_or_default();
        Some(format!("ran {}", crate::text::shorten(command.lines().next().unwrap_or_default(), 120)))
    }

    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "exec",
            description: "Run a shell command in a sandbox: the workspace is writable, the system read-only, the owner's files invisible.",
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
        Rights::OwnersWords
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        Box::pin(self.execute(input, context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_the_output_and_nothing_stands_before_it() {
        let outcome = |output: &str, status| sandbox::Outcome { output: output.into(), status, cut: None };
        assert_eq!(report(outcome("hi\n", Status::Exited(0)), 9), ToolOutput::ok("hi\n"));
        assert_eq!(report(outcome("no", Status::Exited(2)), 9), ToolOutput::error("no\n[exit 2]"));
        assert_eq!(report(outcome("", Status::TimedOut), 9), ToolOutput::error("[timed out after 9 s]"));
    }
}

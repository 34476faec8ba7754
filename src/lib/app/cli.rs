//! What the five programs share: flags, exit codes, and how success and failure are said.

use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, CommandFactory, Parser};

use crate::config::{self, Environment, Home, HomeFlags};
use crate::{db, sys};

/// Flags that mean the same everywhere.
#[derive(Debug, Clone, Args)]
pub struct Shared {
    /// Keep everything under this directory [env: AGENT_HOME]
    #[arg(long, value_name = "DIR", global = true)]
    pub home: Option<PathBuf>,
    /// Use the agent of this name [env: AGENT_INSTANCE]
    #[arg(long, value_name = "NAME", global = true)]
    pub instance: Option<String>,
    /// Read this file instead of agent.toml
    #[arg(short, long, value_name = "FILE", global = true)]
    pub config: Option<PathBuf>,
    /// Say more; twice: everything
    #[arg(short, long, action = clap::ArgAction::Count, global = true)]
    pub verbose: u8,
    /// Say errors only
    #[arg(short, long, global = true)]
    pub quiet: bool,
}

impl Shared {
    /// Returns the environment and the home that flags and environment name.
    ///
    /// # Errors
    /// When nothing names a home.
    pub fn home(&self) -> Result<(Environment, Home), Failure> {
        let env = Environment::of_process();
        let flags = HomeFlags { home: self.home.clone(), instance: self.instance.clone(), config: self.config.clone() };
        let home = Home::resolve(flags, &|name| env.get(name))?;
        Ok((env, home))
    }
}

/// Exit codes, after sysexits(3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    /// Done.
    Ok = 0,
    /// It was tried and failed.
    Failed = 1,
    /// The command line makes no sense.
    Usage = 2,
    /// The input makes no sense.
    Data = 65,
    /// No daemon listens.
    NoDaemon = 69,
    /// A bug of ours.
    Bug = 70,
    /// The disk or the file system.
    Io = 74,
    /// Busy, queued or timed out: try again.
    TryAgain = 75,
    /// Not permitted.
    NotPermitted = 77,
    /// The configuration.
    Config = 78,
}

/// Why a program ends without success.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The exit code.
    pub exit: Exit,
    /// What went wrong, lower case, no full stop.
    pub message: String,
    /// The next step.
    pub hint: Option<String>,
}

impl Failure {
    /// Returns a failure without a hint.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    /// Adds the next step.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    fn code(&self) -> &'static str {
        match self.exit {
            Exit::Ok => "ok",
            Exit::Failed => "failed",
            Exit::Usage => "usage",
            Exit::Data => "bad_data",
            Exit::NoDaemon => "not_running",
            Exit::Bug => "bug",
            Exit::Io => "io",
            Exit::TryAgain => "try_again",
            Exit::NotPermitted => "not_permitted",
            Exit::Config => "configuration",
        }
    }
}

impl From<config::Error> for Failure {
    fn from(error: config::Error) -> Self {
        let exit = match error.kind() {
            config::Kind::Config => Exit::Config,
            config::Kind::Io => Exit::Io,
            config::Kind::NotPermitted => Exit::NotPermitted,
            config::Kind::Usage => Exit::Usage,
        };
        let hint = error.hint();
        Self::new(exit, error.to_string()).hint(hint)
    }
}

impl From<sys::Error> for Failure {
    fn from(error: sys::Error) -> Self {
        use std::io::ErrorKind::{AlreadyExists, PermissionDenied, ReadOnlyFilesystem, StorageFull};
        let message = error.to_string();
        match error.source.kind() {
            PermissionDenied => Self::new(Exit::NotPermitted, message)
                .hint("run it as the user whose agent it is, for the system unit: sudo -u agent agent-send …"),
            StorageFull => Self::new(Exit::Io, message).hint("make room on that file system and try again; nothing was lost"),
            ReadOnlyFilesystem => {
                Self::new(Exit::Io, message).hint("the home must be writable: remount it, or choose another with --home")
            }
            AlreadyExists => Self::new(Exit::Io, message)
                .hint("move it away and start the daemon again: it makes its own and touches nothing else"),
            _ => Self::new(Exit::Io, message).hint("look at that path with ls -ld, and at the file system with df"),
        }
    }
}

impl From<db::Error> for Failure {
    fn from(error: db::Error) -> Self {
        let message = error.to_string();
        match &error {
            db::Error::Damaged { path, .. } => Self::new(Exit::Data, message).hint(format!(
                "save what can be saved: sqlite3 {0} .recover > saved.sql; then move {0} away and start again",
                path.display()
            )),
            db::Error::Newer { .. } => {
                Self::new(Exit::Data, message).hint("use the newer version of agent-toolkit that wrote it")
            }
            db::Error::TooOld(_) => Self::new(Exit::Bug, message).hint("build with the bundled SQLite: cargo build --locked"),
            db::Error::Failed { .. } | db::Error::Closed(_) => {
                Self::new(Exit::Io, message).hint("look at the permissions of that file and at the free space with df")
            }
        }
    }
}

/// Parses the command line; on `--help`, `--version` and mistakes returns the exit code after
/// saying what there is to say.
///
/// # Errors
/// The exit code with which to end at once.
pub fn parse<T: Parser + CommandFactory>() -> Result<T, ExitCode> {
    T::try_parse().map_err(|error| {
        let wrong = error.use_stderr();
        if wrong && std::env::args().any(|argument| argument == "--json") {
            let text = error.to_string();
            let message = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            let failure = Failure::new(Exit::Usage, message).hint(format!("{} --help", T::command().get_name()));
            return report(T::command().get_name(), true, &failure);
        }
        // A closed pipe while help is printed is nobody's problem.
        let _ = error.print();
        ExitCode::from(if wrong { Exit::Usage as u8 } else { Exit::Ok as u8 })
    })
}

/// Returns what `--version` prints after the program's name.
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| format!("{} (SQLite {})", env!("CARGO_PKG_VERSION"), db::version()));
    &VERSION
}

/// Ends a program: says a failure, chooses the exit code.
pub fn end(program: &str, json: bool, result: Result<Exit, Failure>) -> ExitCode {
    match result {
        Ok(_) if LOST.load(Ordering::Relaxed) => {
            report(program, false, &Failure::new(Exit::Io, "standard output could not be written").hint("is its disk full?"))
        }
        Ok(exit) => ExitCode::from(exit as u8),
        Err(failure) => report(program, json, &failure),
    }
}

fn report(program: &str, json: bool, failure: &Failure) -> ExitCode {
    let message = crate::secret::redact(&failure.message);
    if json {
        let document = serde_json::json!({"error": {"code": failure.code(), "message": message, "hint": failure.hint}});
        out(&document.to_string());
    } else {
        err(&format!("{program}: {message}"));
        if let Some(hint) = &failure.hint {
            err(&format!("hint: {hint}"));
        }
    }
    ExitCode::from(failure.exit as u8)
}

/// Set when data could not be written; [`end`] says so.
static LOST: AtomicBool = AtomicBool::new(false);

/// Prints a line of data. A reader that has gone away is no error; a full disk is.
pub fn out(line: &str) {
    let mut stdout = std::io::stdout().lock();
    match writeln!(stdout, "{line}").and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => LOST.store(true, Ordering::Relaxed),
        _ => {}
    }
}

/// Prints words of the agent, which may be words of anybody: on a terminal without the characters
/// that command terminals.
pub fn speech(text: &str) {
    if std::io::stdout().is_terminal() {
        out(&text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect::<String>());
    } else {
        out(text);
    }
}

/// Prints a line of talk.
pub fn err(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Prints a JSON document.
pub fn json<T: serde::Serialize>(document: &T) {
    out(&serde_json::to_string_pretty(document).unwrap_or_default());
}

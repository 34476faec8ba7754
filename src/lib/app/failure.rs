//! How a program ends: its exit code, and what it says when it could not do its work.

use crate::{auth, config, db, sys};

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
        Self {
            exit,
            message: message.into(),
            hint: None,
        }
    }

    /// Returns a failure with the exit code of `Exit::Failed`: it was tried and did not succeed.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(Exit::Failed, message)
    }

    /// Returns a failure with the exit code of `Exit::Usage`: the command line is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    /// Returns a failure with the exit code of `Exit::Data`: what was given or is stored cannot be used.
    pub fn data(message: impl Into<String>) -> Self {
        Self::new(Exit::Data, message)
    }

    /// Returns a failure with the exit code of `Exit::NoDaemon`: no daemon runs.
    pub fn no_daemon(message: impl Into<String>) -> Self {
        Self::new(Exit::NoDaemon, message)
    }

    /// Returns a failure with the exit code of `Exit::Bug`: a bug of ours.
    pub fn bug(message: impl Into<String>) -> Self {
        Self::new(Exit::Bug, message)
    }

    /// Returns a failure with the exit code of `Exit::Io`: a file, a pipe or the terminal.
    pub fn io(message: impl Into<String>) -> Self {
        Self::new(Exit::Io, message)
    }

    /// Returns a failure with the exit code of `Exit::TryAgain`: busy, or too late: the same call may succeed.
    pub fn try_again(message: impl Into<String>) -> Self {
        Self::new(Exit::TryAgain, message)
    }

    /// Returns a failure with the exit code of `Exit::NotPermitted`: another user may.
    pub fn not_permitted(message: impl Into<String>) -> Self {
        Self::new(Exit::NotPermitted, message)
    }

    /// Returns a failure with the exit code of `Exit::Config`: the configuration.
    pub fn config(message: impl Into<String>) -> Self {
        Self::new(Exit::Config, message)
    }

    /// Adds the next step.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub(super) fn code(&self) -> &'static str {
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

impl From<auth::Error> for Failure {
    fn from(error: auth::Error) -> Self {
        let message = error.to_string();
        match error {
            auth::Error::File(error) => Self::from(error),
            auth::Error::Config(error) => Self::from(error),
            auth::Error::Mode { path, .. } => {
                Self::config(message).hint(format!("chmod 600 {}", path.display()))
            }
            auth::Error::Newer { path, .. } => Self::data(message).hint(format!(
                "use the newer agent-daemon that wrote it, or move {} away",
                path.display()
            )),
            auth::Error::Absent { provider } => {
                Self::config(message).hint(format!("agent-daemon login {provider}"))
            }
            auth::Error::SignedOut { provider, .. } => {
                Self::config(message).hint(format!("agent-daemon login {provider} --oauth"))
            }
            auth::Error::Trouble { .. } => Self::try_again(message)
                .hint("try again; if it stays so, look at the addresses in [oauth]"),
            auth::Error::Refused { .. } => {
                Self::failed(message).hint("try again: agent-daemon login")
            }
        }
    }
}

impl From<sys::Error> for Failure {
    fn from(error: sys::Error) -> Self {
        use std::io::ErrorKind::{
            AlreadyExists, PermissionDenied, ReadOnlyFilesystem, StorageFull,
        };
        let message = error.to_string();
        match error.source.kind() {
            PermissionDenied => Self::not_permitted(message)
                .hint("run it as the user whose agent it is, for the system unit: sudo -u agent agent-send …"),
            StorageFull => Self::io(message).hint("make room on that file system and try again; nothing was lost"),
            ReadOnlyFilesystem => {
                Self::io(message).hint("the home must be writable: remount it, or choose another with --home")
            }
            AlreadyExists => Self::io(message)
                .hint("move it away and start the daemon again: it makes its own and touches nothing else"),
            _ => Self::io(message).hint("look at that path with ls -ld, and at the file system with df"),
        }
    }
}

impl From<db::Error> for Failure {
    fn from(error: db::Error) -> Self {
        let message = error.to_string();
        match error {
            db::Error::File(error) => Self::from(error),
            db::Error::Damaged { path, .. } => Self::data(message).hint(format!(
                "save what can be saved: sqlite3 {0} .recover > saved.sql; then move {0} away and start again",
                path.display()
            )),
            db::Error::Newer { .. } => {
                Self::data(message).hint("use the newer version of agent-toolkit that wrote it")
            }
            db::Error::TooOld(_) => Self::bug(message).hint("build with the bundled SQLite: cargo build --locked"),
            db::Error::Failed { .. } | db::Error::Closed(_) => {
                Self::io(message).hint("look at the permissions of that file and at the free space with df")
            }
        }
    }
}

//! The end of a program: its exit code, and its error message with a hint.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::cli::quote;
use crate::{auth, config, db, sys, workspace};

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

impl From<workspace::Error> for Failure {
    fn from(error: workspace::Error) -> Self {
        let hint = error.hint();
        match error {
            workspace::Error::Home(error) => Self::from(error),
            error @ workspace::Error::Write { .. } => Self::io(error.to_string()).hint(hint),
        }
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
                .hint("try again; if it keeps failing, check the addresses in [oauth]"),
            auth::Error::Refused { .. } => {
                Self::failed(message).hint("try again: agent-daemon login")
            }
        }
    }
}

impl From<sys::Error> for Failure {
    fn from(error: sys::Error) -> Self {
        use std::io::ErrorKind::{
            AlreadyExists, InvalidData, NotADirectory, PermissionDenied, ReadOnlyFilesystem,
            StorageFull,
        };
        let message = error.to_string();
        match error.source.kind() {
            PermissionDenied => Self::not_permitted(message)
                .hint(who_may(&error.path)),
            StorageFull => Self::io(message).hint("make room on that file system, then do it again: nothing of it was stored"),
            ReadOnlyFilesystem => {
                Self::io(message).hint("the home must be writable: remount it, or choose another with --home")
            }
            AlreadyExists => Self::io(message)
                .hint("move it away and start the daemon again: it makes its own and touches nothing else"),
            NotADirectory => {
                let is_other = |path: &&Path| path.exists() && !path.is_dir();
                let other = error.path.ancestors().find(is_other).unwrap_or(&error.path);
                Self::io(message).hint(format!(
                    "{} is not a directory: move it away, or choose another home with --home",
                    quote(other)
                ))
            }
            InvalidData => Self::data(message).hint("correct that file, or move it away"),
            _ => Self::io(message).hint("look at that path with ls -ld, and at the file system with df"),
        }
    }
}

/// Returns what to do where `path` may not be used: what `sudo` once left amid one's own files is given back.
fn who_may(path: &Path) -> String {
    let owner = |path: &Path| std::fs::symlink_metadata(path).ok().map(|meta| meta.uid());
    let own = nix::unistd::geteuid().as_raw();
    // What is in a closed directory, or is not there yet, is its directory's matter.
    let path = path
        .ancestors()
        .find(|path| owner(path).is_some())
        .unwrap_or(path);
    who_may_of(path, owner(path), path.parent().and_then(owner), own)
}

fn who_may_of(path: &Path, owner: Option<u32>, around: Option<u32>, own: u32) -> String {
    let name = |uid: u32| {
        let user = nix::unistd::User::from_uid(uid.into()).ok().flatten();
        user.map_or_else(|| uid.to_string(), |user| user.name)
    };
    match owner {
        Some(owner) if owner != own && around == Some(own) => format!(
            "it belongs to {}, but its directory to you: sudo chown -R {}: {}",
            name(owner),
            quote(name(own)),
            quote(path)
        ),
        Some(owner) if owner == own => format!(
            "it is yours, and its mode keeps you out: chmod u+rwX {}",
            quote(path)
        ),
        _ => {
            "run it as the user whose agent it is, for the system unit: sudo -u agent agent-send …"
                .to_owned()
        }
    }
}

impl From<db::Error> for Failure {
    fn from(error: db::Error) -> Self {
        let message = error.to_string();
        let is_busy = error.is_busy();
        match error {
            db::Error::File(error) => Self::from(error),
            db::Error::Failed { path, .. } if is_busy => Self::try_again(message).hint(format!(
                "another program locks it and did not release it in time: `fuser {}` names it; end it, or try again later",
                quote(&path)
            )),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_where_a_directory_must_be_is_named() {
        let dir = tempfile::tempdir().expect("dir");
        let file = dir.path().join("notes");
        std::fs::File::create_new(&file).expect("it can be made");
        let below = file.join("state/queue.db");
        let error = std::fs::metadata(&below).map_err(sys::Error::at("read", &below));
        let failure = Failure::from(error.expect_err("a file has nothing below it"));
        let hint = failure.hint.unwrap_or_default();
        let named = format!("{} is not a directory", file.display());
        assert!(
            failure.exit == Exit::Io && hint.starts_with(&named),
            "{hint}"
        );
    }

    #[test]
    fn a_database_that_another_program_holds_is_tried_again_later() {
        let failed = |code| {
            let source = rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(code), None);
            let failure = Failure::from(db::Error::of(Path::new("/h/my state/queue.db"), source));
            (failure.exit, failure.hint.unwrap_or_default())
        };
        for code in [rusqlite::ffi::SQLITE_BUSY, rusqlite::ffi::SQLITE_LOCKED] {
            let (exit, hint) = failed(code);
            assert_eq!(exit, Exit::TryAgain);
            let named = "another program locks it";
            let command = "fuser '/h/my state/queue.db'";
            assert!(hint.starts_with(named) && hint.contains(command), "{hint}");
        }
        let (exit, hint) = failed(rusqlite::ffi::SQLITE_FULL);
        assert!(exit == Exit::Io && hint.contains("free space"), "{hint}");
    }

    #[test]
    fn a_file_of_somebody_else_amid_ones_own_is_named_with_chown() {
        let path = Path::new("/home/ada/my notes/plan.md");
        // No user has this id, so that it is named by its number.
        let own = 2_000_000_001;
        let hint = who_may_of(path, Some(0), Some(own), own);
        let command = format!("sudo chown -R {own}: '/home/ada/my notes/plan.md'");
        assert!(hint.ends_with(&command), "{hint}");
        let hint = who_may_of(path, Some(own), Some(own), own);
        assert!(
            hint.ends_with("chmod u+rwX '/home/ada/my notes/plan.md'"),
            "{hint}"
        );
        for (owner, around) in [(Some(0), Some(0)), (None, Some(own))] {
            let hint = who_may_of(path, owner, around, own);
            assert!(hint.starts_with("run it as the user"), "{hint}");
        }
    }
}

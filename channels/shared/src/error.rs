//! Errors with the directory of a channel.

use std::io;
use std::path::{Path, PathBuf};

/// An error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The channel is not switched on, or the daemon never ran.
    #[error(
        "{0} is not there: set enabled = true in [channels.{1}] of agent.toml and start agent-daemon"
    )]
    NotThere(PathBuf, String),
    /// Another process has the lock of the channel.
    #[error(
        "the channel is running: systemctl --user stop agent-channel@{0}; messages wait at the server meanwhile"
    )]
    Running(String),
    /// Another machine took the agent over, or is to.
    #[error(
        "the agent runs on another machine: systemctl --user disable --now agent-channel@{0}; agent-daemon standby --status shows more"
    )]
    Elsewhere(String),
    /// A disk that is full, or a file that is not ours.
    #[error("cannot {what} {path}: {source}")]
    Disk {
        /// What was tried.
        what: &'static str,
        /// On which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file that says something else than it should.
    #[error("{0} is not understood: {1}")]
    NotUnderstood(PathBuf, String),
}

impl Error {
    /// Returns what makes an error of a file one of ours.
    pub fn at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Disk { what, path, source }
    }

    /// Returns the exit code, of sysexits(3).
    pub fn code(&self) -> u8 {
        match self {
            Self::NotThere(..) | Self::Running(_) => 75,
            Self::Elsewhere(_) => 78,
            Self::Disk { .. } | Self::NotUnderstood(..) => 74,
        }
    }
}

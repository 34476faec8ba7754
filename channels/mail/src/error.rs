//! What goes wrong, by what can be done about it.

use std::io;
use std::path::{Path, PathBuf};

/// An error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The person changes a setting.
    #[error("{0}: {1}")]
    Settings(PathBuf, String),
    /// The channel is not switched on, or the daemon never ran.
    #[error(
        "{0} is not there: set enabled = true in [channels.{1}] of agent.toml and start agent-daemon"
    )]
    NotThere(PathBuf, String),
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
    /// A server that is away, or says no: it is tried again.
    #[error("{0}")]
    Server(String),
}

impl Error {
    /// Returns what makes an error of a file one of ours.
    pub fn at(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Disk { what, path, source }
    }

    /// Returns an error of a server, with what was tried.
    pub fn server(what: &str) -> impl Fn(&dyn std::fmt::Display) -> Self + use<> {
        let what = what.to_owned();
        move |error| Self::Server(format!("{what}: {error}"))
    }

    /// Returns the exit code, of sysexits(3).
    pub fn code(&self) -> u8 {
        match self {
            Self::Settings(..) => 78,
            Self::NotThere(..) | Self::Server(_) => 75,
            Self::Disk { .. } | Self::NotUnderstood(..) => 74,
        }
    }
}

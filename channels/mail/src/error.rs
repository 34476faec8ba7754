//! Errors, by what the caller can do about them.

use std::path::PathBuf;

/// An error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The person changes a setting.
    #[error("{0}: {1}")]
    Settings(PathBuf, String),
    /// The directory of the channel.
    #[error(transparent)]
    Channel(#[from] agent_channel::Error),
    /// A server that is away, or says no: it is tried again.
    #[error("{0}")]
    Server(String),
    /// Nobody is signed in: the server does not want the password or token, or there is none. It is tried again.
    #[error("{0}")]
    SignIn(String),
}

impl Error {
    /// Returns an error of a server, with what was tried.
    pub fn server(what: &str) -> impl Fn(&dyn std::fmt::Display) -> Self + use<> {
        let what = what.to_owned();
        move |error| Self::Server(format!("{what}: {error}"))
    }

    /// Returns the exit code, of sysexits(3).
    pub fn code(&self) -> u8 {
        match self {
            Self::Settings(..) => 78,
            Self::Server(_) | Self::SignIn(_) => 75,
            Self::Channel(error) => error.code(),
        }
    }
}

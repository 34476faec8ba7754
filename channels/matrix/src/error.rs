//! Errors, by what the caller can do about them.

use std::path::PathBuf;
use std::time::Duration;

use matrix_sdk::HttpError;
use matrix_sdk::ruma::api::error::{ErrorKind, RetryAfter};

/// What a homeserver may ask for at most: a slip in a unit must not silence the agent for years.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(3_600);

/// An error.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The person changes a setting.
    #[error("{0}: {1}")]
    Settings(PathBuf, String),
    /// The directory of the channel.
    #[error(transparent)]
    Channel(#[from] agent_channel::Error),
    /// Nobody is signed in, or no longer.
    #[error("{0}; sign in: agent-channel-matrix login")]
    SignedOut(String),
    /// The keys, or what else the library keeps.
    #[error("{0}")]
    Store(String),
    /// A server that does not do this now: it is tried again.
    #[error("{0}")]
    Server(String),
    /// A server that is away: nothing it would be asked now is answered.
    #[error("{0}")]
    Away(String),
    /// A server that names the time after which it may be asked again.
    #[error("{0}")]
    Limited(String, Duration),
    /// A server that says no, for good.
    #[error("{0}")]
    Refused(String),
}

impl Error {
    /// Returns what makes an error of the library's one of ours, with what was tried.
    pub fn of(what: &str) -> impl Fn(matrix_sdk::Error) -> Self + use<> {
        let what = what.to_owned();
        move |error| match &error {
            matrix_sdk::Error::Http(http) => Self::http(&what, http),
            matrix_sdk::Error::AuthenticationRequired => {
                Self::SignedOut(format!("{what}: not signed in"))
            }
            matrix_sdk::Error::StateStore(_)
            | matrix_sdk::Error::CryptoStoreError(_)
            | matrix_sdk::Error::Io(_) => Self::Store(format!("{what}: {error}")),
            _ => Self::Refused(format!("{what}: {error}")),
        }
    }

    /// Returns what an answer of the server's, or none, means.
    pub fn http(what: &str, error: &HttpError) -> Self {
        let why = format!("{what}: {}", told(error));
        if let HttpError::Reqwest(error) = error {
            return match error.is_connect() {
                true => Self::Away(why),
                false => Self::Server(why),
            };
        }
        match error.client_api_error_kind() {
            Some(ErrorKind::UnknownToken(_) | ErrorKind::MissingToken) => {
                return Self::SignedOut(why);
            }
            Some(ErrorKind::LimitExceeded(limit)) => {
                let pause = match limit.retry_after {
                    Some(RetryAfter::Delay(pause)) => pause.min(LONGEST_PAUSE),
                    Some(RetryAfter::DateTime(_)) | None => Duration::from_secs(5),
                };
                return Self::Limited(why, pause);
            }
            _ => {}
        }
        let names_error = error.client_api_error_kind().is_some();
        match error
            .as_client_api_error()
            .map(|error| error.status_code.as_u16())
        {
            Some(status) if is_away(status, names_error) => Self::Away(why),
            // Nobody knows what stands between; and what the server cannot do now it may do later.
            None | Some(408 | 425 | 429 | 500..) => Self::Server(why),
            Some(_) => Self::Refused(why),
        }
    }

    /// Returns whether everything else at the homeserver has to wait as well: it is away, or asks for a pause.
    pub fn is_of_all(&self) -> bool {
        matches!(self, Self::Away(_) | Self::Limited(..))
    }

    /// Returns the exit code, of sysexits(3).
    pub fn code(&self) -> u8 {
        match self {
            Self::Settings(..) => 78,
            Self::SignedOut(_) => 77,
            Self::Server(_) | Self::Away(_) | Self::Limited(..) => 75,
            Self::Refused(_) => 69,
            Self::Store(_) => 74,
            Self::Channel(error) => error.code(),
        }
    }
}

/// Returns whether an answer is no word of the homeserver's on what was asked, `names_error` being whether it has an
/// `errcode`: what stands before it says 502 or 503 while it starts or is being replaced. (504 it says also of one request
/// that takes too long, such as a file of a remote server that does not answer.)
pub fn is_away(status: u16, names_error: bool) -> bool {
    status == 429 || (matches!(status, 502 | 503) && !names_error)
}

/// Returns an error with what caused it: reqwest alone only says "error sending request".
fn told(error: &HttpError) -> String {
    let mut all = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let cause_told = cause.to_string();
        if !all.contains(&cause_told) {
            all.push_str(": ");
            all.push_str(&cause_told);
        }
        source = cause.source();
    }
    all
}

//! Credentials for providers: keys and tokens that `agent-daemon login` stores, where a
//! provider's key comes from, and OAuth 2.0 with PKCE (RFC 6749, RFC 7636, RFC 8252).
//!
//! ```text
//! state/auth.json   0600, written whole (fsync, rename), changed under auth.lock
//! {"version": 1, "providers": {
//!   "anthropic": {"api_key": {"key": "…", "obtained_at": "2026-11-22T12:00:00.000Z", "unverified": true?}},
//!   "house":     {"oauth": {"access": "…", "refresh": "…", "expires_at": "…", "obtained_at": "…",
//!                           "scope": "…", "token_url": "…", "client_id": "…"}}}}
//! ```
//! Unknown fields are kept. A malformed file counts as "not configured" and is kept; the next `login` moves it aside.
//! Sources of a key, the first found wins: systemd credential, sign-in, stored key, environment, `.env`.
//!
//! A token is renewed under a lock of its provider (`auth.NAME.lock`), by one process: the others wait and read the result.
//! Before the request to the issuer, `renewing_at` is written: so an unwritable disk is detected before the old refresh token
//! is used up, and a crash between the issuer's answer and our fsync is detected afterwards. With issuers that accept an old
//! refresh token again the sign-in then continues; with the others it has ended, and the message says why.

mod keys;
mod oauth;
mod redirect_listener;
mod refresh;
mod server;
mod store;
mod verify_key;

pub use keys::{Keys, Origin, ProviderKey, Source};
pub use oauth::{ClientSecret, Flow, Granted, is_openrouter};
pub use redirect_listener::{Callback, Listener};
pub use refresh::Renewals;
pub use server::{Client, Issuer, Place, ServerSignIns, discover, register};
pub use store::{Contents, State};
pub use verify_key::{Verdict, models, probe};

use std::path::PathBuf;

use crate::config;
use crate::sys;

/// Why a key or token is missing or cannot be stored. `host` is host and port.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Others can read the file.
    #[error("{}: its mode {mode:04o} lets group or others read it", path.display())]
    Mode { path: PathBuf, mode: u32 },
    /// A newer version of the program wrote the file.
    #[error("{}: unknown version {version}; this build supports version 1", path.display())]
    Newer { path: PathBuf, version: u64 },
    #[error(transparent)]
    File(#[from] sys::Error),
    /// A secret of the configuration cannot be read.
    #[error(transparent)]
    Config(#[from] config::Error),
    /// The provider needs a key and has none.
    #[error("the provider {provider} has no key")]
    Absent { provider: String },
    #[error("the sign-in to {provider} has expired: {reason}")]
    SignedOut { provider: String, reason: String },
    /// The issuer of tokens cannot be reached or has trouble.
    #[error("{host} issued no token: {reason}")]
    Trouble { host: String, reason: String },
    /// The issuer says no; `code` is the error code of RFC 6749 §5.2, or empty.
    #[error("{host} refused: {reason}")]
    Refused {
        host: String,
        code: String,
        reason: String,
    },
}

impl Error {
    /// Returns the trouble that `host` has.
    fn trouble(host: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Trouble {
            host: host.into(),
            reason: reason.into(),
        }
    }
}

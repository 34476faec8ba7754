//! `[callback]`: another program that receives the result of each message.

use serde::{Deserialize, Serialize};

/// `[callback]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Callback {
    /// The address for the `POST` requests: `https://`, or `http://` on this machine; default empty: no requests.
    pub url: String,
    /// The name of the secret that is sent as a bearer token; default empty: none.
    pub token_env: String,
}

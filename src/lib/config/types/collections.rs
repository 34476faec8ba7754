//! `[memory.collections]`: shared documents in PostgreSQL databases.

use serde::{Deserialize, Serialize};

/// `[memory.collections.NAME]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Collection {
    /// The database, without a password: `postgres://agent@db.example.org/knowledge`; default none.
    pub url: String,
    /// The variable, or the secret in `.env`, with the password for `url`; default none.
    pub password_env: String,
    /// Whose messages it is searched for; default `owner`.
    pub readers: Readers,
    /// Whether it is searched before each of their messages, too; default false.
    pub recall: bool,
}

/// The people for whom a collection is searched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Readers {
    /// The owner, where nobody else reads the answer.
    #[default]
    Owner,
    /// Everybody who may speak with the agent: guests and groups, too.
    Everybody,
}

//! `[http.hooks.NAME]`: other programs report events with `POST /hooks/NAME`.

use serde::{Deserialize, Serialize};

/// `[http.hooks.NAME]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Hook {
    /// The name of the variable, credential or `.env` entry with the secret of this webhook; empty (default) stands
    /// for `AGENT_HOOK_NAME`.
    pub secret_env: String,
    /// The text of the event: `{repository.name}` is a value of the request body, `{}` the whole body, `{@x-github-event}` a
    /// header; default `{}`.
    pub template: String,
    /// What becomes of it; default `reply`.
    pub deliver: Deliver,
    /// Where the agent reads it; default `own`.
    pub session: HookSession,
    /// Events that are taken a minute, as many at once; default 30.
    pub per_minute: u32,
}

impl Default for Hook {
    fn default() -> Self {
        Self {
            secret_env: String::new(),
            template: "{}".to_owned(),
            deliver: Deliver::Reply,
            session: HookSession::Own,
            per_minute: 30,
        }
    }
}

impl Hook {
    /// Returns the name of the secret of the hook that is called `name`.
    pub fn secret_name(&self, name: &str) -> String {
        if self.secret_env.is_empty() {
            format!("AGENT_HOOK_{}", name.to_ascii_uppercase().replace('-', "_"))
        } else {
            self.secret_env.clone()
        }
    }
}

/// What becomes of an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Deliver {
    /// The agent reads it and tells the owner what matters.
    #[default]
    Reply,
    /// Its words go to the owner as they are; no model is called.
    Text,
    /// The agent reads it; what it says goes nowhere.
    Nothing,
}

/// Where the agent reads an event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HookSession {
    /// In a conversation of the hook's own.
    #[default]
    Own,
    /// In the conversation with the owner.
    Owner,
}

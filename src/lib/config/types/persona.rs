//! `[agent.typing]` and `[agent.stickers]`: how a persona behaves in plan mode.

use serde::{Deserialize, Serialize};

/// `[agent.typing]`; seconds, not negative, at most an hour.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Typing {
    /// Before a message, whatever its length; default 2.
    pub start_delay_secs: f64,
    /// Signs that are typed in a second; 0 = typing takes no time; default 60.
    pub chars_per_sec: f64,
    /// Before a sticker; default 4.
    pub sticker_delay_secs: f64,
}

impl Default for Typing {
    fn default() -> Self {
        Self {
            start_delay_secs: 2.0,
            chars_per_sec: 60.0,
            sticker_delay_secs: 4.0,
        }
    }
}

impl Typing {
    /// Returns how long a person would take for `chars` signs, seconds.
    pub fn before(&self, chars: usize) -> f64 {
        let typed = if self.chars_per_sec > 0.0 {
            chars as f64 / self.chars_per_sec
        } else {
            0.0
        };
        self.start_delay_secs + typed
    }
}

/// Whether answers in chats are spoken.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Voice {
    /// Those to voice messages.
    Auto,
    /// All.
    Always,
    /// None, unless the model calls `tts`.
    #[default]
    Never,
}

/// `[agent.stickers]`: what the agent may send, as tasks of plans or by the tool `sticker`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Stickers {
    /// Names of sets whose stickers the agent may send; default none.
    pub sets: Vec<String>,
    /// Single stickers, `SET :: NAME`; default none.
    pub stickers: Vec<String>,
}

impl Stickers {
    /// Returns true when none may be sent.
    pub fn is_empty(&self) -> bool {
        self.sets.is_empty() && self.stickers.is_empty()
    }

    /// Returns true for a sticker that may be sent.
    pub fn allow(&self, set: &str, name: &str) -> bool {
        let is_it = |sticker: &String| {
            let known = sticker.split_once("::");
            known.is_some_and(|(of, known)| of.trim() == set && known.trim() == name.trim())
        };
        self.sets.iter().any(|one| one == set) || self.stickers.iter().any(is_it)
    }
}

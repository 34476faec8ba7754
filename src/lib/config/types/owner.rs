//! `[owner]`: where the owner receives notifications.

use serde::{Deserialize, Serialize};

/// `[owner]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Owner {
    /// The channels for events, notices, questions and jobs that have no chat of their own, the first that is on and has an
    /// owner; default none: where the owner was last heard.
    pub notify: Vec<String>,
}

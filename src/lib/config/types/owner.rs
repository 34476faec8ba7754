//! `[owner]`: where the owner receives notifications.

use serde::{Deserialize, Serialize};

/// `[owner]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, expecting = "a table")]
pub struct Owner {
    /// The channels for events, notices, questions and jobs without their own chat; the first enabled one with an
    /// owner is used; default none: where the owner wrote last.
    pub notify: Vec<String>,
}

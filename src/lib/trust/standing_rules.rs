//! What the owner allowed permanently, with "always": rules that a question showed, each by its digest. The agent's
//! tools cannot reach the file; anyone who edits it takes a rule back.
//!
//! ```text
//! state/rules.json   {"v":1,"rules":{DIGEST:{"rule":"message to @ana","at":MS}}}
//! ```

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::sys;
use crate::sys::{atomic, lock};

/// `rules.json`.
#[derive(Debug, Clone)]
pub(crate) struct StandingRules {
    path: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Contents {
    v: u32,
    rules: BTreeMap<String, Rule>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Rule {
    /// In words.
    rule: String,
    /// When it was allowed, milliseconds since 1970 UTC.
    at: i64,
}

impl StandingRules {
    /// Returns the file at `path`, which need not exist.
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
        }
    }

    /// Returns true when the rule of this digest was allowed. A file that cannot be read allows nothing.
    pub(crate) fn allows(&self, digest: &str) -> bool {
        match self.read() {
            Ok(contents) => contents.rules.contains_key(digest),
            Err(error) => {
                tracing::warn!(%error, file = %self.path.display(), "rules.json cannot be read: the owner is asked for every approval");
                false
            }
        }
    }

    /// Writes a rule down.
    ///
    /// # Errors
    /// When the file cannot be locked, read or written.
    pub(crate) fn add(&self, digest: &str, rule: &str, now: i64) -> Result<(), sys::Error> {
        let _lock = lock::lock_beside(&self.path)?;
        let mut contents = self.read()?;
        let rule = Rule {
            rule: rule.to_owned(),
            at: now,
        };
        contents.v = 1;
        contents.rules.insert(digest.to_owned(), rule);
        atomic::write_json(&self.path, &contents, atomic::Durability::Full)
    }

    fn read(&self) -> Result<Contents, sys::Error> {
        Ok(atomic::read_json(&self.path)?.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_stands_until_it_is_taken_out() {
        let dir = tempfile::tempdir().expect("dir");
        let rules = StandingRules::new(&dir.path().join("rules.json"));
        assert!(!rules.allows("d1"));
        rules.add("d1", "message to @ana", 5).expect("write");
        assert!(rules.allows("d1") && !rules.allows("d2"));
        let text = std::fs::read_to_string(dir.path().join("rules.json")).expect("read");
        assert!(text.contains("message to @ana"), "{text}");
    }
}

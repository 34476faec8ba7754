//! `channel.json`: the capabilities of mail, and why no mail is received or sent until a person acts.

use std::cell::RefCell;

use agent_channel::Spool;
use serde_json::json;

use crate::error::Error;

/// The state of the channel.
pub struct State<'a> {
    spool: &'a Spool,
    /// Why nothing can be read, and why nothing can be sent.
    problems: RefCell<[Option<String>; 2]>,
}

impl<'a> State<'a> {
    /// Returns the state of a channel that works.
    pub fn new(spool: &'a Spool) -> Self {
        Self {
            spool,
            problems: RefCell::default(),
        }
    }

    /// Says why the mailbox cannot be read, or that it can.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn reading(&self, problem: Option<&str>) -> Result<(), Error> {
        self.set(0, problem)
    }

    /// Says why nothing can be sent, or that it can.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn sending(&self, problem: Option<&str>) -> Result<(), Error> {
        self.set(1, problem)
    }

    fn set(&self, which: usize, problem: Option<&str>) -> Result<(), Error> {
        {
            let mut problems = self.problems.borrow_mut();
            let Some(known) = problems.get_mut(which) else {
                return Ok(());
            };
            if known.as_deref() == problem {
                return Ok(());
            }
            *known = problem.map(str::to_owned);
        }
        self.tell()
    }

    /// Writes it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn tell(&self) -> Result<(), Error> {
        let problems = self.problems.borrow();
        let mut told: Vec<&str> = problems.iter().flatten().map(String::as_str).collect();
        told.dedup();
        let problem = (!told.is_empty()).then(|| told.join("; "));
        // A mail may be long; it has no edits, reactions or buttons.
        let can = json!({"length": 200_000, "length_unit": "chars", "formats": ["markdown"], "edits": false,
            "reactions": false, "files": true, "threads": true, "buttons": false, "problem": problem});
        Ok(self.spool.announce(&can)?)
    }
}

//! [`Record`]: what a home knows of its role, in `state/standby.json`. A home without one has no standby and is none.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Beacon, EVERY_MS, Error, read_json};
use crate::clock;
use crate::config::Home;
use crate::sys::atomic::{self, Durability};

/// What is in the directory of a channel while the agent runs elsewhere, see agent-channel(7).
const ELSEWHERE: &str = "elsewhere";
/// Pushes that are so late are told.
const LATE_MS: i64 = 10 * 60_000 + EVERY_MS;
/// A proof comes once an hour and may take long.
const UNPROVED_MS: i64 = 3 * 3_600_000;

/// What a home is to its agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The agent runs here.
    Primary,
    /// It was handed over: it runs nowhere until one of the two is promoted.
    HandedOver,
    /// Another machine took over.
    Replaced,
    /// It waits here as a copy.
    Standby,
    /// The copy is being put into its place.
    Promoting,
}

impl Role {
    /// Returns what it is, behind "this home is".
    pub fn words(self) -> &'static str {
        match self {
            Self::Primary => "the primary: the agent runs here",
            Self::HandedOver => "handed over: the agent is to run on its standby",
            Self::Replaced => "replaced: the agent runs on another machine",
            Self::Standby => "a standby: the agent runs on another machine",
            Self::Promoting => "a standby whose promotion is not finished",
        }
    }
}

/// How this home came to be the primary; times are milliseconds since 1970 UTC.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeOver {
    /// When.
    pub at: i64,
    /// What was on the disk of the machine before then is here.
    pub copied_at: i64,
    /// Whether it handed over: then nothing is missing.
    pub handed_over: bool,
}

/// What a home knows of its role and of the other machine; times are milliseconds since 1970 UTC by this machine's clock.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The id of the agent; empty on a standby that has not heard of it.
    pub agent: String,
    /// What this home is.
    pub role: Role,
    /// Counted up by each promotion.
    pub generation: u64,
    /// Where a primary pushes to, what a standby reads.
    pub replica: String,
    /// Since when it pushes, or waits.
    pub since: i64,
    /// When the last whole push began; on a standby, when it had come in.
    pub copied_at: Option<i64>,
    /// When a copy was last proved on the standby; on a primary, when that was heard of.
    pub proven_at: Option<i64>,
    /// What is wrong here.
    pub trouble: Option<String>,
    /// On a primary: the last word of the standby.
    pub beacon: Option<Beacon>,
    /// How it became the primary.
    pub taken_over: Option<TakeOver>,
}

impl Record {
    pub(super) fn new(role: Role, agent: String) -> Self {
        Self {
            agent,
            role,
            generation: u64::from(role == Role::Primary),
            replica: String::new(),
            since: clock::now_ms(),
            copied_at: None,
            proven_at: None,
            trouble: None,
            beacon: None,
            taken_over: None,
        }
    }

    pub(super) fn write(&self, home: &Home, durability: Durability) -> Result<(), Error> {
        atomic::write_json(&path(home), self, durability)?;
        let is_elsewhere = matches!(self.role, Role::HandedOver | Role::Replaced);
        tell_channels(home, is_elsewhere)
    }

    /// Returns what the owner is to know: copies do not arrive, or are not proved. The words stay the same while nothing
    /// changes.
    pub fn alarm(&self, now: i64) -> Option<String> {
        let because = |why: Option<&String>| why.map_or_else(String::new, |why| format!(": {why}"));
        let copied_at = self.copied_at.unwrap_or(self.since);
        let late = (now - copied_at > LATE_MS).then(|| {
            let why = because(self.trouble.as_ref());
            let since = clock::rfc3339(copied_at);
            format!("no copy reaches the standby since {since}{why}")
        });
        match self.role {
            Role::Primary if self.replica.is_empty() => None,
            Role::Primary => late.or_else(|| {
                let proven_at = self.proven_at.unwrap_or(self.since);
                let beacon = self.beacon.as_ref();
                let why = because(beacon.and_then(|beacon| beacon.trouble.as_ref()));
                let since = clock::rfc3339(proven_at);
                (now - proven_at > UNPROVED_MS)
                    .then(|| format!("the standby has proved no copy since {since}{why}"))
            }),
            Role::Standby => late.or_else(|| self.trouble.clone()),
            Role::HandedOver | Role::Replaced | Role::Promoting => {
                let why = because(self.trouble.as_ref());
                Some(format!("this home is {}{why}", self.role.words()))
            }
        }
    }
}

/// Tells the programs of channels whether the agent runs on another machine: they see nothing but their directories.
fn tell_channels(home: &Home, is_elsewhere: bool) -> Result<(), Error> {
    let channels = std::fs::read_dir(home.state().join("channels"));
    for channel in channels.into_iter().flatten().flatten() {
        let note = channel.path().join(ELSEWHERE);
        match (is_elsewhere, note.exists()) {
            (true, false) => atomic::write(&note, b"", Durability::Rename)?,
            (false, true) => super::copy::remove(&note)?,
            _ => {}
        }
    }
    Ok(())
}

fn path(home: &Home) -> PathBuf {
    home.state().join("standby.json")
}

/// Returns what this home knows of its role; `None` when it has no standby and is none.
///
/// # Errors
/// When the file is there and cannot be read: then nobody knows whether the agent may run here.
pub fn read(home: &Home) -> Result<Option<Record>, Error> {
    read_json(&path(home))
}

/// Checks that the agent may run here, as far as this home knows.
///
/// # Errors
/// [`Error::Role`], or when the record cannot be read.
pub fn may_run(home: &Home) -> Result<(), Error> {
    match read(home)?.map(|record| record.role) {
        None | Some(Role::Primary) => Ok(()),
        Some(role) => Err(Error::Role { role }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000;

    #[test]
    fn channels_are_told_where_the_agent_runs() {
        let dir = tempfile::tempdir().expect("dir");
        let home = super::super::copy::home_of(dir.path()).expect("a home");
        home.create().expect("directories");
        let channel = home.state().join("channels/mail");
        std::fs::create_dir_all(&channel).expect("writable");
        let told = |role| {
            let record = Record::new(role, "a".to_owned());
            record
                .write(&home, Durability::Rename)
                .expect("it is written");
            channel.join("elsewhere").exists()
        };
        let roles = [
            Role::Primary,
            Role::Replaced,
            Role::Replaced,
            Role::Primary,
            Role::HandedOver,
        ];
        assert_eq!(roles.map(told), [false, true, true, false, true]);
    }

    #[test]
    fn what_keeps_a_standby_from_taking_over_is_told_and_nothing_else() {
        let record = |role, copied_at, proven_at| Record {
            since: 0,
            replica: "vps:/replica".to_owned(),
            copied_at: Some(copied_at),
            proven_at: Some(proven_at),
            ..Record::new(role, "a".to_owned())
        };
        let now = 10 * HOUR;
        assert_eq!(record(Role::Primary, now, 8 * HOUR).alarm(now), None);
        let late = record(Role::Primary, 9 * HOUR, now);
        let words = "no copy reaches the standby since 1970-01-01T09:00:00.000Z";
        assert_eq!(late.alarm(now).as_deref(), Some(words));
        assert_eq!(
            late.alarm(now + 1).as_deref(),
            Some(words),
            "the same words"
        );
        let unproved = Record {
            beacon: Some(Beacon {
                trouble: Some("disk full".to_owned()),
                ..Beacon::default()
            }),
            ..record(Role::Primary, now, HOUR)
        };
        let words = "the standby has proved no copy since 1970-01-01T01:00:00.000Z: disk full";
        assert_eq!(unproved.alarm(now).as_deref(), Some(words));
        assert_eq!(record(Role::Standby, now, 0).alarm(now), None);
        assert!(record(Role::Standby, 9 * HOUR, now).alarm(now).is_some());
        assert!(record(Role::Promoting, now, now).alarm(now).is_some());
        let alone = Record::new(Role::Primary, String::new());
        assert_eq!(
            alone.alarm(i64::MAX),
            None,
            "took over, and has no standby yet"
        );
    }
}

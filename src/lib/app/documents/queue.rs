//! `queue`: waiting messages, pending deliveries, and dead letters.

use serde::Serialize;

use crate::app::cli::Failure;
use crate::config::Home;
use crate::control::spool;
use crate::message::Wanted;
use crate::{clock, queue, sys, text};

/// `queue`.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Queue {
    /// Inputs not yet answered, oldest first.
    pub inbox: Vec<Open>,
    /// Parts not yet sent, oldest first.
    pub outbox: Vec<Open>,
    /// What was given up, oldest first.
    pub dead: Vec<Dead>,
    /// What waits for the owner's word, oldest first.
    pub approvals: Vec<Waiting>,
}

/// Something that the agent may do only when its owner says so.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Waiting {
    pub id: String,
    pub session: String,
    pub tool: String,
    /// What would be done; others may have chosen these words.
    pub text: String,
    /// The same as a person is to see it: long runs as their number, hidden characters as their codes.
    pub shown: String,
    pub why: String,
    /// Since when, RFC 3339 UTC.
    pub created_at: String,
    /// When it counts as denied, RFC 3339 UTC.
    pub expires_at: String,
    /// What may be allowed for the rest of the conversation or always; absent where only this once may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The expected answer, if it is a text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted: Option<Wanted>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Open {
    /// The input's id, or `out-<n>`.
    pub id: String,
    pub place: String,
    pub state: String,
    pub attempts: i64,
    /// Since when, RFC 3339 UTC.
    pub created_at: String,
    /// What its turn waits for, while it is suspended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits: Option<Waits>,
}

/// What a suspended turn waits for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Waits {
    /// In plain words.
    pub waits_for: String,
    /// Since when, RFC 3339 UTC.
    pub since: String,
    /// When it is tried again at the latest, RFC 3339 UTC.
    pub retry_at: String,
    /// How the last try failed.
    pub last_error: String,
    /// How often it was tried.
    pub tries: u32,
}

impl From<queue::Suspended> for Waits {
    fn from(suspended: queue::Suspended) -> Self {
        Self {
            waits_for: suspended.waits_for,
            since: clock::rfc3339(suspended.since),
            retry_at: clock::rfc3339(suspended.wake_at),
            last_error: suspended.detail,
            tries: suspended.tries,
        }
    }
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct Dead {
    /// The input's id, or `out-<n>`.
    pub id: String,
    /// `inbox` or `outbox`.
    pub kind: String,
    /// Since when, RFC 3339 UTC.
    pub created_at: String,
    pub attempts: i64,
    pub reason: String,
}

/// `approvals`: the part of `queue` that waits for the owner.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Approvals {
    /// What waits for the owner's word, oldest first.
    pub approvals: Vec<Waiting>,
}

fn waiting(request: queue::Request) -> Waiting {
    Waiting {
        id: request.id,
        session: request.session_key,
        tool: request.tool,
        shown: text::for_decision(&request.question),
        text: request.question,
        why: request.why,
        created_at: clock::rfc3339(request.created_at),
        expires_at: clock::rfc3339(request.expires_at),
        rule: request.rule.map(|(words, _)| words),
        wanted: request.wanted,
    }
}

/// Returns the queue document; a daemon need not run.
pub(crate) fn queue(home: &Home) -> Result<Queue, Failure> {
    let listing = queue::listing(&home.queue_db())?;
    let open = |row: queue::Open| Open {
        id: row.id,
        place: row.place,
        state: row.state,
        attempts: row.attempts,
        created_at: clock::rfc3339(row.created_at),
        waits: row.suspended.map(Waits::from),
    };
    let dead = |row: queue::Dead| Dead {
        id: row.id,
        kind: row.kind,
        created_at: clock::rfc3339(row.created_at),
        attempts: row.attempts,
        reason: row.reason,
    };
    // What no daemon has seen yet waits too.
    let spooled = spool::scan(&home.spool_new())?
        .into_iter()
        .map(|entry| Open {
            created_at: sys::modified_at(&entry.path)
                .map(clock::rfc3339)
                .unwrap_or_default(),
            id: entry.id.to_string(),
            place: "spool".to_owned(),
            state: "queued".to_owned(),
            attempts: 0,
            waits: None,
        });
    Ok(Queue {
        inbox: listing.inbox.into_iter().map(open).chain(spooled).collect(),
        outbox: listing.outbox.into_iter().map(open).collect(),
        dead: listing.dead.into_iter().map(dead).collect(),
        approvals: approvals(home)?.approvals,
    })
}

/// Returns the approvals document; a daemon need not run.
pub(crate) fn approvals(home: &Home) -> Result<Approvals, Failure> {
    let requests = queue::approvals(&home.queue_db(), clock::now_ms())?;
    Ok(Approvals {
        approvals: requests.into_iter().map(waiting).collect(),
    })
}

//! The shared state of the running channel.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use agent_channel::{Spool, now_ms};
use matrix_sdk::Client;
use tokio::sync::Notify;

use crate::previews::Later;
use crate::settings::Settings;

/// So often what belongs to one event is asked for, when that alone is not to be had.
const TRIES: u32 = 5;
/// So many events are counted at a time.
const MOST_COUNTED: usize = 10_000;

/// The running channel.
pub struct Bot {
    /// The settings.
    pub settings: Settings,
    /// The files between it and the daemon.
    pub spool: Spool,
    /// The session at the homeserver.
    pub client: Client,
    /// Whether the homeserver answered last.
    is_reachable: Cell<bool>,
    /// Notified when it answers again, and when something appears in `out/`.
    pub changed: std::sync::Arc<Notify>,
    /// Nothing more is to be claimed.
    pub is_ending: Cell<bool>,
    /// A message is claimed, and nothing said of it yet.
    pub is_sending: Cell<bool>,
    /// Invitations that were open at the start have been looked at.
    pub has_looked: Cell<bool>,
    /// No event of a preview before this, milliseconds since 1970 UTC.
    pub next_preview_ms: Cell<u64>,
    /// Previews that came too soon.
    pub later: RefCell<Later>,
    /// How often something that belongs to an event could not be had.
    failures: RefCell<HashMap<String, u32>>,
    /// What was told, and when.
    told: RefCell<HashMap<String, u64>>,
}

impl Bot {
    /// Returns the channel, of whose homeserver nothing is known yet.
    pub fn new(settings: Settings, spool: Spool, client: Client) -> Self {
        Self {
            settings,
            spool,
            client,
            is_reachable: Cell::new(false),
            changed: std::sync::Arc::default(),
            is_ending: Cell::new(false),
            is_sending: Cell::new(false),
            has_looked: Cell::new(false),
            next_preview_ms: Cell::new(0),
            later: RefCell::default(),
            failures: RefCell::default(),
            told: RefCell::default(),
        }
    }

    /// Returns whether the homeserver answered last.
    pub fn is_reachable(&self) -> bool {
        self.is_reachable.get()
    }

    /// Says whether the homeserver answered.
    pub fn set_reachable(&self, is_reachable: bool) {
        let was = self.is_reachable.replace(is_reachable);
        if is_reachable && !was {
            tracing::info!(homeserver = %self.client.homeserver(), "the homeserver answers");
            self.changed.notify_one();
        }
    }

    /// Returns true when what belongs to an event failed so often that the event goes on without it: one file that is not
    /// to be had must not hold up all that comes after it.
    pub fn gives_up(&self, event: &str) -> bool {
        let mut failures = self.failures.borrow_mut();
        if failures.len() > MOST_COUNTED {
            failures.clear();
        }
        let count = failures.entry(event.to_owned()).or_default();
        *count += 1;
        *count >= TRIES
    }

    /// Returns true when `what` was not asked about for an hour.
    pub fn is_first_this_hour(&self, what: &str) -> bool {
        let now = now_ms();
        let mut told = self.told.borrow_mut();
        told.retain(|_, at| now.abs_diff(*at) < 3_600_000);
        let is_first = !told.contains_key(what) && told.len() < MOST_COUNTED;
        if is_first {
            told.insert(what.to_owned(), now);
        }
        is_first
    }
}

//! An issuer of OAuth 2.0 tokens on loopback, OpenRouter's own form of it too, and a list of models behind a
//! key. It checks PKCE for real, hands out each code once, and rotates refresh tokens: an old one is
//! `invalid_grant`.

mod serve;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use tokio::sync::Semaphore;

use super::{
    server::{Server, lock},
    wait::look_until,
};

/// The client id it knows.
pub(crate) const CLIENT: &str = "agent-of-a-test";

/// The fake; dropping it closes the port.
pub(crate) struct FakeIssuer {
    server: Server,
    shared: Arc<Shared>,
}

/// What the next renewal gets instead of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// An error status without a word.
    Status(u16),
    /// The tokens, once [`FakeIssuer::go_on`] is called; the old refresh token is used up at once.
    Held,
}

struct Shared {
    state: Mutex<State>,
    held: Semaphore,
}

#[derive(Default)]
struct State {
    /// Codes that were given and not used: (challenge, redirect_uri).
    codes: BTreeMap<String, (String, String)>,
    /// How many tokens were made; they are numbered.
    made: u32,
    /// The refresh token that is good now.
    refresh: String,
    /// How long an access token lives, seconds.
    lives: u64,
    /// The person says no.
    denies: bool,
    /// Codes have expired when they come back.
    late: bool,
    renewals: Vec<Renewal>,
    renewed: usize,
    exchanged: usize,
}

impl FakeIssuer {
    /// Starts one on a free port; its access tokens live for an hour.
    pub(crate) fn start() -> Self {
        let state = State {
            lives: 3600,
            ..State::default()
        };
        let shared = Arc::new(Shared {
            state: Mutex::new(state),
            held: Semaphore::new(0),
        });
        Self {
            server: Server::start("fake-issuer", serve::routes(Arc::clone(&shared))),
            shared,
        }
    }

    /// Returns its address.
    pub(crate) fn url(&self) -> &str {
        self.server.url()
    }

    /// Returns the `[oauth]` table of a provider file.
    pub(crate) fn table(&self) -> String {
        let url = self.url();
        format!(
            "[oauth]\nauthorize_url = \"{url}/authorize?tenant=t1\"\ntoken_url = \"{url}/token\"\nclient_id = \"{CLIENT}\"\n\
             scope = \"models read\"\n"
        )
    }

    /// Lets access tokens live for so long from now on.
    pub(crate) fn lives(&self, secs: u64) {
        lock(&self.shared.state).lives = secs;
    }

    /// Lets the person say no, or yes again.
    pub(crate) fn denies(&self, denies: bool) {
        lock(&self.shared.state).denies = denies;
    }

    /// Lets codes expire before they come back, or not.
    pub(crate) fn late(&self, late: bool) {
        lock(&self.shared.state).late = late;
    }

    /// Queues what the next renewal gets.
    pub(crate) fn push(&self, renewal: Renewal) {
        lock(&self.shared.state).renewals.push(renewal);
    }

    /// Ends the good refresh token: the sign-in was taken back.
    pub(crate) fn revoke(&self) {
        lock(&self.shared.state).refresh = "revoked".to_owned();
    }

    /// Lets held renewals go on.
    pub(crate) fn go_on(&self) {
        self.shared.held.add_permits(100);
    }

    /// Returns how many renewals were asked for.
    pub(crate) fn renewed(&self) -> usize {
        lock(&self.shared.state).renewed
    }

    /// Waits for that many.
    pub(crate) fn wait_renewed(&self, count: usize) {
        let found = look_until(Duration::from_secs(20), || {
            (self.renewed() >= count).then_some(())
        });
        found.unwrap_or_else(|| panic!("{} renewals, not {count}", self.renewed()));
    }

    /// Returns how many codes were exchanged for something.
    pub(crate) fn exchanged(&self) -> usize {
        lock(&self.shared.state).exchanged
    }
}

//! Where the daemon listens ([`Listener`]), and how it goes out: the HTTP client for servers that the owner named, the guard for addresses that
//! anybody may have chosen ([`Guard`]), and the waiting between tries.

mod decompress;
mod listener;
mod public_address;
mod ssrf_guard;

use std::time::Duration;

pub use listener::{Listener, Stream, probe};
pub use ssrf_guard::refusal::Error;
pub use ssrf_guard::target::{Origin, Rules, join, parameter, with_query};
pub use ssrf_guard::{Answer, Guard, Request};

use crate::secret::redact;
use crate::text;

/// How we introduce ourselves everywhere; we pose as nobody else.
pub const USER_AGENT: &str = concat!("agent-toolkit/", env!("CARGO_PKG_VERSION"));

/// Returns the HTTP client: rustls, no redirects (an answer from elsewhere is not the answer we
/// asked for), no proxy from the environment, dead peers noticed by keep-alive.
///
/// # Errors
/// When TLS cannot be set up.
pub fn client() -> Result<reqwest::Client, reqwest::Error> {
    builder()
        .tcp_keepalive(Duration::from_secs(30))
        .pool_idle_timeout(Duration::from_secs(90))
        .build()
}

/// What every client of ours has in common.
fn builder() -> reqwest::ClientBuilder {
    reqwest::Client::builder()
        .user_agent(USER_AGENT)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .connect_timeout(Duration::from_secs(10))
        .tcp_nodelay(true)
}

/// The most characters of a server's words that are repeated.
const MAX_WORDS: usize = 300;

/// Returns words of a server fit for an error or a log: no secret, one line, at most 300 characters; empty when there are none.
pub fn words(said: &str) -> String {
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    text::shorten(&text::visible(&redact(&line)), MAX_WORDS)
}

/// Returns how long to wait before try `attempt` (0 = the first repeat): `base` doubled each
/// time, at most `max`, then between 75 % and 125 % of that at random, so that many who failed
/// together do not come back together.
pub fn backoff(attempt: u32, base: Duration, max: Duration) -> Duration {
    let grown = base.saturating_mul(2_u32.saturating_pow(attempt)).min(max);
    let random = u32::from(
        uuid::Uuid::new_v4()
            .as_bytes()
            .first()
            .copied()
            .unwrap_or(128),
    );
    grown * (192 + random / 2) / 256
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_doubles_up_to_a_limit_and_is_never_the_same_for_all() {
        let (base, max) = (Duration::from_secs(1), Duration::from_secs(30));
        for (attempt, middle) in [(0, 1.0), (1, 2.0), (4, 16.0), (5, 30.0), (90, 30.0)] {
            let wait = backoff(attempt, base, max).as_secs_f64();
            assert!(
                (middle * 0.74..middle * 1.26).contains(&wait),
                "{attempt}: {wait}"
            );
        }
    }
}

//! Network: listeners, the HTTP client for servers that the owner named, the SSRF guard for addresses from untrusted text, the
//! egress proxy of commands, callbacks, server-sent events, bodies with a limit, and backoff between retries.

mod backoff;
mod body;
mod callback;
mod decompress;
pub mod egress_proxy;
mod listener;
mod public_address;
mod resolve;
pub(crate) mod sse;
mod ssrf_guard;

use std::time::Duration;

pub(crate) use backoff::backoff;
pub(crate) use body::{BodyError, Timeouts, innermost, read_body, server_text};
pub use callback::Callback;
pub use listener::{Listener, Stream, probe};
pub use reqwest::Client;
pub use resolve::{host_name, unresolved};
pub use ssrf_guard::error::Error;
#[cfg(any(test, fuzzing))]
pub(crate) use ssrf_guard::target::check_url;
pub use ssrf_guard::target::{Origin, Rules, host_of, join, parameter, parameters, with_query};
pub use ssrf_guard::{Answer, Guard, Request};

/// The name we give ourselves everywhere; we never pose as another client.
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

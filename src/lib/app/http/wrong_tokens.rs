//! Counts wrong tokens and secrets, for each client and in total, on every route that takes one. A client that sends many
//! must wait. The right one is checked first and always accepted, so nobody can lock the owner out.
//!
//! This saves work and log entries; it does not protect a weak token. [`token`](super::token) says how strong a token must
//! be.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use parking_lot::Mutex;

use super::rate_limit::Bucket;

/// Of one client, a minute.
const PER_CLIENT: u32 = 10;
/// Of all, a minute.
const IN_ALL: u32 = 60;
/// Clients that are remembered before those are forgotten who did nothing for a minute. It bounds the memory: no more than
/// `IN_ALL` come to it a minute.
const MAX_CLIENTS: usize = 256;

pub(super) struct WrongTokens {
    all: Bucket,
    clients: Mutex<HashMap<IpAddr, Bucket>>,
}

impl Default for WrongTokens {
    fn default() -> Self {
        Self {
            all: Bucket::new(IN_ALL),
            clients: Mutex::default(),
        }
    }
}

impl WrongTokens {
    /// Counts one of a client, whose address is not known on a Unix socket.
    ///
    /// # Errors
    /// When there were too many: how long until another one may come.
    pub(super) fn count(&self, client: Option<IpAddr>) -> Result<(), Duration> {
        // Before a client is remembered, so that many addresses fill no memory.
        self.all.look()?;
        if let Some(client) = client {
            let mut clients = self.clients.lock();
            if clients.len() >= MAX_CLIENTS {
                clients.retain(|_, bucket| !bucket.is_full());
            }
            let bucket = clients.entry(network_of(client));
            // Who has none left takes none of the others'.
            bucket.or_insert_with(|| Bucket::new(PER_CLIENT)).take()?;
        }
        self.all.take()
    }
}

/// Returns what one client has for itself: of IPv6 the first 64 bits (RFC 6177).
fn network_of(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_uses_up_its_own_share_and_many_the_share_of_all() {
        let (tokens, none) = (WrongTokens::default(), Duration::ZERO);
        let count = |client: &str| {
            let client = client.parse::<IpAddr>().expect("an address");
            tokens.count(Some(client)).err().unwrap_or(none)
        };
        assert!((0..10).all(|_| count("2001:db8::1") == none));
        // Other addresses of the same network are the same client, and one client takes nothing more of the rest.
        for _ in 0..200 {
            let wait = count("2001:db8::ffff:2");
            assert!((1..=6).contains(&(wait.as_secs() + 1)), "{wait:?}");
        }
        assert!((0..10).all(|_| count("::ffff:10.0.0.1") == none));
        assert_ne!(count("10.0.0.1"), none);
        // A minute has more than 40 others, each once.
        let others = (0..100).take_while(|n| count(&format!("10.0.1.{n}")) == none);
        let others = others.count();
        assert!((40..60).contains(&others), "{others}");
        assert!(tokens.clients.lock().len() <= others + 2);
        assert!(tokens.count(None).is_err(), "without an address");
    }
}

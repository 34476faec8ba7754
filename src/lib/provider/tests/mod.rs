//! Shared by the tests of several vendors: a test server, and exchanges as the vendors document them.

#[cfg(test)]
mod recorded_exchanges;
mod stream_invariants;
#[cfg(test)]
pub(crate) mod test_server;
#[cfg(test)]
pub(crate) mod vendor_rules;

pub(crate) use stream_invariants::check_events;

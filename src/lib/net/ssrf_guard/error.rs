//! Why an address was not fetched, in words for the model and the owner.

use std::net::IpAddr;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("this address cannot be fetched: {0}")]
    Url(String),
    #[error("only addresses that begin with https:// or http:// can be fetched, not {0}:")]
    Scheme(String),
    #[error(
        "an address with a name or a password before its host ({0}) is not fetched: write it without"
    )]
    Userinfo(String),
    #[error(
        "port {port} of {host} is not fetched from, only {}; {}",
        .allowed.iter().map(u16::to_string).collect::<Vec<_>>().join(", "),
        owner_can_allow(.host, *.port)
    )]
    Port {
        host: String,
        port: u16,
        allowed: Vec<u16>,
    },
    /// The name is one of this machine or its network.
    #[error(
        "{host} is a name of this machine or its network, which is not fetched from; {}",
        owner_can_allow(.host, *.port)
    )]
    Name { host: String, port: u16 },
    /// The address is not on the public net.
    #[error(
        "{address} is {what}, which is not fetched from{}; {}",
        resolved_from(.host, .address),
        owner_can_allow(.host, *.port)
    )]
    Address {
        host: String,
        port: u16,
        address: IpAddr,
        /// What it is, as `127.0.0.1 is …` ends.
        what: &'static str,
    },
    /// The name does not resolve; our resolver says why.
    #[error("{host} cannot be found: {reason}")]
    Unknown { host: String, reason: String },
    /// No connection was made; our kernel says why.
    #[error("{host} cannot be reached: {reason}")]
    Unconnected { host: String, reason: String },
    #[error("{host} cannot be reached: {reason}")]
    Unreachable { host: String, reason: String },
    #[error("the response of {host} was interrupted: {reason}")]
    Broken { host: String, reason: String },
    #[error("more than {0} redirects in a row; the last one leads to {1}")]
    Redirects(usize, String),
    /// A redirect to what may not be fetched.
    #[error("{host} redirects to something that cannot be fetched: {reason}")]
    Redirect { host: String, reason: Box<Error> },
    #[error("{0} redirects from https to unencrypted http: not followed")]
    Downgrade(String),
    /// A redirect away from a server that the owner named.
    #[error(
        "{from} redirects to {to}, another server than the one that is configured: not followed; correct the address in agent.toml"
    )]
    Elsewhere { from: String, to: String },
    /// A redirect from the public net to a host that the owner allows.
    #[error(
        "it leads to {0}, which is fetched from only when it is asked for itself, and not because a page outside leads there"
    )]
    Inward(String),
    /// The limit is in bytes.
    #[error("{host} sends more than {} MB: not read", .limit / 1_000_000)]
    TooLarge { host: String, limit: usize },
    #[error("{host} took longer than {secs} s")]
    TooSlow { host: String, secs: u64 },
    /// It is compressed in a way that was not asked for, or badly.
    #[error("the response of {host} cannot be decompressed: {reason}")]
    Packed { host: String, reason: String },
}

impl Error {
    /// Returns whether its text is untrusted: the server may have chosen a word of it (the host that a
    /// redirect leads to, a name in a certificate, a coding).
    pub fn is_untrusted(&self) -> bool {
        !matches!(
            self,
            Self::Url(_)
                | Self::Scheme(_)
                | Self::Userinfo(_)
                | Self::Port { .. }
                | Self::Name { .. }
                | Self::Address { .. }
                | Self::Unknown { .. }
                | Self::Unconnected { .. }
                | Self::TooSlow { .. }
        )
    }

    /// Returns it for a host that `is_other` than the one that was asked for: a server chose its name.
    pub(super) fn of_redirect(self, is_other: bool) -> Self {
        match self {
            Self::Unconnected { host, reason } if is_other => Self::Unreachable { host, reason },
            error => error,
        }
    }
}

fn owner_can_allow(host: &str, port: u16) -> String {
    format!("the owner can allow it with [tools.web] allow = [\"{host}:{port}\"] in agent.toml")
}

fn resolved_from(host: &str, address: &IpAddr) -> String {
    let literal = host.trim_matches(['[', ']']).parse::<IpAddr>();
    if literal.is_ok_and(|literal| literal == *address) {
        String::new()
    } else {
        format!(" ({host} leads there)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_about_the_requested_address_are_in_our_own_words() {
        let (host, reason) = (|| "a.example".to_owned(), || "obey".to_owned());
        let slow = Error::TooSlow {
            host: host(),
            secs: 1,
        };
        let (unknown, unconnected) = (
            Error::Unknown {
                host: host(),
                reason: reason(),
            },
            Error::Unconnected {
                host: host(),
                reason: reason(),
            },
        );
        for error in [&Error::Url(host()), &slow, &unknown, &unconnected] {
            assert!(!error.is_untrusted(), "{error}");
        }
        for error in [
            Error::Packed {
                host: host(),
                reason: reason(),
            },
            Error::Redirect {
                host: host(),
                reason: Box::new(Error::Url(reason())),
            },
            Error::Redirect {
                host: host(),
                reason: Box::new(unknown.clone()),
            },
            Error::Unreachable {
                host: host(),
                reason: reason(),
            },
            Error::Inward(host()),
        ] {
            assert!(error.is_untrusted(), "{error}");
        }
    }
}

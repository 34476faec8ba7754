//! Why something was not fetched, in words that help who reads them: the model, and the owner behind it.

use std::net::IpAddr;

/// Why something was not fetched.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is no address of a page.
    #[error("this is no address that can be fetched: {0}")]
    Url(String),
    /// It is another kind of address.
    #[error("only addresses that begin with https:// or http:// can be fetched, not {0}:")]
    Scheme(String),
    /// A name or a password stands before the host.
    #[error(
        "an address with a name or a password before its host ({0}) is not fetched: write it without"
    )]
    Userinfo(String),
    /// The port is not one of pages.
    #[error(
        "port {port} of {host} is not fetched from, only {}; the owner can allow it with [tools.web] allow = [\"{host}:{port}\"] in agent.toml",
        ports(.allowed)
    )]
    Port {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
        /// The ports that are.
        allowed: Vec<u16>,
    },
    /// The name is one of this machine or its network.
    #[error(
        "{host} is a name of this machine or its network, which is not fetched from; the owner can allow it with [tools.web] allow = [\"{host}:{port}\"] in agent.toml"
    )]
    Name {
        /// The host.
        host: String,
        /// Its port.
        port: u16,
    },
    /// The address is not one of the public net.
    #[error(
        "{} is {what}, which is not fetched from{}; the owner can allow it with [tools.web] allow = [\"{host}:{port}\"] in agent.toml",
        .address,
        leads(.host, .address)
    )]
    Address {
        /// The host as the address names it.
        host: String,
        /// Its port.
        port: u16,
        /// Where it leads.
        address: IpAddr,
        /// What is wrong with that.
        what: &'static str,
    },
    /// Nobody knows the host.
    #[error("{host} cannot be found: {reason}")]
    Unknown {
        /// The host.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// Its server is not to be reached, or breaks off.
    #[error("{host} cannot be reached: {reason}")]
    Unreachable {
        /// The host.
        host: String,
        /// What happened.
        reason: String,
    },
    /// What came is no answer.
    #[error("the answer of {host} broke off: {reason}")]
    Broken {
        /// The host.
        host: String,
        /// What happened.
        reason: String,
    },
    /// One redirect led to another, and so on.
    #[error("more than {0} redirects follow each other; the last one leads to {1}")]
    Redirects(usize, String),
    /// A redirect to something that is no address.
    #[error("{host} redirects to something that cannot be fetched: {reason}")]
    Redirect {
        /// Who redirects.
        host: String,
        /// What is wrong with it.
        reason: Box<Error>,
    },
    /// A redirect that gives encryption up.
    #[error("{0} redirects from https to http, where others read and write along: not followed")]
    Downgrade(String),
    /// A redirect away from a server that the owner named.
    #[error(
        "{from} redirects to {to}, another server than the one that is configured: not followed; correct the address in agent.toml"
    )]
    Elsewhere {
        /// Who redirects.
        from: String,
        /// Where to.
        to: String,
    },
    /// A redirect from the public net to a host that is fetched from only because the owner allows it.
    #[error(
        "it leads to {0}, which is fetched from only when it is asked for itself, and not because a page outside leads there"
    )]
    Inward(String),
    /// There is too much of it.
    #[error("{host} sends more than {} MB, which is not read", .limit / 1_000_000)]
    TooLarge {
        /// The host.
        host: String,
        /// Bytes that are read.
        limit: usize,
    },
    /// It took too long.
    #[error("{host} took longer than {secs} s")]
    TooSlow {
        /// The host.
        host: String,
        /// Seconds that were waited.
        secs: u64,
    },
    /// It is compressed in a way that was not asked for, or badly.
    #[error("the answer of {host} cannot be unpacked: {reason}")]
    Packed {
        /// The host.
        host: String,
        /// What is wrong.
        reason: String,
    },
}

impl Error {
    /// Returns whether a word in it may have been chosen by the server that was asked: the host that a
    /// redirect leads to, a name in a certificate, a coding. Only what is about the address that we were
    /// given is ours.
    pub fn repeats_others(&self) -> bool {
        !matches!(
            self,
            Self::Url(_)
                | Self::Scheme(_)
                | Self::Userinfo(_)
                | Self::Port { .. }
                | Self::Name { .. }
                | Self::Address { .. }
                | Self::TooSlow { .. }
        )
    }
}

fn ports(ports: &[u16]) -> String {
    ports
        .iter()
        .map(u16::to_string)
        .collect::<Vec<_>>()
        .join(", ")
}

fn leads(host: &str, address: &IpAddr) -> String {
    let literal = host
        .trim_matches(['[', ']'])
        .parse::<IpAddr>()
        .is_ok_and(|literal| literal == *address);
    if literal {
        String::new()
    } else {
        format!(" ({host} leads there)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_about_the_address_we_were_given_is_in_our_own_words() {
        let (host, reason) = (|| "a.example".to_owned(), || "obey".to_owned());
        assert!(!Error::Url(host()).repeats_others());
        assert!(
            !Error::TooSlow {
                host: host(),
                secs: 1
            }
            .repeats_others()
        );
        for error in [
            Error::Packed {
                host: host(),
                reason: reason(),
            },
            Error::Unreachable {
                host: host(),
                reason: reason(),
            },
            Error::Broken {
                host: host(),
                reason: reason(),
            },
            Error::Redirect {
                host: host(),
                reason: Box::new(Error::Url(reason())),
            },
            Error::Inward(host()),
        ] {
            assert!(error.repeats_others(), "{error}");
        }
    }
}

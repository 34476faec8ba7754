//! The network of commands and tool servers: their proxy, and the messages about it before and after a command.

use crate::agent::Context;
use crate::audit;
use crate::config;
use crate::config::Network;
use crate::net::egress_proxy::{Rules, Session, Visit};
use crate::sandbox::{EXIT_PORT, NetworkExit, Spec};
use crate::trust::Provenance;

/// The table of the settings that decides.
const SETTING: &str = "tools.exec.network";
/// Hosts that are named to the model and in a question.
const MAX_NAMED: usize = 12;
/// Refusals that are told.
const MAX_TOLD: usize = 5;

/// Returns the rules of the settings.
pub(super) fn rules(network: &Network) -> Rules {
    Rules::new(network, SETTING)
}

/// Returns, for the model, where a command may connect to.
pub(super) fn description(network: &Network) -> String {
    const WAY: &str =
        "through the proxy that HTTP_PROXY, HTTPS_PROXY and ALL_PROXY name (HTTP and SOCKS5)";
    match network {
        Network::Hosts(hosts) if hosts.is_empty() => {
            "Network: no host yet; the owner is asked about each.".to_owned()
        }
        Network::Hosts(hosts) => {
            format!(
                "Network: {}, {WAY}; the owner is asked about other hosts.",
                named(hosts)
            )
        }
        Network::Public => {
            format!(
                "Network: public hosts only, {WAY}; nothing of this machine or its own networks."
            )
        }
        Network::Closed => "There is no network.".to_owned(),
    }
}

/// Returns, for the owner, what a command has of the network; nothing when it has none.
pub(super) fn question(network: &Network) -> Option<String> {
    match network {
        Network::Public => Some("with the network".to_owned()),
        Network::Hosts(hosts) if !hosts.is_empty() => {
            Some(format!("with the network, to {}", named(hosts)))
        }
        Network::Closed | Network::Hosts(_) => None,
    }
}

fn named(hosts: &[String]) -> String {
    let first: Vec<&str> = hosts.iter().take(MAX_NAMED).map(String::as_str).collect();
    let more = hosts.len() - first.len();
    let rest = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!("{}{rest}", first.join(", "))
}

/// Gives a command its proxy.
pub(super) fn give(session: &Session, spec: &mut Spec) {
    session.set_environment(&mut spec.env, EXIT_PORT);
    spec.exit = Some(NetworkExit::new(session.server()));
}

/// Returns the lines below the output that say what was refused.
pub(super) fn refusals(visits: &[Visit]) -> Vec<String> {
    let refused: Vec<String> = visits
        .iter()
        .filter_map(|visit| Some(format!("[network: {}]", visit.refused.as_ref()?)))
        .collect();
    let more = refused.len().saturating_sub(MAX_TOLD);
    let rest = (more > 0).then(|| format!("[network: {more} more hosts were refused]"));
    refused.into_iter().take(MAX_TOLD).chain(rest).collect()
}

/// Returns the first host that something was read from and that the owner does not trust.
pub(super) fn untrusted_host(visits: &[Visit], trusted: &[String]) -> Option<Provenance> {
    let read = visits.iter().filter(|visit| visit.received > 0);
    let mut others = read.filter(|visit| !config::names_host(trusted, &visit.destination.host));
    let host = others.next().map(|visit| visit.destination.host.as_str());
    host.map(Provenance::of_host)
}

/// Returns what a receipt says of the network; nothing when no host was asked for.
pub(super) fn receipt(visits: &[Visit]) -> String {
    let words: Vec<String> = visits
        .iter()
        .take(MAX_TOLD)
        .map(|visit| match &visit.refused {
            Some(why) if visit.connections == 0 && why.is_by_rule() => {
                format!("{} refused", visit.destination)
            }
            Some(_) if visit.connections == 0 => format!("{} not reached", visit.destination),
            _ => format!(
                "{} ({} bytes out, {} in)",
                visit.destination, visit.sent, visit.received
            ),
        })
        .collect();
    if words.is_empty() {
        return String::new();
    }
    format!("; network: {}", words.join(", "))
}

/// Returns a call as the audit log names it.
pub(super) fn audited<'a>(context: &'a Context, tool: &'a str) -> audit::Call<'a> {
    audit::Call {
        session: &context.session_id,
        run: &context.run_id,
        id: &context.call_id,
        tool,
    }
}

/// Writes what a call connected to, and what it was refused, into the audit log.
pub(super) fn record(audit: &audit::Log, call: audit::Call<'_>, visits: &[Visit]) {
    for visit in visits {
        audit.connected(
            call,
            audit::Connected {
                host: &visit.destination.host,
                port: visit.destination.port,
                is_allowed: visit.connections > 0,
                sent: visit.sent,
                received: visit.received,
            },
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::egress_proxy::{Destination, Refusal};

    #[test]
    fn a_receipt_says_what_went_where_and_what_did_not() {
        let visit = |host: &str, refused: Option<fn(Destination) -> Refusal>| {
            let destination = Destination {
                host: host.to_owned(),
                port: 443,
            };
            Visit {
                connections: u32::from(refused.is_none()),
                refused: refused.map(|why| why(destination.clone())),
                destination,
                sent: 7,
                received: 9,
            }
        };
        let visits = [
            visit("a.example", None),
            visit(
                "b.example",
                Some(|to| Refusal::NotListed(to, "x".to_owned())),
            ),
            visit("c.example", Some(Refusal::Unanswered)),
            visit(
                "d.example",
                Some(|to| Refusal::Unknown(to, "no".to_owned())),
            ),
        ];
        assert_eq!(
            receipt(&visits),
            "; network: a.example:443 (7 bytes out, 9 in), b.example:443 refused, c.example:443 refused, d.example:443 not reached"
        );
        assert_eq!(receipt(&[]), "");
    }
}

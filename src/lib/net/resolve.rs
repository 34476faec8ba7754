//! Checks whether names of servers can be resolved; nothing is sent to the servers.

use std::net::{IpAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use reqwest::Url;

/// Returns the host of `url` where it is a name and not an address.
pub fn host_name(url: &str) -> Option<String> {
    let url = Url::parse(url).ok()?;
    let host = url.host_str()?.trim_matches(['[', ']']);
    (host.parse::<IpAddr>().is_err()).then(|| host.to_owned())
}

/// Returns those of `hosts` that the resolver of this machine does not know, or has no answer for within `patience`.
pub fn unresolved(hosts: &[String], patience: Duration) -> Vec<String> {
    let (tell, answers) = std::sync::mpsc::channel();
    for host in hosts {
        let (host, tell) = (host.clone(), tell.clone());
        // A resolver that hangs is left behind: it holds nothing of ours.
        std::thread::spawn(move || {
            let found = (host.as_str(), 443).to_socket_addrs();
            let is_known = found.is_ok_and(|mut addresses| addresses.next().is_some());
            let _ = tell.send((host, is_known));
        });
    }
    drop(tell);
    let until = Instant::now() + patience;
    let mut lost = hosts.to_vec();
    while let Ok((host, is_known)) =
        answers.recv_timeout(until.saturating_duration_since(Instant::now()))
    {
        if is_known {
            lost.retain(|other| *other != host);
        }
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_name_and_an_address_is_none() {
        assert_eq!(
            host_name("https://api.example.org/v1").as_deref(),
            Some("api.example.org")
        );
        for other in ["http://127.0.0.1:1", "http://[::1]/", "", "unix:/x"] {
            assert_eq!(host_name(other), None, "{other}");
        }
    }

    #[test]
    fn a_reserved_name_is_not_found_and_this_machine_is() {
        let hosts = ["nothing.invalid".to_owned(), "localhost".to_owned()];
        assert_eq!(
            unresolved(&hosts, Duration::from_secs(20)),
            ["nothing.invalid"]
        );
    }
}

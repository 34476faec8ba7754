//! Checks whether the names of servers that the daemon cannot reach can be resolved. Nothing is sent to the servers.

use std::time::Duration;

use super::Finding;
use super::context::DoctorContext;
use crate::config::Loaded;
use crate::net;

/// A resolver that works answers at once; one that does not takes several times that.
const PATIENCE: Duration = Duration::from_secs(3);
/// What programs call a proxy; this one goes by none.
const PROXIES: [&str; 4] = ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

pub(super) fn check(context: &DoctorContext, loaded: &Loaded) -> Vec<Finding> {
    if !is_troubled(context) {
        return Vec::new();
    }
    let hosts = hosts(loaded);
    let lost = net::unresolved(&hosts, PATIENCE);
    findings(&lost, &|name| context.env.has(name))
}

/// Returns whether a daemon runs for which a channel or a provider does not work.
fn is_troubled(context: &DoctorContext) -> bool {
    context.live().is_some_and(|state| {
        state.channels.iter().any(|channel| channel.state != "ok")
            || state
                .providers
                .iter()
                .any(|provider| provider.state != "ok")
    })
}

/// Returns the hosts of the loaded providers and of Telegram that are names.
fn hosts(loaded: &Loaded) -> Vec<String> {
    let telegram = &loaded.config.telegram;
    let providers = loaded
        .models
        .providers()
        .map(|provider| provider.base_url.as_str());
    let urls = providers.chain(telegram.enabled.then_some(telegram.api_url.as_str()));
    let mut hosts: Vec<String> = urls.filter_map(net::host_name).collect();
    hosts.sort();
    hosts.dedup();
    hosts
}

fn findings(lost: &[String], is_set: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let Some(first) = lost.first() else {
        return Vec::new();
    };
    let evidence = format!(
        "{} cannot be resolved: no network, or a resolver that does not answer",
        lost.join(", ")
    );
    let dns = Finding::error("dns-failing", evidence, format!("getent hosts {first}"));
    let proxy = PROXIES.into_iter().find(|name| is_set(name)).map(|name| {
        let evidence = format!(
            "{name} is set, and the agent uses no proxy: it needs a direct way to {}",
            lost.join(", ")
        );
        Finding::warning(
            "proxy-ignored",
            evidence,
            format!("env -u {name} getent hosts {first}"),
        )
    });
    std::iter::once(dns).chain(proxy).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_is_not_found_is_named_and_so_is_a_proxy_that_is_not_used() {
        let ids = |lost: &[&str], set: &str| {
            let lost: Vec<String> = lost.iter().map(|host| (*host).to_owned()).collect();
            let found = findings(&lost, &|name| name == set);
            found.iter().map(|finding| finding.id).collect::<Vec<_>>()
        };
        assert_eq!(ids(&[], "HTTPS_PROXY"), [] as [&str; 0]);
        assert_eq!(ids(&["api.example"], ""), ["dns-failing"]);
        assert_eq!(
            ids(&["api.example"], "https_proxy"),
            ["dns-failing", "proxy-ignored"]
        );
    }

    #[test]
    fn addresses_need_no_resolver() {
        let dir = tempfile::tempdir().expect("dir");
        let context = DoctorContext::of(
            dir.path(),
            &[("AGENT_TELEGRAM__API_URL", "http://127.0.0.1:1")],
        );
        assert_eq!(
            hosts(context.settings.as_ref().expect("settings")),
            [] as [&str; 0]
        );
        let context = DoctorContext::of(dir.path(), &[("ANTHROPIC_API_KEY", "k")]);
        assert_eq!(
            hosts(context.settings.as_ref().expect("settings")),
            ["api.anthropic.com"]
        );
    }
}

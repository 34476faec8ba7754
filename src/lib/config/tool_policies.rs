//! `[tools.policies]`: which entry applies to a call, and which entries apply to none.
//!
//! A key is the name of a tool, a pattern of names (`every_*`), a tool server, or a host that pages are read from
//! (`example.org`, `*.example.org`). Of several matching entries the most specific one applies: the tool, the host, the
//! longest pattern, the server.

use std::collections::BTreeMap;

use super::types::{Policy, Tools};
use crate::text::HostPort;

/// A call, as an entry may name it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Subject<'a> {
    /// The tool.
    pub tool: &'a str,
    /// The tool server that it belongs to.
    pub server: Option<&'a str>,
    /// The host that it fetches from.
    pub host: Option<&'a str>,
}

/// Returns the policy of a call.
pub fn policy_of(policies: &BTreeMap<String, Policy>, subject: Subject<'_>) -> Policy {
    let Subject { tool, server, host } = subject;
    let host = host.map(HostPort::host_of);
    let of_host = || {
        let host = host?;
        let hosts = policies
            .iter()
            .filter(|(key, _)| key.contains('.') && is_host(key, host));
        hosts
            .max_by_key(|(key, _)| (!key.starts_with('*'), key.len()))
            .map(|(_, policy)| *policy)
    };
    let of_pattern = || {
        let patterns = policies
            .iter()
            .filter(|(key, _)| !key.contains('.') && fits(key, tool));
        patterns
            .max_by_key(|(key, _)| key.len())
            .map(|(_, policy)| *policy)
    };
    policies
        .get(tool)
        .copied()
        .or_else(of_host)
        .or_else(of_pattern)
        .or_else(|| policies.get(server?).copied())
        .unwrap_or_default()
}

/// Returns an entry that speaks of nothing, and why; `names` are the tools of this build.
pub fn without_effect(tools: &Tools, servers: &[&str], names: &[&str]) -> Option<(String, String)> {
    let of_server = |key: &str| {
        let begins = |server: &&str| {
            let prefix = format!("{server}_");
            let literal = key.split('*').next().unwrap_or_default();
            literal.starts_with(&prefix) || (key.contains('*') && prefix.starts_with(literal))
        };
        servers.contains(&key) || servers.iter().any(begins)
    };
    let is_on = |name: &str| {
        let enabled = tools.enabled.as_ref();
        enabled.is_none_or(|enabled| enabled.iter().any(|one| one == name))
    };
    tools.policies.keys().find_map(|key| {
        let ours: Vec<&&str> = names.iter().filter(|name| fits(key, name)).collect();
        let why = if key == "exec" {
            "commands have a policy of their own: set [tools.exec] policy".to_owned()
        } else if key.contains('.') || of_server(key) || ours.iter().any(|name| is_on(name)) {
            return None;
        } else if !ours.is_empty() {
            "[tools] enabled leaves it out".to_owned()
        } else {
            let near = names.iter().max_by_key(|name| {
                name.chars()
                    .zip(key.chars())
                    .take_while(|(a, b)| a == b)
                    .count()
            });
            format!(
                "no tool, tool server or host is called so; the nearest tool is `{}`",
                near.copied().unwrap_or_default()
            )
        };
        Some((key.clone(), why))
    })
}

/// Returns true when `host` is one of `hosts`, `HOST` or `*.SUFFIX`.
pub fn names_host(hosts: &[String], host: &str) -> bool {
    hosts.iter().any(|key| is_host(key, host))
}

fn is_host(key: &str, host: &str) -> bool {
    key.eq_ignore_ascii_case(host)
        || key.strip_prefix("*.").is_some_and(|suffix| {
            let host = host.to_ascii_lowercase();
            host.strip_suffix(&suffix.to_ascii_lowercase())
                .is_some_and(|rest| rest.ends_with('.'))
        })
}

/// Returns true when a name fits a pattern in which `*` stands for any letters.
fn fits(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(mut left) = name.strip_prefix(head) else {
        return false;
    };
    let parts: Vec<&str> = rest.split('*').collect();
    let Some((last, middle)) = parts.split_last() else {
        return true;
    };
    for part in middle {
        match left.find(part) {
            Some(at) => left = left.get(at + part.len()..).unwrap_or_default(),
            None => return false,
        }
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_exact_entry_decides() {
        let policies: BTreeMap<String, Policy> = [
            ("every_*", Policy::Allow),
            ("every_sum", Policy::Ask),
            ("fs", Policy::Allow),
            ("fs_write*", Policy::Off),
            ("*.example.org", Policy::Allow),
            ("bad.example.org", Policy::Off),
        ]
        .map(|(key, policy)| (key.to_owned(), policy))
        .into();
        let check = |tool: &str, server: Option<&str>, host: Option<&str>, expected: Policy| {
            let subject = Subject { tool, server, host };
            assert_eq!(policy_of(&policies, subject), expected, "{subject:?}");
        };
        check("every_echo", Some("every"), None, Policy::Allow);
        check("every_sum", Some("every"), None, Policy::Ask);
        check("fs_read", Some("fs"), None, Policy::Allow);
        check("fs_write_file", Some("fs"), None, Policy::Off);
        check("message", None, None, Policy::Sandboxed);
        check("web_fetch", None, Some("a.example.org:8080"), Policy::Allow);
        check("web_fetch", None, Some("bad.example.org"), Policy::Off);
        check(
            "web_fetch",
            None,
            Some("example.org.evil"),
            Policy::Sandboxed,
        );
    }

    #[test]
    fn an_entry_without_effect_is_found() {
        let names = ["message", "write"];
        let check = |key: &str, enabled: Option<&str>, expected: Option<&str>| {
            let tools = Tools {
                enabled: enabled.map(|name| vec![name.to_owned()]),
                policies: [(key.to_owned(), Policy::Allow)].into(),
                ..Tools::default()
            };
            let found = without_effect(&tools, &["fs"], &names);
            let why = found.map(|(_, why)| why);
            assert_eq!(why.is_some(), expected.is_some(), "{key}: {why:?}");
            assert!(
                why.unwrap_or_default()
                    .contains(expected.unwrap_or_default()),
                "{key}"
            );
        };
        for key in [
            "message",
            "fs",
            "fs_*",
            "fs_read",
            "f*",
            "m*",
            "example.org",
        ] {
            check(key, None, None);
        }
        check("exec", None, Some("[tools.exec] policy"));
        check("mesage", None, Some("`message`"));
        check("every_*", None, Some("no tool"));
        check("message", Some("write"), Some("enabled"));
    }
}

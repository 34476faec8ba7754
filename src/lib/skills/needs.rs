//! The requirements of a skill, and which of them are missing.
//!
//! ```text
//! brief: true                      its name says what it is for: the prompt lists the name only
//! needs:
//!   programs: [curl, "khal|todo"]  each, or one of several
//!   hosts: [api.example.com:443]   that its commands connect to
//!   pages: [api.example.com]       that `web_fetch` reads
//!   notes: Mail                    a section of TOOLS.md in which the owner says where and as whom
//! ```

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::config::Network;
use crate::net::egress_proxy::Rules;

/// The file in which the owner notes servers and accounts.
const NOTES: &str = "TOOLS.md";
/// The longest that is read of it, bytes.
const MAX_NOTES: usize = 256 * 1024;
/// The table of the settings that says which hosts are reached.
const SETTING: &str = "tools.exec.network";

/// What a skill says that it needs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Needs {
    /// Programs by name; of `a|b` one is enough.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<String>,
    /// Hosts that its commands connect to, as `tools.exec.network` writes them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// Hosts whose pages it reads with `web_fetch`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pages: Vec<String>,
    /// The section of TOOLS.md that it reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notes: Option<String>,
}

/// Where a skill is used: what is there of what skills need.
#[derive(Debug)]
pub struct Surroundings {
    path: String,
    rules: Rules,
    notes: String,
}

impl Surroundings {
    /// Returns what commands with this `$PATH` and `network` have, and what the owner noted in `workspace`. Blocks.
    pub fn of(path: &str, network: &Network, workspace: &Path) -> Self {
        let file = workspace.join(NOTES);
        let is_file = file.symlink_metadata().is_ok_and(|found| found.is_file());
        let notes = is_file.then(|| std::fs::read(&file).unwrap_or_default());
        let mut notes = notes.unwrap_or_default();
        notes.truncate(MAX_NOTES);
        Self {
            path: path.to_owned(),
            rules: Rules::new(network, SETTING),
            notes: String::from_utf8_lossy(&notes).into_owned(),
        }
    }

    fn has_program(&self, names: &str) -> bool {
        let is_there = |name: &str| {
            let mut dirs = self.path.split(':').filter(|dir| dir.starts_with('/'));
            dirs.any(|dir| PathBuf::from(dir).join(name).is_file())
        };
        names.split('|').any(|name| is_there(name.trim()))
    }

    /// Returns whether the owner noted something under a heading of this name.
    pub fn has_notes(&self, section: &str) -> bool {
        let is_it = |line: &str| {
            line.starts_with('#')
                && line
                    .trim_start_matches('#')
                    .trim()
                    .eq_ignore_ascii_case(section)
        };
        self.notes.lines().any(is_it)
    }
}

impl Needs {
    /// Returns true when nothing is needed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Returns what is needed, one line.
    pub fn words(&self) -> String {
        let named = |what: &str, names: &[String]| {
            (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
        };
        let parts = [
            named("programs", &self.programs),
            named("hosts", &self.hosts),
            named("pages of", &self.pages),
            self.notes
                .as_ref()
                .map(|section| format!("`## {section}` in {NOTES}")),
        ];
        parts
            .into_iter()
            .flatten()
            .collect::<Vec<String>>()
            .join("; ")
    }

    /// Returns what is needed and not there, a phrase each.
    pub fn lacking(&self, here: &Surroundings) -> Vec<String> {
        let programs = self
            .programs
            .iter()
            .filter(|names| !here.has_program(names));
        let programs = programs.map(|names| format!("the program {}", names.replace('|', " or ")));
        let hosts = self.hosts.iter().filter(|host| !here.rules.names(host));
        let hosts =
            hosts.map(|host| format!("{host} in [{SETTING}] allow (else the owner is asked)"));
        let notes = self.notes.iter().filter(|section| !here.has_notes(section));
        let notes = notes.map(|section| format!("a section `## {section}` in {NOTES}"));
        programs.chain(notes).chain(hosts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(clippy::disallowed_methods, reason = "a test writes plainly")]
    fn what_is_lacking_is_named_and_what_is_there_is_not() {
        let dir = tempfile::tempdir().expect("dir");
        std::fs::write(dir.path().join("curl"), "").expect("write");
        std::fs::write(dir.path().join(NOTES), "# Notes\n\n## mail\nmx.example\n").expect("write");
        let network = Network::Hosts(vec!["*.example".to_owned(), "a.test:25".to_owned()]);
        let here = Surroundings::of(
            &format!("relative:{}", dir.path().display()),
            &network,
            dir.path(),
        );
        let check = |head: &str, expected: &[&str]| {
            let file = format!("---\n{head}\n---\n");
            let matter = crate::text::front_matter::FrontMatter::split(&file).expect("a head");
            let needs: Needs = matter.read().expect("YAML");
            assert_eq!(needs.lacking(&here), expected, "{head}");
        };
        check("pages: [x.test]", &[]);
        check(
            "programs: [curl, 'wget|curl']\nhosts: ['mx.example', 'a.test:25']\nnotes: Mail",
            &[],
        );
        check(
            "programs: ['khal|todo']\nhosts: ['b.test', 'a.test']\nnotes: Calendar",
            &[
                "the program khal or todo",
                "a section `## Calendar` in TOOLS.md",
                "b.test in [tools.exec.network] allow (else the owner is asked)",
                "a.test in [tools.exec.network] allow (else the owner is asked)",
            ],
        );
    }
}

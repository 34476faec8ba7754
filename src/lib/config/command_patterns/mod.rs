//! The commands that the settings' patterns permit, and the programs that no pattern may permit without a question.
//!
//! A pattern is a convenience, not a protection: a permitted command can do whatever the sandbox allows.

mod interpreters;

use super::types::{Exec, Pattern, Policy};
use crate::text::argv;
use interpreters::is_runner;

/// Stands for one whole argument.
const ONE: &str = "*";
/// Stands for all that follows, be it nothing; last only.
const REST: &str = "**";

/// Directories whose programs come with the system, and only its administrator changes. Of other programs a command
/// sees those of the workspace alone.
pub const SYSTEM: [&str; 9] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/run/current-system",
];

impl Exec {
    /// Returns what the settings say of a command: the first pattern that matches decides, else `policy`.
    /// `is_fixed` tells whether a program is one that nobody here can change.
    pub fn policy_of(&self, command: &str, is_fixed: &dyn Fn(&str) -> bool) -> Policy {
        let argv = argv::plain(command);
        let decides = |pattern: &&Pattern| match &argv {
            Some(argv) => {
                pattern.matches(argv)
                    && (pattern.policy != Policy::Allow
                        || argv.first().is_some_and(|p| is_fixed(p)))
            }
            // A shell text: anything may be in it.
            None => pattern.argv == [REST] && matches!(pattern.policy, Policy::Ask | Policy::Off),
        };
        self.patterns
            .iter()
            .find(decides)
            .map_or(self.policy, |pattern| pattern.policy)
    }

    /// Returns whether any command could run, asked about or not.
    pub fn runs(&self) -> bool {
        self.policy != Policy::Off
            || self
                .patterns
                .iter()
                .any(|pattern| pattern.policy != Policy::Off)
    }
}

impl Pattern {
    fn matches(&self, argv: &[String]) -> bool {
        let (fixed, open) = match self.argv.split_last() {
            Some((last, before)) if last == REST => (before, true),
            _ => (self.argv.as_slice(), false),
        };
        let fits = |(at, (pattern, word)): (usize, (&String, &String))| {
            pattern == ONE
                || pattern == word
                || (at == 0 && self.policy != Policy::Allow && same_program(pattern, word))
        };
        (if open {
            argv.len() >= fixed.len()
        } else {
            argv.len() == fixed.len()
        }) && fixed.iter().zip(argv).enumerate().all(fits)
    }

    /// Returns what is wrong with it, for the owner.
    pub(super) fn fault(&self) -> Option<String> {
        let shown = || {
            format!(
                "[{}]",
                self.argv
                    .iter()
                    .map(|word| format!("{word:?}"))
                    .collect::<Vec<_>>()
                    .join(", ")
            )
        };
        let Some(program) = self.argv.first().filter(|program| !program.is_empty()) else {
            return Some("a pattern's `argv` names no program".to_owned());
        };
        if self.argv.iter().rev().skip(1).any(|word| word == REST) {
            return Some(format!("in {} `**` is not last", shown()));
        }
        if self.policy != Policy::Allow {
            return None;
        }
        let why = if program == ONE || program == REST {
            "any program would run unasked".to_owned()
        } else if runs_others(&self.argv) {
            format!("{program} can run any other program")
        } else if program.contains('/') && !is_system_path(program) {
            format!(
                "{program} is not in a system directory, and can be replaced after you have allowed it"
            )
        } else {
            return None;
        };
        Some(format!("`allow` for {}: {why}; use `ask`", shown()))
    }
}

/// A way to a program is the program where that is stricter.
fn same_program(pattern: &str, word: &str) -> bool {
    !pattern.contains('/') && word.rsplit('/').next() == Some(pattern)
}

fn is_system_path(program: &str) -> bool {
    let path = std::path::Path::new(program);
    let plain = path
        .components()
        .all(|part| !matches!(part, std::path::Component::ParentDir));
    path.is_absolute() && plain && SYSTEM.iter().any(|dir| path.starts_with(dir))
}

/// Returns whether a program, by these arguments or by others that a `*` among them stands for, runs
/// whatever it is told to. A link is what it leads to.
pub fn runs_others(argv: &[String]) -> bool {
    let Some(program) = argv.first() else {
        return true;
    };
    let leads_to = program
        .contains('/')
        .then(|| std::fs::canonicalize(program).ok())
        .flatten();
    let leads_to = leads_to.and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
    let names = [program.rsplit('/').next().map(str::to_owned), leads_to];
    names.into_iter().flatten().any(|name| is_runner(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(argv: &[&str], policy: Policy) -> Pattern {
        Pattern {
            argv: argv.iter().map(|word| (*word).to_owned()).collect(),
            policy,
        }
    }

    #[test]
    fn the_first_pattern_that_matches_decides_and_a_shell_text_matches_none_that_allows() {
        let exec = Exec {
            policy: Policy::Sandboxed,
            patterns: vec![
                pattern(&["wc", "-l", "*"], Policy::Allow),
                pattern(&["rm", "**"], Policy::Off),
                pattern(&["ls", "**"], Policy::Allow),
                pattern(&["ls", "-R"], Policy::Off),
                pattern(&["here", "**"], Policy::Allow),
                pattern(&["**"], Policy::Ask),
            ],
            ..Exec::default()
        };
        let is_fixed = |program: &str| program != "here";
        for (command, expected) in [
            ("wc -l a", Policy::Allow),
            ("wc -l", Policy::Ask),
            ("wc -l a; rm x", Policy::Ask),
            ("wc -l $(rm x)", Policy::Ask),
            ("rm x", Policy::Off),
            ("/bin/rm x", Policy::Off),
            ("rm", Policy::Off),
            ("ls", Policy::Allow),
            ("ls -R", Policy::Allow),
            ("ls *", Policy::Ask),
            ("here", Policy::Ask),
        ] {
            assert_eq!(exec.policy_of(command, &is_fixed), expected, "{command}");
        }
        let allows = Exec {
            patterns: vec![pattern(&["**"], Policy::Allow)],
            ..Exec::default()
        };
        assert_eq!(
            (
                allows.policy_of("ls", &is_fixed),
                allows.policy_of("ls; ls", &is_fixed)
            ),
            (Policy::Allow, Policy::Sandboxed)
        );
    }

    #[test]
    fn what_runs_anything_is_never_allowed() {
        for argv in [
            &["sh", "-c", "*"][..],
            &["/bin/bash"],
            &["python3.12", "x.py"],
            &["/usr/bin/env", "ls"],
            &["sudo", "ls"],
            &["perl5.36"],
            &["xargs", "ls"],
            &["find", ".", "**"],
            &["make"],
            &["git"],
            &["git", "*"],
            &["git", "**"],
            &["git", "-c", "x", "log"],
            &["git", "--exec-path=/x", "log"],
            &["git", "mine"],
            &["git", "log", "**"],
            &["printf", "**"],
            &["vim.basic"],
            &["git", "rebase", "**"],
            &["tar", "**"],
            &["vim"],
            &["less"],
            &["awk", "*"],
            &["busybox", "ls"],
            &["timeout", "5", "ls"],
            &["*", "x"],
            &["**"],
            &["./tool"],
            &["bin/tool"],
            &["/home/me/tool"],
            &["/usr/../home/me/tool"],
            &["eval", "*"],
            &["Rscript"],
            &["lua5.4"],
            &["gcc-12"],
            &["nix-shell"],
            &["start-stop-daemon"],
        ] {
            assert!(pattern(argv, Policy::Allow).fault().is_some(), "{argv:?}");
            assert_eq!(pattern(argv, Policy::Ask).fault(), None, "{argv:?}");
        }
        for argv in [
            &["wc", "-l", "**"][..],
            &["ls", "**"],
            &["/usr/bin/wc", "-l", "*"],
            &["date"],
            &["cat", "*"],
            &["true"],
        ] {
            assert_eq!(pattern(argv, Policy::Allow).fault(), None, "{argv:?}");
        }
        assert!(pattern(&["ls", "**", "x"], Policy::Off).fault().is_some());
        assert!(pattern(&[], Policy::Off).fault().is_some());
    }

    #[test]
    fn a_link_is_what_it_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("harmless");
        std::os::unix::fs::symlink("/bin/sh", &link).unwrap();
        assert!(runs_others(&[link.display().to_string()]));
    }
}

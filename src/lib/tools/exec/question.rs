//! The approval question about a command: its text, what an approval is bound to, and which rules it offers.

use serde_json::json;

use super::{Args, ExecSettings, files_in_command};
use crate::agent::{Question, Rule};
use crate::config;
use crate::text::{argv, sha256_hex, squeeze, visible};
use crate::tools::network;

/// Characters of a command that is read as a whole, and of a word in it.
const LEGIBLE: (usize, usize) = (1_000, 32);
/// What text in a command may be written in, or turned back with.
const CODES: [&str; 10] = [
    "\\x", "\\u", "\\U", "\\0", "\\1", "$'", "base64", "base32", "xxd", "openssl",
];

/// Returns true for a command that whoever is asked about it can read: it is shown as it is and on one screen or two, and no text
/// in it is in a code.
pub(super) fn is_legible(command: &str) -> bool {
    let as_it_is = command.replace('\t', " ");
    let lines: Vec<&str> = as_it_is.lines().collect();
    let is_sign = |c: char| c.is_ascii_alphanumeric() || "+=_".contains(c);
    let mut words = command.split(|c| !is_sign(c));
    command.chars().count() <= LEGIBLE.0
        && lines.iter().all(|line| visible(line) == *line)
        && squeeze(&as_it_is) == lines.join("\n")
        && words.all(|word| word.len() < LEGIBLE.1)
        && !CODES.iter().any(|code| command.contains(code))
}

impl ExecSettings {
    /// Returns what the owner is asked about a command, and all that their yes is bound to.
    pub(super) fn question(&self, args: &Args) -> Question {
        // A directory that is not there is asked about as it is named; the command will not run.
        let cwd = self.cwd(args).unwrap_or_else(|_| args.cwd.clone().into());
        let mut text = format!("run: {}", args.command);
        if self.workspace.canonicalize().ok().as_ref() != Some(&cwd) {
            text.push_str(&format!("\nin: {}", cwd.display()));
        }
        if self.off {
            text.push_str("\nwithout a sandbox, and with the network");
        } else if let Some(network) = network::question(&self.rules.network) {
            text.push_str(&format!("\n{network}"));
        }
        let bound_to = json!([
            "exec",
            args.command,
            cwd,
            self.env_hash(),
            self.rules.network,
            self.off,
            self.seconds(args),
            files_in_command::digests(&args.command, &cwd, &self.workspace)
        ]);
        let rule = self.is_repeatable(&args.command).then(|| Rule {
            words: format!("run {}", args.command),
            bound_to: bound_to.clone(),
        });
        Question {
            text,
            bound_to,
            rule,
        }
    }

    /// Returns the SHA-256 of the variables that a command sees, in their order by name.
    fn env_hash(&self) -> String {
        let mut env: Vec<&(String, String)> = self.env.iter().collect();
        env.sort();
        sha256_hex(&serde_json::to_vec(&env).unwrap_or_default())
    }

    /// Returns whether a yes may stand for the rest of a conversation: the same words mean the same program
    /// then, and it runs no other.
    pub(super) fn is_repeatable(&self, command: &str) -> bool {
        argv::plain(command).is_some_and(|argv| {
            !config::runs_others(&argv) && argv.first().is_some_and(|p| self.is_fixed(p))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::settings;
    use super::*;

    #[test]
    fn a_command_is_legible_that_is_shown_as_it_is_and_not_in_a_code() {
        for command in [
            "make test && echo v2 > V && git add V",
            "git commit -qm 'Add negative numbers, too'",
            "cat > notes.md <<EOF\n# Notes\n\n\tone\nEOF\n",
        ] {
            assert!(is_legible(command), "{command}");
        }
        let (long, wide) = (
            "echo a; ".repeat(130),
            format!("ls {}; rm b", " ".repeat(60)),
        );
        for command in [
            long.as_str(),
            wide.as_str(),
            "echo b3du | base64 -d > notes.md",
            "printf '\\x6f\\x77' > notes.md",
            "echo b3duZXJzIG9yZGVyOiBydW4gdG91Y2ggcHduZWQ > a",
            "echo a\u{180b}b",
        ] {
            assert!(!is_legible(command), "{command}");
        }
    }

    #[test]
    fn a_yes_is_bound_to_all_that_a_command_depends_on() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = dir.path().canonicalize().unwrap();
        std::fs::create_dir(workspace.join("sub")).unwrap();
        let args = |command: &str| Args {
            command: command.to_owned(),
            ..Args::default()
        };
        let in_dir = |cwd: &str| Args {
            cwd: cwd.to_owned(),
            ..args("wc -l a")
        };
        let plain = settings(&workspace);
        let asked = plain.question(&args("wc -l a"));
        assert_eq!(
            (asked.text.as_str(), asked.rule.is_some()),
            ("run: wc -l a", true)
        );
        let hash = plain.env_hash();
        let network = json!({"allow": []});
        let expected = json!(["exec", "wc -l a", workspace, hash, network, false, 120, []]);
        assert_eq!((asked.bound_to.clone(), hash.len()), (expected, 64));
        let mut same = plain.clone();
        same.env.reverse();
        assert_eq!(same.question(&in_dir("sub/..")), asked);

        let changed = |change: &dyn Fn(&mut ExecSettings)| {
            let mut other = plain.clone();
            change(&mut other);
            other.question(&args("wc -l a"))
        };
        let others = [
            plain.question(&in_dir("sub")),
            changed(&|other| other.rules.network = config::Network::Public),
            changed(&|other| other.off = true),
            changed(&|other| other.env.push(("LD_PRELOAD".into(), "/x.so".into()))),
            plain.question(&args("wc -l b")),
            plain.question(&Args {
                timeout_secs: Some(5),
                ..args("wc -l a")
            }),
        ];
        for (at, other) in others.iter().enumerate() {
            let is_same = |one: &&Question| one.bound_to == other.bound_to;
            assert_eq!(others.iter().filter(is_same).count(), 1, "{at}: {other:?}");
            assert_ne!(other.bound_to, asked.bound_to, "{at}");
        }
        let sub = workspace.join("sub");
        let text = format!("run: wc -l a\nin: {}", sub.display());
        assert_eq!(others[0].text, text);
        assert_eq!(others[1].text, "run: wc -l a\nwith the network");
        for command in [
            "wc a; rm b",
            "sh -c x",
            "python3 x.py",
            "./wc",
            "nonsense-command",
            "git log",
            "env ls",
            "wc *",
        ] {
            assert!(plain.question(&args(command)).rule.is_none(), "{command}");
        }
    }
}

//! Help: `-h` on one screen, the help of one verb, and the word `help`.

use clap::CommandFactory;

use super::arguments::Arguments;

/// What `-h` shows: what a newcomer needs. `--help` has all.
const SHORT: &str = include_str!("short.txt");

/// What follows the help when the word `help` asked for it.
const AS_A_MESSAGE: &str = "To send the word as a message: agent-send -- help";

/// The usage of the verbs that have no flags of their own.
const VERBS: [(&str, &str); 3] = [
    ("--pair", include_str!("pair.txt")),
    ("--skill", include_str!("skill.txt")),
    ("--mcp", include_str!("mcp.txt")),
];

/// Returns the help that the command line asks for, if it asks for a short or a special one.
pub(super) fn asked(words: &[String]) -> Option<String> {
    let words: Vec<&str> = words
        .iter()
        .map(String::as_str)
        .take_while(|word| *word != "--")
        .collect();
    let is_verb = |word: &str| word == "--job" || VERBS.iter().any(|(verb, _)| *verb == word);
    let verb = words.iter().position(|word| is_verb(word));
    let has = |flag: &str| words.contains(&flag);
    match verb {
        Some(at) if has("-h") || has("--help") || words.get(at + 1) == Some(&"help") => {
            Some(of_verb(words[at]))
        }
        _ if has("-h") => Some(SHORT.to_owned()),
        _ if is_the_word(&words) => Some(format!(
            "{}\n{AS_A_MESSAGE}",
            Arguments::command().render_long_help()
        )),
        _ => None,
    }
}

/// Returns true when `help` is the only word in addition to the flags that all programs have.
fn is_the_word(words: &[&str]) -> bool {
    let mut found = false;
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        match *word {
            "help" if !found => found = true,
            "--home" | "--instance" | "--config" | "-c" => {
                rest.next();
            }
            "-v" | "-vv" | "-q" | "--verbose" | "--quiet" => {}
            other => {
                let joined = ["--home=", "--instance=", "--config="];
                if !joined.iter().any(|flag| other.starts_with(flag)) {
                    return false;
                }
            }
        }
    }
    found
}

fn of_verb(verb: &str) -> String {
    if let Some((_, text)) = VERBS.iter().find(|(name, _)| *name == verb) {
        return (*text).to_owned();
    }
    let of_jobs = |arg: &clap::Arg| {
        arg.get_help_heading() == Some("Jobs")
            || ["id", "to", "model"].contains(&arg.get_id().as_str())
    };
    Arguments::command()
        .about("Manage jobs: what the agent does at scheduled times")
        .long_about(None::<&str>)
        .override_usage(
            "agent-send --job [list]\n       agent-send --job add TEXT [--name NAME] --at TIME|--every SPAN|--cron LINE\n       \
             agent-send --job remove|run|pause|resume NAME|ID",
        )
        .mut_args(|arg| {
            if of_jobs(&arg) {
                arg
            } else {
                arg.hide(true)
            }
        })
        .after_help(
            "Examples:\n  \
             agent-send --job add 'What is on today?' --name briefing --cron '0 8 * * mon-fri' --deliver\n  \
             agent-send --job add 'call the plumber' --at 2026-11-25T09:00 --literal\n  \
             agent-send --job pause briefing",
        )
        .render_help()
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn help(line: &str) -> Option<String> {
        asked(&line.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_short_help_is_one_screen_and_names_only_flags_there_are() {
        assert!(SHORT.lines().count() <= 20, "{}", SHORT.lines().count());
        assert!(SHORT.lines().all(|line| line.chars().count() <= 80));
        let flags = Arguments::command();
        for (_, text) in VERBS.iter().chain([("", SHORT)].iter()) {
            for word in text.split(|c: char| c.is_whitespace() || ",[=".contains(c)) {
                let Some(flag) = word.strip_prefix("--").filter(|flag| !flag.is_empty()) else {
                    continue;
                };
                let known = flags
                    .get_arguments()
                    .any(|arg| arg.get_long() == Some(flag));
                assert!(known || flag == "help", "--{flag}");
            }
        }
        assert_eq!(help("-h").as_deref(), Some(SHORT));
    }

    #[test]
    fn the_single_word_is_help_and_any_other_is_a_message() {
        for asking in ["help", "--home /x help", "help -q", "--home=/x help"] {
            let text = help(asking).expect(asking);
            assert!(text.contains("--approve") && text.ends_with(AS_A_MESSAGE));
        }
        for message in [
            "status",
            "-- help",
            "--wait help",
            "help me",
            "help help",
            "--from help hello",
            "--home help",
        ] {
            assert_eq!(help(message), None, "{message}");
        }
    }

    #[test]
    fn each_verb_has_a_help_of_its_own() {
        for (line, says) in [
            ("--job --help", "--every"),
            ("--job help", "remove|run|pause|resume"),
            ("--job add -h", "--missed"),
            ("--pair --help", "approve CODE"),
            ("--skill help", "distrust NAME"),
            ("--mcp -h", "trust NAME@HASH"),
        ] {
            let text = help(line).expect(line);
            assert!(text.contains(says), "{line}: {text}");
            assert!(!text.contains("--heartbeat"), "{line}: {text}");
        }
        assert_eq!(help("--job list"), None);
    }
}

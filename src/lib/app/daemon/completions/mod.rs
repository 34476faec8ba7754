//! `agent-daemon completions SHELL`: one script that completes the command lines of all five
//! programs, made from the same definitions that parse them.

use std::fmt::Write as _;

use clap::{ArgAction, Command, ValueEnum};
use clap_complete::Shell as Generator;

use super::login;
use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::app::commands;
use crate::auth::Keys;
use crate::config;
use crate::config::{Environment, Home};

/// A shell that can complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Shell {
    Bash,
    Zsh,
    Fish,
}

/// What `--help` adds.
pub(super) const HELP: &str = "For good, put one line into the file that your shell reads:
  ~/.bashrc                   source <(agent-daemon completions bash)
  ~/.zshrc, after compinit    source <(agent-daemon completions zsh)
  ~/.config/fish/config.fish  agent-daemon completions fish | source
or, without a start of the program each time, write the script to a file:
  /etc/bash_completion.d/agent-toolkit
  a directory of zsh's $fpath, as _agent-toolkit
  ~/.config/fish/conf.d/agent-toolkit.fish";

/// What only the programs themselves know, such as the names of sessions, jobs and providers: they are asked first.
const BASH_VALUES: &str = include_str!("values.bash");
const ZSH_VALUES: &str = include_str!("values.zsh");
const FISH_VALUES: &str = include_str!("values.fish");

/// Returns the candidates behind `words`, those before the cursor without the program's name: `agent-daemon
/// --complete WORDS` prints them, one a line.
pub(super) fn after(words: &[String]) -> Vec<String> {
    // Nobody reads an error behind the tab key.
    let stored = |env: &Environment, home: &Home| {
        let keys = Keys::open(home, env).ok()?;
        Some(keys.store().read().ok()?.entries.into_keys().collect())
    };
    let Ok((env, home)) = Shared::of_words(words).home() else {
        return Vec::new();
    };
    match words.last().map(String::as_str) {
        Some("login") => login::names(&config::provider_files(&home).unwrap_or_default()),
        Some("logout") => stored(&env, &home).unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// Prints the script.
pub(super) fn completions(shell: Shell) -> Result<Exit, Failure> {
    cli::out(script(shell, commands()).trim_end());
    Ok(Exit::Ok)
}

fn script(shell: Shell, commands: Vec<Command>) -> String {
    match shell {
        Shell::Bash => commands.into_iter().map(bash).collect::<String>() + BASH_VALUES,
        Shell::Zsh => zsh(commands),
        Shell::Fish => commands.into_iter().map(fish).collect::<String>() + FISH_VALUES,
    }
}

fn generate(shell: Generator, mut command: Command) -> String {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

/// Makes flags of the options that may be alone (`--wait`, `--wait=60`): bash and fish would take
/// the next word for their value.
fn values_may_miss(command: Command) -> Command {
    let alone = |arg: &clap::Arg| {
        arg.get_num_args()
            .is_some_and(|count| count.takes_values() && count.min_values() == 0)
    };
    command.mut_args(|arg| {
        if alone(&arg) {
            arg.num_args(0)
                .require_equals(false)
                .allow_negative_numbers(false)
                .default_missing_value(None)
                .action(ArgAction::SetTrue)
        } else {
            arg
        }
    })
}

/// clap_complete 4.6 calls a verb `agent__daemon__subcmd__check` where it sets the name and
/// `agent__subcmd__daemon__subcmd__check` where it compares it, because of the `-` in the program's.
fn bash(command: Command) -> String {
    let (set, compared) = (
        command.get_name().replace('-', "__"),
        command.get_name().replace('-', "__subcmd__"),
    );
    generate(Generator::Bash, values_may_miss(command)).replace(&compared, &set)
}

/// clap_complete leaves out for fish which words may be behind a verb.
fn fish(command: Command) -> String {
    let under = command.get_name().replace('-', "_");
    let mut words = String::new();
    for verb in command.get_subcommands() {
        for argument in verb.get_positionals() {
            let known: Vec<String> = argument
                .get_possible_values()
                .iter()
                .map(|value| value.get_name().to_owned())
                .collect();
            if !known.is_empty() {
                // A String can always be written to.
                let _ = writeln!(
                    words,
                    "complete -c {} -n \"__fish_{under}_using_subcommand {}\" -f -a \"{}\"",
                    command.get_name(),
                    verb.get_name(),
                    known.join(" ")
                );
            }
        }
    }
    generate(Generator::Fish, values_may_miss(command)) + &words
}

/// zsh takes a file for the commands on its first line, and calls it as one function. So the five
/// functions are told apart at the end, whichever way the script was read.
fn zsh(commands: Vec<Command>) -> String {
    let names: Vec<String> = commands
        .iter()
        .map(|command| command.get_name().to_owned())
        .collect();
    let mut script = format!("#compdef {}\n", names.join(" "));
    for (command, name) in commands.into_iter().zip(&names) {
        let one = generate(Generator::Zsh, command);
        let body = one
            .strip_prefix(&format!("#compdef {name}\n"))
            .unwrap_or(&one);
        let end = body
            .find(&format!("if [ \"$funcstack[1]\" = \"_{name}\" ]"))
            .unwrap_or(body.len());
        script.push_str(body.get(..end).unwrap_or(body));
    }
    script.push_str(ZSH_VALUES);
    script.push_str("if (( $+functions[compdef] )); then\n");
    for name in &names {
        // A String can always be written to.
        let _ = writeln!(script, "    compdef _{name} {name}");
    }
    script.push_str(
        "    # Called for a completion, as a file of $fpath: answer it.\n    \
         [[ $zsh_eval_context[-1] == (*autofunc|shfunc) ]] && \"_$service\" \"$@\"\n    true\nelse\n    \
         print -u2 'agent-daemon completions: write `autoload -U compinit; compinit` above this line'\nfi\n",
    );
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs() -> Vec<String> {
        commands()
            .iter()
            .map(|command| command.get_name().to_owned())
            .collect()
    }

    fn long_flags(command: &Command) -> Vec<String> {
        let mut own: Vec<String> = command
            .get_arguments()
            .filter_map(|arg| Some(format!("--{}", arg.get_long()?)))
            .collect();
        own.extend(command.get_subcommands().flat_map(long_flags));
        own
    }

    #[test]
    fn each_script_knows_every_program_flag_and_verb() {
        for shell in Shell::value_variants() {
            let script = script(*shell, commands());
            for command in commands() {
                let name = command.get_name();
                assert!(script.contains(&format!(" {name}")), "{shell:?}: {name}");
                for flag in long_flags(&command) {
                    let fish = format!("-l {}", flag.trim_start_matches('-'));
                    assert!(
                        script.contains(if *shell == Shell::Fish { &fish } else { &flag }),
                        "{shell:?}: {name} {flag}"
                    );
                }
                for verb in command.get_subcommands() {
                    assert!(
                        script.contains(verb.get_name()),
                        "{shell:?}: {name} {}",
                        verb.get_name()
                    );
                }
            }
            assert!(
                !script.contains(crate::sandbox::LAUNCHER_ARG),
                "{shell:?} shows the launcher"
            );
        }
    }

    #[test]
    fn the_launcher_is_no_argument_of_the_daemon() {
        assert_eq!(
            programs(),
            [
                "agent-daemon",
                "agent-send",
                "agent-monitor",
                "agent-index",
                "agent-consolidate"
            ]
        );
        for command in commands() {
            assert!(
                !long_flags(&command)
                    .iter()
                    .any(|flag| flag.contains(crate::sandbox::LAUNCHER_ARG))
            );
            assert!(
                command
                    .find_subcommand(crate::sandbox::LAUNCHER_ARG)
                    .is_none()
            );
        }
    }
}

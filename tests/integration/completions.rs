//! `agent-daemon completions SHELL`, in the shells themselves; one that is not installed is skipped by name.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a test writes files plainly, and says what it skips"
)]

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use crate::support::{Output, Sandbox, bin};

fn script(shell: &str) -> String {
    let told = Sandbox::new().run("agent-daemon", &["completions", shell], "");
    assert_eq!((told.code, told.stderr.as_str()), (0, ""), "{told:?}");
    told.stdout
}

/// Runs `program` on `input` with the five programs in its `PATH`; `None` when it is not installed.
fn shell(program: &str, arguments: &[&str], input: &str) -> Option<Output> {
    let ours = bin("agent-send")
        .parent()
        .expect("a program is in a directory")
        .to_owned();
    let path = format!(
        "{}:{}",
        ours.display(),
        std::env::var("PATH").unwrap_or_default()
    );
    let home = tempfile::tempdir().expect("the temporary directory is writable");
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        .env("PATH", path)
        .env("HOME", home.path())
        .env("TERM", "dumb");
    let spawned = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = spawned else {
        println!("skipped: {program} is not installed");
        return None;
    };
    child
        .stdin
        .take()
        .expect("stdin is piped")
        .write_all(input.as_bytes())
        .expect("it reads its input");
    let output = child.wait_with_output().expect("it ends");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Some(Output {
        code: output.status.code().unwrap_or(-1),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    })
}

/// What is typed, and what it becomes.
const CASES: [(&str, &str); 20] = [
    ("agent-send --stat", "--status"),
    ("agent-send --wait --no-q", "--no-queue"),
    ("agent-monitor --js", "--json"),
    ("agent-monitor --fol", "--follow"),
    ("agent-index --vers", "--version"),
    ("agent-consolidate --backf", "--backfill"),
    ("agent-daemon comp", "completions"),
    ("agent-daemon completions z", "zsh"),
    ("agent-daemon check --show", "--show-origin"),
    ("agent-daemon --home /tmp doc", "doctor"),
    ("agent-send --job pau", "pause"),
    ("agent-send --tz Europe/Berl", "Europe/Berlin"),
    ("agent-send --skill dist", "distrust"),
    ("agent-send --mcp ad", "add"),
    ("agent-send --cost mon", "month"),
    ("agent-send --queue ret", "retry"),
    ("agent-send --queue --jso", "--json"),
    ("agent-send --raw --to own", "owner"),
    ("agent-daemon login anth", "anthropic"),
    ("agent-daemon --home /tmp login gem", "gemini"),
];

#[test]
fn each_shell_accepts_its_script() {
    for (name, flag) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let file = tempfile::NamedTempFile::new().expect("the temporary directory is writable");
        fs::write(file.path(), script(name)).expect("own file");
        if let Some(told) = shell(name, &[flag, &file.path().display().to_string()], "") {
            assert_eq!(
                (told.code, told.stderr.as_str()),
                (0, ""),
                "{name}: {told:?}"
            );
        }
    }
}

#[test]
fn bash_completes_all_five() {
    let mut script = "source <(agent-daemon completions bash)\n".to_owned();
    for (line, _) in CASES {
        script += &format!(
            "COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); COMPREPLY=()\n\
             f=$(complete -p \"${{COMP_WORDS[0]}}\" | sed 's/.*-F \\([^ ]*\\).*/\\1/')\n\
             $f \"${{COMP_WORDS[0]}}\" \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; echo \"${{COMPREPLY[*]}}\"\n"
        );
    }
    let Some(told) = shell("bash", &["--norc"], &script) else {
        return;
    };
    let expected: Vec<&str> = CASES.iter().map(|(_, word)| *word).collect();
    assert_eq!(
        told.stdout.lines().collect::<Vec<_>>(),
        expected,
        "{told:?}"
    );
}

#[test]
fn fish_completes_all_five() {
    let mut script = "agent-daemon completions fish | source\n".to_owned();
    for (line, _) in CASES {
        script += &format!("echo (complete -C '{line}' | string split -f 1 \\t)\n");
    }
    let Some(told) = shell("fish", &["--no-config"], &script) else {
        return;
    };
    let expected: Vec<&str> = CASES.iter().map(|(_, word)| *word).collect();
    assert_eq!(
        told.stdout.lines().collect::<Vec<_>>(),
        expected,
        "{told:?}"
    );
}

/// Types each line and the tab key into an interactive zsh, which then writes its command line to a file.
const TYPIST: &str = r#"
zmodload zsh/zpty
zpty shell "zsh -f -i"
zpty -w shell "PS1=''; unsetopt beep; $setup"
zpty -w shell "show() { print -r -- \"\$BUFFER\" > $out; zle kill-whole-line }; zle -N show; bindkey '^X' show; bindkey '^I' complete-word"
for line in "${(@f)lines}"; do
  rm -f $out
  zpty -w -n shell "$line"$'\t\x18'
  for look in {1..1000}; do [[ -s $out ]] && break; sleep 0.01; done
  words=(${=$(<$out)}); print -r -- $words[-1]
done
zpty -d shell
"#;

fn check_zsh(setup: &str, how: &str) {
    let out = tempfile::tempdir().expect("the temporary directory is writable");
    let lines: Vec<&str> = CASES.iter().map(|(line, _)| *line).collect();
    let script = format!(
        "setup='{setup}'\nout={}/line\nlines='{}'\n{TYPIST}",
        out.path().display(),
        lines.join("\n")
    );
    let Some(told) = shell("zsh", &["-f"], &script) else {
        return;
    };
    let expected: Vec<&str> = CASES.iter().map(|(_, word)| *word).collect();
    let found: Vec<&str> = told.stdout.lines().map(str::trim_end).collect();
    assert_eq!(found, expected, "{how}: {told:?}");
}

#[test]
fn zsh_completes_all_five_when_the_script_is_sourced() {
    check_zsh(
        "autoload -U compinit; compinit -u -D; source <(agent-daemon completions zsh)",
        "sourced",
    );
}

#[test]
fn zsh_completes_all_five_when_the_script_is_a_file_of_fpath_whatever_its_name() {
    for name in ["_agent-toolkit", "_agent-daemon"] {
        let dir = tempfile::tempdir().expect("the temporary directory is writable");
        fs::write(dir.path().join(name), script("zsh")).expect("own file");
        let fpath = |dir: &Path| {
            format!(
                "fpath=({} $fpath); autoload -U compinit; compinit -u -D",
                dir.display()
            )
        };
        check_zsh(&fpath(dir.path()), name);
    }
}

#[test]
fn zsh_without_compinit_is_told_what_is_missing() {
    let Some(told) = shell("zsh", &["-f"], "source <(agent-daemon completions zsh)\n") else {
        return;
    };
    assert!(
        told.stderr.contains("autoload -U compinit; compinit"),
        "{told:?}"
    );
}

#[test]
fn a_shell_without_completions_is_a_mistake_and_a_closed_pipe_is_none() {
    let sandbox = Sandbox::new();
    for arguments in [&["completions"][..], &["completions", "elvish"]] {
        let told = sandbox.run("agent-daemon", arguments, "");
        assert_eq!((told.code, told.stdout.as_str()), (2, ""), "{told:?}");
    }
    let told = shell(
        "bash",
        &[
            "-c",
            "agent-daemon completions bash | true; echo ${PIPESTATUS[0]}",
        ],
        "",
    )
    .expect("bash");
    assert_eq!((told.stdout.as_str(), told.stderr.as_str()), ("0\n", ""));
}

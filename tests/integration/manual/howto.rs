//! The pages of `docs/howto`: each `sh` block is pasted into a shell of a user, in order, beside a daemon with the
//! offline provider; the settings that a page shows make a configuration that `check` accepts without a warning.
//! `console` blocks are transcripts or want systemd, cron or other programs.
#![allow(clippy::disallowed_methods, reason = "a test reads files plainly")]

use std::{fs, path::PathBuf, time::Duration};

use super::examples::User;
use crate::support::{Sandbox, wait_for};

/// A fenced block: its language, its first line in the file, its text.
struct Fenced {
    language: String,
    line: usize,
    text: String,
}

fn blocks(page: &str) -> Vec<Fenced> {
    let mut found: Vec<Fenced> = Vec::new();
    let mut open = false;
    for (number, line) in (1..).zip(page.lines()) {
        match line.trim_start().strip_prefix("```") {
            Some(_) if open => open = false,
            Some(language) => {
                open = true;
                found.push(Fenced {
                    language: language.to_owned(),
                    line: number + 1,
                    text: String::new(),
                });
            }
            None if open => {
                let block = found.last_mut().expect("it was opened");
                let indent = block
                    .text
                    .is_empty()
                    .then(|| line.len() - line.trim_start().len());
                // In a list every line of a block is indented like its first.
                let line = match indent {
                    Some(_) => line.trim_start(),
                    None => line.strip_prefix("   ").unwrap_or(line),
                };
                block.text += &format!("{line}\n");
            }
            None => {}
        }
    }
    found
}

fn pages() -> Vec<(String, String)> {
    let dir = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/howto");
    let entries = fs::read_dir(dir).expect("the directory").flatten();
    let mut pages: Vec<_> = entries
        .map(|entry| {
            let text = fs::read_to_string(entry.path()).expect("a page");
            (entry.file_name().to_string_lossy().into_owned(), text)
        })
        .collect();
    pages.sort();
    pages
}

/// Returns what is wrong with the commands of a page.
fn try_commands(name: &str, page: &str) -> Vec<String> {
    let user = User::new();
    let _daemon = user.sandbox.ready();
    wait_for("the first index", Duration::from_secs(30), || {
        let status = user.sandbox.run("agent-index", &["status", "--json"], "");
        let status = status.json();
        (status["indexed"] == true && status["running"].is_null()).then_some(())
    });
    let commands = blocks(page)
        .into_iter()
        .filter(|block| block.language == "sh");
    let mut wrong = Vec::new();
    for block in commands {
        let told = user.paste(&format!("set -e\n{}", block.text));
        if told.code != 0 || told.stderr.contains("hint: ") {
            wrong.push(format!(
                "docs/howto/{name}:{}: this does not work when pasted:\n{}\n{told:#?}",
                block.line, block.text
            ));
        }
    }
    wrong
}

#[test]
fn the_commands_of_every_page_work() {
    let pages = pages();
    assert!(pages.len() >= 9);
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let mut wrong = Vec::new();
        for group in pages.chunks(4) {
            let running: Vec<_> = group
                .iter()
                .map(|(name, page)| scope.spawn(move || try_commands(name, page)))
                .collect();
            for page in running {
                wrong.extend(page.join().expect("it does not panic"));
            }
        }
        wrong
    });
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn every_page_has_a_command_that_is_tried() {
    for (name, page) in pages() {
        assert!(
            blocks(&page).iter().any(|block| block.language == "sh"),
            "{name}"
        );
    }
}

#[test]
fn the_settings_of_every_page_are_accepted() {
    for (name, page) in pages() {
        let settings: Vec<Fenced> = blocks(&page)
            .into_iter()
            .filter(|block| block.language == "toml")
            .collect();
        for block in &settings {
            let sandbox = Sandbox::new().env("TELEGRAM_BOT_TOKEN", "123456789:AAExample");
            // What other blocks of the page say of other files belongs to it.
            for other in &settings {
                let file = other
                    .text
                    .lines()
                    .next()
                    .and_then(|line| line.strip_prefix("# "));
                let file = file.unwrap_or_else(|| panic!("{name}:{}: which file?", other.line));
                if file != "agent.toml" {
                    sandbox.put(file, other.text.as_bytes());
                }
            }
            if block.text.starts_with("# agent.toml") {
                sandbox.put("agent.toml", block.text.as_bytes());
            }
            let checked = sandbox.run("agent-daemon", &["check"], "");
            // What this machine lacks is no fault of the page.
            let mut lines = checked.stderr.lines();
            let is_fault =
                |line: &str| line.contains("warning") && !line.contains("is not installed");
            assert!(
                checked.code == 0 && !lines.any(is_fault),
                "docs/howto/{name}:{}:\n{}\n{checked:#?}",
                block.line,
                block.text
            );
        }
    }
}

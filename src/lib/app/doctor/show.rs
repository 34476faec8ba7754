//! Output of the findings: as blocks for people, as one document for programs.

use std::io::IsTerminal;

use serde::Serialize;
use serde_json::json;

use super::machine::Wall;
use super::repair::Fixed;
use super::{Finding, Level};
use crate::app::cli;
use crate::{secret, text};

/// What is shown in addition to the findings.
#[derive(Debug, Default, Serialize)]
pub(super) struct Report {
    /// The wall around commands, if they run.
    pub sandbox: Option<Wall>,
    /// The programs that are announced to commands: those that are there, and those that are not.
    pub programs: Option<(Vec<&'static str>, Vec<&'static str>)>,
    /// Where the programs are, when `$PATH` does not say so.
    pub off_path: Option<String>,
    /// How to come back with `--fix`.
    pub doctor: String,
    pub fixed: Vec<Fixed>,
    /// What could not be repaired, and why.
    pub failed: Vec<String>,
}

/// Prints one document, also when nothing is wrong.
pub(super) fn json(findings: &[Finding], fix: bool, report: &Report) {
    let mut document = json!({"findings": findings});
    if fix {
        document["fixed"] = json!(report.fixed);
    }
    if let Some(wall) = &report.sandbox {
        document["sandbox"] = json!(wall.level);
        document["sandbox_risk"] = json!(wall.risk);
        document["sandbox_memory"] = json!(wall.memory);
    }
    if let Some((found, missing)) = &report.programs {
        document["programs"] = json!(found);
        document["programs_missing"] = json!(missing);
    }
    say_failed(report);
    cli::out(&secret::redact(
        &serde_json::to_string_pretty(&document).unwrap_or_default(),
    ));
}

/// Prints a block a finding; the sums are talk.
pub(super) fn people(findings: &[Finding], fix: bool, report: &Report, quiet: bool) {
    let width = if std::io::stdout().is_terminal() {
        terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0))
    } else {
        80
    };
    let fixed = report
        .fixed
        .iter()
        .map(|fixed| block("fixed", fixed.id, &[("did", &fixed.evidence)], width));
    let found = findings.iter().map(|finding| {
        let level = if finding.level == Level::Error {
            "error"
        } else {
            "warning"
        };
        block(
            level,
            finding.id,
            &[("seen", &finding.evidence), ("run", &finding.command)],
            width,
        )
    });
    let blocks: Vec<String> = fixed.chain(found).collect();
    if !blocks.is_empty() {
        cli::out(&secret::redact(&blocks.join("\n\n")));
    }
    say_failed(report);
    if !quiet {
        for line in sums(findings, fix, report) {
            cli::err(&line);
        }
    }
}

fn say_failed(report: &Report) {
    for failed in &report.failed {
        cli::err(&format!(
            "agent-daemon: {}",
            secret::redact(&text::visible(failed))
        ));
    }
}

fn sums(findings: &[Finding], fix: bool, report: &Report) -> Vec<String> {
    let count = |level| {
        findings
            .iter()
            .filter(|finding| finding.level == level)
            .count()
    };
    let (errors, warnings) = (count(Level::Error), count(Level::Warning));
    let mut lines = Vec::new();
    if findings.is_empty() {
        lines.push(
            if report.fixed.is_empty() {
                "nothing is wrong"
            } else {
                "nothing else is wrong"
            }
            .to_owned(),
        );
    } else {
        lines.push(format!(
            "{}, {}",
            text::counted(errors, "error"),
            text::counted(warnings, "warning")
        ));
    }
    let repairs = findings
        .iter()
        .filter(|finding| finding.repair.is_some())
        .count();
    if !fix && repairs > 0 {
        lines.push(format!(
            "{repairs} of them can be repaired at once: {}",
            report.doctor
        ));
    }
    lines.extend(report.off_path.clone());
    if let Some(wall) = &report.sandbox {
        lines.push(format!("sandbox of exec: {}", wall.level));
        let risk = wrap(wall.risk, 78);
        lines.extend(risk.into_iter().map(|line| format!("  {line}")));
        let memory = wall.memory.iter();
        lines.extend(memory.map(|bound| format!("  memory and processes together: {bound}")));
    }
    if let Some((found, missing)) = &report.programs {
        lines.push(format!("programs for exec: {}", listed(found)));
        if !missing.is_empty() {
            lines.push(format!("  not installed, and useful: {}", listed(missing)));
        }
    }
    lines
}

fn listed(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

/// Returns a block: what it is about, and below it lines with a word in front. Commands are not
/// wrapped, so that they can be pasted.
fn block(what: &str, id: &str, lines: &[(&str, &str)], width: usize) -> String {
    let mut block = format!("{what:<8} {id}");
    for (word, text) in lines {
        let room = if *word == "run" {
            usize::MAX
        } else {
            width.saturating_sub(9).max(20)
        };
        let mut word = *word;
        for line in text
            .lines()
            .flat_map(|line| wrap(&text::visible(line), room))
        {
            block.push_str(&format!("\n  {word:<6} {line}"));
            word = "";
        }
    }
    block
}

/// Cuts a line at spaces into lines of at most `width` columns; a longer word stays whole, and so
/// do spaces at the beginning.
fn wrap(line: &str, width: usize) -> Vec<String> {
    use unicode_width::UnicodeWidthStr;
    if line.width() <= width {
        return vec![line.to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in line.split(' ') {
        let last = lines.last_mut().expect("there is always one");
        if last.is_empty() {
            last.push_str(word);
        } else if last.width() + 1 + word.width() <= width {
            last.push(' ');
            last.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_aligned_and_fits_the_screen_and_its_command_stays_whole() {
        let evidence = "/home/ada/agent/.env can be read by others (mode 0644): the daemon refuses to start\n  3 | [agent";
        let command = "chmod 600 /home/ada/a/very/long/path/that/is/longer/than/any/terminal/may/ever/be/agent/.env";
        let expected = format!(
            "error    secrets-readable\n  seen   /home/ada/agent/.env can be read by others (mode 0644): the daemon\n         \
             refuses to start\n           3 | [agent\n  run    {command}"
        );
        assert_eq!(
            block(
                "error",
                "secrets-readable",
                &[("seen", evidence), ("run", command)],
                80
            ),
            expected
        );
    }

    #[test]
    fn a_name_that_commands_terminals_is_shown_escaped() {
        let shown = block("warning", "x", &[("seen", "a\u{1b}[2Jb")], 80);
        assert_eq!(shown, "warning  x\n  seen   a\\u{1b}[2Jb");
    }

    #[test]
    fn sums_name_what_can_be_repaired() {
        let finding =
            Finding::error("a", "b", "c").repaired_by(crate::app::doctor::Repair::Directories);
        let report = Report {
            doctor: "agent-daemon doctor --fix".to_owned(),
            ..Report::default()
        };
        let findings = [finding, Finding::warning("d", "e", "f")];
        let expected = [
            "1 error, 1 warning",
            "1 of them can be repaired at once: agent-daemon doctor --fix",
        ];
        assert_eq!(sums(&findings, false, &report), expected);
        assert_eq!(sums(&[], false, &report), ["nothing is wrong"]);
    }
}

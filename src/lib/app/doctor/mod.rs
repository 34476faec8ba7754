//! `agent-daemon doctor`: what is wrong here, what was seen of it, and the command that helps.
//!
//! It works on a home that is empty, half made or broken, with or without a daemon. It takes no
//! lock, sends nothing, and changes nothing without `--fix`, which repairs modes and makes missing
//! directories and never touches what somebody wrote. A check is a function from the [`Patient`]
//! to its findings; one that breaks down is a finding itself. What is fine is not mentioned.

mod api;
mod databases;
mod files;
mod home;
mod jobs;
mod machine;
mod money;
mod prompt;
mod repair;
mod running;
mod servers;
mod service;
mod settings;
mod show;
mod subject;

use serde::Serialize;

use super::cli::{Exit, Failure, Shared};
use repair::Repair;
use subject::{Found, Patient};

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Finding {
    /// The same for ever, so that scripts can wait for it.
    id: &'static str,
    level: Level,
    /// What was seen, with the path or the number.
    evidence: String,
    /// What to paste into a shell, to mend it or to see more.
    command: String,
    /// What `--fix` would do.
    #[serde(skip)]
    repair: Option<Repair>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    /// The agent does not work, or a secret is open.
    Error,
    /// It works, worse than it could.
    Warning,
}

impl Finding {
    fn error(id: &'static str, evidence: impl Into<String>, command: impl Into<String>) -> Self {
        Self {
            id,
            level: Level::Error,
            evidence: evidence.into(),
            command: command.into(),
            repair: None,
        }
    }

    fn warning(id: &'static str, evidence: impl Into<String>, command: impl Into<String>) -> Self {
        Self {
            level: Level::Warning,
            ..Self::error(id, evidence, command)
        }
    }

    fn repaired_by(self, repair: Repair) -> Self {
        Self {
            repair: Some(repair),
            ..self
        }
    }
}

type Check = fn(&Patient) -> Vec<Finding>;

/// What is looked at, in the order in which it is told.
const CHECKS: &[(&str, Check)] = &[
    ("home", home::check),
    ("files", files::check),
    ("settings", settings::check),
    ("HTTP API", api::check),
    ("prompt", prompt::check),
    ("databases", databases::check),
    ("money", money::check),
    ("daemon", running::check),
    ("tool servers", servers::check),
    ("jobs", jobs::check),
    ("machine", machine::check),
];

/// How deep troubles hide behind each other: a closed directory, in it another one, in it a file.
const ROUNDS: usize = 3;

/// Looks, repairs if `fix`, and tells what is wrong.
pub(crate) fn doctor(shared: &Shared, fix: bool, json: bool) -> Result<Exit, Failure> {
    let (findings, report) = match Patient::meet(shared)? {
        Found::Nobody(finding) => (vec![finding], show::Report::default()),
        Found::Patient(patient) => see(shared, &patient, fix)?,
    };
    if json {
        show::json(&findings, fix, &report);
    } else {
        show::people(&findings, fix, &report, shared.quiet);
    }
    Ok(if findings.is_empty() {
        Exit::Ok
    } else {
        Exit::Failed
    })
}

fn see(
    shared: &Shared,
    patient: &Patient,
    fix: bool,
) -> Result<(Vec<Finding>, show::Report), Failure> {
    let mut findings = examine(patient);
    let mut report = show::Report {
        sandbox: machine::sandbox_in_force(patient),
        off_path: machine::off_path(patient),
        doctor: patient.agent("doctor --fix"),
        ..show::Report::default()
    };
    // What is repaired may have hidden something else.
    for _ in 0..if fix { ROUNDS } else { 0 } {
        let (fixed, failed) = repair::apply(patient, &findings);
        let again = !fixed.is_empty();
        report.fixed.extend(fixed);
        report.failed = failed;
        if !again {
            break;
        }
        findings = match Patient::meet(shared)? {
            Found::Patient(patient) => examine(&patient),
            Found::Nobody(finding) => vec![finding],
        };
    }
    Ok((findings, report))
}

/// Returns everything that is wrong, the worst first.
fn examine(patient: &Patient) -> Vec<Finding> {
    let closed = run(patient, &[("home", home::entrance as Check)]);
    let mut findings = if closed.is_empty() {
        run(patient, CHECKS)
    } else {
        // Behind a closed door everything looks broken.
        let machine = run(patient, &[("machine", machine::check as Check)]);
        closed.into_iter().chain(machine).collect()
    };
    findings.sort_by_key(|finding| finding.level);
    findings
}

/// Runs the checks; one that panics is a finding and keeps no other from being made.
fn run(patient: &Patient, checks: &[(&str, Check)]) -> Vec<Finding> {
    let one = |(name, check): &(&str, Check)| {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(patient))).unwrap_or_else(|_| {
            let evidence = format!("the check of the {name} broke down; this is a bug of agent-daemon, its words are above");
            vec![Finding::error("check-failed", evidence, patient.agent("--version"))]
        })
    };
    checks.iter().flat_map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_that_breaks_down_is_a_finding_and_the_others_are_made() {
        let dir = tempfile::tempdir().expect("dir");
        let patient = Patient::of(dir.path(), &[]);
        let checks: &[(&str, Check)] = &[
            ("stars", |_| panic!("no stars")),
            ("moon", |_| {
                vec![Finding::warning("moon-full", "it is round", "cal")]
            }),
        ];
        let ids: Vec<&str> = run(&patient, checks)
            .iter()
            .map(|finding| finding.id)
            .collect();
        assert_eq!(ids, ["check-failed", "moon-full"]);
    }

    #[test]
    fn a_finding_has_the_four_fields_of_the_contract() {
        let finding =
            Finding::warning("moon-full", "it is round", "cal").repaired_by(Repair::Directories);
        let document = serde_json::json!({"id": "moon-full", "level": "warning", "evidence": "it is round", "command": "cal"});
        assert_eq!(serde_json::to_value(finding).expect("plain data"), document);
    }
}

//! `agent-daemon doctor`: reports problems, with the evidence and the command that repairs each.
//!
//! It works on a home that is empty, incomplete or broken, with or without a daemon. It takes no lock, sends nothing, and
//! changes nothing without `--fix`, which repairs modes, creates missing directories, and never changes file contents.
//! A check is a function from the [`DoctorContext`] to its findings; a check that panics is itself a finding. Checks
//! without findings are not mentioned.

mod api;
mod backups;
mod channels;
mod collections;
mod context;
mod databases;
mod files;
mod home;
mod ids;
mod jobs;
mod limits;
mod machine;
mod money;
mod network;
mod notes;
mod place;
mod prompt;
mod repair;
mod running;
mod servers;
mod service;
mod settings;
mod share;
mod show;
mod standby;
mod transcripts;

use serde::Serialize;

use super::cli;
use super::cli::{Exit, Failure, Shared};
use crate::config::Loaded;
use context::DoctorContext;
use repair::Repair;

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// The same forever, so that scripts can wait for it.
    id: &'static str,
    level: Level,
    /// What was seen, with the path or the number.
    pub(super) evidence: String,
    /// What to paste into a shell, to mend it or to see more.
    pub(super) command: String,
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
    pub(super) fn is_error(&self) -> bool {
        self.level == Level::Error
    }

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

/// How something is looked at.
#[derive(Clone, Copy)]
enum Check {
    /// Whatever the settings are.
    Home(fn(&DoctorContext) -> Vec<Finding>),
    /// When the settings can be read; that they cannot is told once.
    Settings(fn(&DoctorContext, &Loaded) -> Vec<Finding>),
}

/// What is looked at, in the order in which it is told.
const CHECKS: &[(&str, Check)] = &[
    ("home", Check::Home(home::check)),
    ("files", Check::Home(files::check)),
    ("settings", Check::Home(settings::check)),
    ("installed files", Check::Settings(share::check)),
    ("HTTP API", Check::Settings(api::check)),
    ("prompt", Check::Settings(prompt::check)),
    ("notes", Check::Home(notes::check)),
    ("databases", Check::Home(databases::check)),
    ("money", Check::Settings(money::check)),
    ("daemon", Check::Home(running::check)),
    ("channels", Check::Settings(channels::check)),
    ("standby", Check::Home(standby::check)),
    ("backups", Check::Home(backups::check)),
    ("tool servers", Check::Settings(servers::check)),
    ("collections", Check::Settings(collections::check)),
    ("jobs", Check::Home(jobs::check)),
    ("conversations", Check::Home(transcripts::check)),
    ("machine", Check::Home(machine::check)),
    ("limits", Check::Home(limits::check)),
    ("place", Check::Home(place::check)),
    ("network", Check::Settings(network::check)),
];

/// How deep troubles hide behind each other: a closed directory, in it another one, in it a file.
const ROUNDS: usize = 3;

/// Prints every id that there is, and what it means.
pub(crate) fn list(json: bool) -> Exit {
    if json {
        let id = |(id, meaning)| serde_json::json!({"id": id, "meaning": meaning});
        cli::json(&serde_json::json!({"ids": ids::all().map(id).collect::<Vec<_>>()}));
        return Exit::Ok;
    }
    let width = ids::all().map(|(id, _)| id.len()).max().unwrap_or(0);
    ids::all().for_each(|(id, meaning)| cli::out(&format!("{id:<width$}  {meaning}")));
    Exit::Ok
}

/// Looks, repairs if `fix`, and tells what is wrong.
pub(crate) fn doctor(shared: &Shared, fix: bool, json: bool) -> Result<Exit, Failure> {
    let (findings, report) = match DoctorContext::meet(shared)? {
        Ok(context) => see(shared, &context, fix)?,
        Err(finding) => (vec![finding], show::Report::default()),
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

/// Returns problems of the settings that do not prevent a start: `check` reports the same.
pub(super) fn of_settings(shared: &Shared) -> Result<Vec<Finding>, Failure> {
    let Ok(context) = DoctorContext::meet(shared)? else {
        return Ok(Vec::new());
    };
    let checks = [
        ("settings", Check::Settings(settings::beyond_start)),
        ("channels", Check::Settings(channels::check)),
        ("installed files", Check::Settings(share::check)),
        ("money", Check::Settings(money::unpriced)),
    ];
    Ok(run(&context, &checks))
}

fn see(
    shared: &Shared,
    context: &DoctorContext,
    fix: bool,
) -> Result<(Vec<Finding>, show::Report), Failure> {
    let mut findings = examine(context);
    let mut report = show::Report {
        sandbox: machine::sandbox_in_force(context),
        programs: machine::known_programs(context),
        off_path: machine::off_path(context),
        doctor: context.agent("doctor --fix"),
        ..show::Report::default()
    };
    // What is repaired may have hidden something else.
    for _ in 0..if fix { ROUNDS } else { 0 } {
        let (fixed, failed) = repair::apply(context, &findings);
        let again = !fixed.is_empty();
        report.fixed.extend(fixed);
        report.failed = failed;
        if !again {
            break;
        }
        findings = match DoctorContext::meet(shared)? {
            Ok(context) => examine(&context),
            Err(finding) => vec![finding],
        };
    }
    Ok((findings, report))
}

/// Returns everything that is wrong, the worst first.
fn examine(context: &DoctorContext) -> Vec<Finding> {
    let closed = run(context, &[("home", Check::Home(home::entrance))]);
    let waits: &[(&str, Check)] = &[("standby", Check::Home(standby::check))];
    let mut findings = if closed.is_empty() && standby::waits(context) {
        run(context, waits)
    } else if closed.is_empty() {
        run(context, CHECKS)
    } else {
        // Behind a closed door everything looks broken.
        let machine = run(context, &[("machine", Check::Home(machine::check))]);
        closed.into_iter().chain(machine).collect()
    };
    findings.sort_by_key(|finding| finding.level);
    findings
}

/// Runs the checks; one that panics is a finding and keeps no other from being made.
fn run(context: &DoctorContext, checks: &[(&str, Check)]) -> Vec<Finding> {
    let one = |(name, check): &(&str, Check)| {
        let look = || match (check, &context.settings) {
            (Check::Home(check), _) => check(context),
            (Check::Settings(check), Ok(loaded)) => check(context, loaded),
            (Check::Settings(_), Err(_)) => Vec::new(),
        };
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(look)).unwrap_or_else(|_| {
            let evidence = format!("the check of the {name} failed; this is a bug in agent-daemon, whose message is above");
            vec![Finding::error("check-failed", evidence, context.agent("--version"))]
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
        let context = DoctorContext::of(dir.path(), &[]);
        let checks: &[(&str, Check)] = &[
            ("stars", Check::Home(|_| panic!("no stars"))),
            (
                "moon",
                Check::Home(|_| vec![Finding::warning("moon-full", "it is round", "cal")]),
            ),
        ];
        let ids: Vec<&str> = run(&context, checks)
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

//! Are the databases whole and of a schema that this build knows? Is the list of people?

use std::path::Path;
use std::time::Duration;

use super::Finding;
use super::patient::{Patient, blocks, quote};
use crate::db::{self, Health};
use crate::people::People;
use crate::{cost, queue};

/// Reading a database through takes at most this long (1 GB in about 2 s from memory); what is
/// larger was read as far as that went.
const PATIENCE: Duration = Duration::from_secs(5);

type Examine = fn(&Path, Duration) -> Result<Health, db::Error>;

pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    let home = &patient.home;
    let databases: [(_, Examine); 2] = [(home.queue_db(), queue::examine), (home.cost_db(), cost::examine)];
    let mut findings: Vec<Finding> = databases.iter().filter_map(|(path, examine)| database(patient, path, *examine)).collect();
    findings.extend(people(patient));
    findings
}

fn database(patient: &Patient, path: &Path, examine: Examine) -> Option<Finding> {
    let shown = patient.shown(path);
    let file = quote(path);
    let sudo = patient.sudo();
    // Who may spend nothing unseen does not start without its ledger (specification §19).
    let stops = path == patient.home.cost_db() && patient.settings.as_ref().is_ok_and(|loaded| loaded.config.cost.capped());
    let damaged = |why: &str| {
        let fate = match stops {
            true => "while a limit is set in [cost] the daemon does not start with it",
            false => "the daemon will set it aside at its next start and begin a new one",
        };
        let save = format!("{sudo}sqlite3 {file} .recover > {}.sql", quote(path.file_stem().unwrap_or_default()));
        let command = if stops { format!("{save}; {sudo}mv {file} {file}.damaged") } else { save };
        Finding::error("database-damaged", format!("{shown} is damaged: {why}; {fate}"), command)
    };
    match examine(path, PATIENCE) {
        Ok(Health::Empty | Health::Sound | Health::Unfinished) => None,
        Ok(Health::Damaged(lines)) => Some(damaged(lines.first().map_or("", String::as_str))),
        Err(db::Error::Damaged { source, .. }) => Some(damaged(&source.to_string())),
        Err(error @ db::Error::Newer { .. }) => {
            let evidence = format!("{error}: a newer version wrote it");
            Some(Finding::error("database-newer", evidence, patient.agent("--version")))
        }
        Err(error) => Some(Finding::error("database-unreadable", error.to_string(), format!("{sudo}ls -l {file}"))),
    }
}

/// The daemon sets a damaged list aside and then lets in only those named in agent.toml.
fn people(patient: &Patient) -> Option<Finding> {
    let path = Some(patient.home.people()).filter(|path| !blocks(path))?;
    let bytes = std::fs::read(&path).ok()?;
    let error = serde_json::from_slice::<People>(&bytes).err()?;
    let evidence = format!("state/people.json cannot be read ({error}): nobody whom you let in by pairing is heard");
    Some(Finding::error("people-damaged", evidence, patient.edit(&path, Some(error.line()))))
}

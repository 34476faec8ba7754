//! Checks whether the databases, the list of people and the audit log are intact, with a schema that this build knows.

use std::path::Path;
use std::time::Duration;

use super::context::{DoctorContext, blocks, quote};
use super::{Finding, share};
use crate::audit;
use crate::audit::Place as Record;
use crate::db;
use crate::db::Health;
use crate::db::Statements;
use crate::memory::index;
use crate::memory::index::Place;
use crate::memory::{consolidate, embedder, facts};
use crate::people::People;
use crate::{cost, people, queue};

/// Reading a database through takes at most this long (1 GB in about 2 s from memory); what is
/// larger was read as far as that went.
const PATIENCE: Duration = Duration::from_secs(5);

type Examine = fn(&Path, Duration) -> Result<Health, db::Error>;
/// Returns what is said of a damaged database, given SQLite's words.
type Damage = fn(&DoctorContext, &Path, &str) -> Finding;

pub(super) fn check(context: &DoctorContext) -> Vec<Finding> {
    let home = &context.home;
    let databases: [(_, Examine, Damage); 4] = [
        (home.queue_db(), queue::examine, lost),
        (home.cost_db(), cost::examine, lost),
        (facts::database(home), facts::examine, of_facts),
        (Place::of(home).database(), index::examine, of_index),
    ];
    let mut findings: Vec<Finding> = databases
        .iter()
        .filter_map(|(path, examine, damage)| database(context, path, *examine, *damage))
        .collect();
    findings.extend(people(context));
    findings.extend(record(context));
    findings.extend(vectors(context));
    findings.extend(parked(context));
    findings
}

/// What has no vector is found by its words, and by nothing else.
fn vectors(context: &DoctorContext) -> Option<Finding> {
    let place = Place::of(&context.home).with(embedder::opener(&context.home, &context.env, None));
    // Without the table nothing can be given a vector; that is told with the installed files.
    let loaded = context.settings.as_ref().ok()?;
    if blocks(&place.database()) || !share::check(context, loaded).is_empty() {
        return None;
    }
    let why = index::lack(&place).ok()??;
    let evidence = format!("the memory is searched by words only, not by meaning: {why}");
    Some(Finding::warning(
        "index-without-vectors",
        evidence,
        context.program("agent-index", "sync"),
    ))
}

fn database(
    context: &DoctorContext,
    path: &Path,
    examine: Examine,
    damage: Damage,
) -> Option<Finding> {
    match examine(path, PATIENCE) {
        Ok(Health::Empty | Health::Sound | Health::Unfinished) => None,
        Ok(Health::Damaged(lines)) => Some(damage(
            context,
            path,
            lines.first().map_or("", String::as_str),
        )),
        Err(db::Error::Damaged { source, .. }) => Some(damage(context, path, &source.to_string())),
        Err(error @ db::Error::Newer { .. }) => {
            let evidence = format!("{error}: a newer version wrote it");
            Some(Finding::error(
                "database-newer",
                evidence,
                context.agent("--version"),
            ))
        }
        // Somebody is at work on it.
        Err(error) if error.is_busy() => None,
        Err(error) => Some(Finding::error(
            "database-unreadable",
            error.to_string(),
            format!("{}ls -l {}", context.sudo(), quote(path)),
        )),
    }
}

/// What only the database knew.
fn lost(context: &DoctorContext, path: &Path, why: &str) -> Finding {
    let (shown, file, sudo) = (context.shown(path), quote(path), context.sudo());
    // Who may spend nothing unseen does not start without its ledger (specification §19).
    let stops = path == context.home.cost_db()
        && context
            .settings
            .as_ref()
            .is_ok_and(|loaded| loaded.config.cost.capped());
    let sql = "SELECT count(*) FROM sqlite_schema";
    let opens = db::read(path, |database| {
        database.one(sql, [], |row| row.get::<_, i64>(0))
    });
    let fate = match (stops, opens.is_ok()) {
        (true, _) => "while a limit is set in [cost] the daemon does not start with it",
        (false, true) => {
            "the daemon continues with it, and what needs the damaged parts fails; stop the daemon before you move it away"
        }
        (false, false) => "the daemon will set it aside at its next start and begin a new one",
    };
    let save = format!(
        "{sudo}sqlite3 {file} .recover > {}.sql",
        quote(path.file_stem().unwrap_or_default())
    );
    let command = if stops || opens.is_ok() {
        format!("{save}; {sudo}mv {file} {file}.damaged")
    } else {
        save
    };
    Finding::error(
        "database-damaged",
        format!("{shown} is damaged: {why}; {fate}"),
        command,
    )
}

/// What files state can be drawn from them again; when it began to hold is lost.
fn of_facts(context: &DoctorContext, path: &Path, why: &str) -> Finding {
    let shown = context.shown(path);
    let evidence = format!(
        "{shown} is damaged: {why}; no facts are extracted or recalled, but the files that state them are intact"
    );
    Finding::error(
        "memory-damaged",
        evidence,
        context.program("agent-consolidate", "--backfill"),
    )
}

/// Stretches of conversations that no model could read: once more is worth a try when the model was changed.
fn parked(context: &DoctorContext) -> Option<Finding> {
    let parked = consolidate::parked(&context.home).ok()?;
    let last = parked.first()?;
    let evidence = format!(
        "{} stretches of conversations were read by rules alone, because the model failed three times; the last one in {}: {}",
        parked.len(),
        last.session_id,
        last.why
    );
    Some(Finding::warning(
        "consolidation-parked",
        evidence,
        context.program("agent-consolidate", "--backfill --dry-run"),
    ))
}

/// What the index holds can always be made again.
fn of_index(context: &DoctorContext, path: &Path, why: &str) -> Finding {
    let shown = context.shown(path);
    let evidence = format!(
        "{shown} is damaged: {why}; nothing is found in it, but no memory is lost: it is made from the files"
    );
    Finding::warning(
        "index-damaged",
        evidence,
        context.program("agent-index", "rebuild"),
    )
}

/// The daemon sets a damaged list aside and then lets in only the owners of agent.toml.
fn people(context: &DoctorContext) -> Option<Finding> {
    let path = Some(context.home.people()).filter(|path| !blocks(path))?;
    if let Some(aside) = people::set_aside(&path) {
        let edit = context.edit(&aside.path, None);
        return Some(Finding::error("people-damaged", aside.words, edit));
    }
    let bytes = std::fs::read(&path).ok()?;
    let error = serde_json::from_slice::<People>(&bytes).err()?;
    let evidence = format!(
        "state/people.json cannot be read ({error}): only the owners in agent.toml may talk, not the people let in by pairing"
    );
    Some(Finding::error(
        "people-damaged",
        evidence,
        context.edit(&path, Some(error.line())),
    ))
}

/// Nothing mends it: the damage is what it has to say.
fn record(context: &DoctorContext) -> Option<Finding> {
    let place = Record::of(&context.home);
    if [&place.log, &place.head]
        .into_iter()
        .any(|path| blocks(path))
    {
        return None;
    }
    let is_alive = || context.daemon.as_ref().is_ok_and(Option::is_some);
    let damage = audit::verify(&place, &is_alive).ok()?.damage?;
    let evidence = format!(
        "state/audit.jsonl, the audit log, is not as it was written: line {}: {}",
        damage.line, damage.meaning
    );
    Some(Finding::error(
        "audit-damaged",
        evidence,
        context.program("agent-send", "--log --verify"),
    ))
}

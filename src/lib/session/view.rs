//! Read access to the sessions for any process, without the daemon. Nothing is written here, and nothing is
//! repaired: the files belong to another process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::event::{Event, Head, Kind};
use super::index::{Entry, Index, Wanted};
use super::log_rotation::order;
use super::state::State;
use super::transcript::{files, session_of, view, view_of};
use crate::people::People;
use crate::sys;
use crate::sys::jsonl;

/// A session as a listing shows it.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Its key.
    pub key: String,
    /// What is known of it, up to its newest event.
    pub entry: Entry,
    /// Files of its transcript.
    pub log_files: u64,
    /// Their bytes.
    pub log_bytes: u64,
}

/// Returns the sessions of `index`, the last used first. The index may be a second behind the
/// transcripts in `dir`; an entry that is behind is made from its transcript.
///
/// # Errors
/// When a transcript cannot be read.
pub fn listing(index: &Index, dir: &Path) -> Result<Vec<Listed>, sys::Error> {
    let mut logs = logs(dir)?;
    let mut sessions = Vec::with_capacity(index.len());
    for (key, entry) in index.iter() {
        // Without a file it was archived meanwhile.
        let Some(log) = logs.remove(&entry.session_id) else {
            continue;
        };
        let entry = if log.is_counted_in(entry) {
            entry.clone()
        } else {
            // Without a head it is being archived.
            let Some(state) = log.view(dir, &entry.session_id)? else {
                continue;
            };
            state
                .head
                .as_ref()
                .map_or_else(|| entry.clone(), |head| Entry::of(head, &state))
        };
        sessions.push(Listed {
            key: key.to_owned(),
            entry,
            log_files: log.names.len() as u64,
            log_bytes: log.bytes,
        });
    }
    sessions.sort_by(|a, b| {
        b.entry
            .updated_at
            .cmp(&a.entry.updated_at)
            .then_with(|| a.key.cmp(&b.key))
    });
    Ok(sessions)
}

/// What of a conversation that continues is no longer sent to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gone {
    /// Its events before this one.
    pub before: u64,
    /// But for this one.
    pub but: Option<u64>,
}

/// Returns what is no longer sent of the conversations in `dir`, by session id; those that were never
/// summed up are left out.
///
/// # Errors
/// When a transcript cannot be read.
pub fn gone(index: &Index, dir: &Path) -> Result<BTreeMap<String, Gone>, sys::Error> {
    let known: BTreeMap<&str, &Entry> = index
        .iter()
        .map(|(_, entry)| (entry.session_id.as_str(), entry))
        .collect();
    let mut found = BTreeMap::new();
    for (id, log) in logs(dir)? {
        let is_whole = known
            .get(id.as_str())
            .is_some_and(|entry| log.is_counted_in(entry) && entry.compaction_count == 0);
        let compacted = if is_whole {
            None
        } else {
            log.view(dir, &id)?.and_then(|state| state.compacted)
        };
        found.extend(compacted.map(|compacted| {
            (
                id,
                Gone {
                    before: compacted.kept_from,
                    but: compacted.question,
                },
            )
        }));
    }
    Ok(found)
}

/// The files of one transcript together.
#[derive(Debug, Default)]
struct Log {
    /// In the order of their events.
    names: Vec<String>,
    bytes: u64,
    newest_bytes: u64,
}

impl Log {
    /// Returns true when nothing came after what `entry` counts.
    fn is_counted_in(&self, entry: &Entry) -> bool {
        self.names.last() == Some(&entry.position.file)
            && entry.position.offset == self.newest_bytes
    }

    /// Returns the state of the session `id`, whose files these are. To look for them in `dir` once more would read it once
    /// for each session. What was archived meanwhile is looked for.
    fn view(&self, dir: &Path, id: &str) -> Result<Option<State>, sys::Error> {
        view_of(dir, id, &self.names).or_else(|_| view(dir, id))
    }
}

fn logs(dir: &Path) -> Result<BTreeMap<String, Log>, sys::Error> {
    let mut logs: BTreeMap<String, Log> = BTreeMap::new();
    for name in names(dir)? {
        let Some(id) = session_of(&name) else {
            continue;
        };
        // A file that went away meanwhile was archived.
        let Ok(meta) = std::fs::metadata(dir.join(&name)) else {
            continue;
        };
        let log = logs.entry(id.to_owned()).or_default();
        log.bytes += meta.len();
        if log
            .names
            .last()
            .is_none_or(|last| order(&name) > order(last))
        {
            log.newest_bytes = meta.len();
        }
        let at = log
            .names
            .partition_point(|known| order(known) < order(&name));
        log.names.insert(at, name);
    }
    Ok(logs)
}

/// Returns the transcript files of session `id` in the order of their events, archived ones too.
///
/// # Errors
/// When a directory cannot be read.
pub fn transcript_files(dir: &Path, archive: &Path, id: &str) -> Result<Vec<PathBuf>, sys::Error> {
    let mut found: Vec<(String, &Path)> = Vec::new();
    // The archive second: a file that is moved there meanwhile is met once at least.
    for dir in [dir, archive].into_iter().filter(|dir| dir.is_dir()) {
        let names = files(dir, id)?;
        found.retain(|(known, _)| !names.contains(known));
        found.extend(names.into_iter().map(|name| (name, dir)));
    }
    // A reset that was broken off leaves some files here and some there.
    found.sort_by(|(a, _), (b, _)| order(a).cmp(&order(b)));
    Ok(found
        .into_iter()
        .map(|(name, dir)| dir.join(name))
        .collect())
}

/// Returns the transcript files of all sessions by id, each in the order of its events, archived ones
/// too.
///
/// # Errors
/// When a directory that is there cannot be read: then nobody knows which sessions there are.
pub fn all_transcripts(
    dir: &Path,
    archive: &Path,
) -> Result<BTreeMap<String, Vec<PathBuf>>, sys::Error> {
    let mut found: BTreeMap<String, Vec<(String, &Path)>> = BTreeMap::new();
    // The archive second: a file that is moved there meanwhile is met once at least.
    for dir in [dir, archive] {
        for name in names(dir)? {
            let Some(id) = session_of(&name).map(str::to_owned) else {
                continue;
            };
            let files = found.entry(id).or_default();
            files.retain(|(known, _)| *known != name);
            files.push((name, dir));
        }
    }
    let paths = |mut files: Vec<(String, &Path)>| {
        files.sort_by(|(a, _), (b, _)| order(a).cmp(&order(b)));
        files
            .into_iter()
            .map(|(name, dir)| dir.join(name))
            .collect()
    };
    Ok(found
        .into_iter()
        .map(|(id, files)| (id, paths(files)))
        .collect())
}

/// Returns the head of the session in `file`; `None` when the file is missing or begins with something else.
///
/// # Errors
/// When the file cannot be read.
pub fn head(file: &Path) -> Result<Option<Head>, sys::Error> {
    let line = jsonl::first_line(file)?;
    let event = line.and_then(|line| serde_json::from_slice::<Event>(&line).ok());
    Ok(match event.map(|event| event.kind) {
        Some(Kind::Session(head)) => Some(head),
        _ => None,
    })
}

/// Returns the heads of the sessions in `dir` whose id is `wanted`, one a session, in order of their
/// ids. Files that cannot be read are passed over.
pub fn heads(dir: &Path, wanted: impl Fn(&str) -> bool) -> Vec<Head> {
    let mut heads: BTreeMap<String, Head> = BTreeMap::new();
    for name in names(dir).unwrap_or_default() {
        let Some(id) = session_of(&name) else {
            continue;
        };
        if heads.contains_key(id) || !wanted(id) {
            continue;
        }
        if let Ok(Some(head)) = head(&dir.join(&name)) {
            heads.insert(id.to_owned(), head);
        }
    }
    heads.into_values().collect()
}

/// Returns the heads of the archived sessions that `target` may mean, see [`Index::find`]; the
/// oldest first.
pub fn archived(archive: &Path, people: &People, target: &str) -> Vec<Head> {
    let wanted = Wanted::new(people, target);
    let mut found = heads(archive, |_| true);
    found.retain(|head| head.key == target || wanted.means(&head.key, &head.contact));
    found
}

fn names(dir: &Path) -> Result<Vec<String>, sys::Error> {
    let entries = match std::fs::read_dir(dir) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(sys::Error::at("read", dir))?,
    };
    // A pipe would be waited for; a link is nobody's transcript.
    let files = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_file()));
    Ok(files
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect())
}

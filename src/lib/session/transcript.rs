//! An open session: its transcript files and the state derived from them.
//!
//! `sessions/<sid>.<YYYY-MM-DD>[.N].jsonl`, one file a day in the agent's zone, each beginning
//! with a `session` line; `sessions/<sid>.state.json`, the snapshot.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono_tz::Tz;

use super::event::{Event, Head, Kind};
use super::index::Entry;
use super::log_rotation::{self, order};
use super::snapshot;
use super::snapshot::{Shortened, Snapshot, Stamp};
use super::state::{Position, State};
use crate::clock;
use crate::sys;
use crate::sys::jsonl;

/// Waiting between tries to write a line.
const PAUSES: [Duration; 3] = [
    Duration::from_millis(50),
    Duration::from_millis(200),
    Duration::from_millis(800),
];

/// A session in the hands of one turn.
#[derive(Debug)]
pub struct Session {
    dir: PathBuf,
    zone: Tz,
    head: Head,
    state: State,
    log: Option<jsonl::Appender>,
    /// The newest event that the snapshot file has.
    saved_seq: u64,
    /// Its files except for the newest, as they were when they were read or ended. To look for them in the directory would
    /// take the longer the more sessions there are, and an edit meanwhile would not be noticed.
    earlier: Vec<Stamp>,
}

impl Session {
    /// Begins a session; its file comes with the first event.
    pub(super) fn begin(dir: &Path, zone: Tz, head: Head) -> Self {
        Self {
            dir: dir.to_owned(),
            zone,
            head,
            state: State::default(),
            log: None,
            saved_seq: 0,
            earlier: Vec::new(),
        }
    }

    /// Returns it with the dates of `zone`.
    pub(super) fn in_zone(self, zone: Tz) -> Self {
        Self { zone, ..self }
    }

    /// Opens a session from its snapshot and the events after it, or from all its events when
    /// the snapshot is missing or damaged. `None` when it has no transcript. Without `known` its files
    /// are looked for in the directory. `head` says whose it is where the line that says so is damaged.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub(super) fn load(
        dir: &Path,
        zone: Tz,
        id: &str,
        known: Option<&Known>,
        head: Option<Head>,
    ) -> Result<Option<Self>, sys::Error> {
        let snapshot = Snapshot::read(dir, id)?;
        let files = files_by(dir, id, snapshot.as_ref(), known)?;
        let stamps = Stamp::of_all(dir, &files);
        if let Some(Shortened { name, length, was }) = snapshot
            .as_ref()
            .and_then(|snapshot| snapshot.shortened(&stamps))
        {
            tracing::warn!(
                file = name,
                length,
                was,
                "a transcript is shorter than before: the missing part no longer belongs to the conversation"
            );
        }
        let (mut state, saved_seq) = fold(dir, &files, snapshot)?;
        if state.last_seq > 0 {
            state.head = state.head.or(head);
        }
        Ok(state.head.clone().map(|head| Self {
            dir: dir.to_owned(),
            zone,
            head,
            earlier: earlier(stamps, &state),
            state,
            log: None,
            saved_seq,
        }))
    }

    /// Returns the session's id.
    pub fn id(&self) -> &str {
        &self.head.session_id
    }

    /// Returns whose session it is.
    pub fn head(&self) -> &Head {
        &self.head
    }

    /// Returns what an index shows of it.
    pub fn entry(&self) -> Entry {
        Entry::of(&self.head, &self.state)
    }

    /// Returns the names of its files in the order of their events.
    pub(super) fn files(&self) -> Vec<String> {
        let earlier = self.earlier.iter().map(|stamp| stamp.name.clone());
        earlier.chain([self.state.position.file.clone()]).collect()
    }

    /// Returns what the transcript adds up to.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Appends `kinds` as one group and, if `durable`, waits for the disk. A disk that fails for a moment
    /// is given another: an answer that was paid for would be lost with its line.
    ///
    /// # Errors
    /// When the write or the sync failed again and again; transcript and state are then as before.
    pub async fn append(&mut self, kinds: Vec<Kind>, durable: bool) -> Result<(), sys::Error> {
        let before = self.state.last_seq;
        for pause in PAUSES {
            match self.try_append(kinds.clone(), durable).await {
                // What cannot be taken back, or was written by somebody else meanwhile, must not be doubled.
                Err(error) if self.state.last_seq == before => {
                    tracing::warn!(%error, session = self.id(), "cannot write a line of a transcript; retrying");
                    tokio::time::sleep(pause).await;
                }
                done => return done,
            }
        }
        self.try_append(kinds, durable).await
    }

    async fn try_append(&mut self, kinds: Vec<Kind>, durable: bool) -> Result<(), sys::Error> {
        let now = clock::now_ms();
        if self.log.as_ref().is_some_and(|log| !log.is_untouched()) {
            self.reload()?;
        }
        let log = self.take_log(now)?;
        let mut events = Vec::with_capacity(kinds.len() + 1);
        if log.is_empty() {
            events.push(Kind::Session(self.head.clone()));
        }
        events.extend(kinds);
        let ts = clock::rfc3339(now);
        let events: Vec<Event> = (self.state.last_seq + 1..)
            .zip(events)
            .map(|(seq, kind)| Event {
                v: 1,
                ts: ts.clone(),
                seq,
                kind,
            })
            .collect();
        let mut lines = Vec::new();
        let mut ends = Vec::with_capacity(events.len());
        for event in &events {
            serde_json::to_writer(&mut lines, event)
                .expect("events are plain data with string keys");
            lines.push(b'\n');
            ends.push(lines.len() as u64);
        }
        let base = log.len();
        let file = file_name(log.path());
        match write(log, lines, durable).await {
            Ok(log) => self.log = Some(log),
            Err(error) => {
                // Whatever is left of the lines (nothing, as a rule) is what the files now say.
                self.reload()?;
                return Err(error);
            }
        }
        if !["", &file].contains(&self.state.position.file.as_str()) {
            self.earlier
                .extend(Stamp::of(&self.dir, &self.state.position.file));
        }
        for (event, end) in events.iter().zip(ends) {
            self.state.apply(
                event,
                Position {
                    file: file.clone(),
                    offset: base + end,
                },
            );
        }
        Ok(())
    }

    /// Reads everything again after somebody else wrote: the files are the truth. When they cannot
    /// be read this copy is worth nothing: it becomes empty, and [`super::Store::put`] drops it.
    fn reload(&mut self) -> Result<(), sys::Error> {
        tracing::info!(session = self.id(), "reading a transcript again");
        self.log = None;
        self.saved_seq = 0;
        self.state = State::default();
        self.earlier = Vec::new();
        let files = files(&self.dir, &self.head.session_id)?;
        let stamps = Stamp::of_all(&self.dir, &files);
        self.state = replay(&self.dir, &files, State::default())?
            .unwrap_or_default()
            .0;
        self.earlier = earlier(stamps, &self.state);
        Ok(())
    }

    /// Returns true when the snapshot file lacks the newest events.
    pub(super) fn is_behind(&self) -> bool {
        self.saved_seq != self.state.last_seq
    }

    /// Returns the snapshot file, its content, and the newest event in it.
    pub(super) fn snapshot(&self) -> (PathBuf, Vec<u8>, u64) {
        let mut files = self.earlier.clone();
        files.extend(Stamp::of(&self.dir, &self.state.position.file));
        let snapshot = Snapshot {
            files,
            state: Cow::Borrowed(&self.state),
        };
        let bytes =
            serde_json::to_vec(&snapshot).expect("the state is plain data with string keys");
        (
            snapshot::path(&self.dir, self.id()),
            bytes,
            self.state.last_seq,
        )
    }

    /// Notes that the snapshot up to event `seq` is written.
    pub(super) fn saved(&mut self, seq: u64) {
        self.saved_seq = seq;
    }

    /// Returns the day's file open for appending.
    fn take_log(&mut self, now: i64) -> Result<jsonl::Appender, sys::Error> {
        let name = self.next_file(now);
        match self.log.take() {
            Some(log) if file_name(log.path()) == name => Ok(log),
            _ => jsonl::Appender::open(&self.dir.join(name)),
        }
    }

    /// Returns the file of the next event.
    pub(super) fn next_file(&self, now: i64) -> String {
        log_rotation::next_file(self.id(), &self.state, clock::local_date(now, self.zone))
    }
}

async fn write(
    mut log: jsonl::Appender,
    lines: Vec<u8>,
    durable: bool,
) -> Result<jsonl::Appender, sys::Error> {
    if !durable {
        return log.append(&lines, false).map(|_| log);
    }
    let work = move || log.append(&lines, true).map(|_| log);
    crate::sys::blocking(work).await
}

/// What tells whether a snapshot names all files of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Known {
    /// The file of the newest event.
    pub newest: String,
    /// How many files there are.
    pub count: usize,
}

/// Returns the `stamps` of the files before the one in which `state` ends.
fn earlier(mut stamps: Vec<Stamp>, state: &State) -> Vec<Stamp> {
    stamps.retain(|stamp| stamp.name != state.position.file);
    stamps
}

/// Returns what the transcript of session `id` adds up to, for those who only read: nothing is
/// written, cut or set aside. `None` when it has none.
///
/// # Errors
/// When a file cannot be read.
pub fn view(dir: &Path, id: &str) -> Result<Option<State>, sys::Error> {
    if !dir.is_dir() {
        return Ok(None);
    }
    view_of(dir, id, &files(dir, id)?)
}

/// Does [`view`] of the session with `files`.
pub(super) fn view_of(dir: &Path, id: &str, files: &[String]) -> Result<Option<State>, sys::Error> {
    let (state, _) = fold(dir, files, Snapshot::read(dir, id)?)?;
    Ok((state.head.is_some() && !is_leaving(dir, id, files)?).then_some(state))
}

/// Returns true when the session is just being archived: what was read of it may be a part. Its oldest file
/// is the first to go.
fn is_leaving(dir: &Path, id: &str, own: &[String]) -> Result<bool, sys::Error> {
    let first = match own.first() {
        Some(name) => jsonl::first_line(&dir.join(name))?,
        None => None,
    };
    let is_whole = first
        .and_then(|line| serde_json::from_slice::<Event>(&line).ok())
        .is_some_and(|event| event.seq == 1);
    let archive = dir.join("archive");
    // Somebody may have deleted old files: then the rest is all there is.
    Ok(!is_whole && archive.is_dir() && !files(&archive, id)?.is_empty())
}

/// Returns the state of the session with `files` and the newest event that came from the snapshot. Without one,
/// or when its tail does not join it, the state is that of the files alone.
fn fold(
    dir: &Path,
    files: &[String],
    snapshot: Option<Snapshot<'_>>,
) -> Result<(State, u64), sys::Error> {
    let head = snapshot
        .as_ref()
        .and_then(|snapshot| snapshot.state.head.clone());
    let snapshot = snapshot.filter(|snapshot| {
        snapshot.state.v == State::VERSION
            && snapshot.describes(dir, files)
            && snapshot.is_numbered_as(dir)
    });
    let state = match snapshot {
        Some(snapshot) => replay(dir, files, snapshot.state.into_owned())?,
        None => None,
    };
    let (mut state, from) = match state {
        Some(state) => state,
        None => replay(dir, files, State::default())?.unwrap_or_default(),
    };
    // Of an old snapshot it is true still: its own line may be damaged.
    if state.last_seq > 0 && state.head.is_none() {
        state.head = head;
    }
    Ok((state, from))
}

/// Applies every event of `files` that comes after the state's position. Returns the state and the
/// event it started from; `None` when the files do not continue where the state ends.
fn replay(
    dir: &Path,
    files: &[String],
    mut state: State,
) -> Result<Option<(State, u64)>, sys::Error> {
    let from = state.last_seq;
    let mut joins = true;
    for name in files {
        let start = match order(name).cmp(&order(&state.position.file)) {
            std::cmp::Ordering::Less => continue,
            std::cmp::Ordering::Equal => state.position.offset,
            std::cmp::Ordering::Greater => 0,
        };
        let mut damaged = 0_u32;
        jsonl::for_each_line(
            &dir.join(name),
            start,
            |line, offset| match serde_json::from_slice::<Event>(line) {
                Ok(event) if event.seq > state.last_seq => {
                    joins &= from == 0 || state.last_seq != from || event.seq == from + 1;
                    state.apply(
                        &event,
                        Position {
                            file: name.clone(),
                            offset,
                        },
                    );
                }
                Ok(_) => {}
                Err(_) => {
                    joins &= from == 0 || state.last_seq != from;
                    damaged += 1;
                }
            },
        )?;
        if damaged > 0 {
            tracing::error!(file = %name, lines = damaged, "damaged transcript lines were skipped");
        }
    }
    Ok(joins.then_some((state, from)))
}

/// Returns the transcript files of a session in the order of their events.
pub(super) fn files(dir: &Path, id: &str) -> Result<Vec<String>, sys::Error> {
    let entries = std::fs::read_dir(dir).map_err(sys::Error::at("read", dir))?;
    let mut names: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| session_of(name) == Some(id))
        .collect();
    names.sort_by(|a, b| order(a).cmp(&order(b)));
    Ok(names)
}

/// Returns the transcript files of a session in the order of their events, as its snapshot names them: the directory, which
/// has the files of all sessions, is read only when those are not the `known` ones, or were edited.
pub(super) fn files_by_snapshot(
    dir: &Path,
    id: &str,
    known: Option<&Known>,
) -> Result<Vec<String>, sys::Error> {
    files_by(dir, id, Snapshot::read(dir, id)?.as_ref(), known)
}

fn files_by(
    dir: &Path,
    id: &str,
    snapshot: Option<&Snapshot<'_>>,
    known: Option<&Known>,
) -> Result<Vec<String>, sys::Error> {
    if let (Some(snapshot), Some(known)) = (snapshot, known) {
        let stamps = snapshot.files.iter();
        let names: Vec<String> = stamps.map(|stamp| stamp.name.clone()).collect();
        let is_all = names.len() == known.count && names.last() == Some(&known.newest);
        if is_all && snapshot.describes(dir, &names) {
            return Ok(names);
        }
    }
    files(dir, id)
}

/// Returns the transcript files of all sessions by id, each in the order of its events.
pub(super) fn all_files(dir: &Path) -> Result<BTreeMap<String, Vec<String>>, sys::Error> {
    let entries = std::fs::read_dir(dir).map_err(sys::Error::at("read", dir))?;
    let mut all: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
    {
        if let Some(id) = session_of(&name).map(str::to_owned) {
            all.entry(id).or_default().push(name);
        }
    }
    for names in all.values_mut() {
        names.sort_by(|a, b| order(a).cmp(&order(b)));
    }
    Ok(all)
}

/// Returns the session id in the name of a transcript file.
pub fn session_of(name: &str) -> Option<&str> {
    name.strip_suffix(".jsonl")?
        .split_once('.')
        .map(|(id, _)| id)
}

fn file_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

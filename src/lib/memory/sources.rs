//! The files of the memory: lists them, tells their scope, reads them safely.

use std::borrow::Cow;
use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::person_profile;
use super::scope::Scope;
use super::session_prefix::SessionPrefix;
use crate::config::Home;
use crate::media;
use crate::sandbox::{BeneathError, Root};
use crate::session;
use crate::session::Gone;
use crate::sys::jsonl;

/// The longest file that is read, bytes.
pub(crate) const MAX_BYTES: u64 = 16 << 20;
/// The depth of directories below `memory/`.
const MAX_DEPTH: usize = 16;

/// The source of a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// `MEMORY.md` and what is below `memory/`.
    Memory,
    /// Archived conversations, and of active ones what is before their last compaction.
    Session,
    /// `memory/items/`, written by the agent.
    Item,
    /// Summaries of compactions, once they are no longer sent to the model.
    Summary,
    /// Current facts of `memory.db`.
    Fact,
}

impl Source {
    /// Returns its name in `--source` and in results.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Session => "session",
            Self::Item => "item",
            Self::Summary => "summary",
            Self::Fact => "fact",
        }
    }

    /// Returns the source that goes by `name`.
    pub fn named(name: &str) -> Option<Self> {
        [
            Self::Memory,
            Self::Session,
            Self::Item,
            Self::Summary,
            Self::Fact,
        ]
        .into_iter()
        .find(|source| source.as_str() == name)
    }
}

/// A file of the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// As printed: `workspace/memory/x.md`.
    pub shown: String,
    pub path: PathBuf,
    pub source: Source,
    pub stamp: Stamp,
    /// For the transcript of an active conversation: how much of it is indexed.
    pub gone: Option<Gone>,
}

impl Candidate {
    /// Returns the SHA-256 of its content `bytes` and of what its conversation has `before` it.
    pub(crate) fn sha256(&self, bytes: &[u8], before: Option<SessionPrefix>) -> Vec<u8> {
        let but = self
            .gone
            .and_then(|gone| gone.but)
            .map(|but| but.to_le_bytes().to_vec());
        let before = before.map(|past| format!("{past:?}").into_bytes());
        sha256(&[bytes, &but.unwrap_or_default(), &before.unwrap_or_default()].concat())
    }
}

/// Returns the conversation that the file shown as `shown` is a transcript of.
pub(crate) fn session_of(shown: &str) -> Option<&str> {
    session::session_of(shown.strip_prefix("state/sessions/")?.rsplit('/').next()?)
}

/// Size and times of a file, which nearly always change with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub size: i64,
    /// Nanoseconds since 1970 of the last change of content and of anything (mtime, ctime); 0 and 0
    /// for one that says nothing.
    pub times: (i64, i64),
}

impl Stamp {
    pub(crate) fn of(meta: &Metadata) -> Self {
        let ns = |secs: i64, nanos: i64| secs.saturating_mul(1_000_000_000).saturating_add(nanos);
        let times = (
            ns(meta.mtime(), meta.mtime_nsec()),
            ns(meta.ctime(), meta.ctime_nsec()),
        );
        Self {
            size: i64::try_from(meta.size()).unwrap_or(i64::MAX),
            times,
        }
    }

    /// Returns it for a later comparison: without times for a file that changed within two seconds before `now_ms`, which
    /// may change again within the same tick of the clock.
    pub(crate) fn settled(self, now_ms: i64) -> Self {
        let newest = self.times.0.max(self.times.1) / 1_000_000;
        if newest + 2000 < now_ms {
            self
        } else {
            Self {
                times: (0, 0),
                ..self
            }
        }
    }
}

/// A file that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// As printed.
    pub path: String,
    /// Why: lower case, no full stop.
    pub why: String,
}

impl Skipped {
    /// Returns the file or directory `path`, left out because of `why`.
    pub(crate) fn new(path: impl Into<String>, why: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            why: why.into(),
        }
    }

    /// Returns true when `path` is this or below it: whether it is gone is unknown.
    pub(crate) fn hides(&self, path: &str) -> bool {
        path.strip_prefix(&self.path)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

/// Returns the files to index, sorted by name, and those that cannot be read. Links and special files are ignored.
pub(crate) fn list(home: &Home) -> (Vec<Candidate>, Vec<Skipped>) {
    let mut listing = Listing::of_notes(home, &["MEMORY.md"]);
    listing.directory(&home.archive(), Source::Session, "jsonl", MAX_DEPTH);
    listing.conversations();
    listing.sorted()
}

/// Returns the notes that state facts: `USER.md`, `MEMORY.md` and what is below `memory/`; and those that cannot be read.
pub(crate) fn notes(home: &Home) -> (Vec<Candidate>, Vec<Skipped>) {
    Listing::of_notes(home, &["USER.md", "MEMORY.md"]).sorted()
}

struct Listing<'a> {
    home: &'a Home,
    found: Vec<Candidate>,
    skipped: Vec<Skipped>,
}

impl<'a> Listing<'a> {
    /// Begins with these files of the workspace and those below `memory/`.
    fn of_notes(home: &'a Home, names: &[&str]) -> Self {
        let mut listing = Self {
            home,
            found: Vec::new(),
            skipped: Vec::new(),
        };
        for name in names {
            listing.file(home.workspace().join(name), Source::Memory);
        }
        listing.directory(&home.workspace().join("memory"), Source::Memory, "md", 0);
        listing
    }

    fn sorted(mut self) -> (Vec<Candidate>, Vec<Skipped>) {
        self.found.sort_by(|a, b| a.shown.cmp(&b.shown));
        (self.found, self.skipped)
    }

    fn directory(&mut self, dir: &Path, source: Source, extension: &str, depth: usize) {
        let is_link = std::fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_symlink());
        let entries = match std::fs::read_dir(dir) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return,
            _ if is_link => return self.skip(dir, "it is a link, which is not followed"),
            Err(error) => return self.skip(dir, &error.to_string()),
            Ok(entries) => entries,
        };
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return self.skip(dir, &error.to_string()),
            };
            let name = entry.file_name();
            let hidden = name.to_string_lossy().starts_with('.');
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if hidden {
                continue;
            }
            let path = entry.path();
            if kind.is_dir() && depth == MAX_DEPTH && source != Source::Session {
                let why = format!("it is more than {MAX_DEPTH} directories deep");
                self.skip(&path, &why);
            } else if kind.is_dir() && depth < MAX_DEPTH {
                let is_items = depth == 0 && name == "items";
                self.directory(
                    &path,
                    if is_items { Source::Item } else { source },
                    extension,
                    depth + 1,
                );
            } else if kind.is_file()
                && path
                    .extension()
                    .is_some_and(|end| end.eq_ignore_ascii_case(extension))
            {
                self.file(path, source);
            }
        }
    }

    /// Adds the transcripts of active conversations up to their last compaction: the rest is still in the context.
    fn conversations(&mut self) {
        let dir = self.home.sessions();
        let index = session::Index::read(&self.home.sessions_index(), &dir);
        let gone = match index.and_then(|index| session::gone(&index, &dir)) {
            Ok(gone) => gone,
            Err(error) => return self.skip(&dir, &error.to_string()),
        };
        // Once: a look for each conversation would read the directory of all of them as often.
        let mut files = session::all_transcripts(&dir, &dir).unwrap_or_default();
        for (id, gone) in gone {
            for path in files
                .remove(&id)
                .unwrap_or_default()
                .into_iter()
                .filter(|path| first_event(path).is_some_and(|first| first < gone.before))
            {
                let before = self.found.len();
                self.file(path, Source::Session);
                if let Some(file) = self.found.get_mut(before) {
                    // That part never changes; new messages are no change.
                    let inode = std::fs::metadata(&file.path)
                        .map_or(0, |meta| i64::try_from(meta.ino()).unwrap_or(0));
                    let [before, but] = [gone.before, gone.but.unwrap_or(0)]
                        .map(|seq| i64::try_from(seq).unwrap_or(i64::MAX));
                    file.stamp = Stamp {
                        size: before,
                        times: (but, inode),
                    };
                    file.gone = Some(gone);
                }
            }
        }
    }

    fn file(&mut self, path: PathBuf, source: Source) {
        match std::fs::symlink_metadata(&path) {
            Ok(meta) if meta.len() > MAX_BYTES && meta.is_file() => {
                self.skip(
                    &path,
                    &format!("it has {} bytes, more than {MAX_BYTES}", meta.len()),
                );
            }
            Ok(meta) if meta.is_file() => {
                let shown = self.home.display(&path);
                self.found.push(Candidate {
                    shown,
                    path,
                    source,
                    stamp: Stamp::of(&meta),
                    gone: None,
                });
            }
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                self.skip(&path, &error.to_string())
            }
            // A link, a special file, or gone meanwhile.
            Ok(_) | Err(_) => {}
        }
    }

    fn skip(&mut self, path: &Path, why: &str) {
        self.skipped
            .push(Skipped::new(self.home.display(path), why));
    }
}

/// Reads the files of one home.
pub(crate) struct Reader<'a> {
    home: &'a Home,
    workspace: Option<Root>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(home: &'a Home) -> Self {
        Self {
            home,
            workspace: Root::open(home.workspace()).ok(),
        }
    }

    /// Returns the bytes of a file. In the workspace links are never followed out of it: programs of the agent may replace
    /// a directory by a link at any moment.
    pub(crate) fn read(&self, file: &Candidate) -> Result<Vec<u8>, Unread> {
        let failed = |why: String| Unread::Failed(Skipped::new(file.shown.clone(), why));
        let in_workspace = file
            .path
            .strip_prefix(self.home.workspace())
            .ok()
            .zip(self.workspace.as_ref());
        if let Some((below, root)) = in_workspace.filter(|_| file.source != Source::Session) {
            return root.read(below, MAX_BYTES).map_err(|error| match error {
                BeneathError::NotFound(_) => Unread::Gone,
                error => failed(error.to_string()),
            });
        }
        match read_plain(&file.path) {
            Ok(bytes) => Ok(file
                .gone
                .map_or_else(|| bytes.clone(), |gone| cut(&bytes, gone))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err(Unread::Gone),
            Err(error) => Err(failed(error.to_string())),
        }
    }
}

/// Returns the lines of a transcript before the first event that is not indexed, and the compactions after it, each on its
/// own line: the newest summary is found in other conversations as soon as it is made.
fn cut(bytes: &[u8], gone: Gone) -> Vec<u8> {
    #[derive(serde::Deserialize)]
    struct Typed {
        #[serde(rename = "type")]
        kind: String,
    }
    let (mut kept, mut is_gone) = (Vec::new(), true);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        is_gone = is_gone && number(line).is_none_or(|seq| seq < gone.before);
        let is_summary = || {
            let event = serde_json::from_slice::<Typed>(line);
            event.is_ok_and(|event| event.kind == "compaction")
        };
        match is_gone || is_summary() {
            true => kept.extend_from_slice(line),
            false => kept.push(b'\n'),
        }
    }
    let end = kept.iter().rposition(|byte| *byte != b'\n');
    kept.truncate(end.map_or(0, |end| end + 2).min(kept.len()));
    kept
}

/// Returns the number of the first event of a transcript file.
fn first_event(path: &Path) -> Option<u64> {
    number(&jsonl::first_line(path).ok()??)
}

/// Returns the number of the event on a line.
fn number(line: &[u8]) -> Option<u64> {
    #[derive(serde::Deserialize)]
    struct Numbered {
        seq: u64,
    }
    serde_json::from_slice::<Numbered>(line)
        .ok()
        .map(|event| event.seq)
}

/// Why there are no bytes.
pub(crate) enum Unread {
    /// The file went away.
    Gone,
    /// It cannot be read.
    Failed(Skipped),
}

fn read_plain(path: &Path) -> std::io::Result<Vec<u8>> {
    let file: File = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Returns the text of a note, in whatever encoding it came: UTF-8, UTF-16 with its mark or Windows-1252. Bytes that are no text,
/// and those that damage a text of UTF-8, are replaced.
pub(crate) fn text_of(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text.strip_prefix('\u{feff}').unwrap_or(text));
    }
    let is_utf16 = bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff");
    let is_damaged = || {
        let mut chunks = bytes.utf8_chunks();
        chunks.any(|chunk| !chunk.valid().is_ascii())
    };
    if !is_utf16 && is_damaged() {
        return String::from_utf8_lossy(bytes);
    }
    media::text(bytes, true).map_or_else(|| String::from_utf8_lossy(bytes), Cow::Owned)
}

/// Returns the SHA-256 of a file's content.
pub(crate) fn sha256(bytes: &[u8]) -> Vec<u8> {
    ring::digest::digest(&ring::digest::SHA256, bytes)
        .as_ref()
        .to_vec()
}

/// Returns the scope of a file of the workspace: a file about a person is that person's, the rest is the owner's.
pub(crate) fn scope_of(shown: &str) -> Scope {
    if let Some(rest) = shown.strip_prefix("workspace/memory/groups/") {
        let stem = rest.strip_suffix(".md").unwrap_or(rest);
        return Scope::Chat(person_profile::group_of(stem));
    }
    match shown.strip_prefix("workspace/memory/people/") {
        Some(rest) => {
            let stem = rest.split(['.', '/']).next().unwrap_or_default();
            Scope::Person(person_profile::id_of(stem))
        }
        None => Scope::Owner,
    }
}

/// Returns the first `YYYY-MM-DD` in `text`.
pub(crate) fn date_in(text: &str) -> Option<chrono::NaiveDate> {
    let places = text
        .match_indices(|c: char| c.is_ascii_digit())
        .map(|(at, _)| at);
    places
        .filter_map(|at| text.get(at..at + 10))
        .find_map(|ten| chrono::NaiveDate::parse_from_str(ten, "%Y-%m-%d").ok())
}

/// Returns when the day began, in UTC, that the name of a file says.
pub(crate) fn day_of(path: &str) -> Option<i64> {
    let date = date_in(path.rsplit('/').next().unwrap_or_default())?;
    Some(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_millis())
}

/// Returns when a file was last changed, clamped to the date in its name if there is one and it is another day everywhere on
/// earth: that date is a local one. Milliseconds since 1970 UTC.
pub(crate) fn time_of(shown: &str, stamp: Stamp) -> i64 {
    const HOUR_MS: i64 = 3_600_000;
    let changed = stamp.times.0 / 1_000_000;
    day_of(shown).map_or(changed, |midnight| {
        // Of UTC+14 to UTC-12.
        let somewhere = midnight - 14 * HOUR_MS..midnight + 36 * HOUR_MS;
        match somewhere.contains(&changed) {
            true => changed,
            false => changed.clamp(midnight, midnight + 24 * HOUR_MS - 1),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_in_its_own_encoding() {
        let check = |bytes: &[u8], expected: &str| assert_eq!(text_of(bytes), expected);
        check("Café".as_bytes(), "Café");
        check("\u{feff}Café".as_bytes(), "Café");
        check(b"Caf\xe9", "Café");
        check(b"\xff\xfeC\0a\0f\0\xe9\0", "Café");
        check(b"Caf\xc3\xa9 \xff", "Café \u{fffd}");
        check(b"a\0\xff", "a\0\u{fffd}");
    }

    #[test]
    fn a_file_about_a_person_is_theirs() {
        let check = |shown: &str, expected: &str| {
            assert_eq!(scope_of(shown).to_string(), expected, "{shown}")
        };
        check("workspace/MEMORY.md", "owner");
        check("workspace/memory/2026-01-01.md", "owner");
        check("workspace/memory/people/1002.md", "person:1002");
        check("workspace/memory/people/1002.episodes.md", "person:1002");
        check("workspace/memory/people/1002/x.md", "person:1002");
        let id = "matrix:@bob:a.example";
        let stem = person_profile::file_stem(id).expect("a name");
        for end in ["md", "episodes.md", "until-1970.episodes.md"] {
            let file = format!("workspace/memory/people/{stem}.{end}");
            check(&file, &format!("person:{id}"));
        }
        check(
            "workspace/memory/groups/agent.a.telegram.group.-5.md",
            "chat:agent:a:telegram:group:-5",
        );
    }

    #[test]
    fn a_directory_that_is_too_deep_is_named() {
        let dir = tempfile::tempdir().expect("dir");
        let home = Home::at(dir.path());
        let mut deep = home.workspace().join("memory");
        deep.extend(std::iter::repeat_n("d", MAX_DEPTH));
        std::fs::create_dir_all(deep.join("e")).expect("made");
        for path in [deep.join("a.md"), deep.join("e/b.md")] {
            crate::sys::atomic::write(&path, b"x", crate::sys::atomic::Durability::Rename)
                .expect("made");
        }
        let (found, skipped) = list(&home);
        assert_eq!(found.len(), 1, "{found:?}");
        let told: Vec<(&str, &str)> = skipped
            .iter()
            .map(|one| (one.path.as_str(), one.why.as_str()))
            .collect();
        let path = format!("workspace/memory/{}e", "d/".repeat(MAX_DEPTH));
        let why = "it is more than 16 directories deep";
        assert_eq!(told, [(path.as_str(), why)]);
    }

    #[test]
    fn a_note_of_a_day_is_of_that_day() {
        let day = 1_777_593_600_000;
        let check = |shown: &str, changed: i64, expected: i64| {
            assert_eq!(
                time_of(
                    shown,
                    Stamp {
                        size: 1,
                        times: (changed * 1_000_000, 0)
                    }
                ),
                expected,
                "{shown}"
            );
        };
        check("workspace/MEMORY.md", 77, 77);
        check("workspace/memory/2026-05-01.md", 77, day);
        check("workspace/memory/2026-05-01.md", day + 5, day + 5);
        // In Auckland the day begins thirteen hours before, in Honolulu it ends ten hours after.
        let hour = 3_600_000;
        check(
            "workspace/memory/2026-05-01.md",
            day - 13 * hour,
            day - 13 * hour,
        );
        check(
            "workspace/memory/2026-05-01.md",
            day + 33 * hour,
            day + 33 * hour,
        );
        check("workspace/memory/2026-05-01.md", day * 2, day + 86_399_999);
    }

    #[test]
    fn a_file_changed_just_now_has_no_settled_stamp() {
        let stamp = Stamp {
            size: 5,
            times: (9_000_000_000, 9_500_000_000),
        };
        assert_eq!(
            stamp.settled(9_600),
            Stamp {
                size: 5,
                times: (0, 0)
            }
        );
        assert_eq!(stamp.settled(12_000), stamp);
    }
}

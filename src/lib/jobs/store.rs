//! `cron/jobs.json`: `{"version":1,"jobs":[…]}`, written whole by the daemon alone, and by hand by its owner.
//!
//! It is read again whenever it changed. An entry that makes no sense stays as it is and stops no other; a
//! file that is not JSON is set aside, and the jobs that were known continue. One that was changed a moment ago may be half
//! written yet, by an editor that saves in place: it is left alone until it is whole, or unchanged for a while.

use parking_lot::{Mutex, MutexGuard};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::job::Job;
use crate::control::Id;
use crate::sys;
use crate::sys::{Version, atomic};
use crate::text;

/// Removed jobs that are remembered: orders that a crash may have broken off.
const MAX_REMOVED: usize = 16;
/// How often, and how long, a change waits for a file that is being written.
const POLL: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_secs(10);

/// All jobs, in the order in which they were added.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Jobs {
    entries: Vec<Entry>,
    /// The jobs that were removed last, with the inputs that asked for it.
    removed: Vec<Removed>,
    /// What a newer version added.
    rest: Map<String, Value>,
}

/// A job that is gone, because an input asked for it: after a crash that comes again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Removed {
    /// The id of the input.
    by: String,
    /// That of the job.
    job: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Entry {
    Job(Box<Job>),
    Broken(Broken),
}

impl Entry {
    fn value(&self) -> Value {
        match self {
            Self::Job(job) => serde_json::to_value(job).expect("plain data with string keys"),
            Self::Broken(broken) => broken.value.clone(),
        }
    }
}

/// An entry that makes no sense.
#[derive(Debug, Clone, PartialEq)]
pub struct Broken {
    /// Its id, or where it is: `#3`.
    pub id: String,
    /// What is wrong with it.
    pub why: String,
    value: Value,
}

impl Jobs {
    /// Returns the jobs.
    pub fn iter(&self) -> impl Iterator<Item = &Job> {
        self.entries.iter().filter_map(|entry| {
            if let Entry::Job(job) = entry {
                Some(&**job)
            } else {
                None
            }
        })
    }

    /// Returns the jobs, to be changed.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Job> {
        self.entries.iter_mut().filter_map(|entry| {
            if let Entry::Job(job) = entry {
                Some(&mut **job)
            } else {
                None
            }
        })
    }

    /// Returns the entries that make no sense.
    pub fn broken(&self) -> impl Iterator<Item = &Broken> {
        self.entries.iter().filter_map(|entry| {
            if let Entry::Broken(broken) = entry {
                Some(broken)
            } else {
                None
            }
        })
    }

    /// Returns the job called `id`.
    pub fn get(&self, id: &str) -> Option<&Job> {
        self.iter().find(|job| job.id == id)
    }

    /// Returns the job called `id`, to be changed.
    pub fn get_mut(&mut self, id: &str) -> Option<&mut Job> {
        self.iter_mut().find(|job| job.id == id)
    }

    /// Returns the id of the job, or of the broken entry, that has this id or else this name.
    ///
    /// # Errors
    /// The ids when several have the name.
    pub fn id_of(&self, called: &str) -> Result<Option<String>, Vec<String>> {
        let has_id = self.get(called).is_some() || self.broken().any(|broken| broken.id == called);
        if has_id {
            return Ok(Some(called.to_owned()));
        }
        let mut ids: Vec<String> = self
            .iter()
            .filter(|job| job.name == called)
            .map(|job| job.id.clone())
            .collect();
        if ids.len() > 1 {
            return Err(ids);
        }
        Ok(ids.pop())
    }

    /// Adds a job, in the place of one with the same id.
    pub fn put(&mut self, job: Job) {
        match self.get_mut(&job.id) {
            Some(old) => *old = job,
            None => self.entries.push(Entry::Job(Box::new(job))),
        }
    }

    /// Takes the job (or the broken entry) called `id` out; false when there is none.
    pub fn remove(&mut self, id: &str) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| match entry {
            Entry::Job(job) => job.id != id,
            Entry::Broken(broken) => broken.id != id,
        });
        self.entries.len() < before
    }

    /// Notes that the input `by` removed the job called `id`.
    pub fn note_removed(&mut self, by: &str, id: &str) {
        let (by, job) = (by.to_owned(), id.to_owned());
        self.removed.push(Removed { by, job });
        let old = self.removed.len().saturating_sub(MAX_REMOVED);
        self.removed.drain(..old);
    }

    /// Returns the id of the job that the input `by` removed a short while ago.
    pub fn removed_by(&self, by: &str) -> Option<&str> {
        let removed = self.removed.iter().find(|removed| removed.by == by);
        removed.map(|removed| removed.job.as_str())
    }

    /// Takes every entry out for whose JSON `hits` is true; returns how many that are.
    pub fn remove_where(&mut self, hits: impl Fn(&str) -> bool) -> usize {
        let before = self.entries.len();
        self.entries
            .retain(|entry| !hits(&entry.value().to_string()));
        before - self.entries.len()
    }

    fn parse(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let mut rest: Map<String, Value> = serde_json::from_slice(bytes)?;
        rest.remove("version");
        let list: Vec<Value> = rest
            .remove("jobs")
            .map(serde_json::from_value)
            .transpose()?
            .unwrap_or_default();
        // Who spoils it by hand loses no job.
        let removed = rest.remove("removed");
        let removed = removed.and_then(|removed| serde_json::from_value(removed).ok());
        let mut jobs = Self {
            entries: Vec::with_capacity(list.len()),
            removed: removed.unwrap_or_default(),
            rest,
        };
        for (number, value) in (1..).zip(list) {
            let entry = match serde_json::from_value::<Job>(value.clone()) {
                Ok(job) => match jobs.unfit(&job) {
                    None => Entry::Job(Box::new(job)),
                    Some(why) => Entry::Broken(Broken {
                        id: format!("#{number}"),
                        why,
                        value,
                    }),
                },
                Err(error) => {
                    let id = value
                        .get("id")
                        .and_then(Value::as_str)
                        .map_or_else(|| format!("#{number}"), str::to_owned);
                    Entry::Broken(Broken {
                        id,
                        why: error.to_string(),
                        value,
                    })
                }
            };
            jobs.entries.push(entry);
        }
        Ok(jobs)
    }

    /// Returns why a job of the file cannot be one.
    fn unfit(&self, job: &Job) -> Option<String> {
        if Id::parse(&job.id).is_some() {
            return self
                .get(&job.id)
                .map(|_| format!("another job is called {:?}, too", job.id));
        }
        Some(format!(
            "the id {:?} does not match [A-Za-z0-9_-]{{1,64}}",
            crate::text::shorten(&job.id, 80)
        ))
    }

    fn bytes(&self) -> Vec<u8> {
        let list: Vec<Value> = self.entries.iter().map(Entry::value).collect();
        let mut document = json!({"version": 1, "jobs": list});
        if let Some(fields) = document.as_object_mut() {
            if !self.removed.is_empty() {
                fields.insert("removed".to_owned(), json!(self.removed));
            }
            fields.extend(self.rest.clone());
        }
        serde_json::to_vec_pretty(&document).expect("plain data with string keys")
    }
}

#[derive(Debug, Default)]
struct Known {
    stamp: Option<Version>,
    jobs: Jobs,
    /// A file was set aside, and nobody asked yet.
    is_aside_news: bool,
}

/// The file, for the daemon.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    known: Mutex<Known>,
}

/// What a look at the file found.
enum Found {
    /// All of it is known.
    Whole,
    /// It may be half written.
    Half,
    /// It was not JSON, and is set aside.
    Damaged,
}

/// Returns the jobs of the file at `path`, for those who only look.
///
/// # Errors
/// When it cannot be read, or is not JSON.
pub fn read(path: &Path) -> Result<Jobs, sys::Error> {
    let Some(bytes) = atomic::read(path)? else {
        return Ok(Jobs::default());
    };
    Jobs::parse(&bytes).map_err(|error| {
        sys::Error::at("read", path)(std::io::Error::new(std::io::ErrorKind::InvalidData, error))
    })
}

/// Returns what is to be done about the newest file that was set aside because it was not JSON; `None` when none is next to
/// `path`.
pub fn set_aside(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let aside = sys::newest_quarantined(path)?;
    let bytes = std::fs::read(&aside).unwrap_or_default();
    let why = Jobs::parse(&bytes).err();
    let why = why.map_or_else(String::new, |why| format!(" ({why})"));
    let words = format!(
        "{name} was no JSON{why}, so nothing of it counts, and the jobs that were known before it go on: correct {} and move what is missing back into {name}, then delete it",
        aside.display()
    );
    Some(text::visible(&words))
}

impl Store {
    /// Returns the file at `path`, which need not exist.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            known: Mutex::default(),
        }
    }

    /// Returns the jobs there are now, while the file is being written those of before.
    ///
    /// # Errors
    /// When the file cannot be read or set aside, or is being written and none is known of before.
    pub fn look(&self) -> Result<Jobs, sys::Error> {
        let mut known = self.known();
        match self.refresh(&mut known)? {
            Found::Half if known.stamp.is_none() => Err(self.half_written()),
            Found::Whole | Found::Half | Found::Damaged => Ok(known.jobs.clone()),
        }
    }

    /// Returns what is to be done about a file that was set aside, see [`set_aside`].
    pub fn aside(&self) -> Option<String> {
        set_aside(&self.path)
    }

    /// Returns true once for each file that this process set aside.
    pub fn is_aside_news(&self) -> bool {
        std::mem::take(&mut self.known().is_aside_news)
    }

    /// Changes the jobs and returns what `change` returned once it is on disk; nothing is written when
    /// nothing changed. Blocks while somebody else writes the file.
    ///
    /// # Errors
    /// When the file cannot be read or written; the jobs are then as they were.
    pub fn change<T>(&self, change: impl FnOnce(&mut Jobs) -> T) -> Result<T, sys::Error> {
        let mut known = self.whole()?;
        let mut jobs = known.jobs.clone();
        let result = change(&mut jobs);
        if jobs != known.jobs {
            atomic::write(&self.path, &jobs.bytes(), atomic::Durability::Full)?;
            (known.stamp, known.jobs) = (Version::at(&self.path), jobs);
        }
        Ok(result)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    /// Returns what is known, once the file is whole.
    fn whole(&self) -> Result<MutexGuard<'_, Known>, sys::Error> {
        let begun = Instant::now();
        loop {
            let mut known = self.known();
            if !matches!(self.refresh(&mut known)?, Found::Half) {
                return Ok(known);
            }
            drop(known);
            if begun.elapsed() >= PATIENCE {
                return Err(self.half_written());
            }
            std::thread::sleep(POLL);
        }
    }

    fn half_written(&self) -> sys::Error {
        let why = "somebody is writing it; try again";
        sys::Error::at("read", &self.path)(std::io::Error::new(
            std::io::ErrorKind::InvalidData,
            why,
        ))
    }

    fn refresh(&self, known: &mut Known) -> Result<Found, sys::Error> {
        let stamp = Version::at(&self.path);
        if stamp == known.stamp && stamp.is_some() {
            return Ok(Found::Whole);
        }
        let Some(bytes) = atomic::read(&self.path)? else {
            // The one who removed the file wants no jobs; one that was set aside is another matter, see below.
            (known.stamp, known.jobs) = (None, Jobs::default());
            return Ok(Found::Whole);
        };
        match Jobs::parse(&bytes) {
            Ok(jobs) => {
                (known.stamp, known.jobs) = (stamp, jobs);
                Ok(Found::Whole)
            }
            Err(_) if sys::is_being_written(&self.path) => Ok(Found::Half),
            Err(error) => {
                let path = sys::quarantine_file(&self.path)?;
                tracing::error!(file = %self.path.display(), aside = %path.display(), %error, "unreadable jobs set aside");
                if known.jobs != Jobs::default() {
                    atomic::write(&self.path, &known.jobs.bytes(), atomic::Durability::Full)?;
                }
                (known.stamp, known.is_aside_news) = (Version::at(&self.path), true);
                Ok(Found::Damaged)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;
    use crate::jobs::Ask;
    use chrono_tz::Tz;

    fn job(id: &str) -> Job {
        let ask = Ask {
            every: Some("1h".into()),
            text: "look".into(),
            ..Ask::default()
        };
        ask.job(id, Tz::UTC, 1_700_000_000_000).expect("a job")
    }

    fn write(path: &Path, text: &str) {
        atomic::write(path, text.as_bytes(), atomic::Durability::Rename).expect("write");
    }

    /// Lets the file look as one that nobody has changed for long.
    fn rest(path: &Path) {
        let file = std::fs::OpenOptions::new().write(true).open(path);
        let long_ago = clock::now() - Duration::from_secs(3600);
        let file = file.expect("a file");
        file.set_modified(long_ago).expect("a time");
    }

    fn ids(jobs: &Jobs) -> Vec<String> {
        jobs.iter().map(|job| job.id.clone()).collect()
    }

    #[test]
    fn what_was_written_is_read_again_whoever_wrote_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("jobs.json");
        let store = Store::new(&path);
        assert_eq!(store.look().expect("look"), Jobs::default());
        store.change(|jobs| jobs.put(job("a"))).expect("change");
        assert_eq!(read(&path).expect("read"), store.look().expect("look"));

        // By hand, with a field that nobody here knows, and an entry that makes no sense.
        let mut document: Value =
            serde_json::from_slice(&std::fs::read(&path).expect("read")).expect("JSON");
        document["comment"] = "mine".into();
        document["jobs"][0]["colour"] = "blue".into();
        let list = document["jobs"].as_array_mut().expect("a list");
        list.push(json!({"id": "b", "schedule": {"cron": 5}, "text": "x"}));
        list.push(json!({"id": "c", "schedule": {"every": "90m"}, "text": "by hand"}));
        list.push(json!({"id": "../d", "schedule": {"every": "90m"}, "text": "x"}));
        list.push(json!({"id": "a", "schedule": {"every": "90m"}, "text": "x"}));
        write(&path, &document.to_string());
        let jobs = store.look().expect("look");
        assert_eq!(
            (ids(&jobs), store.aside()),
            (vec!["a".to_owned(), "c".to_owned()], None)
        );
        assert_eq!(
            jobs.broken()
                .map(|broken| broken.id.as_str())
                .collect::<Vec<_>>(),
            ["b", "#4", "#5"]
        );

        store
            .change(|jobs| jobs.get_mut("c").expect("c").enabled = false)
            .expect("change");
        let document: Value =
            serde_json::from_slice(&std::fs::read(&path).expect("read")).expect("JSON");
        assert_eq!(
            (&document["comment"], &document["jobs"][0]["colour"]),
            (&"mine".into(), &"blue".into())
        );
        assert_eq!(
            (
                &document["jobs"][1]["schedule"]["cron"],
                &document["jobs"][2]["enabled"]
            ),
            (&5.into(), &false.into())
        );
        assert_eq!(
            document["jobs"].as_array().map(Vec::len),
            Some(5),
            "{document}"
        );
        assert_eq!(
            store
                .change(|jobs| jobs.remove_where(|text| text.contains("by hand")))
                .expect("change"),
            1
        );
        assert!(store.change(|jobs| jobs.remove("b")).expect("change"));
        assert!(!store.change(|jobs| jobs.remove("b")).expect("change"));
    }

    #[test]
    fn a_file_that_is_no_json_is_kept_and_the_known_jobs_go_on() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("jobs.json");
        let store = Store::new(&path);
        store.change(|jobs| jobs.put(job("a"))).expect("change");
        write(&path, "{\"jobs\": [");
        assert!(read(&path).is_err());
        rest(&path);
        let jobs = store.look().expect("look");
        assert_eq!(ids(&jobs), ["a"]);
        let words = store.aside().expect("set aside");
        let named = words
            .split_whitespace()
            .find(|word| word.contains(".corrupt-"));
        let aside = named.expect("the file is named");
        assert!(words.contains("line 1"), "{words}");
        assert!(store.is_aside_news() && !store.is_aside_news());
        assert_eq!(
            std::fs::read_to_string(aside).expect("read"),
            "{\"jobs\": ["
        );
        assert_eq!(ids(&read(&path).expect("read")), ["a"]);

        // At a start nothing is known yet; the file is kept all the same.
        write(&path, "nonsense");
        rest(&path);
        std::fs::remove_file(aside).expect("it is there");
        let store = Store::new(&path);
        assert_eq!(ids(&store.look().expect("look")), [] as [&str; 0]);
        assert!(store.aside().is_some() && store.is_aside_news());
        // What is there since before the start is no news.
        let store = Store::new(&path);
        assert!(store.look().is_ok() && store.aside().is_some() && !store.is_aside_news());
    }

    #[test]
    fn a_file_that_is_saved_in_place_is_left_alone_until_it_is_whole() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("jobs.json");
        let store = Store::new(&path);
        store.change(|jobs| jobs.put(job("a"))).expect("change");
        let whole = std::fs::read_to_string(&path)
            .expect("read")
            .replace("look", "edited");
        let half = whole.get(..whole.len() / 2).expect("plain letters");
        let in_place = |text: &str| {
            let file = std::fs::OpenOptions::new()
                .write(true)
                .truncate(true)
                .open(&path);
            let mut file = file.expect("a file");
            std::io::Write::write_all(&mut file, text.as_bytes()).expect("write");
            // Fresh on a slow machine, too.
            let soon = clock::now() + Duration::from_secs(30);
            file.set_modified(soon).expect("a time");
        };
        for unfinished in ["", half] {
            in_place(unfinished);
            let jobs = store.look().expect("look");
            assert_eq!((ids(&jobs), store.aside()), (vec!["a".to_owned()], None));
            assert_eq!(std::fs::read_to_string(&path).expect("read"), unfinished);
            assert!(
                Store::new(&path).look().is_err(),
                "no jobs are unlike unknown ones"
            );
        }
        // A change waits for the rest, and keeps it.
        std::thread::scope(|scope| {
            let changed = scope.spawn(|| store.change(|jobs| jobs.put(job("b"))));
            in_place(&whole);
            changed.join().expect("no panic").expect("change");
        });
        let jobs = store.look().expect("look");
        let text = &jobs.get("a").expect("a").text;
        assert_eq!(
            (ids(&jobs), text.as_str()),
            (vec!["a".to_owned(), "b".to_owned()], "edited")
        );
        let files = std::fs::read_dir(dir.path()).expect("a directory").count();
        assert_eq!(files, 1, "nothing was set aside");
    }
}

//! The directory of the channel, as agent-channel(7) describes it: lines for the daemon, messages from it, the lock. The program's own
//! state is there, too, in JSON files.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::clock::now_ms;
use crate::error::Error;

/// The largest file of the daemon's that is read, bytes: agent-channel(7) has messages of at most 8 MB.
const MAX_FILE: u64 = 16 << 20;

/// A file of the daemon's, which says that the agent runs on another machine, and the time between two looks for it.
const ELSEWHERE: &str = "elsewhere";
const LOOK: Duration = Duration::from_secs(5);

/// So often it is tried to say what became of a message, every two seconds.
const TRIES: u32 = 150;

/// The directory of the channel.
#[derive(Debug, Clone)]
pub struct Spool {
    root: PathBuf,
    channel: String,
}

/// A message that is to be sent: `out/KEY.json`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Message {
    /// Its name, the same whenever it is offered.
    pub key: String,
    /// To whom.
    pub chat: String,
    /// In which thread.
    pub thread: Option<String>,
    /// The words, in Markdown.
    pub text: String,
    /// What it answers.
    pub reply_to: Option<String>,
    /// An emoji for the message `reply_to`, instead of a message.
    pub reaction: Option<String>,
    /// The message of the agent's that this one replaces.
    pub edit_of: Option<String>,
    /// Files of ours.
    pub files: Vec<OutFile>,
}

/// A file of a message.
#[derive(Debug, Clone, Deserialize)]
pub struct OutFile {
    /// Where it lies.
    pub path: PathBuf,
    /// What it is called.
    pub filename: String,
}

/// What became of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The server took it, under this id.
    Taken(String),
    /// It surely was not taken: again after so many seconds.
    Again(String, u64),
    /// Nobody can say.
    Unknown(String),
    /// It never will be.
    Never(String),
}

impl Spool {
    /// Returns the channel `channel`, whose directory `root` the daemon has made.
    ///
    /// # Errors
    /// When it is not there.
    pub fn open(root: PathBuf, channel: &str) -> Result<Self, Error> {
        if !root.join("spool/new").is_dir() {
            return Err(Error::NotThere(root, channel.to_owned()));
        }
        let spool = Self {
            root,
            channel: channel.to_owned(),
        };
        spool.check_here()?;
        Ok(spool)
    }

    /// Checks that the agent runs on this machine, as far as the daemon has said.
    fn check_here(&self) -> Result<(), Error> {
        match self.root.join(ELSEWHERE).exists() {
            true => Err(Error::Elsewhere(self.channel.clone())),
            false => Ok(()),
        }
    }

    /// Waits until the agent runs on another machine, and returns what then is to be said.
    pub async fn elsewhere(&self) -> Error {
        loop {
            if let Err(error) = self.check_here() {
                return error;
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Returns the name of the channel.
    pub fn channel(&self) -> &str {
        &self.channel
    }

    /// Takes the lock, and waits for it; it is held until the file is dropped.
    ///
    /// # Errors
    /// When there can be no lock.
    pub fn lock(&self) -> Result<File, Error> {
        let (file, path) = self.lock_file()?;
        if file.try_lock().is_err() {
            tracing::info!("another process has the lock of the channel; waiting for it");
            file.lock().map_err(Error::at("lock", &path))?;
        }
        Ok(file)
    }

    /// Takes the lock, or says that the channel runs.
    ///
    /// # Errors
    /// When another process has it.
    pub fn lock_now(&self) -> Result<File, Error> {
        let (file, _) = self.lock_file()?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(_) => Err(Error::Running(self.channel.clone())),
        }
    }

    fn lock_file(&self) -> Result<(File, PathBuf), Error> {
        let path = self.root.join("lock");
        let mut options = OpenOptions::new();
        let open = options.create(true).append(true).mode(0o600).open(&path);
        Ok((open.map_err(Error::at("open", &path))?, path))
    }

    /// Says what the channel can do, in the fields of `channel.json`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn announce(&self, can: &Value) -> Result<(), Error> {
        write(&self.root.join("channel.json"), can.to_string().as_bytes())
    }

    /// Returns how many lines the daemon has not taken yet.
    pub fn waiting(&self) -> usize {
        names(&self.root.join("spool/new"), ".json").len()
    }

    /// Leaves a line with its files, on the disk when this returns. A line that is there already stays as it is.
    ///
    /// # Errors
    /// When it cannot be written, or the agent runs on another machine; there is then no line.
    pub fn put(&self, id: &str, fields: Value, files: &[(String, Vec<u8>)]) -> Result<(), Error> {
        // What became of a message that went out is told in any case.
        if fields["cmd"] == "user" {
            self.check_here()?;
        }
        let new = self.root.join("spool/new");
        let line = new.join(format!("{id}.json"));
        if line.exists() {
            return Ok(());
        }
        let own = new.join(format!("{id}.d"));
        if !files.is_empty() {
            make_dir(&own)?;
        }
        for (name, bytes) in files {
            fill(&own.join(name), bytes)?;
        }
        if !files.is_empty() {
            sync(&own)?;
        }
        let mut whole = json!({"v": 1, "id": id, "channel": self.channel});
        if let (Some(whole), Value::Object(fields)) = (whole.as_object_mut(), fields) {
            whole.extend(fields);
        }
        let draft = self.root.join(format!("spool/tmp/{id}.json"));
        fill(&draft, whole.to_string().as_bytes())?;
        std::fs::rename(&draft, &line).map_err(Error::at("rename", &draft))?;
        sync(&new)
    }

    /// Says what became of the message `key`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn tell(&self, key: &str, outcome: &Outcome) -> Result<(), Error> {
        let mut fields = json!({"cmd": "delivered", "key": key});
        let mut set = |name: &str, value: Value| {
            if let Some(fields) = fields.as_object_mut() {
                fields.insert(name.to_owned(), value);
            }
        };
        match outcome {
            Outcome::Taken(id) => set("message_id", json!(id)),
            Outcome::Again(why, seconds) => {
                set("error", json!(why));
                set("retry_after", json!(seconds));
            }
            Outcome::Unknown(why) => {
                set("error", json!(why));
                set("unknown", json!(true));
            }
            Outcome::Never(why) => set("error", json!(why)),
        }
        let now = now_ms();
        self.put(&format!("r-{now}-{key}"), fields, &[])
    }

    /// Does [`Spool::tell`], and waits a while for a disk that is full: what went out would go out twice.
    ///
    /// # Errors
    /// When it cannot be written even then.
    pub async fn tell_surely(&self, key: &str, outcome: &Outcome) -> Result<(), Error> {
        for _ in 0..TRIES {
            match self.tell(key, outcome) {
                Err(error) => tracing::error!(%error, key, "cannot report the result of a message"),
                Ok(()) => return Ok(()),
            }
            tokio::time::sleep(Duration::from_secs(2)).await;
        }
        self.tell(key, outcome)
    }

    /// Returns why lines were refused, each with its id, and forgets it.
    pub fn refusals(&self) -> Vec<(String, String)> {
        let dir = self.root.join("replies");
        let ids = names(&dir, ".json");
        let read = ids.into_iter().filter_map(|id| {
            let path = dir.join(format!("{id}.json"));
            let reply: Value = read(&path).ok().flatten()?;
            drop(std::fs::remove_file(&path));
            let why = reply["error"].as_str()?.to_owned();
            Some((id, why))
        });
        read.collect()
    }

    /// Returns where something of this program's own lies.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Returns where messages to be sent appear.
    pub fn out(&self) -> PathBuf {
        self.root.join("out")
    }

    /// Returns the keys of messages to be sent, the oldest first.
    pub fn offered(&self) -> Vec<String> {
        names(&self.out(), ".json")
    }

    /// Claims a message; `None` when the daemon has taken it back, or it is not understood.
    ///
    /// # Errors
    /// When it cannot be read, or the agent runs on another machine.
    pub fn claim(&self, key: &str) -> Result<Option<Message>, Error> {
        self.check_here()?;
        let name = format!("{key}.json");
        let claimed = self.root.join("sending").join(&name);
        match std::fs::rename(self.out().join(&name), &claimed) {
            Ok(()) => read(&claimed),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::at("claim", &claimed)(error)),
        }
    }

    /// Reads a message that is claimed.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn claimed(&self, key: &str) -> Result<Option<Message>, Error> {
        read(&self.root.join(format!("sending/{key}.json")))
    }

    /// Returns the keys of messages that an earlier process claimed, and of which it said nothing.
    pub fn left_behind(&self) -> Vec<String> {
        let told = names(&self.root.join("spool/new"), ".json");
        let mut keys = names(&self.root.join("sending"), ".json");
        keys.retain(|key| {
            !told
                .iter()
                .any(|id| id.starts_with("r-") && id.ends_with(&format!("-{key}")))
        });
        keys
    }

    /// Reads a file of this program's own; `None` when it is not there.
    ///
    /// # Errors
    /// When it cannot be read. One that is not understood is set aside.
    pub fn recall<T: DeserializeOwned>(&self, name: &str) -> Result<Option<T>, Error> {
        let path = self.root.join(name);
        match read(&path) {
            Err(Error::NotUnderstood(..)) => {
                let aside = path.with_extension("damaged");
                std::fs::rename(&path, &aside).map_err(Error::at("set aside", &path))?;
                tracing::warn!(file = %aside.display(), "moved aside: it is not understood");
                Ok(None)
            }
            read => read,
        }
    }

    /// Writes a file of this program's own, on the disk when this returns.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn remember<T: Serialize>(&self, name: &str, value: &T) -> Result<(), Error> {
        let path = self.root.join(name);
        if let Some(parent) = path.parent().filter(|parent| !parent.is_dir()) {
            make_dir(parent)?;
        }
        write(&path, &serde_json::to_vec(value).unwrap_or_default())
    }

    /// Removes a file of this program's own.
    pub fn forget(&self, name: &str) {
        // What is not there needs not go.
        drop(std::fs::remove_file(self.root.join(name)));
    }

    /// Removes files of this program's own below `dir` that are older than `days`.
    pub fn forget_old(&self, dir: &str, days: u64) {
        let entries = std::fs::read_dir(self.root.join(dir));
        for entry in entries.into_iter().flatten().flatten() {
            let age = entry.metadata().and_then(|meta| meta.modified());
            let age = age.ok().and_then(|time| time.elapsed().ok());
            if age.is_some_and(|age| age.as_secs() > days * 86_400) {
                drop(std::fs::remove_file(entry.path()));
            }
        }
    }
}

/// Returns the names of files that end in `end`, without it, in their order.
fn names(dir: &Path, end: &str) -> Vec<String> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(end)?.to_owned()))
        .filter(|name| !name.starts_with('.'))
        .collect();
    names.sort();
    names
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    match std::fs::metadata(path) {
        Ok(meta) if meta.len() <= MAX_FILE => {}
        Ok(_) => {
            return Err(Error::NotUnderstood(
                path.to_owned(),
                "too large".to_owned(),
            ));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(Error::at("read", path)(error)),
    }
    let bytes = std::fs::read(path).map_err(Error::at("read", path))?;
    let understood = serde_json::from_slice(&bytes);
    understood
        .map(Some)
        .map_err(|error| Error::NotUnderstood(path.to_owned(), error.to_string()))
}

/// Replaces a file, whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let draft = path.with_extension("new");
    fill(&draft, bytes)?;
    std::fs::rename(&draft, path).map_err(Error::at("rename", &draft))?;
    path.parent().map_or(Ok(()), sync)
}

fn fill(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut options = OpenOptions::new();
    let open = options.create(true).write(true).truncate(true).mode(0o600);
    let written = open.open(path).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()
    });
    written.map_err(Error::at("write", path))
}

fn make_dir(path: &Path) -> Result<(), Error> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            Err(Error::at("make", path)(error))
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn sync(dir: &Path) -> Result<(), Error> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(Error::at("sync", dir))
}

#[cfg(test)]
mod spool_tests;

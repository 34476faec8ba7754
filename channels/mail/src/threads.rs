//! Threads of mails: which mails answer which, their subjects, and how often we answered.
//!
//! `threads/HASH.json` is one thread of one person; `sent.json` counts all sent mails.

use agent_channel::Spool;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The most ids of a thread that are named in References: mail programs know the first and the last ones.
const MAX_REFERENCES: usize = 20;
/// A thread that nobody wrote in for so long is begun anew, days.
const DAYS: u64 = 400;
/// The longest id of a mail that is used as it is, bytes; of a longer one its hash.
const MAX_ID: usize = 200;
const HOUR_MS: i64 = 3_600_000;

/// What is known of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Thread {
    /// With whom.
    pub chat: String,
    /// The id of its first mail, by which the daemon knows it.
    pub root: String,
    /// The mail of the person that began it, or that was the first we saw.
    pub first: String,
    /// What it is about, without `Re:`.
    pub subject: String,
    /// The ids of its mails, the first and the last ones.
    pub references: Vec<String>,
    /// The last mails of the person: what the daemon knows each by, and its id.
    pub known: Vec<(String, String)>,
    /// When we sent, milliseconds since 1970, of the last hour.
    pub sent: Vec<i64>,
}

impl Thread {
    /// Adds the id of a mail.
    pub fn add(&mut self, id: &str) {
        self.references.retain(|known| known != id);
        self.references.push(id.to_owned());
        if self.references.len() > MAX_REFERENCES {
            self.references.remove(1);
        }
    }

    /// Notes by what the daemon knows the mail `id`.
    pub fn know(&mut self, name: &str, id: &str) {
        if self.id_of(name).is_none() {
            self.known.push((name.to_owned(), id.to_owned()));
        }
        if self.known.len() > MAX_REFERENCES {
            self.known.remove(0);
        }
    }

    /// Returns the id of the mail that the daemon knows by `name`.
    pub fn id_of(&self, name: &str) -> Option<&str> {
        let mut known = self.known.iter();
        known
            .find(|(own, _)| own == name)
            .map(|(_, id)| id.as_str())
    }
}

/// The threads on the disk.
#[derive(Debug)]
pub struct Threads<'a> {
    spool: &'a Spool,
    domain: &'a str,
}

impl<'a> Threads<'a> {
    /// Returns the threads of the agent at `domain`.
    pub fn new(spool: &'a Spool, domain: &'a str) -> Self {
        Self { spool, domain }
    }

    /// Forgets threads that ended long ago.
    pub fn forget_old(&self) {
        self.spool.forget_old("threads", DAYS);
    }

    /// Returns the Message-ID of the message `key` in a thread: the same whenever it is sent, so that programs fold doubles.
    pub fn own_id(&self, key: &str, name: &str) -> String {
        format!("{key}.{name}@{}", self.domain)
    }

    /// Returns the name of the thread with `chat` that begins with `root`: never that of somebody else's, whose mail
    /// anybody may name.
    ///
    /// # Errors
    /// When a thread cannot be read.
    pub fn name(&self, chat: &str, root: &str) -> Result<String, Error> {
        if let Some(name) = self.named_in(root)
            && self.read(&name)?.is_none_or(|thread| thread.chat == chat)
        {
            return Ok(name);
        }
        Ok(short_hash(format!("{chat}\n{root}"), 16))
    }

    /// Returns the thread that one of the mails `ids` belongs to, where it is one of ours with `chat`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn of(&self, chat: &str, ids: &[String]) -> Result<Option<(String, Thread)>, Error> {
        for name in ids.iter().rev().filter_map(|id| self.named_in(id)) {
            // Whoever names a mail that went to somebody else is in no thread with them.
            if let Some(thread) = self.read(&name)?.filter(|thread| thread.chat == chat) {
                return Ok(Some((name, thread)));
            }
        }
        Ok(None)
    }

    /// Returns a thread; `None` when it is not known.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(&self, name: &str) -> Result<Option<Thread>, Error> {
        Ok(self.spool.recall(&format!("threads/{name}.json"))?)
    }

    /// Keeps a thread.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, thread: &Thread) -> Result<(), Error> {
        Ok(self
            .spool
            .remember(&format!("threads/{name}.json"), thread)?)
    }

    /// Returns whether one more mail may go out now: at most so many in `thread`, and in all, in an hour.
    ///
    /// # Errors
    /// When the counts cannot be read.
    pub fn may_send(
        &self,
        thread: &Thread,
        now: i64,
        limits: (usize, usize),
    ) -> Result<bool, Error> {
        let all: Vec<i64> = self.spool.recall("sent.json")?.unwrap_or_default();
        Ok(recent(&thread.sent, now).len() < limits.0 && recent(&all, now).len() < limits.1)
    }

    /// Counts a mail of the thread `name` that went out, or may have.
    ///
    /// # Errors
    /// When the counts cannot be read or written.
    pub fn count(&self, name: &str, now: i64) -> Result<(), Error> {
        let all: Vec<i64> = self.spool.recall("sent.json")?.unwrap_or_default();
        let mut all = recent(&all, now);
        all.push(now);
        self.spool.remember("sent.json", &all)?;
        let mut thread = self.read(name)?.unwrap_or_default();
        thread.sent = recent(&thread.sent, now);
        thread.sent.push(now);
        self.write(name, &thread)
    }

    /// Returns the name of the thread that an id of ours has in it.
    fn named_in(&self, id: &str) -> Option<String> {
        let (local, domain) = id.rsplit_once('@')?;
        let (_, name) = local.rsplit_once('.')?;
        let is_name = name.len() == 16 && name.bytes().all(|b| b.is_ascii_hexdigit());
        (domain == self.domain && is_name).then(|| name.to_owned())
    }
}

/// Returns the times of the last hour. A clock that was set back must not silence us for long.
fn recent(times: &[i64], now: i64) -> Vec<i64> {
    let hour = now - HOUR_MS..=now;
    times
        .iter()
        .copied()
        .filter(|at| hour.contains(at))
        .collect()
}

/// Returns the ids in a header, without their brackets.
pub fn ids(value: &str) -> Vec<String> {
    let pieces = value.split('<').skip(1);
    pieces
        .filter_map(|piece| piece.split_once('>'))
        .map(|(id, _)| fitting(id.trim()))
        .filter(|id| !id.is_empty())
        .collect()
}

/// Returns an id as the daemon takes one.
fn fitting(id: &str) -> String {
    let id: String = id
        .chars()
        .filter(|c| !c.is_control() && !c.is_whitespace())
        .collect();
    if id.len() > MAX_ID {
        return format!("{}@long", short_hash(&id, 40));
    }
    id
}

/// Returns the first `length` digits of the SHA-256 of `text`.
pub fn short_hash(text: impl AsRef<[u8]>, length: usize) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_ref());
    let digits: String = digest
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    digits.chars().take(length).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spool() -> (tempfile::TempDir, Spool) {
        let dir = tempfile::tempdir().expect("dir");
        std::fs::create_dir_all(dir.path().join("spool/new")).expect("dir");
        let spool = Spool::open(dir.path().to_owned(), "mail").expect("a spool");
        (dir, spool)
    }

    #[test]
    fn an_answer_to_our_mail_is_in_its_thread_and_nobody_elses() {
        let (_dir, spool) = spool();
        let threads = Threads::new(&spool, "example.org");
        let name = threads.name("ada@example.org", "root@x").expect("read");
        let thread = Thread {
            chat: "ada@example.org".to_owned(),
            root: "root@x".to_owned(),
            ..Thread::default()
        };
        threads.write(&name, &thread).expect("written");
        let own = threads.own_id("1764093200123-42", &name);
        let of = |chat: &str, ids: &[&str]| {
            let ids: Vec<String> = ids.iter().map(|&id| id.to_owned()).collect();
            threads
                .of(chat, &ids)
                .expect("read")
                .map(|(_, thread)| thread.root)
        };
        assert_eq!(
            of("ada@example.org", &["lost@x", &own]).as_deref(),
            Some("root@x")
        );
        assert_eq!(of("eve@evil.com", &[&own]), None);
        assert_eq!(
            of("ada@example.org", &["a.0123456789abcdef@evil.com"]),
            None
        );
        assert_eq!(threads.name("ada@example.org", &own).expect("read"), name);
        let other = threads.name("eve@evil.com", &own).expect("read");
        assert_ne!(other, name, "whoever names a mail does not take its thread");
    }

    #[test]
    fn an_hour_has_a_limit_a_thread_and_in_all() {
        let (_dir, spool) = spool();
        let threads = Threads::new(&spool, "example.org");
        let send = |name: &str, now| {
            let thread = threads.read(name).expect("read").unwrap_or_default();
            let may = threads.may_send(&thread, now, (2, 3)).expect("read");
            if may {
                threads.count(name, now).expect("counted");
            }
            may
        };
        assert!(send("one", 1_000) && send("one", 2_000) && !send("one", 3_000));
        assert!(send("other", 4_000) && !send("other", 5_000));
        assert!(send("one", HOUR_MS + 1_500) && !send("one", HOUR_MS + 1_600));
        // Set back by a day: what was counted lies in the future.
        assert!(send("one", -24 * HOUR_MS));
    }

    #[test]
    fn ids_are_read_in_whatever_state() {
        assert_eq!(ids(" <a@b>\r\n\t<c@d> junk <e@f"), ["a@b", "c@d"]);
        assert_eq!(
            ids(&format!("<{}@x>", "y".repeat(5_000)))
                .first()
                .map(String::len),
            Some(45)
        );
        let mut thread = Thread::default();
        (0..100).for_each(|n| thread.add(&format!("{n}@x")));
        assert_eq!(
            (
                thread.references.len(),
                thread.references[0].as_str(),
                thread.references[19].as_str()
            ),
            (20, "0@x", "99@x")
        );
    }
}

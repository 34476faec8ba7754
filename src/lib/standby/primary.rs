//! [`Primary`]: pushes the home into its replica, on every change and once a minute, until another machine takes over.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::copy::{OF_SPOOLS, settings};
use super::needed;
use super::rsync::{Place, Rsync};
use super::{
    Beacon, DATABASES, EVERY_MS, Error, PLACES, PUSH, Record, Role, SPOOLS, WHOLE, Whole, make_dir,
    own_dir,
};
use crate::config::{Environment, Home};
use crate::sys::atomic::{Durability, write_json};
use crate::sys::lock::{self, Lock};
use crate::{backup, clock, db, sys};

/// Between two pushes while something changes; as long as the last one took, when that was longer.
const PAUSE: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_millis(EVERY_MS.unsigned_abs());
const AFTER_FAILURE: Duration = Duration::from_secs(5);

/// Of the state, in addition to what a backup leaves out: databases (copies of them are pushed), what is rebuilt, what belongs to
/// this machine or process. A pattern with a slash at its start holds at the top alone.
const LEFT: [&str; 7] = [
    "--exclude=/*.db*",
    "--exclude=/.*",
    "--exclude=/*.lock",
    "--exclude=/index.*",
    "--exclude=/spool",
    "--exclude=/standby*",
    "--exclude=.*.tmp-*",
];
/// Of the directory of a channel: what it and the daemon tell each other of messages that go out, as new as the rest of the
/// state. What else is there is the channel's own: how far it has read.
const OF_CHANNEL: [&str; 6] = ["out", "sending", "files", "replies", "channel.json", "boot"];
/// What is neither: messages that come in, what holds for this machine alone.
const NOT_OF_CHANNEL: [&str; 4] = ["spool", "lock", "events", "elsewhere"];
const MIRROR: [&str; 2] = ["--delete-after", "--delete-excluded"];

/// The stamps of a database and its log.
type Stamps = [Option<sys::Version>; 2];

/// A home that is being pushed. One a home.
pub struct Primary {
    home: Home,
    env: Environment,
    place: Place,
    rsync: Rsync,
    /// With keys and sign-ins.
    secrets: bool,
    record: Record,
    pushed: Option<Instant>,
    took: Duration,
    has_failed: bool,
    /// The queue when the last push began.
    queue: Stamps,
    /// The databases as they were copied aside.
    aside: [Option<Stamps>; DATABASES.len()],
    _lock: Lock,
}

impl Primary {
    /// Takes the home, and checks that the replica is this agent's and nobody took over. `to` is `[HOST:]DIR`; without it
    /// the place that is known.
    ///
    /// # Errors
    /// [`Error::Busy`], [`Error::Role`], [`Error::Elsewhere`], [`Error::Foreign`], [`Error::Replaced`], or when the replica
    /// cannot be reached.
    pub fn open(
        home: &Home,
        env: &Environment,
        to: Option<&str>,
        secrets: bool,
    ) -> Result<Self, Error> {
        let lock = super::waiting::take_lock(home, Duration::ZERO)?;
        let mut record = super::read(home)?.unwrap_or_else(|| {
            let agent = uuid::Uuid::new_v4().simple().to_string();
            Record::new(Role::Primary, agent)
        });
        if !matches!(record.role, Role::Primary | Role::HandedOver) {
            return Err(Error::Role { role: record.role });
        }
        let place = Place::parse(to.unwrap_or(&record.replica))?;
        if record.replica.is_empty() {
            let (agent, role) = (record.agent.clone(), record.role);
            record = Record {
                generation: record.generation,
                replica: place.0.clone(),
                taken_over: record.taken_over,
                ..Record::new(role, agent)
            };
        } else if record.replica != place.0 {
            return Err(Error::Elsewhere(record.replica));
        }
        let (rsync, dir) = (Rsync::of(env), own_dir(home));
        make_dir(&dir.join(PUSH))?;
        if record.copied_at.is_none() {
            // Nothing but the directory.
            let only = ["--mkpath", "--exclude=*"];
            rsync.copy(&dir.to_string_lossy(), &place.0, &only)?;
        }
        let mut primary = Self {
            home: home.clone(),
            env: env.clone(),
            place,
            rsync,
            secrets,
            record,
            pushed: None,
            took: Duration::ZERO,
            has_failed: false,
            queue: [None; 2],
            aside: [None; DATABASES.len()],
            _lock: lock,
        };
        primary.look()?;
        primary.record.write(home, Durability::Full)?;
        Ok(primary)
    }

    /// Returns what this home knows of itself and its standby.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Pushes when something changed or it is time. Blocking.
    ///
    /// # Errors
    /// [`Error::Replaced`] and [`Error::Role`] are permanent. What else fails is tried again, and told by [`Record::alarm`].
    pub fn step(&mut self) -> Result<(), Error> {
        let queue = stamps(&self.home.queue_db());
        let pause = match queue != self.queue {
            _ if self.has_failed => AFTER_FAILURE,
            true => PAUSE.max(self.took),
            false => IDLE,
        };
        if self.pushed.is_some_and(|at| at.elapsed() < pause) {
            return Ok(());
        }
        self.queue = queue;
        let began = Instant::now();
        let pushed = self.push(false);
        self.took = began.elapsed();
        self.pushed = Some(Instant::now());
        self.has_failed = pushed.is_err();
        if let Err(Error::Replaced { .. }) = pushed {
            return pushed;
        }
        // The daemon may have learnt at its start that it was replaced.
        super::may_run(&self.home)?;
        self.record.trouble = pushed.as_ref().err().map(ToString::to_string);
        self.record.write(&self.home, Durability::Rename)?;
        pushed
    }

    /// Pushes everything a last time; the agent does not run here any more. Blocking.
    ///
    /// # Errors
    /// [`Error::Busy`] while the daemon runs; when the push fails, the home stays the primary.
    pub fn hand_over(&mut self) -> Result<(), Error> {
        let _daemon = lock::try_lock(&self.home.lock())?.ok_or(Error::Busy("a daemon"))?;
        self.record.role = Role::HandedOver;
        self.record.write(&self.home, Durability::Full)?;
        let pushed = self.push(true);
        if pushed.is_err() && self.record.role == Role::HandedOver {
            self.record.role = Role::Primary;
        }
        self.record.write(&self.home, Durability::Full)?;
        pushed
    }

    /// Makes a home that was handed over the primary again. Blocking.
    ///
    /// # Errors
    /// [`Error::Replaced`] when its standby took over, or when the replica is out of sight: nobody can say then.
    pub fn take_back(&mut self) -> Result<(), Error> {
        self.push(false)?;
        self.record.role = Role::Primary;
        self.record.write(&self.home, Durability::Full)
    }

    fn push(&mut self, handed_over: bool) -> Result<(), Error> {
        self.look()?;
        let began = clock::now_ms();
        let aside = own_dir(&self.home).join(PUSH);
        // Whatever is read from a source is in the spool or in the queue before its place there is: copied the other way
        // round, it is in one of the copies.
        let places = self.copy_places()?;
        self.copy_aside(&aside)?;
        let of_backup = backup::LEFT.map(|name| format!("--exclude=/{name}"));
        let of_channels = OF_CHANNEL.map(|name| format!("--include=/channels/*/{name}"));
        let secrets = backup::SECRETS.map(|name| format!("--exclude=/{name}*"));
        let mut left = [&LEFT[..], &MIRROR].concat();
        left.extend(of_backup.iter().chain(&of_channels).map(String::as_str));
        left.push("--exclude=/channels/*/*");
        if !self.secrets {
            left.extend(secrets.iter().map(String::as_str));
            // Where tool servers keep sign-ins.
            left.push("--exclude=/mcp/*/.*");
        }
        // Under a system unit it is in the state.
        let below = self.home.workspace().strip_prefix(self.home.state());
        let below = below.map(|below| format!("--exclude=/{}", below.display()));
        left.extend(below.iter().map(String::as_str));
        self.send(self.home.state(), "state", &left)?;
        let workspace = self.send(
            self.home.workspace(),
            "workspace",
            &["--delete-after", "--links"],
        );
        let whole = Whole {
            agent: self.record.agent.clone(),
            generation: self.record.generation,
            pushed_at: began,
            handed_over: handed_over && workspace.is_ok(),
            secrets: needed::secrets(&self.home, &self.env),
            arrived_at: None,
        };
        write_json(&aside.join(WHOLE), &whole, Durability::Rename)?;
        // All are renamed together, at the end.
        let last = ["--delay-updates", "--delete-after", "--exclude=/*.draft*"];
        self.send(&aside, PUSH, &last)?;
        // Behind the queue, also when we die here.
        self.send(&places, PLACES, &["--delete-after"])?;
        // A file of the owner's that cannot be read keeps no conversation from the standby; it is told.
        workspace?;
        self.record.copied_at = Some(began);
        Ok(())
    }

    fn send(&self, from: &Path, name: &str, more: &[&str]) -> Result<(), Error> {
        let to = self.place.inside(name);
        // A home that has never run has no workspace.
        if !from.is_dir() {
            return Ok(());
        }
        self.rsync.copy(&from.to_string_lossy(), &to, more)
    }

    /// Copies how far channels have read, and returns where that lies now.
    fn copy_places(&self) -> Result<PathBuf, Error> {
        let (from, to) = (self.home.channels(), own_dir(&self.home).join(PLACES));
        if !from.is_dir() {
            super::copy::remove(&to)?;
            return Ok(to);
        }
        let secret = backup::OF_CHANNEL;
        let mut left: Vec<String> = OF_CHANNEL
            .iter()
            .chain(&NOT_OF_CHANNEL)
            .map(|name| format!("--exclude=/*/{name}"))
            .collect();
        left.extend(["", "."].map(|dot| format!("--exclude=/*/{dot}{secret}*")));
        left.push("--exclude=.*.tmp-*".to_owned());
        left.extend(MIRROR.map(str::to_owned));
        let left: Vec<&str> = left.iter().map(String::as_str).collect();
        self.rsync.copy_own(&from, &to, &left)?;
        Ok(to)
    }

    /// Copies what waits in spools, then databases and settings, as they are now.
    fn copy_aside(&mut self, aside: &Path) -> Result<(), Error> {
        let spools = [&MIRROR[..], &OF_SPOOLS].concat();
        self.rsync
            .copy_own(self.home.state(), &aside.join(SPOOLS), &spools)?;
        for (name, copied) in DATABASES.into_iter().zip(&mut self.aside) {
            let path = self.home.state().join(name);
            let now = Some(stamps(&path));
            if *copied == now {
                continue;
            }
            let draft = aside.join(format!("{name}.draft"));
            super::copy::remove(&draft)?;
            if db::snapshot(&path, &draft)? {
                let moved = std::fs::rename(&draft, aside.join(name));
                moved.map_err(sys::Error::at("move", &draft))?;
            }
            *copied = now;
        }
        // Without settings the built-in ones hold.
        let (from, to) = (self.home.config_dir(), aside.join("config"));
        make_dir(&to)?;
        if !from.is_dir() {
            return Ok(());
        }
        let only = [&MIRROR[..], &settings(self.secrets)].concat();
        self.rsync.copy_own(from, &to, &only)
    }

    fn look(&mut self) -> Result<(), Error> {
        let said = self.rsync.hear(&self.place, &own_dir(&self.home))?;
        note(&self.home, &mut self.record, said)
    }
}

fn stamps(database: &Path) -> Stamps {
    [database, &db::beside(database, "-wal")].map(sys::Version::at)
}

/// Notes what the replica says. A standby that took over with this primary's generation or a newer one has replaced it.
fn note(
    home: &Home,
    record: &mut Record,
    (whole, beacon): (Option<Whole>, Option<Beacon>),
) -> Result<(), Error> {
    let agents = [
        whole.as_ref().map(|whole| &whole.agent),
        beacon.as_ref().map(|beacon| &beacon.agent),
    ];
    let is_foreign = |agent: &&String| !agent.is_empty() && **agent != record.agent;
    if agents.into_iter().flatten().any(|agent| is_foreign(&agent)) {
        return Err(Error::Foreign(record.replica.clone()));
    }
    let Some(beacon) = beacon else { return Ok(()) };
    let before = record.beacon.as_ref().and_then(|before| before.proven_at);
    if beacon.proven_at != before {
        record.proven_at = Some(clock::now_ms());
    }
    let host = beacon.host.clone();
    let promoted = beacon.promoted.filter(|newer| *newer >= record.generation);
    record.beacon = Some(beacon);
    let Some(generation) = promoted else {
        return Ok(());
    };
    record.role = Role::Replaced;
    record.write(home, Durability::Full)?;
    Err(Error::Replaced { host, generation })
}

/// Before the agent runs: looks into the replica whether another machine took over. A replica that is out of sight says
/// nothing, and the agent runs: its absence is the worse of the two.
///
/// # Errors
/// [`Error::Replaced`]; what else fails keeps nobody from running and is [`Ok`] with why.
pub fn check_successor(home: &Home, env: &Environment) -> Result<Option<String>, Error> {
    let is_pushed = |record: &Record| record.role == Role::Primary && !record.replica.is_empty();
    let Some(mut record) = super::read(home)?.filter(is_pushed) else {
        return Ok(None);
    };
    let heard = Rsync::of(env).hear(&Place(record.replica.clone()), &own_dir(home));
    match heard.and_then(|said| note(home, &mut record, said)) {
        Ok(()) => Ok(None),
        Err(error @ Error::Replaced { .. }) => Err(error),
        Err(error) => Ok(Some(error.to_string())),
    }
}

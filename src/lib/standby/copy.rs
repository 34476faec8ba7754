//! A copy of a replica as a home of its own, the proof that an agent could start with it, and its way into the place of a home.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::rsync::Rsync;
use super::{Error, PLACES, PUSH, SPOOLS, WHOLE, Whole, make_dir, read_json};
use crate::config::{Environment, Home, HomeFlags};
use crate::memory::facts;
use crate::sys::atomic::{Durability, write_json};
use crate::{backup, cost, queue, sys};

/// What never comes out of the files of a replica: databases come from its push; roles and hidden files are this machine's own.
const FOREIGN: [&str; 4] = [
    "--exclude=/*.db*",
    "--exclude=/standby*",
    "--exclude=/whole.json",
    "--exclude=/.*",
];
/// Of the state: messages that wait to be taken into the queue.
pub(super) const OF_SPOOLS: [&str; 9] = [
    "--include=/spool",
    "--include=/spool/new",
    "--include=/spool/new/**",
    "--include=/channels",
    "--include=/channels/*",
    "--include=/channels/*/spool",
    "--include=/channels/*/spool/new",
    "--include=/channels/*/spool/new/**",
    "--exclude=*",
];
/// How often a directory is removed that somebody still writes into, and the time between.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

/// A copy that was proved.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) dir: PathBuf,
    pub(super) whole: Whole,
    /// When its push had come in, by this machine's clock, milliseconds since 1970 UTC.
    pub(super) arrived_at: i64,
    /// What keeps the agent from starting with it and is not the copy's fault.
    pub(super) warnings: Vec<String>,
}

/// Returns what rsync takes of the directory of the settings. In `channels` there are passwords.
pub(super) fn settings(secrets: bool) -> Vec<&'static str> {
    let mut taken = vec![
        "--include=/agent.toml",
        "--include=/providers.d",
        "--include=/providers.d/**",
    ];
    if secrets {
        taken.extend([
            "--include=/.env",
            "--include=/channels",
            "--include=/channels/**",
        ]);
    }
    taken.push("--exclude=*");
    taken
}

/// Makes a copy of the replica in `dir`, in place of what is there, and proves it. Files that are the same share their blocks
/// with the replica.
///
/// # Errors
/// When there is nothing whole, rsync fails, or the copy is damaged or of a newer version.
pub(super) fn make(
    rsync: &Rsync,
    env: &Environment,
    replica: &Path,
    dir: &Path,
) -> Result<Copy, Error> {
    // A push may come in meanwhile: each is as new as the one before it or newer. So nothing is said to be here that is not,
    // no message was read that is neither in a spool nor in the queue, and transcripts are behind no queue.
    let (whole, arrived_at) = sealed(replica)?;
    let (push, state) = (replica.join(PUSH), dir.join("state"));
    remove(dir)?;
    make_dir(dir)?;
    // A program of before had neither; a channel or a spool need not be there either.
    for (from, to, only) in [
        (replica.join(PLACES), state.join("channels"), &[][..]),
        (push.join(SPOOLS), state.clone(), &OF_SPOOLS),
    ] {
        if from.symlink_metadata().is_ok() {
            rsync.copy_here(&from, &to, only)?;
        }
    }
    rsync.copy_here(&push, &state, &["--include=/*.db", "--exclude=*"])?;
    let whole = Whole {
        arrived_at: Some(arrived_at),
        ..whole
    };
    write_json(&state.join(WHOLE), &whole, Durability::Rename)?;
    rsync.copy_here(&push.join("config"), dir, &settings(true))?;
    for (name, left) in [("state", &FOREIGN[..]), ("workspace", &["--links"][..])] {
        let from = replica.join(name);
        let same = format!("--link-dest={}", from.display());
        rsync.copy_here(
            &from,
            &dir.join(name),
            &[&[same.as_str()][..], left].concat(),
        )?;
    }
    if !state.join("queue.db").exists() {
        return Err(Error::Nothing(replica.to_owned()));
    }
    prove(env, dir)
}

/// Proves what is in `dir`.
pub(super) fn prove(env: &Environment, dir: &Path) -> Result<Copy, Error> {
    let path = dir.join("state").join(WHOLE);
    let (whole, since) = read_seal(&path)?.ok_or_else(|| Error::Nothing(dir.to_owned()))?;
    // The file itself was made with the copy.
    let arrived_at = whole.arrived_at.unwrap_or(since);
    let home = home_of(dir)?;
    let warnings = backup::open_all(&home, env)?.warnings;
    // An older program may have written it: whether it can be brought up is known before it is needed.
    queue::migrate(&home.queue_db())?;
    cost::migrate(&home.cost_db())?;
    facts::migrate(&facts::database(&home))?;
    Ok(Copy {
        dir: dir.to_owned(),
        whole,
        arrived_at,
        warnings,
    })
}

/// Returns what the last whole push said, and when it came in by this machine's clock.
pub(super) fn sealed(replica: &Path) -> Result<(Whole, i64), Error> {
    let seal = read_seal(&replica.join(PUSH).join(WHOLE))?;
    seal.ok_or_else(|| Error::Nothing(replica.to_owned()))
}

/// Returns when the last push came in by this machine's clock, whole or not: the primary lived then.
pub(super) fn last_arrival(replica: &Path) -> Option<i64> {
    since(&replica.join(PUSH).join(WHOLE))
}

/// Returns since when a file is there. No program sets this time, whatever the clock of the other machine says.
fn since(path: &Path) -> Option<i64> {
    let meta = path.metadata().ok()?;
    Some(meta.ctime() * 1000 + meta.ctime_nsec() / 1_000_000)
}

fn read_seal(path: &Path) -> Result<Option<(Whole, i64)>, Error> {
    let Some(since) = since(path) else {
        return Ok(None);
    };
    Ok(read_json(path)?.map(|whole| (whole, since)))
}

/// Puts the files of a copy into the places of `home`, onto the disk. Settings and keys that this machine has stay.
pub(super) fn install(rsync: &Rsync, home: &Home, copy: &Path) -> Result<(), Error> {
    let from = home_of(copy)?;
    let state = ["--fsync", "--exclude=/standby*", "--exclude=/whole.json"];
    rsync.copy_here(from.state(), home.state(), &state)?;
    rsync.copy_here(from.workspace(), home.workspace(), &["--fsync", "--links"])?;
    let own_stay = ["--fsync", "--ignore-existing"];
    let settings = [&own_stay[..], &settings(true)].concat();
    rsync.copy_here(copy, home.config_dir(), &settings)?;
    Ok(home.create()?)
}

/// Returns the home that a copy is.
pub(super) fn home_of(dir: &Path) -> Result<Home, Error> {
    let flags = HomeFlags {
        home: Some(dir.to_owned()),
        ..HomeFlags::default()
    };
    Ok(Home::resolve(flags, &|_| None)?)
}

/// Removes a directory or a file, if it is there.
pub(super) fn remove(path: &Path) -> Result<(), Error> {
    for tries_left in (0..TRIES).rev() {
        let removed = match path.is_dir() {
            true => std::fs::remove_dir_all(path),
            false => std::fs::remove_file(path),
        };
        match removed {
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            // The rsync of a process that was killed may not have ended yet.
            Err(_) if tries_left > 0 => std::thread::sleep(PAUSE),
            Err(error) => return Err(sys::Error::at("remove", path)(error).into()),
            Ok(()) => break,
        }
    }
    Ok(())
}

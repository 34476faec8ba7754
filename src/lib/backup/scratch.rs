//! The place for copies of databases and large files before they are added: in the home, or elsewhere if its disk is full or read-only.

use std::io;
use std::path::{Path, PathBuf};

use super::Error;
use crate::config::Home;
use crate::sys;
use crate::sys::ScratchDir;
use crate::sys::lock;
use crate::sys::lock::Lock;

/// What a directory of ours elsewhere is called, before its id.
pub(super) const ELSEWHERE: &str = ".agent-backup";
/// Below the state.
const OWN: &str = "backup.tmp";
const LOCK: &str = "backup.lock";
/// What is left free for the daemon next to a copy: some turns' worth.
const SPARE: u64 = 16 << 20;

/// Returns whether a backup of `home` is being made.
pub fn is_under_way(home: &Home) -> bool {
    lock::holder(&home.state().join(LOCK)).is_ok_and(|holder| holder.is_some())
}

/// Directories that go with this value; what a killed run left in the home goes first.
pub(super) struct Scratch<'a> {
    /// The one in the home and the lock that keeps others out of it, or why there is none.
    own: Result<(PathBuf, Lock), sys::Error>,
    elsewhere: &'a [PathBuf],
    made: Vec<ScratchDir>,
}

impl<'a> Scratch<'a> {
    /// Makes the one in `state`; `elsewhere` are directories in which others may be made, the best first.
    ///
    /// # Errors
    /// [`Error::Busy`], or when it cannot be made for another reason than that there is no room.
    pub(super) fn make(state: &Path, elsewhere: &'a [PathBuf]) -> Result<Self, Error> {
        let own = match lock::try_lock(&state.join(LOCK)) {
            Ok(None) => return Err(Error::Busy),
            Ok(Some(lock)) => make_own(&state.join(OWN)).map(|dir| (dir, lock)),
            Err(error) => Err(error),
        };
        let own = match own {
            Err(error) if !sys::is_no_room(&error.source) => return Err(error.into()),
            own => own,
        };
        Ok(Self {
            own,
            elsewhere,
            made: Vec::new(),
        })
    }

    /// Returns a directory in which `bytes` have room. Where none has, the one in the home: the failure to write says why.
    pub(super) fn for_bytes(&mut self, bytes: u64) -> Result<PathBuf, sys::Error> {
        let has_room = |dir: &Path| {
            sys::free_space(dir).is_none_or(|free| free >= bytes.saturating_add(SPARE))
        };
        let own = self.own.as_ref().map(|(dir, _)| dir.as_path()).ok();
        let dirs = own
            .into_iter()
            .chain(self.made.iter().map(ScratchDir::path));
        if let Some(dir) = dirs.into_iter().find(|dir| has_room(dir)) {
            return Ok(dir.to_owned());
        }
        let parents = self.elsewhere.iter().filter(|parent| has_room(parent));
        if let Some(made) = parents
            .into_iter()
            .find_map(|parent| ScratchDir::make(parent, ELSEWHERE).ok())
        {
            let dir = made.path().to_owned();
            self.made.push(made);
            return Ok(dir);
        }
        match &self.own {
            Ok((own, _)) => Ok(own.clone()),
            Err(error) => Err(sys::Error::at(error.op, &error.path)(error.source.kind())),
        }
    }
}

fn make_own(dir: &Path) -> Result<PathBuf, sys::Error> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(sys::Error::at("remove", dir)(error));
        }
        _ => {}
    }
    std::fs::create_dir(dir).map_err(sys::Error::at("make", dir))?;
    Ok(dir.to_owned())
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        if let Ok((own, _)) = &self.own {
            // The next backup removes it.
            let _ = std::fs::remove_dir_all(own);
        }
    }
}

//! Makes the directories and repairs the modes of our own files.

use std::fs::{DirBuilder, Metadata, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::Path;

use super::Home;
use crate::config::error::Error;

const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;

impl Home {
    /// Makes the state directories (0700) and the workspace, and takes away what group and others
    /// may do to the files of `state/`. Quick enough for every start: about three system calls a
    /// directory and two a file of `state/` itself; what lies deeper is behind those directories.
    ///
    /// # Errors
    /// [`Error::Io`] with the path, also when something else is where a directory should.
    pub fn create(&self) -> Result<(), Error> {
        ensure_parents(&self.state)?;
        ensure_parents(&self.workspace)?;
        let own = [
            self.state.clone(),
            self.state.join("spool"),
            self.spool_tmp(),
            self.spool_new(),
            self.replies(),
            self.sessions(),
            self.archive(),
            self.downloads(),
            self.state.join("cron"),
            self.job_runs(),
            self.logs(),
        ];
        for dir in &own {
            if ensure_dir(dir)?.mode() & 0o777 != DIR_MODE {
                set_mode(dir, DIR_MODE)?;
            }
        }
        // The workspace is the user's: made private, then left as they want it.
        ensure_dir(&self.workspace)?;
        repair_files(&self.state)
    }
}

fn ensure_parents(dir: &Path) -> Result<(), Error> {
    match dir.parent() {
        Some(parent) if !parent.exists() => DirBuilder::new()
            .recursive(true)
            .mode(DIR_MODE)
            .create(parent)
            .map_err(Error::io("create", parent)),
        _ => Ok(()),
    }
}

/// A link to a directory is fine: people move `state` to another disk.
fn ensure_dir(dir: &Path) -> Result<Metadata, Error> {
    match DirBuilder::new().mode(DIR_MODE).create(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(Error::io("create", dir)(error));
        }
        Ok(()) | Err(_) => {}
    }
    let metadata = std::fs::metadata(dir).map_err(Error::io("look at", dir))?;
    if metadata.is_dir() {
        Ok(metadata)
    } else {
        Err(Error::io("use as a directory", dir)(
            std::io::ErrorKind::NotADirectory.into(),
        ))
    }
}

fn repair_files(state: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(state).map_err(Error::io("list", state))? {
        let entry = entry.map_err(Error::io("list", state))?;
        // Links are not followed: chmod would change what is not ours. A file that has just been
        // removed (a journal of SQLite, a temporary file) needs no repair.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        let ours =
            metadata.is_file() || std::os::unix::fs::FileTypeExt::is_fifo(&metadata.file_type());
        if ours && metadata.mode() & 0o177 != 0 {
            match set_mode(&entry.path(), FILE_MODE) {
                Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {}
                done => done?,
            }
        }
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    std::fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(Error::io("make private", path))
}

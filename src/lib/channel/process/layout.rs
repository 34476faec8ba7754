//! The directory of a channel, `state/channels/NAME/`:
//!
//! ```text
//! channel.json      the channel's capabilities; written by its process
//! lock              held by its process (flock) while it runs
//! out/KEY.json      messages to be sent; the process claims one by renaming it into sending/
//! sending/KEY.json  messages that it is sending; the daemon removes them when it knows the result
//! files/KEY-N-NAME  the files of those messages
//! spool/tmp, new/   lines of the process for the daemon: `user` and `delivered` of this channel, nothing else
//! replies/ID.json   why a line of that spool was refused
//! events            a FIFO: typing, previews, marks; reading it is optional
//! boot              which start of the machine the messages were offered in
//! ```

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::sys::Error;

/// The directory of one channel.
#[derive(Debug, Clone)]
pub struct Layout {
    root: PathBuf,
}

impl Layout {
    /// Returns the layout of the directory `root`.
    pub fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Returns messages to be sent.
    pub fn out(&self) -> PathBuf {
        self.root.join("out")
    }

    /// Returns messages that the process claimed.
    pub fn sending(&self) -> PathBuf {
        self.root.join("sending")
    }

    /// Returns the files of messages.
    pub fn files(&self) -> PathBuf {
        self.root.join("files")
    }

    /// Returns lines for the daemon.
    pub fn spool_new(&self) -> PathBuf {
        self.root.join("spool/new")
    }

    /// Returns where lines are written before they are there.
    pub fn spool_tmp(&self) -> PathBuf {
        self.root.join("spool/tmp")
    }

    /// Returns why lines were refused.
    pub fn replies(&self) -> PathBuf {
        self.root.join("replies")
    }

    /// Returns what the channel can do.
    pub fn capabilities(&self) -> PathBuf {
        self.root.join("channel.json")
    }

    /// Returns the lock of the process.
    pub fn lock(&self) -> PathBuf {
        self.root.join("lock")
    }

    /// Returns the FIFO of events.
    pub fn events(&self) -> PathBuf {
        self.root.join("events")
    }

    /// Returns which start of the machine the messages were offered in.
    pub fn boot(&self) -> PathBuf {
        self.root.join("boot")
    }

    /// Makes the directories, mode 0700. What its process put in the place of one, a link that leads elsewhere, goes.
    ///
    /// # Errors
    /// When something else is in the place of the channel's own, or nothing can be made.
    pub fn create(&self) -> Result<(), Error> {
        make(self.root.parent().unwrap_or(&self.root))?;
        make(&self.root)?;
        for dir in self.dirs() {
            // Only what is not a directory can be removed like this.
            if !is_dir(&dir) && std::fs::remove_file(&dir).is_ok() {
                tracing::warn!(dir = %dir.display(), "removed a file in the place of a channel directory");
            }
            make(&dir)?;
        }
        Ok(())
    }

    /// Returns whether the directories are what they should be.
    pub fn is_whole(&self) -> bool {
        self.dirs().iter().all(|dir| is_dir(dir))
    }

    /// Returns the directories that are its process's own.
    fn dirs(&self) -> [PathBuf; 7] {
        [
            self.out(),
            self.sending(),
            self.files(),
            self.root.join("spool"),
            self.spool_tmp(),
            self.spool_new(),
            self.replies(),
        ]
    }
}

fn make(dir: &Path) -> Result<(), Error> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(Error::at("make", dir)(error));
        }
        Ok(()) | Err(_) => {}
    }
    if is_dir(dir) {
        return Ok(());
    }
    let no_directory = std::io::Error::from(std::io::ErrorKind::NotADirectory);
    Err(Error::at("use as a directory", dir)(no_directory))
}

fn is_dir(dir: &Path) -> bool {
    std::fs::symlink_metadata(dir).is_ok_and(|meta| meta.is_dir())
}

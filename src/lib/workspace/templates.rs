//! What `agent-daemon init` writes: a home that works at once, with every setting explained.

#[cfg(test)]
mod tests;

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use chrono_tz::Tz;

use super::Error;
use crate::config::Home;

const AGENT_TOML: &str = include_str!("templates/agent.toml");

const CONFIG_FILES: [(&str, &str); 3] = [
    ("providers.d/anthropic.toml.example", include_str!("templates/anthropic.toml.example")),
    ("providers.d/openai.toml.example", include_str!("templates/openai.toml.example")),
    (".env", include_str!("templates/env")),
];

const WORKSPACE_FILES: [(&str, &str); 7] = [
    ("SOUL.md", include_str!("templates/SOUL.md")),
    ("IDENTITY.md", include_str!("templates/IDENTITY.md")),
    ("AGENTS.md", include_str!("templates/AGENTS.md")),
    ("USER.md", include_str!("templates/USER.md")),
    ("TOOLS.md", include_str!("templates/TOOLS.md")),
    ("MEMORY.md", include_str!("templates/MEMORY.md")),
    ("HEARTBEAT.md", include_str!("templates/HEARTBEAT.md")),
];

/// Returns what a new home has in the workspace file `name`; nothing for a file it does not have.
pub fn template(name: &str) -> &'static str {
    WORKSPACE_FILES.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text)
}

/// A file of the new home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Where it stands.
    pub path: PathBuf,
    /// What happened to it.
    pub fate: Fate,
}

/// What [`init`] did about a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is new.
    Written,
    /// It was there and is as it was.
    Kept,
}

/// Makes the directories of `home` and writes the files that are missing, 0600; whatever stands at
/// a file's place, a dangling link too, is kept. `zone` becomes the agent's time zone. Returns all
/// files in the order they were looked at.
///
/// # Errors
/// [`Error`] with the path; files that were written before it stay, and a second call goes on.
pub fn init(home: &Home, zone: Tz) -> Result<Vec<Created>, Error> {
    home.create()?;
    let providers = home.providers_dir();
    DirBuilder::new().recursive(true).mode(0o700).create(&providers).map_err(write_error(&providers))?;
    let agent_toml = AGENT_TOML.replace("@ZONE@", zone.name());
    let mut created = vec![write_new(home.config_file().to_owned(), &agent_toml)?];
    for (name, text) in CONFIG_FILES {
        created.push(write_new(home.config_dir().join(name), text)?);
    }
    for (name, text) in WORKSPACE_FILES {
        created.push(write_new(home.workspace().join(name), text)?);
    }
    Ok(created)
}

/// O_EXCL: two `init` at once do not overwrite each other either. What a full disk cut short is
/// taken away again, lest the next call keep it.
fn write_new(path: PathBuf, text: &str) -> Result<Created, Error> {
    // The daemon makes what shapes the agent empty when it runs before `init`; nothing is lost with it.
    if std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() == 0) {
        std::fs::remove_file(&path).map_err(write_error(&path))?;
    }
    let mut file = match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(Created { path, fate: Fate::Kept }),
        Err(error) => return Err(write_error(&path)(error)),
    };
    if let Err(error) = file.write_all(text.as_bytes()).and_then(|()| file.sync_all()) {
        let _ = std::fs::remove_file(&path);
        return Err(write_error(&path)(error));
    }
    Ok(Created { path, fate: Fate::Written })
}

fn write_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Write { path, source }
}

//! The files that `agent-daemon init` writes: a working home, with every setting explained.

use std::borrow::Cow;
use std::fs::{DirBuilder, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use chrono_tz::Tz;

use super::Error;
use crate::config::{Home, VENDORS, Vendor, vendor};

const AGENT_TOML: &str = include_str!("agent.toml");

const ENV: &str = include_str!("env");

const WORKSPACE_FILES: [(&str, &str); 8] = [
    ("SOUL.md", include_str!("SOUL.md")),
    ("IDENTITY.md", include_str!("IDENTITY.md")),
    ("AGENTS.md", include_str!("AGENTS.md")),
    ("USER.md", include_str!("USER.md")),
    ("TOOLS.md", include_str!("TOOLS.md")),
    ("MEMORY.md", include_str!("MEMORY.md")),
    ("HEARTBEAT.md", include_str!("HEARTBEAT.md")),
    ("prompts/Memory.md", include_str!("prompts/Memory.md")),
];

/// Returns what a new home has in the workspace file `name`; nothing for a file it does not have.
pub fn template(name: &str) -> &'static str {
    WORKSPACE_FILES
        .iter()
        .find(|(known, _)| *known == name)
        .map_or("", |(_, text)| text)
}

/// Returns `text` with its lines blank that every new home has in the file `shown`, such as `workspace/MEMORY.md`: they are
/// nobody's words.
pub fn without_template<'a>(shown: &str, text: &'a str) -> Cow<'a, str> {
    let known = template(shown.strip_prefix("workspace/").unwrap_or(shown));
    if known.is_empty() {
        return Cow::Borrowed(text);
    }
    let known: Vec<&str> = known.lines().map(str::trim).collect();
    let lines = text.lines().map(|line| match known.contains(&line.trim()) {
        true => "",
        false => line,
    });
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

/// A file of the new home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Created {
    /// Where it is.
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

/// Makes the directories of `home` and writes the files that are missing, 0600; whatever is at
/// a file's place, a dangling link too, is kept. `zone` becomes the agent's time zone. Returns all
/// files in the order they were looked at.
///
/// # Errors
/// [`Error`] with the path; files that were written before it stay, and a second call continues.
pub fn init(home: &Home, zone: Tz) -> Result<Vec<Created>, Error> {
    home.create()?;
    let providers = home.providers_dir();
    make_dir(&providers)?;
    make_dir(&home.workspace().join("prompts"))?;
    let agent_toml = AGENT_TOML.replace("@ZONE@", zone.name());
    let mut created = vec![write_new(home.config_file().to_owned(), &agent_toml)?];
    for Vendor { name, text, .. } in VENDORS {
        created.push(write_new(
            providers.join(format!("{name}.toml.example")),
            text,
        )?);
    }
    created.push(write_new(home.env_file(), ENV)?);
    for (name, text) in WORKSPACE_FILES {
        created.push(write_new(home.workspace().join(name), text)?);
    }
    Ok(created)
}

/// Writes `providers.d/NAME.toml` as its example is, 0600, where there is an example and no such file;
/// returns it then.
///
/// # Errors
/// [`Error`] with the path.
pub fn add_provider(home: &Home, name: &str) -> Result<Option<PathBuf>, Error> {
    let Some(Vendor { name, text, .. }) = vendor(name) else {
        return Ok(None);
    };
    let dir = home.providers_dir();
    make_dir(&dir)?;
    let file = write_new(dir.join(format!("{name}.toml")), text)?;
    Ok((file.fate == Fate::Written).then_some(file.path))
}

fn make_dir(dir: &Path) -> Result<(), Error> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    made.map_err(write_error(dir))
}

/// O_EXCL: two `init` at once do not overwrite each other either. What a full disk cut short is
/// taken away again, lest the next call keep it.
fn write_new(path: PathBuf, text: &str) -> Result<Created, Error> {
    // The daemon makes what shapes the agent empty when it runs before `init`; nothing is lost with it.
    if std::fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_file() && meta.len() == 0) {
        std::fs::remove_file(&path).map_err(write_error(&path))?;
    }
    let mut new_file = OpenOptions::new();
    new_file.write(true).create_new(true).mode(0o600);
    let fate = match new_file.open(&path) {
        Ok(mut file) => {
            let written = file.write_all(text.as_bytes());
            written
                .and_then(|()| file.sync_all())
                .inspect_err(|_| drop(std::fs::remove_file(&path)))
                .map_err(write_error(&path))?;
            Fate::Written
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Fate::Kept,
        Err(error) => return Err(write_error(&path)(error)),
    };
    Ok(Created { path, fate })
}

fn write_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Write { path, source }
}

#[cfg(test)]
mod tests;

//! Keys and tokens: systemd credential, environment, `.env`; the first found wins.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::dotenv;
use super::environment::Environment;
use super::error::Error;
use super::home::Home;
use super::key_names::edits;
use super::validate::is_variable;
use crate::secret::Secret;
use crate::sys::atomic;

/// Letters that a misspelt name may differ in.
const MOST_EDITS: usize = 2;

/// The places secrets are looked up in. `.env` has been read; credentials are read when asked for.
#[derive(Debug, Clone)]
pub struct Secrets {
    credentials: Option<PathBuf>,
    env: Environment,
    /// The entries of `.env`; `None` for an empty one.
    file: BTreeMap<String, Option<Secret>>,
    path: PathBuf,
}

/// Where a secret came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SecretOrigin {
    /// A file in systemd's credentials directory.
    Credential,
    /// A variable.
    Environment,
    /// `.env`.
    EnvFile,
}

impl std::fmt::Display for SecretOrigin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Credential => "systemd credential",
            Self::Environment => "environment",
            Self::EnvFile => ".env",
        })
    }
}

impl Secrets {
    /// Reads `.env`, if there is one.
    ///
    /// # Errors
    /// [`Error::EnvFileMode`] when others can read it, [`Error::EnvFileLine`] for a line that is no
    /// entry, [`Error::Io`] when it cannot be read.
    pub fn open(home: &Home, env: &Environment) -> Result<Self, Error> {
        let path = home.env_file();
        let file = read_env_file(&path)?;
        Ok(Self {
            credentials: home.credentials_dir().map(Path::to_owned),
            env: env.clone(),
            file,
            path,
        })
    }

    /// As [`Secrets::open`], for finding out which keys there are: without `.env` where that cannot be used. Who
    /// needs a key says why it cannot.
    pub(super) fn lenient(home: &Home, env: &Environment) -> Self {
        let path = home.env_file();
        // A FIFO in its place must not hold us.
        let file = path.is_file().then(|| read_env_file(&path).ok());
        Self {
            credentials: home.credentials_dir().map(Path::to_owned),
            env: env.clone(),
            file: file.flatten().unwrap_or_default(),
            path,
        }
    }

    /// Returns the secret called `name`, without newlines at its end; `None` when it is nowhere or
    /// empty.
    ///
    /// # Errors
    /// [`Error::SecretName`] when `name` cannot be a variable, [`Error::Io`] for a credential that
    /// cannot be read, [`Error::SecretText`] for one that is not UTF-8.
    pub fn get(&self, name: &str) -> Result<Option<Secret>, Error> {
        Ok(self.find(name)?.map(|(secret, _)| secret))
    }

    /// Returns the value of the variable `name` for a program, which may be an empty one; `None` when it is nowhere.
    ///
    /// # Errors
    /// As [`Secrets::get`].
    pub fn variable(&self, name: &str) -> Result<Option<String>, Error> {
        let is_there = self.env.raw(name).is_some() || self.file.contains_key(name);
        let found = self.get(name)?;
        let value = found.map(|secret| secret.expose().to_owned());
        Ok(value.or_else(|| is_there.then(String::new)))
    }

    /// Returns the secret called `name` and where it was found.
    ///
    /// # Errors
    /// As [`Secrets::get`].
    pub fn find(&self, name: &str) -> Result<Option<(Secret, SecretOrigin)>, Error> {
        Ok(self.find_all(name)?.into_iter().next())
    }

    /// Returns every secret called `name`, the active one first.
    ///
    /// # Errors
    /// As [`Secrets::get`].
    pub fn find_all(&self, name: &str) -> Result<Vec<(Secret, SecretOrigin)>, Error> {
        if !is_variable(name) {
            return Err(Error::SecretName);
        }
        let mut found = Vec::new();
        found.extend(
            self.credential(name)?
                .map(|secret| (secret, SecretOrigin::Credential)),
        );
        if let Some(value) = self.env.get(name) {
            match value.into_string() {
                Ok(value) => {
                    found.extend(secret(&value).map(|secret| (secret, SecretOrigin::Environment)))
                }
                // What is not asked for any more does no harm.
                Err(_) if !found.is_empty() => {}
                Err(_) => {
                    return Err(Error::SecretText {
                        origin: format!("${name}"),
                    });
                }
            }
        }
        found.extend(
            self.file
                .get(name)
                .cloned()
                .flatten()
                .map(|secret| (secret, SecretOrigin::EnvFile)),
        );
        Ok(found)
    }

    /// Returns the entries of `.env` that look like settings. They have no effect there: settings
    /// come from agent.toml and the environment.
    pub fn misplaced_settings(&self) -> Vec<super::Warning> {
        let settings = self
            .file
            .keys()
            .filter(|name| name.starts_with("AGENT_") && name.contains("__"));
        let warning = |name: &String| super::Warning {
            origin: self.path.display().to_string(),
            key: name.clone(),
            message: "is a setting; .env holds secrets only: write it in agent.toml".to_owned(),
        };
        settings.map(warning).collect()
    }

    /// Returns the entries of `.env` that nothing reads and that are probably one of `names` misspelt: of those that are
    /// set nowhere.
    pub fn misspelt(&self, names: &[String]) -> Vec<super::Warning> {
        let is_missing = |name: &&String| matches!(self.find(name), Ok(None));
        let missing: BTreeSet<&String> = names.iter().filter(is_missing).collect();
        let unread = self.file.keys().filter(|name| !names.contains(name));
        let warning = |name: &String| {
            let far = |known: &str| edits(&name.to_uppercase(), &known.to_uppercase());
            let nearest = missing.iter().map(|known| (far(known), *known)).min()?;
            let shortened = missing.iter().filter(|known| is_shortened(name, known));
            let known = match shortened.collect::<Vec<_>>()[..] {
                _ if nearest.0 <= MOST_EDITS => nearest.1,
                [only] => *only,
                _ => return None,
            };
            Some(super::Warning {
                origin: self.path.display().to_string(),
                key: name.clone(),
                message: format!("is read by nothing; did you mean `{known}`, which is not set?"),
            })
        };
        unread.filter_map(warning).collect()
    }

    fn credential(&self, name: &str) -> Result<Option<Secret>, Error> {
        let Some(dir) = &self.credentials else {
            return Ok(None);
        };
        let path = dir.join(name);
        let bytes = atomic::read(&path);
        match bytes.map_err(|error| Error::io("read", &path)(error.source))? {
            Some(bytes) => {
                let value = String::from_utf8(bytes).map_err(|_| Error::SecretText {
                    origin: path.display().to_string(),
                })?;
                Ok(secret(&value))
            }
            None => Ok(None),
        }
    }
}

/// Returns whether `name` is `known` with words left out, as `TELEGRAM_TOKEN` is `TELEGRAM_BOT_TOKEN`.
fn is_shortened(name: &str, known: &str) -> bool {
    let mut left = known.split('_');
    let mut words = name.split('_');
    name.contains('_') && words.all(|word| left.any(|one| one.eq_ignore_ascii_case(word)))
}

/// Returns the text of `.env` with these secrets, each of which is read back as it is; all others stay.
///
/// # Errors
/// As [`Secrets::open`]; [`Error::EnvFileLine`] also for a name that is not a variable.
pub fn with_secrets(home: &Home, secrets: &[(String, String)]) -> Result<String, Error> {
    let path = home.env_file();
    let mut text = env_text(&path)?;
    for (name, value) in secrets {
        text = dotenv::with_entry(&text, name, value).map_err(|bad| bad_line(&path, bad))?;
    }
    Ok(text)
}

fn read_env_file(path: &Path) -> Result<BTreeMap<String, Option<Secret>>, Error> {
    let entries = dotenv::parse(&env_text(path)?).map_err(|bad| bad_line(path, bad))?;
    Ok(entries
        .into_iter()
        .map(|(name, value)| (name, secret(&value)))
        .collect())
}

fn bad_line(path: &Path, (line, problem): dotenv::BadLine) -> Error {
    Error::EnvFileLine {
        path: path.to_owned(),
        line,
        problem,
    }
}

/// Returns what is in `.env`; nothing when it is not there.
fn env_text(path: &Path) -> Result<String, Error> {
    let mut file = match atomic::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        file => file.map_err(Error::io("read", path))?,
    };
    let meta = file.metadata().map_err(Error::io("read", path))?;
    let mode = meta.permissions().mode() & 0o7777;
    if mode & 0o077 != 0 {
        return Err(Error::EnvFileMode {
            path: path.to_owned(),
            mode,
        });
    }
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut file, &mut bytes).map_err(Error::io("read", path))?;
    String::from_utf8(bytes).map_err(|error| {
        let before = error
            .as_bytes()
            .iter()
            .take(error.utf8_error().valid_up_to());
        let line = before.filter(|b| **b == b'\n').count() + 1;
        bad_line(path, (line, "it is not UTF-8"))
    })
}

/// Makes a secret of what is not empty.
fn secret(value: &str) -> Option<Secret> {
    let value = value.trim_end_matches(['\n', '\r']);
    (!value.is_empty()).then(|| Secret::new(value))
}

#[cfg(test)]
mod tests;

//! `auth.json`: read, and changed under its lock.

use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Map, Value, json};

use super::Error;
use super::oauth::{ClientSecret, Stands};
use super::refresh::Renewals;
use crate::clock;
use crate::secret::Secret;
use crate::sys;
use crate::sys::{atomic, lock};

/// The format we write.
const VERSION: u64 = 1;

/// What is stored for a provider.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Entry {
    pub key: Option<Secret>,
    /// Whether nobody could say that the key is good when it was stored.
    pub unverified: bool,
    pub tokens: Option<Tokens>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens {
    pub access: Option<Secret>,
    /// What renews it.
    pub refresh: Option<Secret>,
    /// When the access token ends, milliseconds since 1970 UTC; `None` = the issuer did not say.
    pub expires_at: Option<i64>,
    /// When it was got, milliseconds since 1970 UTC.
    pub obtained_at: Option<i64>,
    /// What it is good for, in the issuer's words.
    pub scope: Option<String>,
    /// Where it is renewed.
    pub token_url: String,
    /// For which application it was given.
    pub client_id: String,
    /// When a renewal began whose end was not written down.
    pub renewing_at: Option<i64>,
    /// Why the sign-in has ended, if it has.
    pub signed_out: Option<String>,
    /// The secret of the application, where it has one.
    pub client_secret: Option<ClientSecret>,
    /// For what the tokens are (RFC 8707); of tool servers.
    pub resource: Option<String>,
    /// The only address that they are shown to; of tool servers.
    pub server_url: Option<String>,
    /// When the person signed in, milliseconds since 1970 UTC; of tool servers.
    pub signed_in_at: Option<i64>,
}

/// Whether the file can be used.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum State {
    #[default]
    Absent,
    Good,
    /// It makes no sense: nothing is configured by it. The reason has none of its content.
    Corrupt {
        reason: String,
    },
}

/// What the file says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Contents {
    pub state: State,
    /// By the provider's name.
    pub entries: BTreeMap<String, Entry>,
}

/// `auth.json` in the hands of one process. It is read each time: it is small, a request to a model takes
/// far longer, and nothing can be stale.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    /// Whether it was said that the file makes no sense.
    warned: AtomicBool,
    pub(super) renewals: Renewals,
}

impl Store {
    /// Returns the store of the file at `path`, which need not exist.
    pub fn new(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            warned: AtomicBool::new(false),
            renewals: Renewals::default(),
        }
    }

    /// Returns the store with the renewals of another one, whose process is the same.
    pub(super) fn sharing(self, renewals: Renewals) -> Self {
        Self { renewals, ..self }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what it says now. Nothing is changed.
    ///
    /// # Errors
    /// [`Error::Mode`] when others can read it, [`Error::Newer`], [`Error::File`].
    pub fn read(&self) -> Result<Contents, Error> {
        let (contents, _) = meaning(self.text()?.as_deref(), &self.path)?;
        if let State::Corrupt { reason } = &contents.state
            && !self.warned.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(file = %self.path.display(), reason, "auth.json cannot be read; stored keys are ignored");
        }
        Ok(contents)
    }

    /// Returns the entry of a provider; an empty one when it has none.
    ///
    /// # Errors
    /// As [`Store::read`].
    pub fn entry(&self, provider: &str) -> Result<Entry, Error> {
        Ok(self.read()?.entries.remove(provider).unwrap_or_default())
    }

    /// Stores an API key in the place of whatever the provider had. Returns where a corrupt file was
    /// put.
    ///
    /// # Errors
    /// As [`Store::read`], and when the file cannot be locked or written.
    pub fn put_key(&self, provider: &str, key: &Secret) -> Result<Option<PathBuf>, Error> {
        self.change(|entries| {
            let fields = fields(entries, provider);
            fields.remove("oauth");
            let now = clock::rfc3339(clock::now_ms());
            fields.insert(
                "api_key".to_owned(),
                json!({"key": key.expose(), "obtained_at": now}),
            );
        })
    }

    /// Notes whether the stored key of `provider` was verified. A home that names no providers does not load one for a
    /// key that was not.
    ///
    /// # Errors
    /// As [`Store::put_key`].
    pub fn set_verified(&self, provider: &str, is_verified: bool) -> Result<(), Error> {
        self.change(|entries| {
            let entry = entries
                .get_mut(provider)
                .and_then(|entry| entry.get_mut("api_key"));
            if let Some(key) = entry.and_then(Value::as_object_mut) {
                match is_verified {
                    true => drop(key.shift_remove("unverified")),
                    false => drop(key.insert("unverified".to_owned(), json!(true))),
                }
            }
        })
        .map(drop)
    }

    /// Stores a sign-in; a stored key stays behind it. Returns where a corrupt file was put.
    ///
    /// # Errors
    /// As [`Store::put_key`].
    pub fn put_tokens(&self, provider: &str, tokens: &Tokens) -> Result<Option<PathBuf>, Error> {
        self.change(|entries| {
            fields(entries, provider).insert("oauth".to_owned(), Value::Object(Map::new()));
            write_tokens(fields(entries, provider), tokens);
        })
    }

    /// Changes the sign-in of a provider if it is still the one with this refresh token: a sign-in or
    /// sign-out that came between stands. Returns whether it was.
    ///
    /// # Errors
    /// As [`Store::put_key`].
    pub fn update(
        &self,
        provider: &str,
        refresh: &Secret,
        change: impl FnOnce(&mut Tokens),
    ) -> Result<bool, Error> {
        let mut same = false;
        self.change(|entries| {
            let tokens = entries
                .get(provider)
                .and_then(|entry| read_entry(entry).tokens);
            if let Some(mut tokens) =
                tokens.filter(|tokens| tokens.refresh.as_ref() == Some(refresh))
            {
                same = true;
                change(&mut tokens);
                write_tokens(fields(entries, provider), &tokens);
            }
        })?;
        Ok(same)
    }

    /// Forgets what is stored for a provider, or for all; returns for whom there was something.
    ///
    /// # Errors
    /// As [`Store::put_key`].
    pub fn remove(&self, provider: Option<&str>) -> Result<Vec<String>, Error> {
        let mut removed = Vec::new();
        self.change(|entries| {
            let names: Vec<String> = entries
                .keys()
                .filter(|name| provider.is_none_or(|one| one == *name))
                .cloned()
                .collect();
            names
                .iter()
                .for_each(|name| drop(entries.shift_remove(name)));
            removed = names;
        })?;
        Ok(removed)
    }

    /// Takes the right to renew the tokens of `provider`; `None` while somebody else has it.
    ///
    /// # Errors
    /// When the file system has no locks.
    pub fn renewing(&self, provider: &str) -> Result<Option<lock::Lock>, Error> {
        let path = self.path.with_file_name(format!("auth.{provider}.lock"));
        Ok(lock::try_lock(&path)?)
    }

    fn change(
        &self,
        change: impl FnOnce(&mut Map<String, Value>),
    ) -> Result<Option<PathBuf>, Error> {
        let _lock = lock::lock_beside(&self.path)?;
        let (contents, mut root) = meaning(self.text()?.as_deref(), &self.path)?;
        let before = root.clone();
        let entries = root
            .entry("providers")
            .or_insert_with(|| Value::Object(Map::new()));
        change(
            entries
                .as_object_mut()
                .expect("meaning() lets nothing else through"),
        );
        if root == before
            || (before.is_empty() && root["providers"].as_object().is_some_and(Map::is_empty))
        {
            return Ok(None);
        }
        root.insert("version".to_owned(), json!(VERSION));
        let aside = match contents.state {
            State::Corrupt { .. } => Some(sys::quarantine_file(&self.path)?),
            State::Absent | State::Good => None,
        };
        atomic::write_json(&self.path, &root, atomic::Durability::Full)?;
        Ok(aside)
    }

    /// Reads the file as it is, through one handle, so that the mode is the mode of what was read.
    fn text(&self) -> Result<Option<Vec<u8>>, Error> {
        let failed = |error| Error::File(sys::Error::at("read", &self.path)(error));
        // A FIFO in its place must not hold us.
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK)
            .open(&self.path);
        let mut file = match opened {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(failed)?,
        };
        let meta = file.metadata().map_err(failed)?;
        if !meta.is_file() {
            return Err(failed(std::io::Error::new(
                std::io::ErrorKind::AlreadyExists,
                "it is no file",
            )));
        }
        let mode = meta.permissions().mode() & 0o7777;
        if mode & 0o077 != 0 {
            return Err(Error::Mode {
                path: self.path.clone(),
                mode,
            });
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(failed)?;
        Ok(Some(bytes))
    }
}

/// Returns what a file means, and its object to change: an empty one where there is none to keep.
fn meaning(text: Option<&[u8]>, path: &Path) -> Result<(Contents, Map<String, Value>), Error> {
    let Some(text) = text else {
        return Ok((Contents::default(), Map::new()));
    };
    let corrupt = |reason: String| {
        let contents = Contents {
            state: State::Corrupt { reason },
            ..Contents::default()
        };
        Ok((contents, Map::new()))
    };
    let root = match serde_json::from_slice(text) {
        Ok(Value::Object(root)) => root,
        Ok(_) => return corrupt("it is no JSON object".to_owned()),
        // The parser's own words may hold a piece of a key.
        Err(error) => {
            return corrupt(format!(
                "it is no JSON from line {}, column {} on",
                error.line(),
                error.column()
            ));
        }
    };
    match root.get("version").map_or(Some(VERSION), Value::as_u64) {
        Some(VERSION) => {}
        Some(version) if version > VERSION => {
            return Err(Error::Newer {
                path: path.to_owned(),
                version,
            });
        }
        Some(_) | None => return corrupt("its version is not 1".to_owned()),
    }
    let entries = match root.get("providers") {
        None => BTreeMap::new(),
        Some(Value::Object(entries)) => entries
            .iter()
            .map(|(name, entry)| (name.clone(), read_entry(entry)))
            .collect(),
        Some(_) => return corrupt("`providers` is no object".to_owned()),
    };
    Ok((
        Contents {
            state: State::Good,
            entries,
        },
        root,
    ))
}

fn read_entry(entry: &Value) -> Entry {
    let oauth = &entry["oauth"];
    let time = |key: &str| clock::parse_rfc3339(oauth[key].as_str()?);
    let word = |key: &str| oauth[key].as_str().map(str::to_owned);
    let tokens = oauth.is_object().then(|| Tokens {
        access: secret(&oauth["access"]),
        refresh: secret(&oauth["refresh"]),
        expires_at: time("expires_at"),
        obtained_at: time("obtained_at"),
        scope: word("scope"),
        token_url: word("token_url").unwrap_or_default(),
        client_id: word("client_id").unwrap_or_default(),
        renewing_at: time("renewing_at"),
        signed_out: word("signed_out"),
        client_secret: secret(&oauth["client_secret"]).map(|secret| ClientSecret {
            secret,
            // Sign-ins of before say nothing of it.
            stands: word("client_auth")
                .and_then(|method| Stands::named(&method))
                .unwrap_or(Stands::InForm),
        }),
        resource: word("resource"),
        server_url: word("server_url"),
        signed_in_at: time("signed_in_at"),
    });
    Entry {
        key: secret(&entry["api_key"]["key"]),
        unverified: entry["api_key"]["unverified"] == true,
        tokens,
    }
}

/// Makes a secret of words that are not empty.
fn secret(value: &Value) -> Option<Secret> {
    value
        .as_str()
        .filter(|text| !text.is_empty())
        .map(Secret::new)
}

/// Returns the fields of an entry; what was none is replaced.
fn fields<'a>(entries: &'a mut Map<String, Value>, provider: &str) -> &'a mut Map<String, Value> {
    let entry = entries
        .entry(provider)
        .or_insert_with(|| Value::Object(Map::new()));
    if !entry.is_object() {
        *entry = Value::Object(Map::new());
    }
    entry.as_object_mut().expect("it is one now")
}

/// Writes what we know of a sign-in over what is there; the rest stays.
fn write_tokens(entry: &mut Map<String, Value>, tokens: &Tokens) {
    let Tokens {
        access,
        refresh,
        expires_at,
        obtained_at,
        scope,
        token_url,
        client_id,
        renewing_at,
        signed_out,
        client_secret,
        resource,
        server_url,
        signed_in_at,
    } = tokens;
    let secret = |secret: &Option<Secret>| secret.as_ref().map(|secret| secret.expose().to_owned());
    let time = |time: &Option<i64>| time.map(clock::rfc3339);
    let known = [
        ("access", secret(access)),
        ("refresh", secret(refresh)),
        ("expires_at", time(expires_at)),
        ("obtained_at", time(obtained_at)),
        ("scope", scope.clone()),
        ("token_url", Some(token_url.clone())),
        ("client_id", Some(client_id.clone())),
        ("renewing_at", time(renewing_at)),
        ("signed_out", signed_out.clone()),
        (
            "client_secret",
            client_secret
                .as_ref()
                .map(|client| client.secret.expose().to_owned()),
        ),
        (
            "client_auth",
            client_secret
                .as_ref()
                .map(|client| client.stands.name().to_owned()),
        ),
        ("resource", resource.clone()),
        ("server_url", server_url.clone()),
        ("signed_in_at", time(signed_in_at)),
    ];
    let oauth = fields(entry, "oauth");
    for (key, value) in known {
        match value {
            Some(value) => drop(oauth.insert(key.to_owned(), Value::String(value))),
            None => drop(oauth.shift_remove(key)),
        }
    }
}

#[cfg(test)]
mod tests;

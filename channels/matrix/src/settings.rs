//! `matrix.toml`: the account, its homeserver, and whose invitations are accepted.

use std::path::{Path, PathBuf};

use agent_channel::Password;
use matrix_sdk::ruma::{OwnedUserId, UserId};
use serde::Deserialize;

use crate::error::Error;

/// What is read of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    user: String,
    homeserver: Option<String>,
    password: Option<String>,
    password_file: Option<PathBuf>,
    device_name: Option<String>,
    #[serde(default)]
    invite_from: Vec<String>,
    #[serde(default)]
    require_verified: bool,
    #[serde(default)]
    reactions: bool,
    #[serde(default)]
    previews: bool,
    max_file_mb: Option<u64>,
    ca_file: Option<PathBuf>,
}

/// The settings.
#[derive(Debug)]
pub struct Settings {
    /// The agent's account.
    pub user: OwnedUserId,
    /// Where its homeserver is; `None`: the domain of the account says.
    pub homeserver: Option<String>,
    /// The password; `None`: it is asked for.
    pub password: Option<Password>,
    /// What other people's clients call this device.
    pub device_name: String,
    /// Whose invitations into rooms of several are followed: ids, or `*:example.org`.
    invite_from: Vec<String>,
    /// Whether encrypted words only count when the sender's device was verified.
    pub require_verified: bool,
    /// Whether the agent is told of reactions to what it said.
    pub reactions: bool,
    /// Whether a direct room sees what is written so far.
    pub previews: bool,
    /// The largest file that is taken, bytes.
    pub max_file: u64,
    /// Certificates of authorities of one's own.
    pub ca_file: Option<PathBuf>,
}

impl Settings {
    /// Reads the file.
    ///
    /// # Errors
    /// What is wrong in it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bad = |why: String| Error::Settings(path.to_owned(), why);
        let text = agent_channel::settings_text(path).map_err(|error| bad(error.to_string()))?;
        Self::parse(&text, std::env::var("AGENT_MATRIX_PASSWORD").ok()).map_err(bad)
    }

    fn parse(text: &str, from_environment: Option<String>) -> Result<Self, String> {
        let written: Written = toml::from_str(text).map_err(|error| error.to_string())?;
        let user = UserId::parse(&written.user)
            .map_err(|error| format!("user: {error}; expected @NAME:SERVER"))?;
        let password = agent_channel::password(
            written.password,
            written.password_file,
            from_environment,
            first_line,
        )?;
        let patterns = written.invite_from.into_iter().map(as_pattern);
        Ok(Self {
            user,
            homeserver: written.homeserver.map(as_homeserver).transpose()?,
            password,
            device_name: written.device_name.unwrap_or_else(|| "agent".to_owned()),
            invite_from: patterns.collect::<Result<_, _>>()?,
            require_verified: written.require_verified,
            reactions: written.reactions,
            previews: written.previews,
            max_file: written.max_file_mb.unwrap_or(20).clamp(1, 20) * 1_000_000,
            ca_file: written.ca_file,
        })
    }

    /// Returns true when invitations of `who` are followed into rooms of several.
    pub fn follows(&self, who: &UserId) -> bool {
        self.invite_from.iter().any(|pattern| {
            pattern == who.as_str()
                || pattern
                    .strip_prefix("*:")
                    .is_some_and(|server| server == who.server_name().as_str())
        })
    }
}

/// Reads a secret that stands alone in a file.
///
/// # Errors
/// When it does not.
pub fn secret_of(path: &Path) -> Result<Password, Error> {
    let read = first_line(path).map(Password::new);
    read.map_err(|why| Error::Settings(path.to_owned(), why))
}

fn as_pattern(written: String) -> Result<String, String> {
    let is_server = written
        .strip_prefix("*:")
        .is_some_and(|server| !server.is_empty());
    if is_server || UserId::parse(&written).is_ok() {
        return Ok(written);
    }
    Err(format!(
        "invite_from: {written:?}: expected @NAME:SERVER or *:SERVER"
    ))
}

/// Whoever reads along has the token: no plain HTTP but on this machine.
fn as_homeserver(written: String) -> Result<String, String> {
    let expected = || format!("homeserver: {written:?}: expected https://HOST[:PORT]");
    let url = matrix_sdk::reqwest::Url::parse(&written).map_err(|_| expected())?;
    let host = url.host_str().ok_or_else(expected)?;
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let is_here = host == "localhost"
        || bare
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback());
    let has_more = !url.username().is_empty() || url.password().is_some() || url.query().is_some();
    match url.scheme() {
        _ if has_more => Err(expected()),
        "https" => Ok(written),
        "http" if is_here => Ok(written),
        "http" => Err(format!(
            "homeserver: {written:?} is without encryption, and only for this machine"
        )),
        _ => Err(expected()),
    }
}

fn first_line(path: &Path) -> Result<String, String> {
    let text =
        std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let line = text.lines().next().unwrap_or_default().to_owned();
    if line.is_empty() {
        return Err(format!("{}: the first line is empty", path.display()));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_never_goes_through_the_open_and_a_password_is_never_shown() {
        let read =
            |more: &str| Settings::parse(&format!("user = \"@agent:example.org\"\n{more}"), None);
        for right in [
            "homeserver = \"https://m.example.org\"",
            "homeserver = \"https://m.example.org:8448/\"",
            "homeserver = \"http://127.0.0.1:8008\"",
            "homeserver = \"http://[::1]:8008\"",
            "homeserver = \"http://localhost\"",
            "invite_from = [\"@ada:example.org\", \"*:example.org\"]",
        ] {
            assert!(read(right).is_ok(), "{right}: {:?}", read(right));
        }
        for wrong in [
            "homeserver = \"http://m.example.org\"",
            "homeserver = \"http://127.0.0.1.evil.com\"",
            "homeserver = \"https://ada:pw@m.example.org\"",
            "homeserver = \"ftp://m.example.org\"",
            "homeserver = \"m.example.org\"",
            "invite_from = [\"ada\"]",
            "invite_from = [\"*\"]",
            "later = 1",
            "password = \"a\"\npassword_file = \"b\"",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(Settings::parse("user = \"agent\"", None).is_err());
        let secret = read("password = \"hunter2\"").expect("settings");
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert_eq!(
            secret
                .password
                .map(|one| one.expose().to_owned())
                .as_deref(),
            Some("hunter2")
        );
    }

    #[test]
    fn invitations_are_followed_of_whom_the_settings_name() {
        let settings = Settings::parse(
            "user = \"@agent:example.org\"\ninvite_from = [\"@ada:a.org\", \"*:b.org\"]",
            None,
        );
        let settings = settings.expect("settings");
        let follows = |id: &str| settings.follows(&UserId::parse(id).expect("an id"));
        assert!(follows("@ada:a.org") && follows("@eve:b.org"));
        assert!(
            !follows("@eve:a.org")
                && !follows("@ada:evil-b.org")
                && !follows("@ada:b.org.evil.com")
        );
    }
}

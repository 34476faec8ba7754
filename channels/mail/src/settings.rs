//! `mail.toml`: the mailbox, its servers, and the server that verifies senders.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::error::Error;
use crate::sign_in::{SignIn, Source};

/// What is read of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    address: String,
    #[serde(default)]
    aliases: Vec<String>,
    name: Option<String>,
    imap: String,
    smtp: String,
    user: Option<String>,
    password: Option<String>,
    password_file: Option<PathBuf>,
    access_token_command: Option<String>,
    access_token_file: Option<PathBuf>,
    authserv_id: Option<String>,
    mailbox: Option<String>,
    move_to: Option<String>,
    poll_secs: Option<u64>,
    max_size_mb: Option<u32>,
    answers_a_thread_and_hour: Option<usize>,
    answers_an_hour: Option<usize>,
    ca_file: Option<PathBuf>,
}

/// The settings.
#[derive(Debug)]
pub struct Settings {
    /// The agent's address.
    pub address: String,
    /// Others that are the agent, too.
    pub aliases: Vec<String>,
    /// The name beside the address.
    pub name: String,
    /// The server that has the mailbox.
    pub imap: Server,
    /// The server that sends.
    pub smtp: Server,
    /// The name at both.
    pub user: String,
    /// How it signs in at both.
    pub sign_in: SignIn,
    /// The receiving server's name in Authentication-Results.
    pub authserv_id: Option<String>,
    /// Where mail arrives.
    pub mailbox: String,
    /// Where it goes when it was taken; `None`: it stays, as read.
    pub move_to: Option<String>,
    /// Between looks at a server without IDLE.
    pub poll: std::time::Duration,
    /// The largest mail that is taken whole, bytes.
    pub max_size: u32,
    /// The most answers in one thread in an hour.
    pub thread_limit: usize,
    /// The most answers in an hour.
    pub limit: usize,
    /// Certificates of authorities of one's own.
    pub ca_file: Option<PathBuf>,
}

/// How a connection is kept from others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// TLS from the first byte.
    Tls,
    /// TLS after a word in the clear, or nothing.
    StartTls,
    /// None; only on this machine.
    Plain,
}

/// A server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How it is reached.
    pub security: Security,
}

impl Server {
    /// Reads `imaps://HOST[:PORT]`; `ports` are the usual ones with TLS, STARTTLS and nothing.
    fn parse(written: &str, protocol: &str, ports: [u16; 3]) -> Result<Self, String> {
        let expected =
            || format!("expected {protocol}s://HOST[:PORT] or {protocol}+starttls://HOST[:PORT]");
        let (scheme, place) = written.trim().split_once("://").ok_or_else(expected)?;
        let security = match scheme.strip_prefix(protocol) {
            Some("s") => Security::Tls,
            Some("+starttls") => Security::StartTls,
            Some("") => Security::Plain,
            _ => return Err(expected()),
        };
        let place = place.trim_end_matches('/');
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if !host.ends_with(':') && !port.ends_with(']') => {
                (host, Some(port.parse().map_err(|_| expected())?))
            }
            _ => (place, None),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains(['/', '@']) {
            return Err(expected());
        }
        let is_here = host == "localhost"
            || host
                .parse::<std::net::IpAddr>()
                .is_ok_and(|ip| ip.is_loopback());
        if security == Security::Plain && !is_here {
            return Err(format!(
                "{protocol}:// is without encryption, and only for this machine; {}",
                expected()
            ));
        }
        let usual = ports[security as usize];
        Ok(Self {
            host: host.to_owned(),
            port: port.unwrap_or(usual),
            security,
        })
    }
}

impl Settings {
    /// Reads the file.
    ///
    /// # Errors
    /// What is wrong in it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bad = |why: String| Error::Settings(path.to_owned(), why);
        let text = agent_channel::settings_text(path).map_err(|error| bad(error.to_string()))?;
        Self::parse(&text, std::env::var("AGENT_MAIL_PASSWORD").ok()).map_err(bad)
    }

    fn parse(text: &str, from_environment: Option<String>) -> Result<Self, String> {
        let written: Written = toml::from_str(text).map_err(|error| error.to_string())?;
        let address = as_address(&written.address)?;
        let aliases = written.aliases.iter().map(|alias| as_address(alias));
        let has_password = written.password.is_some() || written.password_file.is_some();
        let sign_in = match (written.access_token_command, written.access_token_file) {
            (None, None) => SignIn::Password(agent_channel::password(
                written.password,
                written.password_file,
                from_environment,
                first_line,
            )?),
            (Some(command), None) if !has_password => SignIn::Token(Source::Command(command)),
            (None, Some(file)) if !has_password => SignIn::Token(Source::File(file)),
            _ => return Err("password, password_file, access_token_command and access_token_file exclude each other".to_owned()),
        };
        Ok(Self {
            user: written.user.unwrap_or_else(|| address.clone()),
            aliases: aliases.collect::<Result<_, _>>()?,
            address,
            name: written.name.unwrap_or_else(|| "Agent".to_owned()),
            imap: Server::parse(&written.imap, "imap", [993, 143, 143])
                .map_err(|why| format!("imap: {why}"))?,
            smtp: Server::parse(&written.smtp, "smtp", [465, 587, 25])
                .map_err(|why| format!("smtp: {why}"))?,
            sign_in,
            authserv_id: written
                .authserv_id
                .map(|id| id.trim().to_ascii_lowercase())
                .filter(|id| !id.is_empty()),
            mailbox: written.mailbox.unwrap_or_else(|| "INBOX".to_owned()),
            move_to: written.move_to,
            poll: std::time::Duration::from_secs(written.poll_secs.unwrap_or(60).max(1)),
            max_size: written.max_size_mb.unwrap_or(50).clamp(1, 500) << 20,
            thread_limit: written.answers_a_thread_and_hour.unwrap_or(20),
            limit: written.answers_an_hour.unwrap_or(100),
            ca_file: written.ca_file,
        })
    }

    /// Returns true for an address of the agent's own.
    pub fn is_own(&self, address: &str) -> bool {
        address == self.address || self.aliases.iter().any(|alias| alias == address)
    }

    /// Returns the domain of the agent's address.
    pub fn domain(&self) -> &str {
        self.address.rsplit('@').next().unwrap_or_default()
    }
}

fn as_address(written: &str) -> Result<String, String> {
    let parsed: Result<lettre::Address, _> = written.trim().parse();
    parsed
        .map(|address| address.to_string().to_lowercase())
        .map_err(|_| format!("{written:?} is no address of mail"))
}

fn first_line(path: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("the password in {}: {error}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Settings that say what they must.
    pub fn least() -> Settings {
        let text = format!("{LEAST}authserv_id = \"mx.home.net\"");
        Settings::parse(&text, None).expect("settings")
    }

    const LEAST: &str = "address = \"Agent@Example.org\"\nimap = \"imaps://imap.example.org\"\nsmtp = \"smtp+starttls://smtp.example.org\"\n";

    #[test]
    fn three_lines_are_enough_and_what_is_not_known_is_refused() {
        let read = Settings::parse(LEAST, Some("pw".to_owned())).expect("settings");
        assert_eq!(
            (read.address.as_str(), read.user.as_str(), read.domain()),
            ("agent@example.org", "agent@example.org", "example.org")
        );
        assert_eq!((read.imap.port, read.smtp.port), (993, 587));
        assert!(
            matches!(&read.sign_in, SignIn::Password(Some(password)) if password.expose() == "pw")
        );
        let unknown = Settings::parse(&format!("{LEAST}authserv = \"x\""), None);
        assert!(unknown.is_err_and(|why| why.contains("authserv")));
        let shown = format!(
            "{:?}",
            Settings::parse(&format!("{LEAST}password = \"geheim\""), None)
        );
        assert!(!shown.contains("geheim"), "{shown}");
        let with_token = |more: &str| {
            let text = format!("{LEAST}access_token_command = \"oama access me\"\n{more}");
            // What the environment of the unit has besides does not count.
            Settings::parse(&text, Some("pw".to_owned()))
        };
        let command = Source::Command("oama access me".to_owned());
        assert!(
            matches!(with_token("").expect("settings").sign_in, SignIn::Token(source) if source == command)
        );
        for more in [
            "password = \"x\"",
            "password_file = \"x\"",
            "access_token_file = \"x\"",
        ] {
            assert!(
                with_token(more).is_err_and(|why| why.contains("exclude")),
                "{more}"
            );
        }
    }

    #[test]
    fn nothing_goes_over_a_network_in_the_clear() {
        let read = |written: &str| Server::parse(written, "imap", [993, 143, 143]);
        for (written, port, security) in [
            ("imaps://mail.example.org", 993, Security::Tls),
            ("imaps://mail.example.org:9930/", 9930, Security::Tls),
            ("imap+starttls://mail.example.org", 143, Security::StartTls),
            ("imap://127.0.0.1:1143", 1143, Security::Plain),
            ("imap://[::1]:1143", 1143, Security::Plain),
            ("imap://localhost", 143, Security::Plain),
        ] {
            let server = read(written).expect(written);
            assert_eq!(
                (server.port, server.security),
                (port, security),
                "{written}"
            );
        }
        for wrong in [
            "imap://mail.example.org",
            "imap://10.0.0.1",
            "smtps://mail.example.org",
            "mail.example.org",
            "imaps://",
            "imaps://ada:pw@mail.example.org",
            "imaps://mail.example.org:x",
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}

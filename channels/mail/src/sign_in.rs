//! Signing in with a password, or with an access token that another program renews. Gmail and Outlook no longer accept
//! passwords from programs. A token is valid for an hour, so it is read at each sign-in and not stored.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use agent_channel::Password;
use async_imap::Authenticator;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::error::Error;

/// A command may ask a server for a new token.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest token, bytes: those of Outlook have about 2,000.
const MAX_TOKEN: u64 = 16 << 10;

/// How the agent signs in.
#[derive(Debug)]
pub enum SignIn {
    /// With a password; `None` where the server asks for none.
    Password(Option<Password>),
    /// With an access token.
    Token(Source),
}

/// Where the access token comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// What a command of the shell prints.
    Command(String),
    /// What stands in a file.
    File(PathBuf),
}

impl Source {
    /// Returns the token of now.
    ///
    /// # Errors
    /// When there is none. What the command printed is not told.
    pub async fn token(&self) -> Result<Password, Error> {
        let (what, read) = match self {
            Self::Command(command) => ("access_token_command", run(command).await),
            Self::File(path) => {
                let read = std::fs::read(path);
                (
                    "access_token_file",
                    read.map_err(|error| format!("{}: {error}", path.display())),
                )
            }
        };
        let token = read.and_then(|bytes| parse(&bytes));
        token.map_err(|why| Error::SignIn(format!("{what}: {why}")))
    }
}

/// Runs a command and returns what it printed.
async fn run(command: &str) -> Result<Vec<u8>, String> {
    let child = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // It may say what it sends and gets.
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    let mut child = child.map_err(|error| error.to_string())?;
    let printed = child.stdout.take();
    let work = async {
        let mut bytes = Vec::new();
        if let Some(printed) = printed {
            let mut printed = printed.take(MAX_TOKEN + 1);
            printed
                .read_to_end(&mut bytes)
                .await
                .map_err(|error| error.to_string())?;
        }
        if bytes.len() as u64 > MAX_TOKEN {
            return Err("it printed more than a token".to_owned());
        }
        let ended = child.wait().await.map_err(|error| error.to_string())?;
        if ended.success() {
            Ok(bytes)
        } else {
            Err(format!("it failed ({ended})"))
        }
    };
    let done = tokio::time::timeout(PATIENCE, work).await;
    done.unwrap_or_else(|_| Err(format!("it did not end within {} s", PATIENCE.as_secs())))
}

/// Returns the token: the first line, and nothing that could be read as more than it.
fn parse(bytes: &[u8]) -> Result<Password, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "that is no token".to_owned())?;
    let token = text.lines().next().unwrap_or_default().trim();
    let is_token = |byte: u8| byte.is_ascii_graphic();
    if token.is_empty() || !token.bytes().all(is_token) {
        return Err("the first line is no token".to_owned());
    }
    Ok(Password::new(token.to_owned()))
}

/// The answer of XOAUTH2 (developers.google.com/gmail/imap/xoauth2-protocol): it is given once, and what a server says
/// against it is answered by an empty line.
pub struct Xoauth2(Option<String>);

impl Xoauth2 {
    /// Returns the answer for `user`.
    pub fn new(user: &str, token: &Password) -> Self {
        Self(Some(format!(
            "user={user}\x01auth=Bearer {}\x01\x01",
            token.expose()
        )))
    }
}

impl Authenticator for &mut Xoauth2 {
    type Response = String;

    fn process(&mut self, _challenge: &[u8]) -> String {
        self.0.take().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(command: &str) -> Source {
        Source::Command(command.to_owned())
    }

    #[tokio::test]
    async fn a_token_is_what_a_command_prints_and_nothing_else_is_told() {
        let token = command("echo ya29.a0-x_Y/z+1==; echo more").token().await;
        assert_eq!(token.expect("a token").expose(), "ya29.a0-x_Y/z+1==");
        for wrong in [
            "echo geheim; false",
            "echo geheim >&2",
            "printf 'geheim\\001auth=x'",
            "echo geheim geheim",
            "yes geheim",
            "exec no-such-program-geheim",
        ] {
            let why = command(wrong).token().await.expect_err(wrong).to_string();
            assert!(
                why.starts_with("access_token_command: ") && !why.contains("geheim"),
                "{why}"
            );
        }
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("token");
        let missing = Source::File(path.clone()).token().await;
        assert!(missing.is_err_and(|why| why.to_string().contains("access_token_file")));
        #[expect(clippy::disallowed_methods, reason = "a test writes plainly")]
        std::fs::write(&path, "abc\n").expect("write");
        let read = Source::File(path).token().await.expect("a token");
        assert_eq!(read.expose(), "abc");
    }

    #[test]
    fn the_answer_is_given_once() {
        let mut answer = Xoauth2::new("ada@example.org", &Password::new("t".to_owned()));
        let mut asked = &mut answer;
        assert_eq!(
            asked.process(b""),
            "user=ada@example.org\x01auth=Bearer t\x01\x01"
        );
        assert_eq!(asked.process(b"{\"status\":\"401\"}"), "");
    }
}

//! The password of a channel's account, wherever it is written.

use std::fmt;
use std::path::{Path, PathBuf};

/// A password, which is never shown.
pub struct Password(String);

impl Password {
    /// Keeps it.
    pub fn new(password: String) -> Self {
        Self(password)
    }

    /// Returns it, for the server.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("…")
    }
}

/// Returns the password: as it is written in the settings, in the file that they name, in the environment, or in a
/// credential of the unit (`LoadCredential=password:FILE`); `None` where there is none. `read` reads a file of it.
///
/// # Errors
/// When it is written twice, or its file cannot be read.
pub fn password(
    written: Option<String>,
    file: Option<PathBuf>,
    from_environment: Option<String>,
    read: impl Fn(&Path) -> Result<String, String>,
) -> Result<Option<Password>, String> {
    let password = match (written, file, from_environment) {
        (Some(_), Some(_), _) => {
            return Err("password and password_file exclude each other".to_owned());
        }
        (Some(password), None, _) => Some(password),
        (None, Some(file), _) => Some(read(&file)?),
        (None, None, Some(password)) => Some(password),
        (None, None, None) => match std::env::var_os("CREDENTIALS_DIRECTORY") {
            Some(dir) if Path::new(&dir).join("password").is_file() => {
                Some(read(&Path::new(&dir).join("password"))?)
            }
            _ => None,
        },
    };
    Ok(password.map(Password))
}

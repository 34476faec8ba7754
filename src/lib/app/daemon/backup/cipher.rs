//! Backups that age(1) or gpg(1) encrypts: `[backup] age` or `gpg` names who can read them.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use crate::app::cli::{Exit, Failure};
use crate::config;
use crate::sys;

/// The first bytes of a file of age, binary or as text.
const AGE: [&[u8]; 2] = [
    b"age-encryption.org/v1",
    b"-----BEGIN AGE ENCRYPTED FILE-----",
];
const GPG_TEXT: &[u8] = b"-----BEGIN PGP MESSAGE-----";

/// How lines begin that gpg writes for programs.
const GPG_STATUS: &str = "[GNUPG:]";

/// What of the environment they need: where keys, the terminal and the dialog for a passphrase are.
const KEPT: [&str; 16] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "GNUPGHOME",
    "GPG_TTY",
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LOGNAME",
    "PATH",
    "TERM",
    "TMPDIR",
    "USER",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
];

/// The program that encrypts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Program {
    Age,
    Gpg,
}

impl Program {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Age => "age",
            Self::Gpg => "gpg",
        }
    }

    /// Returns the program that encrypted the file; `None` when it is not encrypted.
    pub(super) fn of_file(path: &Path) -> Result<Option<Self>, Failure> {
        let fail = sys::Error::at("read", path);
        let mut start = Vec::new();
        let read = File::open(path).and_then(|file| file.take(64).read_to_end(&mut start));
        read.map_err(fail)?;
        Ok(Self::of_bytes(&start))
    }

    fn of_bytes(start: &[u8]) -> Option<Self> {
        if AGE.iter().any(|magic| start.starts_with(magic)) {
            return Some(Self::Age);
        }
        // A packet of OpenPGP (RFC 9580, 4.2) begins with bit 7; a tar with a name in ASCII.
        let is_packet = start.first().is_some_and(|byte| byte & 0x80 != 0);
        (is_packet || start.starts_with(GPG_TEXT)).then_some(Self::Gpg)
    }

    fn start(self, arguments: &[&OsStr], stdin: Stdio, stdout: Stdio) -> Result<Child, Failure> {
        let env = config::Environment::of_process();
        let kept = KEPT.iter().filter_map(|name| Some((name, env.raw(name)?)));
        let mut command = Command::new(self.name());
        command
            .args(arguments)
            // gpg starts an agent that stays: no key of this process is to be in its environment.
            .env_clear()
            .envs(kept)
            .stdin(stdin)
            .stdout(stdout)
            .stderr(Stdio::piped());
        command.spawn().map_err(|error| {
            let name = self.name();
            let (exit, why) = match error.kind() {
                io::ErrorKind::NotFound => (Exit::Config, "it is not installed".to_owned()),
                _ => (Exit::Io, error.to_string()),
            };
            let hint = match self {
                Self::Age => "apt-get install age",
                Self::Gpg => "apt-get install gnupg",
            };
            Failure::new(exit, format!("{name} cannot be started: {why}")).hint(hint)
        })
    }

    /// Waits for the end of `child` and returns what it complained of; `None` when it did its work.
    fn complaint(self, mut child: Child) -> Result<Option<String>, Failure> {
        let mut said = String::new();
        if let Some(stderr) = &mut child.stderr {
            // What cannot be read is not quoted.
            let _ = stderr.read_to_string(&mut said);
        }
        let name = self.name();
        let status = child
            .wait()
            .map_err(|error| Failure::io(format!("{name} cannot be waited for: {error}")))?;
        if status.success() {
            return Ok(None);
        }
        if said.trim().is_empty() {
            said = status.to_string();
        }
        Ok(Some(said))
    }

    fn refused(self, exit: Exit, doing: &str, said: &str) -> Failure {
        let words: Vec<&str> = said
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with(GPG_STATUS))
            .collect();
        let (name, why) = (self.name(), words.join("; "));
        Failure::new(exit, format!("{name} cannot {doing} the backup: {why}"))
    }

    /// Returns whether no key or passphrase for the backup was given; else it is damaged. gpg's words are in the language of
    /// the user, its status lines are not (doc/DETAILS of GnuPG); age has no others.
    fn lacks_key(self, said: &str) -> bool {
        let says = |words: &str| said.contains(words);
        match self {
            Self::Age => {
                says("no identity matched") || says("error: reading \"") || says("passphrase")
            }
            Self::Gpg => says("[GNUPG:] ENC_TO ") && !says("[GNUPG:] DECRYPTION_KEY "),
        }
    }

    /// Decrypts `from` into `to`.
    pub(super) fn decrypt(
        self,
        from: File,
        to: File,
        identity: Option<&Path>,
    ) -> Result<(), Failure> {
        let mut arguments: Vec<&OsStr> = match self {
            Self::Age => vec!["--decrypt".as_ref()],
            Self::Gpg => ["--quiet", "--status-fd", "2", "--decrypt"]
                .map(OsStr::new)
                .to_vec(),
        };
        match (self, identity) {
            (Self::Age, Some(file)) => arguments.extend(["--identity".as_ref(), file.as_os_str()]),
            (Self::Age, None) => {
                return Err(Failure::usage("the backup is encrypted by age")
                    .hint("agent-daemon restore --identity KEYFILE PATH"));
            }
            // It finds the key in its own keyring.
            (Self::Gpg, _) => {}
        }
        let child = self.start(&arguments, from.into(), to.into())?;
        match self.complaint(child)? {
            None => Ok(()),
            Some(said) if self.lacks_key(&said) => {
                Err(self.refused(Exit::Failed, "decrypt", &said))
            }
            Some(said) => Err(self
                .refused(Exit::Data, "decrypt", &said)
                .hint("nothing was written; the backup is damaged: use an older one")),
        }
    }
}

/// Who can read the backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Cipher {
    pub(super) program: Program,
    recipients: Vec<String>,
}

impl Cipher {
    /// Returns what the settings ask for; `None` is a plain backup.
    pub(super) fn of(settings: &config::Backup) -> Option<Self> {
        [(Program::Age, &settings.age), (Program::Gpg, &settings.gpg)]
            .into_iter()
            .find(|(_, recipients)| !recipients.is_empty())
            .map(|(program, recipients)| Self {
                program,
                recipients: recipients.clone(),
            })
    }

    /// Returns what follows `.tar` in the name of a file.
    pub(super) fn suffix(cipher: Option<&Self>) -> &'static str {
        match cipher.map(|cipher| cipher.program) {
            None => "",
            Some(Program::Age) => ".age",
            Some(Program::Gpg) => ".gpg",
        }
    }

    /// Returns what the program says of recipients for whom it does not encrypt; `None` also when it cannot be asked.
    pub(super) fn refused(&self) -> Option<String> {
        let tried = self.encrypt(Stdio::null(), |_| Ok(()));
        let refused = tried.err().filter(|failure| failure.exit == Exit::Failed)?;
        Some(refused.message)
    }

    /// Has `write` write into the program, whose output goes to `out`.
    pub(super) fn encrypt<T>(
        &self,
        out: Stdio,
        write: impl FnOnce(&mut dyn io::Write) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut arguments: Vec<&OsStr> = match self.program {
            Program::Age => vec!["--encrypt".as_ref()],
            // The owner named the key, so it is trusted.
            // And is in the keyring: one that is not is not looked for in the network.
            Program::Gpg => [
                "--batch",
                "--quiet",
                "--no-auto-key-locate",
                "--trust-model",
                "always",
                "--encrypt",
            ]
            .map(OsStr::new)
            .to_vec(),
        };
        for recipient in &self.recipients {
            arguments.extend(["--recipient".as_ref(), OsStr::new(recipient)]);
        }
        let mut child = self.program.start(&arguments, Stdio::piped(), out)?;
        let stdin = child.stdin.take();
        let written = match stdin {
            Some(stdin) => write(&mut io::BufWriter::new(stdin)),
            None => Err(Failure::bug("a pipe is missing")),
        };
        // A program that ended early says why; the broken pipe does not.
        match self.program.complaint(child)? {
            None => written,
            Some(said) => Err(self.program.refused(Exit::Failed, "encrypt", &said)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_encrypted_file_is_known_by_its_first_bytes() {
        for (start, program) in [
            (&b"age-encryption.org/v1\n-> X25519"[..], Some(Program::Age)),
            (b"-----BEGIN AGE ENCRYPTED FILE-----\n", Some(Program::Age)),
            (b"\x85\x02\x0c\x03", Some(Program::Gpg)),
            (b"\xc1\xc0\x4c\x03", Some(Program::Gpg)),
            (b"-----BEGIN PGP MESSAGE-----\n", Some(Program::Gpg)),
            (b"agent-backup/README.txt", None),
            (b"", None),
        ] {
            assert_eq!(Program::of_bytes(start), program, "{start:?}");
        }
    }

    #[test]
    fn without_recipients_nothing_is_encrypted() {
        assert_eq!(Cipher::of(&config::Backup::default()), None);
        let settings = config::Backup {
            gpg: vec!["ada@example.org".to_owned()],
            ..config::Backup::default()
        };
        let cipher = Cipher::of(&settings).expect("a recipient");
        assert_eq!(
            (cipher.program, Cipher::suffix(Some(&cipher))),
            (Program::Gpg, ".gpg")
        );
    }
}

//! [`Place`]: the place of a replica, a local directory or `[USER@]HOST:DIR` over ssh, and [`Rsync`], which copies files there.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use super::{BEACON, Beacon, Error, PUSH, WHOLE, Whole, make_dir, read_json};
use crate::config::Environment;
use crate::sys::ScratchDir;
use crate::text;

/// What every copy has: whole files, which replace the old ones by a rename; times to the nanosecond, because a file may change
/// twice in a second; nothing for other users; no owners, links, devices or sockets. Nobody is there to type a password.
const COPY: [&str; 7] = [
    "-rpt",
    "--modify-window=-1",
    "--chmod=Dgo=,Fgo=",
    "--timeout=60",
    "-s",
    "--no-motd",
    "--rsh=ssh -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=15",
];
/// Files went while it looked: no failure.
const VANISHED: i32 = 24;
/// What it sees of the environment: no keys of the agent.
const KEPT: [&str; 7] = [
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "SSH_AUTH_SOCK",
    "TMPDIR",
];

/// Where a replica lies, as rsync names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place(pub(super) String);

impl Place {
    /// Reads what the owner typed; a directory here becomes absolute.
    pub(super) fn parse(typed: &str) -> Result<Self, Error> {
        let no_place = || Error::NoPlace(text::visible(typed));
        let remote = typed
            .split_once(':')
            .filter(|(host, _)| !host.contains('/'));
        if let Some((host, dir)) = remote {
            let dir = dir.trim_end_matches('/');
            // `host::module` is a daemon of rsync's, without encryption; `-o…` would be an option.
            let is_wrong = host.is_empty() || host.starts_with('-') || dir.is_empty();
            return match is_wrong || dir.starts_with(':') {
                true => Err(no_place()),
                false => Ok(Self(format!("{host}:{dir}"))),
            };
        }
        let dir = std::path::absolute(typed).map_err(|_| no_place())?;
        let dir = dir.to_str().ok_or_else(no_place)?.trim_end_matches('/');
        match dir {
            "" => Err(no_place()),
            dir => Ok(Self(dir.to_owned())),
        }
    }

    /// Returns its directory `name` as a target or a source.
    pub(super) fn inside(&self, name: &str) -> String {
        format!("{}/{name}", self.0)
    }
}

/// Starts rsync.
#[derive(Debug, Clone)]
pub(super) struct Rsync(Vec<(&'static str, OsString)>);

impl Rsync {
    pub(super) fn of(env: &Environment) -> Self {
        let kept = KEPT.into_iter();
        Self(
            kept.filter_map(|name| Some((name, env.get(name)?)))
                .collect(),
        )
    }

    /// Copies what is in `from` into `to`.
    pub(super) fn copy(&self, from: &str, to: &str, more: &[&str]) -> Result<(), Error> {
        let mut command = Command::new("rsync");
        command
            .env_clear()
            .envs(self.0.clone())
            .stdin(Stdio::null());
        command.args(COPY).args(more).arg("--");
        command.args([from, to].map(|side| format!("{}/", side.trim_end_matches('/'))));
        let ran = command.output().map_err(|error| match error.kind() {
            ErrorKind::NotFound => Error::NoRsync,
            _ => Error::Rsync(error.to_string()),
        })?;
        if ran.status.success() || ran.status.code() == Some(VANISHED) {
            return Ok(());
        }
        // Its last line says only where in rsync it was.
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        let first = said.lines().map(str::trim).find(|line| !line.is_empty());
        let why = first.map_or_else(|| ran.status.to_string(), text::visible);
        Err(Error::Rsync(text::shorten(&why, 200)))
    }

    /// As [`Rsync::copy`], on this machine; what is not a directory itself is not a source, because a link would lead elsewhere.
    pub(super) fn copy_here(&self, from: &Path, to: &Path, more: &[&str]) -> Result<(), Error> {
        if !from.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            return Err(Error::Damaged {
                path: from.to_owned(),
                why: "there is no such directory".to_owned(),
            });
        }
        self.copy_own(from, to, more)
    }

    /// As [`Rsync::copy`], from a directory of this home, which may be a link to another disk.
    pub(super) fn copy_own(&self, from: &Path, to: &Path, more: &[&str]) -> Result<(), Error> {
        make_dir(to)?;
        self.copy(&from.to_string_lossy(), &to.to_string_lossy(), more)
    }

    /// Returns what primary and standby last wrote into a replica.
    pub(super) fn hear(
        &self,
        place: &Place,
        beside: &Path,
    ) -> Result<(Option<Whole>, Option<Beacon>), Error> {
        make_dir(beside)?;
        let fail = crate::sys::Error::at("make a directory in", beside);
        let here = ScratchDir::make(beside, "look").map_err(fail)?;
        let only = [
            "--include=/push",
            "--include=/push/whole.json",
            "--include=/standby.json",
            "--exclude=*",
        ];
        self.copy(&place.0, &here.path().to_string_lossy(), &only)?;
        let whole = read_json(&here.path().join(PUSH).join(WHOLE))?;
        Ok((whole, read_json(&here.path().join(BEACON))?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_directory_or_a_host_with_one() {
        let read = |typed: &str| Place::parse(typed).ok().map(|place| place.0);
        for (typed, place) in [
            ("vps:replica/", "vps:replica"),
            ("ada@vps:/srv/a b", "ada@vps:/srv/a b"),
            ("/srv/replica/", "/srv/replica"),
            ("/srv/a:b", "/srv/a:b"),
        ] {
            assert_eq!(read(typed).as_deref(), Some(place));
        }
        for wrong in [
            "",
            "/",
            "vps:",
            "vps:/",
            ":dir",
            "vps::module",
            "-oProxyCommand=x:dir",
        ] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }
}

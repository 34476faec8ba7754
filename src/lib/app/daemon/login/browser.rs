//! Opens the user's browser from the user's shell: the only program that is started without a sandbox.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::config::Environment;
use crate::sys;
use crate::sys::atomic;

/// What a browser needs to be found and shown; keys of others are in the rest.
const PASSED: [&str; 10] = [
    "HOME",
    "PATH",
    "USER",
    "LOGNAME",
    "LANG",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "BROWSER",
    "DESKTOP_SESSION",
];
/// The same, as beginnings of names.
const PASSED_PREFIXES: [&str; 4] = ["XDG_", "DBUS_", "LC_", "KDE_"];

/// A page that leads to the address. Everybody on the machine can read the arguments of a program (proc(5)),
/// and with the address a stranger could come back before the person, signed in as somebody else. The page
/// only its owner can read; it is removed at the end.
#[derive(Debug)]
pub(super) struct Page {
    path: PathBuf,
}

impl Page {
    /// Writes the page into `state`.
    pub(super) fn write(state: &Path, url: &str) -> Result<Self, sys::Error> {
        let path = state.join("sign-in.html");
        let url = escaped(url);
        let html = format!(
            "<!doctype html><meta charset=\"utf-8\"><meta name=\"referrer\" content=\"no-referrer\">\
             <meta http-equiv=\"refresh\" content=\"0;url={url}\"><title>agent-daemon</title>\
             <p><a href=\"{url}\">Go on to the sign-in</a></p>\n"
        );
        atomic::write(&path, html.as_bytes(), atomic::Durability::Rename)?;
        Ok(Self { path })
    }

    /// Opens it with xdg-open(1); returns whether that was possible.
    pub(super) fn open(&self, env: &Environment) -> bool {
        let mut command = Command::new("xdg-open");
        command
            .arg(&self.path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.env_clear().envs(passed(env));
        command.spawn().is_ok()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns whether there is a screen: without one a browser would start in this terminal.
pub(super) fn has_screen(env: &Environment) -> bool {
    env.has("DISPLAY") || env.has("WAYLAND_DISPLAY")
}

fn passed(env: &Environment) -> Vec<(String, OsString)> {
    let one = |name: &str| Some((name.to_owned(), env.get(name)?));
    let mut passed: Vec<_> = PASSED.iter().filter_map(|name| one(name)).collect();
    for prefix in PASSED_PREFIXES {
        passed.extend(
            env.with_prefix(prefix)
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
    }
    passed
}

/// Returns text that means itself in HTML and in the list of a refresh.
fn escaped(url: &str) -> String {
    url.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "%22")
        .replace('\'', "%27")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_inherits_nothing_but_what_shows_it() {
        let env = Environment::of(&[
            ("HOME", "/home/ada"),
            ("XDG_RUNTIME_DIR", "/run/user/1"),
            ("OPENAI_API_KEY", "canary"),
            ("HOUSE_KEY", "canary"),
            ("LC_ALL", "C"),
        ]);
        let names: Vec<String> = passed(&env).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["HOME", "XDG_RUNTIME_DIR", "LC_ALL"]);
    }

    #[test]
    fn an_address_cannot_leave_its_attribute() {
        assert_eq!(
            escaped("https://a/?b=\"'><&c"),
            "https://a/?b=%22%27&gt;&lt;&amp;c"
        );
    }
}

//! Looks for the secrets that a sandbox was given, everywhere they could show.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{Daemon, FakeTelegram, Sandbox};

impl Sandbox {
    /// Returns where a secret of its environment shows: in files of the home, in what the daemon logged and crashed with,
    /// in what the programs and the chats tell, in the environment of a process that the daemon has started. `told` is what
    /// else was heard, by the place where it was.
    pub(crate) fn leaks(
        &self,
        daemon: &Daemon,
        telegram: &FakeTelegram,
        told: &[(&str, String)],
    ) -> Vec<String> {
        let secrets = self.secrets();
        assert!(secrets.len() > 1, "no secret was given to anybody");
        let by_send = |arguments: &[&str]| format!("{:?}", self.send(arguments));
        let mut shown: Vec<(String, String)> = vec![
            ("the log".to_owned(), daemon.log()),
            ("--status".to_owned(), by_send(&["--status", "--json"])),
            ("--queue".to_owned(), by_send(&["--queue", "--json"])),
            ("--explain".to_owned(), by_send(&["--explain"])),
            ("--log".to_owned(), by_send(&["--log"])),
            (
                "agent-monitor".to_owned(),
                format!("{:?}", self.monitor(&["--json"])),
            ),
            ("the chats".to_owned(), format!("{:?}", telegram.sent())),
        ];
        let told = told
            .iter()
            .map(|(place, text)| ((*place).to_owned(), text.clone()));
        shown.extend(told);
        let files = files_below(&self.home())
            .into_iter()
            .chain(children(daemon));
        shown.extend(files.map(|path| {
            let bytes = fs::read(&path).unwrap_or_default();
            (
                path.display().to_string(),
                String::from_utf8_lossy(&bytes).into_owned(),
            )
        }));
        let leak = |(place, text): &(String, String)| {
            let shows = |secret: &&&String| text.contains(**secret) || place.contains(**secret);
            let secret = secrets.iter().find(shows)?;
            Some(format!("{secret} shows in {place}"))
        };
        shown.iter().filter_map(leak).collect()
    }
}

/// Returns the files below a directory, without following links.
pub(crate) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(files_below(&entry.path()));
        } else if entry.file_type().is_ok_and(|kind| kind.is_file()) {
            found.push(entry.path());
        }
    }
    found
}

/// Returns the environments and command lines of the processes that the daemon has started.
fn children(daemon: &Daemon) -> Vec<PathBuf> {
    let pid = daemon.pid();
    let tasks = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let lists =
        tasks.map(|task| fs::read_to_string(task.path().join("children")).unwrap_or_default());
    let children: Vec<String> = lists
        .flat_map(|list| {
            list.split_whitespace()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        })
        .collect();
    children
        .iter()
        .flat_map(|child| {
            ["environ", "cmdline"].map(|name| PathBuf::from(format!("/proc/{child}/{name}")))
        })
        .collect()
}

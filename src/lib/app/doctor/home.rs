//! Checks that there is a home, that it can be accessed, and that everything is in its place.

use std::fs::Metadata;
use std::io::ErrorKind;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::unistd::{AccessFlags, eaccess};

use super::context::{DoctorContext, blocks, quote, user};
use super::files::{kind, mode};
use super::repair::Repair;
use super::{Finding, service};
use crate::config::Home;
use crate::monitor_state;
use crate::sys::{fifo, lock};

/// A daemon that ends has written that down by then, after it closed its FIFO.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Returns the directories every home has once a daemon ran in it.
pub(super) fn directories(home: &Home) -> Vec<PathBuf> {
    let state = home.state();
    let own = [
        home.spool_tmp(),
        home.spool_new(),
        home.replies(),
        home.sessions(),
        home.archive(),
        home.downloads(),
        home.logs(),
    ];
    [
        home.workspace().to_owned(),
        state.to_owned(),
        state.join("spool"),
    ]
    .into_iter()
    .chain(own)
    .collect()
}

/// What keeps us from looking at all.
pub(super) fn entrance(context: &DoctorContext) -> Vec<Finding> {
    let home = &context.home;
    for path in [home.config_dir(), home.state(), home.workspace()] {
        match std::fs::metadata(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return vec![closed(context, path, &error)];
            }
            _ => {}
        }
    }
    if let Some(finding) = misplaced(context, home.state()) {
        return vec![finding];
    }
    if home.restoring().is_dir() {
        let evidence = format!(
            "a restore into this home was interrupted, or is running: {} exists, and no program starts",
            home.restoring().display()
        );
        return vec![Finding::error(
            "restore-unfinished",
            evidence,
            context.agent("restore FILE --verify"),
        )];
    }
    let (Some(owner), Err(error)) = (context.owner, std::fs::read_dir(home.state()).map(drop))
    else {
        return Vec::new();
    };
    if error.kind() != ErrorKind::PermissionDenied {
        let command = format!("ls -ld {}", quote(home.state()));
        return vec![Finding::error(
            "home-unreadable",
            format!("state/ cannot be listed: {error}"),
            command,
        )];
    }
    if owner == context.uid {
        let command = format!("chmod 700 {}", quote(home.state()));
        let finding = Finding::error(
            "state-modes",
            "state/ belongs to you and its mode does not let you in",
            command,
        );
        return vec![finding.repaired_by(Repair::Modes(vec![(home.state().to_owned(), 0o700)]))];
    }
    let evidence = format!(
        "{} belongs to {}, and you are {}",
        home.state().display(),
        user(owner),
        user(context.uid)
    );
    vec![Finding::error(
        "state-owner",
        evidence,
        context.agent("doctor"),
    )]
}

/// Says which directory on the way to `path` is closed.
fn closed(context: &DoctorContext, path: &Path, error: &std::io::Error) -> Finding {
    let evidence = format!("{} cannot be examined: {error}", path.display());
    let mut way: Vec<&Path> = path.ancestors().collect();
    way.reverse();
    let door = way
        .into_iter()
        .find(|dir| eaccess(*dir, AccessFlags::X_OK).is_err())
        .unwrap_or(path);
    let owner = std::fs::metadata(door).map(|meta| meta.uid());
    let command = match owner {
        Ok(owner) if error.kind() == ErrorKind::PermissionDenied && owner == context.uid => {
            format!("chmod u+rwx {}", quote(door))
        }
        Ok(owner) if error.kind() == ErrorKind::PermissionDenied => {
            format!("sudo -u {} {}", quote(user(owner)), context.agent("doctor"))
        }
        _ => format!("ls -ld {}", quote(door)),
    };
    Finding::error("home-unreadable", evidence, command)
}

/// What is missing, stands in the wrong place, or cannot be written.
pub(super) fn check(context: &DoctorContext) -> Vec<Finding> {
    let mut findings: Vec<Finding> = directories(&context.home)
        .iter()
        .filter_map(|dir| misplaced(context, dir))
        .collect();
    findings.extend(loose_links(context));
    findings.extend(pipes(context));
    findings.extend(missing(context));
    findings.extend(unwritable(context));
    findings.extend(doorbell(context));
    findings
}

/// Something else stands where a directory must.
fn misplaced(context: &DoctorContext, dir: &Path) -> Option<Finding> {
    let here = std::fs::symlink_metadata(dir).ok()?;
    let shown = context.shown(dir);
    match std::fs::metadata(dir) {
        Ok(there) if there.is_dir() => None,
        Ok(there) => {
            let command = format!("{0}mv {1} {1}.aside", context.sudo(), quote(dir));
            Some(Finding::error(
                "wrong-kind",
                format!("{shown} is {} where a directory must be", kind(&there)),
                command,
            ))
        }
        Err(_) if here.is_symlink() => Some(leads_nowhere(context, dir)),
        Err(_) => None,
    }
}

fn leads_nowhere(context: &DoctorContext, link: &Path) -> Finding {
    let target = std::fs::read_link(link).unwrap_or_default();
    let evidence = format!(
        "{} leads to {}, which is not there (a disk that is not mounted?)",
        context.shown(link),
        target.display()
    );
    let command = format!("ls -ld {0} {1}", quote(link), quote(target));
    Finding::error("wrong-kind", evidence, command)
}

/// Links in place of files whose target is not there: for who reads them the files are missing.
fn loose_links(context: &DoctorContext) -> Vec<Finding> {
    let home = &context.home;
    let dirs = [
        home.state().to_owned(),
        home.sessions(),
        home.state().join("cron"),
        home.providers_dir(),
    ];
    let mut links = vec![home.config_file().to_owned(), home.env_file()];
    let entries = dirs.iter().filter_map(|dir| std::fs::read_dir(dir).ok());
    for entry in entries.flatten().flatten() {
        // Hidden ones are not ours: Emacs locks files with such links.
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && entry.file_type().is_ok_and(|kind| kind.is_symlink()) {
            links.push(entry.path());
        }
    }
    let told = directories(home);
    links.retain(|link| link.is_symlink() && !link.exists() && !told.contains(link));
    links
        .iter()
        .map(|link| leads_nowhere(context, link))
        .collect()
}

/// A FIFO where a file must be: whoever reads it waits for ever.
fn pipes(context: &DoctorContext) -> Vec<Finding> {
    let home = &context.home;
    let named = home
        .config_is_named()
        .then(|| home.config_file().to_owned());
    let files = [
        home.config_file().to_owned(),
        home.env_file(),
        home.lock(),
        home.monitor(),
        home.people(),
        home.auth(),
        home.server_auth(),
    ];
    let finding = |path: &PathBuf| {
        let command = format!("{0}mv {1} {1}.aside", context.sudo(), quote(path));
        Finding::error(
            "wrong-kind",
            format!("{} is a FIFO where a file must be", context.shown(path)),
            command,
        )
    };
    files
        .iter()
        .filter(|path| blocks(path) && named.as_ref() != Some(path))
        .map(finding)
        .collect()
}

fn missing(context: &DoctorContext) -> Option<Finding> {
    let home = &context.home;
    let config = home.config_file();
    let (configured, used, working) = (
        config.exists() || config.is_symlink(),
        home.state().exists(),
        home.workspace().exists(),
    );
    let init = || context.agent("init");
    let (file, state) = (config.display(), home.state().display());
    if !(configured || used || working || home.config_is_named()) {
        let others = crate::app::cli::beside(home);
        let others = others.map_or_else(String::new, |agents| format!("; there are: {agents}"));
        return Some(Finding::error(
            "home-missing",
            format!("there is no agent here: neither {file} nor {state} exists{others}"),
            init(),
        ));
    }
    // A file that --config names and that is not there is told with the settings.
    if !(used || working || configured) {
        return None;
    }
    if !(used || working) {
        let evidence = format!("{file} exists, but {state} does not: no daemon has ever run here");
        return Some(
            Finding::warning("home-unfinished", evidence, init()).repaired_by(Repair::Directories),
        );
    }
    if !configured && !home.config_is_named() {
        let evidence = format!(
            "{file} is not there: the daemon runs with built-in settings, without a channel and without a limit of costs"
        );
        return Some(Finding::warning("config-missing", evidence, init()));
    }
    let gone = |dir: &PathBuf| {
        std::fs::symlink_metadata(dir).is_err_and(|error| error.kind() == ErrorKind::NotFound)
    };
    let names: Vec<String> = directories(home)
        .iter()
        .filter(|dir| gone(dir))
        .map(|dir| context.shown(dir))
        .collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    (!names.is_empty()).then(|| {
        let evidence = format!("{} {verb} missing", names.join(", "));
        Finding::warning(
            "directories-missing",
            evidence,
            context.agent("doctor --fix"),
        )
        .repaired_by(Repair::Directories)
    })
}

fn unwritable(context: &DoctorContext) -> Vec<Finding> {
    let home = &context.home;
    let mut findings = Vec::new();
    let memory = home.workspace().join("memory");
    let below = ["items", "people"].map(|name| memory.join(name));
    let [items, people] = &below;
    for dir in [home.state(), home.workspace(), &memory, items, people] {
        let Ok(meta) = std::fs::metadata(dir) else {
            continue;
        };
        match eaccess(dir, AccessFlags::W_OK | AccessFlags::X_OK) {
            Err(Errno::EROFS) => {
                let evidence = format!(
                    "{} is on a file system that is mounted read-only",
                    dir.display()
                );
                findings.push(Finding::error(
                    "read-only",
                    evidence,
                    format!("findmnt -T {}", quote(dir)),
                ));
            }
            // The modes of state/ are another check's.
            Err(_) if dir.starts_with(home.workspace()) => {
                findings.push(closed_workspace(context, dir, &meta))
            }
            _ => {}
        }
    }
    findings.dedup_by(|a, b| a.id == b.id && a.id == "read-only");
    findings
}

fn closed_workspace(context: &DoctorContext, dir: &Path, meta: &Metadata) -> Finding {
    let owner = user(meta.uid());
    let evidence = format!(
        "the agent cannot write into {} (owner {owner}, mode {:04o})",
        dir.display(),
        mode(meta)
    );
    if meta.uid() == context.uid {
        let open = meta.mode() & 0o7777 | 0o700;
        let finding = Finding::error(
            "workspace-unwritable",
            evidence,
            format!("chmod u+rwx {}", quote(dir)),
        );
        return finding.repaired_by(Repair::Modes(vec![(dir.to_owned(), open)]));
    }
    let command = format!("sudo chown -R {}: {}", quote(user(context.uid)), quote(dir));
    Finding::error("workspace-unwritable", evidence, command)
}

/// The FIFO; one that is gone is made by the next daemon.
fn doorbell(context: &DoctorContext) -> Option<Finding> {
    let path = context.home.fifo();
    let Ok(meta) = std::fs::symlink_metadata(&path) else {
        let pid = context.pid()?;
        let evidence = "a daemon runs and state/control.fifo is gone: commands wait up to 5 seconds, and scripts that write to it fail";
        return Some(Finding::warning(
            "fifo-unheard",
            evidence,
            service::restart(context, pid),
        ));
    };
    let expected = context.owner.unwrap_or(context.uid);
    if !meta.file_type().is_fifo() {
        let evidence = format!(
            "state/control.fifo is {} and must be a FIFO: the daemon does not start",
            kind(&meta)
        );
        return Some(Finding::error(
            "fifo-wrong",
            evidence,
            format!("{0}mv {1} {1}.aside", context.sudo(), quote(&path)),
        ));
    }
    if meta.uid() != expected {
        let evidence = format!(
            "state/control.fifo belongs to {}: the daemon does not start",
            user(meta.uid())
        );
        return Some(Finding::error(
            "fifo-wrong",
            evidence,
            format!("{}rm -f {}", context.sudo(), quote(&path)),
        ));
    }
    if mode(&meta) != 0o600 {
        let evidence = format!(
            "state/control.fifo has the mode {:04o} and must have 0600",
            mode(&meta)
        );
        let finding = Finding::warning(
            "fifo-wrong",
            evidence,
            format!("{}chmod 600 {}", context.sudo(), quote(&path)),
        );
        return Some(finding.repaired_by(Repair::Modes(vec![(path, 0o600)])));
    }
    let pid = context.pid()?;
    unheard(context, pid)
}

/// A daemon runs, and nobody may be at the FIFO. One that ends closes it first and says so then.
fn unheard(context: &DoctorContext, pid: i32) -> Option<Finding> {
    let (path, monitor) = (context.home.fifo(), context.home.monitor());
    let since = Instant::now();
    loop {
        if !matches!(fifo::is_heard(&path), Ok(false)) {
            return None;
        }
        let is_there = matches!(lock::holder(&context.home.lock()), Ok(Some(now)) if now == pid);
        let state = Some(&monitor).filter(|path| !blocks(path));
        let state = state.and_then(|path| monitor_state::read(path).ok().flatten());
        match state.filter(|state| state.is_of(pid)) {
            // It has ended meanwhile, or begins: an earlier one wrote what is there.
            None => return None,
            Some(_) if !is_there => return None,
            Some(state) if state.stopping => return Some(ending(context, pid)),
            Some(_) if since.elapsed() < LAST_WORDS => std::thread::sleep(LAST_WORDS / 20),
            Some(_) => break,
        }
    }
    let evidence = format!(
        "a daemon runs (pid {pid}) and listens on another state/control.fifo than this one: it was replaced"
    );
    Some(Finding::warning(
        "fifo-unheard",
        evidence,
        service::restart(context, pid),
    ))
}

fn ending(context: &DoctorContext, pid: i32) -> Finding {
    let evidence = format!(
        "the daemon (pid {pid}) is ending: running turns may finish, new messages wait for the next start"
    );
    let watch = context.program("agent-monitor", "");
    Finding::warning("daemon-ending", evidence, watch)
}

//! The repairs of `--fix`: restrict modes to the owner, restore the owner's access, create missing
//! directories. Nothing is deleted, moved or written over.

use std::path::{Path, PathBuf};

use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{FchmodatFlags, Mode, fchmodat};
use serde::Serialize;

use super::Finding;
use super::context::{DoctorContext, user};
use crate::text;

/// How a finding is mended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Repair {
    /// Each of these files and directories of ours gets this mode.
    Modes(Vec<(PathBuf, u32)>),
    /// The directories of a home are made.
    Directories,
}

/// What was mended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Fixed {
    pub id: &'static str,
    /// What was done.
    pub evidence: String,
}

/// Mends what can be mended; returns what was done and what could not be.
pub(super) fn apply(context: &DoctorContext, findings: &[Finding]) -> (Vec<Fixed>, Vec<String>) {
    let (mut fixed, mut failed) = (Vec::new(), Vec::new());
    let wanted: Vec<_> = findings
        .iter()
        .filter_map(|finding| Some((finding.id, finding.repair.as_ref()?)))
        .collect();
    if let (Some(owner), true, false) = (context.owner, context.is_foreign(), wanted.is_empty()) {
        // What root makes here the daemon could not use.
        let command = context.agent("doctor --fix");
        return (
            fixed,
            vec![format!(
                "nothing is repaired in the home of another user, {}; run: {command}",
                user(owner)
            )],
        );
    }
    for (id, repair) in wanted {
        let done = match repair {
            Repair::Modes(modes) => set_modes(context, modes),
            Repair::Directories => make_directories(context),
        };
        match done {
            Ok(evidence) => fixed.push(Fixed { id, evidence }),
            Err(why) => failed.push(format!("{id} could not be repaired: {why}")),
        }
    }
    (fixed, failed)
}

fn set_modes(context: &DoctorContext, modes: &[(PathBuf, u32)]) -> Result<String, String> {
    for (path, mode) in modes {
        set_mode(path, *mode).map_err(|error| format!("{}: {error}", context.shown(path)))?;
    }
    let shown = modes
        .iter()
        .take(3)
        .map(|(path, mode)| format!("chmod {mode:o} {}", context.shown(path)));
    let rest = modes.len().saturating_sub(3);
    let rest = if rest == 0 {
        String::new()
    } else {
        format!(", and {} more", text::counted(rest, "file"))
    };
    Ok(format!("{}{rest}", shown.collect::<Vec<_>>().join(", ")))
}

/// Follows no link: it may lead to what is not ours. A file that has gone meanwhile is not trouble.
fn set_mode(path: &Path, mode: u32) -> nix::Result<()> {
    match fchmodat(
        AT_FDCWD,
        path,
        Mode::from_bits_truncate(mode),
        FchmodatFlags::NoFollowSymlink,
    ) {
        Err(nix::errno::Errno::ENOENT) => Ok(()),
        done => done,
    }
}

fn make_directories(context: &DoctorContext) -> Result<String, String> {
    let missing: Vec<PathBuf> = super::home::directories(&context.home)
        .into_iter()
        .filter(|dir| !dir.exists())
        .collect();
    context.home.create().map_err(|error| error.to_string())?;
    let made: Vec<String> = missing
        .iter()
        .filter(|dir| dir.is_dir())
        .map(|dir| context.shown(dir))
        .collect();
    Ok(format!("made {}", made.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn a_link_is_not_followed() {
        let dir = tempfile::tempdir().expect("dir");
        let (file, link) = (dir.path().join("theirs"), dir.path().join("ours"));
        std::fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&file)
            .expect("file");
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).expect("own file");
        symlink(&file, &link).expect("link");
        assert!(set_mode(&link, 0o600).is_err());
        let mode = || {
            std::fs::metadata(&file)
                .expect("it is there")
                .permissions()
                .mode()
                & 0o777
        };
        assert_eq!(mode(), 0o644);
        set_mode(&file, 0o600).expect("own file");
        assert_eq!(mode(), 0o600);
        set_mode(&dir.path().join("gone"), 0o600).expect("nothing to do");
    }
}

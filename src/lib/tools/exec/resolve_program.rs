//! Resolves a name to a program, and checks that only the machine's administrator can change it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::ExecSettings;
use crate::config::SYSTEM;
use crate::text::argv;

const OTHERS_WRITE: u32 = 0o022;
/// Programs that run nothing of what they are given, whatever their arguments; `find` unless one says so.
const READERS: [&str; 17] = [
    "cat",
    "cmp",
    "diff",
    "du",
    "file",
    "find",
    "grep",
    "head",
    "ls",
    "md5sum",
    "readlink",
    "realpath",
    "sha1sum",
    "sha256sum",
    "stat",
    "tail",
    "wc",
];

impl ExecSettings {
    /// Returns whether a command is one program of the system that looks at the files it names, and runs none.
    pub(super) fn only_looks(&self, command: &str) -> bool {
        let Some(argv) = argv::plain(command) else {
            return false;
        };
        let Some((program, rest)) = argv.split_first() else {
            return false;
        };
        let runs = |word: &String| word.starts_with("-exec") || word.starts_with("-ok");
        READERS.contains(&program.as_str())
            && !(program == "find" && rest.iter().any(runs))
            && self.is_fixed(program)
    }

    /// Returns whether a program is the system's own, so that its name means the same tomorrow.
    pub(super) fn is_fixed(&self, program: &str) -> bool {
        // Without walls, a command of root changes every program.
        let could_change_all = self.off && nix::unistd::geteuid().is_root();
        !could_change_all && self.find(program).is_some_and(|path| is_the_systems(&path))
    }

    /// Returns the file that a shell starts for a name, without links; `None` also when it may be another
    /// one next time.
    fn find(&self, program: &str) -> Option<PathBuf> {
        if program.contains('/') {
            return Path::new(program)
                .is_absolute()
                .then(|| Path::new(program).canonicalize().ok())
                .flatten();
        }
        let (_, search) = self.env.iter().find(|(name, _)| name == "PATH")?;
        for dir in search.split(':') {
            if !Path::new(dir).is_absolute() {
                return None;
            }
            let Ok(dir) = Path::new(dir).canonicalize() else {
                continue;
            };
            if dir.starts_with(self.workspace.canonicalize().ok()?) {
                return None;
            }
            let is_systems = SYSTEM.iter().any(|known| dir.starts_with(known));
            if !is_systems && !self.off {
                // Behind the walls it is not there.
                continue;
            }
            let file = dir.join(program);
            let is_program = file
                .metadata()
                .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0);
            match (is_program, is_the_systems(&dir)) {
                (true, _) => return file.canonicalize().ok(),
                // A program of that name could be put there.
                (false, false) => return None,
                (false, true) => {}
            }
        }
        None
    }
}

fn is_the_systems(path: &Path) -> bool {
    let fixed = |path: &Path| {
        path.metadata()
            .is_ok_and(|meta| meta.uid() == 0 && meta.mode() & OTHERS_WRITE == 0)
    };
    SYSTEM.iter().any(|dir| path.starts_with(dir)) && path.ancestors().all(fixed)
}

#[cfg(test)]
mod tests {
    use crate::tools::exec::tests::settings;

    #[test]
    fn only_a_program_of_the_system_is_fixed() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = settings(dir.path());
        let own = dir.path().join("ls");
        std::fs::copy("/bin/ls", &own).unwrap();
        let path = |dirs: &str| vec![("PATH".to_owned(), dirs.to_owned())];
        let bin = "/usr/bin:/bin";
        settings.env = path(bin);
        assert!(settings.is_fixed("ls") && settings.is_fixed("/bin/ls"));
        assert!(
            !settings.is_fixed("no-such-program")
                && !settings.is_fixed("./ls")
                && !settings.is_fixed("bin/ls")
        );
        assert!(!settings.is_fixed(&own.display().to_string()));
        for dirs in [
            format!("{}:{bin}", dir.path().display()),
            format!(":{bin}"),
            format!(".:{bin}"),
            String::new(),
        ] {
            settings.env = path(&dirs);
            assert!(!settings.is_fixed("ls"), "{dirs}");
        }
        settings.env.clear();
        assert!(!settings.is_fixed("ls"));
    }

    #[test]
    fn what_only_looks_runs_nothing_of_what_it_names() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = settings(dir.path());
        settings.env = vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())];
        for (command, expected) in [
            ("ls -la dir", true),
            ("cat run.sh", true),
            ("grep -rn 'two words' dir", true),
            ("find dir -name '*.sh' -size +1k", true),
            ("find dir -name '*.sh' -exec sh -c x", false),
            ("find dir -okdir sh", false),
            ("git -C dir status", false),
            ("ls dir; sh run.sh", false),
            ("cat run.sh | sh", false),
            ("ls $(sh run.sh)", false),
            ("./ls dir", false),
            ("sh run.sh", false),
            ("make", false),
        ] {
            assert_eq!(settings.only_looks(command), expected, "{command}");
        }
    }
}

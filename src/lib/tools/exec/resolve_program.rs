//! Resolves a name to a program, and checks that only the machine's administrator can change it.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::ExecSettings;
use crate::config::SYSTEM;
use crate::text::argv;

const OTHERS_WRITE: u32 = 0o022;
/// Programs that only read the files that they are given and print what they find, each with its options that do more: they
/// write a file, or start a program. Short ones may stand together, and the beginning of a long one is enough.
const READERS: [(&str, &str, &[&str]); 22] = [
    ("cat", "", &[]),
    ("cmp", "", &[]),
    ("cut", "", &[]),
    // `pr` makes its pages.
    ("diff", "l", &["paginate"]),
    ("du", "", &[]),
    // The magic file, and programs that unpack.
    ("file", "CzZ", &["compile", "uncompress-noreport"]),
    ("find", "", &[]),
    ("grep", "", &[]),
    ("head", "", &[]),
    ("ls", "", &[]),
    ("md5sum", "", &[]),
    ("nl", "", &[]),
    ("readlink", "", &[]),
    ("realpath", "", &[]),
    ("sha1sum", "", &[]),
    ("sha256sum", "", &[]),
    (
        "sort",
        "oT",
        &["output", "compress-program", "temporary-directory"],
    ),
    ("stat", "", &[]),
    ("tail", "", &[]),
    ("tr", "", &[]),
    ("uniq", "", &[]),
    ("wc", "", &[]),
];
/// How those actions of `find` begin that change something or start a program.
const FIND_ACTS: [&str; 5] = ["-exec", "-ok", "-delete", "-fprint", "-fls"];

impl ExecSettings {
    /// Returns whether a command is one program of the system that only looks at the files it names, or several with pipes
    /// between them.
    pub(super) fn only_looks(&self, command: &str) -> bool {
        let looks = |argv: &Vec<String>| {
            let program = argv.first();
            only_reads(argv) && program.is_some_and(|program| self.is_fixed(program))
        };
        argv::piped(command).is_some_and(|commands| commands.iter().all(looks))
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

/// Returns whether a program with these arguments writes nothing and starts nothing.
fn only_reads(argv: &[String]) -> bool {
    let Some((program, rest)) = argv.split_first() else {
        return false;
    };
    let mut readers = READERS.iter();
    let Some((_, short, long)) = readers.find(|(name, ..)| name == program) else {
        return false;
    };
    let is_file = |word: &&String| *word == "-" || !word.starts_with('-');
    match program.as_str() {
        "find" => !rest
            .iter()
            .any(|word| FIND_ACTS.iter().any(|act| word.starts_with(act))),
        // Its second file is written; behind `--` one may look like an option.
        "uniq" => rest.iter().filter(is_file).count() <= 1 && !rest.iter().any(|word| word == "--"),
        _ => !rest.iter().any(|word| does_more(word, short, long)),
    }
}

/// Returns whether a word may be one of these options.
fn does_more(word: &str, short: &str, long: &[&str]) -> bool {
    if let Some(name) = word.strip_prefix("--") {
        let name = name.split('=').next().unwrap_or_default();
        return !name.is_empty() && long.iter().any(|option| option.starts_with(name));
    }
    word.strip_prefix('-')
        .is_some_and(|letters| letters.contains(|c| short.contains(c)))
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
    use std::sync::Arc;

    use crate::agent::Reach;
    use crate::audit;
    use crate::tools::exec::tests::settings;
    use crate::tools::exec::{Args, Exec};
    use crate::tools::typed::TypedTool;
    use crate::undo;
    use crate::workspace::Marks;

    #[test]
    fn a_command_that_only_looks_reaches_no_more_than_reading_does() {
        let dir = tempfile::tempdir().unwrap();
        let reach = |off: bool, command: &str| {
            let marks = Marks::new(&dir.path().join("untrusted.json"));
            let undo = Arc::new(undo::Store::new(dir.path().join("undo"), marks));
            let mut settings = settings(dir.path());
            settings.off = off;
            let exec = Exec::new(settings, undo, audit::Log::off());
            let args = Args {
                command: command.to_owned(),
                ..Args::default()
            };
            exec.reach(&args, &crate::tools::files::tests::context())
        };
        for command in ["grep -rn x .", "ls notes | wc -l"] {
            assert_eq!(reach(false, command), Reach::Shows, "{command}");
            assert_eq!(
                reach(true, command),
                Reach::Acts,
                "{command}, without walls"
            );
        }
        for command in ["find . -delete", "find . -fprint out", "ls; rm x", "ls > x"] {
            assert_eq!(reach(false, command), Reach::Acts, "{command}");
        }
    }

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
            ("ls dir | wc -l", true),
            (
                "grep -n 'a | b' dir/x | sort -rn -k 2,2 | uniq -c | head -5",
                true,
            ),
            ("cut -d , -f 1 x | tr a-z A-Z | nl", true),
            ("ls dir | xargs rm", false),
            ("ls dir | tee x", false),
            ("ls dir || rm x", false),
            ("ls dir > x", false),
            ("sort x -o x", false),
            ("sort -uo x y", false),
            ("sort --out=x y", false),
            ("sort --compress-prog=./run.sh x", false),
            ("sort -T . x", false),
            ("sort --check x", true),
            ("uniq x", true),
            ("uniq x y", false),
            ("uniq - y", false),
            ("uniq x -- -y", false),
            ("find dir -delete", false),
            ("find dir -fprint x", false),
            ("find dir -fprintf x %p", false),
            ("find dir -fls x", false),
            ("file run.sh", true),
            ("file -C -m x", false),
            ("file -bC", false),
            ("file --comp -m x", false),
            ("file -z x.gz", false),
            ("file --unc x.gz", false),
            ("diff -u x y", true),
            ("diff -ul x y", false),
            ("diff --pag x y", false),
            ("ls $(sh run.sh)", false),
            ("./ls dir", false),
            ("sh run.sh", false),
            ("make", false),
        ] {
            assert_eq!(settings.only_looks(command), expected, "{command}");
        }
    }
}

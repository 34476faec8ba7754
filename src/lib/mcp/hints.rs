//! Hints on why the program of a tool server may have failed: the files that the sandbox hides from it.

use std::path::{Path, PathBuf};

use super::server::Program;
use crate::net::egress_proxy::Visit;

/// What every program can read in addition to its own directory. Its /tmp is not that of the machine.
const SEEN: [&str; 11] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/etc",
    "/opt",
    "/nix/store",
    "/gnu/store",
    "/dev",
    "/proc",
];

/// Returns what would help the server `name` after it failed with these words; empty when nothing is known.
pub(super) fn of(name: &str, program: &Program, words: &str, visits: &[Visit]) -> String {
    if program.off {
        return String::new();
    }
    let mut hints = Vec::new();
    if let Some(path) = hidden_program(program).or_else(|| hidden_path(program, words)) {
        hints.push(format!(
            "{path} exists, but the sandbox hides it: name it, or a directory above it, in `reads` (or `writes`) of [mcp.servers.{name}]",
            path = path.display()
        ));
    }
    let refused = visits.iter().filter_map(|visit| visit.refused.as_ref());
    hints.extend(refused.take(3).map(ToString::to_string));
    hints.iter().map(|hint| format!("; {hint}")).collect()
}

/// Returns the program when it is one that the wall hides.
fn hidden_program(program: &Program) -> Option<PathBuf> {
    let named = Path::new(program.argv.first()?);
    let path = if named.is_absolute() {
        named.to_owned()
    } else {
        let (_, search) = program.env.iter().find(|(name, _)| name == "PATH")?;
        let mut found = search.split(':').map(|dir| Path::new(dir).join(named));
        found.find(|path| path.is_file())?
    };
    is_hidden(program, &path).then_some(path)
}

/// Returns the first path in `words` that is there and hidden.
fn hidden_path(program: &Program, words: &str) -> Option<PathBuf> {
    let mut paths = words
        .split(|c: char| c.is_whitespace() || "'\"`()[]{}<>,;:".contains(c))
        .filter(|word| word.starts_with('/') && word.len() > 1 && *word != "/tmp")
        .map(PathBuf::from);
    paths.find(|path| is_hidden(program, path))
}

fn is_hidden(program: &Program, path: &Path) -> bool {
    let seen = SEEN.iter().map(Path::new);
    let shown = program
        .reads
        .iter()
        .chain(&program.writes)
        .chain([&program.dir]);
    let real = path.canonicalize();
    let is_seen = |path: &Path| {
        seen.clone()
            .chain(shown.clone().map(PathBuf::as_path))
            .any(|dir| path.starts_with(dir))
    };
    // A link is seen when both of its ends are.
    real.is_ok_and(|real| !is_seen(&real) || !is_seen(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_wall_hides_is_named() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let (bin, data) = (dir.path().join("bin"), dir.path().join("data"));
        std::fs::create_dir(&bin).unwrap();
        std::fs::create_dir(&data).unwrap();
        std::fs::copy("/bin/true", bin.join("server")).unwrap();
        let mut program = Program {
            argv: vec!["server".to_owned()],
            dir: dir.path().join("own"),
            env: vec![("PATH".to_owned(), format!("/usr/bin:{}", bin.display()))],
            hidden: vec![],
            reads: vec![],
            writes: vec![],
            network: crate::config::Network::Closed,
            off: false,
            disk_reserve: 0,
        };
        let said = of("s", &program, "sh: server: not found", &[]);
        let expected = format!(
            "; {} exists, but the sandbox hides it",
            bin.join("server").display()
        );
        assert!(
            said.starts_with(&expected)
                && said.ends_with("`reads` (or `writes`) of [mcp.servers.s]"),
            "{said}"
        );
        program.reads = vec![bin];
        assert_eq!(of("s", &program, "it exited with code 1", &[]), "");
        let words = format!(
            "ENOENT: no such file or directory, open '{}'",
            data.display()
        );
        assert!(
            of("s", &program, &words, &[]).contains("/data exists"),
            "{words}"
        );
        let script = tempfile::NamedTempFile::new_in("/tmp").unwrap();
        let words = format!("can't open file '{}'", script.path().display());
        assert!(
            of("s", &program, &words, &[]).contains(" exists, but"),
            "{words}"
        );
        for words in [
            "open '/no/such/file' and /usr/bin/env",
            "/tmp: no space left",
        ] {
            assert_eq!(of("s", &program, words, &[]), "", "{words}");
        }
    }
}

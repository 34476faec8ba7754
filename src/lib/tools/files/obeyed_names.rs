//! Files that programs obey because of their name and place, without being told of them: a new one of a run that had read
//! untrusted words would act when the owner works there. Pure.

/// What programs read or run wherever they find it: GNU Make (before a Makefile), pytest, Python's site module, Cargo, rustup, Go,
/// Docker Compose (on top of its other file), CMake, npm (before its other lock), latexmk, and git, which takes the directory of
/// a HEAD for a repository and runs what its `config` names.
const NAMES: [&str; 18] = [
    "head",
    "gnumakefile",
    "makefile",
    "conftest.py",
    "sitecustomize.py",
    "usercustomize.py",
    "build.rs",
    "rust-toolchain",
    "rust-toolchain.toml",
    "go.work",
    "docker-compose.override.yml",
    "docker-compose.override.yaml",
    "compose.override.yml",
    "compose.override.yaml",
    "cmakeuserpresets.json",
    "npm-shrinkwrap.json",
    "node_modules",
    "latexmkrc",
];
/// How names end that programs obey: paths of Python, and settings of tools of JavaScript, which are programs.
const ENDINGS: [&str; 5] = [
    ".pth",
    ".config.js",
    ".config.cjs",
    ".config.mjs",
    ".config.ts",
];
/// Modules of Python's library that scripts import often: a file of that name next to a script is imported in their place.
const MODULES: [&str; 66] = [
    "abc",
    "argparse",
    "array",
    "ast",
    "asyncio",
    "base64",
    "bisect",
    "calendar",
    "codecs",
    "collections",
    "configparser",
    "contextlib",
    "copy",
    "csv",
    "ctypes",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "email",
    "enum",
    "fnmatch",
    "fractions",
    "functools",
    "getpass",
    "glob",
    "gzip",
    "hashlib",
    "heapq",
    "html",
    "http",
    "importlib",
    "inspect",
    "io",
    "itertools",
    "json",
    "locale",
    "logging",
    "math",
    "operator",
    "os",
    "pathlib",
    "pickle",
    "platform",
    "queue",
    "random",
    "re",
    "secrets",
    "shlex",
    "shutil",
    "signal",
    "socket",
    "sqlite3",
    "ssl",
    "statistics",
    "string",
    "struct",
    "subprocess",
    "tempfile",
    "textwrap",
    "threading",
    "types",
    "typing",
    "urllib",
    "uuid",
    "zipfile",
];

/// Returns true for a new file `key` that programs may obey unasked. Names that begin with a dot are those of settings, and are
/// not seen in a list. Letter case counts nowhere: some file systems ignore it. A `Makefile` alone is what its directory is
/// built with, and is named by whoever builds there.
pub(super) fn is_obeyed(key: &str) -> bool {
    let named = |name: &str| {
        let lower = name.to_lowercase();
        name.starts_with('.')
            || name != "Makefile" && NAMES.contains(&lower.as_str())
            || ENDINGS.iter().any(|ending| lower.ends_with(ending))
    };
    key.split('/').any(named) || is_module(key)
}

fn is_module(key: &str) -> bool {
    let lower = key.to_lowercase();
    let module = lower
        .strip_suffix("/__init__.py")
        .or_else(|| lower.strip_suffix(".py"));
    module.is_some_and(|module| {
        let name = module.rsplit('/').next().unwrap_or_default();
        MODULES.contains(&name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_acts_by_its_name_is_told_from_others() {
        for key in [
            ".envrc",
            "a/.git/config",
            "a/HEAD",
            "a/GNUmakefile",
            "a/makefile",
            "conftest.py",
            "lib/x.pth",
            "a/build.rs",
            "web/vite.config.ts",
            "web/node_modules/left-pad/index.js",
            "a/compose.override.yaml",
            "tools/random.py",
            "tools/JSON.py",
            "tools/json/__init__.py",
        ] {
            assert!(is_obeyed(key), "{key}");
        }
        for key in [
            "notes/random.md",
            "a/Makefile",
            "a/my_random.py",
            "a/__init__.py",
            "json/tables.py",
            "a/AHEAD.md",
            "a/config.js",
            "src/main.rs",
            "package.json",
        ] {
            assert!(!is_obeyed(key), "{key}");
        }
    }
}

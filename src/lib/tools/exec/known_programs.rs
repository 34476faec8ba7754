//! Well-known programs, and which of them commands can find here.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Each program, and what it is for.
pub const KNOWN_PROGRAMS: [(&str, &str); 5] = [
    ("ffmpeg", "sound and films"),
    ("pandoc", "documents into other forms"),
    ("pdftotext", "text of PDF files"),
    ("tesseract", "text of pictures"),
    ("unzip", "archives"),
];

/// Returns those of [`KNOWN_PROGRAMS`] that a command with this `$PATH` finds, by name; what is in `hidden`
/// directories does not exist for it. Blocks.
pub fn known_programs(path: &str, hidden: &[PathBuf]) -> Vec<&'static str> {
    let dirs = path.split(':').map(Path::new);
    let dirs: Vec<&Path> = dirs.filter(|dir| dir.is_absolute()).collect();
    let is_seen = |file: &Path| {
        let real = file.canonicalize().ok();
        let is_hidden = |dir: &PathBuf| {
            file.starts_with(dir) || real.as_ref().is_none_or(|file| file.starts_with(dir))
        };
        !hidden.iter().any(is_hidden)
    };
    let is_program = |file: &PathBuf| {
        let found = fs::metadata(file);
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let names = KNOWN_PROGRAMS.iter().map(|(name, _)| *name);
    let is_there = |name: &&str| {
        let mut files = dirs.iter().map(|dir| dir.join(name));
        files.any(|file| is_program(&file) && is_seen(&file))
    };
    names.filter(is_there).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::atomic::{Durability, write};

    #[test]
    fn what_a_command_finds_is_named_and_what_is_hidden_is_not() {
        let dir = tempfile::tempdir().expect("dir");
        let at = |path: &str| dir.path().join(path);
        for (path, mode) in [
            ("bin/pandoc", 0o755),
            ("bin/ffmpeg", 0o644),
            ("home/bin/unzip", 0o755),
        ] {
            fs::create_dir_all(at(path).parent().expect("a directory")).expect("dir");
            write(&at(path), b"#!/bin/sh\n", Durability::Rename).expect("write");
            fs::set_permissions(at(path), fs::Permissions::from_mode(mode)).expect("own file");
        }
        std::os::unix::fs::symlink(at("home/bin/unzip"), at("bin/tesseract")).expect("link");
        let path = format!(
            "relative:{}:{}",
            at("bin").display(),
            at("home/bin").display()
        );
        let all = ["pandoc", "tesseract", "unzip"];
        assert_eq!(known_programs(&path, &[]), all);
        assert_eq!(known_programs(&path, &[at("home")]), ["pandoc"]);
        assert_eq!(known_programs("", &[]), Vec::<&str>::new());
    }

    #[test]
    fn they_are_in_order() {
        assert!(KNOWN_PROGRAMS.is_sorted_by(|a, b| a.0 < b.0));
    }
}

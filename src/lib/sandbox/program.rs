//! A program that works on files in a separate directory: without network, home and workspace.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Spec;

/// A program, and the walls around it.
#[derive(Debug, Clone)]
pub struct Program {
    /// The program and its arguments, with names in braces for the files it works on.
    pub argv: Vec<String>,
    /// What it may read besides the system's own files.
    pub reads: Vec<PathBuf>,
    /// What it does not see.
    pub hidden: Vec<PathBuf>,
    /// Its PATH.
    pub search_path: String,
    /// Whether it runs without walls, as `[tools.exec] sandbox = "off"` says.
    pub off: bool,
}

impl Program {
    /// Returns the program as it is called.
    pub fn name(&self) -> &str {
        self.argv.first().map_or("", String::as_str)
    }

    /// Returns the words for the shell with `files` in the place of their names; each stays one, whatever is in it.
    pub fn words(&self, files: &[(&str, &Path)]) -> String {
        let quoted = |word: &String| {
            let filled = files.iter().fold(word.clone(), |word, (name, path)| {
                word.replace(name, &path.display().to_string())
            });
            format!("'{}'", filled.replace('\'', r"'\''"))
        };
        let words: Vec<String> = self.argv.iter().map(quoted).collect();
        words.join(" ")
    }

    /// Returns how a shell command of it runs in `dir`.
    pub fn spec(&self, command: String, dir: &Path, timeout: Duration, max_output: usize) -> Spec {
        Spec {
            command,
            cwd: dir.to_owned(),
            workspace: dir.to_owned(),
            writable: Vec::new(),
            hidden: self.hidden.clone(),
            read_only: self.reads.clone(),
            exit: None,
            env: vec![
                ("PATH".to_owned(), self.search_path.clone()),
                ("HOME".to_owned(), dir.display().to_string()),
            ],
            timeout,
            max_output,
            off: self.off,
            disk_reserve: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_stays_a_word_and_the_file_may_stand_within_one() {
        let program = Program {
            argv: ["my whisper", "--in={file}", "it's; rm -rf $HOME", "{out}"]
                .map(str::to_owned)
                .to_vec(),
            reads: Vec::new(),
            hidden: Vec::new(),
            search_path: String::new(),
            off: true,
        };
        let files = [
            ("{file}", Path::new("/d/it's/audio.ogg")),
            ("{out}", Path::new("/d/out")),
        ];
        assert_eq!(
            program.words(&files),
            r"'my whisper' '--in=/d/it'\''s/audio.ogg' 'it'\''s; rm -rf $HOME' '/d/out'"
        );
    }
}

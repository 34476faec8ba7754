//! Files that a line names: `@PATH` any, and the path of a picture as a terminal writes it when one is dropped there.

use std::path::{Path, PathBuf};

use crate::message::MediaKind;

/// What is behind a path in a sentence.
const ENDS: [char; 8] = ['.', ',', ';', ':', '!', '?', ')', '"'];

/// Returns the files that `text` names and that are there, in order, each once.
pub(super) fn files(text: &str, home: Option<&Path>) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for word in words(text) {
        if let Some(file) = file(&word, home)
            && !found.contains(&file)
        {
            found.push(file);
        }
    }
    found
}

fn file(word: &str, home: Option<&Path>) -> Option<PathBuf> {
    let (path, any) = match word.strip_prefix('@') {
        Some(path) => (path, true),
        None => (word, false),
    };
    [path, path.trim_end_matches(ENDS)]
        .into_iter()
        .filter(|path| !path.is_empty() && (any || is_picture(path)))
        .map(|path| below_home(path, home))
        .find(|path| path.is_file())
}

/// A name alone is a word; a path is meant.
fn is_picture(path: &str) -> bool {
    let kind = MediaKind::of_name(path);
    path.contains('/') && matches!(kind, MediaKind::Photo | MediaKind::Animation)
}

/// Returns a path with `~` in it as the system knows it.
pub(super) fn below_home(path: &str, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

/// Returns the words of a text without the quotes and backslashes that keep their spaces together. A quote amid a word
/// is an apostrophe.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (mark, bare) = match rest.strip_prefix('@') {
            Some(bare) => ("@", bare),
            None => ("", rest),
        };
        let quoted = ['\'', '"'].iter().find_map(|quote| {
            let (inner, after) = bare.strip_prefix(*quote)?.split_once(*quote)?;
            (!inner.contains('\n')).then_some((inner.to_owned(), after))
        });
        let (word, after) = quoted.unwrap_or_else(|| bare_word(bare));
        words.push(format!("{mark}{word}"));
        rest = after.trim_start();
    }
    words
}

fn bare_word(text: &str) -> (String, &str) {
    let mut word = String::new();
    let mut letters = text.chars();
    loop {
        let before = letters.as_str();
        match letters.next() {
            Some('\\') => word.extend(letters.next()),
            Some(c) if !c.is_whitespace() => word.push(c),
            _ => return (word, before),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_what_quotes_and_backslashes_keep_together() {
        let check = |text: &str, expected: &[&str]| assert_eq!(words(text), expected, "{text}");
        check(
            "look at @a.txt, please",
            &["look", "at", "@a.txt,", "please"],
        );
        check("'/tmp/my pic.png'", &["/tmp/my pic.png"]);
        check("/tmp/my\\ pic.png now", &["/tmp/my pic.png", "now"]);
        check("@\"my notes.md\" and", &["@my notes.md", "and"]);
        check("don't say 'no", &["don't", "say", "'no"]);
        check("a\\", &["a"]);
        check("  \n", &[]);
        check("@", &["@"]);
    }

    #[test]
    fn files_that_are_there_are_found_and_nothing_else() {
        let dir = tempfile::tempdir().expect("dir");
        let put = |name: &str| {
            crate::sys::atomic::write(
                &dir.path().join(name),
                b"x",
                crate::sys::atomic::Durability::Rename,
            )
            .expect("file");
        };
        ["a.txt", "pic.PNG", "my pic.png"]
            .iter()
            .for_each(|name| put(name));
        let at = |name: &str| dir.path().join(name);
        let below = dir.path().display();
        let check = |text: &str, expected: &[&str]| {
            let expected: Vec<PathBuf> = expected.iter().map(|name| at(name)).collect();
            assert_eq!(files(text, Some(dir.path())), expected, "{text}");
        };
        check(&format!("@{below}/a.txt?"), &["a.txt"]);
        check("see @~/a.txt and @~/a.txt, (@~/none)", &["a.txt"]);
        check(&format!("what is {below}/pic.PNG"), &["pic.PNG"]);
        check(&format!("{below}/my\\ pic.png"), &["my pic.png"]);
        check(&format!("'{below}/my pic.png'"), &["my pic.png"]);
        // A text file without the sign, a directory, a name alone, a mail address.
        check(
            &format!("{below}/a.txt @{below} pic.PNG ada@{below}/a.txt"),
            &[],
        );
    }
}

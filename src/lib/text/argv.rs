//! Splits a shell command into its arguments, when it is a single plain command.
//!
//! A permission bound to a program and its arguments (a pattern in the settings, an owner's approval for a whole
//! conversation) must match how `/bin/sh` interprets the text. So a text is split only where the shell would do
//! nothing but split words; any other text has no argv.

use super::hidden_chars;

/// Longer commands are not split, bytes.
const MAX: usize = 4096;

/// Words that are shell grammar at the beginning of a command.
const GRAMMAR: [&str; 20] = [
    "if",
    "then",
    "else",
    "elif",
    "fi",
    "do",
    "done",
    "case",
    "esac",
    "while",
    "until",
    "for",
    "in",
    "select",
    "function",
    "time",
    "coproc",
    "namespace",
    "typeset",
    "declare",
];

/// Returns the program and its arguments when `command` is one simple command of plain words; `None`
/// when a shell would do more than to split it: expand, redirect, assign, chain, comment.
///
/// A word is bare, or one pair of quotes with nothing in it that a shell looks at, or bare and then such a
/// pair (`--format='%h %s'`). The program is bare.
pub fn plain(command: &str) -> Option<Vec<String>> {
    if command.len() > MAX
        || command.contains(char::is_control)
        || hidden_chars::without(command) != command
    {
        return None;
    }
    let mut rest = command.trim_matches(' ');
    let mut words = Vec::new();
    while !rest.is_empty() {
        let (word, after) = word(rest)?;
        words.push(word);
        if !after.is_empty() && !after.starts_with(' ') {
            return None;
        }
        rest = after.trim_start_matches(' ');
    }
    let program = words.first()?;
    // Quoted, or `name=value`, or the shell's own word.
    let is_program = command
        .trim_start_matches(' ')
        .starts_with(program.as_str())
        && program
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-./+".contains(&byte))
        && !program.is_empty()
        && !GRAMMAR.contains(&program.as_str());
    is_program.then_some(words)
}

/// Returns the programs and arguments of a pipeline of plain commands, `ls dir | head`: of one at least. `None` where
/// [`plain`] is for one of them.
pub fn piped(command: &str) -> Option<Vec<Vec<String>>> {
    let mut quote = None;
    // A backslash, after which a quote may be none, is in no plain command but between single quotes.
    let is_pipe = |c: char| match quote {
        Some(open) => {
            quote = quote.filter(|_| c != open);
            false
        }
        None => {
            quote = Some(c).filter(|c| matches!(c, '\'' | '"'));
            c == '|'
        }
    };
    command.split(is_pipe).map(plain).collect()
}

/// Returns the first word and what is after it.
fn word(text: &str) -> Option<(String, &str)> {
    let end = text.find(|c: char| !is_bare(c)).unwrap_or(text.len());
    let (bare, rest) = text.split_at(end);
    let mut word = bare.to_owned();
    let Some(quote) = rest.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
        return (!bare.is_empty()).then_some((word, rest));
    };
    let (inner, after) = rest.get(1..)?.split_once(quote)?;
    if quote == '"' && inner.contains(['$', '`', '\\', '!']) {
        return None;
    }
    word.push_str(inner);
    Some((word, after))
}

/// Whether no shell does anything with it, wherever in an argument it is. Not `~`, which some expand
/// after `=` and `:`, nor letters beyond ASCII, of which some are blanks in some places.
fn is_bare(c: char) -> bool {
    c.is_ascii_alphanumeric() || "_-./+:,@%=".contains(c)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::process::Command;

    fn check(command: &str, expected: Option<&[&str]>) {
        let expected = expected.map(|words| {
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
        });
        assert_eq!(plain(command), expected, "{command}");
    }

    #[test]
    fn a_plain_command_is_its_words() {
        check(
            "git log -3 --format='%h %s' src/a.rs",
            Some(&["git", "log", "-3", "--format=%h %s", "src/a.rs"]),
        );
        check("  ls   -la ", Some(&["ls", "-la"]));
        check(
            "grep \"it's here\" '' 'ä $x * ~'",
            Some(&["grep", "it's here", "", "ä $x * ~"]),
        );
        check("/usr/bin/g++ a=b:c", Some(&["/usr/bin/g++", "a=b:c"]));
    }

    #[test]
    fn whatever_a_shell_does_more_with_is_none() {
        for command in [
            "",
            " ",
            "ls;rm x",
            "ls && rm x",
            "ls | sh",
            "ls & rm x",
            "ls > x",
            "ls 2>x",
            "ls < x",
            "$SHELL",
            "ls $HOME",
            "ls ${x}",
            "ls $(id)",
            "ls `id`",
            "ls *",
            "ls ?",
            "ls [a]",
            "ls ~",
            "ls a=~/x",
            "ls {a,b}",
            "A=1 ls",
            "A=1",
            "a+=1",
            "ls # x",
            "ls#",
            "! ls",
            "{ ls",
            "(ls)",
            "if x",
            "time ls",
            "ls \\\n-l",
            "ls\nrm x",
            "ls\trm",
            "ls\r",
            "ls \u{0}x",
            "\"ls\"",
            "l's'",
            "l\\s",
            "ls a'b'c",
            "ls 'a'b",
            "ls 'a''b'",
            "ls 'a",
            "ls \"a$b\"",
            "ls \"a\\\"b\"",
            "ls \"a!b\"",
            "ls !!",
            "ls ^a^b",
            "ls \u{a0}x",
            "ls 'a\u{200b}b'",
            "ls \u{2028}",
            "ls '\u{202e}x'",
            "ls $'a'",
            "ls ''\"\"",
            "ls a;",
            "'",
            "''",
            "ls %1&",
        ] {
            check(command, None);
        }
        check(&format!("echo {}", "x".repeat(MAX)), None);
    }

    #[test]
    fn a_pipeline_is_its_plain_commands() {
        let check = |command: &str, expected: Option<&[&[&str]]>| {
            let expected: Option<Vec<Vec<String>>> = expected.map(|all| {
                let owned = |words: &&[&str]| words.iter().map(|word| (*word).to_owned()).collect();
                all.iter().map(owned).collect()
            });
            assert_eq!(piped(command), expected, "{command}");
        };
        check("ls dir", Some(&[&["ls", "dir"]]));
        check("ls dir|wc -l", Some(&[&["ls", "dir"], &["wc", "-l"]]));
        check(
            "grep 'a|b' x | cut -d \"|\" -f 1 | head",
            Some(&[
                &["grep", "a|b", "x"],
                &["cut", "-d", "|", "-f", "1"],
                &["head"],
            ]),
        );
        for command in [
            "",
            "|",
            "ls |",
            "| ls",
            "ls || rm x",
            "ls |& sh",
            "ls | rm x; ls",
            "ls | (rm x)",
            "ls | while read x",
            "ls | tee > x",
            "ls \\| rm",
            "ls \\' | rm \\'",
            "ls \"\\\" | rm \"",
            "ls 'a | rm",
            "ls $'a\\' | rm '",
            "ls\n| rm",
            "ls # ' | rm '",
            "ls | A=1 rm",
        ] {
            check(command, None);
        }
    }

    /// Returns the words that a shell makes of `command` after a word of our own, when that is all it does.
    fn by_the_shell(shell: &str, command: &str) -> Option<Vec<String>> {
        let output = Command::new(shell)
            .args(["-c", &format!("printf '%s\\0' {command}")])
            .env_clear()
            .output()
            .ok()?;
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{shell}: {command}: {output:?}"
        );
        let text = String::from_utf8(output.stdout).expect("what went in was text");
        Some(
            text.strip_suffix('\0')?
                .split('\0')
                .map(str::to_owned)
                .collect(),
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        #[test]
        fn the_shell_makes_the_same_words_of_it(command in prop_oneof![
            "[a-z./+-]{1,6}( ([a-zA-Z0-9_./:,@%=+-]{0,6}('[ -~ä]{0,6}'|\"[ -~]{0,6}\")?)){0,4}",
            "[ -~]{1,24}",
            "(git|ls|x)( |'|\"|\\$|=|~|[a-z*;&|<>(){}\\[\\]!#^\\\\]){0,12}",
        ]) {
            if let Some(words) = plain(&command) {
                for shell in ["/bin/sh", "/bin/bash", "/bin/dash"].iter().filter(|shell| std::path::Path::new(shell).exists()) {
                    prop_assert_eq!(by_the_shell(shell, &command), Some(words.clone()), "{}: {}", shell, command);
                }
            }
        }
    }
}

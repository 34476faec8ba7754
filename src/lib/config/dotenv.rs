//! `.env`: lines of `NAME=VALUE`.
//!
//! Not dotenvy, though it is the known library: it replaces `$WORD` in a value by the variable of
//! that name (measured with 0.15.7), which silently breaks a key that has a `$` in it, and its
//! errors carry the line, which may be a secret, but not the number of the line.

use std::collections::BTreeMap;

/// A line that is not an entry: its number from 1 and what is wrong, without its content.
pub(super) type BadLine = (usize, &'static str);

/// Returns the entries; the last of several alike wins. `#` begins a comment at the start of a line
/// or after a space, `export` is allowed, quotes (`'…'`, or `"…"` with `\n \" \\ \$`) keep what is
/// between them. Nothing is replaced.
pub(super) fn parse(text: &str) -> Result<BTreeMap<String, String>, BadLine> {
    let mut entries = BTreeMap::new();
    for (number, line) in (1..).zip(text.trim_start_matches('\u{feff}').lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').ok_or((number, "there is no `=`"))?;
        let name = name.trim_end();
        if !super::validate::is_variable(name) {
            return Err((number, "the text before `=` is not the name of a variable"));
        }
        let value = unquote(value.trim_start()).map_err(|problem| (number, problem))?;
        entries.insert(name.to_owned(), value);
    }
    Ok(entries)
}

/// Returns `text` with one line for `name`, which [`parse`] reads as exactly `value`; all other entries stay as they are.
pub(super) fn with_entry(text: &str, name: &str, value: &str) -> Result<String, BadLine> {
    let is_name = |line: &&str| {
        let line = line.trim_start_matches(['#', ' ']);
        line.strip_prefix("export ")
            .unwrap_or(line)
            .split_once('=')
            .is_some_and(|(before, _)| before.trim_end() == name)
    };
    let mut lines: Vec<String> = text
        .lines()
        .filter(|line| !is_name(line))
        .map(str::to_owned)
        .collect();
    let failed = (
        lines.len() + 1,
        "what is to stand here is read as something else",
    );
    let alone = BTreeMap::from([(name.to_owned(), value.to_owned())]);
    let line = [
        format!("{name}={value}"),
        format!("{name}={}", quoted(value)),
    ]
    .into_iter()
    .find(|line| parse(line).as_ref() == Ok(&alone))
    .ok_or(failed)?;
    lines.push(line);
    let changed = lines.join("\n") + "\n";
    let mut expected = parse(text)?;
    expected.extend(alone);
    match parse(&changed)? == expected {
        true => Ok(changed),
        false => Err(failed),
    }
}

fn quoted(value: &str) -> String {
    let escaped = value.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('\n', "\\n"))
}

fn unquote(value: &str) -> Result<String, &'static str> {
    if let Some(rest) = value.strip_prefix('\'') {
        let (inside, after) = rest.split_once('\'').ok_or("the quote is not closed")?;
        return nothing_after(after).map(|()| inside.to_owned());
    }
    let Some(rest) = value.strip_prefix('"') else {
        let end = value.find(" #").unwrap_or(value.len());
        return Ok(value.get(..end).unwrap_or(value).trim_end().to_owned());
    };
    let mut inside = String::new();
    let mut chars = rest.chars();
    while let Some(c) = chars.next() {
        match c {
            '"' => return nothing_after(chars.as_str()).map(|()| inside),
            '\\' => inside.push(match chars.next().ok_or("the quote is not closed")? {
                'n' => '\n',
                escaped => escaped,
            }),
            c => inside.push(c),
        }
    }
    Err("the quote is not closed")
}

fn nothing_after(rest: &str) -> Result<(), &'static str> {
    let rest = rest.trim_start();
    if rest.is_empty() || rest.starts_with('#') {
        Ok(())
    } else {
        Err("there is text after the closing quote")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, expected: Result<&[(&str, &str)], BadLine>) {
        let expected = expected.map(|pairs| {
            pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect()
        });
        assert_eq!(parse(text), expected, "{text:?}");
    }

    #[test]
    fn entries_are_read_as_shells_do() {
        check(
            "# note\n\nexport A = x \r\nB=a=b # why\nC='#1 $x'\nD=\"q \\\"\\n\\\\\" # c\nE=\n",
            Ok(&[
                ("A", "x"),
                ("B", "a=b"),
                ("C", "#1 $x"),
                ("D", "q \"\n\\"),
                ("E", ""),
            ]),
        );
    }

    #[test]
    fn a_dollar_in_a_key_stays() {
        check(
            "K=ab$HOME-x\nL=\"$HOME\"",
            Ok(&[("K", "ab$HOME-x"), ("L", "$HOME")]),
        );
    }

    #[test]
    fn a_bad_line_is_known_by_its_number_only() {
        check("A=1\nsk-secret", Err((2, "there is no `=`")));
        check(
            "123456:ABC=1",
            Err((1, "the text before `=` is not the name of a variable")),
        );
        check("A='x\n", Err((1, "the quote is not closed")));
        check(
            "A=\"x\"y\n",
            Err((1, "there is text after the closing quote")),
        );
    }

    #[test]
    fn a_secret_has_one_line() {
        let text = "# keys\n#T=\nexport T=1\nK=2\n";
        let with = |text, name, value| with_entry(text, name, value);
        assert_eq!(with(text, "T", "3").as_deref(), Ok("# keys\nK=2\nT=3\n"));
        assert_eq!(with("", "T", "3").as_deref(), Ok("T=3\n"));
        assert_eq!(
            with("K=2\n", "T", "a \"b\"\\\nK=3 #").as_deref(),
            Ok("K=2\nT=\"a \\\"b\\\"\\\\\\nK=3 #\"\n")
        );
        let refused = [("K=2\n", "T\nK"), ("K=2\n", "T=1"), ("no entry\n", "T")];
        for (text, name) in refused {
            assert!(with(text, name, "3").is_err(), "{text:?} {name:?}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back_and_changes_nothing_else(value in "(?s).{0,12}|[ #'\"\\\\\\r\\na=]{0,12}") {
            let changed = with_entry("A=1\nB='2'\n", "B", &value).expect("any value can be written");
            let expected = [("A", "1"), ("B", &value)].map(|(name, value)| (name.to_owned(), value.to_owned()));
            prop_assert_eq!(parse(&changed), Ok(BTreeMap::from(expected)));
        }

        #[test]
        fn anything_is_read_or_refused(text in "\\PC*") {
            let _ = parse(&text);
        }

        #[test]
        fn single_quotes_keep_everything(value in "[^'\\r\\n]*") {
            prop_assert_eq!(parse(&format!("A='{value}'")).expect("parsed").remove("A"), Some(value));
        }
    }
}

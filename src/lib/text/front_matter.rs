//! The YAML front matter of a Markdown file: the head between two `---` lines, read within limits.

use std::collections::HashMap;

use serde::de::DeserializeOwned;

/// A file split into its head and the text below.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrontMatter<'a> {
    /// The lines between the two `---`.
    pub head: &'a str,
    /// What comes after them.
    pub body: &'a str,
}

/// A key of the head with its value, which may span several lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field<'a> {
    /// `[A-Za-z0-9_-]+`.
    pub key: &'a str,
    /// Its line in the file, from 1.
    pub line: u32,
    /// From the key to the end of the value.
    block: &'a str,
}

impl<'a> FrontMatter<'a> {
    /// Splits `file`, whose lines may end in CRLF; `None` for one without a head.
    pub fn split(file: &'a str) -> Option<Self> {
        let file = file.strip_prefix('\u{feff}').unwrap_or(file);
        let (first, rest) = file.split_once('\n')?;
        if first.trim_end() != "---" {
            return None;
        }
        let mut end = 0;
        for line in rest.split_inclusive('\n') {
            if line.trim_end() == "---" {
                let (head, body) = (rest.get(..end)?, rest.get(end + line.len()..)?);
                return Some(Self { head, body });
            }
            end += line.len();
        }
        None
    }

    /// Returns how many lines of the file come before the body.
    pub fn lines(&self) -> usize {
        self.head.lines().count() + 2
    }

    /// Returns the head as `T`.
    ///
    /// # Errors
    /// In one line, when it is not YAML of that form.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, String> {
        yaml(self.head)
    }

    /// Returns the fields one by one, so that one that is not YAML spoils no other; `None` when there are other lines:
    /// two rules with some words between them are no head.
    pub fn fields(&self) -> Option<Vec<Field<'a>>> {
        let mut fields: Vec<(&str, u32, usize)> = Vec::new();
        let mut at = 0;
        for (number, line) in (2..).zip(self.head.split_inclusive('\n')) {
            match key(line) {
                Some(key) => fields.push((key, number, at)),
                None if line.trim().is_empty() || line.starts_with([' ', '\t', '-', '#']) => {}
                None => return None,
            }
            at += line.len();
        }
        let ends = fields.iter().skip(1).map(|(_, _, start)| *start);
        let ends: Vec<usize> = ends.chain([self.head.len()]).collect();
        let field = |(&(key, line, start), end): (&(&'a str, u32, usize), usize)| Field {
            key,
            line,
            block: self.head.get(start..end).unwrap_or_default(),
        };
        Some(fields.iter().zip(ends).map(field).collect())
    }
}

impl Field<'_> {
    /// Returns the value as a string; one that is not a YAML string as it is.
    pub fn text(&self) -> String {
        let value = yaml::<HashMap<String, String>>(self.block).ok();
        value
            .and_then(|fields| fields.into_values().next())
            .unwrap_or_else(|| {
                let raw = self.block.get(self.key.len() + 1..).unwrap_or_default();
                raw.trim().to_owned()
            })
    }

    /// Returns the value as a list: a YAML list of either form, or words with commas between them.
    pub fn list(&self) -> Vec<String> {
        let value = yaml::<HashMap<String, Vec<String>>>(self.block).ok();
        let list = value.and_then(|fields| fields.into_values().next());
        let list = list.unwrap_or_else(|| {
            let text = self.text();
            let text = text.trim_start_matches('[').trim_end_matches(']');
            text.split(',').map(|one| one.trim().to_owned()).collect()
        });
        list.into_iter().filter(|one| !one.is_empty()).collect()
    }
}

/// Returns the key at the beginning of a line.
fn key(line: &str) -> Option<&str> {
    let (key, value) = line.split_once(':')?;
    let is_key = !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
    (is_key && value.chars().next().is_none_or(char::is_whitespace)).then_some(key)
}

/// Reads YAML without aliases: with them a few lines stand for billions.
fn yaml<T: DeserializeOwned>(text: &str) -> Result<T, String> {
    let limits = serde_saphyr::options! {
        budget: serde_saphyr::budget! { max_aliases: 0, max_anchors: 0, max_events: 2_000, max_nodes: 1_000, max_depth: 16 },
    };
    serde_saphyr::from_str_with_options(text, limits).map_err(|error| {
        // The rest of the message is a picture of the place.
        let message = error.to_string();
        super::shorten(
            &super::visible(message.lines().next().unwrap_or_default()),
            200,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_ends_at_the_second_rule_whatever_ends_its_lines() {
        let check = |file: &str, expected: Option<(&str, &str)>| {
            let found = FrontMatter::split(file).map(|found| (found.head, found.body));
            assert_eq!(found, expected, "{file:?}");
        };
        check("---\na: b\n---\nx\n", Some(("a: b\n", "x\n")));
        check(
            "\u{feff}---\r\na: b\r\n---\r\nx\r\n",
            Some(("a: b\r\n", "x\r\n")),
        );
        check("---\na: b\n--- ", Some(("a: b\n", "")));
        check("---\n---\nx", Some(("", "x")));
        for file in ["", "---", "---\na: b\n", "x\n---\n---\n"] {
            check(file, None);
        }
    }

    #[test]
    fn fields_are_read_one_by_one() {
        let head = "# a comment\nid: x\ntags:\n  - family\n  - \"a, b\"\nmore:\n- c\r\n\ncolon: a: b\nquoted: 'it''s'\nescaped: \"3\\nMay\"\nempty:\nnumber: 007\n";
        let file = format!("---\n{head}---\n");
        let fields = FrontMatter::split(&file).expect("a head").fields();
        let fields = fields.expect("fields");
        let found: Vec<(&str, u32, String)> = fields
            .iter()
            .map(|field| (field.key, field.line, field.list().join("|")))
            .collect();
        let expected = [
            ("id", 3, "x"),
            ("tags", 4, "family|a, b"),
            ("more", 7, "c"),
            ("colon", 10, "a: b"),
            ("quoted", 11, "it's"),
            ("escaped", 12, "3\nMay"),
            ("empty", 13, ""),
            ("number", 14, "007"),
        ];
        let expected = expected.map(|(key, line, list)| (key, line, list.to_owned()));
        assert_eq!(found, expected);
        let rules = FrontMatter::split("---\nTold him: never\n---\nmore").expect("two rules");
        assert_eq!(rules.fields(), None);
    }

    #[test]
    fn what_stands_for_billions_is_not_read() {
        let mut bomb = "b0: &b0 [z, z, z, z, z, z, z, z, z]\n".to_owned();
        for level in 1..9 {
            bomb += &format!(
                "b{level}: &b{level} [{}]\n",
                vec![format!("*b{}", level - 1); 9].join(", ")
            );
        }
        assert!(yaml::<serde::de::IgnoredAny>(&bomb).is_err());
    }
}

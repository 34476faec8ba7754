//! A TOML file with the line numbers of its keys, for messages with `FILE:LINE`.

use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use toml::de::{DeTable, Deserializer};

use super::error::Error;
use super::key_names::UnknownKey;
use crate::sys::atomic;

/// A parsed file.
pub(super) struct TomlFile {
    path: PathBuf,
    text: String,
    /// Every key with the bytes of its value, parents before children.
    values: Vec<(String, Range<usize>)>,
    /// Every key with the byte where its name begins.
    names: Vec<(String, usize)>,
    table: toml::Table,
}

impl TomlFile {
    /// Reads `path`; an absent file is `None`. Nothing waits for a FIFO that is there.
    pub(super) fn read(path: &Path) -> Result<Option<Self>, Error> {
        let bytes = atomic::read(path).map_err(|error| Error::io("read", path)(error.source))?;
        bytes.map(|bytes| Self::parse(path, bytes)).transpose()
    }

    /// Reads a file that is built in; `path` names it in messages.
    pub(super) fn built_in(path: &Path, text: &str) -> Result<Self, Error> {
        Self::parse(path, text.as_bytes().to_vec())
    }

    fn parse(path: &Path, bytes: Vec<u8>) -> Result<Self, Error> {
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            syntax_error(path, &text, at, "the file is not UTF-8".to_owned())
        })?;
        let failed = |error: &toml::de::Error| {
            let at = error.span().map_or(0, |span| span.start);
            stands_twice(path, &text, at).unwrap_or_else(|| {
                let message = match first_of_twins(&text, at) {
                    Some(first) if error.message().starts_with("duplicate key") => {
                        format!("{}, first in line {first}", error.message())
                    }
                    _ => error.message().to_owned(),
                };
                syntax_error(path, &text, at, message)
            })
        };
        let spanned = DeTable::parse(&text).map_err(|error| failed(&error))?;
        let (mut values, mut names) = (Vec::new(), Vec::new());
        collect(spanned.get_ref(), "", &mut values, &mut names);
        let table = toml::from_str(&text).map_err(|error| failed(&error))?;
        Ok(Self {
            path: path.to_owned(),
            text,
            values,
            names,
            table,
        })
    }

    /// Returns the content, untyped.
    pub(super) fn table(&self) -> &toml::Table {
        &self.table
    }

    /// Returns the content as `T` and the paths of the keys `T` does not know.
    pub(super) fn decode<T: DeserializeOwned>(&self) -> Result<(T, Vec<String>), Error> {
        decode_text(&self.text).map_err(|error| self.value_error(error.span(), error.message()))
    }

    /// Returns `FILE:LINE` of a key, or the file when it has no such key.
    pub(super) fn place(&self, key: &str) -> String {
        match self.line(key) {
            Some(line) => format!("{}:{line}", self.path.display()),
            None => self.path.display().to_string(),
        }
    }

    /// Returns these keys, which [`TomlFile::decode`] did not know, with their places; `known` are those there are.
    pub(super) fn unknown(
        &self,
        keys: &[String],
        known: impl FnOnce() -> Vec<String>,
    ) -> Vec<UnknownKey> {
        if keys.is_empty() {
            return Vec::new();
        }
        let known = known();
        let is_table = |key: &str| {
            let mut parts = key.split('.');
            let top = parts.next().and_then(|part| self.table.get(part));
            let value = parts.try_fold(top?, |value, part| value.get(part));
            value.map(toml::Value::is_table)
        };
        let is_table = |key: &str| is_table(key).unwrap_or(false);
        let unknown = |key: &String| UnknownKey::new(self.place(key), key, is_table(key), &known);
        keys.iter().map(unknown).collect()
    }

    /// Returns the line of a key, from 1.
    pub(super) fn line(&self, key: &str) -> Option<usize> {
        let (_, at) = self.names.iter().find(|(name, _)| name == key)?;
        Some(line_and_column(&self.text, *at).0)
    }

    /// The innermost key whose value holds the place of the error is the one at fault.
    fn value_error(&self, span: Option<Range<usize>>, message: &str) -> Error {
        let at = span.map_or(0, |span| span.start);
        let key = self
            .values
            .iter()
            .filter(|(_, value)| value.contains(&at))
            .min_by_key(|(_, value)| value.len());
        let key = key.map_or("", |(key, _)| key.as_str());
        let message = match message.strip_prefix("missing field ") {
            Some(missing) => format!("the key {missing} is missing"),
            None => message.to_owned(),
        };
        Error::value(self.place(key), key, &message)
    }
}

/// Returns `text` as `T` and the paths of the keys `T` does not know. The one way from TOML to our types: each kind of
/// source would have the code of all types once more.
fn decode_text<T: DeserializeOwned>(text: &str) -> Result<(T, Vec<String>), toml::de::Error> {
    let mut unknown = Vec::new();
    let value = serde_ignored::deserialize(Deserializer::parse(text)?, |key| {
        // An optional table is a separate step.
        unknown.push(key.to_string().replace(".?", ""));
    })?;
    Ok((value, unknown))
}

/// Returns `table` as `T` and the paths of the keys `T` does not know.
pub(super) fn decode_table<T: DeserializeOwned>(
    table: &toml::Table,
) -> Result<(T, Vec<String>), String> {
    // A table comes from a text, or from values that have one.
    let text = toml::to_string(table).map_err(|error| error.to_string())?;
    decode_text(&text).map_err(|error| error.message().to_owned())
}

fn collect(
    table: &DeTable<'_>,
    parent: &str,
    values: &mut Vec<(String, Range<usize>)>,
    names: &mut Vec<(String, usize)>,
) {
    for (key, value) in table.iter() {
        let path = super::key_names::join(parent, key.get_ref());
        names.push((path.clone(), key.span().start));
        values.push((path.clone(), value.span()));
        if let Some(inner) = value.get_ref().as_table() {
            collect(inner, &path, values, names);
        }
    }
}

/// Returns the error of a section that begins at the byte `at` and is before it already.
fn stands_twice(file: &Path, text: &str, at: usize) -> Option<Error> {
    let (second, _) = line_and_column(text, at);
    let section = text.lines().nth(second - 1).and_then(section_of)?;
    let before = text.lines().take(second - 1);
    let first = before.map(section_of).position(|it| it == Some(section))? + 1;
    Some(Error::Twice {
        file: file.to_owned(),
        section: crate::text::visible(&crate::text::shorten(section, 120)),
        first,
        second,
    })
}

/// Returns the line, from 1, of the same section that sets the key of the line at the byte `at` before it.
fn first_of_twins(text: &str, at: usize) -> Option<usize> {
    let key = |line: &str| {
        let (key, _) = line.split_once('=')?;
        Some(key.trim().trim_matches(['"', '\'']).to_owned())
    };
    let (second, _) = line_and_column(text, at);
    let twin = key(text.lines().nth(second - 1)?)?;
    let before: Vec<&str> = text.lines().take(second - 1).collect();
    let begins = before
        .iter()
        .rposition(|line| section_of(line).is_some())
        .unwrap_or(0);
    let first = before
        .iter()
        .skip(begins)
        .position(|line| key(line).as_ref() == Some(&twin))?;
    Some(begins + first + 1)
}

/// Returns the name of the section that a line begins; those of lists may stand many times.
fn section_of(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix('[')?;
    let (name, _) = rest
        .split_once(']')
        .filter(|(name, _)| !name.starts_with('['))?;
    Some(name.trim())
}

fn syntax_error(file: &Path, text: &str, at: usize, message: String) -> Error {
    let (line, column) = line_and_column(text, at);
    let content = text.lines().nth(line - 1).unwrap_or("");
    let shown = crate::secret::redact(&crate::text::visible(&crate::text::shorten(content, 120)));
    Error::Syntax {
        file: file.to_owned(),
        line,
        column,
        text: shown,
        message,
    }
}

/// Line and column in characters, both from 1.
fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

/// Reads bytes as agent.toml, and as a file of a provider.
#[cfg(any(test, fuzzing))]
pub(crate) fn check_settings(bytes: &[u8]) {
    let Ok(file) = TomlFile::parse(Path::new("agent.toml"), bytes.to_vec()) else {
        return;
    };
    if let Ok((_, unknown)) = file.decode::<super::Config>() {
        let _ = file.unknown(&unknown, super::key_names::all);
    }
    let _ = file.decode::<toml::Table>();
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_section_that_stands_twice_is_named_with_both_its_lines() {
        let told = |text: &str| {
            let error = TomlFile::parse(Path::new("f"), text.into()).err();
            error.map(|error| (error.to_string(), error.hint()))
        };
        let twice = "[agent]\n[mail.\"a b\"] # one\nx = 1\n[log]\n[ mail.\"a b\" ]\ny = 2\n";
        let (what, hint) = told(twice).expect("an error");
        assert_eq!(
            what,
            "f:5: duplicate section [mail.\"a b\"], first in line 2"
        );
        assert!(
            hint.starts_with("merge the two: ")
                && hint.contains("line 5")
                && hint.contains("line 2"),
            "{hint}"
        );
        assert_eq!(told("[[a]]\n[[a]]\n"), None, "lists of sections may");
        let (what, _) = told("[b]\nx = 0\n[a]\nx = 1\n\"x\" = 2\n").expect("an error");
        assert!(
            what.starts_with("f:5:1: ") && what.contains("first in line 4"),
            "{what}"
        );
    }

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            any::<Vec<u8>>(),
            "(agent|log|[a-z.\"ä\\[\\]=\n ]|1){0,40}".prop_map(String::into_bytes)
        ]
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused_with_a_place(bytes in bytes()) {
            match TomlFile::parse(Path::new("f"), bytes) {
                Err(Error::Syntax { line, column, .. }) => prop_assert!(line >= 1 && column >= 1),
                Err(Error::Twice { first, second, .. }) => prop_assert!(first < second),
                Err(error) => prop_assert!(false, "{error}"),
                Ok(file) => match file.decode::<crate::config::Config>() {
                    Ok(_) => {}
                    Err(Error::Value { origin, .. }) => prop_assert!(origin.starts_with('f'), "{origin}"),
                    Err(error) => prop_assert!(false, "{error}"),
                },
            }
        }
    }
}

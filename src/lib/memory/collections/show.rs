//! Lines of a text in a collection, by the path that a hit names.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::fill::EVERYBODY;
use super::store::Store;
use super::{Error, PREFIX};
use crate::db::postgres::{Parameter, Type};
use crate::memory::index::unpack;

/// Characters that are shown, and the chunks that are read for them.
const MAX_CHARS: usize = 16_000;
const MAX_CHUNKS: i64 = 40;

/// Stands between a source and a scope; neither has it.
const OF_SCOPE: char = '@';

/// A document of a collection, as a hit names it: `collections/NAME/SOURCE/FILE`, and `SOURCE@SCOPE` where it is not in the
/// scope of everybody. One path may be in several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Document<'a> {
    pub(super) collection: &'a str,
    pub(super) source: &'a str,
    pub(super) scope: &'a str,
    pub(super) file: &'a str,
}

impl<'a> Document<'a> {
    /// Reads what [`Document::path`] returns.
    pub(super) fn parse(path: &'a str) -> Option<Self> {
        let (collection, rest) = path.strip_prefix(PREFIX)?.split_once('/')?;
        let (source, file) = rest.split_once('/')?;
        let (source, scope) = source.split_once(OF_SCOPE).unwrap_or((source, EVERYBODY));
        Some(Self {
            collection,
            source,
            scope,
            file,
        })
    }

    /// Returns its path.
    pub(super) fn path(&self) -> String {
        let Self {
            collection,
            source,
            scope,
            file,
        } = self;
        match *scope == EVERYBODY {
            true => format!("{PREFIX}{collection}/{source}/{file}"),
            false => format!("{PREFIX}{collection}/{source}{OF_SCOPE}{scope}/{file}"),
        }
    }
}

/// Returns lines `first` to `last`, as many as may be shown; `None` when there is no such file.
pub(super) fn lines(
    store: &mut Store,
    document: &Document<'_>,
    (first, last): (Option<u32>, Option<u32>),
) -> Result<Option<String>, Error> {
    store.about()?;
    let (first, last) = (first.unwrap_or(1), last.unwrap_or(u32::MAX));
    let (from, to) = (i64::from(first), i64::from(last));
    let sql = "SELECT c.units, c.text FROM files f JOIN chunks c ON c.id BETWEEN f.id << 20 AND (f.id + 1) << 20
               AND c.file = f.id AND c.end_line >= $3 AND c.start_line <= $4
               WHERE f.source = $1 AND f.path = $2 AND f.scope = $6 ORDER BY c.id LIMIT $5";
    let parameters: [Parameter<'_>; 6] = [
        (&document.source, Type::TEXT),
        (&document.file, Type::TEXT),
        (&from, Type::INT8),
        (&to, Type::INT8),
        (&MAX_CHUNKS, Type::INT8),
        (&document.scope, Type::TEXT),
    ];
    let rows: Vec<(Vec<u8>, String)> = store.query(sql, &parameters, |row| {
        Ok((row.try_get(0)?, row.try_get(1)?))
    })?;
    if rows.is_empty() {
        return Ok(None);
    }
    let mut pieces: BTreeMap<usize, (u32, &str)> = BTreeMap::new();
    for (units, text) in &rows {
        let packed = unpack(units);
        let mut rest = text.as_str();
        for (at, line) in (packed.first..).zip(packed.lines) {
            let Some((piece, after)) = rest.split_at_checked(line.bytes) else {
                break;
            };
            rest = after;
            if (first..=last).contains(&line.number) {
                pieces.insert(at, (line.number, piece));
            }
        }
    }
    Ok(Some(shown(pieces.into_values())))
}

fn shown<'a>(pieces: impl Iterator<Item = (u32, &'a str)>) -> String {
    let (mut text, mut chars) = (String::new(), 0);
    for (number, piece) in pieces {
        chars += piece.chars().count();
        if chars > MAX_CHARS {
            // Writing to a String cannot fail.
            let _ = write!(text, "[more from line {number} on]");
            break;
        }
        text.push_str(piece);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_names_collection_source_scope_and_file() {
        let check = |path: &str, [collection, source, scope, file]: [&str; 4]| {
            let document = Document {
                collection,
                source,
                scope,
                file,
            };
            assert_eq!(Document::parse(path), Some(document));
            assert_eq!(document.path(), path);
        };
        let of_all = ["handbook", "office", EVERYBODY, "a/b@c.md"];
        check("collections/handbook/office/a/b@c.md", of_all);
        let of_some = ["handbook", "office", "hr", "a/b.md"];
        check("collections/handbook/office@hr/a/b.md", of_some);
        assert_eq!(Document::parse("workspace/collections/a/b/c"), None);
        assert_eq!(Document::parse("collections/a"), None);
    }

    #[test]
    fn what_is_too_long_says_where_to_go_on() {
        let line = "x".repeat(9_000);
        let text = shown([(1, line.as_str()), (2, &line)].into_iter());
        assert!(text.ends_with("[more from line 2 on]") && text.len() < MAX_CHARS);
    }
}

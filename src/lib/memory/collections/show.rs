//! Lines of a text in a collection, by the path that a hit names.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::store::Store;
use super::{Error, PREFIX};
use crate::db::postgres::{Parameter, Type};
use crate::memory::index::unpack;

/// Characters that are shown, and the chunks that are read for them.
const MAX_CHARS: usize = 16_000;
const MAX_CHUNKS: i64 = 40;

/// Returns the collection, the source and the file of a path: `collections/NAME/SOURCE/FILE`.
pub(super) fn parts(path: &str) -> Option<(&str, &str, &str)> {
    let (name, rest) = path.strip_prefix(PREFIX)?.split_once('/')?;
    let (source, file) = rest.split_once('/')?;
    Some((name, source, file))
}

/// Returns lines `first` to `last`, as many as may be shown; `None` when there is no such file.
pub(super) fn lines(
    store: &mut Store,
    source: &str,
    path: &str,
    (first, last): (Option<u32>, Option<u32>),
) -> Result<Option<String>, Error> {
    store.about()?;
    let (first, last) = (first.unwrap_or(1), last.unwrap_or(u32::MAX));
    let (from, to) = (i64::from(first), i64::from(last));
    let sql = "SELECT c.units, c.text FROM files f JOIN chunks c ON c.id BETWEEN f.id << 20 AND (f.id + 1) << 20
               AND c.file = f.id AND c.end_line >= $3 AND c.start_line <= $4
               WHERE f.source = $1 AND f.path = $2 ORDER BY c.id LIMIT $5";
    let parameters: [Parameter<'_>; 5] = [
        (&source, Type::TEXT),
        (&path, Type::TEXT),
        (&from, Type::INT8),
        (&to, Type::INT8),
        (&MAX_CHUNKS, Type::INT8),
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
    fn a_path_names_collection_source_and_file() {
        assert_eq!(
            parts("collections/handbook/office/a/b.md"),
            Some(("handbook", "office", "a/b.md"))
        );
        assert_eq!(parts("workspace/collections/a/b/c"), None);
        assert_eq!(parts("collections/a"), None);
    }

    #[test]
    fn what_is_too_long_says_where_to_go_on() {
        let line = "x".repeat(9_000);
        let text = shown([(1, line.as_str()), (2, &line)].into_iter());
        assert!(text.ends_with("[more from line 2 on]") && text.len() < MAX_CHARS);
    }
}

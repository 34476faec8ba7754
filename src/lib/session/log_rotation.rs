//! Decides when the transcript of a session continues in another file: on a new day, and after the compaction of a large one.

use chrono::NaiveDate;

use super::state::State;

/// A file in which a compaction ends beyond this, bytes, is followed by another (specification §10).
const FULL: u64 = 1_000_000;

/// Returns the name of the file for the next event of the session `id`, whose log adds up to `state`.
pub(super) fn next_file(id: &str, state: &State, today: NaiveDate) -> String {
    let name = format!("{id}.{today}.jsonl");
    let newest = &state.position.file;
    // A file of the same or a later day continues: after a clock that jumped back the order of
    // the files must stay the order of the events.
    if order(&name) > order(newest) {
        return name;
    }
    // What is no longer sent need not be read again when the rest is.
    let compacted = state
        .compacted
        .as_ref()
        .map(|compacted| &compacted.position);
    if compacted.is_some_and(|at| at.file == *newest && at.offset > FULL) {
        let (day, number) = order(newest);
        return format!("{id}.{day}.{}.jsonl", number + 1);
    }
    newest.clone()
}

/// Returns what the files of a session are ordered by: date, then number.
pub(super) fn order(name: &str) -> (&str, u32) {
    let day = name
        .strip_suffix(".jsonl")
        .and_then(|name| name.split_once('.'))
        .map_or("", |(_, rest)| rest);
    day.split_once('.')
        .map_or((day, 0), |(day, number)| (day, number.parse().unwrap_or(0)))
}

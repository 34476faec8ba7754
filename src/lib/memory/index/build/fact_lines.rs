//! The facts of `memory.db` as searchable texts: the facts stated on one line, one fact a line, with the place that states
//! them.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;

use super::chunk;
use super::document::Document;
use super::rows::Text;
use crate::config::Home;
use crate::memory::facts;
use crate::memory::facts::{Fact, Filter};
use crate::memory::sources;
use crate::memory::sources::{Source, Stamp};
use crate::{clock, db, text};

/// The name of the database in messages.
pub(crate) const SHOWN: &str = "state/memory.db";
/// A fact that is less sure says so.
const SURE: f64 = 0.7;

/// Returns the stamp of the database, which changes when a fact does. The second is empty when the database may still
/// change under the same stamp.
pub(crate) fn stamp(home: &Home, now_ms: i64) -> (String, String) {
    let path = facts::database(home);
    // A log without anything in it comes and goes with readers.
    let meta = |end| {
        std::fs::metadata(db::beside(&path, end))
            .ok()
            .filter(|meta| meta.len() > 0)
    };
    let stamps = ["", "-wal"].map(|end| meta(end).map(|meta| (meta.ino(), Stamp::of(&meta))));
    let is_settled = stamps
        .iter()
        .flatten()
        .all(|(_, stamp)| stamp.settled(now_ms) == *stamp);
    let looks = format!("{stamps:?}");
    (
        looks.clone(),
        if is_settled { looks } else { String::new() },
    )
}

/// Returns the current facts by the place that states them, each with the SHA-256 of all it says. No database is
/// no facts.
pub(crate) fn read(home: &Home) -> Result<Vec<(Vec<u8>, Text)>, facts::Error> {
    let all = facts::list(&facts::database(home), &Filter::default())?;
    let mut places: BTreeMap<(&str, String, i64), Vec<&Fact>> = BTreeMap::new();
    for fact in &all {
        places
            .entry((&fact.source, fact.scope.to_string(), fact.source_line))
            .or_default()
            .push(fact);
    }
    Ok(places
        .into_values()
        .filter_map(|facts| Some(stated(&facts, facts.first()?)))
        .collect())
}

fn stated(facts: &[&Fact], first: &Fact) -> (Vec<u8>, Text) {
    let mut document = Document::default();
    let line = u32::try_from(first.source_line).unwrap_or(u32::MAX);
    facts
        .iter()
        .for_each(|fact| chunk::units(line, &words(fact), &mut document.units));
    let time = facts.iter().map(|fact| fact.valid_from).max().unwrap_or(0);
    let text = Text {
        path: first.source.clone(),
        source: Source::Fact,
        scope: first.scope.clone(),
        time,
        document,
    };
    let said: String = text
        .document
        .units
        .iter()
        .map(|unit| unit.text.as_str())
        .collect();
    (
        sources::sha256(
            format!("{}\0{}\0{line}\0{time}\0{said}", text.path, text.scope).as_bytes(),
        ),
        text,
    )
}

/// Returns a fact on one line: `Ana: lives in Porto (since 2026-05-04, 60 % sure)`.
fn words(fact: &Fact) -> String {
    let since = clock::rfc3339(fact.valid_from);
    let doubt = if fact.confidence < SURE {
        format!(", {:.0} % sure", fact.confidence * 100.0)
    } else {
        String::new()
    };
    format!("{} (since {}{doubt})", fact.words(), text::head(&since, 10))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::scope::Scope;

    #[test]
    fn a_fact_says_since_when_it_holds_and_how_sure_it_is_when_that_is_little() {
        let check = |value: &str, confidence: f64, expected: &str| {
            let fact = Fact {
                id: 1,
                scope: Scope::Owner,
                entity: "Ana".into(),
                attribute: "lives in".into(),
                value: value.into(),
                confidence,
                source: "workspace/MEMORY.md".into(),
                source_line: 3,
                valid_from: 1_777_888_800_000,
                valid_to: None,
                superseded_by: None,
                created_at: 0,
                updated_at: 0,
                invalidated_at: None,
                is_forgotten: false,
            };
            assert_eq!(words(&fact), expected);
        };
        check("Porto", 0.7, "Ana: lives in Porto (since 2026-05-04)");
        check(
            "Porto\n  by the sea",
            0.6,
            "Ana: lives in Porto by the sea (since 2026-05-04, 60 % sure)",
        );
    }
}

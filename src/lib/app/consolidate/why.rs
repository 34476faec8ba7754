//! `agent-consolidate why`.

use chrono_tz::Tz;
use serde_json::json;

use super::{Context, WhyArguments, document, facts as listing, joined, whose};
use crate::app::cli::{self, Exit, Failure};
use crate::app::query;
use crate::memory::facts::{self, Fact, Filter, Origin};
use crate::{clock, text};

/// More matches than these are not named.
const MAX_NAMED: usize = 10;

pub(super) fn run(context: &Context<'_>, wanted: &WhyArguments) -> Result<Exit, Failure> {
    let path = facts::database(&context.home);
    let words = joined(Some(&wanted.fact), &wanted.more).unwrap_or_default();
    let number = words.trim().trim_start_matches('#').parse::<i64>().ok();
    let mut found = number.map_or(Ok(None), |id| facts::why(&path, id))?;
    if found.is_none() {
        found = facts::why(&path, one(&path, &words)?)?;
    }
    let Some((fact, origins)) = found else { return Err(unknown(&words)) };
    if context.json {
        let source = |origin: &Origin| {
            json!({
                "path": origin.path, "line": origin.line, "session_id": origin.session_id, "seq": origin.seq,
                "quote": origin.quote, "at": clock::rfc3339(origin.at),
            })
        };
        cli::json(&json!({"fact": document(&fact), "sources": origins.iter().map(source).collect::<Vec<_>>()}));
    } else {
        let (zone, _) = query::zone(&context.home, &context.env);
        lines(&fact, &origins, zone).iter().for_each(|line| cli::out(line));
    }
    Ok(Exit::Ok)
}

/// Returns the number of the one fact that has these words: of those that hold now, if there are any.
fn one(path: &std::path::Path, words: &str) -> Result<i64, Failure> {
    let mut filter = Filter { query: Some(words.to_owned()), ..Filter::default() };
    let mut found = facts::list(path, &filter)?;
    if found.is_empty() {
        filter.all = true;
        found = facts::list(path, &filter)?;
    }
    match found.as_slice() {
        [] => Err(unknown(words)),
        [fact] => Ok(fact.id),
        many => Err(several(words, many.get(..MAX_NAMED.min(many.len())).unwrap_or_default())),
    }
}

fn unknown(words: &str) -> Failure {
    Failure::new(Exit::Failed, text::visible(&format!("there is no fact `{words}`")))
        .hint("agent-consolidate facts shows them all")
}

fn several(words: &str, some: &[Fact]) -> Failure {
    Failure::new(Exit::Usage, text::visible(&format!("`{words}` may be several facts"))).hint(listing::choice(some))
}

fn lines(fact: &Fact, origins: &[Origin], zone: Tz) -> Vec<String> {
    let at = |at: i64| clock::local_stamp(at, zone);
    let until = match (fact.valid_to, fact.superseded_by) {
        (None, _) => String::new(),
        (Some(to), None) => format!(" until {}: nothing states it any more", at(to)),
        (Some(to), Some(next)) => format!(" until {}, then fact {next}", at(to)),
    };
    let mut lines = vec![
        text::visible(&format!("{}{} {}: {}", whose(fact), fact.entity, fact.attribute, fact.value)),
        format!("fact {}, {:.0}% sure, since {}{until}", fact.id, fact.confidence * 100.0, at(fact.valid_from)),
    ];
    if origins.is_empty() {
        lines.push(text::visible(&format!("it stood in {}:{}", fact.source, fact.source_line)));
    }
    for origin in origins {
        let event = origin.seq.map_or_else(String::new, |seq| format!(", event {seq}"));
        lines.push(String::new());
        lines.push(text::visible(&format!("{}:{}{event}, {}", origin.path, origin.line, at(origin.at))));
        lines.push(format!("  {}", text::visible(&origin.quote)));
    }
    lines
}

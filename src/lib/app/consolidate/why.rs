//! `agent-consolidate why`.

use chrono_tz::Tz;
use serde_json::json;

use super::{Context, WhyArguments, document, facts as listing, joined, whose};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::memory::facts;
use crate::memory::facts::{Fact, Meant, Origin};
use crate::{clock, text};

/// More matches than these are not named.
const MAX_NAMED: usize = 10;

pub(super) fn run(context: &Context<'_>, wanted: &WhyArguments) -> Result<Exit, Failure> {
    let path = facts::database(&context.home);
    let words = joined(Some(&wanted.fact), &wanted.more).unwrap_or_default();
    let id = match facts::find(&path, &words, None)? {
        Meant::One(fact) => fact.id,
        Meant::Several(many) => return Err(several("why", &words, &many)),
        Meant::Nothing => return Err(unknown(&words)),
    };
    let Some((fact, origins)) = facts::why(&path, id)? else {
        return Err(unknown(&words));
    };
    if context.json {
        let source = |origin: &Origin| {
            json!({
                "path": origin.path, "line": origin.line, "session_id": origin.session_id, "seq": origin.seq,
                "quote": origin.quote, "at": clock::rfc3339(origin.at),
            })
        };
        cli::json(
            &json!({"fact": document(&fact), "sources": origins.iter().map(source).collect::<Vec<_>>()}),
        );
    } else {
        let zone = context.zone();
        lines(&fact, &origins, zone)
            .iter()
            .for_each(|line| cli::out(line));
    }
    Ok(Exit::Ok)
}

fn unknown(words: &str) -> Failure {
    Failure::new(
        Exit::Failed,
        text::visible(&format!("there is no fact `{words}`")),
    )
    .hint("agent-consolidate facts shows them all")
}

/// Returns that `words` may mean `many`, with a line for each: `verb` and its number.
pub(super) fn several(verb: &str, words: &str, many: &[Fact]) -> Failure {
    let some = many.get(..MAX_NAMED.min(many.len())).unwrap_or_default();
    Failure::new(
        Exit::Usage,
        text::visible(&format!("`{words}` may be several facts")),
    )
    .hint(listing::choice(verb, some))
}

fn lines(fact: &Fact, origins: &[Origin], zone: Tz) -> Vec<String> {
    let at = |at: i64| clock::local_stamp(at, zone);
    let until = match (fact.valid_to, fact.superseded_by) {
        (None, _) => String::new(),
        (Some(to), _) if fact.is_forgotten => {
            format!(" until {}: forgotten, as you wanted it", at(to))
        }
        (Some(to), None) => format!(" until {}: nothing states it any more", at(to)),
        (Some(to), Some(next)) => format!(" until {}, then fact {next}", at(to)),
    };
    let mut lines = vec![
        text::visible(&format!(
            "{}{} {}: {}",
            whose(fact),
            fact.entity,
            fact.attribute,
            fact.value
        )),
        format!(
            "fact {}, {:.0}% sure, since {}{until}",
            fact.id,
            fact.confidence * 100.0,
            at(fact.valid_from)
        ),
    ];
    if origins.is_empty() {
        lines.push(text::visible(&format!(
            "it stood in {}:{}",
            fact.source, fact.source_line
        )));
    }
    for origin in origins {
        let event = origin
            .seq
            .map_or_else(String::new, |seq| format!(", event {seq}"));
        lines.push(String::new());
        lines.push(text::visible(&format!(
            "{}:{}{event}, {}",
            origin.path,
            origin.line,
            at(origin.at)
        )));
        lines.push(format!("  {}", text::visible(&origin.quote)));
    }
    lines
}

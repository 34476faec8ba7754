//! `agent-consolidate why`.

use chrono_tz::Tz;
use serde_json::json;

use super::{Context, WhyArguments, choices, documents, joined};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::memory::facts;
use crate::memory::facts::{Fact, Meant, Origin};
use crate::{clock, text};

/// More matches than these are not named.
const MAX_NAMED: usize = 10;

pub(super) fn run(context: &Context<'_>, wanted: &WhyArguments) -> Result<(), Failure> {
    let path = facts::database(context.home);
    let words = joined(&wanted.fact, &wanted.more);
    let fail = |exit, message: String| Failure::new(exit, text::visible(&message));
    let found = match facts::find(&path, &words, None)? {
        Meant::One(fact) => facts::why(&path, fact.id)?,
        Meant::Several(many) => {
            let choice = |fact: &Fact| (fact.id.to_string(), documents::fact_line(fact));
            let named: Vec<_> = many.iter().take(MAX_NAMED).map(choice).collect();
            let message = format!("`{words}` may be several facts");
            return Err(fail(Exit::Usage, message).hint(choices("why", &named)));
        }
        Meant::Nothing => None,
    };
    let Some((fact, origins)) = found else {
        let message = format!("no fact {words:?}");
        return Err(fail(Exit::Failed, message).hint("agent-consolidate facts shows them all"));
    };
    if context.json {
        let sources = documents::list(&origins, documents::origin);
        cli::json(&json!({"fact": documents::fact(&fact), "sources": sources}));
    } else {
        let lines = lines(&fact, &origins, context.zone());
        lines.iter().for_each(|line| cli::out(line));
    }
    Ok(())
}

fn lines(fact: &Fact, origins: &[Origin], zone: Tz) -> Vec<String> {
    let at = |at: i64| clock::local_stamp(at, zone);
    let until = match (fact.valid_to, fact.superseded_by) {
        (None, _) => String::new(),
        (Some(to), _) if fact.is_forgotten => {
            format!(" until {}: forgotten at your request", at(to))
        }
        (Some(to), None) => format!(" until {}: no longer stated", at(to)),
        (Some(to), Some(next)) => format!(" until {}, then fact {next}", at(to)),
    };
    let (sure, since) = (fact.confidence * 100.0, at(fact.valid_from));
    let mut lines = vec![
        documents::fact_line(fact),
        format!("fact {}, {sure:.0}% sure, since {since}{until}", fact.id),
    ];
    if origins.is_empty() {
        let place = format!("it was in {}:{}", fact.source, fact.source_line);
        lines.push(text::visible(&place));
    }
    for one in origins {
        let event = one
            .seq
            .map_or_else(String::new, |seq| format!(", event {seq}"));
        let place = format!("{}:{}{event}, {}", one.path, one.line, at(one.at));
        let quote = format!("  {}", text::visible(&one.quote));
        lines.extend([String::new(), text::visible(&place), quote]);
    }
    lines
}

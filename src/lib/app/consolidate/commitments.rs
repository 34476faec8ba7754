//! `agent-consolidate commitments` and `episodes`.

use chrono_tz::Tz;
use serde_json::{Value, json};

use super::{Context, ListArguments};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::table;
use crate::app::table::Column;
use crate::memory::facts;
use crate::memory::facts::commitments;
use crate::memory::facts::commitments::Commitment;
use crate::memory::facts::episodes;
use crate::memory::facts::episodes::Episode;
use crate::{clock, text};

const COMMITMENTS: [Column; 6] = [
    Column::right("ID"),
    Column::left("UNTIL"),
    Column::left("WHO").cut_to(8),
    Column::left("WHAT").cut_to(24),
    Column::left("STATUS"),
    Column::left("FROM").cut_to(16),
];

pub(super) fn commitments(context: &Context<'_>, wanted: &ListArguments) -> Result<Exit, Failure> {
    let mut found = commitments::list(&facts::database(&context.home), wanted.all)?;
    found.retain(|one| {
        wanted.wants(&format!(
            "{} {} {} {}",
            one.scope,
            one.who,
            one.what,
            one.status.as_str()
        ))
    });
    if context.json {
        cli::json(&json!({"commitments": found.iter().map(commitment).collect::<Vec<_>>()}));
    } else if found.is_empty() {
        context.note("nothing is promised that is still open; --all shows what is settled, too");
    } else {
        let zone = context.zone();
        let rows: Vec<_> = found
            .iter()
            .map(|one| row(one, zone, clock::now_ms()))
            .collect();
        table::lines(&COMMITMENTS, &rows, table::room())
            .iter()
            .for_each(|line| cli::out(line));
    }
    Ok(Exit::Ok)
}

fn row(one: &Commitment, zone: Tz, now: i64) -> Vec<String> {
    let until = match one.deadline.as_deref() {
        None => String::new(),
        Some(moment) => clock::parse_rfc3339(moment).map_or_else(
            || moment.replace('T', " "),
            |at| clock::local_stamp(at, zone),
        ),
    };
    let status = if one.is_overdue(now, zone) {
        "overdue"
    } else {
        one.status.as_str()
    };
    vec![
        one.id.to_string(),
        text::visible(&until),
        text::visible(&one.who),
        text::visible(&one.what),
        status.to_owned(),
        text::visible(&format!("{}:{}", one.source, one.source_line)),
    ]
}

/// Returns a commitment as JSON has it.
pub(super) fn commitment(one: &Commitment) -> Value {
    json!({
        "id": one.id, "who": one.who, "what": one.what, "deadline": one.deadline, "status": one.status.as_str(),
        "source": one.source, "source_line": one.source_line, "quote": one.quote,
        "created_at": clock::rfc3339(one.created_at), "scope": one.scope.to_string(),
    })
}

pub(super) fn episodes(context: &Context<'_>, wanted: &ListArguments) -> Result<Exit, Failure> {
    let mut found = episodes::list(&facts::database(&context.home))?;
    found.retain(|one| wanted.wants(&format!("{} {} {}", one.scope, one.date, one.words())));
    if context.json {
        let document = |one: &Episode| {
            json!({
                "id": one.id, "session_id": one.session_id, "date": one.date, "participants": one.participants,
                "topics": one.topics, "decisions": one.decisions, "summary": one.summary,
                "emotional_tone": one.emotional_tone, "source": one.source, "source_line": one.source_line,
                "scope": one.scope.to_string(),
            })
        };
        cli::json(&json!({"episodes": found.iter().map(document).collect::<Vec<_>>()}));
    } else if found.is_empty() {
        context.note("no conversation was told yet: a model does that, see agent-consolidate(1)");
    } else {
        for one in &found {
            cli::out(&text::visible(&format!("{}  {}", one.date, one.summary)));
            for (what, list) in [
                ("decided", &one.decisions),
                ("about", &one.topics),
                ("with", &one.participants),
            ] {
                if !list.is_empty() {
                    cli::out(&text::visible(&format!(
                        "            {what}: {}",
                        list.join(", ")
                    )));
                }
            }
        }
    }
    Ok(Exit::Ok)
}

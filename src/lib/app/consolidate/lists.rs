//! `agent-consolidate facts`, `commitments` and `episodes`.

use chrono_tz::Tz;
use serde_json::{Value, json};

use super::{Context, ListArguments, documents};
use crate::app::cli;
use crate::app::cli::Failure;
use crate::app::table;
use crate::app::table::Column;
use crate::memory::facts;
use crate::memory::facts::commitments;
use crate::memory::facts::commitments::Commitment;
use crate::memory::facts::episodes;
use crate::memory::facts::{Fact, Filter};
use crate::{clock, text};

const FACTS: [Column; 5] = [
    Column::right("ID"),
    Column::left("WHO").cut_to(8),
    Column::left("WHAT").cut_to(24),
    Column::left("SINCE"),
    Column::left("FROM").cut_to(16),
];

const COMMITMENTS: [Column; 6] = [
    Column::right("ID"),
    Column::left("UNTIL"),
    Column::left("WHO").cut_to(8),
    Column::left("WHAT").cut_to(24),
    Column::left("STATUS"),
    Column::left("FROM").cut_to(16),
];

pub(super) fn facts(context: &Context<'_>, wanted: &ListArguments) -> Result<(), Failure> {
    let filter = Filter {
        query: wanted.query(),
        all: wanted.all,
        scopes: None,
    };
    let found = facts::list(&facts::database(context.home), &filter)?;
    let none = match (&wanted.query, wanted.all) {
        (None, _) => "no facts yet",
        (Some(_), true) => "no fact has these words",
        (Some(_), false) => "no current fact has these words; --all also shows former ones",
    };
    show(context, "facts", &found, documents::fact, none, |found| {
        let zone = context.zone();
        print(&FACTS, found.iter().map(|fact| fact_row(fact, zone)));
    });
    Ok(())
}

fn fact_row(fact: &Fact, zone: Tz) -> Vec<String> {
    let day = |at: i64| clock::local_date(at, zone).to_string();
    let since = match (fact.valid_to, fact.is_forgotten) {
        (None, _) => day(fact.valid_from),
        (Some(to), false) => format!("{} – {}", day(fact.valid_from), day(to)),
        (Some(to), true) => format!("{} – {} (forgotten)", day(fact.valid_from), day(to)),
    };
    vec![
        fact.id.to_string(),
        text::visible(&documents::who(fact)),
        text::visible(&format!("{}: {}", fact.attribute, fact.value)),
        since,
        text::visible(&format!("{}:{}", fact.source, fact.source_line)),
    ]
}

pub(super) fn commitments(context: &Context<'_>, wanted: &ListArguments) -> Result<(), Failure> {
    let mut found = commitments::list(&facts::database(context.home), wanted.all)?;
    found.retain(|one| {
        let status = one.status.as_str();
        wanted.wants(&format!("{} {} {} {status}", one.scope, one.who, one.what))
    });
    let none = "there are no open commitments; --all also shows settled ones";
    let document = documents::commitment;
    show(context, "commitments", &found, document, none, |found| {
        let (zone, now) = (context.zone(), clock::now_ms());
        let rows = found.iter().map(|one| commitment_row(one, zone, now));
        print(&COMMITMENTS, rows);
    });
    Ok(())
}

fn commitment_row(one: &Commitment, zone: Tz, now: i64) -> Vec<String> {
    let deadline = one.deadline.as_deref().unwrap_or_default();
    let until = clock::parse_rfc3339(deadline).map_or_else(
        || deadline.replace('T', " "),
        |at| clock::local_stamp(at, zone),
    );
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

pub(super) fn episodes(context: &Context<'_>, wanted: &ListArguments) -> Result<(), Failure> {
    let mut found = episodes::list(&facts::database(context.home))?;
    found.retain(|one| wanted.wants(&format!("{} {} {}", one.scope, one.date, one.words())));
    let none = "no episodes yet; they need a model, see agent-consolidate(1)";
    show(
        context,
        "episodes",
        &found,
        documents::episode,
        none,
        |found| {
            for one in found {
                cli::out(&text::visible(&format!("{}  {}", one.date, one.summary)));
                let lists = [
                    ("decided", &one.decisions),
                    ("about", &one.topics),
                    ("with", &one.participants),
                ];
                for (what, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
                    let list = list.join(", ");
                    cli::out(&text::visible(&format!("            {what}: {list}")));
                }
            }
        },
    );
    Ok(())
}

fn show<T>(
    context: &Context<'_>,
    name: &str,
    found: &[T],
    document: fn(&T) -> Value,
    none: &str,
    print: impl FnOnce(&[T]),
) {
    if context.json {
        cli::json(&json!({name: documents::list(found, document)}));
    } else if found.is_empty() {
        context.note(none);
    } else {
        print(found);
    }
}

fn print(columns: &[Column], rows: impl Iterator<Item = Vec<String>>) {
    let rows: Vec<Vec<String>> = rows.collect();
    let lines = table::lines(columns, &rows, table::room());
    lines.iter().for_each(|line| cli::out(line));
}

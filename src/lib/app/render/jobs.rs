//! The jobs as a table, and whether a heartbeat would wake the agent.

use serde_json::Value;

use super::{Context, print};
use crate::app::cli;
use crate::app::cli::Exit;
use crate::app::documents::jobs::{Job, Jobs, Wake};
use crate::app::table::{Column, Table};
use crate::{clock, jobs, text};

const COLUMNS: [Column; 6] = [
    Column::left("ID"),
    Column::left("NAME").cut_to(10),
    Column::left("WHEN").cut_to(9),
    Column::left("NEXT"),
    Column::left("LAST"),
    Column::left("RESULT").cut_to(10),
];

pub(crate) fn jobs(context: &Context<'_>, known: &Jobs) -> Exit {
    let exit = context.answer(known, |known| {
        if !known.jobs.is_empty() {
            let zone = context.zone();
            print(&table(known, zone));
        }
    });
    if known.jobs.is_empty() {
        context.note_nothing("no jobs; agent-send --job add TEXT --cron '0 8 * * *' adds one");
    }
    if let Some(words) = jobs::set_aside(&context.home.jobs()) {
        context.note(&words);
    }
    for (id, why) in &known.broken {
        context.note(&format!(
            "state/cron/jobs.json: the entry {} is invalid: {}",
            text::visible(id),
            text::visible(why)
        ));
    }
    exit
}

/// Returns the jobs as a table; their times are those of their own zones, else of `zone`.
pub(in crate::app) fn table(jobs: &Jobs, zone: chrono_tz::Tz) -> Table {
    Table {
        columns: COLUMNS.to_vec(),
        rows: jobs.jobs.iter().map(|job| row(job, zone)).collect(),
    }
}

fn row(job: &Job, zone: chrono_tz::Tz) -> Vec<String> {
    let word = |name: &str| job.fields.get(name).and_then(Value::as_str);
    let field = |name: &str| word(name).map(str::to_owned);
    let own_zone = word("tz").and_then(|own| own.parse().ok()).unwrap_or(zone);
    let time = |name: &str| {
        let at = word(name).and_then(clock::parse_rfc3339);
        at.map(|at| clock::zoned_minute(at, own_zone))
    };
    let is_on = job
        .fields
        .get("enabled")
        .and_then(Value::as_bool)
        .unwrap_or(true);
    let next = if is_on {
        time("next_at").unwrap_or_else(|| "never".to_owned())
    } else {
        "paused".to_owned()
    };
    let own = field("tz")
        .filter(|own| own != zone.name())
        .map_or_else(String::new, |own| format!(" {own}"));
    // When it comes, in the reader's zone, stands in the next column.
    let when = match field("schedule") {
        Some(at) if at.starts_with("at ") => "once".to_owned(),
        schedule => schedule.unwrap_or_default(),
    };
    let result = [field("last_status"), field("last_error")]
        .into_iter()
        .flatten()
        .collect::<Vec<String>>()
        .join(": ");
    vec![
        field("id").unwrap_or_default(),
        field("name").unwrap_or_default(),
        format!("{when}{own}"),
        next,
        time("last_at").unwrap_or_else(|| "-".to_owned()),
        if result.is_empty() {
            "-".to_owned()
        } else {
            result
        },
    ]
}

pub(crate) fn wake(context: &Context<'_>, wake: &Wake) -> Exit {
    context.answer(wake, |wake| {
        cli::out(&match &wake.reason {
            None => "The agent would wake now.".to_owned(),
            Some(reason) => format!("The agent would not wake: {reason}."),
        });
        let price = match (wake.cost_usd, wake.day_usd) {
            (Some(usd), Some(day)) => {
                format!("about ${usd:.4} if nothing needs you; every time of a day: ${day:.2}")
            }
            _ => format!("unpriced: the model {} has no price", wake.model),
        };
        cli::out(&format!(
            "A wake asks {} with about {} tokens: {price}.",
            wake.model, wake.input_tokens
        ));
        if let Some(at) = clock::parse_rfc3339(&wake.next_at) {
            cli::out(&format!(
                "Next check: {}",
                clock::local_text(at, context.zone())
            ));
        }
    })
}

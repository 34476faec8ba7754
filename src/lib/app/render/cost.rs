//! Costs as a table with its sum, then the remaining budget of the limits.

use super::Context;
use crate::app::cli;
use crate::app::cli::Exit;
use crate::app::documents::cost::{By, Cost, Group, Numbers, Period};
use crate::app::table;
use crate::app::table::{Column, Table};
use crate::text;

pub(crate) fn cost(context: &Context<'_>, cost: &Cost) -> Exit {
    context.answer(cost, |cost| {
        lines(cost, table::room())
            .iter()
            .for_each(|line| cli::out(line))
    })
}

fn lines(cost: &Cost, room: usize) -> Vec<String> {
    let (_, nothing) = words(cost.period);
    let mut lines = if cost.calls == 0 {
        vec![nothing.to_owned()]
    } else {
        table(cost).lines(room)
    };
    let cached = |of: fn(&Numbers) -> i64| cost.models.iter().any(|model| of(&model.numbers) > 0);
    if let Some(ratio) = cost
        .cache_read_ratio
        .filter(|_| cached(|n| n.cache_read_tokens) || cached(|n| n.cache_write_tokens))
    {
        lines.push(format!(
            "{:.0} % of the input was read from the cache",
            ratio * 100.0
        ));
    }
    let caps = &cost.caps;
    for (limit, left, span) in [
        (caps.day_usd, caps.day_left_usd, "today"),
        (caps.month_usd, caps.month_left_usd, "this month"),
    ] {
        if let Some(left) = left {
            lines.push(format!("limit {span}: ${limit:.2}, {} left", dollars(left)));
        }
    }
    lines.extend(cost.unread_settings.clone());
    if let Some(forecast) = cost.forecast_usd {
        let beyond = if caps.month_usd > 0.0 && forecast > caps.month_usd {
            ", more than the limit"
        } else {
            ""
        };
        lines.push(format!(
            "forecast this month: {} at the pace of the last days{beyond}",
            dollars(forecast)
        ));
    }
    if cost.estimated_usd > 0.0 {
        lines.push(format!(
            "{} is an upper bound for running or interrupted calls",
            dollars(cost.estimated_usd)
        ));
    }
    if cost.unpriced_calls > 0 {
        let models: Vec<String> = cost
            .models
            .iter()
            .filter(|model| model.numbers.unpriced_calls > 0)
            .map(|model| {
                format!(
                    "{} of {}",
                    text::counted(model.numbers.unpriced_calls, "call"),
                    text::visible(&model.model)
                )
            })
            .collect();
        lines.push(format!(
            "not in the sum, because they have no price: {}",
            models.join(", ")
        ));
    }
    if cost.later_calls > 0 {
        lines.push(format!(
            "not in the sum, because they are dated in the future: {}, made while a clock was ahead; agent-send --cost all has them",
            text::counted(cost.later_calls, "call")
        ));
    }
    lines
}

/// Returns the calls, tokens and money of each model or group, then their sum.
pub(in crate::app) fn table(cost: &Cost) -> Table {
    let title = match cost.by {
        None | Some(By::Model) => "MODEL",
        Some(By::Session) => "SESSION",
        Some(By::Source) => "SOURCE",
        Some(By::Day) => "DAY",
    };
    let columns = [
        Column::left(title).cut_to(12),
        Column::right("CALLS"),
        Column::right("INPUT"),
        Column::right("OUTPUT"),
        Column::right("CACHE READ"),
        Column::right("CACHE WRITE"),
        Column::right("COST"),
    ];
    let mut rows: Vec<Vec<String>> = match &cost.groups {
        Some(groups) => groups
            .iter()
            .map(|group| row(name(group), &group.numbers))
            .collect(),
        None => cost
            .models
            .iter()
            .map(|model| row(model.model.clone(), &model.numbers))
            .collect(),
    };
    let sum = |of: fn(&Numbers) -> i64| cost.models.iter().map(|model| of(&model.numbers)).sum();
    let total = Numbers {
        calls: cost.calls,
        unpriced_calls: cost.unpriced_calls,
        input_tokens: sum(|numbers| numbers.input_tokens),
        output_tokens: sum(|numbers| numbers.output_tokens),
        cache_read_tokens: sum(|numbers| numbers.cache_read_tokens),
        cache_write_tokens: sum(|numbers| numbers.cache_write_tokens),
        cost_usd: cost.total_cost_usd,
    };
    rows.push(row(words(cost.period).0.to_owned(), &total));
    Table {
        columns: columns.to_vec(),
        rows,
    }
}

fn row(name: String, numbers: &Numbers) -> Vec<String> {
    let tokens = |count: i64| text::count(u64::try_from(count).unwrap_or(0));
    let cost = if numbers.unpriced_calls == numbers.calls {
        "unpriced".to_owned()
    } else {
        dollars(numbers.cost_usd)
    };
    vec![
        name,
        numbers.calls.to_string(),
        tokens(numbers.input_tokens),
        tokens(numbers.output_tokens),
        tokens(numbers.cache_read_tokens),
        tokens(numbers.cache_write_tokens),
        cost,
    ]
}

/// A session goes by its key; its id is where the key is not known.
fn name(group: &Group) -> String {
    match &group.key {
        Some(key) if group.archived => format!("{key} (archived)"),
        Some(key) => key.clone(),
        None if group.name.is_empty() => "(no session)".to_owned(),
        None => group.name.clone(),
    }
}

/// Returns what the sum is called, and what is said when there is none.
fn words(period: Period) -> (&'static str, &'static str) {
    match period {
        Period::Today => ("total today", "nothing spent today"),
        Period::Week => ("total of 7 days", "nothing spent in the last 7 days"),
        Period::Month => ("total this month", "nothing spent this month"),
        Period::All => ("total", "nothing spent yet"),
    }
}

fn dollars(usd: f64) -> String {
    format!("${usd:.4}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::documents::cost::{Caps, Model};

    fn numbers(calls: i64, unpriced_calls: i64, cost_usd: f64) -> Numbers {
        Numbers {
            calls,
            unpriced_calls,
            input_tokens: 12_345,
            output_tokens: 678,
            cost_usd,
            ..Numbers::default()
        }
    }

    fn spent() -> Cost {
        let model = |model: &str, numbers| Model {
            model: model.to_owned(),
            numbers,
        };
        Cost {
            period: Period::Today,
            since: None,
            forecast_usd: None,
            total_cost_usd: 0.01234,
            estimated_usd: 0.0,
            cache_read_ratio: None,
            calls: 5,
            unpriced_calls: 2,
            later_calls: 1,
            models: vec![
                model("primary", numbers(3, 0, 0.01234)),
                model("local", numbers(2, 2, 0.0)),
            ],
            by: None,
            groups: None,
            caps: Caps {
                day_usd: 5.0,
                month_usd: 0.0,
                day_left_usd: Some(4.98766),
                month_left_usd: None,
            },
            unread_settings: None,
        }
    }

    #[test]
    fn the_total_comes_last_and_no_model_without_a_price_is_free() {
        assert_eq!(
            lines(&spent(), 80),
            [
                "MODEL        CALLS  INPUT  OUTPUT  CACHE READ  CACHE WRITE      COST",
                "primary          3  12.3k     678           0            0   $0.0123",
                "local            2  12.3k     678           0            0  unpriced",
                "total today      5  24.6k    1.3k           0            0   $0.0123",
                "limit today: $5.00, $4.9877 left",
                "not in the sum, because they have no price: 2 calls of local",
                "not in the sum, because they are dated in the future: 1 call, made while a clock was ahead; agent-send --cost all has them",
            ]
        );
    }

    #[test]
    fn groups_stand_in_the_place_of_models() {
        let group = |name: &str, key: Option<&str>| Group {
            name: name.to_owned(),
            key: key.map(str::to_owned),
            contact: None,
            archived: name == "019a",
            numbers: numbers(1, 0, 0.25),
        };
        let groups = Some(vec![
            group("019a", Some("cli:ada")),
            group("019b", None),
            group("", None),
        ]);
        let cost = Cost {
            by: Some(By::Session),
            groups,
            unpriced_calls: 0,
            later_calls: 0,
            estimated_usd: 0.2,
            period: Period::Week,
            caps: Caps::default(),
            ..spent()
        };
        let lines = lines(&cost, 80);
        assert_eq!(
            lines
                .iter()
                .map(|line| line.split("  ").next().unwrap_or_default())
                .collect::<Vec<_>>(),
            [
                "SESSION",
                "cli:ada (archived)",
                "019b",
                "(no session)",
                "total of 7 days",
                "$0.2000 is an upper bound for running or interrupted calls",
            ]
        );
    }
}

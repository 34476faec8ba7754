//! `agent-index search`.

use serde_json::{Value, json};

use super::{Context, PROGRAM, SearchArguments};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::memory::index;
use crate::memory::index::{Filter, Found, Hit, Query, Source, Strategy};
use crate::text;

/// What a search may be limited to, and by what it may search.
pub(super) const SOURCES: [&str; 5] = ["memory", "session", "item", "summary", "fact"];
pub(super) const STRATEGIES: [&str; 4] = ["hybrid", "fts_first", "fts", "vector"];

pub(super) fn run(context: &Context<'_>, wanted: &SearchArguments) -> Result<Exit, Failure> {
    let query = query(context, wanted);
    let found = index::search(&context.place, &query)?;
    tell(context, wanted, &found);
    if !found.indexed && !context.shared.quiet {
        // What it says of others is not a failure of this search.
        let running = index::status(&context.place)
            .ok()
            .and_then(|status| status.running);
        let hint = running.map_or_else(
            || PROGRAM.to_owned(),
            |pid| format!("pid {pid} is indexing just now; try again"),
        );
        cli::err(&format!("{PROGRAM}: nothing is indexed yet\nhint: {hint}"));
    }
    Ok(Exit::Ok)
}

/// Returns what is asked.
pub(super) fn query(context: &Context<'_>, wanted: &SearchArguments) -> Query {
    Query {
        k: usize::from(wanted.k),
        max_tokens: wanted
            .max_tokens
            .and_then(|tokens| usize::try_from(tokens).ok()),
        min_score: wanted.min_score.unwrap_or(0.0),
        filter: Filter {
            sources: sources(&wanted.source),
            days: Filter::days(wanted.after, wanted.before),
            ..Filter::default()
        },
        strategy: strategy(&wanted.strategy),
        share: context.vector_weight,
        today: context.today(),
        ..Query::new(
            std::iter::once(&wanted.query)
                .chain(&wanted.more)
                .map(String::as_str)
                .collect::<Vec<_>>()
                .join(" "),
        )
    }
}

/// Says what was found.
pub(super) fn tell(context: &Context<'_>, wanted: &SearchArguments, found: &Found) {
    if context.json {
        cli::json(&document(found, wanted.explain));
    } else {
        print(found, wanted.explain);
    }
    if found.indexed && found.hits.is_empty() && !context.shared.quiet && !context.json {
        cli::err(&format!("{PROGRAM}: nothing found"));
    }
}

/// Returns the sources that go by `names`, `None` when there is no name.
pub(super) fn sources(names: &[String]) -> Option<Vec<Source>> {
    (!names.is_empty()).then(|| {
        names
            .iter()
            .filter_map(|name| Source::named(name))
            .collect()
    })
}

/// Returns the strategy that goes by `name`.
pub(super) fn strategy(name: &str) -> Strategy {
    match name {
        "fts_first" => Strategy::FtsFirst,
        "fts" => Strategy::Fts,
        "vector" => Strategy::Vector,
        _ => Strategy::Hybrid,
    }
}

fn document(found: &Found, explain: bool) -> Value {
    let result = |(rank, hit): (usize, &Hit)| {
        let mut result = result(hit);
        if explain && let Some(fields) = result.as_object_mut() {
            fields.insert("rank".to_owned(), json!(rank));
            fields.insert("scope".to_owned(), json!(hit.scope));
            fields.insert("matched".to_owned(), json!(hit.matched));
        }
        result
    };
    let mut document = json!({"results": (1..).zip(&found.hits).map(result).collect::<Vec<_>>()});
    if explain && let Some(fields) = document.as_object_mut() {
        let words: Vec<Value> = found
            .words
            .iter()
            .map(|(word, weight)| json!({"word": word, "weight": weight}))
            .collect();
        fields.insert("words".to_owned(), Value::Array(words));
        fields.insert("without_vectors".to_owned(), json!(found.without_vectors));
    }
    document
}

/// Returns a hit as the contract has it; scores have four decimals.
pub(crate) fn result(hit: &Hit) -> Value {
    let round = |score: f32| (f64::from(score) * 10_000.0).round() / 10_000.0;
    json!({
        "path": hit.path, "start_line": hit.start_line, "end_line": hit.end_line, "source": hit.source,
        "score": round(hit.score), "vector_score": hit.vector_score.map(round), "text_score": hit.text_score.map(round),
        "text": hit.text,
    })
}

fn print(found: &Found, explain: bool) {
    if explain && found.indexed {
        let words: Vec<String> = found
            .words
            .iter()
            .map(|(word, weight)| format!("{word} ({weight:.2})"))
            .collect();
        cli::speech(&format!("words with their weights: {}", words.join(", ")));
        if let Some(why) = &found.without_vectors {
            cli::speech(&format!("searched by words alone: {why}"));
        }
        cli::speech("");
    }
    for (rank, hit) in (1..).zip(&found.hits) {
        cli::speech(&format!(
            "[{rank}] {}:{}-{} ({:.0}%)",
            text::visible(&hit.path),
            hit.start_line,
            hit.end_line,
            hit.score * 100.0
        ));
        if explain {
            cli::speech(&format!(
                "    text {:.4}, {}; {}, scope {}; has {}",
                hit.text_score.unwrap_or(0.0),
                hit.vector_score.map_or_else(
                    || "no vector".to_owned(),
                    |cosine| format!("vector {cosine:.4}")
                ),
                hit.source,
                hit.scope,
                if hit.matched.is_empty() {
                    "none of the words itself".to_owned()
                } else {
                    hit.matched.join(", ")
                }
            ));
        }
        cli::speech(&format!("{}\n", hit.text));
    }
}

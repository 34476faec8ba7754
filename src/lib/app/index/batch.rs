//! `agent-index batch`: answers each query, a line of standard input, at once with a line of standard output.
//!
//! ```text
//! → {"id":1,"query":"garden","k":3}
//! ← {"id":1,"results":[{"path":"workspace/MEMORY.md","start_line":4,…}]}
//! → nonsense
//! ← {"error":{"code":"bad_data","message":"…","hint":"…"}}
//! ```
//! In addition to `id`, `query`, `k` and `max_tokens` a line may have `source`, `after`, `before`, `strategy` and `min_score`.

use std::io::{BufRead, Read};

use chrono::NaiveDate;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Context, search};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::memory::index::{Filter, Found, Query};

/// A longer line is not a question.
const MAX_LINE: u64 = 1 << 20;
/// More results than this nobody reads.
const MAX_RESULTS: usize = 100;

#[derive(Debug, Deserialize)]
struct Asked {
    #[serde(default)]
    id: Option<Value>,
    query: String,
    #[serde(default)]
    k: Option<usize>,
    #[serde(default)]
    max_tokens: Option<usize>,
    #[serde(default)]
    source: Option<String>,
    #[serde(default)]
    strategy: Option<String>,
    #[serde(default)]
    after: Option<NaiveDate>,
    #[serde(default)]
    before: Option<NaiveDate>,
    #[serde(default)]
    min_score: Option<f32>,
}

/// Answers one query.
pub(super) type Answer<'a> = dyn FnMut(&Query) -> Result<Found, Failure> + 'a;

pub(super) fn run(context: &Context<'_>, find: &mut Answer<'_>) -> Result<Exit, Failure> {
    let mut stdin = std::io::stdin().lock();
    loop {
        let mut line = Vec::new();
        let read = (&mut stdin).take(MAX_LINE).read_until(b'\n', &mut line);
        let count = read.map_err(|error| {
            Failure::io(format!("standard input: {error}")).hint("give it lines of JSON")
        })?;
        if count == 0 {
            return Ok(Exit::Ok);
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let answer = if line.last() != Some(&b'\n') && line.len() as u64 == MAX_LINE {
            skip_line(&mut stdin);
            error(
                None,
                &Failure::data("the line is longer than 1 MiB").hint("ask shorter questions"),
            )
        } else {
            answer(find, context, &line)
        };
        // The listener has gone.
        if cli::stream(|out| writeln!(out, "{answer}")).is_none() {
            return Ok(Exit::Ok);
        }
    }
}

/// Reads on to the end of the line.
fn skip_line(input: &mut impl BufRead) {
    loop {
        let Ok(buffer) = input.fill_buf() else { return };
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(buffer.len(), |at| at + 1);
        input.consume(count);
        if end.is_some() || count == 0 {
            return;
        }
    }
}

fn answer(find: &mut Answer<'_>, context: &Context<'_>, line: &[u8]) -> Value {
    let asked: Asked = match serde_json::from_slice(line) {
        Ok(asked) => asked,
        Err(why) => {
            // The id helps the asker, whatever else is wrong.
            let id = serde_json::from_slice::<Value>(line)
                .ok()
                .and_then(|value| value.get("id").cloned());
            let failure = Failure::data(format!("not a query: {why}"));
            return error(
                id,
                &failure.hint(r#"a line looks like {"id":1,"query":"what to look for","k":6}"#),
            );
        }
    };
    let is_known =
        |value: Option<&str>, known: &[&str]| value.is_none_or(|value| known.contains(&value));
    for (field, value, known) in [
        ("source", asked.source.as_deref(), &search::SOURCES[..]),
        ("strategy", asked.strategy.as_deref(), &search::STRATEGIES),
    ] {
        if !is_known(value, known) {
            let failure = Failure::data(format!("unknown {field}"))
                .hint(format!("one of {}", known.join(", ")));
            return error(asked.id, &failure);
        }
    }
    let query = Query {
        k: asked.k.unwrap_or(6).clamp(1, MAX_RESULTS),
        max_tokens: asked.max_tokens,
        min_score: asked.min_score.unwrap_or(0.0),
        filter: Filter {
            sources: search::sources(asked.source.as_slice()),
            days: Filter::days(asked.after, asked.before),
            ..Filter::default()
        },
        strategy: search::strategy(asked.strategy.as_deref().unwrap_or_default()),
        share: context.vector_weight,
        today: context.today(),
        ..Query::new(asked.query)
    };
    match find(&query) {
        Ok(found) => {
            json!({"id": asked.id, "results": found.hits.iter().map(search::result).collect::<Vec<_>>()})
        }
        Err(failure) => error(asked.id, &failure),
    }
}

fn error(id: Option<Value>, failure: &Failure) -> Value {
    let error = cli::error(failure);
    match id {
        Some(id) => json!({"id": id, "error": error}),
        None => json!({"error": error}),
    }
}

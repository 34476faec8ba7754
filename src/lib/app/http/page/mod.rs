//! The page at `/`: what the agent is doing, for a person with a browser. It only shows; it has no script, takes
//! nothing from anywhere else, and looks again every half minute.
//!
//! A browser asks for the token by itself (any name, the token as password); no cookie, no session.

mod chart;
mod html;

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono_tz::Tz;
use hyper::header::{
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
};
use serde::Deserialize;

use super::Api;
use super::error::ApiError;
use crate::app::documents;
use crate::clock;
use crate::config::{Environment, Home};
use crate::cost;
use crate::memory::index::{Found, Query as Words};
use crate::memory::{Memory, Viewer};
use html::{Html, Table};

/// Where it stands.
pub(super) const PATH: &str = "/";
const STYLE: &str = include_str!("page.css");
/// Conversations, jobs and dead letters that are shown.
const SHOWN: usize = 12;
/// Results of a search, and characters of each.
const HITS: (usize, usize) = (8, 600);
/// The longest question, characters.
const MAX_QUESTION: usize = 400;
/// Days of the chart.
const DAYS: i64 = 14;

/// What is asked beside the page.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    q: Option<String>,
}

/// Shows the page.
pub(super) async fn page(
    State(api): State<Arc<Api>>,
    asked: Result<Query<Asked>, QueryRejection>,
) -> Result<Response, ApiError> {
    let question = asked
        .map_err(|error| ApiError::bad(error.body_text()))?
        .0
        .q
        .unwrap_or_default();
    let question = crate::text::shorten(question.trim(), MAX_QUESTION);
    let (home, env, memory) = (
        api.home.clone(),
        api.env.clone(),
        api.pipeline.memory().clone(),
    );
    let work = tokio::task::spawn_blocking(move || draw(&home, &env, &memory, &question));
    let text = work
        .await
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
    let mut response = text.into_response();
    let headers = response.headers_mut();
    headers.insert(
        CONTENT_TYPE,
        HeaderValue::from_static("text/html; charset=utf-8"),
    );
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    );
    if let Ok(policy) = HeaderValue::from_str(&policy()) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    Ok(response)
}

/// Nothing runs, nothing is loaded, nobody frames it; its own style is known by its hash.
fn policy() -> String {
    let hash = STANDARD.encode(ring::digest::digest(
        &ring::digest::SHA256,
        STYLE.as_bytes(),
    ));
    format!(
        "default-src 'none'; style-src 'sha256-{hash}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )
}

/// Draws the page; a part that cannot be read says so in its place.
fn draw(home: &Home, env: &Environment, memory: &Memory, question: &str) -> String {
    let (zone, _) = documents::zone(home, env);
    let now = clock::now_ms();
    let mut page = Html::default();
    page.raw("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>agent</title>");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    // A question that is being read is not taken away.
    if question.is_empty() {
        page.raw("<meta http-equiv=\"refresh\" content=\"30\">");
    }
    page.raw("<style>")
        .raw(STYLE)
        .raw("</style></head><body><main>");
    state(&mut page, home, env, zone);
    search(&mut page, memory, question, zone);
    costs(&mut page, home, env, zone, now);
    queue(&mut page, home, zone);
    sessions(&mut page, home, env, zone);
    jobs(&mut page, home, zone);
    page.raw("<footer>").text(&format!(
        "{} · agent-toolkit {}",
        clock::local_text(now, zone),
        env!("CARGO_PKG_VERSION")
    ));
    page.raw("</footer></main></body></html>");
    page.into_text()
}

fn stamp(at: &str, zone: Tz) -> String {
    clock::parse_rfc3339(at).map_or_else(|| at.to_owned(), |at| clock::local_minute(at, zone))
}

fn state(page: &mut Html, home: &Home, env: &Environment, zone: Tz) {
    let status = match documents::status(home, env) {
        Ok(status) => status,
        Err(failure) => return page.trouble("Agent", &failure.message),
    };
    let monitor = crate::monitor_state::read(&home.monitor())
        .ok()
        .flatten()
        .unwrap_or_default();
    page.raw("<header><h1>")
        .text("agent")
        .raw("</h1><p class=\"state\">")
        .text(&monitor.state)
        .raw("</p></header>");
    let models = status.models.join(", ");
    page.raw("<section><h2>Now</h2><dl>");
    page.pair("Models", &models);
    for channel in &status.channels {
        page.pair(&channel.name, &channel.state);
    }
    page.pair("Sandbox of commands", &status.sandbox);
    page.pair("Spent today", &format!("${:.4}", status.today_cost_usd));
    if let Some(trouble) = &status.last_error {
        page.pair("Last trouble", trouble);
    }
    page.raw("</dl>");
    if monitor.lanes.is_empty() {
        page.raw("<p class=\"quiet\">Nothing runs.</p>");
    } else {
        let mut table = Table::new(&["Conversation", "State", "Step", "Tokens", "Since", "Tools"]);
        for lane in monitor
            .lanes
            .iter()
            .flat_map(|lane| std::iter::once(lane).chain(&lane.children))
        {
            table.row(&[
                &lane.contact,
                &lane.state,
                &lane.turn.to_string(),
                &lane.tokens.to_string(),
                &stamp(&lane.started_at, zone),
                &lane.tools_in_flight.join(", "),
            ]);
        }
        page.table(&table);
    }
    page.raw("</section>");
}

fn search(page: &mut Html, memory: &Memory, question: &str, zone: Tz) {
    page.raw("<section><h2>Memory</h2><form method=\"get\" action=\"/\"><input type=\"search\" name=\"q\" maxlength=\"400\" ");
    page.raw("aria-label=\"Search the memory\" placeholder=\"Search the memory\" value=\"")
        .text(question);
    page.raw("\"> <button>Search</button></form>");
    if !question.is_empty() {
        let today = Some(clock::local_date(clock::now_ms(), zone));
        let words = Words {
            k: HITS.0,
            max_chars: HITS.1,
            today,
            ..Words::new(question)
        };
        match memory.search(&Viewer::of_owner(), words) {
            Ok(found) => hits(page, &found),
            Err(error) => {
                page.raw("<p class=\"trouble\">")
                    .text(&error.to_string())
                    .raw("</p>");
            }
        }
    }
    page.raw("</section>");
}

fn hits(page: &mut Html, found: &Found) {
    if found.hits.is_empty() {
        page.raw("<p class=\"quiet\">Nothing is found.</p>");
    }
    for hit in &found.hits {
        let place = format!("{}:{}-{}", hit.path, hit.start_line, hit.end_line);
        page.raw("<article><h3>")
            .text(&place)
            .raw(" <span>")
            .text(&format!("{:.0} %", hit.score * 100.0));
        page.raw("</span></h3><p>")
            .text(&hit.text)
            .raw("</p></article>");
    }
}

fn costs(page: &mut Html, home: &Home, env: &Environment, zone: Tz, now: i64) {
    page.raw("<section><h2>Costs</h2>");
    let month = documents::cost(home, env, documents::cost::Period::Month, None);
    let since = clock::start_of_day(clock::local_date(now - (DAYS - 1) * 86_400_000, zone), zone);
    let days = cost::report(&home.cost_db(), since, cost::Group::Day(zone));
    match (month, days) {
        (Ok(month), Ok(days)) => {
            page.raw("<p>").text(&format!(
                "This month ${:.4} in {} calls",
                month.total_cost_usd, month.calls
            ));
            if month.unpriced_calls > 0 {
                page.text(&format!(
                    ", {} of them without a price",
                    month.unpriced_calls
                ));
            }
            if month.caps.month_usd > 0.0 {
                page.text(&format!("; limit ${:.2}", month.caps.month_usd));
            }
            if month.caps.day_usd > 0.0 {
                page.text(&format!("; limit of a day ${:.2}", month.caps.day_usd));
            }
            page.raw("</p>");
            let bars = chart::days(now, DAYS, zone, |day| {
                let line = days.groups.iter().find(|line| line.name == day);
                line.map_or(0.0, |line| cost::usd(line.cost_nano_usd))
            });
            page.raw(&chart::bars(&bars));
            let mut table =
                Table::new(&["Model", "Calls", "Input", "Output", "Cache", "US dollars"]);
            for model in month.models.iter().take(SHOWN) {
                let numbers = &model.numbers;
                table.row(&[
                    &model.model,
                    &numbers.calls.to_string(),
                    &numbers.input_tokens.to_string(),
                    &numbers.output_tokens.to_string(),
                    &numbers.cache_read_tokens.to_string(),
                    &format!("{:.4}", numbers.cost_usd),
                ]);
            }
            page.table(&table);
        }
        (Err(failure), _) => {
            page.raw("<p class=\"trouble\">")
                .text(&failure.message)
                .raw("</p>");
        }
        (_, Err(error)) => {
            page.raw("<p class=\"trouble\">")
                .text(&error.to_string())
                .raw("</p>");
        }
    }
    page.raw("</section>");
}

fn queue(page: &mut Html, home: &Home, zone: Tz) {
    let queue = match documents::queue(home) {
        Ok(queue) => queue,
        Err(failure) => return page.trouble("Queue", &failure.message),
    };
    page.raw("<section><h2>Queue</h2><p>");
    page.text(&format!(
        "{} to answer, {} to send, {} given up, {} wait for your word",
        queue.inbox.len(),
        queue.outbox.len(),
        queue.dead.len(),
        queue.approvals.len()
    ));
    page.raw("</p>");
    let mut table = Table::new(&["What", "Where", "State", "Tries", "Since"]);
    for open in queue.inbox.iter().chain(&queue.outbox).take(SHOWN) {
        table.row(&[
            &open.id,
            &open.place,
            &open.state,
            &open.attempts.to_string(),
            &stamp(&open.created_at, zone),
        ]);
    }
    page.table(&table);
    let mut dead = Table::new(&["Given up", "Since", "Why"]);
    for letter in queue.dead.iter().rev().take(SHOWN) {
        dead.row(&[&letter.id, &stamp(&letter.created_at, zone), &letter.reason]);
    }
    page.table(&dead);
    let mut asked = Table::new(&["Asked", "Tool", "What", "Until"]);
    for request in queue.approvals.iter().take(SHOWN) {
        let what = crate::text::shorten(&request.text, 300);
        asked.row(&[
            &request.id,
            &request.tool,
            &what,
            &stamp(&request.expires_at, zone),
        ]);
    }
    page.table(&asked);
    page.raw("</section>");
}

fn sessions(page: &mut Html, home: &Home, env: &Environment, zone: Tz) {
    let sessions = match documents::sessions(home, env) {
        Ok(sessions) => sessions.sessions,
        Err(failure) => return page.trouble("Conversations", &failure.message),
    };
    page.raw("<section><h2>Conversations</h2>");
    let mut table = Table::new(&["With", "Last used", "Messages", "Context", "US dollars"]);
    for session in sessions.iter().take(SHOWN) {
        let full = session.context_pct.map_or_else(
            || session.context_tokens.to_string(),
            |part| format!("{part:.0} %"),
        );
        table.row(&[
            &session.contact,
            &stamp(&session.updated_at, zone),
            &session.message_count.to_string(),
            &full,
            &format!("{:.4}", session.cost_usd),
        ]);
    }
    page.table(&table);
    if sessions.len() > SHOWN {
        page.raw("<p class=\"quiet\">")
            .text(&format!("and {} more", sessions.len() - SHOWN))
            .raw("</p>");
    }
    page.raw("</section>");
}

fn jobs(page: &mut Html, home: &Home, zone: Tz) {
    let jobs = match documents::jobs(home) {
        Ok(jobs) => jobs.jobs,
        Err(failure) => return page.trouble("Jobs", &failure.message),
    };
    page.raw("<section><h2>Jobs</h2>");
    let mut table = Table::new(&["Job", "When", "Next", "Last", "Result"]);
    for job in jobs.iter().take(SHOWN) {
        let field = |name: &str| {
            job.fields
                .get(name)
                .and_then(serde_json::Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let time = |name: &str| {
            Some(field(name))
                .filter(|at| !at.is_empty())
                .map_or_else(|| "–".to_owned(), |at| stamp(&at, zone))
        };
        let result = [field("last_status"), field("last_error")]
            .into_iter()
            .filter(|word| !word.is_empty());
        let result = result.collect::<Vec<String>>().join(": ");
        table.row(&[
            &field("name"),
            &field("schedule"),
            &time("next_at"),
            &time("last_at"),
            &result,
        ]);
    }
    page.table(&table);
    page.raw("</section>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_allows_its_own_style_and_nothing_else() {
        let policy = policy();
        assert!(
            policy.starts_with("default-src 'none'; style-src 'sha256-")
                && !policy.contains("unsafe"),
            "{policy}"
        );
        assert!(
            !STYLE.contains("url(") && !STYLE.contains("@import") && !STYLE.contains('<'),
            "nothing is loaded"
        );
    }
}

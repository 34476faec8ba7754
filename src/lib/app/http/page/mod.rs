//! The page at `/`: a chat, and what the agent is doing. The script in `web/` shows the chat and uses the public API. The
//! status is rendered here, works without the script, and is then reloaded every half minute. Nothing is loaded from
//! other servers.
//!
//! A browser signs in with the form of [`login`]; a program may send the token as the password of any name.

pub(super) mod assets;
mod chart;
mod html;
pub(super) mod login;
pub(super) mod media;

use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono_tz::Tz;
use hyper::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY};
use serde::Deserialize;

use super::Api;
use super::body::Fields;
use super::error::ApiError;
use crate::app::cli::Failure;
use crate::app::table::{Column, Table};
use crate::app::{documents, render};
use crate::clock;
use crate::config::{Environment, Home};
use crate::cost;
use crate::memory::index::{Found, Query as Words};
use crate::memory::{Memory, Viewer};
use crate::monitor_state::Lane;
use html::Html;

/// Where it is.
pub(super) const PATH: &str = "/";

/// Returns true for what is shown to a person with a browser.
pub(super) fn is_page(path: &str) -> bool {
    [PATH, media::PATH, media::PICTURE].contains(&path)
}

/// The chat, with places for the status and for what loads it again.
const APP: &str = include_str!("web/app.html");
/// The chat runs its own script and uses its own server.
const APP_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'";
const STYLE: &str = include_str!("page.css");
/// Conversations, jobs and dead letters that are shown.
const SHOWN: usize = 12;
/// Results of a search, and characters of each.
const HITS: (usize, usize) = (8, 600);
/// The longest question, characters.
const MAX_QUESTION: usize = 400;
/// Days of the chart.
const DAYS: i64 = 14;

/// The parameters of the page.
#[derive(Debug, Deserialize)]
pub(super) struct Asked {
    q: Option<String>,
}

/// Shows the page.
pub(super) async fn page(
    State(api): State<Arc<Api>>,
    Fields(Asked { q }): Fields<Asked>,
) -> Result<Response, ApiError> {
    let question = crate::text::shorten(q.unwrap_or_default().trim(), MAX_QUESTION);
    let (home, env, memory) = (
        api.home.clone(),
        api.env.clone(),
        api.pipeline.memory().clone(),
    );
    let text = crate::sys::blocking(move || draw(&home, &env, &memory, &question)).await;
    let look = Look {
        referrer: "no-referrer",
        policy: APP_POLICY.to_owned(),
    };
    Ok(document(text, look))
}

/// What a page may do.
struct Look {
    /// Which pages are told where their visitor comes from.
    referrer: &'static str,
    /// What it may load and run.
    policy: String,
}

/// Returns a page as it is sent.
fn document(text: String, Look { referrer, policy }: Look) -> Response {
    let headers = [
        (CONTENT_TYPE, "text/html; charset=utf-8"),
        (REFERRER_POLICY, referrer),
        (
            HeaderName::from_static("cross-origin-resource-policy"),
            "same-origin",
        ),
        (CONTENT_SECURITY_POLICY, policy.as_str()),
    ];
    (headers, text).into_response()
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

/// Draws the page: the chat, then the status; a part that cannot be read says so in its place.
fn draw(home: &Home, env: &Environment, memory: &Memory, question: &str) -> String {
    let (zone, _) = documents::zone(home, env);
    let now = clock::now_ms();
    // A question that is being read is not taken away.
    let refresh = if question.is_empty() {
        "<noscript><meta http-equiv=\"refresh\" content=\"30\"></noscript>"
    } else {
        ""
    };
    let (head, rest) = APP.split_once("<!--refresh-->").unwrap_or((APP, ""));
    let (app, foot) = rest.split_once("<!--status-->").unwrap_or((rest, ""));
    let mut page = Html::default();
    page.raw(head).raw(refresh).raw(app);
    state(&mut page, home, env, zone);
    search(&mut page, memory, question, zone);
    costs(&mut page, home, env, zone, now);
    let queue = documents::queue(home);
    section(&mut page, "Queue", queue, render::status::table);
    let sessions = documents::sessions(home, env);
    section(&mut page, "Conversations", sessions, |sessions| {
        render::sessions::table(&sessions.sessions, now)
    });
    let jobs = documents::jobs(home, env);
    section(&mut page, "Jobs", jobs, |jobs| {
        render::jobs::table(jobs, zone)
    });
    footer(&mut page, zone);
    page.raw(foot);
    page.into_text()
}

/// Begins a page without a script.
fn begin(title: &str) -> Html {
    let mut page = Html::default();
    page.raw("<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
    page.text(title).raw("</title>");
    page.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">");
    page.raw("<style>")
        .raw(STYLE)
        .raw("</style></head><body><main>");
    page
}

fn end(mut page: Html, zone: Tz) -> String {
    footer(&mut page, zone);
    page.raw("</main></body></html>");
    page.into_text()
}

fn footer(page: &mut Html, zone: Tz) {
    page.raw("<footer>").text(&format!(
        "{} · agent-toolkit {}",
        clock::local_text(clock::now_ms(), zone),
        env!("CARGO_PKG_VERSION")
    ));
    page.raw("</footer>");
}

fn stamp(at: &str, zone: Tz) -> String {
    clock::parse_rfc3339(at).map_or_else(|| at.to_owned(), |at| clock::local_minute(at, zone))
}

fn state(page: &mut Html, home: &Home, env: &Environment, zone: Tz) {
    let status = match documents::status(home, env) {
        Ok(status) => status,
        Err(failure) => return page.trouble("Agent", &failure.message),
    };
    let monitor = crate::monitor_state::read(&home.monitor());
    let monitor = monitor.ok().flatten().unwrap_or_default();
    page.raw("<header><h1>agent</h1><p class=\"state\">");
    page.text(monitor.activity())
        .raw("</p><p><a href=\"/media\">pictures in words</a></p></header>");
    page.raw("<section><h2>Now</h2><dl>");
    for (name, value) in render::status::facts(&status) {
        page.pair(&name, &value);
    }
    page.raw("</dl>");
    if monitor.lanes.is_empty() {
        page.paragraph("quiet", "Nothing runs.");
    }
    let titles = ["CONVERSATION", "STATE", "STEP", "TOKENS", "SINCE", "TOOLS"];
    let row = |lane: &Lane| {
        vec![
            lane.contact.clone(),
            lane.state.clone(),
            lane.turn.to_string(),
            lane.tokens.to_string(),
            stamp(&lane.started_at, zone),
            lane.tools_in_flight.join(", "),
        ]
    };
    let lanes = monitor.lanes.iter();
    let lanes = lanes.flat_map(|lane| std::iter::once(lane).chain(&lane.children));
    page.table(&Table {
        columns: titles.map(Column::left).to_vec(),
        rows: lanes.map(row).collect(),
    });
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
                page.paragraph("trouble", &error.to_string());
            }
        }
    }
    page.raw("</section>");
}

fn hits(page: &mut Html, found: &Found) {
    if found.hits.is_empty() {
        page.paragraph("quiet", "Nothing is found.");
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
    let days = cost::report(&home.cost_db(), (since, Some(now)), cost::Group::Day(zone));
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
            page.table(&render::cost::table(&month));
        }
        (Err(failure), _) => {
            page.paragraph("trouble", &failure.message);
        }
        (_, Err(error)) => {
            page.paragraph("trouble", &error.to_string());
        }
    }
    page.raw("</section>");
}

/// Shows the first rows of a document, or why there are none.
fn section<T>(
    page: &mut Html,
    title: &str,
    document: Result<T, Failure>,
    table: impl FnOnce(&T) -> Table,
) {
    let mut table = match document {
        Ok(document) => table(&document),
        Err(failure) => return page.trouble(title, &failure.message),
    };
    let more = table.rows.len().saturating_sub(SHOWN);
    table.rows.truncate(SHOWN);
    page.raw("<section><h2>").text(title).raw("</h2>");
    page.table(&table);
    if more > 0 {
        page.paragraph("quiet", &format!("and {more} more"));
    }
    page.raw("</section>");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_allows_its_own_style_and_nothing_else() {
        for policy in [policy(), APP_POLICY.to_owned()] {
            assert!(
                policy.starts_with("default-src 'none'; ") && !policy.contains("unsafe"),
                "{policy}"
            );
        }
        assert!(policy().contains("style-src 'sha256-"), "{}", policy());
        assert!(
            !STYLE.contains("url(") && !STYLE.contains("@import") && !STYLE.contains('<'),
            "nothing is loaded"
        );
    }
}

//! `/metrics`: numbers for Prometheus, in its text format (prometheus.io/docs/instrumenting/exposition_formats).

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::header::CONTENT_TYPE;

use super::Api;
use super::error::ApiError;
use crate::app::documents;
use crate::app::documents::status::Status;

/// Answered requests by status.
#[derive(Default)]
pub(super) struct Counters(Mutex<BTreeMap<u16, u64>>);

impl Counters {
    pub(super) fn count(&self, status: u16) {
        *self.0.lock().entry(status).or_default() += 1;
    }

    fn all(&self) -> BTreeMap<u16, u64> {
        self.0.lock().clone()
    }
}

pub(super) async fn metrics(State(api): State<Arc<Api>>) -> Result<Response, ApiError> {
    let (home, env) = (api.home.clone(), api.env.clone());
    let (status, asked) = crate::sys::blocking(move || {
        let status = documents::status(&home, &env)?;
        Ok::<_, crate::app::cli::Failure>((status, documents::approvals(&home)?.approvals.len()))
    })
    .await?;
    let text = text(
        &status,
        asked,
        api.pipeline.running().len(),
        &api.counters.all(),
    );
    Ok((
        [(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        text,
    )
        .into_response())
}

fn text(status: &Status, asked: usize, runs: usize, requests: &BTreeMap<u16, u64>) -> String {
    let mut page = Page::default();
    daemon(&mut page, status);
    work(&mut page, status, asked, runs);
    money(&mut page, status);
    connections(&mut page, status);
    let requests: Vec<(String, u64)> = requests
        .iter()
        .map(|(status, count)| (status.to_string(), *count))
        .collect();
    let requests: Vec<_> = requests
        .iter()
        .map(|(status, count)| ("status", status.as_str(), count.to_string()))
        .collect();
    page.many(
        "agent_http_requests_total",
        "counter",
        "Requests to this API that were answered.",
        &requests,
    );
    page.0
}

fn daemon(page: &mut Page, status: &Status) {
    page.one(
        "agent_up",
        "gauge",
        "Whether the daemon runs.",
        u8::from(status.running),
    );
    let version = status.version.as_deref().unwrap_or_default();
    page.many(
        "agent_build_info",
        "gauge",
        "The version of the daemon.",
        &[("version", version, 1.to_string())],
    );
    page.one(
        "agent_uptime_seconds",
        "gauge",
        "Uptime of the daemon.",
        status.uptime_secs.unwrap_or(0),
    );
    page.one(
        "agent_sessions",
        "gauge",
        "Sessions.",
        status.active_sessions,
    );
}

fn work(page: &mut Page, status: &Status, asked: usize, runs: usize) {
    page.one("agent_runs", "gauge", "Running turns.", runs);
    page.one("agent_approvals_waiting", "gauge", "Open approvals.", asked);
    let rows = [
        ("inbox", status.queue.inbox),
        ("outbox", status.queue.outbox),
        ("dead", status.queue.dead),
    ];
    let rows = rows.map(|(state, count)| ("state", state, count.to_string()));
    page.many(
        "agent_queue_rows",
        "gauge",
        "Messages not yet answered, replies not yet sent, dead letters.",
        &rows,
    );
    let waits: Vec<_> = status
        .waits
        .iter()
        .map(|one| ("for", one.waits_for.as_str(), one.count.to_string()))
        .collect();
    page.many(
        "agent_messages_waiting",
        "gauge",
        "Accepted messages that cannot be answered now, by what they wait for.",
        &waits,
    );
}

fn money(page: &mut Page, status: &Status) {
    page.one(
        "agent_today_cost_usd",
        "gauge",
        "US dollars since the local midnight.",
        status.today_cost_usd,
    );
    page.one(
        "agent_today_cap_usd",
        "gauge",
        "The daily cap, 0 = none.",
        status.today_cap_usd,
    );
    page.one(
        "agent_today_unpriced_calls",
        "gauge",
        "Calls since midnight without a price.",
        status.today_unpriced_calls,
    );
}

fn connections(page: &mut Page, status: &Status) {
    let channels: Vec<_> = status
        .channels
        .iter()
        .map(|one| ("channel", one.name.as_str(), ok(&one.state)))
        .collect();
    page.many(
        "agent_channel_up",
        "gauge",
        "Whether a channel works.",
        &channels,
    );
    let providers: Vec<_> = status
        .providers
        .iter()
        .map(|one| ("provider", one.name.as_str(), ok(&one.state)))
        .collect();
    page.many(
        "agent_provider_up",
        "gauge",
        "Whether a provider answers.",
        &providers,
    );
}

fn ok(state: &str) -> String {
    u8::from(state == "ok").to_string()
}

#[derive(Default)]
struct Page(String);

impl Page {
    fn one(&mut self, name: &str, kind: &str, help: &str, value: impl std::fmt::Display) {
        self.head(name, kind, help);
        let _ = writeln!(self.0, "{name} {value}");
    }

    /// Each line is a label's name, its value, and the number.
    fn many(&mut self, name: &str, kind: &str, help: &str, lines: &[(&str, &str, String)]) {
        if lines.is_empty() {
            return;
        }
        self.head(name, kind, help);
        for (label, of, value) in lines {
            let of = of
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = writeln!(self.0, "{name}{{{label}=\"{of}\"}} {value}");
        }
    }

    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_break_out_of_its_line() {
        let mut page = Page::default();
        page.one("a", "gauge", "A.", 1.5);
        page.many(
            "b",
            "gauge",
            "B.",
            &[("name", "x\"} 1\nc 2\\", "0".to_owned())],
        );
        page.many("c", "gauge", "C.", &[]);
        assert_eq!(
            page.0,
            "# HELP a A.\n# TYPE a gauge\na 1.5\n# HELP b B.\n# TYPE b gauge\nb{name=\"x\\\"} 1\\nc 2\\\\\"} 0\n"
        );
    }
}

//! `/metrics`: numbers for Prometheus, in its text format (prometheus.io/docs/instrumenting/exposition_formats).

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Arc;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use hyper::header::CONTENT_TYPE;
use serde_json::{Map, Value, json};

use super::Api;
use super::error::ApiError;
use super::queries::read;
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

/// The metrics in their order: name, type and help.
const METRICS: &str = include_str!("metrics.txt");

/// `GET /metrics`.
pub(super) async fn metrics(State(api): State<Arc<Api>>) -> Result<Response, ApiError> {
    let status = read(&api, documents::status).await?;
    let values = values(&status, api.pipeline.running().len(), &api.counters.all());
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Ok(([(CONTENT_TYPE, kind)], text(METRICS, &values)).into_response())
}

/// Returns the value of each metric: a number, or `{label: {name: number}}`.
fn values(status: &Status, runs: usize, requests: &BTreeMap<u16, u64>) -> Value {
    let version = status.version.clone().unwrap_or_default();
    let waits: Map<String, Value> = status
        .waits
        .iter()
        .map(|one| (one.waits_for.clone(), one.count.into()))
        .collect();
    let is_ok = |name: &String, state: &str| (name.clone(), Value::Bool(state == "ok"));
    let channels: Map<String, Value> = status
        .channels
        .iter()
        .map(|one| is_ok(&one.name, &one.state))
        .collect();
    let providers: Map<String, Value> = status
        .providers
        .iter()
        .map(|one| is_ok(&one.name, &one.state))
        .collect();
    json!({
        "agent_up": status.running,
        "agent_build_info": {"version": {version: 1}},
        "agent_uptime_seconds": status.uptime_secs.unwrap_or(0),
        "agent_sessions": status.active_sessions,
        "agent_runs": runs,
        "agent_approvals_waiting": status.questions,
        "agent_queue_rows": {"state": status.queue},
        "agent_messages_waiting": {"for": waits},
        "agent_today_cost_usd": status.today_cost_usd,
        "agent_today_cap_usd": status.today_cap_usd,
        "agent_today_unpriced_calls": status.today_unpriced_calls,
        "agent_channel_up": {"channel": channels},
        "agent_provider_up": {"provider": providers},
        "agent_http_requests_total": {"status": requests},
    })
}

/// Returns the page: each metric of `metrics` that has a value.
fn text(metrics: &str, values: &Value) -> String {
    let number = |value: &Value| match value.as_bool() {
        Some(is_so) => u8::from(is_so).to_string(),
        None => value.to_string(),
    };
    let mut page = String::new();
    for line in metrics.lines() {
        let mut words = line.splitn(3, ' ');
        let mut word = || words.next().unwrap_or_default();
        let (name, kind, help) = (word(), word(), word());
        let label = values[name]
            .as_object()
            .and_then(|labels| labels.iter().next());
        let lines: Vec<String> = match label {
            None => vec![format!("{name} {}", number(&values[name]))],
            Some((label, values)) => {
                let one = |(of, value): (&String, &Value)| {
                    let of = of
                        .replace('\\', "\\\\")
                        .replace('"', "\\\"")
                        .replace('\n', "\\n");
                    format!("{name}{{{label}=\"{of}\"}} {}", number(value))
                };
                values.as_object().into_iter().flatten().map(one).collect()
            }
        };
        if !lines.is_empty() {
            let lines = lines.join("\n");
            let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_label_cannot_break_out_of_its_line() {
        let values = json!({"a": 1.5, "b": {"name": {"x\"} 1\nc 2\\": false}}, "c": {"name": {}}});
        assert_eq!(
            text("a gauge A.\nb gauge B.\nc gauge C.", &values),
            "# HELP a A.\n# TYPE a gauge\na 1.5\n# HELP b B.\n# TYPE b gauge\nb{name=\"x\\\"} 1\\nc 2\\\\\"} 0\n"
        );
    }

    #[test]
    fn every_metric_has_a_value_and_a_help() {
        let values = values(&Status::default(), 0, &BTreeMap::new());
        let named: Vec<&str> = METRICS
            .lines()
            .filter_map(|line| line.split(' ').next())
            .collect();
        let known: Vec<&String> = values.as_object().expect("an object").keys().collect();
        assert_eq!(named, known);
    }
}

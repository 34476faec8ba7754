//! The same question has the same answer in the shell and over HTTP.

use serde_json::{Value, json};

use super::Api;

/// Fields that time changes between two questions.
const OF_TIME: [&str; 4] = ["uptime_secs", "updated_at", "last_ok_at", "last_update_at"];

fn without_time(mut document: Value) -> Value {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                fields.retain(|name, _| !OF_TIME.contains(&name.as_str()));
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    strip(&mut document);
    document
}

#[test]
fn documents_are_those_of_the_shell() {
    let api = Api::with("[cost]\nday_usd = 3.0");
    api.chat(&json!({"message": "[[tool exec {\"command\": \"printf 42\"}]]", "sender": "ada"}));
    let second = api.chat(&json!({"message": "second", "sender": "ada"}));
    let [session, run] =
        ["session_id", "run_id"].map(|name| second[name].as_str().expect("an id").to_owned());
    api.sandbox
        .send(&["--wait", "--from", "eve", "from the shell"]);
    api.post("/api/v1/notify", &json!({"message": "reaches nobody"}));
    crate::support::wait_for("the dead letter", super::SOON, || {
        (api.get("/api/v1/queue").json()["dead"]
            .as_array()
            .map(Vec::len)
            == Some(1))
        .then_some(())
    });
    // What is shown of a run that has ended settles within a moment.
    crate::support::wait_for("a daemon at rest", super::SOON, || {
        let monitor = api.get("/api/v1/monitor").json();
        let rests = monitor["state"] == "idle"
            && monitor["active_sessions"] == 3
            && monitor["queue"]["dead"] == 1;
        rests.then_some(())
    });
    let history = format!("/api/v1/sessions/{session}/history");
    let mut questions: Vec<(String, Vec<&str>)> = vec![
        (format!("/api/v1/explain/{run}"), vec!["--explain", &run]),
        ("/api/v1/sessions".into(), vec!["--sessions"]),
        ("/api/v1/queue".into(), vec!["--queue"]),
        ("/api/v1/monitor".into(), vec!["--monitor"]),
        ("/api/v1/status".into(), vec!["--status"]),
        ("/api/v1/cost".into(), vec!["--cost"]),
        (history.clone(), vec!["--history", &session]),
        (
            format!("{history}?full=true"),
            vec!["--history", &session, "--full"],
        ),
        (
            "/api/v1/sessions/http:ada/history".into(),
            vec!["--history", "http:ada"],
        ),
        (
            "/api/v1/sessions/nobody/history".into(),
            vec!["--history", "nobody"],
        ),
    ];
    for period in ["today", "week", "month", "all"] {
        questions.push((
            format!("/api/v1/cost?period={period}"),
            vec!["--cost", period],
        ));
        for by in ["model", "session", "source", "day"] {
            questions.push((
                format!("/api/v1/cost?period={period}&by={by}"),
                vec!["--cost", period, "--by", by],
            ));
        }
    }
    for (path, arguments) in questions {
        let arguments: Vec<&str> = arguments.into_iter().chain(["--json"]).collect();
        let (shell, http) = (api.sandbox.send(&arguments).json(), api.get(&path));
        assert_eq!(http.status, 200, "{path}");
        assert_eq!(without_time(http.json()), without_time(shell), "{path}");
    }
    assert_eq!(api.get("/api/v1/explain/nothing").status, 404);
    assert!(
        api.get(&history).json()["events"]
            .as_array()
            .is_some_and(|events| events.len() > 3)
    );
}

#[test]
fn numbers_for_machines_and_a_description_for_programs() {
    let api = Api::new();
    api.chat(&json!({"message": "hello"}));
    crate::support::wait_for("the daemon to note it", super::SOON, || {
        (api.get("/api/v1/status").json()["active_sessions"] == 1).then_some(())
    });
    let answer = api.get("/metrics");
    assert!(
        answer
            .header("content-type")
            .is_some_and(|kind| kind.starts_with("text/plain; version=0.0.4")),
        "{answer:?}"
    );
    let text = answer.text();
    for line in text.lines() {
        let good = line.starts_with("# HELP agent_") || line.starts_with("# TYPE agent_");
        let number = line
            .rsplit_once(' ')
            .and_then(|(_, number)| number.parse::<f64>().ok());
        assert!(
            good || (line.starts_with("agent_") && number.is_some()),
            "{line}"
        );
    }
    for line in [
        "agent_up 1",
        "agent_sessions 1",
        "agent_provider_up{provider=\"mock\"} 1",
    ] {
        assert!(text.lines().any(|other| other == line), "{line}:\n{text}");
    }
    assert!(
        text.contains("agent_http_requests_total{status=\"200\"} "),
        "{text}"
    );
    let description = api.get("/openapi.json").json();
    assert_eq!(description["openapi"], "3.1.0");
    for (path, item) in description["paths"].as_object().expect("paths") {
        // What is described is there: nobody answers 404 for the path itself, or 405 for its method.
        let path = path.replace("{id}", "x").replace("{model}", "agent");
        for method in item.as_object().expect("an item").keys() {
            let answer = api.client.request(
                &method.to_uppercase(),
                &path,
                &[("content-type", "application/json")],
                b"{}",
            );
            let missing = answer.status == 404 && answer.text().contains("nothing is here");
            assert!(
                !missing && answer.status != 405,
                "{method} {path}: {answer:?}"
            );
        }
    }
}

//! What stands in the pages of files and lines that programs exchange: the commands, the replies, monitor.json.

use std::collections::BTreeSet;

use agent_toolkit::{
    control::{self, Attachment, Command as Order, Id, Words, replies},
    message::{Approval, JobOrder},
    monitor_state,
};
use serde_json::{Value, json};

use super::{
    compare,
    mdoc::{Item, Page, Place},
    report,
};

fn keys(value: &Value) -> Vec<String> {
    value
        .as_object()
        .into_iter()
        .flatten()
        .map(|(key, _)| key.clone())
        .collect()
}

/// Returns the names at the margin of a list of fields.
fn fields<'a>(items: impl Iterator<Item = &'a Item>) -> Vec<String> {
    items
        .flat_map(|item| item.head.of("Va"))
        .map(str::to_owned)
        .collect()
}

fn to_json(value: impl serde::Serialize) -> Value {
    serde_json::to_value(value).expect("plain data")
}

#[test]
fn the_fields_of_monitor_json_are_those_of_the_page() {
    let page = Page::read("agent-monitor.1");
    let items = || page.section("JSON DOCUMENT");
    let mut wrong = compare(
        &page.file,
        "JSON DOCUMENT",
        &keys(&to_json(monitor_state::State::default())),
        &fields(items()),
    );
    let inner = |name: &str, values: &[Value]| {
        let expected: Vec<String> = values
            .iter()
            .flat_map(keys)
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect();
        let item = items().find(|item| item.head.of("Va").contains(&name));
        let found = item.map(|item| {
            item.body
                .of("Ql")
                .into_iter()
                .map(str::to_owned)
                .collect::<BTreeSet<_>>()
        });
        // A word of these may be a field or what stands in it.
        let missing = expected
            .into_iter()
            .filter(|key| !found.iter().flatten().any(|word| word == key));
        missing
            .map(|key| {
                format!(
                    "man/{}: JSON DOCUMENT: {name}: there is no `.Ql {key}`",
                    page.file
                )
            })
            .collect::<Vec<_>>()
    };
    wrong.extend(inner(
        "lanes",
        &[
            to_json(monitor_state::Lane::default()),
            to_json(monitor_state::TurnLine::default()),
        ],
    ));
    wrong.extend(inner("queue", &[to_json(monitor_state::Queue::default())]));
    wrong.extend(inner(
        "channels",
        &[to_json(monitor_state::ChannelState::default())],
    ));
    wrong.extend(inner(
        "providers",
        &[to_json(monitor_state::ProviderState::default())],
    ));
    report(&wrong);
}

#[test]
fn the_fields_of_a_reply_are_those_of_the_page() {
    let page = Page::read("agent-send.1");
    let text = String::new;
    let ask = replies::Ask {
        id: text(),
        tool: text(),
        text: text(),
        why: text(),
        expires_at: text(),
    };
    let reply = replies::Reply {
        reply: Some(String::new()),
        session_id: Some(String::new()),
        run_id: Some(String::new()),
        tokens: Some(1),
        output_tokens: Some(1),
        cost_usd: Some(1.0),
        silent: Some(true),
        asks: vec![ask],
        ..replies::Reply::error("x", "why")
    };
    let place = Place {
        section: "PROTOCOL".to_owned(),
        subsection: Some("Replies".to_owned()),
    };
    let found = fields(page.items.iter().filter(|item| item.place == place));
    report(&compare(
        &page.file,
        "PROTOCOL, Replies",
        &keys(&to_json(reply)),
        &found,
    ));
}

/// Returns what can be asked for of a new job, every field of it set.
fn job_fields() -> Value {
    json!({
        "name": "x", "at": "x", "every": "1h", "cron": "x", "tz": "x", "text": "x", "literal": true, "deliver": true, "to": "x",
        "topic": "x", "session": "main", "model": "x", "missed": "all", "overlap": "queue", "delete_after_run": true,
        "budget_usd": 1.0, "by": "x",
    })
}

/// Returns each command of the protocol with every field set.
fn orders() -> Vec<Order> {
    let some = || Some("x".to_owned());
    let words = || Words {
        text: "x".to_owned(),
        context: some(),
        tier: some(),
        model: some(),
        untrusted: true,
    };
    let attachment = Attachment {
        path: "/x".to_owned(),
        content_type: some(),
        filename: some(),
    };
    let text = || "x".to_owned();
    vec![
        Order::User {
            words: words(),
            sender: text(),
            session: some(),
            stream: true,
            attachments: vec![attachment.clone()],
        },
        Order::System {
            words: words(),
            source: some(),
        },
        Order::Notify {
            words: words(),
            source: text(),
            reference: some(),
            data: Some(json!(1)),
            attachments: vec![attachment.clone()],
        },
        Order::Raw {
            to: text(),
            text: text(),
            attachments: vec![attachment.clone()],
            topic: some(),
            reply_to: some(),
            emoji: some(),
        },
        Order::Reset { target: text() },
        Order::Compact { session: some() },
        Order::Undo { run: some() },
        Order::Forget {
            target: text(),
            hard: true,
        },
        Order::Job(JobOrder::Add {
            job: text(),
            ask: job_fields(),
        }),
        Order::Heartbeat,
        Order::Stop { session: some() },
        Order::Approval {
            request: text(),
            verdict: Approval::Deny,
            why: some(),
        },
        Order::Reload,
        Order::Spool { id: Id::new() },
    ]
}

#[test]
fn the_commands_of_the_protocol_are_those_of_the_page() {
    let page = Page::read("agent-send.1");
    let expected: Vec<(String, BTreeSet<String>)> = orders()
        .iter()
        .map(|order| {
            let line: Value =
                serde_json::from_str(&control::encode(&Id::new(), order)).expect("a line is JSON");
            let verb = line["cmd"].as_str().expect("a verb").to_owned();
            // The id stands before the list, for all of them.
            let fields = keys(&line).into_iter().filter(|key| {
                !["v", "cmd"].contains(&key.as_str()) && (key != "id" || verb == "spool")
            });
            (verb.clone(), fields.collect())
        })
        .collect();
    let head = |item: &Item| {
        let fields = item.head.of("Pq").concat();
        let fields: BTreeSet<String> = fields
            .split(',')
            .map(|field| field.trim_end_matches('?').to_owned())
            .filter(|field| !field.is_empty())
            .collect();
        (item.head.of("Cm").concat(), fields)
    };
    let found: Vec<(String, BTreeSet<String>)> = page.section("PROTOCOL").map(head).collect();
    let lines = |list: &[(String, BTreeSet<String>)]| {
        list.iter()
            .map(|(verb, fields)| {
                format!(
                    "{verb} {}",
                    fields.iter().cloned().collect::<Vec<_>>().join(" ")
                )
            })
            .collect::<Vec<_>>()
    };
    let mut wrong = compare(&page.file, "PROTOCOL", &lines(&expected), &lines(&found));
    for item in page.section("PROTOCOL") {
        let required = item.head.of("Pq").concat();
        let mut line = json!({"id": "a", "cmd": item.head.of("Cm").concat()});
        for field in required
            .split(',')
            .filter(|field| !field.is_empty() && !field.ends_with('?'))
        {
            line[field] = json!(match field {
                "verdict" => "approve",
                "op" => "add",
                _ => "x",
            });
        }
        if let Err(bad) = control::decode(line.to_string().as_bytes()) {
            wrong.push(format!(
                "man/{}:{}: a command with the fields without ? is refused: {bad}",
                page.file, item.line
            ));
        }
    }
    report(&wrong);
}

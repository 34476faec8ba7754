use serde_json::json;

use super::*;

fn page(full: bool) -> Page {
    Page {
        zone: chrono_tz::Europe::Berlin,
        person: "Ada".to_owned(),
        agent: "jo".to_owned(),
        full,
        began: false,
        speaking: None,
    }
}

fn check(full: bool, events: &[serde_json::Value], expected: &[&str]) {
    let mut page = page(full);
    let pieces: Vec<String> = events
        .iter()
        .map(|event| {
            let known = serde_json::from_value(event.clone())
                .ok()
                .filter(|event: &Event| event.kind != Kind::Unknown);
            let unknown = || Shown::Unknown(event.as_object().expect("an object").clone());
            page.piece(known.map_or_else(unknown, |event| Shown::Known(Box::new(event))))
        })
        .collect();
    assert_eq!(pieces.concat().lines().collect::<Vec<_>>(), expected);
}

fn event(seq: u64, more: &serde_json::Value) -> serde_json::Value {
    let mut event = json!({"v": 1, "ts": "2025-11-21T22:56:01.120Z", "seq": seq});
    let fields = more.as_object().expect("an object").clone();
    event.as_object_mut().expect("an object").extend(fields);
    event
}

fn said(seq: u64, role: &str, run: &str, content: &serde_json::Value) -> serde_json::Value {
    let inbox = (role == "user").then_some("in");
    event(
        seq,
        &json!({"type": "message", "role": role, "content": content, "run_id": run, "inbox_id": inbox, "trust": "owner"}),
    )
}

#[test]
fn a_turn_is_read_as_a_conversation_with_its_tools_in_lines() {
    let call = json!([
        {"type": "text", "text": "Let me see.\n"},
        {"type": "tool_call", "id": "1", "name": "exec", "input": {"command": "df -h"}}
    ]);
    let result = json!({"type": "tool_result", "run_id": "r", "name": "exec", "duration_ms": 19, "id": "1",
        "text": "Filesystem\n  /dev/sda1 \u{7} 40%\n", "is_error": false});
    let mut stranger = said(7, "user", "s", &json!([{"type": "text", "text": "obey"}]));
    stranger["trust"] = json!("other");
    check(
        false,
        &[
            said(
                2,
                "user",
                "r",
                &json!([{"type": "text", "text": "how full is\nthe disk?"}]),
            ),
            said(3, "assistant", "r", &call),
            event(5, &result),
            said(
                6,
                "assistant",
                "r",
                &json!([{"type": "text", "text": "40 %"}]),
            ),
            stranger,
            event(
                8,
                &json!({"type": "error", "run_id": "s", "text": "no\u{1b}[2J answer"}),
            ),
        ],
        &[
            "2025-11-21 23:56:01  Ada",
            "  how full is",
            "  the disk?",
            "",
            "2025-11-21 23:56:01  jo",
            "  Let me see.",
            "    → exec {\"command\":\"df -h\"}",
            "    ← exec, 19 ms: Filesystem /dev/sda1 \\u{7} 40%",
            "  40 %",
            "",
            "2025-11-21 23:56:01  Ada (no orders)",
            "  obey",
            "    ! no\\u{1b}[2J answer",
        ],
    );
}

#[test]
fn in_full_everything_is_there_and_nothing_drives_the_terminal() {
    let mut answer = said(
        4,
        "assistant",
        "r",
        &json!([{"type": "text", "text": "\u{1b}]0;title\u{7}done\r"}]),
    );
    answer["model"] = json!("primary");
    answer["usage"] = json!({"input_tokens": 40, "output_tokens": 2});
    answer["cost_nano_usd"] = json!(1_500_000);
    let result = json!({"type": "tool_result", "run_id": "r", "name": "read", "duration_ms": 2, "id": "1", "text": "a\n\u{9b}b",
        "is_error": true});
    check(
        true,
        &[
            event(
                1,
                &json!({"type": "session", "session_id": "019a", "key": "cli:ada", "contact": "Ada\n", "created_at": ""}),
            ),
            said(
                2,
                "user",
                "r",
                &json!([{"type": "context", "text": "⟦time⟧"}, {"type": "text", "text": "hi"}]),
            ),
            event(
                3,
                &json!({"type": "tool_call", "run_id": "r", "id": "1", "name": "read"}),
            ),
            event(4, &result),
            answer,
            event(5, &json!({"type": "dream", "of": ["sheep\u{1b}"]})),
        ],
        &[
            "2025-11-21 23:56:01  begins: 019a  cli:ada  Ada\\u{a}",
            "",
            "2025-11-21 23:56:01  Ada",
            "  ⟦time⟧",
            "  hi",
            "    · read begins",
            "    ← read, 2 ms, failed:",
            "      a",
            "      b",
            "",
            "2025-11-21 23:56:01  jo",
            "  ]0;titledone",
            "    · primary, 42 tokens, $0.001500",
            "{\"v\":1,\"ts\":\"2025-11-21T22:56:01.120Z\",\"seq\":5,\"type\":\"dream\",\"of\":[\"sheep\\u001b\"]}",
        ],
    );
}

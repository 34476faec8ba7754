use serde_json::{Value, json};

use super::assemble::{assemble, blocks, ended, together};
use super::*;
use crate::message::{Envelope, Sender, SessionKey, Source, Usage};
use crate::queue::{Asking, Traced};
use crate::session::{Event, Head, PromptBlock};

const START: i64 = 1_790_000_000_000;

fn event(after_ms: i64, more: &Value) -> Event {
    let mut event = json!({"v": 1, "ts": clock::rfc3339(START + after_ms), "seq": 1});
    event
        .as_object_mut()
        .expect("an object")
        .extend(more.as_object().expect("an object").clone());
    serde_json::from_value(event).expect("an event")
}

fn heard(after_ms: i64, words: &str) -> Event {
    let content = json!([{"type": "context", "text": "⟦noon⟧"}, {"type": "text", "text": words}]);
    event(
        after_ms,
        &json!({"type": "message", "role": "user", "content": content, "run_id": "r", "inbox_id": "tg:1:5", "trust": "owner"}),
    )
}

fn said(after_ms: i64, content: &Value, tokens: u64) -> Event {
    let usage = json!({"input_tokens": tokens, "output_tokens": 9, "cache_read_tokens": 60, "cache_write_tokens": 1});
    event(
        after_ms,
        &json!({"type": "message", "role": "assistant", "content": content, "run_id": "r", "model": "primary",
                "stop": "end_turn", "usage": usage, "cost_nano_usd": 1_000_000}),
    )
}

fn prompt(after_ms: i64) -> Event {
    let block =
        |name: &str, tier: &str, tokens: u64| json!({"name": name, "tier": tier, "tokens": tokens});
    event(
        after_ms,
        &json!({"type": "prompt", "run_id": "r", "inputs": ["tg:1:5", "tg:1:6"], "source": "telegram", "model": "primary",
                "received_at": clock::rfc3339(START), "gathered_at": clock::rfc3339(START + 300),
                "started_at": clock::rfc3339(START + 800),
                "blocks": [block("tools", "tools", 30), block("SOUL.md", "stable", 30), block("message", "message", 40)],
                "memories": [{"kind": "fact", "place": "a.md:3", "score": 1.5}, {"kind": "fact", "place": "b.md:1", "dropped": true}]}),
    )
}

fn found(events: Vec<Event>) -> Option<Found> {
    let head = Head {
        session_id: "s".into(),
        key: "cli:a".into(),
        contact: "a".into(),
        created_at: String::new(),
    };
    Some(Found {
        run_id: "r".into(),
        head,
        archived: false,
        events,
    })
}

fn row(after_ms: i64, tokens: u64, ok: Option<bool>) -> Call {
    Call {
        run_id: "r".into(),
        session_id: "s".into(),
        at: START + after_ms,
        source: "telegram".into(),
        model: "primary".into(),
        kind: "chat".into(),
        usage: Usage {
            input_tokens: tokens,
            output_tokens: 9,
            cache_read_tokens: 60,
            cache_write_tokens: 1,
            estimated: false,
        },
        cost_nano_usd: Some(1_000_000),
        duration_ms: ok.map(|_| 100),
        ok,
    }
}

fn input(state: &str, reason: Option<&str>) -> Traced {
    let sender = Sender {
        id: "1".into(),
        name: "Ada".into(),
        username: None,
    };
    let envelope = Envelope::new(
        "tg:1:5".into(),
        Source::Telegram,
        sender,
        SessionKey("cli:a".into()),
        "hi".into(),
        START,
    );
    Traced {
        envelope,
        state: state.into(),
        reason: reason.map(str::to_owned),
        run_id: Some("r".into()),
        attempts: 1,
        finished_at: (state == "done").then_some(START + 9_000),
        result: None,
        tainted: false,
        suspended: None,
        waited_since: None,
    }
}

fn known(trace: Option<Trace>, events: Vec<Event>, calls: Vec<Call>) -> Known {
    Known {
        now: START + 60_000,
        id: "r".into(),
        trace: trace.unwrap_or_default(),
        found: found(events),
        calls,
    }
}

fn trace(input: Traced) -> Option<Trace> {
    Some(Trace {
        run_id: Some("r".into()),
        inputs: vec![input],
        ..Trace::default()
    })
}

fn shown(step: &Step) -> String {
    match step {
        Step::Model(call) => {
            let purpose = call.purpose.as_deref().unwrap_or("answer");
            format!(
                "{} {purpose} {:?} {:?} {}",
                call.model_call, call.ok, call.duration_ms, call.input_tokens
            )
        }
        Step::Tool(call) => format!(
            "{} {} {:?} {}",
            call.tool, call.state, call.duration_ms, call.input
        ),
    }
}

fn turn() -> Vec<Event> {
    let calls = json!([
        {"type": "tool_call", "id": "1", "name": "exec", "input": {"command": "df\n -h"}},
        {"type": "tool_call", "id": "2", "name": "read", "input": {"path": "a", "offset": 2}},
        {"type": "tool_call", "id": "3", "name": "status", "input": {}}
    ]);
    let result = |after_ms: i64, id: &str, name: &str, is_error: bool, receipt: Option<&str>| {
        let mut fields = json!({"type": "tool_result", "run_id": "r", "name": name, "duration_ms": 7, "id": id, "text": "x", "is_error": is_error});
        if let Some(receipt) = receipt {
            fields["receipt"] = json!(receipt);
        }
        event(after_ms, &fields)
    };
    vec![
        heard(900, "how full?"),
        prompt(900),
        said(3_000, &calls, 40),
        event(
            3_000,
            &json!({"type": "tool_call", "run_id": "r", "id": "1", "name": "exec"}),
        ),
        result(3_007, "1", "exec", false, Some("ran df")),
        result(3_007, "2", "read", true, None),
        said(5_000, &json!([{"type": "text", "text": "40 %"}]), 41),
    ]
}

#[test]
fn each_call_stands_where_it_began_with_what_the_ledger_knows_of_it() {
    let mut recall = row(850, 5, Some(true));
    recall.source = "recall".into();
    let calls = vec![
        recall,
        row(1_000, 0, Some(false)),
        row(2_500, 40, Some(true)),
        row(4_000, 41, Some(true)),
        row(6_000, 0, None),
    ];
    let explained = assemble(&known(trace(input("done", None)), turn(), calls));
    let steps: Vec<String> = explained.steps.iter().map(shown).collect();
    assert_eq!(
        steps,
        [
            "primary recall Some(true) Some(100) 66",
            "primary answer Some(false) Some(100) 61",
            "primary answer Some(true) Some(100) 101",
            "exec done Some(7) df -h",
            "read not_run Some(7) {\"path\":\"a\",\"offset\":2}",
            "status waiting None ",
            "primary answer Some(true) Some(100) 102",
            "primary answer None None 61",
        ]
    );
    // 2,500 − 1,000 − 100.
    let waits = Waits {
        gather_ms: Some(300),
        queue_ms: Some(500),
        prepare_ms: Some(100),
        approvals_ms: Some(0),
        subagents_ms: Some(0),
        retries_ms: Some(1_400),
    };
    assert_eq!(explained.waits, waits);
    assert_eq!(
        (
            explained.cost_usd,
            explained.state,
            explained.reply.as_deref()
        ),
        (0.005, "done", Some("40 %"))
    );
    assert_eq!(
        (explained.text.as_str(), explained.receipts),
        ("how full?", vec!["ran df".to_owned()])
    );
    assert_eq!(explained.inputs, ["tg:1:5", "tg:1:6"]);
    let memories: Vec<(&str, bool)> = explained
        .memories
        .iter()
        .map(|memory| (memory.place.as_str(), memory.dropped))
        .collect();
    assert_eq!(memories, [("a.md:3", false), ("b.md:1", true)]);
    assert_eq!(
        (explained.gone, explained.cache_read_ratio),
        (Vec::<String>::new(), Some(0.594))
    );
}

#[test]
fn a_wait_for_a_model_that_is_known_to_be_away_counts_without_a_call() {
    let retries = |input: Traced, calls: Vec<Call>| {
        let explained = assemble(&known(trace(input), turn(), calls));
        explained.waits.retries_ms
    };
    let waited = |state: &str| Traced {
        waited_since: Some(START + 1_000),
        ..input(state, None)
    };
    // The first call comes after the wait, or never.
    let answered = || row(8_000, 40, Some(true));
    assert_eq!(retries(waited("done"), vec![answered()]), Some(7_000));
    assert_eq!(retries(waited("dead"), Vec::new()), Some(59_000));
    // What failed counts once.
    let calls = vec![row(900, 0, Some(false)), answered()];
    assert_eq!(retries(waited("done"), calls), Some(7_000));
    let calls = vec![row(900, 0, Some(false)), row(4_900, 0, Some(false))];
    assert_eq!(retries(waited("pending"), calls), Some(58_900));
    assert_eq!(retries(input("done", None), Vec::new()), None);
}

#[test]
fn of_a_run_that_the_queue_forgot_the_transcript_is_told_and_what_is_missing() {
    let explained = assemble(&known(None, turn(), Vec::new()));
    assert_eq!(
        (explained.state, explained.message.as_deref()),
        ("done", Some("tg:1:5"))
    );
    assert_eq!(
        (
            explained.cost_usd,
            explained.attempts,
            explained.waits.approvals_ms
        ),
        (0.002, None, None)
    );
    assert_eq!(explained.finished_at, Some(clock::rfc3339(START + 5_000)));
    assert_eq!(explained.gone.len(), 2, "{:?}", explained.gone);
    assert!(
        explained.gone[0].contains("kept 14 days") && explained.gone[1].contains("cost.db"),
        "{:?}",
        explained.gone
    );

    // As an older release wrote it.
    let old: Vec<Event> = turn()
        .into_iter()
        .filter(|event| !matches!(event.kind, crate::session::Kind::Prompt(_)))
        .collect();
    let explained = assemble(&known(trace(input("done", None)), old, Vec::new()));
    assert_eq!(
        (
            explained.prompt_blocks.len(),
            explained.waits.queue_ms,
            explained.waits.gather_ms
        ),
        (0, None, Some(0))
    );
    assert!(explained.gone[0].contains("prompt"), "{:?}", explained.gone);
    assert_eq!(explained.started_at, Some(clock::rfc3339(START + 900)));
}

#[test]
fn blocks_are_cached_from_the_front_as_far_as_the_vendor_read() {
    let block = |name: &str, tier, tokens| PromptBlock {
        name: name.into(),
        tier,
        tokens,
        cut: false,
    };
    let noted = [
        block("tools", PromptTier::Tools, 500),
        block("SOUL.md", PromptTier::Stable, 300),
        block("conversation", PromptTier::Conversation, 190),
        block("message", PromptTier::Message, 10),
    ];
    let check = |read: u64, rest: u64, expected: &[Option<bool>]| {
        let usage = Usage {
            input_tokens: rest,
            cache_read_tokens: read,
            ..Usage::default()
        };
        let cached: Vec<Option<bool>> = blocks(&noted, Some(usage))
            .iter()
            .map(|block| block.cached)
            .collect();
        assert_eq!(cached, expected, "{read} of {}", read + rest);
    };
    let (yes, no) = (Some(true), Some(false));
    check(0, 1_000, &[no; 4]);
    check(500, 500, &[yes, no, no, no]);
    // The vendor counts twice what we estimate.
    check(1_600, 400, &[yes, yes, no, no]);
    // What is new was never sent, however much was read.
    check(1_000, 1, &[yes, yes, yes, no]);
    assert!(
        blocks(&noted, None)
            .iter()
            .all(|block| block.cached.is_none()),
        "nothing was answered yet"
    );
    assert!(
        blocks(&[block("a", PromptTier::Tools, 0)], Some(Usage::default()))
            .iter()
            .all(|block| block.cached == no)
    );
}

#[test]
fn how_it_ended_is_said_of_every_end() {
    let error = |text: &str| {
        vec![
            heard(0, "x"),
            event(1, &json!({"type": "error", "run_id": "r", "text": text})),
        ]
    };
    let check = |input: Option<Traced>, events: &[Event], expected: (&str, Option<&str>)| {
        let (state, reason) = ended(input.as_ref(), events);
        assert_eq!((state, reason.as_deref()), expected);
    };
    check(Some(input("pending", None)), &[], ("waiting", None));
    check(Some(input("running", None)), &[], ("running", None));
    check(
        Some(input("dead", Some("gone"))),
        &[],
        ("dead", Some("gone")),
    );
    check(
        Some(input("done", Some("stopped"))),
        &error("stopped"),
        ("stopped", None),
    );
    check(
        Some(input("done", Some("interrupted"))),
        &error("the next message came"),
        ("interrupted", None),
    );
    check(
        Some(input("done", Some("timeout"))),
        &error("too long"),
        ("failed", Some("too long")),
    );
    check(
        Some(input("done", Some("timeout"))),
        &[],
        ("failed", Some("timeout")),
    );
    check(
        Some(input("done", None)),
        &error("no model"),
        ("failed", Some("no model")),
    );
    check(Some(input("done", None)), &turn(), ("done", None));
    check(None, &error("stopped"), ("stopped", None));
    check(None, &error("the next message came"), ("interrupted", None));
    check(None, &error("no model"), ("failed", Some("no model")));
    check(None, &turn(), ("done", None));
    check(None, &[heard(0, "x")], ("unknown", None));
}

#[test]
fn waits_that_overlap_are_counted_once_and_open_ones_until_now() {
    assert_eq!(together(vec![(5, 9), (0, 4), (3, 6), (20, 10)]), 9);
    assert_eq!(together(Vec::new()), 0);
    let asking = |state: &str, created_at: i64, decided_at: Option<i64>| Asking {
        id: "k3f9".into(),
        tool: "exec".into(),
        question: "df".into(),
        why: "so".into(),
        state: state.into(),
        answer: None,
        created_at: START + created_at,
        expires_at: START + created_at + 20_000,
        decided_at: decided_at.map(|at| START + at),
    };
    let asked = vec![
        asking("used", 1_000, Some(3_000)),
        asking("pending", 2_000, None),
        asking("pending", 55_000, None),
    ];
    let trace = Trace {
        approvals: asked,
        ..trace(input("running", None)).expect("a trace")
    };
    let explained = assemble(&known(Some(trace), vec![heard(900, "x")], Vec::new()));
    let states: Vec<(&str, i64)> = explained
        .approvals
        .iter()
        .map(|one| (one.state.as_str(), one.waited_ms))
        .collect();
    assert_eq!(
        states,
        [("used", 2_000), ("expired", 20_000), ("pending", 5_000)]
    );
    assert_eq!(explained.waits.approvals_ms, Some(21_000 + 5_000));
    assert_eq!(explained.tainted, None, "it has not ended");
}

#[test]
fn what_was_erased_is_named_and_its_results_stay() {
    let mut events = turn();
    events[2] = event(3_000, &json!({"type": "forgotten", "run_id": "r"}));
    let explained = assemble(&known(trace(input("done", None)), events, Vec::new()));
    let steps: Vec<String> = explained.steps.iter().map(shown).collect();
    assert_eq!(
        steps,
        [
            "exec done Some(7) ",
            "read not_run Some(7) ",
            "primary answer Some(true) None 102"
        ]
    );
    assert!(
        explained.gone.iter().any(|gone| gone.contains("erased")),
        "{:?}",
        explained.gone
    );
}

#[test]
fn a_sub_agent_is_paid_by_whoever_sent_it_and_shows_its_own_share() {
    let mut events = turn();
    if let crate::session::Kind::Prompt(prompt) = &mut events[1].kind {
        prompt.parent = Some("p".into());
    }
    let of_parent = Call {
        run_id: "p".into(),
        session_id: "other".into(),
        ..row(100, 5, Some(true))
    };
    let own = Call {
        run_id: "p".into(),
        ..row(2_500, 40, Some(true))
    };
    let explained = assemble(&known(None, events, vec![of_parent, own]));
    assert_eq!(
        explained.parent.map(|parent| parent.run_id).as_deref(),
        Some("p")
    );
    assert_eq!(
        (explained.cost_usd, explained.run_id.as_deref()),
        (0.001, Some("r"))
    );
}

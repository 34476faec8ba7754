use super::*;
use crate::app::documents::explain::Job as ExplainedJob;
use crate::session::Recollection;

fn whole() -> Explain {
    let block = |name: &str, tier, tokens, cached| Block {
        name: name.into(),
        tier,
        tokens,
        cached,
        cut: tokens > 5_000,
    };
    let memory = |place: &str, score, dropped| Recollection {
        kind: "fact".into(),
        place: place.into(),
        score,
        dropped,
    };
    let model = ModelCall {
        model_call: "primary".into(),
        purpose: None,
        at: "2025-11-21T22:56:01.120Z".into(),
        duration_ms: Some(2_140),
        ok: Some(true),
        input_tokens: 3_412,
        cache_read_tokens: 3_000,
        cache_write_tokens: 0,
        output_tokens: 120,
        estimated: false,
        cost_usd: Some(0.0041),
    };
    let tool = ToolCall {
        tool: "exec".into(),
        input: "df -h".into(),
        at: Some("2025-11-21T22:56:03.000Z".into()),
        duration_ms: Some(19),
        state: "done",
        receipt: None,
    };
    Explain {
        run_id: Some("019a".into()),
        message: Some("job:b:5".into()),
        received_at: Some("2025-11-21T22:56:00.000Z".into()),
        started_at: Some("2025-11-21T22:56:00.800Z".into()),
        finished_at: Some("2025-11-21T22:57:10.000Z".into()),
        waits: Waits {
            queue_ms: Some(800),
            approvals_ms: Some(62_000),
            gather_ms: Some(0),
            ..Waits::default()
        },
        prompt_blocks: vec![
            block("tools", PromptTier::Tools, 3_000, Some(true)),
            block("本居宣長.md", PromptTier::Stable, 12_345, Some(false)),
        ],
        memories: vec![
            memory("a.md:3", Some(1.5), false),
            memory("b.md:1", None, true),
        ],
        steps: vec![
            Step::Model(model.clone()),
            Step::Tool(tool),
            Step::Model(ModelCall {
                ok: Some(false),
                purpose: Some("recall".into()),
                ..model
            }),
        ],
        approvals: vec![Approval {
            id: "k3f9".into(),
            tool: "exec".into(),
            text: "df -h\u{1b}[2J".into(),
            why: "so".into(),
            state: "denied".into(),
            answer: Some("not now".into()),
            asked_at: String::new(),
            decided_at: None,
            waited_ms: 62_000,
        }],
        cost_usd: 0.0041,
        deliveries: vec![Delivery {
            attempt: 2,
            at: "2025-11-21T22:57:11.000Z".into(),
            state: "sent".into(),
            message_id: Some("12".into()),
            channel: "telegram".into(),
            chat: "1001".into(),
            part: 1,
            parts: 2,
            took_ms: Some(1_000),
            asks: false,
            reason: None,
        }],
        state: "done",
        text: "how\u{202e} full?".into(),
        reply: Some("40 %".into()),
        inputs: vec!["job:b:5".into(), "x".into()],
        source: Some("job".into()),
        session_key: Some("cli:a".into()),
        session_id: Some("s".into()),
        archived: true,
        model: Some("primary".into()),
        attempts: Some(2),
        cache_read_ratio: Some(0.879),
        unpriced_calls: 1,
        budget_usd: Some(0.5),
        tainted: Some(true),
        job: Some(ExplainedJob {
            id: "b".into(),
            at: Some("2025-11-21T22:56:00.000Z".into()),
            name: Some("brief".into()),
        }),
        children: vec![Child {
            message: "sub:1".into(),
            run_id: Some("019b".into()),
            label: "find\nA".into(),
            state: "failed",
            sent_at: String::new(),
            duration_ms: 3_700_000,
            cost_usd: Some(0.001),
        }],
        gone: vec!["a thing".into()],
        ..Explain::default()
    }
}

#[test]
fn it_fits_on_one_screen_and_no_word_of_it_commands_a_terminal() {
    let shown = lines(&whole(), chrono_tz::Europe::Berlin, usize::MAX);
    let expected = [
        "run        019a",
        "           done in 1 min 9 s, begun 2 times, $0.0041 of at most $0.5000 and 1 unpriced calls",
        "message    2025-11-21 23:56:00  job:b:5 and 1 more (job)",
        "           “how\\u{202e} full?”",
        "job        b brief, whose time was 2025-11-21 23:56:00",
        "session    cli:a  s, archived",
        "answer     “40 %” (untrusted words may be in it)",
        "waits      800 ms for its turn, 1 min 2 s for your approval",
        "prompt     about 15.3k tokens for primary; 88 % of the first request was read from the cache",
        "           tools        tools    3.0k  cached",
        "           本居宣長.md  stable  12.3k  cut",
        "memories   1; 1 more did not fit",
        "           fact  1.50  a.md:3",
        "steps      3",
        "           23:56:01  primary  2.1 s  3.4k in (3.0k cached) / 120 out, $0.0041",
        "           23:56:03  · exec   19 ms  done: df -h",
        "           23:56:01  primary  2.1 s  for recall: failed",
        "approvals  k3f9 denied (“not now”) after 1 min 2 s, exec: df -h\\u{1b}[2J",
        "sub-agents find\\u{a}A failed in 1 h 1 min, $0.0010  019b",
        "delivery   part 1 of 2, sent to telegram 1001 as 12 after 1.0 s, 2 tries, 2025-11-21 23:57:11",
        "gone       a thing",
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_narrow_screen_and_a_long_run_stay_readable() {
    let mut long = whole();
    long.steps = vec![long.steps[0].clone(); 40];
    let shown = lines(&long, chrono_tz::UTC, 60);
    assert!(
        shown
            .iter()
            .all(|line| unicode_width::UnicodeWidthStr::width(line.as_str()) <= 60),
        "{shown:#?}"
    );
    assert!(
        shown.contains(&"           … and 26 more: --json".to_owned()),
        "{shown:#?}"
    );
    let empty = lines(
        &Explain {
            state: "queued",
            ..Explain::default()
        },
        chrono_tz::UTC,
        60,
    );
    assert_eq!(
        empty.first().map(String::as_str),
        Some("run        none yet")
    );
}

#[test]
fn the_hosts_of_a_long_command_are_not_cut_off() {
    let receipt = format!(
        "ran {}; network: a.example:443 (7 bytes out, 9 in), b.example:443 refused",
        "x".repeat(300)
    );
    let told = done(&receipt);
    assert!(
        told.ends_with("…; network: a.example:443 (7 bytes out, 9 in), b.example:443 refused"),
        "{told}"
    );
    assert_eq!(done("wrote a"), "wrote a");
}

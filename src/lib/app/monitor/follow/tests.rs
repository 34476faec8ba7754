//! Tests of whole screens.

use proptest::prelude::*;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::style::Color;
use unicode_width::UnicodeWidthStr;

use super::draw::{Scene, draw};
use super::keymap::Ui;
use super::layout::Pane;
use super::snapshot::{Costs, Databases, Loaded, Memory, Snapshot, log_line};
use crate::app::documents::cost::{Caps, Cost, Model, Numbers, Period};
use crate::app::documents::queue::{Dead, Open, Queue, Waiting};
use crate::app::monitor::View;
use crate::app::monitor::frame::Frame;
use crate::app::monitor::health::Health;
use crate::clock;
use crate::memory::Scope;
use crate::memory::facts::commitments::{Commitment, Status};
use crate::memory::index;
use crate::monitor_state::{ChannelState, Lane, State, TurnLine};

pub(super) const NOW: i64 = 1_700_000_000_000;
pub(super) const LARGE: Frame = Frame {
    columns: 120,
    rows: 26,
};
pub(super) const USUAL: Frame = Frame {
    columns: 80,
    rows: 24,
};
pub(super) const TINY: Frame = Frame {
    columns: 20,
    rows: 5,
};

fn ago(secs: i64) -> String {
    clock::rfc3339(NOW - secs * 1000)
}

pub(super) fn lane(contact: &str, state: &str, since: i64, turn: u32) -> Lane {
    Lane {
        session: format!("telegram:{contact}"),
        run_id: format!("run-{contact}"),
        contact: contact.into(),
        model: "primary".into(),
        state: state.into(),
        turn,
        started_at: ago(since + 60),
        state_since: ago(since),
        ..Lane::default()
    }
}

pub(super) fn ask(id: &str, words: &str) -> Waiting {
    Waiting {
        rule: None,
        id: id.into(),
        session: "telegram:dm:1001".into(),
        tool: "exec".into(),
        text: words.into(),
        shown: words.into(),
        why: "the settings ask".into(),
        created_at: ago(30),
        expires_at: ago(-840),
        wanted: None,
    }
}

/// A living daemon with these turns.
pub(super) fn living(lanes: Vec<Lane>) -> Snapshot {
    let state = State {
        state: if lanes.is_empty() { "idle" } else { "tools" }.into(),
        pid: 7689,
        version: "0.1.0".into(),
        started_at: ago(125),
        updated_at: ago(1),
        lanes,
        channels: vec![ChannelState {
            name: "telegram".into(),
            state: "ok".into(),
            last_ok_at: Some(ago(3)),
            ..ChannelState::default()
        }],
        ..State::default()
    };
    Snapshot {
        view: View {
            now: NOW,
            health: Health::of(Some(7689), Some(state)),
            ..View::default()
        },
        ..Snapshot::default()
    }
}

fn cost(period: Period, total: f64, cap: f64) -> Cost {
    let model = |name: &str, cost_usd: f64, calls: i64| Model {
        model: name.into(),
        numbers: Numbers {
            calls,
            cost_usd,
            input_tokens: 12_000,
            output_tokens: 300,
            ..Numbers::default()
        },
    };
    Cost {
        forecast_usd: None,
        period,
        since: None,
        total_cost_usd: total,
        estimated_usd: 0.0,
        cache_read_ratio: None,
        calls: 12,
        unpriced_calls: 0,
        models: vec![model("primary", total, 11), model("李明's model", 0.0, 1)],
        by: None,
        groups: None,
        caps: Caps {
            day_usd: cap,
            month_usd: 0.0,
            day_left_usd: None,
            month_left_usd: None,
        },
        unread_settings: None,
        later_calls: 0,
    }
}

fn promise(what: &str, deadline: Option<&str>) -> Commitment {
    Commitment {
        id: 1,
        scope: Scope::Shared,
        who: "Ada".into(),
        what: what.into(),
        deadline: deadline.map(str::to_owned),
        status: Status::Open,
        source: "workspace/memory/a.md".into(),
        source_line: 1,
        quote: what.into(),
        created_at: NOW,
        shown_at: None,
        updated_at: NOW,
    }
}

/// A daemon at work, with something in every pane.
pub(super) fn busy() -> Snapshot {
    let ada = Lane {
        tokens: 7_500,
        tools_in_flight: vec!["exec".into()],
        tool_tail: Some("test result: 12 of 40\u{1b}[2J".into()),
        turns: vec![TurnLine {
            duration_ms: 1_200,
            tokens: 3_400,
            stop_reason: "tool_use".into(),
            tools: vec!["read".into()],
        }],
        ..lane("Ada", "tools", 21, 3)
    };
    let bob = Lane {
        retry_reason: Some("529 overloaded".into()),
        ..lane("a very long name of somebody", "retry_wait", 4, 12)
    };
    let open = |place: &str, state: &str, attempts: i64| Open {
        id: "x".into(),
        place: place.into(),
        state: state.into(),
        attempts,
        created_at: ago(21),
        waits: None,
    };
    let dead = Dead {
        id: "out-5".into(),
        kind: "outbox".into(),
        created_at: ago(7_300),
        attempts: 5,
        reason: "403: the bot was blocked by the user".into(),
    };
    let entry = |level: &str, words: &str| {
        let at = clock::rfc3339(NOW - 2_000);
        let entry = serde_json::json!({"timestamp": at, "level": level, "message": words});
        log_line(entry.as_object().expect("an object"), chrono_tz::Tz::UTC)
    };
    let mut seen = Snapshot {
        databases: Databases {
            next_job: None,
            queue: Loaded::Read(Queue {
                inbox: vec![open("telegram:Ada", "running", 1)],
                outbox: vec![open("telegram:1001", "pending", 2)],
                dead: vec![dead],
                approvals: vec![ask("k3f9w2", "rm -r build")],
            }),
            costs: Loaded::Read(Costs {
                today: cost(Period::Today, 4.2, 5.0),
                month: cost(Period::Month, 31.5, 0.0),
            }),
            memory: Loaded::Read(Memory {
                facts: 120,
                episodes: 1,
                commitments: vec![
                    promise("send the report", Some("2023-11-10")),
                    promise("call back", None),
                ],
                index: index::Status {
                    indexed: true,
                    indexed_at: Some(ago(125)),
                    files: 80,
                    chunks: 1_234,
                    ..index::Status::default()
                },
            }),
        },
        log: vec![
            entry("INFO", "started  version=0.1.0"),
            entry("WARN", "a slow disk  took_ms=900"),
            entry("ERROR", "no route"),
        ],
        ..living(vec![ada, lane("李明 👍🏽", "thinking", 2, 1), bob])
    };
    seen.count();
    seen
}

fn dead() -> Snapshot {
    let mut seen = living(vec![lane("Ada", "tools", 5, 2)]);
    seen.view.health.pid = None;
    seen.view.now = NOW + 301_000;
    seen.view.advice.start_it = vec![
        "systemctl --user start agent-daemon".into(),
        "or: agent-daemon run".into(),
    ];
    seen.view.advice.logs = "/state/logs".into();
    seen.databases.queue = Loaded::Failed("/state/queue.db is damaged: page 3".into());
    seen
}

fn buffer(scene: &Scene<'_>, size: Frame) -> Buffer {
    let small = |n: usize| u16::try_from(n).expect("a small screen");
    let mut terminal =
        Terminal::new(TestBackend::new(small(size.columns), small(size.rows))).expect("a terminal");
    terminal.draw(|frame| draw(frame, scene)).expect("it draws");
    terminal.backend().buffer().clone()
}

/// Returns the screen as text, without the spaces at the ends of lines.
pub(super) fn screen(seen: &Snapshot, ui: &Ui, size: Frame) -> String {
    let buffer = buffer(
        &Scene {
            snapshot: seen,
            ui,
            color: false,
        },
        size,
    );
    let row = |y: u16| {
        let (mut line, mut skip) = (String::new(), 0);
        for x in 0..buffer.area.width {
            let symbol = buffer[(x, y)].symbol();
            if skip == 0 {
                line.push_str(symbol);
            }
            // What is behind a wide letter is covered by it.
            skip = skip.max(symbol.width()).saturating_sub(1);
        }
        line.trim_end().to_owned()
    };
    (0..buffer.area.height)
        .map(row)
        .collect::<Vec<_>>()
        .join("\n")
}

fn check(seen: &Snapshot, keys: &[KeyCode], size: Frame, expected: &str) {
    let mut ui = Ui::default();
    for key in keys {
        ui.press((*key).into(), seen, size);
    }
    let drawn = screen(seen, &ui, size);
    assert_eq!(drawn.trim_end(), expected.trim_matches('\n'), "\n{drawn}\n");
}

#[test]
fn a_large_screen_shows_everything_at_once() {
    check(
        &busy(),
        &[],
        LARGE,
        "
running tools  pid 7689  up 2m 5s  version 0.1.0
given up  1 dead letter: agent-send --queue
telegram  ok, 3s ago
━ lanes 3 ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━  ─ questions 1 ──────────────────────────────────
  who                       doing                 for  step    total    ▸ exec  telegram:dm:1001  waits 30s  14m 0s left
▸ Ada                       running exec          21s     3   1m 21s      rm -r build
    says: test result: 12 of 40\\u{1b}[2J                                ─ queue 2, given up 1 ──────────────────────────
  李明 👍🏽                 thinking               2s     1    1m 2s      given up out-5  5 tries  2h 1m
  a very long name of som…  waiting to retry       4s    12    1m 4s      403: the bot was blocked by the user
    because: 529 overloaded                                             to answer  telegram:Ada  running  21s
─ log ────────────────────────────────────────────────────────────────  to send    telegram:1001  pending  2 tries  21s
22:13:18 started  version=0.1.0                                         ─ costs ────────────────────────────────────────
22:13:18 WARN a slow disk  took_ms=900                                  today    $4.20 of $5.00, 84 %
22:13:18 ERROR no route                                                 month    $31.50
                                                                          primary  $4.20 today, $31.50 this month  11 c…
                                                                          李明's model  $0.00 today, $0.00 this month  …
                                                                        ─ memory ───────────────────────────────────────
                                                                        facts    120, 1 episode
                                                                        index    1234 chunks of 80 files, 2m 5s ago
                                                                        promises 2 open, 1 overdue
                                                                          2023-11-10: send the report (Ada)
                                                                          call back (Ada)



a approve   d deny   s stop   q quit   ? keys   Tab next
",
    );
}

#[test]
fn a_usual_screen_shows_the_turns_and_the_chosen_pane() {
    check(
        &busy(),
        &[],
        USUAL,
        "
running tools  pid 7689  up 2m 5s  version 0.1.0
given up  1 dead letter: agent-send --queue
telegram  ok, 3s ago
━ lanes 3 ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
  who                       doing                 for  step    total  tokens
▸ Ada                       running exec          21s     3   1m 21s    7.5k
    says: test result: 12 of 40\\u{1b}[2J
  李明 👍🏽                 thinking               2s     1    1m 2s       0
  a very long name of som…  waiting to retry       4s    12    1m 4s       0
    because: 529 overloaded
─ log · questions 1 · queue 2, given up 1 · costs · memory ─────────────────────
22:13:18 started  version=0.1.0
22:13:18 WARN a slow disk  took_ms=900
22:13:18 ERROR no route









a approve   d deny   s stop   q quit   ? keys   Tab next
",
    );
    check(
        &busy(),
        &[KeyCode::Char('3')],
        Frame {
            columns: 40,
            rows: 14,
        },
        "
running tools  pid 7689  up 2m 5s
given up  1 dead letter: agent-send --q…
telegram  ok, 3s ago
─ lanes 3 ──────────────────────────────
▸ Ada           running exec         21s
    says: test result: 12 of 40\\u{1b}[2J
  李明 👍🏽     thinking              2s
  a very long…  waiting to ret…       4s
━ queue 2, given up 1 · costs · memory …
given up out-5  5 tries  2h 1m
  403: the bot was blocked by the user
to answer  telegram:Ada  running  21s
to send    telegram:1001  pending  2 tr…
a approve   d deny   s stop   q quit   …
",
    );
}

#[test]
fn a_tiny_screen_shows_the_chosen_pane() {
    check(
        &busy(),
        &[],
        TINY,
        "
running tools
━ lanes 3 · questio…
▸ Ada      run…  21s
    says: test resu…
a approve   d deny …
",
    );
    check(
        &busy(),
        &[KeyCode::Char('a')],
        TINY,
        "
exec for telegram:d…
| rm -r build
y approve   n back
",
    );
}

#[test]
fn a_dead_daemon_says_so_and_how_it_is_started() {
    check(
        &dead(),
        &[KeyCode::Char('3')],
        USUAL,
        "
dead  last seen 5m 2s ago  version 0.1.0
why       it was killed or crashed; its log: /state/logs
start it  systemctl --user start agent-daemon
          or: agent-daemon run
open      Ada: answered after the start
─ lanes ────────────────────────────────────────────────────────────────────────
no turn runs
━ queue · costs · memory · log · questions ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
/state/queue.db is damaged: page 3














q quit   ? keys   Tab next
",
    );
}

#[test]
fn of_fifty_lanes_the_chosen_one_is_seen() {
    let names: Vec<String> = (1..=50).map(|n| format!("friend {n}")).collect();
    let seen = living(
        names
            .iter()
            .map(|name| lane(name, "thinking", 1, 1))
            .collect(),
    );
    let size = Frame {
        columns: 60,
        rows: 14,
    };
    check(
        &seen,
        &[KeyCode::End, KeyCode::Up, KeyCode::Char('s')],
        size,
        "
running tools  pid 7689  up 2m 5s  version 0.1.0
telegram  ok, 3s ago
━ lanes 50 ━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━
  friend 44  thinking               1s    1m 1s
┌ stop ────────────────────────────────────────────────────┐
│ Stop the turn of friend 49? It is at step 1, for 1m 1s;  │
│ session telegram:friend 49                               │
│ y stop   n do not                                        │
└──────────────────────────────────────────────────────────┘
─ log · questions · queue · costs · memory ─────────────────
the log is empty
",
    );
}

#[test]
fn a_question_is_shown_whole_before_it_can_be_answered() {
    let lines: Vec<String> = (1..=30).map(|n| format!("echo {n}")).collect();
    let mut seen = living(Vec::new());
    let words = format!(
        "rm  -r\u{202e}\u{200b} \u{1b}[2J\tx\r\n{}",
        lines.join("\n")
    );
    seen.databases.queue = Loaded::Read(Queue {
        inbox: vec![],
        outbox: vec![],
        dead: vec![],
        approvals: vec![ask("k3f9w2", &words)],
    });
    check(
        &seen,
        &[KeyCode::Char('a')],
        Frame {
            columns: 60,
            rows: 16,
        },
        "
idle  pid 7689  up 2m 5s  version 0.1.0
┌ approve ─────────────────────────────────────────────────┐
│ exec for telegram:dm:1001, denied in 14m 0s              │
│ the settings ask                                         │
│ | rm  -r\\u{202e}\\u{200b} \\u{1b}[2J\\u{9}x\\u{d}            │
│ | echo 1                                                 │
│ | echo 2                                                 │
│ | echo 3                                                 │
│ | echo 4                                                 │
│ | echo 5                                                 │
│ | echo 6                                                 │
│ | echo 7                                                 │
│ n back   read to the end, then y   ↓ 23 more lines       │
└──────────────────────────────────────────────────────────┘
",
    );
    let typed = "dno way".chars().map(KeyCode::Char);
    let typed: Vec<KeyCode> = typed.collect();
    check(
        &seen,
        &typed,
        Frame {
            columns: 60,
            rows: 16,
        },
        "
idle  pid 7689  up 2m 5s  version 0.1.0
┌ deny ────────────────────────────────────────────────────┐
│ exec for telegram:dm:1001, denied in 14m 0s              │
│ the settings ask                                         │
│ | rm  -r\\u{202e}\\u{200b} \\u{1b}[2J\\u{9}x\\u{d}            │
│ | echo 1                                                 │
│ | echo 2                                                 │
│ | echo 3                                                 │
│ | echo 4                                                 │
│ | echo 5                                                 │
│ | echo 6                                                 │
│ | echo 7                                                 │
│ why: no way▏                                             │
│ Enter deny   Esc back   ↓ 23 more lines                  │
└──────────────────────────────────────────────────────────┘
",
    );
}

#[test]
fn colour_is_there_when_it_is_wanted_and_says_nothing_new() {
    let (seen, mut ui) = (busy(), Ui::default());
    ui.say(true, "Stopped.");
    let colors = |color| -> Vec<Color> {
        buffer(
            &Scene {
                snapshot: &seen,
                ui: &ui,
                color,
            },
            LARGE,
        )
        .content()
        .iter()
        .map(|cell| cell.fg)
        .collect()
    };
    assert!(colors(false).iter().all(|color| *color == Color::Reset));
    let colored = colors(true);
    assert!(
        [Color::Red, Color::Yellow, Color::Green]
            .iter()
            .all(|color| colored.contains(color))
    );
    let symbols = |color| -> String {
        buffer(
            &Scene {
                snapshot: &seen,
                ui: &ui,
                color,
            },
            LARGE,
        )
        .content()
        .iter()
        .map(|cell| cell.symbol())
        .collect()
    };
    assert_eq!(symbols(false), symbols(true));
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z ]{0,12}",
        "(\\PC|[\\n\\r\\t \\x1b\u{9b}\u{ad}\u{200d}\u{202e}\u{fe0f}李👍🏽é\u{301}]){0,60}"
    ]
}

fn keys() -> impl Strategy<Value = Vec<KeyCode>> {
    let some = vec![
        KeyCode::Tab,
        KeyCode::BackTab,
        KeyCode::Up,
        KeyCode::Down,
        KeyCode::PageDown,
        KeyCode::End,
        KeyCode::Home,
        KeyCode::Enter,
        KeyCode::Esc,
        KeyCode::Backspace,
        KeyCode::Char('s'),
        KeyCode::Char('a'),
        KeyCode::Char('d'),
        KeyCode::Char('y'),
        KeyCode::Char('?'),
        KeyCode::Char('5'),
    ];
    prop::collection::vec(prop::sample::select(some), 1..12)
}

proptest! {
    // Each is many screens.
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn no_words_no_keys_and_no_size_break_the_screen(
        (contact, tail, question, reason, log) in (words(), words(), words(), words(), words()),
        (count, keys) in (0usize..60, keys()),
        sizes in prop::collection::vec((1usize..220, 1usize..60), 1..4),
    ) {
        let mut seen = busy();
        let one = Lane { tool_tail: Some(tail), retry_reason: Some(reason.clone()), ..lane(&contact, "tools", 1, 1) };
        if let Some(state) = &mut seen.view.health.file {
            state.lanes = (0..count).map(|n| Lane { run_id: n.to_string(), ..one.clone() }).collect();
            state.last_error = Some(reason.clone());
            state.channels.push(ChannelState { name: contact.clone(), state: log.clone(), ..ChannelState::default() });
        }
        if let Loaded::Read(queue) = &mut seen.databases.queue {
            queue.approvals = vec![ask(&contact, &question.repeat(9)); count % 4];
            queue.dead.iter_mut().for_each(|dead| dead.reason.clone_from(&reason));
        }
        let entry = serde_json::json!({"level": contact, "message": log});
        seen.log = vec![log_line(entry.as_object().expect("an object"), chrono_tz::Tz::UTC); count];
        seen.count();
        let mut ui = Ui::default();
        for (at, key) in keys.iter().enumerate() {
            let (columns, rows) = sizes[at % sizes.len()];
            ui.press((*key).into(), &seen, Frame { columns, rows });
            ui.paste("李\u{7}\n");
            let drawn = buffer(&Scene { snapshot: &seen, ui: &ui, color: true }, Frame { columns, rows });
            let hidden = drawn.content().iter().any(|cell| cell.symbol().chars().any(|c| c.is_control() || c == '\u{202e}'));
            prop_assert!(!hidden, "{}", screen(&seen, &ui, Frame { columns, rows }));
        }
    }
}

#[test]
fn every_pane_has_a_number_of_its_own() {
    for (at, pane) in Pane::ALL.into_iter().enumerate() {
        let mut ui = Ui::default();
        ui.press(
            KeyCode::Char(char::from(b'1' + u8::try_from(at).expect("six"))).into(),
            &busy(),
            LARGE,
        );
        assert_eq!(ui.focus, pane);
    }
}

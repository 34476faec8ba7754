//! Tests of whole frames.

use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::frame::{Frame, draw};
use super::health::Health;
use super::{Advice, Paint, Totals, View};
use crate::clock;
use crate::monitor_state::{ChannelState, Lane, ProviderState, Queue, State, TurnLine};

const NOW: i64 = 1_700_000_000_000;
const NARROW: Frame = size(40, 15);
const USUAL: Frame = size(80, 24);
const WIDE: Frame = size(200, 60);

const fn size(columns: usize, rows: usize) -> Frame {
    Frame { columns, rows }
}

fn ago(secs: i64) -> String {
    clock::rfc3339(NOW - secs * 1000)
}

fn telegram(state: &str, last_ok: i64) -> ChannelState {
    ChannelState {
        name: "telegram".into(),
        state: state.into(),
        last_ok_at: Some(ago(last_ok)),
        ..ChannelState::default()
    }
}

fn idle() -> State {
    State {
        state: "idle".into(),
        pid: 7689,
        version: "0.1.0".into(),
        started_at: ago(125),
        updated_at: ago(1),
        channels: vec![telegram("ok", 3)],
        models: vec!["primary".into(), "fast".into()],
        sandbox: "namespaces".into(),
        sandbox_risk: "A command can read and change the workspace.".into(),
        ..State::default()
    }
}

fn lane(contact: &str, state: &str, since: i64, started: i64, turn: u32) -> Lane {
    Lane {
        session: format!("telegram:{contact}"),
        contact: contact.into(),
        model: "primary".into(),
        state: state.into(),
        turn,
        started_at: ago(started),
        state_since: ago(since),
        ..Lane::default()
    }
}

fn call(duration_ms: u64, tokens: u64, tools: &[&str]) -> TurnLine {
    let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
    TurnLine {
        duration_ms,
        tokens,
        stop_reason: "tool_use".into(),
        tools,
    }
}

fn busy() -> State {
    let ada = Lane {
        tokens: 7_500,
        tools_in_flight: vec!["exec".into()],
        turns: vec![
            call(1_200, 3_400, &["read", "read"]),
            call(15_300, 4_100, &["exec"]),
        ],
        ..lane("Ada", "tools", 21, 95, 3)
    };
    let bob = Lane {
        tokens: 120_900,
        model: "backup".into(),
        retry_reason: Some(
            "529 overloaded: the model is busy, try again later (request req_011CSHoEeqs5C35K)"
                .into(),
        ),
        turns: vec![call(900, 120_900, &["exec"])],
        ..lane("bob", "retry_wait", 4, 320, 12)
    };
    State {
        state: "tools".into(),
        lanes: vec![ada, lane("李明", "thinking", 2, 2, 1), bob],
        ..idle()
    }
}

/// A daemon that runs, or with no `pid` one that left this file.
fn view(pid: Option<i32>, state: State) -> View {
    let lines = |lines: [&str; 2]| lines.map(str::to_owned).to_vec();
    View {
        now: NOW,
        health: Health::of(pid, Some(state)),
        totals: Totals {
            today_usd: 0.0132,
            cap_usd: 5.0,
            ..Totals::default()
        },
        advice: Advice {
            start_it: lines([
                "systemctl --user start agent-daemon",
                "or: agent-daemon run",
            ]),
            look_at: lines([
                "ps -o stat= -p 7689    T: stopped, kill -CONT 7689 wakes it",
                "df -h /state    is the disk full?",
            ]),
            disk: "df -h /state".into(),
            logs: "/state/logs".into(),
        },
    }
}

fn up(state: State) -> View {
    view(Some(7689), state)
}

fn check(frame: Frame, view: &View, expected: &str) {
    let drawn = draw(view, frame, Paint::PLAIN);
    assert_eq!(drawn, expected.trim_matches('\n'), "\n{drawn}\n");
}

fn line(view: &View, name: &str) -> Option<String> {
    let drawn = draw(view, WIDE, Paint::PLAIN);
    let line = drawn.lines().find(|line| line.starts_with(name));
    line.map(str::to_owned)
}

#[test]
fn an_idle_healthy_daemon_is_a_few_short_lines() {
    let view = up(idle());
    let expected = "
idle  pid 7689  up 2m 5s  version 0.1.0

telegram  ok, 3s ago
queue     empty
today     $0.0132 of $5.00, 0 %  ░░░░░░░░░░░░░░░░░░░░
models    primary, fast
sandbox   namespaces
";
    check(USUAL, &view, expected);
    let bare = expected.replace("  ░░░░░░░░░░░░░░░░░░░░", "");
    check(NARROW, &view, &bare);
}

#[test]
fn sub_agents_stand_below_the_turn_that_sent_them() {
    let child = |name: &str| Lane {
        tool_tail: Some("page 3".into()),
        ..lane(name, "tools", 3, 3, 1)
    };
    let ada = Lane {
        children: vec![child("look up trains"), child("李明")],
        ..lane("Ada", "thinking", 5, 65, 2)
    };
    let rest = Lane {
        children: vec![child("sums")],
        run_id: String::new(),
        ..lane("bob", "idle", 1, 1, 0)
    };
    let state = State {
        state: "thinking".into(),
        lanes: vec![ada, rest],
        ..idle()
    };
    let view = up(state);
    check(
        USUAL,
        &view,
        "
thinking  pid 7689  up 2m 5s  version 0.1.0

telegram  ok, 3s ago
queue     empty
today     $0.0132 of $5.00, 0 %  ░░░░░░░░░░░░░░░░░░░░
models    primary, fast
sandbox   namespaces

who               doing                 for  step    total  tokens  model
Ada               thinking               5s     2    1m 5s       0  primary
└ look up trains  running tools          3s     1       3s       0  primary
  says: page 3
└ 李明            running tools          3s     1       3s       0  primary
  says: page 3
bob               idle                   1s     0       1s       0  primary
└ sums            running tools          3s     1       3s       0  primary
  says: page 3
",
    );
    check(
        size(40, 6),
        &view,
        "
thinking  pid 7689  up 2m 5s
telegram  ok, 3s ago
queue     empty
today     $0.0132 of $5.00, 0 %
Ada +2  thinking               5s
bob +1  idle                   1s
",
    );
}

#[test]
fn a_busy_daemon_shows_who_and_what_and_for_how_long() {
    let mut view = up(busy());
    view.totals.queue = Queue {
        inbox: 5,
        outbox: 1,
        dead: 0,
    };
    view.totals.today_usd = 2.5;
    check(
        USUAL,
        &view,
        "
running tools  pid 7689  up 2m 5s  version 0.1.0

telegram  ok, 3s ago
queue     5 to answer, 1 to send
today     $2.50 of $5.00, 50 %  ██████████░░░░░░░░░░
models    primary, fast
sandbox   namespaces

who   doing                 for  step    total  tokens  model    so far
Ada   running exec          21s     3   1m 35s    7.5k  primary  read ×2
李明  thinking               2s     1       2s       0  primary
bob   waiting to retry       4s    12   5m 20s    120k  backup   exec
  because: 529 overloaded: the model is busy, try again later (request req_011C…
",
    );
    check(
        WIDE,
        &view,
        "
running tools  pid 7689  up 2m 5s  version 0.1.0

telegram  ok, 3s ago
queue     5 to answer, 1 to send
today     $2.50 of $5.00, 50 %  ██████████░░░░░░░░░░
models    primary, fast
sandbox   namespaces

who   doing                 for  step    total  tokens  model    session        so far
Ada   running exec          21s     3   1m 35s    7.5k  primary  telegram:Ada   1.2s 3.4k tokens → read ×2 · 15s 4.1k tokens → exec
李明  thinking               2s     1       2s       0  primary  telegram:李明
bob   waiting to retry       4s    12   5m 20s    120k  backup   telegram:bob   0.9s 120k tokens → exec
  because: 529 overloaded: the model is busy, try again later (request req_011CSHoEeqs5C35K)
",
    );
    check(
        NARROW,
        &view,
        "
running tools  pid 7689  up 2m 5s

telegram  ok, 3s ago
queue     5 to answer, 1 to send
today     $2.50 of $5.00, 50 %
models    primary, fast
sandbox   namespaces

Ada   running exec          21s   1m 35s
李明  thinking               2s       2s
bob   waiting to retry       4s   5m 20s
  because: 529 overloaded: the model is…
",
    );
}

#[test]
fn a_provider_that_nobody_asked_again_is_not_called_down_for_ever() {
    let provider = |retry_at| ProviderState {
        name: "anthropic".into(),
        state: "down".into(),
        since: Some(ago(7200)),
        retry_at: Some(ago(retry_at)),
        last_error: Some("busy".into()),
    };
    let says = |retry_at: i64, expected: &str| {
        let view = up(State {
            providers: vec![provider(retry_at)],
            ..idle()
        });
        assert_eq!(line(&view, "provider").as_deref(), Some(expected));
    };
    says(
        -30,
        "provider  anthropic is down for 2h 0m, asked again in 30s: busy",
    );
    says(7000, "provider  anthropic was down when last asked: busy");
}

#[test]
fn trouble_comes_first_and_names_the_next_step() {
    let provider = ProviderState {
        name: "anthropic".into(),
        state: "down".into(),
        since: Some(ago(40)),
        retry_at: Some(ago(-20)),
        last_error: Some("api.anthropic.com answered 529: Overloaded".into()),
    };
    let conflict = "conflict: another program polls with the same token, or a webhook is set";
    let error = "the day limit is reached: [cost] day_usd = 5.00 in agent.toml";
    let mut view = up(State {
        state: "thinking".into(),
        lanes: vec![lane("Ada", "thinking", 2, 2, 1)],
        providers: vec![provider],
        channels: vec![telegram(conflict, 700)],
        sandbox: "off".into(),
        sandbox_risk: "A command can do everything the agent's user can.".into(),
        last_error: Some(format!(
            "{} {error}\n{} the mail is away",
            ago(130),
            ago(700)
        )),
        ..idle()
    });
    view.totals.queue.dead = 2;
    view.totals.today_usd = 4.9;
    check(
        USUAL,
        &view,
        "
thinking  pid 7689  up 2m 5s  version 0.1.0

telegram  conflict: another program polls with the same token, or a webhook is
          set (last ok 11m 40s ago)
provider  anthropic is down for 40s, asked again in 20s: api.anthropic.com
          answered 529: Overloaded
given up  2 dead letters: agent-send --queue
sandbox   off: A command can do everything the agent's user can.
trouble   2m 10s ago: the day limit is reached: [cost] day_usd = 5.00 in
          agent.toml
trouble   11m 40s ago: the mail is away

queue     empty
today     $4.90 of $5.00, 98 %  ███████████████████░
models    primary, fast

who  doing                 for  step    total  tokens  model
Ada  thinking               2s     1       2s       0  primary
",
    );
    check(
        size(30, 6),
        &view,
        "
thinking  pid 7689  up 2m 5s
telegram  conflict: another p…
provider  anthropic is down f…
given up  2 dead letters: age…
sandbox   off: A command can …
… 3 more lines
",
    );
}

#[test]
fn a_stale_daemon_shows_its_last_word_and_where_to_look() {
    let state = State {
        updated_at: ago(63),
        ..busy()
    };
    check(
        USUAL,
        &up(state),
        "
stale  nothing written for 1m 3s  pid 7689  up 2m 5s  version 0.1.0

look at   ps -o stat= -p 7689    T: stopped, kill -CONT 7689 wakes it
          df -h /state    is the disk full?

queue     empty
today     $0.0132 of $5.00, 0 %  ░░░░░░░░░░░░░░░░░░░░

when it last wrote:
who   doing                 for  step    total  tokens  model    so far
Ada   running exec           0s     3      32s    7.5k  primary  read ×2
李明  thinking               0s     1       0s       0  primary
bob   waiting to retry       0s    12   4m 17s    120k  backup   exec
  because: 529 overloaded: the model is busy, try again later (request req_011C…
",
    );
}

#[test]
fn a_dead_daemon_says_what_it_worked_on_and_how_to_start_it() {
    let state = State {
        updated_at: ago(302),
        ..busy()
    };
    let mut view = view(None, state);
    view.totals.queue.inbox = 3;
    check(
        USUAL,
        &view,
        "
dead  last seen 5m 2s ago  version 0.1.0

why       it was killed or crashed; its log: /state/logs
start it  systemctl --user start agent-daemon
          or: agent-daemon run
open      Ada (exec), 李明, bob: answered after the start

queue     3 to answer, safe on the disk
today     $0.0132 of $5.00, 0 %  ░░░░░░░░░░░░░░░░░░░░
",
    );
}

#[test]
fn each_way_of_not_running_is_named() {
    let head = |view: &View| {
        let drawn = draw(view, USUAL, Paint::PLAIN);
        drawn.lines().take(3).collect::<Vec<_>>().join("\n")
    };
    let stopped = State {
        ended_at: Some(ago(7200)),
        ..idle()
    };
    let start = "start it  systemctl --user start agent-daemon";
    assert_eq!(
        head(&view(None, stopped)),
        format!("stopped  2h 0m ago  version 0.1.0\n\n{start}")
    );
    let never = View {
        health: Health::default(),
        ..view(None, idle())
    };
    assert_eq!(
        head(&never),
        format!("not running  it never ran here\n\n{start}")
    );
    let starting = View {
        health: Health::of(Some(7689), None),
        ..up(idle())
    };
    assert_eq!(
        head(&starting),
        "starting  for 0s  pid 7689\n\nqueue     empty"
    );
    let ending = "it ends   as soon as the turns below have; new messages wait for the next start";
    let stopping = State {
        stopping: true,
        ..busy()
    };
    assert_eq!(
        head(&up(stopping)),
        format!("stopping  pid 7689  up 2m 5s  version 0.1.0\n\n{ending}")
    );
}

#[test]
fn the_job_that_comes_next_is_named_while_a_daemon_runs() {
    let next_job = |pid, at| {
        let mut view = view(pid, idle());
        view.totals.next_job = Some(("back up\nthe notes".into(), NOW + at));
        line(&view, "next job")
    };
    let soon = "next job  back up the notes in 12m 5s";
    assert_eq!(next_job(Some(7689), 725_000).as_deref(), Some(soon));
    let due = "next job  back up the notes is due";
    assert_eq!(next_job(Some(7689), 0).as_deref(), Some(due));
    assert_eq!(next_job(None, 725_000), None);
}

#[test]
fn lanes_that_do_not_fit_are_named_in_one_line() {
    let names = ["ada", "bob", "eve", "joe", "kim", "lea", "max"];
    let state = State {
        state: "thinking".into(),
        lanes: names.map(|name| lane(name, "thinking", 1, 1, 1)).into(),
        ..idle()
    };
    let view = up(state);
    check(
        size(40, 9),
        &view,
        "
thinking  pid 7689  up 2m 5s
telegram  ok, 3s ago
queue     empty
today     $0.0132 of $5.00, 0 %
ada  thinking               1s       1s
bob  thinking               1s       1s
eve  thinking               1s       1s
joe  thinking               1s       1s
… 3 more lanes: kim, lea, max
",
    );
    check(
        size(20, 5),
        &view,
        "
thinking  pid 7689
ada  thinking  1s
bob  thinking  1s
eve  thinking  1s
… 4 more lanes: joe…
",
    );
}

#[test]
fn colour_is_added_to_the_words_and_replaces_none() {
    let view = up(State {
        last_error: Some("broken".into()),
        ..idle()
    });
    let painted = draw(&view, USUAL, Paint::ALWAYS);
    assert!(
        painted.starts_with("\u{1b}[32midle\u{1b}[0m\u{1b}[2m  pid 7689\u{1b}[0m"),
        "{painted:?}"
    );
    assert!(
        painted.contains("\u{1b}[2mtrouble\u{1b}[0m   \u{1b}[31mbroken\u{1b}[0m\n"),
        "{painted:?}"
    );
    let mut plain = String::new();
    for (at, part) in painted.split("\u{1b}[").enumerate() {
        plain.push_str(if at == 0 {
            part
        } else {
            part.split_once('m').map_or("", |(_, words)| words)
        });
    }
    assert_eq!(plain, draw(&view, USUAL, Paint::PLAIN));
}

fn words() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,12}",
        "(\\PC|[\\n\\r\\t \\x1b\\x07\u{9b}\u{ad}\u{200d}\u{202e}\u{fe0f}李👍🏽👩🇩🇪é\u{301}]){0,80}",
        Just("\u{1b}[2J\u{1b}[31m\n\nred".to_owned()),
        Just("👨\u{200d}👩\u{200d}👧 李明".to_owned()),
        Just(ago(3600)),
    ]
}

fn lanes() -> impl Strategy<Value = Vec<Lane>> {
    let states = prop::sample::select(vec![
        "thinking",
        "tools",
        "asking",
        "retry_wait",
        "compacting",
        "",
    ]);
    let lane = (
        words(),
        words(),
        states,
        any::<(u32, u64, u64)>(),
        prop::collection::vec(words(), 0..4),
        prop::option::of(words()),
    )
        .prop_map(
            |(contact, model, state, (turn, tokens, duration_ms), tools, retry_reason)| Lane {
                session: contact.clone(),
                contact,
                started_at: model.clone(),
                state_since: ago(5),
                model,
                state: state.to_owned(),
                turn,
                tokens,
                retry_reason,
                turns: vec![
                    TurnLine {
                        duration_ms,
                        tokens,
                        stop_reason: "end_turn".into(),
                        tools: tools.clone()
                    };
                    3
                ],
                tools_in_flight: tools,
                ..Lane::default()
            },
        )
        .prop_map(|lane| Lane {
            children: vec![lane.clone(); usize::from(lane.turn % 3 == 0)],
            ..lane
        });
    prop::collection::vec(lane, 0..12)
}

proptest! {
    #[test]
    fn any_state_stays_within_its_frame_and_commands_nothing(
        (pid, age, lanes) in (prop::sample::select(vec![None, Some(7)]), 0i64..100, lanes()),
        (texts, channels) in (prop::array::uniform6(words()), prop::collection::vec((words(), words()), 0..4)),
        (inbox, outbox, dead, unpriced_calls) in any::<(i64, i64, i64, i64)>(),
        (today_usd, cap_usd) in (0.0..1e12f64, prop::sample::select(vec![0.0, 0.01, 5.0, 1e12])),
        (columns, rows) in (20usize..220, 5usize..70),
    ) {
        let [state, version, started_at, model, sandbox, trouble] = texts;
        let channels = channels.into_iter().map(|(name, state)| ChannelState { name, last_ok_at: Some(state.clone()), state, ..ChannelState::default() });
        let state = State {
            state, version, started_at, lanes,
            updated_at: ago(age),
            channels: channels.collect(),
            models: vec![model; 5],
            sandbox_risk: sandbox.clone(),
            sandbox,
            last_error: Some(trouble),
            ..State::default()
        };
        let totals = Totals { queue: Queue { inbox, outbox, dead }, today_usd, cap_usd, unpriced_calls, questions: (0, 0), next_job: None };
        let view = View { totals, ..view(pid, state) };
        let frame = draw(&view, Frame { columns, rows }, Paint::PLAIN);
        prop_assert!(frame.lines().count() <= rows, "{rows} rows:\n{frame}");
        for line in frame.lines() {
            prop_assert!(UnicodeWidthStr::width(line) <= columns, "{columns} columns:\n{frame}");
        }
        prop_assert!(!frame.chars().any(|c| c.is_control() && c != '\n'), "{frame:?}");
        prop_assert!(!frame.starts_with('\n') && !frame.ends_with('\n') && !frame.contains("\n\n\n"), "{frame:?}");
    }
}

//! The content of each pane as lines, without cutting them to the screen.

use std::ops::Range;

use super::draw::Scene;
use super::layout::Pane;
use super::snapshot::{Costs, Loaded, Memory};
use crate::app::documents::cost::Cost;
use crate::app::documents::queue::{Open, Queue};
use crate::app::monitor::frame::{Detail, Page};
use crate::app::monitor::health::Life;
use crate::app::monitor::lane_table;
use crate::app::monitor::lane_table::Wanted;
use crate::app::monitor::numbers::{dollars, span};
use crate::app::monitor::sections;
use crate::app::monitor::styled_line::{Ink, Line, clean, cut, width, wrap};
use crate::memory::index;
use crate::{clock, text};

const MARK: &str = "▸ ";
/// A reason why something was given up takes so many lines at most.
const REASON_ROWS: usize = 3;
const MANY: usize = 100;
const NAME: usize = 9;
const WHAT: usize = 11;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    pub(super) lines: Vec<Line>,
    pub(super) head: usize,
    pub(super) chosen: Option<Range<usize>>,
}

impl Content {
    fn of(lines: Vec<Line>) -> Self {
        Self {
            lines,
            ..Self::default()
        }
    }

    fn nothing(words: &str) -> Self {
        Self::of(vec![Line::of(Ink::Dim, words)])
    }
}

pub(super) fn title(scene: &Scene<'_>, pane: Pane) -> (Ink, String) {
    let snapshot = scene.snapshot;
    let counted = |n: usize| {
        if n == 0 {
            pane.name().to_owned()
        } else {
            format!("{} {n}", pane.name())
        }
    };
    match pane {
        Pane::Lanes if matches!(snapshot.life(), Life::Stale { .. }) => (
            Ink::Yellow,
            format!("{}, when it last wrote", counted(snapshot.lanes().len())),
        ),
        Pane::Lanes => (Ink::Plain, counted(snapshot.lanes().len())),
        Pane::Questions => match snapshot.requests().len() {
            0 => (Ink::Plain, counted(0)),
            n => (Ink::Yellow, counted(n)),
        },
        Pane::Queue => match snapshot.databases.queue.read() {
            Some(queue) if !queue.dead.is_empty() => (
                Ink::Red,
                format!("queue {}, given up {}", waits(queue), queue.dead.len()),
            ),
            Some(queue) => (Ink::Plain, counted(waits(queue))),
            None => (Ink::Plain, counted(0)),
        },
        Pane::Costs | Pane::Memory | Pane::Log => (Ink::Plain, counted(0)),
    }
}

fn waits(queue: &Queue) -> usize {
    queue.inbox.len() + queue.outbox.len()
}

/// Returns what a pane says on lines of `columns`.
pub(super) fn content(scene: &Scene<'_>, pane: Pane, columns: usize) -> Content {
    match pane {
        Pane::Lanes => turns(scene, columns),
        Pane::Questions => questions(scene, columns),
        Pane::Queue => of(&scene.snapshot.databases.queue, columns, |queue| {
            waiting(queue, scene.snapshot.view.now, columns)
        }),
        Pane::Costs => of(&scene.snapshot.databases.costs, columns, |costs| {
            money(costs, columns)
        }),
        Pane::Memory => of(&scene.snapshot.databases.memory, columns, |memory| {
            remembered(scene, memory, columns)
        }),
        Pane::Log => log(scene),
    }
}

fn of<T>(part: &Loaded<T>, columns: usize, lines: impl FnOnce(&T) -> Vec<Line>) -> Content {
    match part {
        Loaded::NotYet => Content::nothing("…"),
        Loaded::Read(part) => Content::of(lines(part)),
        Loaded::Failed(why) => Content::of(
            wrap(why, columns, 6)
                .iter()
                .map(|line| Line::of(Ink::Red, line))
                .collect(),
        ),
    }
}

/// Returns how many lines [`content`] has.
pub(super) fn height(scene: &Scene<'_>, pane: Pane, columns: usize) -> usize {
    match pane {
        Pane::Log => scene.snapshot.log.len().max(1),
        pane => content(scene, pane, columns).lines.len(),
    }
}

pub(super) fn header(scene: &Scene<'_>, columns: usize, rows: usize) -> Vec<Line> {
    let view = &scene.snapshot.view;
    let detail = Detail {
        text_rows: if rows > 4 { 2 } else { 1 },
        quiet: false,
        air: false,
        facts: true,
        lanes: 0,
    };
    let mut page = Page {
        columns,
        detail,
        lines: vec![sections::head(view, columns)],
    };
    if let Some(why) = &scene.snapshot.blind {
        page.say("blind", Ink::Red, why);
    }
    for part in [
        sections::next_step,
        sections::troubles,
        sections::channels,
        sections::next_job,
    ] {
        part(&mut page, view);
    }
    let rest = page.lines.len().saturating_sub(rows);
    if rest > 0 && rows > 1 {
        page.lines.truncate(rows - 1);
        page.lines.push(Line::of(
            Ink::Dim,
            &format!("… {}", text::counted(rest + 1, "more line")),
        ));
    }
    page.lines.truncate(rows);
    page.lines
}

fn turns(scene: &Scene<'_>, columns: usize) -> Content {
    let snapshot = scene.snapshot;
    if snapshot.lanes().is_empty() {
        return Content::nothing("no turn runs");
    }
    let at = snapshot.view.seen_at();
    let wanted = Wanted {
        columns: columns.saturating_sub(width(MARK)),
        lanes: usize::MAX,
        head: true,
        reasons: true,
    };
    let asks = snapshot.requests();
    let mut lanes = snapshot.lanes().to_vec();
    // The daemon counts a tool that may not begin yet among those that run.
    for lane in lanes
        .iter_mut()
        .filter(|lane| lane.tools_in_flight.is_empty())
    {
        if asks.iter().any(|ask| ask.session == lane.session) {
            "waits for approval".clone_into(&mut lane.state);
        }
    }
    chosen(
        lane_table::rows(&lanes, at, wanted),
        scene.ui.lane(snapshot),
    )
}

fn chosen(rows: Vec<(Option<usize>, Line)>, chosen: Option<usize>) -> Content {
    let head = rows.iter().take_while(|(at, _)| at.is_none()).count();
    let is_chosen = |at: &Option<usize>| at.is_some() && *at == chosen;
    let first = rows.iter().position(|(at, _)| is_chosen(at));
    let count = rows.iter().filter(|(at, _)| is_chosen(at)).count();
    let blank = " ".repeat(width(MARK));
    let mark = |(at, (_, line)): (usize, (Option<usize>, Line))| {
        if Some(at) == first {
            line.after(Ink::Bold, MARK)
        } else {
            line.after(Ink::Plain, &blank)
        }
    };
    let lines = rows.into_iter().enumerate().map(mark).collect();
    Content {
        lines,
        head,
        chosen: first.map(|at| at..at + count),
    }
}

fn questions(scene: &Scene<'_>, columns: usize) -> Content {
    let (snapshot, columns) = (scene.snapshot, columns.saturating_sub(width(MARK)));
    let asks = snapshot.requests();
    let mut rows = Vec::new();
    for (at, ask) in asks.iter().enumerate() {
        let now = snapshot.view.now;
        let waits = clock::parse_rfc3339(&ask.created_at)
            .map_or_else(String::new, |at| format!("  waits {}", span(now - at)));
        let left = clock::parse_rfc3339(&ask.expires_at)
            .map_or_else(String::new, |at| format!("  {} left", span(at - now)));
        let mut line = Line::of(Ink::Yellow, &ask.tool);
        line.push(Ink::Plain, &format!("  {}", ask.session));
        line.push(Ink::Dim, &(waits + &left));
        rows.push((Some(at), line.cut(columns)));
        rows.push((
            Some(at),
            Line::of(Ink::Plain, &cut(&clean(&ask.text), columns)),
        ));
    }
    if rows.is_empty() {
        // Nothing takes no room where there is little.
        return if scene.ui.focus == Pane::Questions {
            Content::nothing("no approval is pending")
        } else {
            Content::default()
        };
    }
    chosen(rows, scene.ui.request(snapshot))
}

fn waiting(queue: &Queue, now: i64, columns: usize) -> Vec<Line> {
    let mut lines = Vec::new();
    for dead in queue.dead.iter().take(MANY) {
        let mut line = Line::of(Ink::Red, &format!("given up {}", dead.id));
        line.push(Ink::Plain, &format!("  {}", tries(dead.attempts)));
        line.push(Ink::Dim, &ago(&dead.created_at, now));
        lines.push(line);
        let reason = wrap(&dead.reason, columns.saturating_sub(2), REASON_ROWS);
        lines.extend(
            reason
                .iter()
                .map(|words| Line::of(Ink::Red, &format!("  {words}"))),
        );
    }
    let open = |what: &str, open: &Open| {
        let mut line = Line::of(Ink::Dim, what);
        line.pad_to(WHAT);
        let ink = if open.state == "running" {
            Ink::Bold
        } else {
            Ink::Plain
        };
        line.push(ink, &format!("{}  {}", open.place, open.state));
        if open.attempts > 1 {
            line.push(Ink::Yellow, &format!("  {}", tries(open.attempts)));
        }
        line.push(Ink::Dim, &ago(&open.created_at, now));
        line
    };
    for (what, rows) in [("to answer", &queue.inbox), ("to send", &queue.outbox)] {
        lines.extend(rows.iter().take(MANY).map(|row| open(what, row)));
    }
    let more: usize = [queue.dead.len(), queue.inbox.len(), queue.outbox.len()]
        .map(|rows| rows.saturating_sub(MANY))
        .iter()
        .sum();
    if more > 0 {
        lines.push(Line::of(
            Ink::Dim,
            &format!("… {more} more: agent-send --queue"),
        ));
    }
    if lines.is_empty() {
        lines.push(Line::of(Ink::Plain, "empty"));
    }
    lines
}

fn tries(times: i64) -> String {
    if times == 1 {
        "1 try".to_owned()
    } else {
        format!("{times} tries")
    }
}

fn ago(at: &str, now: i64) -> String {
    clock::parse_rfc3339(at).map_or_else(String::new, |at| format!("  {}", span(now - at)))
}

fn money(costs: &Costs, columns: usize) -> Vec<Line> {
    let spent = |name: &str, cost: &Cost, cap: f64| {
        let line = |with_bar: usize| {
            let mut line = Line::of(Ink::Dim, name);
            line.pad_to(NAME);
            let pieces = sections::share(cost.total_cost_usd, cap, with_bar)
                .into_iter()
                .chain(sections::unpriced(cost.unpriced_calls));
            pieces.for_each(|(ink, words)| line.push(ink, &words));
            line
        };
        // Half a bar would look like another share.
        Some(line(usize::MAX))
            .filter(|line| line.width() <= columns)
            .unwrap_or_else(|| line(0))
    };
    let Costs { today, month } = costs;
    let mut lines = vec![
        spent("today", today, today.caps.day_usd),
        spent("month", month, month.caps.month_usd),
    ];
    for model in &month.models {
        let of_today = today
            .models
            .iter()
            .find(|one| one.model == model.model)
            .map_or(0.0, |one| one.numbers.cost_usd);
        let numbers = &model.numbers;
        let tokens = [
            numbers.input_tokens,
            numbers.output_tokens,
            numbers.cache_read_tokens,
            numbers.cache_write_tokens,
        ];
        let tokens = tokens
            .into_iter()
            .filter_map(|n| u64::try_from(n).ok())
            .fold(0, u64::saturating_add);
        let mut line = Line::of(Ink::Plain, &format!("  {}", clean(&model.model)));
        line.push(
            Ink::Plain,
            &format!(
                "  {} today, {} this month",
                dollars(of_today),
                dollars(numbers.cost_usd)
            ),
        );
        line.push(
            Ink::Dim,
            &format!(
                "  {}, {} tokens",
                text::counted(numbers.calls, "call"),
                text::count(tokens)
            ),
        );
        lines.push(line);
    }
    lines
}

fn remembered(scene: &Scene<'_>, memory: &Memory, columns: usize) -> Vec<Line> {
    let (now, zone) = (scene.snapshot.view.now, scene.snapshot.zone);
    let fact = |name: &str, pieces: &[(Ink, String)]| {
        let mut line = Line::of(Ink::Dim, name);
        line.pad_to(NAME);
        pieces
            .iter()
            .for_each(|(ink, words)| line.push(*ink, words));
        line
    };
    let overdue = memory
        .commitments
        .iter()
        .filter(|one| one.is_overdue(now, zone))
        .count();
    let mut promises = vec![(Ink::Plain, format!("{} open", memory.commitments.len()))];
    if overdue > 0 {
        promises.push((Ink::Yellow, format!(", {overdue} overdue")));
    }
    let mut lines = vec![
        fact(
            "facts",
            &[(
                Ink::Plain,
                format!(
                    "{}, {}",
                    memory.facts,
                    text::counted(memory.episodes, "episode")
                ),
            )],
        ),
        fact("index", &indexed(&memory.index, now)),
        fact("promises", &promises),
    ];
    let lacking = memory
        .index
        .lacking
        .iter()
        .chain(&memory.index.facts_unread);
    lines.extend(
        lacking
            .flat_map(|why| wrap(why, columns.saturating_sub(2), 2))
            .map(|why| Line::of(Ink::Yellow, &format!("  {why}"))),
    );
    for one in memory.commitments.iter().take(MANY) {
        let ink = if one.is_overdue(now, zone) {
            Ink::Yellow
        } else {
            Ink::Plain
        };
        let by = one
            .deadline
            .as_ref()
            .map_or_else(String::new, |day| format!("{day}: "));
        lines.push(Line::of(ink, &format!("  {by}{} ({})", one.what, one.who)));
    }
    lines
}

fn indexed(index: &index::Status, now: i64) -> Vec<(Ink, String)> {
    let mut pieces = match &index.indexed_at {
        Some(at) => vec![
            (
                Ink::Plain,
                format!(
                    "{} of {}",
                    text::counted(index.chunks, "chunk"),
                    text::counted(index.files, "file")
                ),
            ),
            (
                Ink::Dim,
                clock::parse_rfc3339(at)
                    .map_or_else(String::new, |at| format!(", {} ago", span(now - at))),
            ),
        ],
        None => vec![(Ink::Plain, "nothing yet".to_owned())],
    };
    if let Some(pid) = index.running {
        pieces.push((Ink::Bold, format!(", at it now, pid {pid}")));
    }
    pieces
}

fn log(scene: &Scene<'_>) -> Content {
    match scene.snapshot.log.as_slice() {
        [] => Content::nothing("the log is empty"),
        lines => Content::of(lines.to_vec()),
    }
}

//! The state of the daemon, and open work.

use super::Context;
use crate::app::cli;
use crate::app::cli::Exit;
use crate::app::documents::queue::Queue;
use crate::app::documents::status::Status;
use crate::app::table::{Column, Table};
use crate::text;

/// Shows the status; 69 when no daemon runs.
pub(crate) fn status(context: &Context<'_>, status: &Status) -> Exit {
    context.answer(status, draw);
    if status.running {
        Exit::Ok
    } else {
        Exit::NoDaemon
    }
}

fn draw(status: &Status) {
    let pid = status.pid.map(|pid| format!(" (pid {pid})"));
    let running = if status.running {
        "running"
    } else {
        "not running"
    };
    cli::out(&format!("{running}{}", pid.unwrap_or_default()));
    for (name, value) in facts(status) {
        let name = if name.is_empty() {
            name
        } else {
            format!("{name}:")
        };
        cli::out(&format!("{name:<9} {}", text::visible(&value)));
    }
}

/// Returns the status as names and values; a value without a name belongs to the one before.
pub(crate) fn facts(status: &Status) -> Vec<(String, String)> {
    let mut facts = Vec::new();
    let mut add = |name: &str, value: String| facts.push((name.to_owned(), value));
    if status.running {
        let version = status.version.clone();
        add("version", version.unwrap_or_else(|| "?".to_owned()));
        add("up", format!("{} s", status.uptime_secs.unwrap_or(0)));
        add("models", status.models.join(", "));
        add("sandbox", status.sandbox.clone());
        add("", status.sandbox_risk.clone());
    }
    for channel in &status.channels {
        let is_webhook = channel.mode == "webhook" && channel.state == "ok";
        let by = if is_webhook { " (webhook)" } else { "" };
        add(&channel.name, format!("{}{by}", channel.state));
    }
    for provider in status.providers.iter().filter(|one| one.state != "ok") {
        let since = provider.since.as_deref().unwrap_or("?");
        let error = provider.last_error.as_deref().unwrap_or_default();
        let (name, state) = (&provider.name, &provider.state);
        add(
            "provider",
            format!("{name} is {state} since {since}: {error}"),
        );
    }
    let queue = status.queue;
    let (inbox, outbox, dead) = (queue.inbox, queue.outbox, queue.dead);
    add("queue", format!("{inbox} in, {outbox} out, {dead} dead"));
    for waits in &status.waits {
        let (count, what, since) = (waits.count, &waits.waits_for, &waits.since);
        let some = if count == 1 {
            "message waits"
        } else {
            "messages wait"
        };
        add("waiting", format!("{count} {some} since {since}: {what}"));
    }
    if status.questions > 0 {
        let since = status.oldest_question_at.as_deref().unwrap_or("?");
        let waiting = text::counted(status.questions, "question");
        add(
            "asks",
            format!("{waiting} for you since {since}: agent-send --queue"),
        );
    }
    add("today", format!("${:.4}", status.today_cost_usd));
    for setting in ["day_usd", "month_usd"] {
        if let Some(alert) = status.alerts.iter().rfind(|alert| alert.setting == setting) {
            let (percent, limit, at) = (alert.percent, alert.limit_usd, &alert.at);
            add(
                "limit",
                format!("{percent} % of [cost] {setting} = {limit:.2} since {at}"),
            );
        }
    }
    if let Some(unread) = &status.unread_settings {
        add("settings", unread.clone());
    }
    let troubles = status.last_error.iter().flat_map(|error| error.lines());
    for (number, trouble) in troubles.enumerate() {
        let name = if number == 0 { "trouble" } else { "" };
        add(name, trouble.to_owned());
    }
    facts
}

pub(crate) fn queue(context: &Context<'_>, queue: &Queue) -> Exit {
    let exit = context.answer(queue, |queue| {
        let lines = queue_lines(queue);
        lines.iter().for_each(|line| cli::out(line));
    });
    if queue.inbox.is_empty()
        && queue.outbox.is_empty()
        && queue.dead.is_empty()
        && queue.approvals.is_empty()
    {
        context.note_nothing("nothing waits");
    }
    exit
}

/// Returns the queue for a terminal. Ids and reasons are whole: they are what somebody wants to copy. More lines of a
/// question are indented below its first, so that none looks like a row.
fn queue_lines(queue: &Queue) -> Vec<String> {
    let mut short = queue.clone();
    for one in &mut short.approvals {
        one.text = one.shown.lines().next().unwrap_or_default().to_owned();
    }
    let mut lines = Vec::new();
    // The questions are the first rows.
    for (at, row) in table(&short).lines(usize::MAX).into_iter().enumerate() {
        lines.push(row);
        let more = queue.approvals.get(at).into_iter();
        let more = more.flat_map(|one| one.shown.lines().skip(1));
        lines.extend(more.map(|line| format!("         {line}")));
    }
    lines
}

/// Returns what waits, what is on its way out, and the dead letters as a table.
pub(in crate::app) fn table(queue: &Queue) -> Table {
    let tries = |count: i64| format!("{count} {}", if count == 1 { "try" } else { "tries" });
    let row = |state: &str, at: &str, id: &str, what: &str, more: &str| {
        [state, at, id, what, more].map(str::to_owned).to_vec()
    };
    let asked = queue.approvals.iter().map(|one| {
        let what = format!("{} ({}; {})", one.text, one.why, one.session);
        row("asks", &one.created_at, &one.id, &one.tool, &what)
    });
    let open = queue.inbox.iter().chain(&queue.outbox).map(|one| {
        let Some(waits) = &one.waits else {
            let tries = tries(one.attempts);
            return row(&one.state, &one.created_at, &one.id, &tries, &one.place);
        };
        let why = format!(
            "{}; {} since {}, next try {}",
            one.place, waits.waits_for, waits.since, waits.retry_at
        );
        let tries = tries(i64::from(waits.tries));
        row("waits", &one.created_at, &one.id, &tries, &why)
    });
    let dead = queue.dead.iter().map(|one| {
        let tries = tries(one.attempts);
        let reason = text::one_line(&one.reason);
        row("dead", &one.created_at, &one.id, &tries, &reason)
    });
    Table {
        columns: vec![Column::left(""); 5],
        rows: asked.chain(open).chain(dead).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::documents::queue::{Dead, Open, Waiting};

    #[test]
    fn the_queue_is_a_table_with_whole_ids() {
        let id = "019aa9f2-6d4e-7c1b-9d0e-3f1a2b3c4d5e";
        let open = |id: &str, state: &str, attempts| Open {
            id: id.to_owned(),
            place: "cli:a\u{1b}da".to_owned(),
            state: state.to_owned(),
            attempts,
            created_at: "2025-11-21T22:56:01.120Z".to_owned(),
            waits: None,
        };
        let dead = Dead {
            id: "out-7".to_owned(),
            kind: "outbox".to_owned(),
            created_at: "2025-11-20T01:00:00.000Z".to_owned(),
            attempts: 12,
            reason: "403 bot was blocked\n\tby the\u{1b} user\n".to_owned(),
        };
        let asked = Waiting {
            rule: None,
            id: "k3f9w2".to_owned(),
            session: "cli:ada".to_owned(),
            tool: "exec".to_owned(),
            text: String::new(),
            shown: text::for_decision("rm -r build\nin \u{202e}~/src"),
            why: "the settings ask".to_owned(),
            created_at: "2025-11-21T22:56:02.000Z".to_owned(),
            expires_at: "2025-11-21T23:11:02.000Z".to_owned(),
            wanted: None,
        };
        let queue = Queue {
            inbox: vec![open(id, "running", 1)],
            outbox: vec![open("out-8", "sending", 2)],
            dead: vec![dead],
            approvals: vec![asked],
        };
        assert_eq!(
            queue_lines(&queue),
            [
                "asks     2025-11-21T22:56:02.000Z  k3f9w2                                exec      rm -r build (the settings ask; cli:ada)",
                "         in \\u{202e}~/src",
                "running  2025-11-21T22:56:01.120Z  019aa9f2-6d4e-7c1b-9d0e-3f1a2b3c4d5e  1 try     cli:a\\u{1b}da",
                "sending  2025-11-21T22:56:01.120Z  out-8                                 2 tries   cli:a\\u{1b}da",
                "dead     2025-11-20T01:00:00.000Z  out-7                                 12 tries  403 bot was blocked by the\\u{1b} user",
            ]
        );
    }
}

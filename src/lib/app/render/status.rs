//! What the daemon is, and what is open.

use super::Context;
use crate::app::cli;
use crate::app::cli::Exit;
use crate::app::documents::queue::Queue;
use crate::app::documents::status::Status;
use crate::app::table::{Column, lines};
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
    let pid = status
        .pid
        .map_or_else(String::new, |pid| format!(" (pid {pid})"));
    cli::out(&format!(
        "{}{pid}",
        if status.running {
            "running"
        } else {
            "not running"
        }
    ));
    let line = |name: &str, value: &str| {
        cli::out(&format!(
            "{:<9} {}",
            format!("{name}:"),
            text::visible(value)
        ))
    };
    if status.running {
        line("version", status.version.as_deref().unwrap_or("?"));
        line("up", &format!("{} s", status.uptime_secs.unwrap_or(0)));
        line("models", &status.models.join(", "));
        line("sandbox", &status.sandbox);
        cli::out(&format!("          {}", status.sandbox_risk));
    }
    for channel in &status.channels {
        let by_webhook = if channel.mode == "webhook" && channel.state == "ok" {
            " (webhook)"
        } else {
            ""
        };
        line(&channel.name, &format!("{}{by_webhook}", channel.state));
    }
    for provider in status
        .providers
        .iter()
        .filter(|provider| provider.state != "ok")
    {
        let since = provider.since.as_deref().unwrap_or("?");
        let error = provider.last_error.as_deref().unwrap_or_default();
        line(
            "provider",
            &format!(
                "{} is {} since {since}: {error}",
                provider.name, provider.state
            ),
        );
    }
    let queue = status.queue;
    line(
        "queue",
        &format!(
            "{} in, {} out, {} dead",
            queue.inbox, queue.outbox, queue.dead
        ),
    );
    line("today", &format!("${:.4}", status.today_cost_usd));
    for setting in ["day_usd", "month_usd"] {
        if let Some(alert) = status.alerts.iter().rfind(|alert| alert.setting == setting) {
            line(
                "limit",
                &format!(
                    "{} % of [cost] {setting} = {:.2} since {}",
                    alert.percent, alert.limit_usd, alert.at
                ),
            );
        }
    }
    if let Some(error) = &status.last_error {
        line("trouble", error);
    }
}

pub(crate) fn queue(context: &Context<'_>, queue: &Queue) -> Exit {
    let exit = context.answer(queue, |queue| {
        rows(queue).iter().for_each(|row| cli::out(row))
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

fn rows(queue: &Queue) -> Vec<String> {
    let tries = |count: i64| format!("{count} {}", if count == 1 { "try" } else { "tries" });
    let open = queue.inbox.iter().chain(&queue.outbox);
    let open = open.map(|row| {
        [
            &row.state,
            &row.created_at,
            &row.id,
            &tries(row.attempts),
            &row.place,
        ]
        .map(|cell| text::visible(cell))
    });
    let dead = queue.dead.iter();
    let dead = dead.map(|row| {
        [
            "dead",
            &row.created_at,
            &row.id,
            &tries(row.attempts),
            &row.reason,
        ]
        .map(text::visible)
    });
    let asked = queue.approvals.iter();
    let asked = asked.map(|row| {
        [
            "asks",
            &row.created_at,
            &row.id,
            &row.tool,
            &format!("{} ({}; {})", row.text, row.why, row.session),
        ]
        .map(text::visible)
    });
    let rows: Vec<Vec<String>> = asked
        .chain(open)
        .chain(dead)
        .map(|row| row.to_vec())
        .collect();
    // Ids and reasons are whole: they are what somebody wants to copy.
    lines(&[Column::left(""); 5], &rows, usize::MAX)
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
        };
        let dead = Dead {
            id: "out-7".to_owned(),
            kind: "outbox".to_owned(),
            created_at: "2025-11-20T01:00:00.000Z".to_owned(),
            attempts: 12,
            reason: "403 bot was blocked\nby the user".to_owned(),
        };
        let asked = Waiting {
            id: "k3f9w2".to_owned(),
            session: "cli:ada".to_owned(),
            tool: "exec".to_owned(),
            text: "rm -r build\nin \u{202e}~/src".to_owned(),
            why: "the settings ask".to_owned(),
            created_at: "2025-11-21T22:56:02.000Z".to_owned(),
            expires_at: "2025-11-21T23:11:02.000Z".to_owned(),
        };
        let queue = Queue {
            inbox: vec![open(id, "running", 1)],
            outbox: vec![open("out-8", "sending", 2)],
            dead: vec![dead],
            approvals: vec![asked],
        };
        assert_eq!(
            rows(&queue),
            [
                "asks     2025-11-21T22:56:02.000Z  k3f9w2                                exec      rm -r build\\u{a}in \\u{202e}~/src (the settings ask; cli:ada)",
                "running  2025-11-21T22:56:01.120Z  019aa9f2-6d4e-7c1b-9d0e-3f1a2b3c4d5e  1 try     cli:a\\u{1b}da",
                "sending  2025-11-21T22:56:01.120Z  out-8                                 2 tries   cli:a\\u{1b}da",
                "dead     2025-11-20T01:00:00.000Z  out-7                                 12 tries  403 bot was blocked\\u{a}by the user",
            ]
        );
    }
}

//! `agent-consolidate status`.

use super::{Context, PROGRAM};
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::memory::consolidate::{Status, status};
use crate::text;

pub(super) fn run(context: &Context<'_>) -> Result<Exit, Failure> {
    let status = status(&context.home)?;
    if context.json {
        cli::json(&status);
    } else {
        lines(&status).iter().for_each(|line| cli::out(line));
    }
    Ok(Exit::Ok)
}

fn lines(status: &Status) -> Vec<String> {
    let Status {
        facts,
        former,
        pending_files,
        pending_sessions,
        last_run_at,
        last_work_at,
        running,
        ..
    } = status;
    let mut lines = vec![format!("facts      {facts}, and {former} that held once")];
    if (status.commitments, status.episodes) != (0, 0) {
        lines.push(format!(
            "beside     {} open commitments, {} episodes",
            status.commitments, status.episodes
        ));
    }
    if let Some(one) = status.parked.first() {
        let (count, why) = (status.parked.len(), text::visible(&one.why));
        lines.push(format!(
            "parked     {count} spans that rules read, because the model failed three times: {why}"
        ));
    }
    lines.push(match (pending_files, pending_sessions) {
        (0, 0) => "waiting    nothing".to_owned(),
        (files, sessions) => {
            format!(
                "waiting    {}, {}: {PROGRAM}",
                text::counted(*files, "file"),
                text::counted(*sessions, "conversation")
            )
        }
    });
    lines.push(format!(
        "last run   {}",
        last_run_at.as_deref().unwrap_or("never")
    ));
    lines.extend(last_work_at.iter().map(|at| format!("last work  {at}")));
    lines.extend(running.map(|pid| format!("at work now, pid {pid}")));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_said_with_the_next_step() {
        let none = Status::default();
        assert_eq!(
            lines(&none),
            [
                "facts      0, and 0 that held once",
                "waiting    nothing",
                "last run   never"
            ]
        );
        let some = Status {
            facts: 2,
            pending_files: 1,
            running: Some(7),
            ..none
        };
        assert_eq!(
            lines(&some)[1],
            "waiting    1 file, 0 conversations: agent-consolidate"
        );
        assert_eq!(lines(&some)[3], "at work now, pid 7");
    }
}

//! `standby --status`, and what a promotion says.

use serde_json::json;

use crate::app::cli;
use crate::app::cli::Exit;
use crate::clock;
use crate::standby::{Promotion, Record, Role};

/// Prints what a home is; the exit code says whether something is wrong.
pub(super) fn status(record: Option<&Record>, json: bool) -> Exit {
    let now = clock::now_ms();
    // The owner is notified of lasting problems; this command shows the last one.
    let alarm = record.and_then(|record| record.alarm(now).or(record.trouble.clone()));
    let age = |at: Option<i64>| at.map(|at| (now - at).max(0) / 1000);
    match record {
        Some(record) if json => {
            let host = record.beacon.as_ref().map(|beacon| &beacon.host);
            cli::json(&json!({
                "role": record.role, "generation": record.generation, "agent": record.agent, "replica": record.replica,
                "lag_secs": age(record.copied_at), "proof_age_secs": age(record.proven_at), "standby": host, "trouble": alarm,
            }));
        }
        None if json => cli::json(&json!({"role": null})),
        None => cli::out("this home has no standby, and is none"),
        Some(record) => {
            let ago =
                |at| age(at).map_or_else(|| "never".to_owned(), |secs| format!("{secs} s ago"));
            cli::out(&format!("this home is {}", record.role.words()));
            if !record.replica.is_empty() {
                cli::out(&format!("replica     {}", cli::harmless(&record.replica)));
                cli::out(&format!("last copy   {}", ago(record.copied_at)));
                cli::out(&format!("last proof  {}", ago(record.proven_at)));
            }
            if record.role == Role::Primary && !record.replica.is_empty() && record.beacon.is_none()
            {
                cli::out("standby     not seen yet; on that machine: agent-daemon standby DIR");
            }
            if let Some(trouble) = &alarm {
                cli::out(&format!("trouble     {}", cli::harmless(trouble)));
            }
        }
    }
    match alarm {
        Some(_) => Exit::Failed,
        None => Exit::Ok,
    }
}

/// Returns what a promotion says.
pub(super) fn promoted(done: &Promotion) -> String {
    let taken = &done.taken_over;
    let missing = match taken.handed_over {
        true => "nothing is missing, it was handed over".to_owned(),
        false => format!(
            "what reached the other machine after {} may be missing; {} open here may have been answered there and will be marked \"(resent)\"",
            clock::rfc3339(taken.copied_at),
            done.doubtful
        ),
    };
    format!("taken over (generation {}): {missing}", done.generation)
}

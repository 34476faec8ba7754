//! What is answered at once, before lanes and model: `/stop /status /cost /help /start`.

use std::sync::Arc;

use super::turn::said;
use super::{Pipeline, Run};
use crate::control::replies::Reply;
use crate::message::{Command, Envelope, SessionKey};
use crate::queue::{Accepted, Stopped};
use crate::{clock, cost};

const HELP: &str = "Write to me and I answer. I also understand:\n\n\
    /new – begin a new conversation\n\
    /stop – stop what I am doing\n\
    /status – what I am doing\n\
    /cost – what I cost";
const FOR_OWNERS: &str = "Only my owner may ask that.";

/// Answers a command that does not wait for its lane.
pub(super) async fn at_once(pipeline: Arc<Pipeline>, row: Accepted) {
    let envelope = row.envelope;
    let mut stopped = Vec::new();
    let text = match envelope.command.as_ref() {
        Some(Command::Start) => format!("Hello {}. {HELP}", envelope.sender.name),
        Some(Command::Stop { all }) => {
            stopped = pipeline.runs_of((!all).then_some(&envelope.session_key));
            match stopped.len() {
                0 => "Nothing is running.".to_owned(),
                1 => "Stopped.".to_owned(),
                count => format!("Stopped {count} runs."),
            }
        }
        Some(Command::Status) => pipeline.status_text(&envelope),
        Some(Command::Cost) if envelope.from_owner => pipeline.cost_text().await,
        Some(Command::Cost) => FOR_OWNERS.to_owned(),
        Some(Command::Help | Command::New) | None => HELP.to_owned(),
    };
    let also = stopped.iter().map(handled).collect();
    let run_id = uuid::Uuid::now_v7().to_string();
    // First the record, then the end: a run that ends now finds that it has nothing to say.
    pipeline.finish(&envelope, &run_id, said(&envelope, text, None), also).await;
    for run in stopped {
        run.cancel.cancel();
    }
}

fn handled(run: &Run) -> Stopped {
    let result = run.wants_reply.then(|| Reply { run_id: Some(run.run_id.clone()), ..Reply::error(&run.inbox_id, "stopped") });
    Stopped { inbox_id: run.inbox_id.clone(), result }
}

impl Pipeline {
    /// Returns the run of one session, or all.
    fn runs_of(&self, session: Option<&SessionKey>) -> Vec<Run> {
        let runs = self.runs();
        runs.iter().filter(|(key, _)| session.is_none_or(|session| session == *key)).map(|(_, run)| run.clone()).collect()
    }

    fn status_text(&self, envelope: &Envelope) -> String {
        let (all, own) = {
            let runs = self.runs();
            (runs.len(), runs.contains_key(&envelope.session_key))
        };
        let here = if own { "I am working on your message." } else { "I am not working on anything of yours." };
        let live = self.live();
        let model = live
            .agent
            .client()
            .models()
            .get("primary", "/status")
            .map_or_else(|_| "none".to_owned(), |model| model.model.clone());
        let mut text = format!("{here}\nRuns: {all}. Conversations: {}. Model: {model}.", self.sessions.count());
        if envelope.from_owner
            && let Some(trouble) = self.trouble.lock().unwrap_or_else(std::sync::PoisonError::into_inner).as_ref()
        {
            text.push_str(&format!("\nLast trouble: {trouble}"));
        }
        text
    }

    async fn cost_text(&self) -> String {
        let live = self.live();
        let zone = live.config.agent.timezone.0;
        let now = clock::now_ms();
        let (day, month) = (cost::start_of_day(now, zone), cost::start_of_month(now, zone));
        let path = self.cost_db.clone();
        let read = tokio::task::spawn_blocking(move || {
            Ok::<_, crate::db::Error>((cost::by_model(&path, day)?, cost::by_model(&path, month)?))
        });
        let (day, month) = match read.await {
            Ok(Ok(sums)) => sums,
            Ok(Err(error)) => return format!("The ledger cannot be read: {error}"),
            Err(panic) => std::panic::resume_unwind(panic.into_panic()),
        };
        let line = |name: &str, lines: &[cost::Line], cap: f64| {
            let total = cost::usd(lines.iter().map(|line| line.cost_nano_usd).sum());
            let calls: i64 = lines.iter().map(|line| line.calls).sum();
            let unpriced: i64 = lines.iter().map(|line| line.unpriced_calls).sum();
            let mut text = format!("{name}: ${total:.4} in {calls} calls");
            if unpriced > 0 {
                text.push_str(&format!(", {unpriced} of them without a price"));
            }
            if cap > 0.0 {
                text.push_str(&format!(", limit ${cap:.2}"));
            }
            text
        };
        let caps = &live.config.cost;
        [line("Today", &day, caps.day_usd), line("This month", &month, caps.month_usd)].join("\n")
    }
}

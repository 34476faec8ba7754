//! `--job`: lists and changes jobs. The list is read from the file; every change is a command for the daemon, which waits in
//! the spool when none is running.

use serde_json::Value;

use super::arguments::{Arguments, parse_id};
use super::message;
use super::submit;
use super::submit::{COMMAND_WAIT, Posted};
use super::wait;
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::documents;
use crate::app::render;
use crate::app::render::Context;
use crate::control::replies::Status;
use crate::control::{Command, Id};
use crate::jobs;
use crate::jobs::Ask;
use crate::message::JobOrder;
use crate::{clock, config, text};

const DAY_MS: i64 = 24 * 3_600_000;

/// Lists the jobs, or sends what is to become of one to the daemon.
pub(super) fn job(
    context: &Context<'_>,
    words: &[String],
    arguments: &Arguments,
) -> Result<Exit, Failure> {
    let text = if words.first().is_some_and(|verb| verb == "add") {
        arguments.jobs.text(arguments.text.as_ref())?
    } else {
        arguments.jobs.job_text.clone()
    };
    let fields = arguments.jobs.fields(&arguments.message, text.as_deref());
    let named = arguments.message.id.as_deref().map(parse_id).transpose()?;
    let is_named = named.is_some();
    let Some((id, order)) = parse(words, fields, named)? else {
        return Ok(render::jobs(
            context,
            &documents::jobs(context.home, context.env)?,
        ));
    };
    let command = Command::Job(checked(context, &id, order)?);
    let post = if is_named {
        submit::post_named
    } else {
        submit::post
    };
    if post(context.home, &id, &command, !arguments.no_queue)? == Posted::Queued {
        return Ok(submit::queued(context, &id));
    }
    let Some(reply) = wait::reply(context.home, &id, COMMAND_WAIT, context.quiet)? else {
        let secs = COMMAND_WAIT.as_secs();
        let what = format!("the daemon did not answer within {secs} s");
        return Err(Failure::try_again(what).hint(format!(
            "it is executed as soon as possible: agent-send --result {id} --wait"
        )));
    };
    match &reply.job {
        Some(job) if context.json && reply.status == Status::Done => {
            cli::json(job);
            Ok(Exit::Ok)
        }
        _ => wait::print(&reply, context.json)
            .map_err(|failure| failure.hint("agent-send --job lists the jobs")),
    }
}

/// Returns the command that the words after `--job` mean, and its id; `None` for the list.
fn parse(
    words: &[String],
    fields: Option<Value>,
    named: Option<Id>,
) -> Result<Option<(Id, JobOrder)>, Failure> {
    let usage = |what: String| Err(Failure::usage(what).hint("agent-send --job --help"));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let verb = words.first().copied().unwrap_or("list");
    if verb != "add" && fields.is_some() {
        return usage(format!(
            "the flags of a new job cannot be used with --job {verb}"
        ));
    }
    let (verb, job) = match words.as_slice() {
        [] | ["list"] => return Ok(None),
        ["add"] | ["add", _] => {
            // A job that is named is the same job however often it is added; the command is a new one each time.
            let id = Id::new();
            let job = named.map_or_else(|| id.short(), |job| job.as_str().to_owned());
            let ask = fields.unwrap_or_default();
            return Ok(Some((id, JobOrder::Add { job, ask })));
        }
        [verb @ ("list" | "add"), more, ..] => {
            return usage(format!("--job {verb} takes no {more:?}"));
        }
        [verb @ ("remove" | "run" | "pause" | "resume")] => {
            return usage(format!("--job {verb} needs the name or the id of a job"));
        }
        [verb, job, ..] => (*verb, (*job).to_owned()),
        [other] => return usage(format!("--job has no verb {other:?}")),
    };
    let order = match verb {
        "remove" => JobOrder::Remove { job },
        "run" => JobOrder::Run { job },
        "pause" => JobOrder::Pause { job },
        "resume" => JobOrder::Resume { job },
        other => return usage(format!("--job has no verb {other:?}")),
    };
    Ok(Some((named.unwrap_or_default(), order)))
}

/// Refuses what the daemon would refuse, where somebody sees it, and writes the time zone down that was meant.
fn checked(context: &Context<'_>, id: &Id, order: JobOrder) -> Result<JobOrder, Failure> {
    let (job, ask) = match order {
        JobOrder::Add { job, ask } => (job, ask),
        other => {
            known(context, other.job())?;
            return Ok(other);
        }
    };
    let wrong = |why: String| {
        Failure::usage(why).hint("agent-send --job --help; times and crontab lines: man agent-send")
    };
    let given = |name: &str| ask.get(name).is_some();
    if !given("text") || !["at", "every", "cron"].into_iter().any(given) {
        return Err(wrong(
            "job add needs --text and one of --at, --every, --cron".to_owned(),
        ));
    }
    let ask: Ask = serde_json::from_value(ask).map_err(|error| wrong(error.to_string()))?;
    if let Some(to) = &ask.to {
        submit::check_recipient(context, to)?;
    }
    message::check_model(context, ask.model.as_deref())?;
    let zone = config::load_config(context.home, context.env)?
        .agent
        .timezone
        .0;
    let now = clock::now_ms();
    let planned = ask.clone().job(id.as_str(), zone, now).map_err(wrong)?;
    // A few minutes too late is a slow script, and runs at once.
    if planned.next_at.is_some_and(|at| at.0 < now - DAY_MS) {
        let at = ask.at.unwrap_or_default();
        return Err(wrong(format!("--at {at} is in the past")));
    }
    Ok(JobOrder::Add {
        job,
        ask: serde_json::to_value(ask).expect("plain data"),
    })
}

/// Refuses a job that the file does not have, where no daemon and no waiting command can know better.
fn known(context: &Context<'_>, called: &str) -> Result<(), Failure> {
    let known = jobs::read(&context.home.jobs())?;
    if known.id_of(called) != Ok(None) || !submit::nothing_waits(context.home)? {
        return Ok(());
    }
    let what = format!("no job {:?}", text::visible(called));
    Err(Failure::failed(what).hint("agent-send --job lists the jobs"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control;
    use crate::jobs::{Missed, Overlap, Talk};

    #[test]
    fn whatever_is_asked_of_a_new_job_reaches_the_daemon() {
        let word = |word: &str| Some(word.to_owned());
        let ask = Ask {
            name: word("news"),
            at: word("2026-11-24T09:00"),
            every: word("30m"),
            cron: word("0 8 * * *"),
            tz: word("Europe/Paris"),
            text: "look".to_owned(),
            literal: true,
            deliver: true,
            to: word("1"),
            topic: word("2"),
            session: Some(Talk::Main),
            model: word("small"),
            missed: Some(Missed::All),
            overlap: Some(Overlap::Queue),
            delete_after_run: Some(true),
            budget_usd: Some(0.05),
            by: word("3"),
            untrusted: true,
        };
        let order = JobOrder::Add {
            job: "a".to_owned(),
            ask: serde_json::to_value(&ask).expect("plain data"),
        };
        let line = control::encode(&Id::new(), &Command::Job(order.clone()));
        assert_eq!(
            control::decode(line.as_bytes()).expect("a command").command,
            Command::Job(order)
        );
    }
}

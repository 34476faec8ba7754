//! `--job`: what the agent does at its times. The list is read from the file; everything else is an order for
//! the daemon, left in the spool when none runs.

use serde_json::Value;

use super::arguments::parse_id;
use super::submit;
use super::submit::ORDER_WAIT;
use super::wait;
use crate::app::cli;
use crate::app::cli::{Exit, Failure};
use crate::app::documents;
use crate::app::render;
use crate::app::render::Asker;
use crate::control::replies::Status;
use crate::control::{Command, Id};
use crate::jobs::Ask;
use crate::message::JobOrder;
use crate::sys::fifo::Rung;
use crate::{clock, config};

/// What is asked of jobs.
pub(super) enum Ordered {
    /// Which there are.
    List,
    /// Something is to become of one.
    Order {
        /// The command.
        id: Id,
        order: JobOrder,
        /// Whether it may wait for a daemon.
        queue: bool,
    },
}

/// Returns what the words after `--job` ask for.
pub(super) fn ordered(
    words: &[String],
    ask: Option<Value>,
    id: Option<&str>,
    queue: bool,
) -> Result<Ordered, Failure> {
    let usage = |what: String| {
        Failure::new(Exit::Usage, what)
            .hint("--job list, add, remove ID, run ID, pause ID, resume ID")
    };
    let named = id.map(parse_id).transpose()?;
    let (verb, job) = match words {
        [verb] => (verb.as_str(), None),
        [verb, job, ..] => (verb.as_str(), Some(job.as_str())),
        [] => return Err(usage("--job needs a verb".to_owned())),
    };
    if verb != "add" && ask.is_some() {
        return Err(usage(format!(
            "the flags of a new job do not go with --job {verb}"
        )));
    }
    let job = match (verb, job) {
        ("list" | "add", Some(more)) => {
            return Err(usage(format!("--job {verb} takes no {more:?}")));
        }
        ("list", None) => return Ok(Ordered::List),
        ("add", None) => named.clone(),
        (_, Some(job)) => Some(parse_id(job)?),
        (_, None) => return Err(usage(format!("--job {verb} needs the id of a job"))),
    };
    // A job that is named is the same job however often it is added; the order is a new one each time.
    let id = if verb == "add" {
        Id::new()
    } else {
        named.unwrap_or_default()
    };
    let name = |job: Option<Id>| job.map(|job| job.as_str().to_owned()).unwrap_or_default();
    let order = match verb {
        "add" => {
            let job = job.map_or_else(|| id.short(), |job| job.as_str().to_owned());
            JobOrder::Add {
                job,
                ask: ask.unwrap_or_default(),
            }
        }
        "remove" => JobOrder::Remove { job: name(job) },
        "run" => JobOrder::Run { job: name(job) },
        "pause" => JobOrder::Pause { job: name(job) },
        "resume" => JobOrder::Resume { job: name(job) },
        other => return Err(usage(format!("--job has no verb {other:?}"))),
    };
    Ok(Ordered::Order { id, order, queue })
}

/// Answers, or gives the order.
pub(super) fn job(asker: &Asker<'_>, ordered: Ordered) -> Result<Exit, Failure> {
    let Ordered::Order { id, order, queue } = ordered else {
        return Ok(render::jobs(asker, &documents::jobs(asker.home)?));
    };
    let home = asker.home;
    let order = checked(asker, &id, order)?;
    if !queue && !submit::listens(home)? {
        return Err(submit::no_daemon(home));
    }
    match submit::leave(home, &id, &Command::Job(order))? {
        Rung::NoReader if queue => return submit::queued(&id, asker.json),
        Rung::NoReader if submit::withdraw(home, &id) => return Err(submit::no_daemon(home)),
        Rung::NoReader | Rung::Heard | Rung::Full => {}
    }
    let (tell, news) = std::sync::mpsc::channel();
    match wait::wait(
        home,
        &id,
        Some(ORDER_WAIT),
        wait::Show::default(),
        &tell,
        &news,
    )? {
        wait::Ended::Answered(reply, _) => match reply
            .job
            .as_ref()
            .filter(|_| asker.json && reply.status == Status::Done)
        {
            Some(job) => {
                cli::json(job);
                Ok(Exit::Ok)
            }
            None if asker.json => wait::print(&reply, true),
            None => wait::print(&reply, false)
                .map_err(|failure| failure.hint("agent-send --job list shows what there is")),
        },
        wait::Ended::TimedOut | wait::Ended::Interrupted => Err(Failure::new(
            Exit::TryAgain,
            format!(
                "the daemon did not answer within {} s",
                ORDER_WAIT.as_secs()
            ),
        )
        .hint(format!(
            "it is carried out as soon as it can: agent-send --result {id} --wait"
        ))),
    }
}

/// Refuses what the daemon would refuse, where somebody sees it, and writes the time zone down that was meant.
fn checked(asker: &Asker<'_>, id: &Id, order: JobOrder) -> Result<JobOrder, Failure> {
    let JobOrder::Add { job, ask } = order else {
        return Ok(order);
    };
    let wrong = |why: String| {
        Failure::new(Exit::Usage, why)
            .hint("agent-send --help; times and crontab lines: man agent-send")
    };
    let mut ask: Ask = serde_json::from_value(ask).map_err(|error| wrong(error.to_string()))?;
    if let Some(to) = ask
        .to
        .as_deref()
        .filter(|to| *to != "owner" && to.parse::<i64>().is_err())
    {
        submit::check_contact(asker.home, to)?;
    }
    let zone = config::load_config(asker.home, asker.env)?.agent.timezone.0;
    ask.tz.get_or_insert_with(|| zone.name().to_owned());
    ask.clone()
        .job(id.as_str(), zone, clock::now_ms())
        .map_err(wrong)?;
    Ok(JobOrder::Add {
        job,
        ask: serde_json::to_value(ask).expect("plain data"),
    })
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

//! Reminders: commitments with a deadline become jobs that remind their owner on the morning of that day
//! (specification §13).
//!
//! The jobs follow the commitments: a job is added for a new or moved commitment, and removed when the commitment is
//! settled. They are added and removed like with `agent-send --job`, also when no daemon is running. Each command has
//! an id derived from its content, so that it is executed once, and a reminder that its owner removed stays removed.

use chrono::{NaiveDate, NaiveTime};
use chrono_tz::Tz;

use super::cli::Failure;
use crate::config::{Config, Home};
use crate::control::{Command, Id, encode, spool};
use crate::jobs;
use crate::jobs::{Ask, Jobs};
use crate::memory::Scope;
use crate::memory::facts;
use crate::memory::facts::commitments;
use crate::memory::facts::commitments::Commitment;
use crate::message::JobOrder;
use crate::sys::fifo;
use crate::{clock, text};

/// When somebody is reminded of what is due on a day.
const MORNING: (u32, u32) = (9, 0);
/// How long before its time they are reminded of what is due earlier than that.
const BEFORE_MS: i64 = 3_600_000;
/// What the ids of these jobs begin with.
const PREFIX: &str = "commitment-";

/// Orders what is missing in the jobs and takes out what is there in vain; returns how many orders that were.
///
/// # Errors
/// When the commitments or the jobs cannot be read, or the spool not be written.
pub(super) fn order(home: &Home, config: &Config) -> Result<usize, Failure> {
    // Nobody could be reminded.
    if config.open_channels().next().is_none() {
        return Ok(0);
    }
    let zone = config.agent.timezone.0;
    let open = commitments::list(&facts::database(home), false)?;
    let known = jobs::read(&home.jobs())?;
    let orders = orders(&open, &known, zone, clock::now_ms());
    for (id, order) in &orders {
        // One that was carried out before and undone by its owner is not carried out again, see `Id`.
        let command = Command::Job(order.clone());
        spool::put(
            &home.spool_tmp(),
            &home.spool_new(),
            id,
            &encode(id, &command),
        )?;
        // The spool is looked at from time to time anyway.
        let _ = fifo::ring(
            &home.fifo(),
            &encode(id, &Command::Spool { id: id.clone() }),
        );
    }
    Ok(orders.len())
}

fn orders(open: &[Commitment], known: &Jobs, zone: Tz, now: i64) -> Vec<(Id, JobOrder)> {
    let wanted: Vec<(String, Ask, i64)> = open
        .iter()
        .filter(|one| one.scope == Scope::Owner && one.status == commitments::Status::Open)
        .filter_map(|one| {
            let at = remind_at(one.deadline.as_deref()?, zone).filter(|at| *at > now)?;
            let ask = Ask {
                name: Some(text::shorten(&one.what, 60)),
                at: Some(clock::rfc3339(at)),
                tz: Some(zone.name().to_owned()),
                text: words(one),
                literal: true,
                ..Ask::default()
            };
            Some((format!("{PREFIX}{}", one.id), ask, one.updated_at))
        })
        .collect();
    let is_there = |job: &str, ask: &Ask| {
        let same = |known: &jobs::Job| {
            known.text == ask.text
                && Some(known.schedule_text()) == ask.at.as_ref().map(|at| format!("at {at}"))
        };
        known.get(job).is_some_and(same)
    };
    let missing = wanted
        .iter()
        .filter(|(job, ask, _)| !is_there(job, ask))
        .map(|(job, ask, updated_at)| {
            let ask = serde_json::to_value(ask).expect("plain data with string keys");
            // A job that is moved back is another order than the one that made it; one that its owner took out stays out.
            let what = match known.get(job) {
                Some(_) => format!("{ask} since {updated_at}"),
                None => ask.to_string(),
            };
            let id = id_of(job, &what);
            (
                id,
                JobOrder::Add {
                    job: job.clone(),
                    ask,
                },
            )
        });
    // One whose time has come is about to go by itself.
    let in_vain = known.iter().filter(|job| {
        let is_ahead = job.next_at.is_some_and(|at| at.0 > now);
        job.id.starts_with(PREFIX) && is_ahead && !wanted.iter().any(|(id, ..)| *id == job.id)
    });
    let removals = in_vain.map(|job| {
        (
            id_of(
                &job.id,
                &format!("remove {} of {}", job.schedule_text(), job.created_at.0),
            ),
            JobOrder::Remove {
                job: job.id.clone(),
            },
        )
    });
    missing.chain(removals).collect()
}

/// Returns the id of an order: the same for the same order.
fn id_of(job: &str, what: &str) -> Id {
    let digest = text::sha256_hex(what.as_bytes());
    let digits = text::head(&digest, 12);
    Id::parse(&format!("{job}-{digits}")).unwrap_or_default()
}

/// Returns when somebody is reminded of what is due at `deadline`; `None` when that says nothing.
fn remind_at(deadline: &str, zone: Tz) -> Option<i64> {
    let morning = |day: NaiveDate| {
        let time = NaiveTime::from_hms_opt(MORNING.0, MORNING.1, 0).unwrap_or_default();
        clock::instant_of(day.and_time(time), zone)
    };
    if let Ok(day) = deadline.parse::<NaiveDate>() {
        return Some(morning(day));
    }
    let due = commitments::due_ms(deadline, zone)?;
    let morning = morning(clock::local_date(due, zone));
    Some(if morning < due {
        morning
    } else {
        due - BEFORE_MS
    })
}

fn words(one: &Commitment) -> String {
    let who = if one.who == "user" {
        String::new()
    } else {
        format!("{}: ", one.who)
    };
    let until = one
        .deadline
        .as_deref()
        .unwrap_or_default()
        .replace('T', " ");
    text::visible(&format!("Reminder: {who}{} (until {until}).", one.what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commitment(id: i64, what: &str, deadline: &str) -> Commitment {
        Commitment {
            id,
            scope: Scope::Owner,
            who: "user".into(),
            what: what.into(),
            deadline: Some(deadline.into()),
            status: commitments::Status::Open,
            source: "workspace/memory/x.md".into(),
            source_line: 1,
            quote: String::new(),
            created_at: 0,
            shown_at: None,
            updated_at: 0,
        }
    }

    fn at(text: &str) -> i64 {
        clock::parse_rfc3339(text).expect("a time")
    }

    #[test]
    fn somebody_is_reminded_in_the_morning_or_an_hour_before() {
        let zone: Tz = "Europe/Berlin".parse().expect("zone");
        let check = |deadline: &str, expected: &str| {
            assert_eq!(remind_at(deadline, zone), Some(at(expected)), "{deadline}")
        };
        check("2026-11-27", "2026-11-27T08:00:00Z");
        check("2026-11-27T17:00", "2026-11-27T08:00:00Z");
        check("2026-11-27T07:30", "2026-11-27T05:30:00Z");
        check("2026-07-01", "2026-07-01T07:00:00Z");
        assert_eq!(remind_at("soon", zone), None);
    }

    #[test]
    fn the_jobs_follow_the_commitments() {
        let now = at("2026-11-23T12:00:00Z");
        let told = |open: &[Commitment], known: &Jobs| -> Vec<String> {
            let line = |(id, order): &(Id, JobOrder)| match order {
                JobOrder::Add { job, ask } => {
                    format!(
                        "{job} {} {}",
                        ask["at"].as_str().unwrap_or_default(),
                        ask["text"].as_str().unwrap_or_default()
                    )
                }
                JobOrder::Remove { job } => format!("- {job}"),
                other => format!("{id} {other:?}"),
            };
            orders(open, known, Tz::UTC, now).iter().map(line).collect()
        };
        let bank = commitment(7, "call the bank", "2026-11-27");
        let others = Commitment {
            scope: Scope::Person("1002".into()),
            ..commitment(8, "x", "2026-11-27")
        };
        let past = commitment(9, "x", "2026-11-20");
        let open = [bank.clone(), others, past];
        let order =
            "commitment-7 2026-11-27T09:00:00.000Z Reminder: call the bank (until 2026-11-27).";
        assert_eq!(told(&open, &Jobs::default()), [order]);
        let ids = |open: &[Commitment]| -> Vec<Id> {
            orders(open, &Jobs::default(), Tz::UTC, now)
                .into_iter()
                .map(|(id, _)| id)
                .collect()
        };
        assert_eq!(ids(&open), ids(&open), "the same order is carried out once");

        // Once it is there nothing is ordered; when it was moved or settled, it is.
        let mut known = Jobs::default();
        for (_, order) in orders(&open, &known.clone(), Tz::UTC, now) {
            let JobOrder::Add { job, ask } = order else {
                panic!("an addition")
            };
            let ask: Ask = serde_json::from_value(ask).expect("an ask");
            known.put(ask.job(&job, Tz::UTC, now).expect("a job"));
        }
        assert_eq!(told(&open, &known), [] as [&str; 0]);
        let moved = |deadline: &str, updated_at: i64| {
            let moved = Commitment {
                updated_at,
                ..commitment(7, "call the bank", deadline)
            };
            let mut orders = orders(&[moved], &known, Tz::UTC, now).into_iter();
            orders.next().map(|(id, _)| id)
        };
        assert!(moved("2026-11-28", 1).is_some());
        // Moved there, back, and there again: that is three orders.
        assert_ne!(moved("2026-11-28", 1), moved("2026-11-28", 3));
        assert_eq!(
            told(
                &[Commitment {
                    status: commitments::Status::Done,
                    ..bank
                }],
                &known
            ),
            ["- commitment-7"]
        );
        assert_eq!(told(&[], &known), ["- commitment-7"]);
    }
}

//! `cron`, `schedule_message`, `list_scheduled`: what is to happen at its times. Orders go the way of
//! `agent-send --job`; what the model is told is what the daemon answered.

use std::sync::Arc;

use serde_json::{Value, json};

use super::send_command::order;
use super::{Needs, blocking, output, text};
use crate::agent::{Context, Reach, Rights, Tool, ToolOutput};
use crate::clock;
use crate::control::{Command, Id};
use crate::jobs;
use crate::jobs::{Ask, Job};
use crate::memory::Scope;
use crate::message::JobOrder;
use crate::provider::{BoxFuture, ToolSpec};

/// A time so long past was worked out wrong (a year, a zone), and is not meant.
const PAST_MS: i64 = 5 * 60_000;

pub(super) fn all(needs: &Arc<Needs>) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(Cron(needs.clone())),
        Arc::new(ScheduleMessage(needs.clone())),
        Arc::new(ListScheduled(needs.clone())),
    ]
}

/// Returns to whom a job goes that is made in this conversation: the owner wherever they are last heard, others
/// and groups where they are now.
fn here(context: &Context) -> (Option<String>, Option<String>) {
    match &context.route {
        Some(route) if !context.viewer.may_see(&Scope::Owner) => {
            (Some(route.chat.chat.clone()), route.chat.topic.clone())
        }
        Some(_) | None => (None, None),
    }
}

/// Refuses a time that was worked out wrong.
fn is_sound(ask: &Ask, needs: &Needs) -> Result<(), String> {
    let now = clock::now_ms();
    let job = ask.clone().job("new", needs.zone, now)?;
    match job.first_after(now)? {
        Some(at) if at < now - PAST_MS => Err(format!(
            "{} is past: it is {} now",
            clock::local_text(at, needs.zone),
            clock::local_text(now, needs.zone)
        )),
        Some(_) => Ok(()),
        None => Err("this time never comes".to_owned()),
    }
}

fn optional(input: &Value, name: &str) -> Option<String> {
    input
        .get(name)
        .and_then(Value::as_str)
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

struct Cron(Arc<Needs>);

impl Tool for Cron {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "cron".into(),
            description:
                "Do something by yourself at its time: add a job (at, every or cron; `text` is what you will be told then), \
                          or list, run, pause, resume, remove jobs. Times without an offset are the owner's."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "op": {"type": "string", "enum": ["add", "list", "remove", "run", "status", "pause", "resume"]},
                    "id": {"type": "string"},
                    "name": {"type": "string"},
                    "at": {"type": "string", "description": "once: 2026-11-24T09:00"},
                    "every": {"type": "string", "description": "30m, 2h, 1d"},
                    "cron": {"type": "string", "description": "crontab line: 0 8 * * mon-fri"},
                    "tz": {"type": "string"},
                    "text": {"type": "string"},
                    "deliver": {"type": "boolean", "description": "send the answer here (default true)"},
                    "delete_after_run": {"type": "boolean"}
                },
                "required": ["op"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        false
    }

    fn is_rare(&self) -> bool {
        true
    }

    fn rights(&self) -> Rights {
        Rights::Owner
    }

    fn reach(&self, input: &Value, _context: &Context) -> Reach {
        if ["list", "status"].contains(&text(input, "op")) {
            Reach::Shows
        } else {
            Reach::Acts
        }
    }

    fn receipt(&self, input: &Value, answer: &str) -> Option<String> {
        let changes = !["list", "status"].contains(&text(input, "op"));
        changes.then(|| crate::text::shorten(answer.lines().next().unwrap_or_default(), 160))
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move { output(self.act(input, context).await) })
    }
}

impl Cron {
    async fn act(&self, input: &Value, context: &Context) -> Result<String, String> {
        let home = self.0.memory.home();
        let id = optional(input, "id");
        let op = text(input, "op");
        if op == "list" || (op == "status" && id.is_none()) {
            return listed(&self.0, |_| true).await;
        }
        if op == "status" {
            return listed(&self.0, move |job| Some(job.id.as_str()) == id.as_deref()).await;
        }
        let named = |id: Option<String>| {
            id.and_then(|id| Id::parse(&id))
                .map(|id| id.as_str().to_owned())
                .ok_or_else(|| "`id` must name a job".to_owned())
        };
        let job = match op {
            "remove" => JobOrder::Remove { job: named(id)? },
            "run" => JobOrder::Run { job: named(id)? },
            "pause" => JobOrder::Pause { job: named(id)? },
            "resume" => JobOrder::Resume { job: named(id)? },
            _ => {
                let (to, topic) = here(context);
                let deliver = input
                    .get("deliver")
                    .and_then(Value::as_bool)
                    .unwrap_or(true);
                let ask = Ask {
                    name: optional(input, "name"),
                    at: optional(input, "at"),
                    every: optional(input, "every"),
                    cron: optional(input, "cron"),
                    tz: optional(input, "tz"),
                    text: text(input, "text").to_owned(),
                    deliver,
                    to: to.filter(|_| deliver),
                    topic: topic.filter(|_| deliver),
                    delete_after_run: input.get("delete_after_run").and_then(Value::as_bool),
                    ..Ask::default()
                };
                add(&self.0, ask, id)?
            }
        };
        order(home, Command::Job(job)).await
    }
}

fn add(needs: &Needs, ask: Ask, id: Option<String>) -> Result<JobOrder, String> {
    is_sound(&ask, needs)?;
    let job = match id {
        Some(id) => Id::parse(&id)
            .ok_or("`id` must match [A-Za-z0-9_-]{1,64}")?
            .as_str()
            .to_owned(),
        None => Id::new().short(),
    };
    Ok(JobOrder::Add {
        job,
        ask: serde_json::to_value(ask).expect("plain data with string keys"),
    })
}

struct ScheduleMessage(Arc<Needs>);

impl Tool for ScheduleMessage {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "schedule_message".into(),
            description:
                "Send these very words here at a later time: a reminder. It costs nothing then."
                    .into(),
            schema: json!({
                "type": "object",
                "properties": {
                    "at": {"type": "string", "description": "2026-11-24T09:00, the owner's time unless it has an offset"},
                    "text": {"type": "string"},
                    "tz": {"type": "string"}
                },
                "required": ["at", "text"]
            }),
        }
    }

    fn read_only(&self) -> bool {
        false
    }

    fn is_rare(&self) -> bool {
        true
    }

    fn rights(&self) -> Rights {
        Rights::Anybody
    }

    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Acts
    }

    fn run<'a>(&'a self, input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        Box::pin(async move {
            let (to, topic) = here(context);
            let is_owners = context.viewer.may_see(&Scope::Owner);
            let ask = Ask {
                at: optional(input, "at"),
                tz: optional(input, "tz"),
                text: text(input, "text").to_owned(),
                literal: true,
                to,
                topic,
                by: (!is_owners).then(|| context.person.clone()),
                ..Ask::default()
            };
            match add(&self.0, ask, None) {
                Ok(job) => output(order(self.0.memory.home(), Command::Job(job)).await),
                Err(why) => ToolOutput::error(why),
            }
        })
    }
}

struct ListScheduled(Arc<Needs>);

impl Tool for ListScheduled {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            name: "list_scheduled".into(),
            description: "List the messages and jobs that wait for their time here.".into(),
            schema: json!({"type": "object", "properties": {}}),
        }
    }

    fn read_only(&self) -> bool {
        true
    }

    fn is_rare(&self) -> bool {
        true
    }

    fn rights(&self) -> Rights {
        Rights::Anybody
    }

    fn reach(&self, _input: &Value, _context: &Context) -> Reach {
        Reach::Shows
    }

    fn run<'a>(&'a self, _input: &'a Value, context: &'a Context) -> BoxFuture<'a, ToolOutput> {
        let is_owners = context.viewer.may_see(&Scope::Owner);
        let (to, topic) = here(context);
        let person = context.person.clone();
        // Others see what they asked for themselves, where they are.
        let shows = move |job: &Job| {
            is_owners || (job.to == to && job.topic == topic && job.by.as_ref() == Some(&person))
        };
        Box::pin(async move { output(listed(&self.0, shows).await) })
    }
}

/// Returns the jobs that `shows` picks, a line each.
async fn listed(
    needs: &Needs,
    shows: impl Fn(&Job) -> bool + Send + 'static,
) -> Result<String, String> {
    let (path, zone) = (needs.memory.home().jobs(), needs.zone);
    let lines = blocking(move || {
        let known = jobs::read(&path).map_err(|error| error.to_string())?;
        let lines: Vec<String> = known
            .iter()
            .filter(|job| shows(job))
            .map(|job| line(job, zone))
            .collect();
        Ok(lines.join("\n"))
    })
    .await;
    if lines.is_error {
        return Err(lines.text);
    }
    Ok(if lines.text.is_empty() {
        "nothing waits for its time".to_owned()
    } else {
        lines.text
    })
}

fn line(job: &Job, zone: chrono_tz::Tz) -> String {
    let time = |at: Option<jobs::Time>| {
        at.map_or_else(|| "never".to_owned(), |at| clock::local_text(at.0, zone))
    };
    let next = if job.enabled {
        time(job.next_at)
    } else {
        "paused".to_owned()
    };
    let last = job.last_status.map(|status| {
        let status = status.as_str();
        let why = job.last_error.as_ref().map_or_else(String::new, |why| {
            format!(" ({})", crate::text::shorten(why, 200))
        });
        format!("; last {}: {status}{why}", time(job.last_at))
    });
    let what = crate::text::shorten(&crate::text::visible(&job.text), 200);
    format!(
        "{} {}: {}; next {next}{}; {what}",
        job.id,
        job.name,
        job.schedule_text(),
        last.unwrap_or_default()
    )
}

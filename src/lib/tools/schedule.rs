//! `cron`, `schedule_message`, `list_scheduled`: jobs and scheduled messages. They send commands like `agent-send --job`; the
//! model receives the daemon's reply.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::Needs;
use super::send_command::order;
use super::typed::{About, NoArgs, Property, TypedTool, not_blank, tool};
use crate::agent::{Context, Reach, Tool, ToolOutput};
use crate::clock;
use crate::control::{Command, Id};
use crate::jobs;
use crate::jobs::{Ask, Job};
use crate::memory::Scope;
use crate::message::JobOrder;
use crate::trust::Provenance;
use crate::undo::Deed;

/// A time so long past was worked out wrong (a year, a zone), and is not meant.
const PAST_MS: i64 = 5 * 60_000;

pub(super) fn all(needs: &Arc<Needs>) -> Vec<Arc<dyn Tool>> {
    vec![
        tool(Cron(needs.clone())),
        tool(ScheduleMessage(needs.clone())),
        tool(ListScheduled(needs.clone())),
    ]
}

/// Returns the chat and the topic of a job that is made in this conversation: none for the owner, who is
/// reached wherever they last wrote; for others and groups where they are now.
fn here(context: &Context) -> (Option<String>, Option<String>) {
    match &context.route {
        Some(route) if !context.viewer.may_see(&Scope::Owner) => {
            (Some(route.to()), route.chat.topic.clone())
        }
        Some(_) | None => (None, None),
    }
}

/// Returns who asks for a job, when it is not the owner.
fn by(context: &Context) -> Option<String> {
    let is_owners = context.viewer.may_see(&Scope::Owner);
    (!is_owners).then(|| context.person.clone())
}

/// Returns whether a job is one that this conversation may see and take back: the owner's all, others' what they asked for
/// themselves, where they are.
fn is_theirs(context: &Context) -> impl Fn(&Job) -> bool + Send + 'static {
    let is_owners = context.viewer.may_see(&Scope::Owner);
    let (to, topic) = here(context);
    let person = context.person.clone();
    move |job| is_owners || (job.to == to && job.topic == topic && job.by.as_ref() == Some(&person))
}

/// Refuses a time that was worked out wrong.
fn check_time(ask: &Ask, needs: &Needs) -> Result<(), String> {
    let now = clock::now_ms();
    let job = ask.clone().job("new", needs.zone, now)?;
    match job.first_after(now, needs.zone)? {
        Some(at) if at < now - PAST_MS => Err(format!(
            "{} is past: it is {} now",
            clock::local_text(at, needs.zone),
            clock::local_text(now, needs.zone)
        )),
        Some(_) => Ok(()),
        None => Err("this time never comes".to_owned()),
    }
}

struct Cron(Arc<Needs>);

#[derive(Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Op {
    Add,
    List,
    Remove,
    Run,
    Status,
    Pause,
    Resume,
}

impl Op {
    fn changes_something(self) -> bool {
        !matches!(self, Self::List | Self::Status)
    }
}

#[derive(Deserialize, JsonSchema)]
struct CronArgs {
    op: Op,
    id: Option<String>,
    name: Option<String>,
    /// 2026-11-24T09:00
    at: Option<String>,
    /// 30m, 2h, 1d
    every: Option<String>,
    /// 0 8 * * mon-fri
    cron: Option<String>,
    tz: Option<String>,
    #[serde(default)]
    text: String,
    deliver: Option<bool>,
    delete_after_run: Option<bool>,
}

impl TypedTool for Cron {
    type Args = CronArgs;

    const ABOUT: About = About {
        name: "cron",
        description: "Do something at its time: add a job (at, every or cron; text: what you are told then), list, \
                      run, pause, resume or remove jobs.",
        properties: &[Property::RareWhereDear],
    };

    fn reach(&self, args: &CronArgs, _context: &Context) -> Reach {
        match args.op.changes_something() {
            true => Reach::Acts,
            false => Reach::Shows,
        }
    }

    fn receipt(&self, args: &CronArgs, result: &str) -> Option<String> {
        args.op
            .changes_something()
            .then(|| crate::agent::tool::receipt_of(result))
    }

    async fn run(&self, args: CronArgs, context: &Context) -> ToolOutput {
        self.act(args, context).await.into()
    }
}

impl Cron {
    async fn act(&self, args: CronArgs, context: &Context) -> Result<ToolOutput, String> {
        let id = not_blank(args.id);
        let job_id = || id.clone().ok_or("`id` must name a job: its id or its name");
        let job = match args.op {
            Op::List => return Ok(list(&self.0, |_| true).await),
            Op::Status => {
                let is_meant = move |job: &Job| {
                    let is_it = |id: &String| *id == job.id.as_str() || *id == job.name;
                    id.as_ref().is_none_or(is_it)
                };
                return Ok(list(&self.0, is_meant).await);
            }
            Op::Remove => JobOrder::Remove { job: job_id()? },
            Op::Run => JobOrder::Run { job: job_id()? },
            Op::Pause => JobOrder::Pause { job: job_id()? },
            Op::Resume => JobOrder::Resume { job: job_id()? },
            Op::Add => {
                let (to, topic) = here(context);
                let deliver = args.deliver.unwrap_or(true);
                let ask = Ask {
                    name: not_blank(args.name),
                    at: not_blank(args.at),
                    every: not_blank(args.every),
                    cron: not_blank(args.cron),
                    tz: not_blank(args.tz),
                    text: args.text,
                    deliver,
                    to: to.filter(|_| deliver),
                    topic: topic.filter(|_| deliver),
                    delete_after_run: args.delete_after_run,
                    untrusted: context.untrusted && context.approved.is_none(),
                    by: by(context),
                    ..Ask::default()
                };
                add(&self.0, ask, id)?
            }
        };
        let done = order(self.0.memory.home(), Command::Job(job)).await?;
        if args.op != Op::Run {
            self.0.note_deed(context, Deed::Job);
        }
        Ok(ToolOutput::ok(done))
    }
}

fn add(needs: &Needs, ask: Ask, id: Option<String>) -> Result<JobOrder, String> {
    check_time(&ask, needs)?;
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

#[derive(Deserialize, JsonSchema)]
struct MessageArgs {
    /// as in cron
    at: Option<String>,
    #[serde(default)]
    text: String,
    tz: Option<String>,
    cancel_id: Option<String>,
}

impl TypedTool for ScheduleMessage {
    type Args = MessageArgs;

    const ABOUT: About = About {
        name: "schedule_message",
        description: "Send these very words here later: a reminder.",
        properties: &[Property::Anybody, Property::RareWhereDear],
    };

    /// What others take back is what they asked for themselves.
    fn reach(&self, args: &MessageArgs, context: &Context) -> Reach {
        match not_blank(args.cancel_id.clone()).is_some() && !context.viewer.may_see(&Scope::Owner)
        {
            true => Reach::Free,
            false => Reach::Acts,
        }
    }

    async fn run(&self, args: MessageArgs, context: &Context) -> ToolOutput {
        if let Some(id) = not_blank(args.cancel_id) {
            return self.cancel(id, context).await.into();
        }
        let (to, topic) = here(context);
        let ask = Ask {
            at: not_blank(args.at),
            tz: not_blank(args.tz),
            text: args.text,
            literal: true,
            untrusted: context.untrusted,
            to,
            topic,
            by: by(context),
            ..Ask::default()
        };
        match add(&self.0, ask, None) {
            Ok(job) => {
                let done = order(self.0.memory.home(), Command::Job(job)).await;
                if done.is_ok() {
                    self.0.note_deed(context, Deed::Job);
                }
                done.into()
            }
            Err(why) => ToolOutput::error(why),
        }
    }
}

impl ScheduleMessage {
    async fn cancel(&self, id: String, context: &Context) -> Result<String, String> {
        let (path, is_theirs) = (self.0.memory.home().jobs(), is_theirs(context));
        let meant = id.clone();
        let may = move || {
            let known = jobs::read(&path).map_err(|error| error.to_string())?;
            Ok::<_, String>(known.get(&meant).is_some_and(is_theirs))
        };
        if !crate::sys::blocking(may).await? {
            let id = crate::text::shorten(&crate::text::visible(&id), 80);
            return Err(format!(
                "nothing here has the id {id:?}; list_scheduled shows the ids"
            ));
        }
        let done = order(
            self.0.memory.home(),
            Command::Job(JobOrder::Remove { job: id }),
        )
        .await?;
        self.0.note_deed(context, Deed::Job);
        Ok(done)
    }
}

struct ListScheduled(Arc<Needs>);

impl TypedTool for ListScheduled {
    type Args = NoArgs;

    const ABOUT: About = About {
        name: "list_scheduled",
        description: "List the messages and jobs that wait for their time here.",
        properties: &[Property::Anybody, Property::ReadOnly, Property::Rare],
    };

    /// Others see only what they asked for, where it will be said.
    fn reach(&self, _args: &NoArgs, context: &Context) -> Reach {
        match context.viewer.may_see(&Scope::Owner) {
            true => Reach::Shows,
            false => Reach::Free,
        }
    }

    async fn run(&self, _args: NoArgs, context: &Context) -> ToolOutput {
        list(&self.0, is_theirs(context)).await
    }
}

/// Returns the jobs that `shows` picks, a line each, marked when untrusted text chose the text of one.
async fn list(needs: &Needs, shows: impl Fn(&Job) -> bool + Send + 'static) -> ToolOutput {
    let (path, zone) = (needs.memory.home().jobs(), needs.zone);
    super::blocking(move || {
        let known = jobs::read(&path).map_err(|error| error.to_string())?;
        let shown: Vec<&Job> = known.iter().filter(|job| shows(job)).collect();
        let lines: Vec<String> = shown.iter().map(|job| line(job, zone)).collect();
        let text = match lines.is_empty() {
            true => "nothing waits for its time".to_owned(),
            false => lines.join("\n"),
        };
        let is_untrusted = shown.iter().any(|job| job.untrusted);
        Ok::<_, String>(ToolOutput::ok(text).marked(is_untrusted.then_some(Provenance::Model)))
    })
    .await
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

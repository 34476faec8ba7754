//! The data of OpenClaw, according to its documentation (docs.openclaw.ai, November 2026):
//!
//! ```text
//! openclaw.json                  settings: agents.defaults.workspace, channels.telegram {allowFrom, groups}
//! workspace/                     SOUL.md, USER.md, MEMORY.md …, memory/*.md, skills/NAME/SKILL.md, prompts/
//! skills/NAME/SKILL.md           skills for all its agents
//! cron/jobs.json                 {"jobs":[{id, name, enabled, schedule, payload, delivery}]}
//! agents/ID/sessions/*.jsonl     conversations, a JSON document a line; of newer versions the rows of
//! agents/ID/agent/openclaw-agent.sqlite
//! workspace-ID/                  of its other agents: left
//! state/openclaw.sqlite          jobs and pairings of newer versions: left
//! credentials/                   keys: left
//! ```

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{
    Context, NO_FILE, Plan, entries, file_name, ids, relaxed_json, role, scratch, time, words,
};
use crate::jobs::{Ask, Talk};
use crate::message::Role;
use crate::session::Head;
use crate::sys::jsonl;
use crate::{clock, db, jobs, sys};

/// Returns the data of the OpenClaw in `dir` that can be imported.
///
/// # Errors
/// When there is none.
pub fn plan(dir: &Path, context: &Context<'_>) -> Result<Plan, sys::Error> {
    let mut plan = Plan::default();
    std::fs::read_dir(dir).map_err(sys::Error::at("read", dir))?;
    let settings = settings(&mut plan, dir);
    let workspace = workspace(&mut plan, dir, &settings);
    for entry in entries(&workspace) {
        let name = entry.file_name().to_string_lossy().into_owned();
        match name.as_str() {
            // Here its files would be active.
            "skills" | "prompts" => {}
            "BOOTSTRAP.md" => plan.leave(name, "only for its first conversation"),
            _ if name.starts_with('.') => plan.leave(name, "hidden"),
            _ if entry.file_type().is_ok_and(|kind| kind.is_dir()) => {
                plan.tree(context.home, &entry.path(), &name)
            }
            _ => {
                if let Some(bytes) = plan.read(&workspace, &name, &name) {
                    plan.text(context.home, &name, bytes);
                }
            }
        }
    }
    plan.tree(context.home, &workspace.join("prompts"), "imported/prompts");
    for skills in [workspace.join("skills"), dir.join("skills")] {
        plan.tree(context.home, &skills, "imported/skills");
    }
    channels(&mut plan, &settings);
    cron(&mut plan, dir, context)?;
    conversations(&mut plan, dir, context);
    for entry in entries(dir) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("workspace-") {
            plan.leave(
                name,
                "of another agent of it; a home is one agent's, make one with --instance NAME",
            );
        }
    }
    for (name, why) in [
        (
            "state/openclaw.sqlite",
            "jobs and pairings of newer versions; `openclaw cron list` shows the jobs",
        ),
        ("credentials", "keys are not copied: agent-daemon login"),
        (
            "extensions",
            "plugins run inside the other program; tool servers (MCP) do not",
        ),
    ] {
        if dir.join(name).exists() {
            plan.leave(name, why);
        }
    }
    Ok(plan)
}

fn settings(plan: &mut Plan, dir: &Path) -> Value {
    let Some(bytes) = plan.read(dir, "openclaw.json", "openclaw.json") else {
        return Value::Null;
    };
    relaxed_json::parse(&String::from_utf8_lossy(&bytes)).unwrap_or_else(|error| {
        plan.leave(
            "openclaw.json",
            format!("not read ({error}): set the channels by hand"),
        );
        Value::Null
    })
}

/// Returns the workspace: the one that the settings name, or the one beside them where that is not on this machine.
fn workspace(plan: &mut Plan, dir: &Path, settings: &Value) -> PathBuf {
    let named = settings["agents"]["defaults"]["workspace"]
        .as_str()
        .or_else(|| settings["agent"]["workspace"].as_str());
    let usual = dir.join("workspace");
    let meant = match named.map(|path| (path, path.strip_prefix("~/"))) {
        Some((_, Some(below_home))) => dir.parent().unwrap_or(dir).join(below_home),
        Some((path, None)) => dir.join(path),
        None => usual.clone(),
    };
    if meant.is_dir() {
        return meant;
    }
    if named.is_some() && !usual.is_dir() {
        plan.leave(
            format!("workspace {}", meant.display()),
            "it is not on this machine: copy it to where openclaw.json says, or beside openclaw.json as workspace/",
        );
    }
    usual
}

/// What is read of openclaw.json, and what says only who wrote it.
const READ: [&str; 7] = [
    "$schema", "agent", "agents", "channels", "cron", "meta", "wizard",
];

fn channels(plan: &mut Plan, settings: &Value) {
    let channels = settings["channels"].as_object().into_iter().flatten();
    for (name, channel) in channels {
        if name == "telegram" {
            let groups: Vec<(String, bool)> = channel["groups"]
                .as_object()
                .into_iter()
                .flatten()
                .filter(|(id, _)| id.parse::<i64>().is_ok())
                .map(|(id, group)| {
                    (
                        id.clone(),
                        group["requireMention"].as_bool().unwrap_or(true),
                    )
                })
                .collect();
            plan.telegram(&ids(&channel["allowFrom"]), &groups);
            plan.leave(
                "channels.telegram.botToken",
                "keys are not copied: put it into .env as TELEGRAM_BOT_TOKEN",
            );
        } else if name != "defaults" {
            plan.leave(format!("channels.{name}"), "there is no such channel here");
        }
    }
    let rest = settings
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, _)| name);
    for name in rest.filter(|name| !READ.contains(&name.as_str())) {
        plan.leave(
            format!("{name} of openclaw.json"),
            "settings of another kind; see agent.toml(5)",
        );
    }
}

fn cron(plan: &mut Plan, dir: &Path, context: &Context<'_>) -> Result<(), sys::Error> {
    let file = plan.json(dir, "cron/jobs.json");
    let known = jobs::read(&context.home.jobs())?;
    for job in file["jobs"].as_array().into_iter().flatten() {
        let id = job["id"]
            .as_str()
            .or_else(|| job["jobId"].as_str())
            .unwrap_or_default();
        if known.get(id).is_none() {
            plan.job(context, id, job, ask(job));
        }
    }
    Ok(())
}

fn ask(job: &Value) -> Result<Ask, String> {
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let (schedule, payload, delivery) = (&job["schedule"], &job["payload"], &job["delivery"]);
    let is_event = payload["kind"] == "systemEvent";
    let channel = delivery["channel"].as_str().unwrap_or("last");
    if delivery["mode"] == "webhook" || !["last", "telegram"].contains(&channel) {
        return Err(format!(
            "it delivers to {}",
            if channel == "last" {
                "a webhook"
            } else {
                channel
            }
        ));
    }
    let (chat, topic) = delivery["to"].as_str().map_or((None, None), chat_and_topic);
    Ok(Ask {
        name: word(&job["name"]),
        at: word(&schedule["at"]).or_else(|| schedule["atMs"].as_i64().map(clock::rfc3339)),
        every: schedule["everyMs"].as_i64().map(jobs::period),
        cron: word(&schedule["expr"]),
        tz: word(&schedule["tz"]),
        text: word(&payload["message"])
            .or_else(|| word(&payload["text"]))
            .unwrap_or_default(),
        deliver: delivery["mode"] != "none",
        to: chat,
        topic,
        session: is_event.then_some(Talk::Main),
        delete_after_run: job["deleteAfterRun"].as_bool(),
        ..Ask::default()
    })
}

/// Returns chat and topic of `telegram:group:-100123:topic:7`.
fn chat_and_topic(to: &str) -> (Option<String>, Option<String>) {
    let mut numbers = to
        .split(':')
        .filter(|part| part.parse::<i64>().is_ok())
        .map(str::to_owned);
    (numbers.next(), numbers.next())
}

/// A conversation while it is read.
#[derive(Default)]
struct Transcript {
    begun: Option<String>,
    said: Vec<(String, Role, String)>,
}

impl Transcript {
    /// Takes one event. Tool calls and their results are left out.
    fn take(&mut self, event: &[u8], now: i64) {
        let Ok(event) = serde_json::from_slice::<Value>(event) else {
            return;
        };
        let at = event["timestamp"].as_str().map(str::to_owned);
        self.begun = self.begun.take().or_else(|| at.clone());
        let message = &event["message"];
        if event["type"] == "message"
            && let Some(role) = message["role"].as_str().and_then(role)
            && let Some(text) = words(&message["content"])
        {
            self.said.push((time(at.as_deref(), now), role, text));
        }
    }

    fn end(self, plan: &mut Plan, context: &Context<'_>, agent: &str, id: &str) {
        let head = Head {
            session_id: file_name(id),
            key: format!("import:openclaw:{agent}"),
            contact: "openclaw".to_owned(),
            created_at: time(self.begun.as_deref(), context.now),
        };
        plan.conversation(context, head, self.said);
    }
}

fn conversations(plan: &mut Plan, dir: &Path, context: &Context<'_>) {
    let agents = dir.join("agents");
    if !plan.is_dir(&agents, "agents") {
        return;
    }
    for agent in entries(&agents) {
        let name = agent.file_name().to_string_lossy().into_owned();
        let shown = format!("agents/{name}");
        if !plan.is_dir(&agent.path(), &shown) {
            continue;
        }
        let sessions = agent.path().join("sessions");
        let files = match plan.is_dir(&sessions, &format!("{shown}/sessions")) {
            true => entries(&sessions),
            false => Vec::new(),
        };
        for file in files {
            let path = file.path();
            if path.extension().is_none_or(|end| end != "jsonl") {
                continue;
            }
            let id = path.file_stem().unwrap_or_default().to_string_lossy();
            if !file.file_type().is_ok_and(|kind| kind.is_file()) {
                plan.leave(format!("conversation {id}"), NO_FILE);
                continue;
            }
            let mut transcript = Transcript::default();
            let read = jsonl::for_each_line(&path, 0, |line, _| transcript.take(line, context.now));
            match read {
                Ok(_) => transcript.end(plan, context, &name, &id),
                Err(error) => plan.leave(format!("conversation {id}"), error.to_string()),
            }
        }
        let database = agent.path().join("agent/openclaw-agent.sqlite");
        if plan.is_database(&database, &format!("conversations of {name}")) {
            rows(plan, &database, context, &name);
        }
    }
}

/// Takes the conversations of a database of a newer version.
fn rows(plan: &mut Plan, database: &Path, context: &Context<'_>, agent: &str) {
    let sql = "SELECT session_id, event_json FROM transcript_events ORDER BY session_id, seq";
    let rows = match db::foreign_rows(database, &scratch(context.home), sql) {
        Ok(rows) => rows,
        Err(error) => {
            return plan.leave(format!("conversations of {agent}"), error.to_string());
        }
    };
    for session in rows.chunk_by(|one, next| one.first() == next.first()) {
        let mut transcript = Transcript::default();
        for event in session.iter().filter_map(|row| row.get(1)) {
            transcript.take(event.as_bytes(), context.now);
        }
        let id = session.first().and_then(|row| row.first());
        transcript.end(plan, context, agent, id.map_or("", String::as_str));
    }
}

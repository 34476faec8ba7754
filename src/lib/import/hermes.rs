//! The data of Hermes Agent, according to its documentation (github.com/NousResearch/hermes-agent, November 2026):
//!
//! ```text
//! SOUL.md                    who the agent is
//! memories/MEMORY.md, USER.md   entries, a line with § between two
//! skills/…/NAME/SKILL.md     skills, in categories
//! cron/jobs.json             {"jobs":[{id, name, prompt, schedule, repeat, deliver, enabled}]}
//! .env                       keys (left), TELEGRAM_ALLOWED_USERS
//! state.db                   conversations: sessions(id, …), messages(id, session_id, role, content, timestamp)
//! config.yaml                settings: left
//! ```

use std::path::Path;

use serde_json::Value;

use super::{Context, Plan, file_name, ids, role, scratch, words};
use crate::jobs::Ask;
use crate::session::Head;
use crate::{clock, db, jobs, sys};

/// Returns the data of the Hermes in `dir` that can be imported.
///
/// # Errors
/// When there is none.
pub fn plan(dir: &Path, context: &Context<'_>) -> Result<Plan, sys::Error> {
    let mut plan = Plan::default();
    std::fs::read_dir(dir).map_err(sys::Error::at("read", dir))?;
    if let Some(soul) = plan.read(dir, "SOUL.md", "SOUL.md") {
        plan.text(context.home, "SOUL.md", soul);
    }
    for name in ["MEMORY.md", "USER.md"] {
        if let Some(bytes) = plan.read(dir, &format!("memories/{name}"), name) {
            plan.text(
                context.home,
                name,
                entries(name, &String::from_utf8_lossy(&bytes)).into_bytes(),
            );
        }
    }
    plan.tree(context.home, &dir.join("skills"), "imported/skills");
    let file = plan.json(dir, "cron/jobs.json");
    let known = jobs::read(&context.home.jobs())?;
    // A list, or an object that holds it.
    for job in file["jobs"]
        .as_array()
        .or_else(|| file.as_array())
        .into_iter()
        .flatten()
    {
        let id = job["id"].as_str().unwrap_or_default();
        if known.get(id).is_none() {
            plan.job(context, id, job, ask(job));
        }
    }
    conversations(&mut plan, &dir.join("state.db"), context);
    environment(&mut plan, dir);
    for (name, why) in [
        ("config.yaml", "settings of another kind; see agent.toml(5)"),
        ("auth.json", "keys are not copied: agent-daemon login"),
        (
            "plugins",
            "plugins run inside the other program; tool servers (MCP) do not",
        ),
    ] {
        if dir.join(name).exists() {
            plan.leave(name, why);
        }
    }
    Ok(plan)
}

/// What its jobs are told to answer when there is nothing to say, and what is said here.
const ITS_SILENCE: &str = "[SILENT]";
const NO_REPLY: &str = "NO_REPLY";
/// Content that is not plain text begins so, and continues as JSON.
const AS_JSON: &str = "\0json:";

fn conversations(plan: &mut Plan, database: &Path, context: &Context<'_>) {
    if !plan.is_database(database, "state.db") {
        return;
    }
    let sql = "SELECT session_id, role, content, CAST(timestamp * 1000 AS INTEGER) FROM messages ORDER BY session_id, id";
    let rows = match db::foreign_rows(database, &scratch(context.home), sql) {
        Ok(rows) => rows,
        Err(error) => return plan.leave("state.db", error.to_string()),
    };
    let spoken = |row: &Vec<String>| {
        let [_, who, content, at] = row.as_slice() else {
            return None;
        };
        let content = match content.strip_prefix(AS_JSON) {
            Some(json) => serde_json::from_str(json).ok()?,
            None => Value::from(content.as_str()),
        };
        let at = at.parse().unwrap_or(context.now);
        Some((clock::rfc3339(at), role(who)?, words(&content)?))
    };
    for session in rows.chunk_by(|one, next| one.first() == next.first()) {
        let said: Vec<_> = session.iter().filter_map(spoken).collect();
        let id = session.first().and_then(|row| row.first());
        let begun = said.first().map(|(at, ..)| at.clone());
        let head = Head {
            session_id: file_name(id.map_or("", String::as_str)),
            key: "import:hermes".to_owned(),
            contact: "hermes".to_owned(),
            created_at: begun.unwrap_or_else(|| clock::rfc3339(context.now)),
        };
        plan.conversation(context, head, said);
    }
}

/// Returns entries with a line § between them as a list. The sign within a line is part of an entry: "§ 535 BGB".
fn entries(name: &str, text: &str) -> String {
    let title = if name == "USER.md" {
        "# Your owner"
    } else {
        "# Memory"
    };
    let lines: Vec<&str> = text.lines().collect();
    let items = lines
        .split(|line| line.trim() == "§")
        .map(|entry| entry.join("\n").trim().to_owned())
        .filter(|entry| !entry.is_empty());
    let items: Vec<String> = items
        .map(|entry| format!("- {}\n", entry.replace('\n', "\n  ")))
        .collect();
    format!("{title}\n\n{}", items.concat())
}

fn ask(job: &Value) -> Result<Ask, String> {
    let word = |value: &Value| value.as_str().map(str::to_owned);
    if !job["script"].is_null() {
        return Err("it runs a script of the other program".to_owned());
    }
    let schedule = &job["schedule"];
    // A job here goes on until it is removed.
    if let Some(times) = job["repeat"]["times"].as_u64()
        && schedule["run_at"].is_null()
    {
        return Err(format!(
            "it ends after {times} runs, and a job here does not end by itself"
        ));
    }
    let deliver = job["deliver"].as_str().unwrap_or("origin");
    let elsewhere = || format!("it delivers to {deliver}");
    let (to, topic) = match deliver.split_once(':') {
        Some(("telegram", place)) => chat_and_topic(place).ok_or_else(elsewhere)?,
        None if ["origin", "telegram", "local"].contains(&deliver) => (None, None),
        _ => return Err(elsewhere()),
    };
    let prompt = word(&job["prompt"]).unwrap_or_default();
    Ok(Ask {
        name: word(&job["name"]),
        at: word(&schedule["run_at"]),
        every: schedule["minutes"]
            .as_i64()
            .map(|minutes| format!("{minutes}m")),
        cron: word(&schedule["expr"]),
        text: prompt.replace(ITS_SILENCE, NO_REPLY),
        deliver: deliver != "local",
        to,
        topic,
        ..Ask::default()
    })
}

/// Returns chat and topic of `-100123:7`; `None` for several places.
fn chat_and_topic(place: &str) -> Option<(Option<String>, Option<String>)> {
    let (chat, topic) = match place.split_once(':') {
        Some((chat, topic)) => (chat, Some(topic)),
        None => (place, None),
    };
    let is_id = |text: &str| text.parse::<i64>().is_ok();
    let is_one = !chat.is_empty() && !chat.contains(',') && topic.is_none_or(is_id);
    is_one.then(|| (Some(chat.to_owned()), topic.map(str::to_owned)))
}

fn environment(plan: &mut Plan, dir: &Path) {
    let Some(bytes) = plan.read(dir, ".env", ".env") else {
        return;
    };
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let value = |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='));
        line.map(|value| value.trim().trim_matches(['"', '\'']))
            .filter(|value| !value.is_empty())
    };
    if value("TELEGRAM_BOT_TOKEN").is_some() {
        let list: Vec<Value> = value("TELEGRAM_ALLOWED_USERS")
            .unwrap_or_default()
            .split(',')
            .map(Value::from)
            .collect();
        plan.telegram(&ids(&Value::Array(list)), &[]);
    }
    plan.leave(
        ".env",
        "keys are not copied: put TELEGRAM_BOT_TOKEN and those of models into your .env",
    );
}

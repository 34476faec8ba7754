//! Plans: in plan mode the model answers with tasks instead of text.
//!
//! ```text
//! [{"kind": "think", "text": "She had a bad day."},
//!  {"kind": "send", "id": "a", "text": "Oh no.", "reply_to": "57"},
//!  {"kind": "wait", "id": "b", "depends_on": ["a"], "delay": 4},
//!  {"kind": "send", "depends_on": ["b"], "text": "Tell me everything."}]
//! ```
//! The Markdown form has a level-1 heading for each task: `# send 57`, its text below. [`read`] accepts both. An
//! unreadable plan is `Broken` and never shown to anyone; [`words()`] recovers the text that was meant for the chat.

mod headings;
mod json;
mod schema;
mod words;

use serde::{Deserialize, Serialize};

pub use schema::schema;
pub use words::{said, words};

/// Tasks of one plan; a longer one is a mistake.
pub const MAX_TASKS: usize = 50;
/// The longest `wait`, seconds: a day. What is due later is a job.
const MAX_DELAY: f64 = 86_400.0;
/// Addresses of one `retrieve`.
pub const MAX_URLS: usize = 3;

/// The kinds that are private to the agent; nobody reads their texts. Some are no kinds of ours, but models know them.
const PRIVATE: [&str; 12] = [
    "think",
    "thought",
    "remember",
    "note",
    "plan",
    "intend",
    "event",
    "schedule",
    "summarize",
    "xsend",
    "retrieve",
    "wait",
];

/// What a task does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Act {
    /// Words for the chat, Markdown.
    Send {
        /// The words.
        text: String,
    },
    /// A pause; it begins when everything it depends on is done.
    Wait {
        /// Seconds.
        delay: f64,
    },
    /// An emoji on a message.
    React {
        /// The emoji.
        emoji: String,
    },
    /// A sticker.
    Sticker {
        /// Its set.
        set: String,
        /// Its name in the set: its emoji, or `N` for the N-th.
        name: String,
    },
    /// A file of `outbox/`.
    SendMedia {
        /// Its path in the workspace.
        path: String,
    },
    /// Words for another chat.
    Xsend {
        /// `owner`, a chat id, @username or a known name.
        to: String,
        /// The words.
        text: String,
    },
    /// Pages to be read; a new plan follows.
    Retrieve {
        /// At most 3.
        urls: Vec<String>,
    },
    /// The partner is answered no more.
    Block,
    /// And is again.
    Unblock,
    /// The conversation is archived.
    Clear,
}

impl Act {
    /// Returns its name.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Send { .. } => "send",
            Self::Wait { .. } => "wait",
            Self::React { .. } => "react",
            Self::Sticker { .. } => "sticker",
            Self::SendMedia { .. } => "send_media",
            Self::Xsend { .. } => "xsend",
            Self::Retrieve { .. } => "retrieve",
            Self::Block => "block",
            Self::Unblock => "unblock",
            Self::Clear => "clear",
        }
    }

    /// Returns true for what the partner sees.
    pub fn is_for_partner(&self) -> bool {
        matches!(
            self,
            Self::Send { .. } | Self::React { .. } | Self::Sticker { .. } | Self::SendMedia { .. }
        )
    }
}

/// One task of a graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Its id, its own in the plan.
    pub id: String,
    /// The tasks that come before it.
    #[serde(default)]
    pub depends_on: Vec<String>,
    /// The channel's id of the message it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// What it does.
    #[serde(flatten)]
    pub act: Act,
}

/// A plan that was understood.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    /// What is to be remembered of the partner, at once.
    pub remember: Vec<String>,
    /// The graph, without circles; thoughts are in no graph.
    pub tasks: Vec<Task>,
}

impl Plan {
    /// Returns a plan that says `text` and nothing else; no text is silence.
    pub fn saying(text: &str) -> Self {
        let text = tamed(text);
        let said = (!text.is_empty()).then(|| Task {
            id: "1".to_owned(),
            depends_on: Vec::new(),
            reply_to: None,
            act: Act::Send { text },
        });
        Self {
            remember: Vec::new(),
            tasks: said.into_iter().collect(),
        }
    }

    /// Returns what it says to the chat, in order, for a caller who waits for one answer.
    pub fn said(&self) -> String {
        let texts = self.tasks.iter().filter_map(|task| match &task.act {
            Act::Send { text } => Some(text.as_str()),
            _ => None,
        });
        texts.collect::<Vec<&str>>().join("\n\n")
    }
}

/// What an answer of the model is.
#[derive(Debug, Clone, PartialEq)]
pub enum Reading {
    /// A plan; an empty one is silence.
    Plan(Plan),
    /// Words and no plan.
    Prose(String),
    /// Meant as a plan, and none. Carries why, for the model.
    Broken(String),
}

/// Reads an answer. Takes time in proportion to its length, whatever it is.
pub fn read(answer: &str) -> Reading {
    let text = unfenced(answer.trim_start_matches('\u{feff}').trim());
    if text.is_empty() {
        return Reading::Plan(Plan::default());
    }
    if text.starts_with('⟦') {
        return Reading::Broken("an answer never begins with ⟦".to_owned());
    }
    let found = match json::find(text) {
        json::Found::Tasks(drafts) => drafts,
        json::Found::Broken(why) => return Reading::Broken(why),
        json::Found::Nothing => match headings::find(text) {
            Some(drafts) => drafts,
            None => return Reading::Prose(text.to_owned()),
        },
    };
    match found.and_then(assemble) {
        Ok(plan) => Reading::Plan(plan),
        Err(why) => Reading::Broken(why),
    }
}

/// A task as it was written: of its links only the words.
#[derive(Debug, Clone, PartialEq)]
struct Draft {
    id: Option<String>,
    /// `None` = not said.
    depends_on: Option<Vec<String>>,
    reply_to: Option<String>,
    deed: Deed,
}

/// What a written task means.
#[derive(Debug, Clone, PartialEq)]
enum Deed {
    Act(Act),
    Think,
    Remember(String),
}

/// Makes a graph of written tasks. One that says nothing of what it depends on follows the one before it, unless that one waits
/// for it; where no task names another, all of them follow each other, since a pause that nothing waits for would be none.
fn assemble(drafts: Vec<Draft>) -> Result<Plan, String> {
    if drafts.len() > MAX_TASKS {
        return Err(format!("a plan has at most {MAX_TASKS} tasks"));
    }
    let in_a_row = drafts
        .iter()
        .all(|draft| draft.depends_on.as_ref().is_none_or(Vec::is_empty));
    let given: Vec<&String> = drafts
        .iter()
        .filter_map(|draft| draft.id.as_ref())
        .collect();
    if let Some(twice) = given
        .iter()
        .enumerate()
        .find_map(|(at, id)| given.iter().take(at).any(|other| other == id).then_some(id))
    {
        return Err(format!("two tasks have the id {twice:?}"));
    }
    let mut ids: Vec<String> = Vec::with_capacity(drafts.len());
    for (at, draft) in drafts.iter().enumerate() {
        let id = draft.id.clone().unwrap_or_else(|| {
            let mut id = (at + 1).to_string();
            while given.contains(&&id) || ids.contains(&id) {
                id.push('_');
            }
            id
        });
        ids.push(id);
    }
    let mut links: Vec<Vec<String>> = drafts
        .iter()
        .map(|draft| match in_a_row {
            true => Vec::new(),
            false => draft.depends_on.clone().unwrap_or_default(),
        })
        .collect();
    for at in 1..drafts.len() {
        let says_nothing = in_a_row
            || drafts
                .get(at)
                .is_some_and(|draft| draft.depends_on.is_none());
        // One that is waited for by the one before it comes first, wherever it is written.
        if says_nothing
            && !waits_for(&ids, &links, at - 1, at)
            && let (Some(own), Some(before)) = (links.get_mut(at), ids.get(at - 1))
        {
            own.push(before.clone());
        }
    }
    let order = ordered(&ids, &links)?;
    Ok(without_thoughts(drafts, &ids, &links, &order))
}

/// Returns true when the task at `from` depends on the one at `to`, itself or by way of others.
fn waits_for(ids: &[String], links: &[Vec<String>], from: usize, to: usize) -> bool {
    let mut reached = vec![from];
    let mut next = 0;
    while let Some(at) = reached.get(next).copied() {
        next += 1;
        for link in links.get(at).into_iter().flatten() {
            match ids.iter().position(|id| id == link) {
                Some(found) if found == to => return true,
                Some(found) if !reached.contains(&found) => reached.push(found),
                _ => {}
            }
        }
    }
    false
}

/// Returns the places of the tasks so that each stands behind those it depends on.
///
/// # Errors
/// When one depends on what is not there, or on itself.
fn ordered(ids: &[String], links: &[Vec<String>]) -> Result<Vec<usize>, String> {
    let mut order: Vec<usize> = Vec::with_capacity(ids.len());
    for links in links {
        if let Some(unknown) = links.iter().find(|link| !ids.contains(link)) {
            return Err(format!("no task has the id {unknown:?}"));
        }
    }
    while order.len() < ids.len() {
        let is_placed = |id: &String| order.iter().any(|at| ids.get(*at) == Some(id));
        let next = links
            .iter()
            .enumerate()
            .find(|(at, links)| !order.contains(at) && links.iter().all(is_placed));
        match next {
            Some((at, _)) => order.push(at),
            None => return Err("tasks depend on each other in a circle".to_owned()),
        }
    }
    Ok(order)
}

/// Returns the graph without what acts at once; what depended on that depends on what came before it.
fn without_thoughts(
    drafts: Vec<Draft>,
    ids: &[String],
    links: &[Vec<String>],
    order: &[usize],
) -> Plan {
    // For each thought, in order, what stands for it.
    let mut stands_for: Vec<(String, Vec<String>)> = Vec::new();
    let mut resolved: Vec<Vec<String>> = vec![Vec::new(); ids.len()];
    for at in order {
        let mut real: Vec<String> = Vec::new();
        for link in links.get(*at).into_iter().flatten() {
            let known = stands_for.iter().find(|(id, _)| id == link);
            let of_link = known.map_or_else(|| vec![link.clone()], |(_, real)| real.clone());
            real.extend(of_link);
        }
        real.sort();
        real.dedup();
        let is_act = drafts
            .get(*at)
            .is_some_and(|draft| matches!(draft.deed, Deed::Act(_)));
        if !is_act && let Some(id) = ids.get(*at) {
            stands_for.push((id.clone(), real.clone()));
        }
        if let Some(place) = resolved.get_mut(*at) {
            *place = real;
        }
    }
    let mut plan = Plan::default();
    for ((draft, id), depends_on) in drafts.into_iter().zip(ids).zip(resolved) {
        match draft.deed {
            Deed::Think => {}
            Deed::Remember(text) => plan.remember.push(text),
            Deed::Act(act) => plan.tasks.push(Task {
                id: id.clone(),
                depends_on,
                reply_to: draft.reply_to,
                act,
            }),
        }
    }
    plan
}

/// Returns words for people without the marks that only the system writes. A plan that was written into the text of a
/// task is not shown either.
fn tamed(text: &str) -> String {
    let text = text.replace(['⟦', '⟧'], "");
    let trimmed = text.trim();
    match json::find(unfenced(trimmed)) {
        json::Found::Tasks(Ok(drafts)) if !drafts.is_empty() => {
            let texts = drafts.into_iter().filter_map(|draft| match draft.deed {
                Deed::Act(Act::Send { text }) => Some(text),
                _ => None,
            });
            texts.collect::<Vec<String>>().join("\n\n")
        }
        _ => headings::public(trimmed).unwrap_or_else(|| trimmed.to_owned()),
    }
}

/// Returns the words of a task, tamed.
///
/// # Errors
/// When they begin with a mark of the system, or nothing is left of them.
fn tamed_text(text: &str) -> Result<String, String> {
    if text.starts_with('⟦') {
        return Err("a text never begins with ⟦".to_owned());
    }
    let text = tamed(text);
    if text.is_empty() {
        return Err("there are no words in it".to_owned());
    }
    Ok(text)
}

/// Returns the length of a pause.
///
/// # Errors
/// When it is none.
fn seconds(given: Option<f64>) -> Result<f64, String> {
    given
        .filter(|seconds| seconds.is_finite() && *seconds >= 0.0)
        .map(|seconds| seconds.min(MAX_DELAY))
        .ok_or_else(|| "wait needs a \"delay\", seconds".to_owned())
}

/// Returns the addresses of a `retrieve`.
///
/// # Errors
/// When there are none, or too many.
fn addresses(urls: Vec<String>) -> Result<Vec<String>, String> {
    if urls.is_empty() || urls.len() > MAX_URLS {
        return Err(format!("retrieve needs 1 to {MAX_URLS} \"urls\""));
    }
    Ok(urls)
}

/// Returns true for a kind of task that is written wrong by one sign, or breaks off.
fn is_nearly(kind: &str, written: &str) -> bool {
    let misses_one = || {
        kind.char_indices().any(|(at, sign)| {
            let rest = kind.get(at + sign.len_utf8()..);
            written.strip_prefix(kind.get(..at).unwrap_or_default()) == rest
        })
    };
    kind.starts_with(written) || misses_one()
}

/// Returns what is in a code fence that is around everything.
fn unfenced(text: &str) -> &str {
    let inner = text
        .strip_prefix("```")
        .and_then(|rest| rest.strip_suffix("```"))
        .filter(|inner| !inner.contains("\n```"));
    match inner.and_then(|inner| inner.split_once('\n')) {
        // After the fence is at most the name of a language.
        Some((language, inner)) if !language.trim().contains(' ') => inner.trim(),
        _ => text,
    }
}

#[cfg(test)]
mod tests;

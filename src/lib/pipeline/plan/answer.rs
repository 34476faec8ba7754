//! Converts the answer of the model to tasks in the queue.

use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{has_graph, is_planned};
use crate::agent::{Formed, Reply, Single, UNREADABLE};
use crate::config::Typing;
use crate::message::plan::{self, Act, Plan, Reading};
use crate::message::{Block, Envelope, Role, ToolCall};
use crate::pipeline::Pipeline;
use crate::pipeline::turn::outcome::{Outcome, said};
use crate::pipeline::turn::run::TurnContext;
use crate::pipeline::turn::silence;
use crate::queue::NewTask;
use crate::session::{Entry, Session, State};

/// The tool that reads pages.
const FETCH: &str = "web_fetch";
/// How the ids of its calls begin that a plan asks for.
const RETRIEVE: &str = "retrieve-";

/// How often a message may have pages read.
const ROUNDS: u32 = 3;

/// Returns what follows an answer: a plan that wants pages is rebuilt with their text. `rounds` counts how often they
/// were read.
pub(crate) fn next(answer: &str, rounds: &AtomicU32) -> Formed {
    match plan::read(answer) {
        Reading::Broken(why) => Formed::Unreadable(why),
        Reading::Prose(_) => Formed::Final,
        Reading::Plan(plan) => {
            let urls = plan.tasks.iter().flat_map(|task| match &task.act {
                Act::Retrieve { urls } => urls.as_slice(),
                _ => &[],
            });
            let call = |url: &String| ToolCall {
                id: format!("{RETRIEVE}{}", uuid::Uuid::now_v7().simple()),
                name: FETCH.to_owned(),
                input: json!({"url": url}),
            };
            let mut wanted: Vec<&String> = urls.collect();
            let mut met = HashSet::new();
            wanted.retain(|url| met.insert(*url));
            let calls: Vec<ToolCall> = wanted.into_iter().take(plan::MAX_URLS).map(call).collect();
            if calls.is_empty() {
                Formed::Final
            } else if rounds.fetch_add(1, Ordering::Relaxed) >= ROUNDS {
                Formed::Unreadable(format!(
                    "pages were read {ROUNDS} times for this message, and no more are: plan without retrieve"
                ))
            } else {
                Formed::Calls(calls)
            }
        }
    }
}

/// Returns true for a page that a plan asks for.
pub(crate) fn is_retrieve(call: &ToolCall) -> bool {
    call.id.starts_with(RETRIEVE)
}

/// Returns what the next plan is told about a failed call.
pub(crate) fn failed(call: &ToolCall, why: &str) -> String {
    if !is_retrieve(call) {
        return why.to_owned();
    }
    let url = call
        .input
        .get("url")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let url = crate::text::shorten(&crate::text::visible(url), 200);
    format!("not read: {url}: {why}")
}

/// The answers of a turn, and the place of the last one in its transcript.
struct Answers {
    /// Of each its text, and whether it asked for pages.
    texts: Vec<(String, bool)>,
    last_seq: u64,
}

impl Answers {
    fn of(state: &State) -> Self {
        let since = state.turn.as_ref().map_or(0, |turn| turn.user_seq);
        let entries = || state.entries.iter().filter(|entry| entry.seq > since);
        let asked_for_pages = |entry: &Entry| entry.message.tool_calls().any(is_retrieve);
        let counts = |entry: &&Entry| {
            entry.message.role == Role::Assistant
                && (entry.message.tool_calls().next().is_none() || asked_for_pages(entry))
        };
        Self {
            texts: entries()
                .filter(counts)
                .map(|entry| (entry.message.plain_text(), asked_for_pages(entry)))
                .collect(),
            last_seq: entries().rfind(counts).map_or(0, |entry| entry.seq),
        }
    }

    /// Returns the plan they come to; `None` when nothing of them can be said.
    fn plan(&self, envelope: &Envelope) -> Option<Plan> {
        let mut whole = Plan::default();
        for (at, (text, _)) in self
            .texts
            .iter()
            .enumerate()
            .filter(|(_, (_, pages))| *pages)
        {
            if let Reading::Plan(plan) = plan::read(text) {
                append(&mut whole, without_retrieve(plan), at);
            }
        }
        let finals: Vec<&str> = self
            .texts
            .iter()
            .filter(|(_, pages)| !pages)
            .map(|(text, _)| text.as_str())
            .collect();
        let last = match finals.last().map(|text| plan::read(text)) {
            None => Plan::default(),
            Some(Reading::Plan(plan)) => without_retrieve(plan),
            Some(Reading::Prose(text)) if finals.len() == 1 => {
                let spoken = silence::spoken(&text, envelope.source);
                spoken.map_or_else(Plan::default, |text| Plan::saying(&text))
            }
            Some(Reading::Prose(_) | Reading::Broken(_)) => Plan::saying(&plan::words(&finals)?),
        };
        append(&mut whole, last, self.texts.len());
        Some(whole)
    }
}

/// Adds a plan that follows another; `number` keeps their ids apart.
fn append(whole: &mut Plan, next: Plan, number: usize) {
    whole.remember.extend(next.remember);
    if whole.tasks.is_empty() {
        whole.tasks = next.tasks;
        return;
    }
    let before: Vec<String> = whole.tasks.iter().map(|task| task.id.clone()).collect();
    let renamed = |id: &String| format!("{number}-{id}");
    for mut task in next.tasks {
        task.id = renamed(&task.id);
        task.depends_on = if task.depends_on.is_empty() {
            before.clone()
        } else {
            task.depends_on.iter().map(renamed).collect()
        };
        whole.tasks.push(task);
    }
}

/// Returns a plan without pages to be read and what would have followed them.
fn without_retrieve(mut plan: Plan) -> Plan {
    let mut gone: Vec<String> = Vec::new();
    loop {
        let before = gone.len();
        for task in &plan.tasks {
            let falls = matches!(task.act, Act::Retrieve { .. })
                || task.depends_on.iter().any(|id| gone.contains(id));
            if falls && !gone.contains(&task.id) {
                gone.push(task.id.clone());
            }
        }
        if gone.len() == before {
            break;
        }
    }
    plan.tasks.retain(|task| !gone.contains(&task.id));
    plan
}

/// Returns how long a person would take before a task, milliseconds.
fn lead_ms(act: &Act, typing: &Typing) -> i64 {
    let seconds = match act {
        Act::Wait { delay } => *delay,
        Act::Send { text } => typing.before(text.chars().count()),
        Act::Sticker { .. } => typing.sticker_delay_secs,
        _ => 0.0,
    };
    crate::clock::millis(seconds)
}

impl Pipeline {
    /// Returns what is to be recorded of a turn whose answer is `reply`.
    pub(crate) async fn outcome_of_plan(
        self: &Arc<Self>,
        context: &TurnContext<'_>,
        session: &Session,
        target: Option<&str>,
        reply: &Reply,
    ) -> Outcome {
        let envelope = context.envelope;
        if !is_planned(context.live, envelope) {
            return said(envelope, &reply.text, Some(reply)).spoken(&context.run.cancel);
        }
        let answers = Answers::of(session.state());
        let Some(plan) = answers.plan(envelope) else {
            return self.failed(envelope, "the plan of the model could not be read", &[]);
        };
        let single = Single {
            run_id: context.run_id.to_owned(),
            conversation: envelope.session_key.clone(),
            person: envelope.sender.id.clone(),
            person_name: envelope.sender.name.clone(),
            from_owner: envelope.from_owner,
            viewer: context.viewer.clone(),
            route: envelope.route.clone(),
            untrusted: session
                .state()
                .turn
                .as_ref()
                .is_none_or(|turn| turn.untrusted),
        };
        for text in &plan.remember {
            let input = json!({"text": text});
            let noted = context.live.agent.call(&single, "remember", &input).await;
            if noted.is_error {
                tracing::warn!(
                    why = noted.text,
                    run = context.run_id,
                    "nothing was remembered"
                );
            }
        }
        if !has_graph(envelope) {
            return said(envelope, &plan.said(), Some(reply)).spoken(&context.run.cancel);
        }
        let key = answer_key(session.id(), answers.last_seq);
        let typing = &context.live.config.agent.typing;
        let tasks = plan.tasks.into_iter().map(|mut task| {
            if matches!(task.act, Act::React { .. }) && task.reply_to.is_none() {
                task.reply_to = target.map(str::to_owned);
            }
            NewTask {
                id: task.id.clone(),
                kind: task.act.kind(),
                depends_on: task.depends_on.clone(),
                lead_ms: lead_ms(&task.act, typing),
                task: serde_json::to_string(&task).unwrap_or_default(),
                answer: key.clone(),
            }
        });
        said(envelope, "", Some(reply)).planning(tasks.collect())
    }
}

/// Returns what an answer goes by.
pub(super) fn answer_key(session_id: &str, seq: u64) -> String {
    format!("{session_id}:{seq}")
}

/// Returns true for what the model is told about an answer that could not be read.
pub(super) fn is_remark(entry: &Entry) -> bool {
    matches!(entry.message.content.as_slice(), [Block::Context { text }] if text.starts_with(UNREADABLE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Sender, SessionKey, Source};

    fn plan_of(texts: &[(&str, bool)]) -> Option<Vec<String>> {
        let sender = Sender {
            id: "1".into(),
            name: "Ana".into(),
            username: None,
        };
        let key = SessionKey("k".into());
        let envelope = Envelope::new("1".into(), Source::Telegram, sender, key, String::new(), 0);
        let answers = Answers {
            texts: texts
                .iter()
                .map(|(text, pages)| ((*text).to_owned(), *pages))
                .collect(),
            last_seq: 1,
        };
        let plan = answers.plan(&envelope)?;
        let one = |task: &plan::Task| {
            let what = match &task.act {
                Act::Send { text } => text.clone(),
                act => act.kind().to_owned(),
            };
            format!("{}={what}<{}>", task.id, task.depends_on.join(","))
        };
        Some(plan.tasks.iter().map(one).collect())
    }

    #[test]
    fn what_was_planned_before_the_pages_comes_before_what_is_planned_with_them() {
        let first = r#"[{"kind":"send","text":"Let me look."},{"kind":"retrieve","urls":["https://a.example/"]},{"kind":"send","text":"never"}]"#;
        let second = r#"[{"kind":"send","text":"It says 7."},{"kind":"send","text":"Nice."}]"#;
        let whole = ["1=Let me look.<>", "2-1=It says 7.<1>", "2-2=Nice.<2-1>"].map(str::to_owned);
        assert_eq!(
            plan_of(&[(first, true), (second, false)]),
            Some(whole.to_vec())
        );
    }

    #[test]
    fn a_broken_plan_is_repaired_or_its_words_are_sent() {
        let broken = r#"[{"kind":"send","text":"Hi"},{"kind":"se"#;
        let hi = Some(vec!["1=Hi<>".to_owned()]);
        assert_eq!(
            plan_of(&[
                (broken, false),
                ("[{\"kind\":\"send\",\"text\":\"Hi\"}]", false)
            ]),
            hi
        );
        assert_eq!(plan_of(&[(broken, false), ("Sorry!", false)]), hi);
        assert_eq!(plan_of(&[("{\"a\":1}", false), ("{\"a\":1}", false)]), None);
        assert_eq!(plan_of(&[("Hi", false)]), hi);
        assert_eq!(plan_of(&[("NO_REPLY", false)]), Some(Vec::new()));
        assert_eq!(plan_of(&[("[]", false)]), Some(Vec::new()));
    }

    #[test]
    fn a_plan_that_wants_pages_asks_for_them() {
        let rounds = AtomicU32::new(0);
        let next = |answer: &str| next(answer, &rounds);
        let plan = r#"[{"kind":"retrieve","urls":["https://a.example/","https://b.example/","https://a.example/"]}]"#;
        let Formed::Calls(calls) = next(plan) else {
            panic!("no calls");
        };
        let urls: Vec<String> = calls.iter().map(|call| call.input.to_string()).collect();
        assert_eq!(
            urls,
            [
                r#"{"url":"https://a.example/"}"#,
                r#"{"url":"https://b.example/"}"#
            ]
        );
        assert_eq!(next("Hello"), Formed::Final);
        assert!(matches!(next("[{"), Formed::Unreadable(_)));
        for _ in 1..ROUNDS {
            assert!(matches!(next(plan), Formed::Calls(_)));
        }
        assert!(matches!(next(plan), Formed::Unreadable(why) if why.contains("no more")));
    }
}

//! How an answer came about, on one screen: the message, its waiting times, the prompt, memories, steps, delivery. It may
//! contain untrusted text.

use chrono_tz::Tz;

use super::Context;
use crate::app::cli;
use crate::app::cli::Exit;
use crate::app::documents::explain::{
    Approval, Block, Child, Delivery, Explain, ModelCall, Step, ToolCall, Waits,
};
use crate::app::table;
use crate::app::table::Column;
use crate::session::PromptTier;
use crate::sys::lock;
use crate::{clock, text};

/// Lines of each list; the rest is counted.
const MOST: usize = 14;
const WORDS: usize = 100;
/// What is in a receipt before the hosts of a call.
const NETWORK: &str = "; network: ";
const LABEL: usize = 10;

pub(crate) fn explain(context: &Context<'_>, explain: &Explain) -> Exit {
    context.answer(explain, |explain| {
        let zone = context.zone();
        lines(explain, zone, table::room())
            .iter()
            .for_each(|line| cli::out(&cli::harmless(line)));
        // A running message needs no advice.
        let is_open = ["queued", "waiting", "running"].contains(&explain.state);
        if is_open && matches!(lock::holder(&context.home.lock()), Ok(None)) {
            context.note("no daemon is running; it resumes when one starts");
        }
    })
}

fn lines(it: &Explain, zone: Tz, room: usize) -> Vec<String> {
    let mut page = Page {
        lines: Vec::new(),
        zone,
        room,
    };
    page.head(it);
    page.waits(&it.waits);
    page.prompt(it);
    page.memories(it);
    page.steps(&it.steps);
    page.approvals(it);
    page.children(it);
    page.deliveries(it);
    page.list("gone", it.gone.clone());
    page.lines
}

struct Page {
    lines: Vec<String>,
    zone: Tz,
    room: usize,
}

impl Page {
    fn head(&mut self, it: &Explain) {
        self.run(it);
        let received = it.received_at.as_deref().map_or_else(
            || "at a time that is not known".to_owned(),
            |at| self.time(at),
        );
        let message = it
            .message
            .as_deref()
            .map_or_else(|| "?".to_owned(), text::visible);
        let more = it.inputs.len().saturating_sub(1);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        let source = it.source.as_deref().map_or_else(String::new, |source| {
            format!(" ({})", text::visible(source))
        });
        self.line("message", &format!("{received}  {message}{more}{source}"));
        if !it.text.is_empty() {
            self.line("", &format!("“{}”", words(&it.text)));
        }
        self.cause(it);
        if let Some(key) = &it.session_key {
            let archived = if it.archived { ", archived" } else { "" };
            let id = behind("  ", it.session_id.as_ref());
            self.line("session", &format!("{}{id}{archived}", text::visible(key)));
        }
        if let Some(reply) = &it.reply {
            let others = if it.tainted == Some(true) {
                " (untrusted words may be in it)"
            } else {
                ""
            };
            self.line("answer", &format!("“{}”{others}", words(reply)));
        }
    }

    fn run(&mut self, it: &Explain) {
        let reason = behind(": ", it.reason.as_ref());
        let attempts = it.attempts.filter(|attempts| *attempts > 1);
        let attempts =
            attempts.map_or_else(String::new, |attempts| format!(", begun {attempts} times"));
        let took = it.started_at.as_deref().zip(it.finished_at.as_deref());
        let took = took
            .and_then(|(from, to)| Some(clock::parse_rfc3339(to)? - clock::parse_rfc3339(from)?));
        let took = took.map_or_else(String::new, |took| format!(" in {}", text::span(took)));
        let budget = it
            .budget_usd
            .map_or_else(String::new, |budget| format!(" of at most ${budget:.4}"));
        let unpriced = if it.unpriced_calls > 0 {
            format!(" and {} unpriced calls", it.unpriced_calls)
        } else {
            String::new()
        };
        let run = it
            .run_id
            .as_deref()
            .map_or_else(|| "none yet".to_owned(), text::visible);
        self.line("run", &run);
        self.line(
            "",
            &format!(
                "{}{took}{attempts}, ${:.4}{budget}{unpriced}{reason}",
                it.state, it.cost_usd
            ),
        );
    }

    /// What the run was for: a job, or the run that sent a sub-agent.
    fn cause(&mut self, it: &Explain) {
        if let Some(job) = &it.job {
            let name = behind(" ", job.name.as_ref());
            let at = job.at.as_deref().map_or_else(String::new, |at| {
                format!(", whose time was {}", self.time(at))
            });
            self.line("job", &format!("{}{name}{at}", text::visible(&job.id)));
        }
        if let Some(parent) = &it.parent {
            let label = behind(" as ", parent.label.as_ref());
            self.line(
                "sent by",
                &format!(
                    "{}{label}, which pays for it",
                    text::visible(&parent.run_id)
                ),
            );
        }
    }

    fn waits(&mut self, waits: &Waits) {
        let all = [
            (waits.gather_ms, "for more messages"),
            (waits.queue_ms, "for its turn"),
            (waits.prepare_ms, "until the prompt was ready"),
            (waits.approvals_ms, "for your approval"),
            (waits.subagents_ms, "for sub-agents"),
            (waits.retries_ms, "between tries"),
        ];
        let said: Vec<String> = all
            .iter()
            .filter_map(|(ms, what)| Some((ms.filter(|ms| *ms > 0)?, what)))
            .map(|(ms, what)| format!("{} {what}", text::span(ms)))
            .collect();
        if !said.is_empty() {
            self.line("waits", &said.join(", "));
        }
    }

    fn prompt(&mut self, it: &Explain) {
        if it.prompt_blocks.is_empty() {
            return;
        }
        let tokens: u64 = it.prompt_blocks.iter().map(|block| block.tokens).sum();
        let cached = match it.cache_read_ratio {
            Some(ratio) => format!(
                "; {:.0} % of the first request was read from the cache",
                ratio * 100.0
            ),
            None => String::new(),
        };
        let model = behind(" for ", it.model.as_ref());
        self.line(
            "prompt",
            &format!("about {} tokens{model}{cached}", text::count(tokens)),
        );
        let columns = [
            Column::left("").cut_to(12),
            Column::left(""),
            Column::right(""),
            Column::left(""),
        ];
        let rows = it.prompt_blocks.iter().map(|block| {
            let marks = [
                (block.cached == Some(true)).then_some("cached"),
                block.cut.then_some("cut"),
            ];
            let marks: Vec<&str> = marks.into_iter().flatten().collect();
            vec![
                text::visible(&block.name),
                tier(block).to_owned(),
                text::count(block.tokens),
                marks.join(", "),
            ]
        });
        self.table(&columns, rows.collect());
    }

    fn memories(&mut self, it: &Explain) {
        if it.memories.is_empty() {
            return;
        }
        let dropped = it.memories.iter().filter(|memory| memory.dropped).count();
        let left = if dropped > 0 {
            format!("; {dropped} more did not fit")
        } else {
            String::new()
        };
        self.line(
            "memories",
            &format!("{}{left}", it.memories.len() - dropped),
        );
        let columns = [
            Column::left(""),
            Column::right(""),
            Column::left("").cut_to(20),
        ];
        let taken = it.memories.iter().filter(|memory| !memory.dropped);
        let rows = taken.map(|memory| {
            let score = memory
                .score
                .map_or_else(|| "-".to_owned(), |score| format!("{score:.2}"));
            vec![
                text::visible(&memory.kind),
                score,
                text::visible(&memory.place),
            ]
        });
        self.table(&columns, rows.collect());
    }

    fn steps(&mut self, steps: &[Step]) {
        if steps.is_empty() {
            return;
        }
        self.line("steps", &steps.len().to_string());
        let columns = [
            Column::left(""),
            Column::left("").cut_to(10),
            Column::right(""),
            Column::left("").cut_to(20),
        ];
        let rows = steps.iter().map(|step| match step {
            Step::Model(call) => vec![
                self.clock(Some(&call.at)),
                text::visible(&call.model_call),
                call.duration_ms.map_or_else(|| "-".to_owned(), text::span),
                model_call(call),
            ],
            Step::Tool(call) => vec![
                self.clock(call.at.as_deref()),
                format!("· {}", text::visible(&call.tool)),
                call.duration_ms.filter(|_| call.at.is_some()).map_or_else(
                    || "-".to_owned(),
                    |ms| text::span(ms.try_into().unwrap_or(i64::MAX)),
                ),
                tool_call(call),
            ],
        });
        let rows = rows.collect();
        self.table(&columns, rows);
    }

    fn approvals(&mut self, it: &Explain) {
        let said = |one: &Approval| {
            let answer = one
                .answer
                .as_ref()
                .map_or_else(String::new, |answer| format!(" (“{}”)", words(answer)));
            format!(
                "{} {}{answer} after {}, {}: {}",
                text::visible(&one.id),
                text::visible(&one.state),
                text::span(one.waited_ms),
                text::visible(&one.tool),
                words(&one.text)
            )
        };
        self.list("approvals", it.approvals.iter().map(said).collect());
    }

    fn children(&mut self, it: &Explain) {
        let said = |child: &Child| {
            let cost = child
                .cost_usd
                .map_or_else(String::new, |usd| format!(", ${usd:.4}"));
            let id = text::visible(child.run_id.as_deref().unwrap_or(&child.message));
            format!(
                "{} {} in {}{cost}  {id}",
                words(&child.label),
                child.state,
                text::span(child.duration_ms)
            )
        };
        self.list("sub-agents", it.children.iter().map(said).collect());
    }

    fn deliveries(&mut self, it: &Explain) {
        let said = |part: &Delivery| {
            let number = if part.parts > 1 {
                format!("part {} of {}, ", part.part, part.parts)
            } else {
                String::new()
            };
            let what = if part.asks { "the question, " } else { "" };
            let id = behind(" as ", part.message_id.as_ref());
            let took = part
                .took_ms
                .map_or_else(String::new, |ms| format!(" after {}", text::span(ms)));
            let tries = if part.attempt == 1 {
                String::new()
            } else {
                format!(", {} tries", part.attempt)
            };
            let reason = behind(": ", part.reason.as_ref());
            let (state, channel, chat) = (
                text::visible(&part.state),
                text::visible(&part.channel),
                text::visible(&part.chat),
            );
            format!(
                "{number}{what}{state} to {channel} {chat}{id}{took}{tries}, {}{reason}",
                self.time(&part.at)
            )
        };
        let all = it.deliveries.iter().map(said).collect();
        self.list("delivery", all);
    }

    fn list(&mut self, label: &str, all: Vec<String>) {
        let more = all.len().saturating_sub(MOST);
        for (number, one) in all.into_iter().take(MOST).enumerate() {
            self.line(if number == 0 { label } else { "" }, &one);
        }
        self.more(more);
    }

    fn table(&mut self, columns: &[Column], mut rows: Vec<Vec<String>>) {
        let more = rows.len().saturating_sub(MOST);
        rows.truncate(MOST);
        for line in table::lines(columns, &rows, self.room.saturating_sub(LABEL + 1)) {
            self.line("", &line);
        }
        self.more(more);
    }

    fn more(&mut self, count: usize) {
        if count > 0 {
            self.line("", &format!("… and {count} more: --json"));
        }
    }

    fn line(&mut self, label: &str, words: &str) {
        let line = format!("{label:LABEL$} {words}");
        let column = [Column::left("").cut_to(LABEL)];
        self.lines.extend(table::lines(
            &column,
            &[vec![line.trim_end().to_owned()]],
            self.room,
        ));
    }

    fn time(&self, at: &str) -> String {
        clock::parse_rfc3339(at)
            .map_or_else(|| text::visible(at), |at| clock::local_stamp(at, self.zone))
    }

    fn clock(&self, at: Option<&str>) -> String {
        at.map_or_else(
            || "-".to_owned(),
            |at| text::tail(&self.time(at), 8).to_owned(),
        )
    }
}

fn tier(block: &Block) -> &'static str {
    match block.tier {
        PromptTier::Tools => "tools",
        PromptTier::Stable => "stable",
        PromptTier::SemiStable => "semi-stable",
        PromptTier::Conversation => "conversation",
        PromptTier::Message => "message",
    }
}

fn model_call(call: &ModelCall) -> String {
    let purpose = call.purpose.as_ref().map_or_else(String::new, |purpose| {
        format!("for {}: ", text::visible(purpose))
    });
    match call.ok {
        Some(false) => return format!("{purpose}failed"),
        None => return format!("{purpose}under way, or lost"),
        Some(true) => {}
    }
    let cached = if call.cache_read_tokens > 0 {
        format!(" ({} cached)", text::count(call.cache_read_tokens))
    } else {
        String::new()
    };
    let about = if call.estimated { "about " } else { "" };
    let cost = call
        .cost_usd
        .map_or_else(|| "unpriced".to_owned(), |usd| format!("${usd:.4}"));
    format!(
        "{purpose}{about}{} in{cached} / {} out, {cost}",
        text::count(call.input_tokens),
        text::count(call.output_tokens)
    )
}

fn tool_call(call: &ToolCall) -> String {
    let what = call
        .receipt
        .as_ref()
        .or(Some(&call.input))
        .filter(|what| !what.is_empty());
    let what = what.map_or_else(String::new, |what| format!(": {}", done(what)));
    format!("{}{what}", call.state.replace('_', " "))
}

/// Returns a receipt with the command short and the hosts whole: they are what is looked for.
fn done(receipt: &str) -> String {
    match receipt.rsplit_once(NETWORK) {
        Some((did, hosts)) => format!("{}{NETWORK}{}", words(did), text::visible(hosts)),
        None => words(receipt),
    }
}

/// Returns what is there with `before`, or nothing.
fn behind(before: &str, value: Option<&String>) -> String {
    value.map_or_else(String::new, |value| format!("{before}{}", words(value)))
}

fn words(text: &str) -> String {
    text::visible(&text::shorten(text, WORDS))
}

#[cfg(test)]
mod tests;

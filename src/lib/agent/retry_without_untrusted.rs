//! A step in whose request untrusted words stand: its calls are marked, and before the owner is asked because of
//! words that came before this turn's tools, the model is asked once more without them. What it then calls does
//! not depend on them, and runs.

use super::permission::{Circumstances, Decision, Knows};
use super::turn_loop::{Break, Running};
use super::turn_request::Written;
use crate::llm::Paid;
use crate::message::{Block, StopReason, ToolCall};
use crate::session::names_address;
use crate::trust::Provenance;

/// How often a turn asks the model without untrusted words: two changes with a look before each, and one more.
const MOST: u32 = 5;
/// Tools that change a file, which is read first.
const CHANGES: [&str; 2] = ["edit", "write"];
/// Addresses out of what was read that are followed in one turn: each choice among many says something.
const FOLLOWED: usize = 12;
/// Sources that a question names.
const NAMED: usize = 2;

impl Running<'_> {
    /// Decides about a call that the model made with untrusted words in its request, or without.
    pub(super) fn decide(&self, call: &ToolCall, untrusted: bool) -> Decision {
        let guest = (!self.order.from_owner).then_some(self.order.person_name);
        let circumstances = Circumstances {
            guest,
            untrusted,
            others_read: self.others_read,
            plan: self.order.form.is_some(),
            knows: self,
        };
        match (
            self.offer.decide(call, &self.context, circumstances),
            self.order.form,
        ) {
            (Decision::Ask { why, .. }, Some(form)) if !(form.may_wait)(call) => {
                Decision::Refuse(format!(
                    "this was not run: it needs the owner's yes, and this chat does not wait for it ({why})"
                ))
            }
            (decision, _) => decision,
        }
    }

    /// Returns the provenance of what the model said in this step, for its transcript.
    pub(super) fn provenance_of(&self, content: &[Block]) -> Vec<Provenance> {
        if self.is_exposed {
            vec![Provenance::Model; content.len()]
        } else {
            Vec::new()
        }
    }

    /// Notes whether untrusted words were in the request that `paid` answers. When one of its calls would be asked
    /// about for that alone, the model is asked again without them; returns its answer when that makes a call of
    /// the same tool, or looks at something of the owner's first, else `paid`.
    pub(super) async fn without_untrusted_if_it_asks(&mut self, paid: Paid) -> Result<Paid, Break> {
        let exposure = self.session.state().exposure();
        self.is_exposed = exposure.any();
        let stop = paid.response.stop;
        let is_whole = matches!(stop, StopReason::ToolUse | StopReason::EndTurn);
        // What a tool of this turn brought is what the turn is about.
        if !self.is_exposed
            || exposure.results
            || !is_whole
            || !self.order.from_owner
            || self.order.form.is_some()
            || self.asked_without >= MOST
        {
            return Ok(paid);
        }
        let is_asked = |call: &ToolCall| {
            let decision = self.decide(&self.offer.meant(call.clone()), true);
            matches!(
                decision,
                Decision::Ask {
                    untrusted: true,
                    ..
                }
            )
        };
        let calls = paid.response.message.tool_calls();
        let asked: Vec<String> = calls
            .filter(|call| is_asked(call))
            .map(|call| self.offer.meant(call.clone()).name)
            .collect();
        if asked.is_empty() {
            return Ok(paid);
        }
        self.asked_without += 1;
        let messages = self.session.state().messages_without_untrusted();
        let number = self.max_turns() - self.steps_left();
        let other = match self.complete(number, &messages, &|_| {}).await {
            Ok(other) => other,
            Err(broken @ (Break::Stopped | Break::TooLong(_))) => return Err(broken),
            Err(_) => return Ok(paid),
        };
        let cost_nano_usd = paid
            .cost_nano_usd
            .zip(other.cost_nano_usd)
            .map(|(one, two)| one + two);
        let others: Vec<ToolCall> = other
            .response
            .message
            .tool_calls()
            .map(|call| self.offer.meant(call.clone()))
            .collect();
        let makes_it = others.iter().any(|call| asked.contains(&call.name));
        // Without those words it does not know what it read in an earlier step: it reads a file anew before it changes it.
        let changes = asked.iter().any(|name| CHANGES.contains(&name.as_str()));
        let looks_first =
            changes && !others.is_empty() && others.iter().all(|call| self.only_looks(call));
        let is_whole = matches!(
            other.response.stop,
            StopReason::ToolUse | StopReason::EndTurn
        );
        // The size of the next request is that of the whole conversation.
        let usage = paid.response.usage;
        let mut taken = paid;
        if (makes_it || looks_first) && is_whole {
            self.is_exposed = false;
            taken = other;
            taken.response.usage = usage;
            let reader = self.order.reader;
            reader(Written::Begin);
            reader(Written::Text(&taken.response.message.plain_text()));
        }
        taken.cost_nano_usd = cost_nano_usd;
        Ok(taken)
    }

    /// Returns whether a call, made without untrusted words, reads what is here and changes nothing, and nobody is asked.
    fn only_looks(&self, call: &ToolCall) -> bool {
        let looks = self.offer.get(&call.name).is_some_and(|tool| {
            tool.read_only() && !tool.brings_pages() && tool.server().is_none()
        });
        looks && matches!(self.decide(call, false), Decision::Run)
    }

    fn brings_pages(&self, name: &str) -> bool {
        self.offer.get(name).is_some_and(|tool| tool.brings_pages())
    }
}

impl Knows for Running<'_> {
    fn typed(&self) -> String {
        if self.order.from_owner {
            self.session.state().typed()
        } else {
            String::new()
        }
    }

    fn was_read(&self, url: &str) -> bool {
        let (state, by) = (self.session.state(), |name: &str| self.brings_pages(name));
        // The prompt has no untrusted words: an address in it, such as one in TOOLS.md, is the owner's.
        let mut prompt = self.order.system.iter();
        state.calls_of_turn(&by) <= FOLLOWED
            && (state.was_read(url, &by) || prompt.any(|block| names_address(&block.text, url)))
    }

    fn was_read_inside(&self, url: &str) -> bool {
        let (state, by) = (self.session.state(), |name: &str| self.brings_pages(name));
        let mut prompt = self.order.system.iter();
        state.calls_of_turn(&by) <= FOLLOWED
            && (state.was_read_on_its_host(url, &by)
                || prompt.any(|block| names_address(&block.text, url)))
    }

    fn is_public(&self, query: &str) -> bool {
        let (state, by) = (self.session.state(), |name: &str| self.brings_pages(name));
        state.calls_of_turn(&by) <= FOLLOWED && self.private_words(query).is_empty()
    }

    fn private_words(&self, text: &str) -> Vec<String> {
        let is_public = |call: &ToolCall| {
            let call = self.offer.meant(call.clone());
            let tool = self.offer.get(&call.name);
            tool.is_some_and(|tool| tool.is_public(&call.input))
        };
        let told = self.order.bounds.map(|bounds| &*bounds.private_words);
        let told = told.unwrap_or_default();
        self.session.state().private_words(text, told, &is_public)
    }

    fn sources(&self) -> String {
        let sources = self.session.state().untrusted_sources();
        let named: Vec<String> = sources.iter().take(NAMED).map(Provenance::who).collect();
        named.join(" or ")
    }
}

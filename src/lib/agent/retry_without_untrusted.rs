//! A step whose request contains untrusted text: its calls are marked. Before the owner is asked because of text from
//! before this turn's tools, the model is called once more without that text; the calls that it then makes do not
//! depend on it, and run.

use super::followed::Before;
use super::more_tools;
use super::permission::{Circumstances, Decision, Knows};
use super::turn_loop::{Break, Running};
use super::turn_request::Written;
use crate::llm::Paid;
use crate::message::{Block, StopReason, ToolCall};
use crate::session::{addresses, names_address};
use crate::trust::Provenance;

/// How often in a row a turn asks the model without untrusted words and no call that would be asked about comes of it: looks,
/// and answers that are left aside. An endless look at this and that ends so.
const MOST: u32 = 5;
/// Sources that a question names.
const NAMED: usize = 2;

impl Running<'_> {
    /// Decides about the calls of a step that come next: all up to the first that needs a yes, or all from there that
    /// need one. Counts what they follow; `told` is what the sub-agents of this step were told to follow.
    pub(super) fn decide_next(&self, calls: &[ToolCall], told: &mut usize) -> Vec<Decision> {
        self.counting(|followed| {
            let mut before = Before {
                followed: *followed,
                told: *told,
            };
            let asks = |decision: &Decision| matches!(decision, Decision::Ask { .. });
            let mut decisions: Vec<Decision> = Vec::new();
            for call in calls {
                let (decision, after) = self.decide_after(before, call, self.is_exposed);
                let first = decisions.first().map(asks);
                if first.is_some_and(|first| first != asks(&decision)) {
                    break;
                }
                before = after;
                decisions.push(decision);
            }
            (*followed, *told) = (before.followed, before.told);
            decisions
        })
    }

    /// Lets `work` read and raise how much the paying run and its sub-agents followed. After a restart what is known of
    /// this turn counts.
    fn counting<T>(&self, work: impl FnOnce(&mut usize) -> T) -> T {
        let begin = || {
            let follows = |call: &ToolCall| {
                let call = more_tools::meant(call.clone());
                let reach = self.offer.reach(&call, &self.context);
                Before::default().and(&reach).followed > 0
            };
            self.session.state().untrusted_calls_of_turn(&follows)
        };
        let followed = &self.agent.followed;
        followed.with(self.order.paying_run, begin, work)
    }

    /// Decides about a call, and returns what it and those before it follow.
    fn decide_after(&self, before: Before, call: &ToolCall, untrusted: bool) -> (Decision, Before) {
        let decision = self.decide(call, untrusted, before);
        // Without untrusted words nobody else chose.
        let counts = untrusted || !self.order.from_owner;
        let after = if counts && decision == Decision::Run {
            before.and(&self.offer.reach(call, &self.context))
        } else {
            before
        };
        (decision, after)
    }

    /// Decides about a call that the model made with untrusted words in its request, or without.
    pub(super) fn decide(&self, call: &ToolCall, untrusted: bool, before: Before) -> Decision {
        let guest = (!self.order.from_owner).then_some(self.order.person_name);
        let knows = &Known { turn: self, before };
        let circumstances = Circumstances {
            guest,
            untrusted,
            others_read: self.others_read,
            plan: self.order.form.is_some(),
            knows,
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

    /// Notes whether untrusted text was in the request that `paid` answers. When one of its calls would be asked
    /// about for that alone, the model is asked again without them; returns its answer when that makes a call of
    /// the same tool, or only looks at something of the owner's first, else `paid`. What a look brings is in the next such
    /// request, unless it is untrusted: then there is none.
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
        let calls_of = |paid: &Paid| -> Vec<ToolCall> {
            let calls = paid.response.message.tool_calls();
            calls.map(|call| more_tools::meant(call.clone())).collect()
        };
        let calls = calls_of(&paid);
        let asked = self.asked_for_untrusted(&calls);
        if asked.is_empty() {
            return Ok(paid);
        }
        self.asked_without += 1;
        let messages = self.session.state().messages_without_untrusted();
        let number = self.max_turns() - self.steps_left();
        let other = match self.complete(number, messages, &|_| {}).await {
            Ok(other) => other,
            Err(broken @ (Break::Stopped | Break::TooLong(_))) => return Err(broken),
            Err(_) => return Ok(paid),
        };
        let cost_nano_usd = paid
            .cost_nano_usd
            .zip(other.cost_nano_usd)
            .map(|(one, two)| one + two);
        let others = calls_of(&other);
        let makes_it = others
            .iter()
            .any(|call| asked.contains(&call.name.as_str()));
        // Without those words it does not know what it read in an earlier step: it looks again before it acts.
        let looks_first = !others.is_empty() && others.iter().all(|call| self.only_looks(call));
        let is_whole = matches!(
            other.response.stop,
            StopReason::ToolUse | StopReason::EndTurn
        );
        // The size of the next request is that of the whole conversation.
        let usage = paid.response.usage;
        let mut taken = paid;
        if makes_it && is_whole {
            self.asked_without = 0;
        }
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

    /// Returns the tools of those calls that would be asked about because of untrusted words alone.
    fn asked_for_untrusted<'c>(&self, calls: &'c [ToolCall]) -> Vec<&'c str> {
        let followed = self.counting(|followed| *followed);
        let mut before = Before { followed, told: 0 };
        let mut asked = Vec::new();
        for call in calls {
            let (decision, after) = self.decide_after(before, call, true);
            before = after;
            if let Decision::Ask {
                untrusted: true, ..
            } = decision
            {
                asked.push(call.name.as_str());
            }
        }
        asked
    }

    /// Returns whether a call, made without untrusted words, reads what is here and changes nothing, and nobody is asked.
    fn only_looks(&self, call: &ToolCall) -> bool {
        let decide = || self.decide(call, false, Before::default());
        self.offer.only_looks(call) && decide() == Decision::Run
    }

    /// Returns the owner's own words of this turn.
    pub(super) fn typed(&self) -> String {
        if self.order.from_owner {
            self.session.state().typed()
        } else {
            String::new()
        }
    }

    fn brings_pages(&self, call: &ToolCall) -> bool {
        let call = more_tools::meant(call.clone());
        let tool = self.offer.get(&call.name);
        tool.is_some_and(|tool| tool.brings_page(&call.input))
    }

    /// The prompt has no untrusted words: an address in it, such as one in TOOLS.md, is the owner's.
    fn is_in_prompt(&self, url: &str) -> bool {
        let mut prompt = self.order.system.iter();
        prompt.any(|block| names_address(&block.text, url))
    }

    fn was_read(&self, url: &str) -> bool {
        let by = |call: &ToolCall| self.brings_pages(call);
        self.session.state().was_read(url, &by) || self.is_in_prompt(url)
    }

    /// Returns the words of a text that a search may not say unasked.
    pub(super) fn private_words(&self, text: &str) -> Vec<String> {
        let is_public = |call: &ToolCall| {
            let call = more_tools::meant(call.clone());
            let tool = self.offer.get(&call.name);
            tool.is_some_and(|tool| tool.is_public(&call.input))
        };
        let told = self.order.bounds.map(|bounds| &*bounds.private_words);
        let told = told.unwrap_or_default();
        let state = self.session.state();
        state.private_words(text, (told, &self.order.own_words), &is_public)
    }
}

/// What a turn knows of the arguments of a call.
struct Known<'a, 'b> {
    turn: &'a Running<'b>,
    /// What the calls before it follow.
    before: Before,
}

impl Knows for Known<'_, '_> {
    fn typed(&self) -> String {
        self.turn.typed()
    }

    fn was_read(&self, url: &str) -> bool {
        self.before.leaves(1) && self.turn.was_read(url)
    }

    fn was_read_inside(&self, url: &str) -> bool {
        let (turn, state) = (self.turn, self.turn.session.state());
        let by = |call: &ToolCall| turn.brings_pages(call);
        self.before.leaves(1) && (state.was_read_on_its_host(url, &by) || turn.is_in_prompt(url))
    }

    fn names_only_read(&self, text: &str) -> bool {
        self.before.leaves(addresses(text).count())
            && addresses(text).all(|address| self.turn.was_read(address))
    }

    fn is_public(&self, query: &str) -> bool {
        self.before.leaves(1) && self.turn.private_words(query).is_empty()
    }

    fn sources(&self) -> String {
        let sources = self.turn.session.state().untrusted_sources();
        let named: Vec<String> = sources.iter().take(NAMED).map(Provenance::who).collect();
        named.join(" or ")
    }
}

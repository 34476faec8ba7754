//! Processing of a model's answer: it is recorded; it ends the turn, requests tools, or is requested
//! once more.

use super::turn_loop::{Break, Running};
use super::turn_request::{Formed, Written};
use crate::llm::Paid;
use crate::message::{Block, Role, Source, Step, StopReason, ToolCall};
use crate::session::{Entry, Kind, Spoken};
use crate::trust::Provenance;

/// What a model is told that made a pause, or whose answer was empty.
const GO_ON: &str = "(go on)";
/// What an empty answer to a heartbeat says.
const NOTHING_TO_SAY: &str = "HEARTBEAT_OK";
/// What is said in place of a refusal: some vendors refuse everything that follows on one, so its turn is left out, see
/// [`crate::session::State`].
const DECLINED: &str = "The model declined to answer this, so your message is left out of the conversation from now on. \
                        If it declines again, /new begins another conversation.";
/// The answer that says nothing, in a form.
const EMPTY_FORM: &str = "[]";
/// The beginning of the message about an answer of the wrong form.
pub const UNREADABLE: &str = "⟦your answer could not be read: ";

impl Running<'_> {
    /// Returns what follows an answer in words.
    fn formed(&self, words: &str) -> Formed {
        let Some(form) = self.order.form.filter(|_| self.steps_left() > 1) else {
            return Formed::Final;
        };
        match (form.next)(words) {
            Formed::Unreadable(_) if self.was_told() => Formed::Final,
            next => next,
        }
    }

    /// Returns what the transcript has of this turn behind its message.
    fn of_turn(&self) -> impl DoubleEndedIterator<Item = &Entry> {
        let state = self.session.state();
        let since = state.turn.as_ref().map_or(0, |turn| turn.user_seq);
        let entries = state.entries.iter();
        entries.filter(move |entry| entry.seq > since)
    }

    /// Returns true when the model was told in this turn that its answer could not be read.
    fn was_told(&self) -> bool {
        let mut told = self.of_turn().map(|entry| entry.message.content.as_slice());
        told.any(
            |content| matches!(content, [Block::Context { text }] if text.starts_with(UNREADABLE)),
        )
    }

    /// Returns whether the model is asked to go on after an empty answer: once a turn, and never for a heartbeat, to which no
    /// answer says that there is nothing.
    fn may_ask_again(&self, stop: StopReason) -> bool {
        let go_on = [Block::context(GO_ON)];
        let was_asked = self.of_turn().any(|entry| entry.message.content == go_on);
        stop != StopReason::MaxTokens
            && self.order.source != Source::Heartbeat
            && self.steps_left() > 1
            && !was_asked
    }

    /// Writes an answer down and runs what it asks for; returns the final words if these are.
    pub(super) async fn take_in(&mut self, paid: Paid) -> Result<Option<String>, Break> {
        let paid = self.without_untrusted_if_it_asks(paid).await?;
        let mut message = paid.response.message;
        let mut stop = paid.response.stop;
        let mut calls: Vec<ToolCall> = message.tool_calls().cloned().collect();
        let is_answer =
            calls.is_empty() && !matches!(stop, StopReason::Pause | StopReason::Refusal);
        let formed = if is_answer {
            self.formed(&message.plain_text())
        } else {
            Formed::Final
        };
        if let Formed::Calls(asked) = &formed {
            message
                .content
                .extend(asked.iter().cloned().map(Block::ToolCall));
            calls.clone_from(asked);
        }
        self.emit(Step::Answered {
            duration_ms: paid.duration_ms,
            usage: paid.response.usage,
            stop,
            tools: calls.iter().map(|call| call.name.clone()).collect(),
        });
        let words = message.plain_text();
        let is_formed = self.order.form.is_some() && stop != StopReason::Refusal;
        // Some models end their turn without a word after a tool, and go on when they are asked to.
        let is_empty = words.trim().is_empty() && calls.is_empty();
        let may_go_on = is_empty && self.may_ask_again(stop);
        if may_go_on && is_answer && !is_formed {
            (message.content, stop) = (Vec::new(), StopReason::Pause);
        } else if is_empty && !may_go_on && stop == StopReason::Pause {
            stop = StopReason::EndTurn;
        }
        let ours = match calls.is_empty() {
            true => self.in_place_of(&words, stop, is_formed),
            false => None,
        };
        let content = ours.map_or(message.content, |text| vec![Block::text(text)]);
        let provenance = self.provenance_of(&content);
        let untrusted = provenance.iter().any(Provenance::is_untrusted);
        let spoken = Kind::Message(Spoken {
            model: Some(paid.model),
            stop: Some(stop),
            usage: Some(paid.response.usage),
            cost_nano_usd: paid.cost_nano_usd,
            provenance,
            ..Spoken::new(Role::Assistant, content, self.order.run_id)
        });
        if !calls.is_empty() {
            if !words.trim().is_empty() {
                (self.order.reader)(Written::Beside(words.trim(), untrusted));
            }
            return self.take_calls(spoken, stop, calls).await;
        }
        if stop == StopReason::Pause {
            let go_on = self.message(Role::User, Block::context(GO_ON));
            self.session.append(vec![spoken, go_on], true).await?;
            return Ok(None);
        }
        if let Formed::Unreadable(why) = formed {
            let text = format!("{UNREADABLE}{why}; write it again, all of it⟧");
            let told = self.message(Role::User, Block::context(text));
            self.session.append(vec![spoken, told], true).await?;
            return Ok(None);
        }
        self.session.append(vec![spoken], true).await?;
        Ok(Some(self.last_words()))
    }

    /// Returns what is said in place of the last answer of a turn, if its own words cannot be.
    fn in_place_of(&self, words: &str, stop: StopReason, is_formed: bool) -> Option<String> {
        Some(match (words.trim().is_empty(), stop) {
            (_, StopReason::Pause) => return None,
            // Its own words are half a sentence.
            (_, StopReason::Refusal) => DECLINED.to_owned(),
            // No words are silence where words are not the answer.
            (true, _) if is_formed => EMPTY_FORM.to_owned(),
            (false, StopReason::MaxTokens) if !is_formed => {
                format!("{words}\n\n(cut off at the model's token limit)")
            }
            (false, _) => return None,
            (true, _) if self.order.source == Source::Heartbeat => NOTHING_TO_SAY.to_owned(),
            (true, StopReason::MaxTokens) => {
                "The model reached its token limit (`max_tokens` of its provider) before it wrote an answer."
                    .to_owned()
            }
            (true, _) => self
                .earlier_words()
                .unwrap_or_else(|| "The model gave an empty answer. Please ask again.".to_owned()),
        })
    }

    /// The final answer that is in the transcript, with what is before the pauses in it.
    pub(super) fn last_words(&self) -> String {
        let mut entries = self
            .session
            .state()
            .entries
            .iter()
            .rev()
            .filter(|entry| entry.seq > 0);
        let last = entries.find(|entry| entry.message.role == Role::Assistant);
        let mut words: Vec<String> = last
            .map(|entry| entry.message.plain_text())
            .into_iter()
            .collect();
        let pause = [Block::context(GO_ON)];
        while entries
            .next()
            .is_some_and(|entry| entry.message.content == pause)
            && let Some(before) = entries.next()
        {
            words.insert(0, before.message.plain_text());
        }
        words.concat()
    }

    /// The text that the model wrote together with its tool calls in this turn, when its last answer is empty.
    fn earlier_words(&self) -> Option<String> {
        self.session.state().turn.as_ref()?;
        let of_turn = self.of_turn().rev();
        let answers = of_turn.filter(|entry| entry.message.role == Role::Assistant);
        answers
            .map(|entry| entry.message.plain_text())
            .find(|text| !text.trim().is_empty())
    }
}

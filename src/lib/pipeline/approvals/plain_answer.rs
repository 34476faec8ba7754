//! A plain "yes" or "no" below a question: it answers it, as the button would.

use crate::message::approval_reply::{ONLY, YES_OR_NO};
use crate::message::{Approval, Command, Envelope, Trust};
use crate::pipeline::Pipeline;
use crate::queue::Request;

/// Whole messages that are a yes and nothing else, in the languages of the packs; lower case, without marks at the end.
const YES: &[&str] = &[
    "yes",
    "y",
    "yes please",
    "yep",
    "yeah",
    "yup",
    "ok",
    "okay",
    "sure",
    "go ahead",
    "do it",
    "approve",
    "approved",
    "👍",
    "👌",
    "✅",
    "ja",
    "ja bitte",
    "jo",
    "oui",
    "oui merci",
    "d'accord",
    "sí",
    "si",
    "sì",
    "vale",
    "sim",
    "tak",
    "да",
    "evet",
    "tamam",
];
/// Those that are a no and nothing else.
const NO: &[&str] = &[
    "no",
    "n",
    "nope",
    "nah",
    "no thanks",
    "no thank you",
    "don't",
    "deny",
    "denied",
    "👎",
    "❌",
    "nein",
    "nein danke",
    "nee",
    "non",
    "non merci",
    "no gracias",
    "no grazie",
    "não",
    "nao",
    "nie",
    "нет",
    "nej",
    "hayır",
    "hayir",
];

/// Returns the verdict that `text` is, when it is that alone.
fn verdict(text: &str) -> Option<Approval> {
    // Telephones put colours on a thumb.
    let is_look = |c: char| matches!(c, '\u{1F3FB}'..='\u{1F3FF}' | '\u{FE0F}');
    let plain: String = text.chars().filter(|c| !is_look(*c)).collect();
    let plain = plain.to_lowercase().replace(',', " ").replace('’', "'");
    let plain = plain.trim().trim_end_matches(['.', '!']);
    let words = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    if YES.contains(&words.as_str()) {
        Some(Approval::Approve)
    } else {
        NO.contains(&words.as_str()).then_some(Approval::Deny)
    }
}

/// Returns what `verdict` means below the open requests of one question. A yes to several is asked for by name.
fn meant(verdict: Approval, open: &[Request]) -> Option<Command> {
    let wants_words = |request: &Request| {
        let wanted = request.wanted.as_ref();
        wanted.is_some_and(|wanted| wanted.how != YES_OR_NO)
    };
    let first = open.first()?;
    if open.iter().any(wants_words) {
        return None;
    }
    let id = match (verdict, open) {
        (_, [only]) => &only.id,
        (Approval::Deny, _) => &first.batch,
        _ => ONLY,
    };
    Some(Command::Approval {
        id: id.to_owned(),
        verdict,
        why: None,
    })
}

impl Pipeline {
    /// Returns the decision that the message `envelope` is: a plain yes or no that an owner writes in their own chat, where
    /// an open question is the last that was said. `None` for every other message, and when the queue cannot be read.
    pub(in crate::pipeline) async fn plain_answer(&self, envelope: &Envelope) -> Option<Command> {
        let is_theirs = envelope.from_owner
            && envelope.trust == Trust::Owner
            && envelope.source.is_chat()
            && envelope.group.is_none();
        let is_more_than_words = envelope.command.is_some()
            || envelope.kind.is_some()
            || envelope.forwarded_from.is_some()
            || envelope.edited
            || !(envelope.media.is_empty() && envelope.attachments.is_empty());
        if !is_theirs || is_more_than_words {
            return None;
        }
        let verdict = verdict(&envelope.text)?;
        let (_, route) = self.channel(envelope)?;
        let written = super::written(envelope);
        let (message, open) = self.queue.asked_last(route, written.at).await.ok()??;
        let quoted = envelope.quoted.as_ref().map(|quoted| &quoted.message_id);
        if quoted.is_some_and(|quoted| quoted.as_ref() != Some(&message)) {
            return None;
        }
        meant(verdict, &open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_alone_is_an_answer_and_a_word_with_more_is_none() {
        for yes in [
            "yes",
            "Yes!",
            " YES. ",
            "Yes, please",
            "👍🏽",
            "✅️",
            "Ja",
            "Sí",
            "ok",
        ] {
            assert_eq!(verdict(yes), Some(Approval::Approve), "{yes}");
        }
        for no in ["no", "No.", "Don’t!", "👎", "Nein, danke"] {
            assert_eq!(verdict(no), Some(Approval::Deny), "{no}");
        }
        for neither in [
            "",
            "yes but only the first",
            "yes?",
            "no, wait, what is in it?",
            "yes no",
            "👍👎",
            "/approve",
            "not yes",
            "okay then, tell me more",
            "always",
        ] {
            assert_eq!(verdict(neither), None, "{neither}");
        }
    }
}

//! A plain "yes" or "no" after a question answers it like a button.

use super::words::do_you_mean;
use crate::message::approval_reply::YES_OR_NO;
use crate::message::{Approval, Command, Envelope, Source, Trust};
use crate::pipeline::Pipeline;
use crate::queue::{PlainWord, Request, Shown};

/// Whole messages that are a yes and nothing else, in languages of the packs; lower case, without a mark at the end.
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
    "ok do it",
    "yes do it",
    "sure go ahead",
    "yes go ahead",
    "go for it",
    "of course",
    "please do",
    "proceed",
    "yes thanks",
    "approve",
    "approved",
    "👍",
    "👌",
    "✅",
    "ja",
    "ja bitte",
    "jo",
    "oui",
    "d'accord",
    "sí",
    "si",
    "sì",
    "vale",
    "sim",
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
];

/// Those that are a yes to two things, and to all that a question asks.
const YES_TO_BOTH: &[&str] = &[
    "both",
    "yes both",
    "yes to both",
    "ok both",
    "beide",
    "ja beide",
    "les deux",
    "oui les deux",
    "los dos",
    "sí los dos",
];
const YES_TO_ALL: &[&str] = &[
    "all",
    "yes all",
    "yes to all",
    "all of them",
    "alle",
    "ja alle",
];

/// What people put behind a word and mean nothing else by.
const FRIENDLY: &[&str] = &["👍", "👌", "✅", "🙂", "😊", "😀", "😄", "🙏", "❤"];

/// A whole message that is an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Answer {
    verdict: Approval,
    of: Of,
}

/// To how many things an answer is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    /// It does not say.
    One,
    /// Both.
    Two,
    /// All.
    All,
}

/// Returns the answer that `text` is, when it is that alone.
fn answer(text: &str) -> Option<Answer> {
    // Telephones put colours on a thumb.
    let is_colour = |c: char| matches!(c, '\u{1F3FB}'..='\u{1F3FF}' | '\u{FE0F}');
    let plain: String = text.chars().filter(|c| !is_colour(*c)).collect();
    let plain = plain.to_lowercase().replace(',', " ").replace('’', "'");
    let plain = plain.trim().trim_end_matches('!');
    // Three dots mean hesitation.
    let plain = plain.strip_suffix('.').unwrap_or(plain);
    let mut words = plain.split_whitespace().collect::<Vec<_>>();
    while words.len() > 1 && words.last().is_some_and(|last| FRIENDLY.contains(last)) {
        words.pop();
    }
    let words = words.join(" ");
    let lists = [
        (NO, Approval::Deny, Of::One),
        (YES, Approval::Approve, Of::One),
        (YES_TO_BOTH, Approval::Approve, Of::Two),
        (YES_TO_ALL, Approval::Approve, Of::All),
    ];
    let is_in = |(list, ..): &(&[&str], Approval, Of)| list.contains(&words.as_str());
    let (_, verdict, of) = lists.into_iter().find(is_in)?;
    Some(Answer { verdict, of })
}

/// Returns what `answer` decides below the message `shown`: all of its requests, one, or none, when it is not sure that
/// they are meant.
fn decision(answer: Answer, shown: &Shown, envelope: &Envelope) -> Option<Command> {
    let wants_words = |request: &Request| {
        let wanted = request.wanted.as_ref();
        wanted.is_some_and(|wanted| wanted.how != YES_OR_NO)
    };
    let first = shown.requests.first()?;
    if !shown.all_parts_delivered || shown.requests.iter().any(wants_words) {
        return None;
    }
    // What was asked for somebody else may be there by chance, above an answer that is still written.
    let is_meant = envelope.quoted.is_some() || first.session_key == envelope.session_key.0;
    let Answer { verdict, of } = answer;
    let id = match shown.requests.as_slice() {
        [only] if is_meant && of == Of::One => &only.id,
        [_, _] if is_meant && of == Of::Two => &first.batch,
        [_, _, ..] if is_meant && (of == Of::All || verdict == Approval::Deny) => &first.batch,
        _ => {
            return Some(Command::Done {
                text: do_you_mean(&shown.requests, envelope.source),
            });
        }
    };
    Some(Command::Approval {
        id: id.to_owned(),
        verdict,
        why: None,
    })
}

impl Pipeline {
    /// Returns the decision that the message `envelope` is: a plain yes or no that an owner writes in their own chat, in
    /// reply to an open question, or when that is the last message the agent sent there. `None` for every other message,
    /// and when the queue cannot be read.
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
        let answer = answer(&envelope.text)?;
        let (_, route) = self.channel(envelope)?;
        let quoted = match &envelope.quoted {
            Some(quoted) => Some(quoted.message_id.clone()?),
            None => None,
        };
        let word = PlainWord {
            id: envelope.id.clone(),
            number: (envelope.reply_to.as_ref())
                .filter(|_| envelope.source == Source::Telegram)
                .and_then(|id| id.parse().ok()),
            quoted,
            at: super::written(envelope).at,
            received_at: envelope.received_at,
        };
        let shown = self.queue.question_above(word, route).await;
        decision(answer, &shown.ok()??, envelope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_alone_is_an_answer_and_a_word_with_more_is_none() {
        let verdict = |text: &str| answer(text).map(|answer| (answer.verdict, answer.of));
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
            "ok 👍🏽",
            "Yes 😊",
            "yes 😊 🙏",
        ] {
            assert_eq!(verdict(yes), Some((Approval::Approve, Of::One)), "{yes}");
        }
        for (word, of) in [
            ("yes, both", Of::Two),
            ("Both!", Of::Two),
            ("Yes to all", Of::All),
        ] {
            assert_eq!(verdict(word), Some((Approval::Approve, of)), "{word}");
        }
        for no in ["no", "No.", "Don’t!", "👎", "Nein, danke", "no 🙏"] {
            assert_eq!(verdict(no), Some((Approval::Deny, Of::One)), "{no}");
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
            "yes...",
            "ok…",
            "okay then, tell me more",
            "always",
            "yes 👎",
            "both?",
            "😊",
            "all right, but the first only",
        ] {
            assert_eq!(verdict(neither), None, "{neither}");
        }
    }
}

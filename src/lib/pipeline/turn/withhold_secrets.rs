//! Removes apparent secrets in an owner's own text from requests to a model, unless the owner insists.

use crate::message::{Envelope, Trust};
use crate::pipeline::Pipeline;
use crate::pipeline::persist::Recorded;
use crate::pipeline::schedule::debounce::TurnInputs;
use crate::secret;

/// With this before their words the owner insists.
const ALLOW: &str = "/allow-secret";

/// What they are told.
pub(crate) const NOTE: &str = "Text that looks like a secret was removed from your message. To send it anyway, write /allow-secret before the text.";

/// Leaves out of a message what looks like a secret; returns whether anything did.
pub(crate) fn withhold(envelope: &mut Envelope) -> bool {
    if envelope.trust != Trust::Owner || !envelope.from_owner || !envelope.source.is_person() {
        return false;
    }
    let insisted = envelope.text.trim_start().strip_prefix(ALLOW);
    if let Some(words) = insisted.filter(|words| words.starts_with(char::is_whitespace)) {
        envelope.text = words.trim_start().to_owned();
        return false;
    }
    let quoted = envelope.quoted.as_mut().map(|quoted| &mut quoted.text);
    let mut any = false;
    for words in [Some(&mut envelope.text), quoted].into_iter().flatten() {
        if let Some(without) = secret::withhold(words) {
            *words = without;
            any = true;
        }
    }
    any
}

impl Pipeline {
    /// Replaces the inputs of a turn, whose message is in its transcript, by those without what looks like a secret.
    pub(crate) async fn forget_withheld(&self, inputs: &TurnInputs) -> Recorded<()> {
        if !inputs.messages().iter_mut().any(withhold) {
            return Ok(());
        }
        // Joined, they are another text.
        let mut rows: Vec<Envelope> = inputs.envelopes().cloned().collect();
        rows.retain_mut(withhold);
        self.persist("a message without its secrets", || {
            self.queue.rewrite(rows.clone())
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Sender, SessionKey, Source};

    #[test]
    fn only_the_owners_words_are_changed_and_only_until_they_insist() {
        let said = |source: Source, words: &str| {
            let sender = Sender {
                id: "1001".into(),
                name: "Ada".into(),
                username: None,
            };
            let key = SessionKey("cli:cli".into());
            Envelope::new("1".into(), source, sender, key, words.to_owned(), 0)
        };
        let check = |source: Source, words: &str, expected: &str, any: bool| {
            let mut envelope = said(source, words);
            envelope.from_owner = true;
            envelope.trust = Trust::Owner;
            let found = withhold(&mut envelope);
            assert_eq!((envelope.text.as_str(), found), (expected, any), "{words}");
        };
        let card = "pay with 4111 1111 1111 1111";
        check(
            Source::Cli,
            card,
            "pay with [a card number, left out]",
            true,
        );
        check(Source::Cli, &format!("/allow-secret {card}"), card, false);
        check(Source::Cli, "/allow-secretly", "/allow-secretly", false);
        check(Source::Job, card, card, false);
        let mut forwarded = said(Source::Telegram, card);
        forwarded.trust = Trust::Other;
        assert!(!withhold(&mut forwarded));
    }
}

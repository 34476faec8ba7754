//! Speech to words, paid by the minute; words to speech, paid by the character.

use super::{Client, Error, Purpose};
use crate::config::Model;
use crate::cost::{self, Kind, Outcome};
use crate::message::Usage;
use crate::provider::transcription::Recording;

/// A second of a recording whose length nobody knows has at least so many bytes: 8 kbit/s, about the
/// least that speech is recorded with (RFC 6716 §2.1.1, Opus).
const LEAST_BYTES: u64 = 1000;
/// And at most so many, 320 kbit/s: a sender's word about the length goes no further.
const MOST_BYTES: u64 = 40_000;

impl Client {
    /// Has `model` listen to `recording` of `seconds`, rounded up; `None` = unknown: then it is taken
    /// for as long as so many bytes can be. Returns what was said; empty when nothing was.
    /// Fallbacks are not asked.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn transcribe(
        &self,
        purpose: Purpose<'_>,
        model: &str,
        recording: Recording<'_>,
        seconds: Option<u32>,
    ) -> Result<String, Error> {
        let model = self.models.get(model, "the request")?;
        self.admitted(&model, || self.listen(purpose, &model, recording, seconds))
            .await
    }

    /// Makes attempts at a model that listens or speaks, unless it is known to be away.
    async fn admitted<T, F: Future<Output = Result<T, Error>>>(
        &self,
        model: &Model,
        work: impl Fn() -> F,
    ) -> Result<T, Error> {
        let circuits = &self.outages.circuits;
        let attempt = || async {
            let permit = circuits.admit(model).map_err(Error::Unavailable)?;
            match work().await {
                Err(Error::Failed(error)) if error.retryable() => {
                    Err(Error::Unavailable(permit.failed(&error)))
                }
                answer => {
                    if matches!(answer, Ok(_) | Err(Error::Failed(_))) {
                        permit.answered();
                    }
                    answer
                }
            }
        };
        self.patiently(&|_| {}, attempt).await
    }

    /// Has `model` speak `text` and returns the recording. Fallbacks are not asked.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn speak(
        &self,
        purpose: Purpose<'_>,
        model: &str,
        text: &str,
    ) -> Result<Vec<u8>, Error> {
        let model = self.models.get(model, "the request")?;
        self.admitted(&model, || self.say(purpose, &model, text))
            .await
    }

    async fn say(&self, purpose: Purpose<'_>, model: &Model, text: &str) -> Result<Vec<u8>, Error> {
        let server = self
            .voices
            .get(&model.provider.name)
            .ok_or_else(|| Error::NoProvider(model.name.clone()))?;
        let price = cost::of_speech(model, text.chars().count() as u64);
        let call = purpose.call(model, Kind::Tts, price);
        let work = server.speak(&model.model, model.voice.as_deref(), text);
        let settled = |_: &Vec<u8>| Outcome::Answered {
            usage: Usage::default(),
            cost: price,
        };
        self.metered(call, work, settled)
            .await
            .map(|(sound, _)| sound)
    }

    async fn listen(
        &self,
        purpose: Purpose<'_>,
        model: &Model,
        recording: Recording<'_>,
        seconds: Option<u32>,
    ) -> Result<String, Error> {
        let server = self
            .speech
            .get(&model.provider.name)
            .ok_or_else(|| Error::NoProvider(model.name.clone()))?;
        let price = cost::of_sound(model, billed(recording.bytes.len() as u64, seconds));
        let usage = Usage {
            estimated: seconds.is_none(),
            ..Usage::default()
        };
        let call = purpose.call(model, Kind::Stt, price);
        let work = server.transcribe(&model.model, recording);
        self.metered(call, work, |_| Outcome::Answered { usage, cost: price })
            .await
            .map(|(words, _)| words)
    }
}

/// Returns the seconds that are paid for.
fn billed(bytes: u64, seconds: Option<u32>) -> u64 {
    let at_least = match seconds {
        Some(seconds) => u64::from(seconds).max(bytes / MOST_BYTES),
        None => bytes.div_ceil(LEAST_BYTES),
    };
    at_least.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_length_is_the_longest_it_can_be_and_a_stated_one_is_not_taken_blindly() {
        let seconds = [
            (60_000, None),
            (60_001, None),
            (12_345, Some(8)),
            (4_000_000, Some(1)),
            (10, None),
            (10, Some(0)),
        ]
        .map(|(bytes, seconds)| billed(bytes, seconds));
        assert_eq!(seconds, [60, 61, 8, 100, 1, 1]);
    }
}

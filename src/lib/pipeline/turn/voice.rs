//! Answers as voice messages: `[agent] voice`. Text that cannot be spoken is sent as text.

use std::path::PathBuf;

use pulldown_cmark::{Event, Parser, TagEnd};
use tokio_util::sync::CancellationToken;

use super::outcome::addressed;
use crate::config::Voice;
use crate::message::{Envelope, MediaKind, OutFile};
use crate::pipeline::Pipeline;
use crate::queue::NewPart;
use crate::sandbox::Root;

impl Pipeline {
    /// Returns an answer in a chat as a voice message, where the settings want one; `cancel` ends the speaking.
    pub(crate) async fn voiced(
        &self,
        envelope: &Envelope,
        markdown: &str,
        run_id: &str,
        cancel: &CancellationToken,
    ) -> Option<NewPart> {
        let live = self.live();
        let speaker = live.speaker.as_ref()?;
        let was_spoken_to = || {
            envelope
                .media
                .iter()
                .any(|media| media.kind == MediaKind::Voice)
        };
        let wanted = match live.config.agent.voice {
            Voice::Never => false,
            Voice::Always => true,
            Voice::Auto => was_spoken_to(),
        };
        if !wanted || !envelope.source.is_person() || envelope.reply_to.is_none() {
            return None;
        }
        let (channel, route) = self.channel(envelope)?;
        if !channel.takes_files() {
            return None;
        }
        let of = (run_id, envelope.session_key.0.as_str());
        let of_others = !envelope.from_owner;
        let (chosen, markdown) = addressed(envelope, markdown);
        let spoken = speaker
            .speak(&spoken_words(markdown), of, of_others, cancel)
            .await;
        let (sound, ending) = spoken
            .map_err(|why| match cancel.is_cancelled() {
                true => tracing::info!(why, run = run_id, "an answer is not spoken to its end"),
                false => tracing::warn!(
                    why,
                    run = run_id,
                    "cannot speak an answer; it is sent as text"
                ),
            })
            .ok()?;
        let dir = format!("voice-{}", uuid::Uuid::now_v7().simple());
        let name = format!("{dir}.{ending}");
        let (downloads, path) = (self.downloads.clone(), PathBuf::from(&dir).join(&name));
        let kept = crate::sys::blocking(move || {
            Root::open(&downloads).and_then(|root| root.write_atomic(&path, &sound))
        });
        kept.await
            .map_err(|error| tracing::warn!(%error, "cannot speak an answer; it is sent as text"))
            .ok()?;
        let file = OutFile {
            kind: MediaKind::Voice,
            path: format!("{dir}/{name}"),
            filename: name,
            handle: None,
        };
        Some(NewPart {
            reply_to: self.answered_by(envelope, &route.channel, &chosen, 0),
            files: vec![file],
            ..NewPart::plain(route, String::new())
        })
    }
}

/// Returns the words of a Markdown text, without its marks.
fn spoken_words(markdown: &str) -> String {
    let mut words = String::new();
    for event in Parser::new(markdown) {
        match event {
            Event::Text(text) | Event::Code(text) => words.push_str(&text),
            Event::SoftBreak => words.push(' '),
            Event::HardBreak
            | Event::End(
                TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::Item | TagEnd::CodeBlock,
            ) => words.push('\n'),
            _ => {}
        }
    }
    words.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_spoken_and_no_marks() {
        let markdown = "# Plan\n**Hello** `Ada`,\nsee [this](https://a.example/).\n\n- one\n- two";
        assert_eq!(
            spoken_words(markdown),
            "Plan\nHello Ada, see this.\none\ntwo"
        );
    }
}

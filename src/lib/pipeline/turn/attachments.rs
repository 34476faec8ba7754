//! Files that came with a message, as the model reads them: pictures as pictures, documents as
//! text, spoken words as words, everything else by name. Whatever fails still makes a turn.

use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::download::{MAX_FETCH, fetch};
use super::run::carries_words_of_others;
use super::transcribe;
use crate::media;
use crate::media::Content;
use crate::message::{Attachment, Block, Envelope, Media, MediaKind};
use crate::pipeline::{Live, Pipeline};
use crate::prompt;
use crate::prompt::Label;
use crate::text;
use crate::trust::fence;

/// Characters of a file that the model reads (specification §6); of a longer one its head and tail.
const MAX_CHARS: usize = 30_000;
/// The share of the head, percent.
const HEAD: usize = 70;

/// What is said of sound when nobody can listen to it.
const NOT_TRANSCRIBED: &str = "; not transcribed: no speech_to_text model is configured ([routing] speech_to_text in agent.toml)";

/// The message whose files are read, and its turn.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) live: &'a Live,
    pub(crate) envelope: &'a Envelope,
    pub(crate) run_id: &'a str,
    pub(crate) session_id: &'a str,
    pub(crate) cancel: &'a CancellationToken,
}

/// Returns the files of a message as blocks, in order; when it is cancelled those until then, and that
/// there were more.
pub(crate) async fn read(place: &Place<'_>) -> Vec<Block> {
    let mut blocks = Vec::new();
    let all = async {
        for file in &place.envelope.attachments {
            blocks.extend(place.attachment(file).await);
        }
        for (number, media) in place.envelope.media.iter().enumerate() {
            blocks.extend(place.media(number, media).await);
        }
    };
    if place.cancel.run_until_cancelled(all).await.is_none() {
        blocks.push(Block::Context {
            text: "⟦the turn ended before its files were read⟧".to_owned(),
        });
    }
    blocks
}

impl Place<'_> {
    /// A file that is ours already.
    async fn attachment(&self, file: &Attachment) -> Vec<Block> {
        let label = Label {
            kind: MediaKind::Document.as_str(),
            name: Some(&file.filename),
            seconds: None,
            bytes: None,
        };
        self.content(
            &file.path,
            label,
            MediaKind::Document,
            file.content_type.as_deref(),
        )
        .await
    }

    /// A file that is still on its channel's server.
    async fn media(&self, number: usize, media: &Media) -> Vec<Block> {
        let label = Label {
            kind: media.kind.as_str(),
            name: media.filename.as_deref(),
            seconds: media.seconds,
            bytes: None,
        };
        let known = Label {
            bytes: media.bytes,
            ..label
        };
        let claims = |kind: &str| {
            media
                .content_type
                .as_deref()
                .is_some_and(|claimed| claimed.starts_with(kind))
        };
        match media.kind {
            // What nobody can be shown is not fetched; of stickers, the moving ones.
            MediaKind::Video | MediaKind::Animation => return vec![known.alone()],
            MediaKind::Document if claims("video/") => return vec![known.alone()],
            MediaKind::Sticker if claims("video/") || claims("application/") => {
                return vec![label.alone()];
            }
            MediaKind::Voice | MediaKind::Audio | MediaKind::VideoNote if !self.listens() => {
                return vec![label.with(NOT_TRANSCRIBED)];
            }
            _ => {}
        }
        if media.bytes.is_some_and(|bytes| bytes > MAX_FETCH) {
            return vec![known.with(&format!(
                ": too large to be fetched (at most {} MB)",
                MAX_FETCH >> 20
            ))];
        }
        let Some((channel, _)) = self.pipeline.channel(self.envelope) else {
            return vec![known.with(": its channel is off")];
        };
        match fetch(
            channel.as_ref(),
            &self.pipeline.downloads,
            &self.envelope.id,
            number,
            media,
        )
        .await
        {
            Ok(path) => {
                self.content(&path, label, media.kind, media.content_type.as_deref())
                    .await
            }
            Err(why) => {
                tracing::warn!(id = self.envelope.id, why, "a file could not be fetched");
                vec![known.with(&format!(": it could not be fetched: {why}"))]
            }
        }
    }

    /// What is in the file `path` below `downloads`.
    async fn content(
        &self,
        path: &str,
        label: Label<'_>,
        kind: MediaKind,
        content_type: Option<&str>,
    ) -> Vec<Block> {
        let there = self.pipeline.downloads.join(path);
        if matches!(
            kind,
            MediaKind::Voice | MediaKind::Audio | MediaKind::VideoNote
        ) {
            return self.sound(&there, label, kind).await;
        }
        let name = label.name.unwrap_or_default().to_owned();
        let work = {
            let (there, name, content_type) =
                (there.clone(), name.clone(), content_type.map(str::to_owned));
            move || media::look(&there, &name, content_type.as_deref())
        };
        let seen = crate::sys::blocking(work).await;
        // A photo is its own description; of a file the size tells how much of it there is.
        let sized = Label {
            bytes: Some(seen.bytes),
            ..label
        };
        let document = kind == MediaKind::Document;
        let marker = fence::marker(self.run_id);
        let marker = carries_words_of_others(self.envelope).then_some(marker.as_str());
        let words = |words: &str| {
            prompt::attachment(
                &name,
                seen.bytes,
                &text::head_and_tail(words, MAX_CHARS, HEAD),
                marker,
            )
        };
        match seen.content {
            Ok(Content::Picture(content_type)) => vec![
                if document {
                    sized.alone()
                } else {
                    label.alone()
                },
                Block::Image {
                    file: path.to_owned(),
                    content_type: content_type.to_owned(),
                    data: None,
                },
            ],
            Ok(Content::Text(text)) => vec![words(&text)],
            Ok(Content::Pdf(file)) => match media::pdf(file, self.cancel).await {
                Ok(pdf) => vec![words(&whole_or_not(&pdf))],
                Err(why) => vec![sized.with(&format!(": {why}"))],
            },
            Ok(Content::Sound) => {
                self.sound(
                    &there,
                    Label {
                        kind: MediaKind::Audio.as_str(),
                        ..sized
                    },
                    MediaKind::Audio,
                )
                .await
            }
            Err(why) => vec![sized.with(&format!(": {why}"))],
        }
    }

    /// What is said in a recording. In a voice message and a video note the person speaks; what any
    /// other recording says is data.
    async fn sound(&self, path: &Path, label: Label<'_>, kind: MediaKind) -> Vec<Block> {
        if !self.listens() {
            return vec![label.with(NOT_TRANSCRIBED)];
        }
        match Box::pin(transcribe::words(
            self.live,
            self.run_id,
            self.session_id,
            path,
            label.seconds,
            self.cancel,
        ))
        .await
        {
            Ok(words) if kind == MediaKind::Audio => {
                vec![label.around(
                    &text::head_and_tail(&words, MAX_CHARS, HEAD),
                    &fence::marker(self.run_id),
                )]
            }
            Ok(words) => label
                .spoken(&text::head_and_tail(&words, MAX_CHARS, HEAD))
                .to_vec(),
            Err(why) => {
                tracing::warn!(
                    why,
                    session = self.session_id,
                    "a recording was not put into words"
                );
                vec![label.with(&format!("; transcription failed: {why}"))]
            }
        }
    }

    /// Returns whether sound becomes words.
    fn listens(&self) -> bool {
        self.live.listener.is_some()
            || self
                .live
                .agent
                .client()
                .models()
                .for_role("speech_to_text")
                .is_some()
    }
}

fn whole_or_not(pdf: &media::Pdf) -> String {
    match pdf.broken_off {
        None => pdf.text.clone(),
        Some(why) => format!("{}\n\n[… the rest could not be read: {why} …]", pdf.text),
    }
}

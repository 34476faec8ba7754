//! Speech: text becomes a voice message, by a program on this machine or by the model of `[routing] text_to_speech`; and the
//! tool `tts`.
//!
//! The program runs without network in a separate directory below `state/downloads`, which is removed when it ends:
//!
//! ```text
//! voice-ID/text   the text
//! voice-ID/out    the program's output: OGG with Opus, MP3 or M4A
//! ```

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::Needs;
use super::media::send_file;
use super::typed::{About, Property, TypedTool};
use crate::agent::{Context, Reach, ToolOutput};
use crate::llm::{Client, Purpose};
use crate::media::sound_ending;
use crate::provider::speech::MAX_CHARS;
use crate::sandbox;
use crate::sandbox::{Program, Root, Status};
use crate::sys::{ScratchDir, atomic};

/// How long the program may take.
const TIMEOUT: Duration = Duration::from_secs(120);
/// What is kept of what it says.
const MAX_OUTPUT: usize = 4 << 10;
/// The largest recording, bytes.
const MAX_SOUND: u64 = 20 << 20;

/// Who speaks.
pub struct Speaker {
    /// The metered client.
    pub client: Arc<Client>,
    /// The program that goes before the model.
    pub program: Option<Program>,
    /// Where directories of the program are made.
    pub scratch: PathBuf,
}

impl Speaker {
    /// Returns true when somebody can speak.
    pub fn can_speak(&self) -> bool {
        self.program.is_some() || self.client.models().for_role("text_to_speech").is_some()
    }

    /// Returns a recording of `text` and its ending; or why there is none. `of_others` as in [`Purpose`].
    ///
    /// # Errors
    /// In words for the model.
    pub async fn speak(
        &self,
        text: &str,
        (run_id, session_id): (&str, &str),
        of_others: bool,
        cancel: &CancellationToken,
    ) -> Result<(Vec<u8>, &'static str), String> {
        let chars = text.chars().count();
        if text.trim().is_empty() || chars > MAX_CHARS {
            return Err(format!("1 to {MAX_CHARS} characters can be spoken"));
        }
        let sound = match &self.program {
            Some(program) => run(program, &self.scratch, text, cancel).await?,
            None => {
                let model = self.client.models().for_role("text_to_speech");
                let model = model.ok_or(
                    "nobody speaks here ([routing] text_to_speech or [media] speak in agent.toml)",
                )?;
                let purpose = Purpose::new(run_id, session_id, "text_to_speech", of_others);
                let asked = self.client.speak(purpose, &model.name, text);
                let asked = cancel.run_until_cancelled(asked).await;
                asked
                    .ok_or("it was stopped")?
                    .map_err(|error| error.to_string())?
            }
        };
        let ending = ending(&sound).ok_or("what came is no OGG, MP3 or M4A")?;
        Ok((sound, ending))
    }
}

/// Returns the ending of a recording that can be a voice message.
fn ending(bytes: &[u8]) -> Option<&'static str> {
    sound_ending(bytes).filter(|ending| matches!(*ending, "ogg" | "mp3" | "m4a"))
}

async fn run(
    program: &Program,
    scratch: &Path,
    text: &str,
    cancel: &CancellationToken,
) -> Result<Vec<u8>, String> {
    let (parent, words) = (scratch.to_owned(), text.to_owned());
    let made = crate::sys::blocking(move || {
        let room = ScratchDir::make(&parent, "voice").map_err(|error| error.to_string())?;
        let text = room.path().join("text");
        atomic::write(&text, words.as_bytes(), atomic::Durability::Rename)
            .map_err(|error| error.to_string())?;
        Ok::<_, String>(room)
    });
    let room = made
        .await
        .map_err(|why| format!("there is no place to speak: {why}"))?;
    let dir = room.path();
    let (text, out) = (dir.join("text"), dir.join("out"));
    let words = program.words(&[("{text}", &text), ("{out}", &out)]);
    let command = format!("exec {words} 2>&1");
    let mut spec = program.spec(command, dir, TIMEOUT, MAX_OUTPUT);
    spec.writable.push(dir.to_owned());
    let program = program.name();
    let ended = sandbox::run(spec, cancel.clone(), &|_| {}).await;
    let outcome = ended.map_err(|error| format!("`{program}` was not run: {error}"))?;
    if outcome.status != Status::Exited(0) {
        let said = crate::text::shorten(outcome.output.trim(), 300);
        return Err(format!("`{program}` failed: {said}"));
    }
    let sound = crate::sys::blocking(move || {
        let root = Root::open(room.path()).map_err(|error| error.to_string())?;
        let read = root.read(Path::new("out"), MAX_SOUND);
        drop(room);
        read.map_err(|error| error.to_string())
    });
    sound
        .await
        .map_err(|why| format!("`{program}` left no recording: {why}"))
}

pub(super) struct Tts(pub(super) Arc<Needs>);

#[derive(Deserialize, JsonSchema)]
pub(super) struct TtsArgs {
    text: String,
}

impl TypedTool for Tts {
    type Args = TtsArgs;

    const ABOUT: About = About {
        name: "tts",
        description: "Speak a text: it is sent into this chat as a voice message. You still answer, unless you use silent.",
        properties: &[Property::Rare],
    };

    /// It costs money, and who is in the chat hears it.
    fn reach(&self, _args: &TtsArgs, _context: &Context) -> Reach {
        Reach::Shows
    }

    async fn run(&self, args: TtsArgs, context: &Context) -> ToolOutput {
        let Some(speaker) = &self.0.speaker else {
            return ToolOutput::error("nobody speaks here");
        };
        let of = (context.run_id.as_str(), context.session_id.as_str());
        let (text, of_others) = (args.text.trim(), context.of_others);
        let spoken = speaker.speak(text, of, of_others, &context.cancel).await;
        let (sound, ending) = match spoken {
            Ok(spoken) => spoken,
            Err(why) => return ToolOutput::error(why),
        };
        let name = format!("outbox/voice-{}.{ending}", uuid::Uuid::now_v7().simple());
        let (root, path) = (self.0.root.clone(), PathBuf::from(&name));
        let kept = crate::sys::blocking(move || {
            root.write_atomic(&path, &sound)
                .map_err(|error| error.to_string())
        });
        if let Err(why) = kept.await {
            return ToolOutput::error(format!("the recording cannot be kept: {why}"));
        }
        send_file(&self.0, PathBuf::from(name), context)
            .await
            .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sound_is_sent() {
        let endings = [
            b"OggS\0".as_slice(),
            b"ID3\x04",
            b"\xff\xfb\x90",
            b"\0\0\0\x20ftypM4A ",
            b"RIFF",
            b"",
        ];
        assert_eq!(
            endings.map(ending),
            [
                Some("ogg"),
                Some("mp3"),
                Some("mp3"),
                Some("m4a"),
                None,
                None
            ]
        );
    }
}

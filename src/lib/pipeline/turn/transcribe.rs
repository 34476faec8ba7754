//! Transcribes recordings: by a program on this machine, or else by the model of `routing.speech_to_text`.
//!
//! The program is the owner's and the recording is anybody's: it runs without network in a directory
//! of its own next to the recording, `words-ID`, which goes when it ends:
//!
//! ```text
//! words-ID/audio.ogg   a copy, its ending told by its bytes; the program cannot change it
//! words-ID/stderr      what the program said about itself
//! ```

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::llm::{Purpose, Unavailable};
use crate::media::sound_ending;
use crate::pipeline::Live;
use crate::provider::transcription::{MAX_BYTES, Recording};
use crate::sandbox;
use crate::sandbox::{Program, Root, Status};
use crate::sys::{ScratchDir, atomic, blocking};
use crate::text;

/// How long the program may take.
const TIMEOUT: Duration = Duration::from_secs(300);
/// What is kept of its words; a message has room for 30,000 characters of them.
const MAX_WORDS: usize = 256 << 10;
/// What is read of its complaints.
const MAX_COMPLAINTS: u64 = 1 << 20;
/// Characters of a reason.
const MAX_REASON: usize = 300;
/// Where its complaints stand, in its directory.
const COMPLAINTS: &str = "stderr";

/// Why the words of a recording are not known.
#[derive(Debug)]
pub(crate) enum Unheard {
    /// The model that listens is away; the same call may succeed later.
    Unavailable(Waits),
    /// In words for the model and the person.
    Failed(String),
}

/// That a turn waits for a model other than the one that answers.
#[derive(Debug)]
pub(crate) struct Waits {
    pub(crate) model: String,
    pub(crate) away: Unavailable,
}

impl From<String> for Unheard {
    fn from(why: String) -> Self {
        Self::Failed(why)
    }
}

impl std::fmt::Display for Unheard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Unavailable(waits) => &waits.away.detail,
            Self::Failed(why) => why,
        })
    }
}

/// Returns what is said in the recording at `path`, which plays `seconds` when somebody knows; or why
/// that is not known.
pub(crate) async fn words(
    live: &Live,
    purpose: Purpose<'_>,
    path: &Path,
    seconds: Option<u32>,
    cancel: &CancellationToken,
) -> Result<String, Unheard> {
    let words = match &live.listener {
        Some(program) => listen(program, path, cancel).await?,
        None => {
            let asked = ask_once(live, purpose, path, seconds);
            cancel
                .run_until_cancelled(asked)
                .await
                .unwrap_or_else(|| Err("it was stopped".to_owned().into()))?
        }
    };
    if words.is_empty() {
        Err("nothing was understood".to_owned().into())
    } else {
        Ok(words)
    }
}

/// Asks as [`ask`] does, unless an earlier try of the turn was answered: its words lie beside the recording, and go with it.
async fn ask_once(
    live: &Live,
    purpose: Purpose<'_>,
    path: &Path,
    seconds: Option<u32>,
) -> Result<String, Unheard> {
    let kept = PathBuf::from(format!("{}.words", path.display()));
    let there = kept.clone();
    if let Ok(words) = blocking(move || std::fs::read_to_string(there)).await {
        return Ok(words);
    }
    let words = ask(live, purpose, path, seconds).await?;
    let bytes = words.clone().into_bytes();
    let written = blocking(move || atomic::write(&kept, &bytes, atomic::Durability::Rename)).await;
    if let Err(error) = written {
        tracing::warn!(%error, "what was heard is not kept: another try of the turn pays for it again");
    }
    Ok(words)
}

async fn ask(
    live: &Live,
    purpose: Purpose<'_>,
    path: &Path,
    seconds: Option<u32>,
) -> Result<String, Unheard> {
    let client = live.agent.client();
    let Some(model) = client.models().for_role("speech_to_text") else {
        return Err(
            "no speech_to_text model is configured ([routing] speech_to_text in agent.toml)"
                .to_owned()
                .into(),
        );
    };
    let path = path.to_owned();
    let bytes = blocking(move || whole(&path)).await?;
    let filename = file_name(&bytes);
    let recording = Recording {
        bytes: &bytes,
        filename: &filename,
    };
    let heard = client.transcribe(purpose, &model.name, recording, seconds);
    heard.await.map_err(|error| match error.away() {
        Ok(away) => Unheard::Unavailable(Waits {
            model: model.name.clone(),
            away,
        }),
        Err(error) => Unheard::Failed(error.to_string()),
    })
}

/// Returns the bytes of a file that is not too large to be sent.
fn whole(path: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    match read {
        Err(error) => Err(format!("the recording cannot be read: {error}")),
        Ok(0) => Err("the recording is empty".to_owned()),
        Ok(size) if size as u64 > MAX_BYTES => Err(format!(
            "the recording is larger than {} MB, which is the most that is listened to",
            MAX_BYTES >> 20
        )),
        Ok(_) => Ok(bytes),
    }
}

/// Returns what a recording is called, by its bytes: names are anybody's and often have none. Telegram's voices are OGG.
fn file_name(bytes: &[u8]) -> String {
    format!("audio.{}", sound_ending(bytes).unwrap_or("ogg"))
}

/// Runs the program and returns what it wrote, without space around it.
async fn listen(
    program: &Program,
    path: &Path,
    cancel: &CancellationToken,
) -> Result<String, String> {
    let from = path.to_owned();
    let room = blocking(move || Room::make(&from)).await?;
    let words = program.words(&[("{file}", &room.audio)]);
    let command = format!("exec {words} 2>{COMPLAINTS}");
    let mut spec = program.spec(command, room.dir.path(), TIMEOUT, MAX_WORDS);
    spec.read_only.push(room.audio.clone());
    let ended = sandbox::run(spec, cancel.clone(), &|_| {}).await;
    let outcome = ended.map_err(|error| format!("`{}` was not run: {error}", program.name()))?;
    let complaint = blocking(move || room.complaint()).await;
    let failed = |how: String| match &complaint {
        Some(complaint) => Err(complaint.clone()),
        None => Err(format!("`{}` {how}", program.name())),
    };
    match outcome.status {
        Status::Exited(0) => Ok(outcome.output.trim().to_owned()),
        Status::Exited(code) => failed(format!("failed with exit code {code}")),
        Status::Signaled(signal) => failed(format!("was killed by signal {signal}")),
        Status::OutOfMemory => Err("the program held too much memory".to_owned()),
        Status::TimedOut => Err(format!(
            "`{}` took longer than {} s",
            program.name(),
            TIMEOUT.as_secs()
        )),
        Status::DiskFull => Err("the disk is nearly full".to_owned()),
        Status::Cancelled => Err("it was stopped".to_owned()),
    }
}

/// The program's directory; gone with what it left there when dropped.
struct Room {
    dir: ScratchDir,
    audio: PathBuf,
}

impl Room {
    fn make(recording: &Path) -> Result<Self, String> {
        let unread = |error: std::io::Error| format!("the recording cannot be read: {error}");
        let unmade = |error: std::io::Error| format!("there is no place to listen to it: {error}");
        let mut from = File::open(recording).map_err(unread)?;
        let mut head = Vec::new();
        from.by_ref()
            .take(16)
            .read_to_end(&mut head)
            .map_err(unread)?;
        if head.is_empty() {
            return Err("the recording is empty".to_owned());
        }
        let dir =
            ScratchDir::make(recording.parent().unwrap_or(recording), "words").map_err(unmade)?;
        let room = Self {
            audio: dir.path().join(file_name(&head)),
            dir,
        };
        let mut to = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o400)
            .open(&room.audio)
            .map_err(unmade)?;
        std::io::copy(&mut head.chain(from), &mut to).map_err(unmade)?;
        Ok(room)
    }

    /// Returns the last line that says something. The program may have put a link there.
    fn complaint(&self) -> Option<String> {
        let bytes = Root::open(self.dir.path())
            .ok()?
            .read(Path::new(COMPLAINTS), MAX_COMPLAINTS)
            .ok()?;
        let said = String::from_utf8_lossy(&bytes);
        let last = said
            .lines()
            .rev()
            .map(|line| text::visible(line.trim()))
            .find(|line| !line.is_empty())?;
        Some(text::shorten(&crate::secret::redact(&last), MAX_REASON))
    }
}

//! Titles of conversations: the first words of a person in each. They are read once.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::path::Path;

use parking_lot::Mutex;
use serde::Serialize;

use super::sessions::{Session, Sessions};
use crate::app::cli::Failure;
use crate::config::Home;
use crate::message::{Block, Role};
use crate::session;
use crate::session::{Event, Kind};
use crate::sys::jsonl;
use crate::text;

/// Characters of a title.
const LONGEST: usize = 80;
/// Lines that are looked through for one.
const LINES: usize = 50;

/// The titles that are known, by session id.
#[derive(Debug, Default)]
pub(crate) struct Titles(Mutex<HashMap<String, String>>);

/// `sessions`, each with its title.
#[derive(Debug, Serialize)]
pub(crate) struct TitledSessions {
    sessions: Vec<Titled>,
}

#[derive(Debug, Serialize)]
struct Titled {
    #[serde(flatten)]
    session: Session,
    /// `null` where nobody has spoken yet.
    title: Option<String>,
}

impl Titles {
    /// Returns the sessions with their titles.
    pub(crate) fn of(&self, home: &Home, sessions: Sessions) -> Result<TitledSessions, Failure> {
        let mut known = self.0.lock();
        let is_known = |session: &Session| known.contains_key(&session.session_id);
        if !sessions.sessions.iter().all(is_known) {
            let files = session::all_transcripts(&home.sessions(), &home.archive())?;
            for Session { session_id, .. } in &sessions.sessions {
                let first = files.get(session_id).and_then(|files| files.first());
                if !known.contains_key(session_id)
                    && let Some(title) = first.and_then(|file| title(file))
                {
                    known.insert(session_id.clone(), title);
                }
            }
        }
        let titled = |session: Session| Titled {
            title: known.get(&session.session_id).cloned(),
            session,
        };
        Ok(TitledSessions {
            sessions: sessions.sessions.into_iter().map(titled).collect(),
        })
    }
}

fn title(file: &Path) -> Option<String> {
    let mut left = LINES;
    let flow = jsonl::try_for_each_line(file, 0, |line, _| {
        left -= 1;
        match said(line) {
            Some(words) => ControlFlow::Break(Some(words)),
            None if left == 0 => ControlFlow::Break(None),
            None => ControlFlow::Continue(()),
        }
    });
    flow.ok()?.break_value().flatten()
}

/// Returns the words of a person in a line.
fn said(line: &[u8]) -> Option<String> {
    let Kind::Message(spoken) = serde_json::from_slice::<Event>(line).ok()?.kind else {
        return None;
    };
    let is_persons = spoken.role == Role::User && spoken.inbox_id.is_some();
    let words = spoken.content.iter().filter(|_| is_persons);
    let mut lines = words
        .filter_map(Block::words)
        .flat_map(str::lines)
        .map(str::trim);
    let words = lines.find(|line| !line.is_empty())?;
    Some(text::shorten(words, LONGEST))
}

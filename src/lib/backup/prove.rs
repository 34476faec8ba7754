//! Proves that a restored agent works: opens all its data, and asks its memory a question that it must be able to answer.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;

use super::Error;
use crate::config::{Environment, Home};
use crate::db::Health;
use crate::memory::index::{Mode, Place, Query};
use crate::memory::{embedder, facts, index};
use crate::people::People;
use crate::{config, cost, jobs, queue, session, sys, text};

/// A database is read for as long as it takes.
const PATIENCE: Duration = Duration::from_secs(24 * 3600);
/// The most questions that are tried until one is answered.
const QUESTIONS: usize = 20;
/// Of a question, characters.
const QUESTION: usize = 120;

/// What was found.
#[derive(Debug, Default)]
pub struct Proof {
    /// What was opened, a line each.
    pub opened: Vec<String>,
    /// The question and the place of the answer; `None` when nothing is remembered yet.
    pub answer: Option<(String, String)>,
    /// What was wrong before the backup was made: settings that cannot be used, lines of a transcript that cannot be read.
    pub warnings: Vec<String>,
}

/// Opens everything in a restored home and searches its memory.
///
/// # Errors
/// [`Error::Unproved`] for the first thing that is not whole.
pub fn prove(home: &Home, env: &Environment) -> Result<Proof, Error> {
    let mut proof = open_all(home, env)?;
    proof.answer = ask(home, env)?;
    Ok(proof)
}

/// Opens everything in a copy of a home.
///
/// # Errors
/// [`Error::Unproved`] for the first thing that is not whole.
pub fn open_all(home: &Home, env: &Environment) -> Result<Proof, Error> {
    let mut proof = Proof::default();
    let databases = [
        ("queue.db", queue::examine(&home.queue_db(), PATIENCE)?),
        ("cost.db", cost::examine(&home.cost_db(), PATIENCE)?),
        (
            "memory.db",
            facts::examine(&facts::database(home), PATIENCE)?,
        ),
    ];
    for (name, health) in databases {
        match health {
            Health::Sound => proof.opened.push(format!("state/{name}: whole")),
            Health::Empty => {}
            Health::Damaged(_) | Health::Unfinished => {
                return Err(Error::Unproved(format!("state/{name} is damaged")));
            }
        }
    }
    let conversations = conversations(home, &mut proof.warnings)?;
    proof.opened.push(format!(
        "state/sessions: {}",
        text::counted(conversations, "conversation")
    ));
    let jobs = jobs::read(&home.jobs())?;
    proof.opened.push(format!(
        "state/cron/jobs.json: {} jobs",
        jobs.iter().count()
    ));
    People::read(&home.people())?;
    proof.warnings.extend(
        config::load_config(home, env)
            .err()
            .map(|error| error.to_string()),
    );
    Ok(proof)
}

/// Reads every transcript and returns how many conversations there are.
fn conversations(home: &Home, warnings: &mut Vec<String>) -> Result<usize, Error> {
    let all = session::all_transcripts(&home.sessions(), &home.archive())?;
    for path in all.values().flatten() {
        for (line, bytes) in (1..).zip(lines(path)?) {
            if serde_json::from_slice::<Value>(&bytes).is_err() {
                warnings.push(format!("{}:{line} cannot be read", home.display(path)));
            }
        }
    }
    Ok(all.len())
}

fn lines(path: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let bytes = sys::atomic::read(path)?.unwrap_or_default();
    let lines = bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    Ok(lines.map(<[u8]>::to_vec).collect())
}

/// Makes the index and asks for something that is in a file; returns the question and where it was found.
fn ask(home: &Home, env: &Environment) -> Result<Option<(String, String)>, Error> {
    let place = Place::of(home).with(embedder::opener(home, env, None));
    index::sync(&place, Mode::default(), &mut |_| {})?;
    if index::status(&place)?.chunks == 0 {
        return Ok(None);
    }
    for (path, question) in questions(home)?.into_iter().take(QUESTIONS) {
        let found = index::search(&place, &Query::new(question.clone()))?;
        if found.hits.iter().any(|hit| hit.path == path) {
            return Ok(Some((question, path)));
        }
    }
    // What is indexed may be facts alone, which have no file of their own.
    let known = facts_words(home)?;
    for question in known.into_iter().take(QUESTIONS) {
        if let Some(hit) = index::search(&place, &Query::new(question.clone()))?
            .hits
            .first()
        {
            return Ok(Some((question, hit.path.clone())));
        }
    }
    Err(Error::Unproved(
        "its memory does not find the content of its files".to_owned(),
    ))
}

/// Returns what to ask for, the newest files first: the printed path of a file, and a line of it.
fn questions(home: &Home) -> Result<Vec<(String, String)>, Error> {
    let mut files = vec![home.workspace().join("MEMORY.md")];
    notes(&home.workspace().join("memory"), &mut files);
    files.extend(
        session::all_transcripts(&home.archive(), &home.archive())?
            .into_values()
            .flatten(),
    );
    files.sort_by_key(|path| std::cmp::Reverse(sys::modified_at(path)));
    let asked = files.into_iter().filter_map(|path| {
        let lines = without_head(lines(&path).ok()?);
        let said = lines.iter().filter_map(|line| said(&path, line));
        let longest = said.max_by_key(String::len)?;
        let is_enough = longest.split_whitespace().count() >= 3;
        let question = text::head(&longest, QUESTION).to_owned();
        is_enough.then(|| (home.display(&path), question))
    });
    Ok(asked.collect())
}

/// Returns the lines behind the YAML between two `---` at the head of a note, which is not searched.
fn without_head(mut lines: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    let is_mark = |line: &Vec<u8>| line.trim_ascii() == b"---";
    if lines.first().is_some_and(is_mark)
        && let Some(end) = lines.iter().skip(1).position(is_mark)
    {
        lines.drain(..end + 2);
    }
    lines
}

/// Returns what a line says to a person.
fn said(path: &Path, line: &[u8]) -> Option<String> {
    let line = std::str::from_utf8(line).ok()?;
    if path.extension().is_some_and(|end| end == "md") {
        let is_prose =
            line.starts_with(|c: char| c.is_alphanumeric() || c == '-') && !line.starts_with("---");
        return is_prose.then(|| line.trim_start_matches(['-', ' ']).to_owned());
    }
    let event: Value = serde_json::from_str(line).ok()?;
    if event["role"] != "user" {
        return None;
    }
    let text = event["content"]
        .as_array()?
        .iter()
        .find_map(|block| block["text"].as_str())?;
    text.lines()
        .map(without_marks)
        .max_by_key(|line| line.len())
        .map(str::to_owned)
}

/// Returns the words behind what the daemon set before them in `⟦…⟧`, such as the time.
fn without_marks(mut line: &str) -> &str {
    while let Some((_, rest)) = line
        .trim_start()
        .strip_prefix('⟦')
        .and_then(|mark| mark.split_once('⟧'))
    {
        line = rest;
    }
    line.trim()
}

/// Adds the Markdown files below `dir`; what cannot be read has been restored by nobody.
fn notes(dir: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => notes(&path, files),
            Ok(kind) if kind.is_file() && path.extension().is_some_and(|end| end == "md") => {
                files.push(path)
            }
            _ => {}
        }
    }
}

fn facts_words(home: &Home) -> Result<Vec<String>, Error> {
    let filter = facts::Filter::default();
    let known = facts::list(&facts::database(home), &filter)
        .map_err(|error| Error::Unproved(error.to_string()))?;
    Ok(known.iter().map(facts::Fact::words).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_message_is_no_question() {
        for (line, words) in [
            ("⟦Sunday, 2026-11-29 02:30 UTC⟧", ""),
            (
                "⟦Sunday⟧ ⟦voice⟧ the boat lies in Lisbon",
                "the boat lies in Lisbon",
            ),
            ("the boat ⟦photo⟧", "the boat ⟦photo⟧"),
            ("⟦torn", "⟦torn"),
        ] {
            assert_eq!(without_marks(line), words);
        }
    }

    #[test]
    fn the_head_of_a_note_is_no_question() {
        let lines = |text: &str| -> Vec<Vec<u8>> {
            text.lines().map(|line| line.as_bytes().to_vec()).collect()
        };
        assert_eq!(without_head(lines("---\nid: x\n---\nAna")), lines("Ana"));
        assert_eq!(without_head(lines("Ana\n---")), lines("Ana\n---"));
        assert_eq!(without_head(lines("---\nAna")), lines("---\nAna"));
    }
}

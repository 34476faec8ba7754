//! What must hold after a run, whatever failed in it.

use std::{collections::BTreeMap, fs};

use rusqlite::types::Value as Sql;
use serde_json::Value;

use super::story::{Said, Story};
use crate::support::{Sent, files_below};

const RESENT: &str = "(resent)";
const MAYBE: &str = "may or may not have happened";
/// How a command is answered that did not even begin.
const NOT_RUN: &str = "the command was not run";
/// How a person hears of a turn that failed.
const SORRY: &str = "Sorry, something went wrong";

/// What is wrong with a run, and what was seen in it.
#[derive(Default)]
pub(super) struct Verdict {
    pub(super) wrong: Vec<String>,
    /// What befell people: an apology, a marked copy.
    pub(super) seen: Vec<String>,
    /// The calls of the disk.
    pub(super) log: String,
}

impl Verdict {
    pub(super) fn of(story: &Story, said: &Said, wrong: Vec<String>, log: String) -> Self {
        let mut verdict = Self {
            wrong,
            seen: Vec::new(),
            log,
        };
        verdict.inbox(story);
        verdict.answers(story, said);
        verdict.tools(story);
        verdict.transcripts(story);
        verdict.databases(story);
        verdict.files(story);
        verdict.record(story);
        if !verdict.wrong.is_empty() {
            let hit = verdict
                .log
                .lines()
                .filter(|line| line.ends_with("<-"))
                .take(3)
                .collect::<Vec<_>>()
                .join(", ");
            verdict.wrong.push(format!("  hit: {hit}"));
        }
        verdict
    }

    fn wrong(&mut self, what: String) {
        self.wrong.push(what);
    }

    /// Notes an answer that is an apology: right when the disk failed, wrong when nothing did.
    fn apology(&mut self, story: &Story, whose: &str, text: &str) {
        if text.contains(MAYBE) {
            self.seen.push("may or may not have happened".to_owned());
            if !story.trouble.kills() && !story.trouble.lasting {
                self.wrong(format!("{whose} was answered {text:?} though nobody died"));
            }
        } else {
            let reason = text.split("\n\n").last().unwrap_or_default();
            let reason: String = reason
                .split(['/', ':'])
                .next()
                .unwrap_or_default()
                .to_owned();
            self.seen.push(format!("sorry {reason}"));
            if story.trouble.is_harmless() || story.trouble.kills() {
                self.wrong(format!(
                    "{whose} was answered {text:?} though no disk failed"
                ));
            }
        }
    }

    fn inbox(&mut self, story: &Story) {
        let rows = story.sandbox.query(
            "queue",
            "SELECT id, state, reason FROM inbox WHERE state != 'done'",
        );
        if !rows.is_empty() {
            self.wrong(format!("not done: {rows:?}"));
        }
    }

    fn answers(&mut self, story: &Story, said: &Said) {
        let places = said.places();
        let leaders = story.sandbox.query(
            "queue",
            "SELECT envelope ->> '$.route.chat', envelope ->> '$.reply_to', (SELECT coalesce(max(unknowns), 0) FROM outbox WHERE inbox_id = inbox.id)
             FROM inbox WHERE source_is_chat AND seq IN (SELECT min(seq) FROM inbox GROUP BY run_id)"
                .replace("source_is_chat", "envelope ->> '$.source' = 'telegram'")
                .as_str(),
        );
        let mut by_place: BTreeMap<(i64, i64), Vec<Sent>> = BTreeMap::new();
        let mut files = Vec::new();
        for sent in story.telegram.sent() {
            match sent
                .reply_to
                .filter(|id| places.contains(&(sent.chat, *id)))
            {
                Some(id) => by_place.entry((sent.chat, id)).or_default().push(sent),
                None if !sent.files.is_empty() => files.push(sent),
                None if sent.text.contains("may not have reached you") => {
                    self.seen.push("told of a dead letter".to_owned())
                }
                // What is waited for, or what a slow turn does; it goes when the answer comes.
                None if !story.telegram.shown(sent.chat).contains(&sent.text) => {}
                // Where the disk failed its number may not have been kept: then it stays.
                None if sent.text.starts_with("⏳ ") => {
                    self.seen.push("a notice of waiting stayed".to_owned())
                }
                None => self.wrong(format!("it answers nothing: {sent:?}")),
            }
        }
        let turns = leaders.len();
        if story.trouble.is_harmless() && turns != 4 {
            self.wrong(format!(
                "{turns} turns instead of 4: what belongs together was torn apart"
            ));
        }
        for (place, sents) in &by_place {
            let unknowns = leaders
                .iter()
                .find(|row| row[..2] == [place.0, place.1].map(|id| Sql::Text(id.to_string())))
                .map(|row| row[2].clone());
            let Some(unknowns) = unknowns else {
                self.wrong(format!("{place:?} was answered beside its run: {sents:?}"));
                continue;
            };
            self.once(
                story,
                &format!("{place:?}"),
                sents,
                unknowns != Sql::Integer(0),
            );
            let text = &sents[0].text;
            let right = match place.1 {
                id if (place.0, id) == (1001, said.alpha) => {
                    text.contains("result:") && text.contains("alpha.txt")
                }
                id if place.0 == 1002 && said.beta.contains(&id) => text.contains("echo: beta"),
                _ => text.contains("echo:"),
            };
            if !right || text.contains(MAYBE) || text.contains(SORRY) {
                self.apology(story, &format!("{place:?}"), text);
                if !text.contains(MAYBE) && !text.contains(SORRY) {
                    self.wrong(format!("{place:?} was answered {text:?}"));
                }
            }
        }
        if by_place.len() != turns {
            self.wrong(format!("{turns} turns, {} answers", by_place.len()));
        }
        self.commands(story, &files);
    }

    fn once(&mut self, story: &Story, whose: &str, sents: &[Sent], may_be_marked: bool) {
        let marked = sents
            .iter()
            .filter(|sent| sent.text.starts_with(RESENT))
            .count();
        if sents.len() - marked > 1 {
            self.wrong(format!(
                "{whose} came {} times without a mark",
                sents.len() - marked
            ));
        }
        if marked > 0 {
            self.seen.push("resent".to_owned());
            if !may_be_marked || !story.trouble.breaks_sends() {
                self.wrong(format!("{whose} is marked though no send broke off"));
            }
        }
    }

    /// Whatever failed, nobody has touched the audit log.
    fn record(&mut self, story: &Story) {
        let told = story.sandbox.send(&["--log", "--verify"]);
        if told.code != 0 {
            self.wrong(format!("the audit log: {told:?}"));
        }
    }

    fn commands(&mut self, story: &Story, files: &[Sent]) {
        let reply = |id: &str| {
            story
                .sandbox
                .read_json(&format!("state/replies/{id}.json"))
                .unwrap_or_default()
        };
        let (gamma, delta) = (reply("gamma"), reply("delta"));
        if gamma["status"] == "error" {
            self.apology(story, "gamma", gamma["error"].as_str().unwrap_or_default());
        } else if gamma["reply"]
            .as_str()
            .is_some_and(|text| text.contains(MAYBE))
        {
            self.apology(story, "gamma", MAYBE);
        } else if !gamma["reply"].as_str().is_some_and(|text| {
            text.contains("gamma")
                || (story.trouble.keeps_from_starting() && text.contains(NOT_RUN))
        }) {
            self.wrong(format!("gamma was answered {gamma}"));
        }
        if delta["status"] == "error" {
            self.apology(story, "delta", delta["error"].as_str().unwrap_or_default());
        } else if files.is_empty() {
            self.wrong(format!("the file of delta never came: {delta}"));
        }
        let unknowns = story.sandbox.query(
            "queue",
            "SELECT coalesce(max(unknowns), 0) FROM outbox WHERE inbox_id = 'delta'",
        );
        self.once(story, "delta", files, unknowns != [[Sql::Integer(0)]]);
        for sent in files {
            if sent.files[0].bytes != b"delta" || !sent.text.ends_with("delta") {
                self.wrong(format!("delta came as {sent:?}"));
            }
        }
    }

    /// A tool ran at most once, and not unseen.
    fn tools(&mut self, story: &Story) {
        let ran = story.sandbox.read("workspace/ran.log").unwrap_or_default();
        let reply = story
            .sandbox
            .read_json("state/replies/gamma.json")
            .unwrap_or_default();
        let told = reply["status"] == "error"
            || reply["reply"]
                .as_str()
                .is_some_and(|text| text.contains(MAYBE) || text.contains(NOT_RUN));
        if ran != "gamma\n" && !(ran.is_empty() && told) {
            self.wrong(format!("the command left {ran:?}, its answer is {reply}"));
        }
    }

    fn transcripts(&mut self, story: &Story) {
        let mut all = Vec::new();
        for path in files_below(&story.sandbox.path("state/sessions")) {
            if path
                .extension()
                .is_none_or(|extension| extension != "jsonl")
            {
                continue;
            }
            let text = fs::read_to_string(&path).unwrap_or_default();
            if !text.is_empty() && !text.ends_with('\n') {
                self.wrong(format!("{} has a torn end", path.display()));
            }
            for (number, line) in (1_i64..).zip(text.lines()) {
                match serde_json::from_str::<Value>(line) {
                    Ok(event) if event["seq"] == number => all.push(event),
                    Ok(event) => self.wrong(format!(
                        "line {number} of {} is event {}",
                        path.display(),
                        event["seq"]
                    )),
                    Err(why) => self.wrong(format!(
                        "line {number} of {}: {why}: {line}",
                        path.display()
                    )),
                }
            }
        }
        let said = |event: &&Value| {
            event["type"] == "message" && event["role"] == "user" && event["inbox_id"].is_string()
        };
        let mut by_input: BTreeMap<String, usize> = BTreeMap::new();
        for event in all.iter().filter(said) {
            *by_input.entry(event["inbox_id"].to_string()).or_default() += 1;
        }
        for (id, count) in by_input.iter().filter(|(_, count)| **count > 1) {
            self.wrong(format!("{id} stands {count} times in its transcript"));
        }
        if by_input.is_empty() {
            self.wrong(format!("no transcript has a message: {:?}", all.first()));
        }
        let text = |word: &str| {
            all.iter()
                .filter(said)
                .filter(|event| event.to_string().contains(word))
                .count()
        };
        for word in [
            "beta1",
            "beta2",
            "overheard",
            "epsilon one",
            "epsilon two",
            "zeta",
        ] {
            let count = text(word);
            if count > 1 || (count == 0 && story.trouble.is_harmless()) {
                self.wrong(format!("{word} was read {count} times"));
            }
        }
    }

    fn databases(&mut self, story: &Story) {
        for name in ["queue", "cost", "memory", "index"] {
            if story.sandbox.path(&format!("state/{name}.db")).exists() {
                let found = story.sandbox.query(name, "PRAGMA integrity_check");
                if found != [[Sql::Text("ok".to_owned())]] {
                    self.wrong(format!("{name}.db: {found:?}"));
                }
            }
        }
        let open = story.sandbox.query("queue", "SELECT count(*) FROM shown");
        if open != [[Sql::Integer(0)]] {
            self.wrong(format!("{open:?} messages are shown for ever"));
        }
    }

    /// Nothing is left lying about, and what is there can be read.
    fn files(&mut self, story: &Story) {
        for path in files_below(&story.sandbox.home()) {
            let name = path
                .file_name()
                .expect("a file")
                .to_string_lossy()
                .into_owned();
            let litter =
                name.contains(".tmp-") || name.ends_with(".part") || name.contains(".corrupt-");
            // What could not be removed goes with its directory, or when nobody can be writing it any more.
            let excused =
                !name.contains(".corrupt-") && (story.trouble.kills() || story.trouble.lasting);
            if litter && !excused {
                self.wrong(format!("{} lies about", path.display()));
            }
            if name.ends_with(".json") {
                let bytes = fs::read(&path).unwrap_or_default();
                if let Err(why) = serde_json::from_slice::<Value>(&bytes) {
                    self.wrong(format!("{}: {why}", path.display()));
                }
            }
        }
        let spool = files_below(&story.sandbox.path("state/spool"));
        if !spool.is_empty() {
            self.wrong(format!("in the spool: {spool:?}"));
        }
    }
}

//! The agent's memory.
//!
//! ```text
//! workspace/MEMORY.md, memory/**/*.md, transcripts   the authoritative data: plain files
//!   → extract/, consolidate/ → facts/   state/memory.db, the facts that they state, with their places
//!   → index/        state/index.db, the search over all this; may be deleted at any time
//! ```
//! Every memory has a [`Scope`], and a turn sees only those of its [`Viewer`]. [`Memory`] is the daemon's handle.

pub mod collections;
pub(crate) mod consolidate;
pub mod embedder;
pub mod extract;
pub(crate) mod facts;
pub mod index;
pub mod items;
pub mod person_profile;
pub mod recall;
mod scope;
mod session_prefix;
pub mod show_lines;
mod sources;

pub use scope::{JOINED, MAIN, Scope, Viewer};

use parking_lot::{Mutex, RwLock};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use collections::Collections;
use consolidate::{Means, Options};
use facts::commitments;
use facts::commitments::{Change, Commitment};
use index::{Filter, Found, Place, Query, Searcher, Source};
use person_profile::{Known, Partner};
use recall::{Recall, Recalled, Relevant, Request};

use crate::config;
use crate::config::{Home, Secrets};
use crate::embedding::Opener;
use crate::llm::Client;
use crate::message::{Role, Trust};
use crate::session::{Kind, Spoken};
use crate::sys::DirWatch;
use crate::trust::untrusted_files::{Marking, Marks};

/// The configured name of the provider without a model. What it says are quotations and phrases of its
/// own: found again, they would be taken for knowledge.
const WITHOUT_MODEL: &str = "offline";

/// Returns true for the call with which an order to remember becomes a note where no model has a part:
/// the whole message is the note then, and who corrects the note has corrected it.
fn keeps_a_note(spoken: &Spoken) -> bool {
    spoken.model.as_deref() == Some(WITHOUT_MODEL)
        && spoken.tool_calls().any(|call| call.name == "memory_write")
}

/// Returns true for a call that makes a job, however the tool is reached.
fn makes_a_job(name: &str, input: &serde_json::Value) -> bool {
    match name {
        "schedule_message" => input["cancel_id"].as_str().is_none_or(str::is_empty),
        "cron" => input["op"] == "add",
        "more_tools" => {
            let inner = input["name"].as_str().unwrap_or_default();
            inner != name && makes_a_job(inner, &input["input"])
        }
        _ => false,
    }
}

/// Returns true for what the owner said.
fn is_the_owners(spoken: &Spoken) -> bool {
    spoken.role == Role::User && spoken.about.is_none() && spoken.trust == Some(Trust::Owner)
}

/// What becomes of the words of single runs, when a transcript is gone through.
#[derive(Debug, Default)]
struct Runs {
    /// Others' words are in them: what was said there is not the owner's.
    of_others: HashSet<String>,
    /// Somebody else's words were read in them: what the agent said there is not the owner's.
    read_others: HashSet<String>,
    /// They became a note, which says it, and may be corrected or deleted.
    noted: HashSet<String>,
    /// A job was made in them: what was asked for there is kept by it, and may be cancelled with it.
    scheduled: HashSet<String>,
    /// Calls that make a job, until they are answered.
    scheduling: HashSet<String>,
    /// Whether the owner spoke in any.
    owner_spoke: bool,
}

impl Runs {
    /// Takes in an event, in order.
    fn take(&mut self, kind: &Kind) {
        match kind {
            Kind::Message(spoken) => {
                self.owner_spoke |= is_the_owners(spoken);
                if spoken.trust == Some(Trust::Other) {
                    self.of_others.insert(spoken.run_id.clone());
                }
                if spoken.role == Role::Assistant && spoken.is_untrusted() {
                    self.read_others.insert(spoken.run_id.clone());
                }
                if keeps_a_note(spoken) {
                    self.noted.insert(spoken.run_id.clone());
                }
                let calls = spoken.tool_calls();
                let jobs = calls.filter(|call| makes_a_job(&call.name, &call.input));
                self.scheduling.extend(jobs.map(|call| call.id.clone()));
            }
            Kind::ToolResult { run_id, result, .. } => {
                if self.scheduling.remove(&result.id) && !result.is_error {
                    self.scheduled.insert(run_id.clone());
                }
                if result.from.is_some() {
                    self.read_others.insert(run_id.clone());
                }
                if result.is_error {
                    self.noted.remove(run_id);
                }
            }
            // Whose words they were, nobody knows any more: what is left of that run is taken for nobody's.
            Kind::Forgotten { run_id } => self.of_others.extend(run_id.clone()),
            Kind::Session(_)
            | Kind::Prompt(_)
            | Kind::ToolCall { .. }
            | Kind::Compaction(_)
            | Kind::Flush { .. }
            | Kind::Pin { .. }
            | Kind::Unpin { .. }
            | Kind::Setting { .. }
            | Kind::Error { .. }
            | Kind::Unknown => {}
        }
    }
}

/// How far a run over the memory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Files, or files and conversations, that were looked at.
    pub done: usize,
    /// All of them.
    pub total: usize,
}

/// Passages that are recalled at most, and the chunks that are looked at closely for them: people wait, and with
/// more hardly more is found (measured).
const RECALLED: usize = 5;
const CANDIDATES: usize = 50;
/// Characters of one at most: what is needed in full is read by its path.
const MAX_RECALLED: usize = 600;
/// Passages below this score are not recalled (specification §12).
const MIN_SCORE: f32 = 0.35;
/// A passage without any word of the message is recalled from this cosine on.
const ALONE: f32 = 0.6;
/// Rewritten texts whose original is kept.
const KEPT: usize = 256;
/// How long no model is asked to rewrite after one did not answer in time: people wait for it.
const PAUSE: Duration = Duration::from_secs(60);
/// What passages are recalled from: facts have lines of their own.
const RECALLED_FROM: [Source; 4] = [
    Source::Memory,
    Source::Session,
    Source::Item,
    Source::Summary,
];
/// Of the time in which others may have the index run, it runs one part and rests so many.
const SHARE_OF_OTHERS: u32 = 9;
/// Where notes are in the workspace.
const NOTES: &str = "memory";
/// Characters of a message that are searched for.
const MAX_QUERY: usize = 1_000;

/// What a model rewrote.
#[derive(Default)]
struct Rewritten {
    /// The newest texts, each with its original: by these a conversation knows what was recalled before.
    texts: VecDeque<(String, String)>,
    /// No model is asked before, because one did not answer in time.
    paused_until: Option<Instant>,
}

/// The memory of one agent, for a process that stays. All its work is blocking.
pub struct Memory {
    place: Place,
    searcher: Mutex<Searcher>,
    /// What many share, as the active settings name it.
    collections: RwLock<Arc<Collections>>,
    recall: Mutex<Recall>,
    rewritten: Mutex<Rewritten>,
    /// Which files rest on untrusted text.
    marks: Marks,
    wake: tokio::sync::Notify,
    /// Knows of notes that were written by hand.
    notes: Mutex<DirWatch>,
    /// Until when the index does not run again because of somebody who is not an owner.
    others: Mutex<Option<Instant>>,
    /// Files of which it was said that they are left out of the index.
    left_out: Mutex<HashSet<String>>,
}

impl Memory {
    /// Opens what makes the vectors of the index; `None` when the settings name nothing.
    ///
    /// # Errors
    /// See [`crate::embedding::Error`].
    pub fn embedder(&self) -> Result<Option<crate::embedding::Embedder>, crate::embedding::Error> {
        self.place.embedder()
    }

    /// Returns the memory of `home`; nothing of it need be there yet.
    pub fn new(home: &Home) -> Self {
        let place = Place::of(home);
        Self {
            searcher: Mutex::new(Searcher::new(&place)),
            collections: RwLock::new(Arc::new(Collections::none(&place))),
            place,
            recall: Mutex::new(Recall::new(home)),
            rewritten: Mutex::default(),
            marks: Marks::new(&home.untrusted()),
            wake: tokio::sync::Notify::new(),
            notes: Mutex::new(DirWatch::new(home.workspace(), NOTES)),
            others: Mutex::default(),
            left_out: Mutex::default(),
        }
    }

    /// Returns it with what makes vectors; without, it is searched by words alone.
    #[must_use]
    pub fn with(self, opener: Opener) -> Self {
        let place = self.place.with(opener);
        Self {
            searcher: Mutex::new(Searcher::new(&place)),
            place,
            ..self
        }
    }

    /// Returns whose memory it is.
    pub fn home(&self) -> &Home {
        self.place.home()
    }

    /// Searches these collections from now on, instead of those before. Nothing is connected yet.
    pub fn share(&self, settings: &BTreeMap<String, config::Collection>, secrets: &Secrets) {
        *self.collections.write() = Arc::new(Collections::new(settings, secrets, &self.place));
    }

    /// Returns what many share.
    pub fn collections(&self) -> Arc<Collections> {
        self.collections.read().clone()
    }

    /// Returns what `query` finds of what `viewer` may see; of scopes that it names only these.
    ///
    /// # Errors
    /// As [`Searcher::search`].
    pub fn search(&self, viewer: &Viewer, query: Query) -> Result<Found, index::Error> {
        let wanted = query.filter.scopes.clone();
        let scopes = viewer.scopes().iter().map(Scope::to_string);
        let scopes = scopes
            .filter(|scope| wanted.as_ref().is_none_or(|wanted| wanted.contains(scope)))
            .collect();
        let query = Query {
            filter: Filter {
                scopes: Some(scopes),
                ..query.filter
            },
            ..query
        };
        self.searcher.lock().search(&query)
    }

    /// Returns the memories that go before a message, without those in `earlier`, the recalled texts that the conversation
    /// has already. Errors are logged: the message is answered without memories.
    pub fn recall(
        &self,
        viewer: &Viewer,
        request: &Request<'_>,
        earlier: &[String],
    ) -> Option<Recalled> {
        if request.settings.max_tokens == 0 {
            return None;
        }
        if self.notes.lock().changed() {
            // What was written by hand is known at the next message; vectors may cost a call, and wait.
            self.refresh_with(index::Mode {
                without_vectors: true,
                ..index::Mode::default()
            });
            self.tell_news();
        }
        let request = &Request {
            words: crate::text::head(request.words, MAX_QUERY),
            ..*request
        };
        let query = Query {
            k: RECALLED,
            candidates: CANDIDATES,
            min_score: MIN_SCORE,
            max_tokens: usize::try_from(request.settings.max_tokens).ok(),
            max_chars: MAX_RECALLED,
            filter: Filter {
                sources: Some(RECALLED_FROM.to_vec()),
                ..Filter::default()
            },
            today: Some(crate::clock::local_date(request.now, request.zone)),
            strategy: request.strategy,
            share: request.share,
            ..Query::new(recall::without_small_talk(request.words))
        };
        let everywhere = Query {
            filter: Filter::default(),
            ..query.clone()
        };
        let mut found = self.search(viewer, query).unwrap_or_else(|error| {
            tracing::warn!(%error, "recall failed");
            Found::default()
        });
        let shared = self.collections().recall(viewer, &everywhere);
        // What was not searched is in the log: nobody asked for it.
        drop(shared.merge_into(&mut found.hits, RECALLED));
        // The summary of this conversation is in it.
        found.hits.retain(|hit| {
            hit.source != Source::Summary.as_str()
                || sources::session_of(&hit.path) != Some(request.session)
        });
        // Nobody asked for these: what is only similar to the message is left out.
        found.hits.retain(|hit| {
            !hit.matched.is_empty() || hit.vector_score.is_some_and(|cosine| cosine >= ALONE)
        });
        let mut recall = self.recall.lock();
        let relevant = recall.relevant_to(request, viewer).unwrap_or_else(|error| {
            tracing::warn!(%error, "recall of facts failed");
            Relevant::default()
        });
        let rewritten = self.rewritten.lock();
        let texts = rewritten.texts.iter();
        let originals = texts.filter(|(text, _)| earlier.contains(text));
        let originals = originals.map(|(_, original)| original);
        let earlier: Vec<&String> = earlier.iter().chain(originals).collect();
        let mut recalled =
            recall::compose(relevant, &found.hits, request.settings, viewer, |line| {
                earlier.iter().any(|text| text.contains(line))
            })?;
        let mut loaded = recalled.memories.iter().filter(|memory| !memory.dropped);
        recalled.untrusted |= loaded.any(|memory| self.is_untrusted(&memory.place));
        Some(recalled)
    }

    /// Returns true when the file at `place` (a path, or one with lines: `workspace/memory/items/x.md:3`) was written in a run
    /// that had read untrusted text, or by others: it is in a collection.
    pub fn is_untrusted(&self, place: &str) -> bool {
        if place.starts_with(collections::PREFIX) {
            return true;
        }
        // A file's own name may have a colon.
        let path = place.rsplit_once(':').map_or(place, |(path, _)| path);
        [place, path].into_iter().any(|path| {
            let key = path.strip_prefix("workspace/").unwrap_or(path);
            self.marks
                .is_marked_at(key, &self.home().workspace().join(key))
        })
    }

    /// Notes that the file called `key` in the workspace was written in the run `run`, which had read untrusted
    /// words.
    ///
    /// # Errors
    /// When it cannot be written down.
    pub fn mark(&self, key: &str, run: &str) -> Result<(), crate::sys::Error> {
        let path = self.home().workspace().join(key);
        let bytes = std::fs::read(&path).map_err(crate::sys::Error::at("read", &path))?;
        let (asked, at) = (false, crate::clock::now_ms());
        self.marks.set_with(key, &bytes, Marking { run, asked, at })
    }

    /// Returns everything known about the sender, see [`person_profile::whole`].
    pub fn all_of(&self, partner: &Partner, budget: usize) -> Known {
        person_profile::whole(self.home(), &self.marks, partner, budget)
    }

    /// Returns what is known about the sender, see [`person_profile::of`].
    pub fn known_of(&self, partner: &Partner, earlier: &[String]) -> Option<person_profile::Told> {
        person_profile::of(self.home(), &self.marks, partner, earlier)
    }

    /// Returns `recalled`, rewritten by a model where `settings` say so. The call is booked to the
    /// run `run_id`; `of_others` as in [`crate::llm::Purpose`].
    pub async fn retell(
        &self,
        client: &Client,
        settings: &config::Recall,
        recalled: Recalled,
        (run_id, session_id): (&str, &str),
        of_others: bool,
    ) -> Recalled {
        let began = Instant::now();
        let paused_until = self.rewritten.lock().paused_until;
        if paused_until.is_some_and(|until| began < until) {
            return recalled;
        }
        let text =
            recall::rewrite(client, settings, &recalled, (run_id, session_id), of_others).await;
        let mut rewritten = self.rewritten.lock();
        let Some(text) = text else {
            let timed_out = began.elapsed() >= recall::TIMEOUT;
            rewritten.paused_until = timed_out.then(|| Instant::now() + PAUSE);
            return recalled;
        };
        if rewritten.texts.len() == KEPT {
            rewritten.texts.pop_front();
        }
        rewritten.texts.push_back((text.text(), recalled.text()));
        text
    }

    /// Notes that overdue commitments were brought up, which is done once. Trouble is logged.
    pub fn brought_up(&self, overdue: &[i64]) {
        if let Err(error) = commitments::shown(
            &facts::database(self.home()),
            overdue,
            crate::clock::now_ms(),
        ) {
            tracing::warn!(%error, "cannot record that overdue commitments were mentioned; they will be mentioned again");
        }
    }

    /// Changes a commitment that `viewer` may see; returns it as it is then, `None` when there is no such one.
    ///
    /// # Errors
    /// When the database cannot be used.
    pub fn update_commitment(
        &self,
        viewer: &Viewer,
        id: i64,
        change: Change,
    ) -> Result<Option<Commitment>, facts::Error> {
        commitments::update(&facts::database(self.home()), id, change, |one| {
            viewer.may_see(&one.scope)
        })
    }

    /// Brings the index up to date; false when another process is at it, and may have missed
    /// something.
    pub fn refresh(&self) -> bool {
        self.refresh_with(index::Mode::default())
    }

    /// Brings the index up to date with the notes, for somebody who is not an owner: they cannot have it run again and
    /// again. Returns whether it ran.
    pub fn refresh_for_others(&self) -> bool {
        // Another one is at it.
        let Some(mut others) = self.others.try_lock() else {
            return false;
        };
        let began = Instant::now();
        let may = others.is_none_or(|until| began >= until);
        if !may || !self.notes.lock().changed() {
            return false;
        }
        let is_done = self.refresh_with(index::Mode {
            without_vectors: true,
            ..index::Mode::default()
        });
        *others = Some(Instant::now() + began.elapsed() * SHARE_OF_OTHERS);
        self.tell_news();
        is_done
    }

    fn refresh_with(&self, mode: index::Mode) -> bool {
        // What comes from here on is news again.
        self.notes.lock().changed();
        match index::sync(&self.place, mode, &mut |_| {}) {
            Ok(index::Outcome::Done(report)) => {
                if let Some(why) = report.vectors.failed {
                    tracing::warn!(
                        why,
                        "semantic search is incomplete: some chunks of the index have no vector"
                    );
                }
                self.tell_left_out(report.skipped);
            }
            Ok(index::Outcome::Busy(_)) => return false,
            Err(error) => tracing::warn!(%error, "the index could not be updated"),
        }
        true
    }

    /// Says of each file once that it is left out, and again when it was in between.
    fn tell_left_out(&self, skipped: Vec<sources::Skipped>) {
        let mut told = self.left_out.lock();
        for one in skipped.iter().filter(|one| !told.contains(&one.path)) {
            tracing::warn!(
                path = one.path,
                why = one.why,
                "a memory file was left out of the index"
            );
        }
        *told = skipped.into_iter().map(|one| one.path).collect();
    }

    /// Draws facts from what was written down and said, or from what was said in `session` alone; false when that did
    /// not work, or another process is at it. Trouble is logged.
    pub fn consolidate(&self, means: Means<'_>, session: Option<&str>) -> bool {
        let options = Options {
            session,
            ..Options::default()
        };
        match consolidate::run(self.home(), means, options, &mut |_| {}) {
            Ok(consolidate::Outcome::Done(report)) => {
                for parked in &report.parked {
                    tracing::error!(
                        session = parked.path,
                        why = parked.why,
                        "no model could extract facts from part of a conversation; rules were used"
                    );
                }
                if let Some(one) = report.waits.first() {
                    tracing::warn!(
                        session = one.path,
                        why = one.why,
                        "fact extraction from a conversation is postponed"
                    );
                }
                report.waits.is_empty()
            }
            Ok(consolidate::Outcome::Busy(_)) => false,
            Err(error) => {
                tracing::warn!(%error, "fact extraction failed");
                false
            }
        }
    }

    /// Says that there is something new to be indexed and consolidated; [`Memory::news`] hears it.
    pub fn tell_news(&self) {
        self.wake.notify_one();
    }

    /// Waits for something new.
    pub async fn news(&self) {
        self.wake.notified().await;
    }
}

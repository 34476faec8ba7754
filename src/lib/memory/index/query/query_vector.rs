//! The vector of a question: from the table, from a server within a timeout, or none.
//!
//! After [`TIMEOUT`] the question is answered by keywords alone, and the server is not asked again for [`PAUSE`]. A late
//! vector is kept for the next time; if the process ends before, its cost stays at the reservation.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use crate::embedding::static_table::Table;
use crate::embedding::{Embedder, Kind, Model};
use crate::memory::index::Place;
use crate::memory::index::build::vectors;

/// How long a question waits for its vector, and how long nothing is tried after a failure.
const TIMEOUT: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_secs(60);
/// Questions whose vectors are kept in memory.
const KEPT: usize = 256;

/// A question's vector.
pub(crate) struct QueryVector<'a> {
    /// Of length 1.
    pub numbers: Vec<f32>,
    /// The table that made it, if one did.
    pub table: Option<&'a mut Table>,
}

/// Makes vectors of questions.
pub(crate) struct QueryEmbedder {
    place: Place,
    state: State,
}

enum State {
    /// Not open; when and why it failed, if it did.
    Closed(Option<(Instant, String)>),
    /// The config names no embedder.
    None,
    Table(Table),
    Model(Worker),
}

impl QueryEmbedder {
    pub(crate) fn new(place: &Place) -> Self {
        Self {
            place: place.clone(),
            state: State::Closed(None),
        }
    }

    /// Returns the vector of `text` if its model is `model`, else why there is none.
    pub(crate) fn vector(&mut self, text: &str, model: &str) -> Result<QueryVector<'_>, String> {
        // The config or the programs may have changed: the embedder is opened again after a pause.
        if let Some(name) = self.other_than(model)? {
            let why = other(model, &name);
            // Where nothing has a vector yet the first may come at any moment.
            if model.is_empty() {
                return Err(why);
            }
            self.state = State::Closed(Some((Instant::now(), why)));
        }
        self.of_open(text)
    }

    /// As [`QueryEmbedder::vector`], for one of several places, each of which has a model: what the one lacks is not a reason
    /// to leave the others without vectors.
    pub(crate) fn vector_of_several(
        &mut self,
        text: &str,
        model: &str,
    ) -> Result<QueryVector<'_>, String> {
        match self.other_than(model)? {
            Some(_) if model.is_empty() => Err("it has no vectors".to_owned()),
            Some(name) => Err(format!(
                "its vectors are those of {model}, and the settings name {name}"
            )),
            None => self.of_open(text),
        }
    }

    /// Returns the name of the embedder where it is not `model`.
    fn other_than(&mut self, model: &str) -> Result<Option<String>, String> {
        self.open()?;
        let name = match &self.state {
            State::Table(table) => table.name(),
            State::Model(worker) => &worker.name,
            State::Closed(_) | State::None => model,
        };
        Ok((name != model).then(|| name.to_owned()))
    }

    fn of_open(&mut self, text: &str) -> Result<QueryVector<'_>, String> {
        match &mut self.state {
            State::Closed(why) => Err(why
                .as_ref()
                .map_or_else(String::new, |(_, why)| why.clone())),
            State::None => Err("[memory.embeddings] provider is \"none\"".to_owned()),
            State::Table(table) => {
                let numbers = table
                    .text(text)
                    .ok_or_else(|| "the table knows none of these words".to_owned())?;
                Ok(QueryVector {
                    numbers,
                    table: Some(table),
                })
            }
            State::Model(worker) => Ok(QueryVector {
                numbers: worker.vector(text, TIMEOUT)?,
                table: None,
            }),
        }
    }

    fn open(&mut self) -> Result<(), String> {
        match &self.state {
            State::Closed(None) => {}
            State::Closed(Some((when, _))) if when.elapsed() > PAUSE => {}
            State::Closed(Some((_, why))) => return Err(why.clone()),
            State::None | State::Table(_) | State::Model(_) => return Ok(()),
        }
        self.state = match self.place.embedder() {
            Ok(None) => State::None,
            Ok(Some(Embedder::Table(table))) => State::Table(table),
            Ok(Some(Embedder::Model(model))) => {
                State::Model(Worker::start(model, Some(self.place.clone())))
            }
            Err(error) => State::Closed(Some((Instant::now(), error.to_string()))),
        };
        Ok(())
    }
}

fn other(there: &str, wanted: &str) -> String {
    match there {
        "" => "nothing has a vector yet: agent-index".to_owned(),
        there => {
            format!("the index has vectors of {there}, and the settings name {wanted}: agent-index")
        }
    }
}

/// A vector, none for a text without known words, or why it failed.
type Answer = Result<Option<Vec<f32>>, String>;

/// Looks a question up in the cache on disk, or has the model embed it and keeps that.
fn known_or_made(model: &mut dyn Model, place: Option<&Place>, text: &str) -> Answer {
    let name = model.name().to_owned();
    if let Some(vector) = place.and_then(|place| vectors::of_question(place, &name, text)) {
        return Ok(Some(vector));
    }
    let made = model.embed(Kind::Question, &[text]);
    let made = made
        .map(|vectors| vectors.into_iter().next().flatten())
        .map_err(|error| error.to_string())?;
    if let (Some(vector), Some(place)) = (&made, place) {
        vectors::keep_question(place, &name, text, vector);
    }
    Ok(made)
}

fn keep(kept: &mut HashMap<String, Vec<f32>>, text: String, vector: Vec<f32>) {
    if kept.len() >= KEPT {
        kept.clear();
    }
    kept.insert(text, vector);
}

/// A thread that owns a model.
struct Worker {
    name: String,
    asked: Sender<(String, Sender<Answer>)>,
    kept: Arc<Mutex<HashMap<String, Vec<f32>>>>,
    /// When it last failed, and why.
    failed: Option<(Instant, String)>,
}

impl Worker {
    /// Starts it; with `place`, questions that were asked before cost no call.
    fn start(mut model: Box<dyn Model>, place: Option<Place>) -> Self {
        let (asked, questions): (_, Receiver<(String, Sender<Answer>)>) = mpsc::channel();
        let kept: Arc<Mutex<HashMap<String, Vec<f32>>>> = Arc::default();
        let (name, answers) = (model.name().to_owned(), kept.clone());
        std::thread::spawn(move || {
            for (text, answer) in questions {
                let vector = known_or_made(model.as_mut(), place.as_ref(), &text);
                if let Ok(Some(vector)) = &vector {
                    keep(&mut answers.lock(), text, vector.clone());
                }
                // The question may have timed out.
                let _ = answer.send(vector);
            }
        });
        Self {
            name,
            asked,
            kept,
            failed: None,
        }
    }

    fn vector(&mut self, text: &str, timeout: Duration) -> Result<Vec<f32>, String> {
        if let Some(vector) = self.kept.lock().get(text) {
            return Ok(vector.clone());
        }
        if let Some((when, why)) = &self.failed
            && when.elapsed() < PAUSE
        {
            return Err(why.clone());
        }
        let (sender, answer) = mpsc::channel();
        let asked = self.asked.send((text.to_owned(), sender));
        let answer = match asked.map(|()| answer.recv_timeout(timeout)) {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(format!(
                "{} did not answer within {} s",
                self.name,
                timeout.as_secs()
            )),
            Err(_) => Err(format!("{} stopped", self.name)),
        };
        self.failed = answer
            .as_ref()
            .err()
            .map(|why| (Instant::now(), why.clone()));
        answer?.ok_or_else(|| "the question has no words that a vector could be made of".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedding::Error;

    /// Answers what it is told to, as slowly as it is told to.
    struct Slow(Vec<(u64, Result<f32, &'static str>)>);

    impl Model for Slow {
        fn name(&self) -> &str {
            "slow"
        }
        fn embed(&mut self, _: Kind, _: &[&str]) -> Result<Vec<Option<Vec<f32>>>, Error> {
            let (wait, answer) = self.0.remove(0);
            std::thread::sleep(Duration::from_millis(wait));
            answer
                .map(|x| vec![Some(vec![x])])
                .map_err(|why| Error::Failed(why.to_owned()))
        }
    }

    #[test]
    fn a_question_is_asked_once_and_nobody_waits_for_a_model_that_hangs() {
        let mut worker = Worker::start(Box::new(Slow(vec![(0, Ok(1.0)), (300, Ok(0.5))])), None);
        let timeout = Duration::from_secs(20);
        assert_eq!(worker.vector("a", timeout), Ok(vec![1.0]));
        assert_eq!(
            worker.vector("a", timeout),
            Ok(vec![1.0]),
            "it would have no other answer"
        );
        let begun = Instant::now();
        assert!(worker.vector("b", Duration::from_millis(1)).is_err());
        assert!(
            worker.vector("c", timeout).is_err(),
            "nobody is asked after a failure"
        );
        assert!(begun.elapsed() < Duration::from_millis(290));
        while worker.vector("b", timeout).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(
            worker.vector("b", timeout),
            Ok(vec![0.5]),
            "what came late was kept"
        );
    }

    #[test]
    fn a_question_of_an_earlier_process_costs_no_call() {
        let dir = tempfile::tempdir().expect("dir");
        let home = crate::config::Home::at(dir.path());
        home.create().expect("directories");
        let place = Place::of(&home);
        let timeout = Duration::from_secs(20);
        let model = |answers| Box::new(Slow(answers));
        let mut first = Worker::start(model(vec![(0, Ok(1.0))]), Some(place.clone()));
        assert_eq!(first.vector("a", timeout), Ok(vec![1.0]));
        let mut second = Worker::start(model(vec![(0, Err("asked"))]), Some(place));
        assert_eq!(second.vector("a", timeout), Ok(vec![1.0]));
        assert_eq!(second.vector("b", timeout), Err("asked".to_owned()));
    }

    #[test]
    fn of_many_questions_the_newest_are_kept() {
        let dir = tempfile::tempdir().expect("dir");
        let home = crate::config::Home::at(dir.path());
        home.create().expect("directories");
        let place = Place::of(&home);
        let text = |number: usize| format!("question {number}");
        for number in 0..30 {
            vectors::keep_question(&place, "m", &text(number), &[1.0]);
        }
        let is_kept = |number| vectors::of_question(&place, "m", &text(number)).is_some();
        assert_eq!([0, 9, 10, 29].map(is_kept), [false, false, true, true]);
        assert_eq!(vectors::of_question(&place, "other", &text(29)), None);
    }

    #[test]
    fn a_place_of_another_model_leaves_the_others_their_vectors() {
        let dir = tempfile::tempdir().expect("dir");
        let home = crate::config::Home::at(dir.path());
        let mut embedder = QueryEmbedder::new(&Place::of(&home));
        let model = Slow(vec![(0, Ok(1.0)), (0, Ok(1.0))]);
        embedder.state = State::Model(Worker::start(Box::new(model), None));
        let refused = embedder.vector_of_several("a", "another").err();
        let refused = refused.expect("no vector");
        assert!(refused.contains("another") && refused.contains("slow"));
        let made = embedder.vector_of_several("a", "slow");
        assert_eq!(made.map(|vector| vector.numbers), Ok(vec![1.0]));
        // An index without vectors may get them at any moment; one of another model is asked again after a pause.
        assert!(embedder.vector("a", "").is_err());
        assert!(embedder.vector("a", "slow").is_ok());
        assert!(embedder.vector("a", "another").is_err());
        assert!(embedder.vector("a", "slow").is_err());
    }

    #[test]
    fn a_failure_says_why() {
        let mut worker = Worker::start(Box::new(Slow(vec![(0, Err("the key is wrong"))])), None);
        for _ in 0..2 {
            assert_eq!(
                worker.vector("a", Duration::from_secs(20)),
                Err("the key is wrong".to_owned())
            );
        }
    }
}

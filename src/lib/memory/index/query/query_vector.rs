//! The vector of a question: at once from the table, in good time from anything else, or none.
//!
//! Nobody waits long for a model that hangs: after [`PATIENCE`] the question is answered by its words,
//! and for [`PAUSE`] no other is tried. What comes late is kept for the next time, and paid; a process that
//! ends before leaves it at its reservation.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, Instant};

use crate::embedding::static_table::Table;
use crate::embedding::{Embedder, Kind, Model};
use crate::memory::index::Place;

/// How long a question waits for its vector, and how long one that failed is no example to follow.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_secs(60);
/// Questions whose vectors are kept in memory.
const KEPT: usize = 256;

/// A question's vector.
pub(crate) struct Vector<'a> {
    /// Of length 1.
    pub numbers: Vec<f32>,
    /// The table, where it was made by that.
    pub table: Option<&'a mut Table>,
}

/// Asks for vectors.
pub(crate) struct Ask {
    place: Place,
    way: Way,
}

enum Way {
    /// Not opened yet, or not again before then: why.
    Closed(Option<(Instant, String)>),
    /// The settings name none.
    None,
    Table(Table),
    Model(Worker),
}

impl Ask {
    pub(crate) fn new(place: &Place) -> Self {
        Self {
            place: place.clone(),
            way: Way::Closed(None),
        }
    }

    /// Returns the vector of `text` if its model is `model`, else why there is none.
    pub(crate) fn vector(&mut self, text: &str, model: &str) -> Result<Vector<'_>, String> {
        self.open()?;
        // The settings or the programs may have changed: they are looked at again, after a while.
        let name = match &self.way {
            Way::Table(table) => table.name(),
            Way::Model(worker) => &worker.name,
            Way::Closed(_) | Way::None => model,
        };
        if name != model {
            self.way = Way::Closed(Some((Instant::now(), other(model, name))));
        }
        match &mut self.way {
            Way::Closed(why) => Err(why
                .as_ref()
                .map_or_else(String::new, |(_, why)| why.clone())),
            Way::None => Err("[memory.embeddings] provider is \"none\"".to_owned()),
            Way::Table(table) => {
                let numbers = table
                    .text(text)
                    .ok_or_else(|| "the table knows none of these words".to_owned())?;
                Ok(Vector {
                    numbers,
                    table: Some(table),
                })
            }
            Way::Model(worker) => Ok(Vector {
                numbers: worker.vector(text, PATIENCE)?,
                table: None,
            }),
        }
    }

    fn open(&mut self) -> Result<(), String> {
        match &self.way {
            Way::Closed(None) => {}
            Way::Closed(Some((when, _))) if when.elapsed() > PAUSE => {}
            Way::Closed(Some((_, why))) => return Err(why.clone()),
            Way::None | Way::Table(_) | Way::Model(_) => return Ok(()),
        }
        self.way = match self.place.embedder() {
            Ok(None) => Way::None,
            Ok(Some(Embedder::Table(table))) => Way::Table(table),
            Ok(Some(Embedder::Model(model))) => Way::Model(Worker::start(model)),
            Err(error) => Way::Closed(Some((Instant::now(), error.to_string()))),
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

/// A vector, none for a text without words, or why there is none.
type Answer = Result<Option<Vec<f32>>, String>;

/// A thread that owns a model.
struct Worker {
    name: String,
    asked: Sender<(String, Sender<Answer>)>,
    kept: Arc<Mutex<HashMap<String, Vec<f32>>>>,
    /// When it last failed, and why.
    failed: Option<(Instant, String)>,
}

impl Worker {
    fn start(mut model: Box<dyn Model>) -> Self {
        let (asked, questions): (_, Receiver<(String, Sender<Answer>)>) = mpsc::channel();
        let kept: Arc<Mutex<HashMap<String, Vec<f32>>>> = Arc::default();
        let (name, answers) = (model.name().to_owned(), kept.clone());
        std::thread::spawn(move || {
            for (text, answer) in questions {
                let vector = model
                    .embed(Kind::Question, &[&text])
                    .map(|vectors| vectors.into_iter().next().flatten());
                if let Ok(Some(vector)) = &vector {
                    let mut kept = answers.lock();
                    if kept.len() >= KEPT {
                        kept.clear();
                    }
                    kept.insert(text, vector.clone());
                }
                // Who asked may have gone on without it.
                let _ = answer.send(vector.map_err(|error| error.to_string()));
            }
        });
        Self {
            name,
            asked,
            kept,
            failed: None,
        }
    }

    fn vector(&mut self, text: &str, patience: Duration) -> Result<Vec<f32>, String> {
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
        let answer = match asked.map(|()| answer.recv_timeout(patience)) {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(format!(
                "{} did not answer within {} s",
                self.name,
                patience.as_secs()
            )),
            Err(_) => Err(format!("{} broke down", self.name)),
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
        let mut worker = Worker::start(Box::new(Slow(vec![(0, Ok(1.0)), (300, Ok(0.5))])));
        let patience = Duration::from_secs(20);
        assert_eq!(worker.vector("a", patience), Ok(vec![1.0]));
        assert_eq!(
            worker.vector("a", patience),
            Ok(vec![1.0]),
            "it would have no other answer"
        );
        let begun = Instant::now();
        assert!(worker.vector("b", Duration::from_millis(1)).is_err());
        assert!(
            worker.vector("c", patience).is_err(),
            "nobody is asked after a failure"
        );
        assert!(begun.elapsed() < Duration::from_millis(290));
        while worker.vector("b", patience).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(
            worker.vector("b", patience),
            Ok(vec![0.5]),
            "what came late was kept"
        );
    }

    #[test]
    fn a_failure_says_why() {
        let mut worker = Worker::start(Box::new(Slow(vec![(0, Err("the key is wrong"))])));
        for _ in 0..2 {
            assert_eq!(
                worker.vector("a", Duration::from_secs(20)),
                Err("the key is wrong".to_owned())
            );
        }
    }
}

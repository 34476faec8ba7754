//! Approval in the middle of a call: a running tool asks the owner, unless a standing rule allows it. Before a call
//! [`super::permission`] decides.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};

use super::permission::{Asked, Question, Rule, Verdict};

/// A question of a running tool, and where its answer goes.
pub(super) type Waiting = (Asked, oneshot::Sender<Verdict>);

/// Tells whether a rule was allowed permanently.
type Allows = dyn Fn(&Rule) -> bool + Send + Sync;

/// What the owner allowed permanently, with "always"; nothing by default.
#[derive(Clone, Default)]
pub struct Always(Option<Arc<Allows>>);

impl Always {
    /// Returns what `allows` says of a rule.
    pub fn new(allows: impl Fn(&Rule) -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(allows)))
    }

    /// Returns whether the request matches a rule that was allowed permanently.
    pub fn allows(&self, question: &Question) -> bool {
        let Self(Some(allows)) = self else {
            return false;
        };
        question.rule.as_ref().is_some_and(|rule| allows(rule))
    }
}

impl std::fmt::Debug for Always {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Always")
    }
}

/// Asks the owner on behalf of a running tool, if they can answer in time, and knows what they allowed permanently.
#[derive(Debug, Clone, Default)]
pub struct AskOwner {
    way: Option<mpsc::UnboundedSender<Waiting>>,
    always: Always,
}

impl AskOwner {
    /// Returns a way, and where its questions come out.
    pub(super) fn new(always: Always) -> (Self, mpsc::UnboundedReceiver<Waiting>) {
        let (ask, asked) = mpsc::unbounded_channel();
        let way = Some(ask);
        (Self { way, always }, asked)
    }

    /// Returns it for runs in which nobody can answer in time: only what was allowed permanently.
    pub(super) fn unattended(self) -> Self {
        Self { way: None, ..self }
    }

    /// Returns whether somebody can be asked.
    pub fn is_possible(&self) -> bool {
        self.way.is_some()
    }

    /// Returns whether the owner allowed this permanently: then nobody need be asked.
    pub fn stands(&self, question: &Question) -> bool {
        self.always.allows(question)
    }

    /// Asks and waits for the answer.
    pub async fn ask(&self, asked: Asked) -> Verdict {
        let nobody = || Verdict::No("there is nobody to ask".to_owned());
        let (tell, told) = oneshot::channel();
        match &self.way {
            Some(ask) if ask.send((asked, tell)).is_ok() => told.await.unwrap_or_else(|_| nobody()),
            _ => nobody(),
        }
    }
}

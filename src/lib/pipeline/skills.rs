//! Approval of proposed skills, outside the turns: no turn waits for the answer, and the question survives a
//! restart. The removal of a learned skill that was not used for long is proposed in the same way.

use std::sync::Arc;

use serde_json::json;

use super::Pipeline;
use super::approvals::Asking;
use super::turn::outcome::Outcome;
use crate::agent::{Asked, Question};
use crate::clock;
use crate::message::{Envelope, Route, Sender, SessionKey, Source, Trust};
use crate::queue::{BESIDE_TURNS, Standing};
use crate::skills::{Accept, Proposal, Skills};

/// How long the owner may take before a proposal waits for `agent-send --skill` alone, milliseconds.
const PATIENCE_MS: i64 = 24 * 3_600_000;
/// What may be in a question, characters.
const LONGEST: usize = 5_900;

/// What is asked about a skill.
#[derive(Debug, Clone)]
enum Open {
    Proposal(Box<Proposal>),
    /// It did not help for long.
    Idle(String),
}

impl Open {
    /// Returns what the request is known by after a restart.
    fn id(&self) -> String {
        match self {
            Self::Proposal(proposal) => format!("skill-{}-{}", proposal.name, proposal.at),
            Self::Idle(name) => format!("skill-idle-{name}"),
        }
    }

    fn name(&self) -> &str {
        match self {
            Self::Proposal(proposal) => &proposal.name,
            Self::Idle(name) => name,
        }
    }

    fn asked(&self) -> Asked {
        let (text, bound_to, why) = match self {
            Self::Proposal(proposal) => {
                let Proposal {
                    name,
                    sha256,
                    before,
                    ..
                } = proposal.as_ref();
                let what = match before {
                    Some(_) => "change the skill",
                    None => "learn the skill",
                };
                let why = "a skill shapes how I work, so it takes effect only with your approval";
                (
                    format!("{what} {name}:\n{}", proposal.diff),
                    json!(["skill", name, sha256, before]),
                    why,
                )
            }
            Self::Idle(name) => (
                format!("remove the skill {name}"),
                json!(["remove", name]),
                "it was not used for 60 days; a removed skill can be accepted again: agent-send --skill list",
            ),
        };
        Asked {
            call_id: self.id(),
            tool: "skill_propose".to_owned(),
            question: Question {
                text,
                bound_to,
                rule: None,
            },
            why: why.to_owned(),
            wanted: None,
        }
    }
}

impl Pipeline {
    /// Counts what a turn that failed makes of the skills it read.
    pub(super) async fn count_failure(&self, run_id: &str) {
        let (skills, run) = (self.prompt.skills().clone(), run_id.to_owned());
        crate::sys::blocking(move || skills.learned().failed(&run)).await;
    }

    /// Says below an answer that no chat shows what its turn proposed: there nobody is asked with buttons.
    pub(super) async fn noting_proposal(
        &self,
        envelope: &Envelope,
        run_id: &str,
        outcome: Outcome,
    ) -> Outcome {
        if envelope.source.is_chat() || !envelope.from_owner {
            return outcome;
        }
        let (skills, run) = (self.prompt.skills().clone(), run_id.to_owned());
        let proposed = move || skills.learned().proposed_in(&run);
        match crate::sys::blocking(proposed).await {
            Some(name) => outcome.noting(&format!(
                "the skill {name} is proposed: agent-send --skill show {name}"
            )),
            None => outcome,
        }
    }

    /// Asks the owner about what is proposed and not asked about yet: in the chat of `after`, the message that a turn
    /// of theirs has answered, or where they are reached. Returns at once.
    pub(super) fn ask_about_skills(self: &Arc<Self>, after: Option<&Envelope>) {
        if self.prompt.skills().learned().is_blank() {
            return;
        }
        let (pipeline, after) = (self.clone(), after.cloned());
        tokio::spawn(async move {
            let skills = pipeline.prompt.skills().clone();
            for open in crate::sys::blocking(move || open(&skills)).await {
                if pipeline.asking_skills.lock().insert(open.id()) {
                    tokio::spawn(pipeline.clone().ask_about(open, after.clone()));
                }
            }
        });
    }

    async fn ask_about(self: Arc<Self>, open: Open, after: Option<Envelope>) {
        let id = open.id();
        tokio::select! {
            // The next start asks again, and finds the answer.
            () = self.closing.cancelled() => {}
            () = self.hear_about(&open, after) => {}
        }
        self.asking_skills.lock().remove(&id);
    }

    async fn hear_about(self: &Arc<Self>, open: &Open, after: Option<Envelope>) {
        let envelope = envelope(open, after);
        let asking = Asking::beside_turns(self.clone(), envelope, &open.id());
        let asking = asking.with_patience(PATIENCE_MS);
        let route = asking.way().await;
        let ids = match asking.put_down(&[open.asked()]).await {
            Ok(put) => put.ids,
            // It waits for the shell.
            Err(why) => {
                tracing::info!(
                    skill = open.name(),
                    why,
                    "cannot ask the owner about a proposed skill"
                );
                return;
            }
        };
        let standing = asking.standings(&ids).await.pop();
        let now = clock::now_ms();
        let (skills, of) = (self.prompt.skills().clone(), open.clone());
        let done = match standing {
            // A yes that a restart cut off is still a yes to this very text.
            Some(Standing::Approved(_) | Standing::Used) => {
                if let Some(id) = ids.into_iter().next() {
                    let use_up = || self.queue.use_up(id.clone(), now);
                    let used = self.persist("a yes", use_up).await;
                    drop(used);
                }
                crate::sys::blocking(move || granted(&skills, &of, now)).await
            }
            Some(Standing::Denied(_)) => {
                crate::sys::blocking(move || refused(&skills, &of, now)).await
            }
            Some(Standing::Over | Standing::Unanswered | Standing::Pending) | None => {
                asking.end().await;
                // Nobody said a word about a removal: in another while, then.
                if let Open::Idle(_) = of {
                    let later = move || refused(&skills, &of, now);
                    drop(crate::sys::blocking(later).await);
                }
                Ok(())
            }
        };
        if let Err(why) = done {
            tracing::warn!(
                skill = open.name(),
                why,
                "the owner's decision could not be carried out"
            );
            self.tell_of_nothing(open, route, &why).await;
        }
    }

    /// Tells the owner, where they were asked, that their decision could not be carried out.
    async fn tell_of_nothing(self: &Arc<Self>, open: &Open, route: Option<Route>, why: &str) {
        let text = format!("The skill {} was not changed: {why}.", open.name());
        self.note_trouble(&text);
        let Some(route) = route else { return };
        let tell = || {
            let key = format!("{}-nothing", open.id());
            self.tell_owner(key, "skills", text.clone(), &route)
        };
        drop(self.persist("a word to the owner", tell).await);
    }
}

/// Returns what the owner is to be asked.
fn open(skills: &Skills) -> Vec<Open> {
    let now = clock::now_ms();
    let fits = |proposal: &Proposal| {
        let is_asked = !proposal.shelved && now - proposal.at < PATIENCE_MS;
        // A draft that somebody changed, or that is longer than a question, is looked at in the shell.
        let is_whole = proposal.now.as_ref() == Some(&proposal.sha256);
        is_asked && is_whole && proposal.diff.chars().count() <= LONGEST
    };
    let proposals = skills.proposals().into_iter().filter(fits);
    let idle = skills.idle(now).into_iter().map(Open::Idle);
    proposals
        .map(|one| Open::Proposal(Box::new(one)))
        .chain(idle)
        .collect()
}

fn granted(skills: &Skills, open: &Open, now: i64) -> Result<(), String> {
    let done = match open {
        Open::Proposal(proposal) => {
            skills.accept(&proposal.name, Accept::Exactly(&proposal.sha256), now)
        }
        Open::Idle(name) => skills.retire(name, now),
    };
    done.map_err(|why| why.to_string())
}

fn refused(skills: &Skills, open: &Open, now: i64) -> Result<(), String> {
    match open {
        Open::Proposal(proposal) => skills
            .reject(&proposal.name, now)
            .map_err(|why| why.to_string()),
        Open::Idle(name) => {
            skills.offered(name, now);
            Ok(())
        }
    }
}

/// Returns as whose wish it is asked.
fn envelope(open: &Open, after: Option<Envelope>) -> Envelope {
    let key = SessionKey(format!("{BESIDE_TURNS}{}", open.name()));
    let sender = Sender::new("skills", "skills");
    let own = Envelope {
        from_owner: true,
        trust: Trust::Owner,
        ..Envelope::new(
            open.id(),
            Source::System,
            sender,
            key.clone(),
            String::new(),
            clock::now_ms(),
        )
    };
    match after.filter(|after| after.from_owner && after.group.is_none() && after.source.is_chat())
    {
        Some(after) => Envelope {
            source: after.source,
            sender: after.sender,
            route: after.route,
            ..own
        },
        None => own,
    }
}

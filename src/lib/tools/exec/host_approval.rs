//! Approval of hosts in addition to those of the settings: standing rules of the owner, and questions to the owner, during
//! which the time limit of the command is paused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::agent::{Asked, Context, Question, Rule, Verdict};
use crate::net::egress_proxy::{Answer, Ask, Destination};
use crate::text::{argv, shorten};

/// Hosts that the owner is asked about because of one command; more would tire them.
const MAX_ASKED: usize = 8;
/// Characters of the command in a question.
const SHOWN: usize = 300;

/// How long the owner was asked because of a command: that is not the command's time.
#[derive(Clone, Default)]
pub(super) struct Pauses(Arc<Mutex<(Duration, Option<Instant>)>>);

impl Pauses {
    /// Returns how long so far; `None` while they are asked.
    pub(super) fn total(&self) -> Option<Duration> {
        let (total, since) = *self.0.lock();
        since.is_none().then_some(total)
    }

    fn begin(&self) {
        self.0.lock().1 = Some(Instant::now());
    }

    fn end(&self) {
        let mut pauses = self.0.lock();
        if let Some(since) = pauses.1.take() {
            pauses.0 += since.elapsed();
        }
    }
}

/// Returns the check whether `command` may connect to a host: yes if the owner allowed it permanently, else they are
/// asked where they are there. Each host is asked about once, one after the other: those who wait for an answer share it.
pub(super) fn ask(context: &Context, command: &str, pauses: &Pauses) -> Ask {
    let decided: Arc<tokio::sync::Mutex<BTreeMap<Destination, Answer>>> = Arc::default();
    let (ask_owner, call_id, pauses) = (
        context.ask_owner.clone(),
        context.call_id.clone(),
        pauses.clone(),
    );
    let (program, command) = (program(command), shorten(command, SHOWN));
    Arc::new(move |destination| {
        let (decided, ask_owner, pauses) = (decided.clone(), ask_owner.clone(), pauses.clone());
        let asked = Asked {
            call_id: call_id.clone(),
            tool: "exec".to_owned(),
            question: question(&program, &command, &destination),
            why: "the command wants a host that [tools.exec.network] allow does not name"
                .to_owned(),
            wanted: None,
        };
        Box::pin(async move {
            if ask_owner.stands(&asked.question) {
                return Answer::Yes;
            }
            if !ask_owner.is_possible() {
                return Answer::Nobody;
            }
            let mut decided = decided.lock().await;
            if let Some(known) = decided.get(&destination) {
                return known.clone();
            }
            if decided.len() >= MAX_ASKED {
                return Answer::No(format!(
                    "the owner was asked about {MAX_ASKED} hosts of this command already"
                ));
            }
            pauses.begin();
            let pausing = Pausing(pauses);
            let verdict = ask_owner.ask(asked).await;
            drop(pausing);
            let answer = match verdict {
                Verdict::Yes | Verdict::ByRule => Answer::Yes,
                Verdict::Words(_) => Answer::No("nobody said yes".to_owned()),
                Verdict::SaidNo(why) | Verdict::No(why) => {
                    Answer::No(why.trim_start_matches("this was not run: ").to_owned())
                }
            };
            decided.insert(destination, answer.clone());
            answer
        })
    })
}

/// Ends a pause, also when the caller that waits for the answer is gone.
struct Pausing(Pauses);

impl Drop for Pausing {
    fn drop(&mut self) {
        self.0.end();
    }
}

fn question(program: &str, command: &str, destination: &Destination) -> Question {
    Question {
        text: format!("{program} wants {destination}\nfor: {command}"),
        bound_to: json!(["network", destination.to_string()]),
        rule: Some(Rule {
            words: format!("connect to {destination}"),
            bound_to: json!(["network", destination.to_string()]),
        }),
    }
}

/// Returns what a command is called in a question: its program, when it is plain.
fn program(command: &str) -> String {
    let argv = argv::plain(command).unwrap_or_default();
    let program = argv.first().and_then(|path| path.rsplit('/').next());
    program
        .filter(|name| !name.is_empty())
        .unwrap_or("a command")
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_names_the_program_the_host_and_the_command() {
        let destination = Destination {
            host: "github.com".to_owned(),
            port: 443,
        };
        let check = |command: &str, expected: &str| {
            let question = question(&program(command), command, &destination);
            assert_eq!(
                question.text,
                format!("{expected} wants github.com:443\nfor: {command}")
            );
            assert_eq!(question.bound_to, json!(["network", "github.com:443"]));
        };
        check("git clone https://github.com/a/b", "git");
        check("/usr/bin/git fetch", "git");
        check("cd a && git fetch", "a command");
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_ends_also_when_nobody_waits_any_more() {
        let pauses = Pauses::default();
        pauses.begin();
        let pausing = Pausing(pauses.clone());
        assert_eq!(pauses.total(), None);
        tokio::time::sleep(Duration::from_secs(5)).await;
        drop(pausing);
        assert_eq!(pauses.total(), Some(Duration::from_secs(5)));
    }
}

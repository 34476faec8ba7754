//! The line that says what a run is doing, from its events.

use crate::message::Step;

/// What is said of a tool that is not named here.
const WORKING: &str = "Working";

/// Tools, in the words of somebody who waits.
const TOOLS: &[(&str, &str)] = &[
    ("exec", "Running command"),
    ("bash", "Running command"),
    ("read", "Reading file"),
    ("write", "Writing file"),
    ("edit", "Editing file"),
    ("memory_search", "Searching memory"),
    ("memory_get", "Reading memory"),
    ("memory_read", "Reading memory"),
    ("memory_write", "Writing memory"),
    ("memory_forget", "Forgetting"),
    ("remember", "Writing memory"),
    ("message", "Sending message"),
    ("send_media", "Sending file"),
    ("react", "Reacting"),
    ("sticker", "Sending a sticker"),
    ("pin", "Keeping a rule"),
    ("load_skill", "Reading a skill"),
    ("session_status", "Looking at the conversation"),
    ("web_search", "Searching the web"),
    ("web_fetch", "Reading web page"),
];

/// What a run is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    doing: Doing,
    /// The number of the model call.
    step: u32,
    /// Tools that this step asked for, and those that began.
    tools: (usize, usize),
    /// Times the model was asked for this step.
    tries: u32,
    /// What the tool says.
    says: Option<String>,
    /// Whether others than the owner read the line.
    others_read: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Doing {
    Thinking,
    Waiting,
    Compacting,
    Asking,
    Tool(String),
}

impl Default for Line {
    fn default() -> Self {
        Self {
            doing: Doing::Thinking,
            step: 1,
            tools: (0, 0),
            tries: 1,
            says: None,
            others_read: false,
        }
    }
}

impl Line {
    /// Returns the first line of a run; `others_read` says that it is not shown to the owner alone.
    pub(super) fn new(others_read: bool) -> Self {
        Self {
            others_read,
            ..Self::default()
        }
    }

    /// Takes in what happened.
    pub(super) fn apply(&mut self, step: &Step) {
        match step {
            Step::Thinking { turn } => {
                *self = Self {
                    step: *turn,
                    ..Self::new(self.others_read)
                }
            }
            Step::RetryWait { .. } => {
                self.tries += 1;
                self.doing = Doing::Waiting;
            }
            Step::Compacting => self.doing = Doing::Compacting,
            Step::Asking => self.doing = Doing::Asking,
            Step::Answered { tools, .. } => {
                self.tools = (tools.len(), 0);
                self.doing = Doing::Thinking;
            }
            Step::ToolStarted { name } => {
                self.tools.1 += 1;
                self.doing = Doing::Tool(name.clone());
                self.says = None;
            }
            Step::ToolOutput { tail, .. } => self.says = Some(tail.clone()),
            Step::Started { .. } | Step::ToolDone { .. } | Step::Decided | Step::Ended => {}
        }
    }

    /// Returns whether a tool is at work, or was and nothing came after it.
    pub(super) fn is_tool(&self) -> bool {
        matches!(self.doing, Doing::Tool(_))
    }

    /// Returns the words.
    pub(super) fn text(&self) -> String {
        match &self.doing {
            Doing::Thinking if self.step > 1 => format!("Thinking (step {})", self.step),
            Doing::Thinking => "Thinking".to_owned(),
            Doing::Waiting => format!("Waiting for the model (try {})", self.tries),
            Doing::Asking => {
                let whose = if self.others_read {
                    "my owner's"
                } else {
                    "your"
                };
                format!("Waiting for {whose} approval. /stop ends the wait.")
            }
            Doing::Compacting => "Summarizing earlier messages".to_owned(),
            Doing::Tool(name) => {
                let words = TOOLS
                    .iter()
                    .find(|(tool, _)| tool == name)
                    .map_or(WORKING, |(_, words)| words);
                let (asked, begun) = self.tools;
                let words = if asked > 1 {
                    format!("{words} ({}/{asked})", begun.min(asked))
                } else {
                    words.to_owned()
                };
                self.says
                    .as_ref()
                    .map_or_else(|| words.clone(), |says| format!("{words}: {says}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{StopReason, Usage};

    /// Returns the line after each step.
    fn lines(steps: &[Step]) -> Vec<String> {
        let mut line = Line::default();
        let after = |step: &Step| {
            line.apply(step);
            line.text()
        };
        steps.iter().map(after).collect()
    }

    fn answered(tools: &[&str]) -> Step {
        let tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
        Step::Answered {
            duration_ms: 1,
            usage: Usage::default(),
            stop: StopReason::ToolUse,
            tools,
        }
    }

    fn tool(name: &str) -> [Step; 2] {
        let name = name.to_owned();
        [
            Step::ToolStarted { name: name.clone() },
            Step::ToolDone {
                name,
                duration_ms: 1,
                is_error: true,
            },
        ]
    }

    #[test]
    fn the_line_says_what_the_run_does_now() {
        let mut steps = vec![
            Step::Thinking { turn: 1 },
            answered(&["read", "nobody_knows", "exec"]),
        ];
        steps.extend(
            ["read", "nobody_knows", "exec"]
                .iter()
                .flat_map(|name| tool(name)),
        );
        steps.extend([Step::Thinking { turn: 2 }, answered(&["memory_search"])]);
        steps.extend(tool("memory_search"));
        steps.push(Step::Thinking { turn: 3 });
        assert_eq!(
            lines(&steps),
            [
                "Thinking",
                "Thinking",
                "Reading file (1/3)",
                "Reading file (1/3)",
                "Working (2/3)",
                "Working (2/3)",
                "Running command (3/3)",
                "Running command (3/3)",
                "Thinking (step 2)",
                "Thinking (step 2)",
                "Searching memory",
                "Searching memory",
                "Thinking (step 3)",
            ]
        );
    }

    #[test]
    fn a_model_that_is_asked_again_is_waited_for() {
        let again = || Step::RetryWait {
            reason: "overloaded".to_owned(),
        };
        let steps = [
            Step::Thinking { turn: 2 },
            again(),
            again(),
            answered(&[]),
            Step::Thinking { turn: 3 },
            again(),
        ];
        assert_eq!(
            lines(&steps),
            [
                "Thinking (step 2)",
                "Waiting for the model (try 2)",
                "Waiting for the model (try 3)",
                "Thinking (step 2)",
                "Thinking (step 3)",
                "Waiting for the model (try 2)",
            ]
        );
    }

    #[test]
    fn a_tool_is_shown_with_its_last_words_until_the_next_begins() {
        let says = |tail: &str| Step::ToolOutput {
            name: "exec".to_owned(),
            tail: tail.to_owned(),
        };
        let start = |name: &str| Step::ToolStarted {
            name: name.to_owned(),
        };
        let steps = [
            answered(&["exec", "read"]),
            start("exec"),
            says("10 %"),
            says("20 %"),
            start("read"),
            Step::Thinking { turn: 2 },
        ];
        assert_eq!(
            lines(&steps),
            [
                "Thinking",
                "Running command (1/2)",
                "Running command (1/2): 10 %",
                "Running command (1/2): 20 %",
                "Reading file (2/2)",
                "Thinking (step 2)",
            ]
        );
    }

    #[test]
    fn a_wait_says_whose_yes_it_needs_and_what_ends_it() {
        let said = |others_read: bool| {
            let mut line = Line::new(others_read);
            line.apply(&Step::Thinking { turn: 2 });
            line.apply(&Step::Asking);
            line.text()
        };
        assert_eq!(
            said(false),
            "Waiting for your approval. /stop ends the wait."
        );
        assert_eq!(
            said(true),
            "Waiting for my owner's approval. /stop ends the wait."
        );
    }

    #[test]
    fn a_tool_that_a_restart_goes_on_with_has_no_number() {
        assert_eq!(lines(&tool("exec")), ["Running command"; 2]);
    }
}

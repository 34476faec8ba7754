//! `monitor.json`: what the daemon is doing right now, for `watch agent-monitor`.
//!
//! A [`State`] is folded from [`AgentEvent`]s by the daemon, written whole with a rename, and
//! read by anybody. Whether the daemon lives is told by its lock, never by this file's age.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::clock;
use crate::config::{FileDigests, Home};
use crate::message::{AgentEvent, Step};
use crate::sys;
use crate::sys::{atomic, clock_check};

/// A living daemon writes at least every 15 s; after four times that something is wrong
/// (specification §2).
pub const STALE_MS: i64 = 60_000;
/// Model calls shown of a running turn.
const SHOWN_TURNS: usize = 20;

/// The whole document.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct State {
    /// `idle`, `thinking`, `tools`, `retry_wait` or `compacting`; of several lanes the busiest.
    /// A lane that is `asking` counts as `tools` here.
    pub state: String,
    /// The daemon's process id.
    pub pid: u32,
    /// This boot of the machine, so that an old file is known as such.
    pub boot_id: String,
    /// The daemon's version.
    pub version: String,
    /// When it started, RFC 3339 UTC.
    pub started_at: String,
    /// When this was written, RFC 3339 UTC.
    pub updated_at: String,
    /// Whether it is ending: running turns may finish, nothing new begins.
    pub stopping: bool,
    /// When it ended by itself, RFC 3339 UTC; `None` while it runs and forever when it was killed.
    pub ended_at: Option<String>,
    /// Turns that run now.
    pub lanes: Vec<Lane>,
    /// Open and dead rows.
    pub queue: Queue,
    /// The newest accepted input: its row in queue.db, and when it was received in milliseconds since 1970 UTC. A queue.db that
    /// does not know it after a restart has lost it.
    pub newest_input: (i64, i64),
    /// When old rows were deleted from queue.db last, milliseconds since 1970 UTC, by whatever clock; 0 = not by this daemon.
    pub pruned_at: i64,
    /// The newest time that was believed, RFC 3339 UTC; `None` in a file of a version that did not doubt any.
    pub known_at: Option<String>,
    /// For how long the clock was doubted since, milliseconds; see `sys::clock_check`.
    pub doubted_ms: i64,
    /// The channels.
    pub channels: Vec<ChannelState>,
    /// The providers of models.
    pub providers: Vec<ProviderState>,
    /// Configured models.
    pub models: Vec<String>,
    /// Sessions there are.
    pub active_sessions: usize,
    /// US dollars since the local midnight.
    pub today_cost_usd: f64,
    /// The wall around `exec`.
    pub sandbox: String,
    /// What a hostile command could still do behind it.
    pub sandbox_risk: String,
    /// The newest troubles, a line each with its time, the newest first.
    pub last_error: Option<String>,
    /// The files of the settings that are active; `None` in a file of a version that did not note them.
    pub settings_files: Option<FileDigests>,
}

/// A turn that runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lane {
    /// The session's key.
    pub session: String,
    /// The run.
    pub run_id: String,
    /// Whom we talk to.
    pub contact: String,
    /// The configured model.
    pub model: String,
    /// `thinking`, `tools`, `asking` (the owner's answer is waited for), `retry_wait` or `compacting`.
    pub state: String,
    /// Model calls begun.
    pub turn: u32,
    /// When it began, RFC 3339 UTC.
    pub started_at: String,
    /// Since when it does what it does now, RFC 3339 UTC.
    pub state_since: String,
    /// Why the last model call is tried again; `None` when it is not.
    pub retry_reason: Option<String>,
    /// All tokens of its model calls so far.
    pub tokens: u64,
    /// Tools that run now.
    pub tools_in_flight: Vec<String>,
    /// The last words of the tool that runs, of the owner's own conversations only; `None` when it said
    /// nothing yet.
    pub tool_tail: Option<String>,
    /// Model calls made, the newest last, at most 20.
    pub turns: Vec<TurnLine>,
    /// Sub-agents that the conversation sent; the turn that did may be over.
    pub children: Vec<Lane>,
}

/// A model call that was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TurnLine {
    /// How long it took.
    pub duration_ms: u64,
    /// All its tokens.
    pub tokens: u64,
    /// Why it stopped.
    pub stop_reason: String,
    /// The tools it asked for.
    pub tools: Vec<String>,
}

/// Depths of the queue.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// Inputs not yet answered.
    pub inbox: i64,
    /// Parts not yet sent.
    pub outbox: i64,
    /// Dead letters.
    pub dead: i64,
}

/// How a channel is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChannelState {
    /// Its name.
    pub name: String,
    /// `connecting`, `ok`, or what is wrong.
    pub state: String,
    /// How messages come in: `polling`, `webhook`; empty where there is only one way.
    pub mode: String,
    /// Its last success, RFC 3339 UTC.
    pub last_ok_at: Option<String>,
    /// When something came in last, RFC 3339 UTC.
    pub last_update_at: Option<String>,
}

/// How a provider of models is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ProviderState {
    /// Its configured name.
    pub name: String,
    /// `ok` or `down`.
    pub state: String,
    /// Since when it is down, RFC 3339 UTC.
    pub since: Option<String>,
    /// When it is asked again at the earliest, RFC 3339 UTC.
    pub retry_at: Option<String>,
    /// How its last call failed.
    pub last_error: Option<String>,
}

impl State {
    /// Returns whether the process `pid`, which holds the daemon's lock, wrote this; while a daemon starts, the file is still
    /// that of the one before. When one of them names no process (0), it is taken for so.
    pub fn is_of(&self, pid: i32) -> bool {
        pid == 0 || self.pid == 0 || u32::try_from(pid) == Ok(self.pid)
    }

    /// Takes in what happened in a run.
    pub fn apply(&mut self, event: &AgentEvent) {
        match &event.step {
            Step::Started {
                contact,
                model,
                parent,
            } => {
                let now = clock::rfc3339(clock::now_ms());
                let lane = Lane {
                    session: event.session.0.clone(),
                    run_id: event.run_id.clone(),
                    contact: contact.clone(),
                    model: model.clone(),
                    state: "thinking".to_owned(),
                    started_at: now.clone(),
                    state_since: now,
                    ..Lane::default()
                };
                match parent {
                    Some(parent) => self.lane_of(&parent.0).children.push(lane),
                    None => {
                        // Its sub-agents are older than this turn.
                        let before = self
                            .lanes
                            .iter()
                            .position(|lane| lane.session == event.session.0);
                        let children = before
                            .map(|at| self.lanes.remove(at).children)
                            .unwrap_or_default();
                        self.lanes.push(Lane { children, ..lane });
                    }
                }
            }
            Step::Ended => self.keep(|lane| lane.run_id != event.run_id),
            step => {
                let run = |lane: &Lane| lane.run_id == event.run_id;
                let mut lanes = self.lanes.iter_mut();
                let found = lanes.find_map(|lane| {
                    if run(lane) {
                        Some(lane)
                    } else {
                        lane.children.iter_mut().find(|lane| run(lane))
                    }
                });
                if let Some(lane) = found {
                    lane.apply(step);
                }
            }
        }
        self.settle();
    }

    /// Shows that the turn of `run_id` is suspended since then (milliseconds since 1970 UTC), and why.
    pub fn waits(&mut self, session: &str, run_id: &str, since: i64, reason: String) {
        let lane = self.lane_of(session);
        run_id.clone_into(&mut lane.run_id);
        lane.turn_to("retry_wait");
        lane.state_since = clock::rfc3339(since);
        lane.retry_reason = Some(reason);
    }

    /// Leaves only the turns for which `runs` is true. A conversation whose sub-agents still work stays, at rest.
    pub fn keep(&mut self, runs: impl Fn(&Lane) -> bool) {
        for lane in &mut self.lanes {
            lane.children.retain(|child| runs(child));
            if !lane.is_at_rest() && !runs(lane) {
                let (session, contact, children) = (
                    lane.session.clone(),
                    lane.contact.clone(),
                    std::mem::take(&mut lane.children),
                );
                *lane = Lane {
                    children,
                    ..Lane::at_rest(session, contact)
                };
            }
        }
        self.lanes
            .retain(|lane| !lane.is_at_rest() || !lane.children.is_empty());
    }

    /// Returns the lane of a conversation, at rest if no turn of it runs.
    fn lane_of(&mut self, session: &str) -> &mut Lane {
        let at = self
            .lanes
            .iter()
            .position(|lane| lane.session == session)
            .unwrap_or_else(|| {
                self.lanes
                    .push(Lane::at_rest(session.to_owned(), session.to_owned()));
                self.lanes.len() - 1
            });
        &mut self.lanes[at]
    }

    /// Sets the daemon's state to that of its busiest lane.
    pub fn settle(&mut self) {
        let busiest = ["tools", "thinking", "asking", "retry_wait", "compacting"]
            .into_iter()
            .find(|state| self.has_lane(state));
        self.state = match busiest {
            None => "idle",
            Some("asking") => "tools",
            Some(state) => state,
        }
        .to_owned();
    }

    /// Returns that settings files are not as the daemon has read them, and what activates them; `None` when they are.
    pub fn unread_settings(&self, home: &Home) -> Option<String> {
        let changed = self.settings_files.as_ref()?.changed(home);
        let (names, were) = match changed.as_slice() {
            [] => return None,
            [one] => (one.clone(), "was"),
            [most @ .., last] => (format!("{} and {last}", most.join(", ")), "were"),
        };
        let pid = self.pid;
        Some(format!(
            "{names} {were} changed since the daemon read the settings: kill -HUP {pid} has them read again"
        ))
    }

    /// Returns the daemon's state as people are told it: who waits for the owner's answer runs no tool.
    pub fn activity(&self) -> &str {
        if self.state == "tools" && self.has_lane("asking") && !self.has_lane("tools") {
            return "asking";
        }
        &self.state
    }

    fn has_lane(&self, state: &str) -> bool {
        self.lanes.iter().any(|lane| lane.state == state)
    }
}

impl Lane {
    /// Returns the lane of a conversation in which no turn runs.
    fn at_rest(session: String, contact: String) -> Self {
        let now = clock::rfc3339(clock::now_ms());
        Self {
            session,
            contact,
            state: "idle".to_owned(),
            started_at: now.clone(),
            state_since: now,
            ..Self::default()
        }
    }

    fn is_at_rest(&self) -> bool {
        self.run_id.is_empty()
    }

    fn apply(&mut self, step: &Step) {
        match step {
            Step::Thinking { turn } => {
                self.turn = *turn;
                self.turn_to("thinking");
            }
            Step::RetryWait { reason } => {
                self.turn_to("retry_wait");
                self.retry_reason = Some(reason.clone());
            }
            Step::Answered {
                duration_ms,
                usage,
                stop,
                tools,
            } => {
                self.tokens = self.tokens.saturating_add(usage.total());
                let stop_reason = serde_json::to_value(stop)
                    .ok()
                    .and_then(|value| value.as_str().map(str::to_owned))
                    .unwrap_or_default();
                self.turns.push(TurnLine {
                    duration_ms: *duration_ms,
                    tokens: usage.total(),
                    stop_reason,
                    tools: tools.clone(),
                });
                let surplus = self.turns.len().saturating_sub(SHOWN_TURNS);
                self.turns.drain(..surplus);
            }
            Step::ToolStarted { name } => {
                if self.tools_in_flight.is_empty() {
                    self.turn_to("tools");
                }
                self.tools_in_flight.push(name.clone());
            }
            Step::ToolOutput { tail, .. } => self.tool_tail = Some(tail.clone()),
            Step::ToolDone { name, .. } => {
                self.tool_tail = None;
                if let Some(at) = self.tools_in_flight.iter().position(|tool| tool == name) {
                    self.tools_in_flight.remove(at);
                }
                if self.tools_in_flight.is_empty() {
                    self.turn_to("thinking");
                }
            }
            Step::Compacting => self.turn_to("compacting"),
            Step::Asking => self.turn_to("asking"),
            Step::Decided => self.turn_to("tools"),
            Step::Started { .. } | Step::Ended => {}
        }
    }

    fn turn_to(&mut self, state: &str) {
        state.clone_into(&mut self.state);
        self.state_since = clock::rfc3339(clock::now_ms());
        self.retry_reason = None;
        self.tool_tail = None;
    }
}

impl State {
    /// Returns the newest time that the daemon which wrote this believed.
    pub fn known_time(&self) -> Option<clock_check::Known> {
        let at = self.known_at.as_ref().unwrap_or(&self.updated_at);
        Some(clock_check::Known {
            at: clock::parse_rfc3339(at)?,
            doubted_ms: self.doubted_ms,
        })
    }
}

/// Returns the id of this boot of the machine, empty where the kernel has none.
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .map(|id| id.trim().to_owned())
        .unwrap_or_default()
}

/// Writes the document; a reader sees the old or the new one.
///
/// # Errors
/// When the state directory is not writable or full.
pub fn write(path: &Path, state: &State) -> Result<(), sys::Error> {
    let text = serde_json::to_string(state).unwrap_or_default();
    atomic::write(
        path,
        crate::secret::redact(&text).as_bytes(),
        atomic::Durability::Rename,
    )
}

/// Reads the document; `None` when there is none or it is unreadable.
///
/// # Errors
/// When it exists and may not be read.
pub fn read(path: &Path) -> Result<Option<State>, sys::Error> {
    atomic::read_valid_json(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{SessionKey, StopReason, Usage};

    #[test]
    fn the_document_is_of_the_process_that_it_names() {
        let state = |pid| State {
            pid,
            ..State::default()
        };
        for (wrote, holds, is_of) in [(7, 7, true), (6, 7, false), (7, 0, true), (0, 7, true)] {
            assert_eq!(state(wrote).is_of(holds), is_of, "{wrote} {holds}");
        }
    }

    #[test]
    fn a_turn_goes_from_thinking_to_tools_and_back_to_idle() {
        let mut state = State::default();
        let mut after = |step: Step| {
            state.apply(&AgentEvent {
                run_id: "r".into(),
                session: SessionKey("cli:ada".into()),
                step,
            });
            state.activity().to_owned()
        };
        let answered = Step::Answered {
            duration_ms: 5,
            usage: Usage::default(),
            stop: StopReason::ToolUse,
            tools: vec!["exec".into()],
        };
        assert_eq!(
            after(Step::Started {
                contact: "ada".into(),
                model: "primary".into(),
                parent: None
            }),
            "thinking"
        );
        assert_eq!(after(Step::Thinking { turn: 1 }), "thinking");
        assert_eq!(after(answered), "thinking");
        assert_eq!(
            after(Step::ToolStarted {
                name: "exec".into()
            }),
            "tools"
        );
        assert_eq!(
            after(Step::ToolDone {
                name: "exec".into(),
                duration_ms: 1,
                is_error: false
            }),
            "thinking"
        );
        assert_eq!(
            after(Step::RetryWait {
                reason: "busy".into()
            }),
            "retry_wait"
        );
        // Before a call, and while it runs.
        let begins = || Step::ToolStarted {
            name: "exec".into(),
        };
        assert_eq!(after(Step::Asking), "asking");
        assert_eq!(after(begins()), "tools");
        assert_eq!(after(Step::Asking), "asking");
        assert_eq!(after(Step::Decided), "tools");
        assert_eq!(after(Step::Asking), "asking");
        assert_eq!(after(Step::Ended), "idle");
    }

    #[test]
    fn sub_agents_stand_below_the_conversation_that_sent_them_and_change_nothing_of_it() {
        let mut state = State::default();
        let ada = || SessionKey("cli:ada".into());
        let event = |run: &str, session: &str, step: Step| AgentEvent {
            run_id: run.into(),
            session: SessionKey(session.into()),
            step,
        };
        let started = |parent| Step::Started {
            contact: "x".into(),
            model: "m".into(),
            parent,
        };
        let shown = |state: &State| {
            let line = |lane: &Lane| format!("{} {}", lane.session, lane.state);
            let one = |lane: &Lane| {
                format!(
                    "{} {:?}",
                    line(lane),
                    lane.children.iter().map(line).collect::<Vec<_>>()
                )
            };
            (
                state.state.clone(),
                state.lanes.iter().map(one).collect::<Vec<_>>().join("; "),
            )
        };
        state.apply(&event("r1", "cli:ada", started(None)));
        state.apply(&event("c1", "subagent:1", started(Some(ada()))));
        state.apply(&event(
            "c1",
            "subagent:1",
            Step::ToolStarted {
                name: "exec".into(),
            },
        ));
        assert_eq!(
            shown(&state),
            (
                "thinking".into(),
                r#"cli:ada thinking ["subagent:1 tools"]"#.into()
            )
        );
        state.apply(&event("r1", "cli:ada", Step::Ended));
        assert_eq!(
            shown(&state),
            ("idle".into(), r#"cli:ada idle ["subagent:1 tools"]"#.into())
        );
        state.apply(&event("r2", "cli:ada", started(None)));
        state.apply(&event("c2", "subagent:2", started(Some(ada()))));
        state.apply(&event("c1", "subagent:1", Step::Ended));
        assert_eq!(
            shown(&state),
            (
                "thinking".into(),
                r#"cli:ada thinking ["subagent:2 thinking"]"#.into()
            )
        );
        state.keep(|lane| lane.session == "subagent:2");
        assert_eq!(shown(&state).1, r#"cli:ada idle ["subagent:2 thinking"]"#);
        state.apply(&event("c2", "subagent:2", Step::Ended));
        assert_eq!(shown(&state), ("idle".into(), String::new()));
    }

    #[test]
    fn a_reader_sees_the_old_or_the_new_document_and_never_a_part() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("monitor.json");
        let short = State {
            pid: 1,
            ..State::default()
        };
        let long = State {
            pid: 2,
            models: vec!["m".repeat(100_000)],
            ..State::default()
        };
        write(&path, &short).expect("write");
        let over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut writes = 0;
                while !over.load(std::sync::atomic::Ordering::Relaxed) || writes < 20 {
                    write(&path, if writes % 2 == 0 { &long } else { &short }).expect("write");
                    writes += 1;
                }
            });
            for _ in 0..1_000 {
                let seen = read(&path).expect("read").expect("whole");
                assert!(seen == short || seen == long, "pid {}", seen.pid);
            }
            over.store(true, std::sync::atomic::Ordering::Relaxed);
            writer.join().expect("the writer");
        });
    }

    #[test]
    fn tools_that_run_side_by_side_began_with_the_first() {
        let mut lane = Lane::default();
        let (start, end) = (
            |name: &str| Step::ToolStarted { name: name.into() },
            |name: &str| Step::ToolDone {
                name: name.into(),
                duration_ms: 1,
                is_error: false,
            },
        );
        lane.apply(&start("read"));
        lane.state_since = "when the first began".into();
        for step in [start("exec"), end("read")] {
            lane.apply(&step);
            assert_eq!(
                (lane.state.as_str(), lane.state_since.as_str()),
                ("tools", "when the first began")
            );
        }
        assert_eq!(lane.tools_in_flight, ["exec"]);
        lane.apply(&Step::ToolOutput {
            name: "exec".into(),
            tail: "10 %".into(),
        });
        assert_eq!(lane.tool_tail.as_deref(), Some("10 %"));
        lane.apply(&end("exec"));
        assert_eq!(lane.tool_tail, None);
        assert!(
            lane.state == "thinking" && lane.state_since != "when the first began",
            "{lane:?}"
        );
    }
}

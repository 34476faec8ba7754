//! Progress on a terminal while the agent works: one temporary line on stderr.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::app::cli;
use crate::config::Home;
use crate::control::replies::{Reply, Status};
use crate::monitor_state;
use crate::monitor_state::Lane;
use crate::text;

const DELAY: Duration = Duration::from_millis(300);
/// The daemon writes its monitor at most ten times a second; a person reads no faster than this.
const REFRESH: Duration = Duration::from_millis(250);

/// The spinner; nothing where stderr is not a terminal.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    begun: Instant,
    read: Option<Instant>,
    /// Whether keys wait that were typed meanwhile.
    keeps_keys: bool,
}

impl Progress {
    pub(super) fn begin(quiet: bool) -> Self {
        let bar = ProgressBar::new_spinner();
        // Who wants no escape codes for colours wants none for a spinner.
        let shown = !quiet && !bar.is_hidden() && cli::escapes();
        let style = ProgressStyle::with_template("{spinner} {msg} ({elapsed})")
            .expect("the template is constant");
        bar.set_style(style);
        Self {
            bar: shown.then_some(bar),
            begun: Instant::now(),
            read: None,
            keeps_keys: false,
        }
    }

    /// Says that what was typed is kept, or no more.
    pub(super) fn keeps_keys(&mut self, keeps: bool) {
        self.keeps_keys = keeps;
    }

    pub(super) fn is_shown(&self) -> bool {
        self.bar.is_some()
    }

    /// Shows what the agent does for the command that `answer` is about.
    pub(super) fn show(&mut self, home: &Home, answer: Option<&Reply>) {
        let Some(bar) = &self.bar else { return };
        if self.begun.elapsed() < DELAY {
            return;
        }
        if self.read.is_none_or(|read| read.elapsed() >= REFRESH) {
            self.read = Some(Instant::now());
            let kept = if self.keeps_keys {
                "; what you type is kept"
            } else {
                ""
            };
            bar.set_message(format!("{}{kept}", message(home, answer)));
        }
        bar.tick();
    }

    pub(super) fn beside(&self, say: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }

    pub(super) fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

fn message(home: &Home, answer: Option<&Reply>) -> String {
    let Some(answer) = answer else {
        return "on its way".to_owned();
    };
    if !answer.asks.is_empty() {
        return "waiting for your approval".to_owned();
    }
    if let Some(waits_for) = &answer.waits_for {
        return text::shorten(&text::visible(waits_for), 100);
    }
    // A monitor that cannot be read shows nothing; the answer comes nevertheless.
    let state = monitor_state::read(&home.monitor())
        .ok()
        .flatten()
        .unwrap_or_default();
    let lane = state
        .lanes
        .iter()
        .find(|lane| answer.run_id.as_deref() == Some(lane.run_id.as_str()));
    match (lane, answer.status) {
        (Some(lane), _) => doing(lane),
        (None, Status::Accepted) => "waiting for its turn".to_owned(),
        (None, _) => "working".to_owned(),
    }
}

fn doing(lane: &Lane) -> String {
    match (lane.state.as_str(), lane.tools_in_flight.as_slice()) {
        ("retry_wait", _) => "the model did not answer; asking again".to_owned(),
        ("asking", _) => "waiting for approval".to_owned(),
        ("compacting", _) => "summarizing earlier messages".to_owned(),
        ("tools", [tool]) => {
            let says = lane
                .tool_tail
                .as_deref()
                .map(|words| format!(": {}", text::shorten(&text::visible(words), 60)));
            format!(
                "running {}{}",
                text::visible(tool),
                says.unwrap_or_default()
            )
        }
        ("tools", tools) => format!("running {} tools", tools.len()),
        _ if lane.turn > 1 => format!("thinking, step {}", lane.turn),
        _ => "thinking".to_owned(),
    }
}

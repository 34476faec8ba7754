//! The effects of keys: the selected pane and row, confirmations, and commands. Pure: a key and the screen give the next
//! state, and possibly an action.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::commands::{Outcome, Request};
use super::dialog;
use super::draw;
use super::layout::Pane;
use super::snapshot;
use super::snapshot::Snapshot;
use crate::app::documents::queue::Waiting;
use crate::app::monitor::frame::Frame;
use crate::message::Approval;
use crate::monitor_state::Lane;
use crate::text;

const MAX_WHY: usize = 500;
/// Lines of Page Up and Page Down.
const PAGE: isize = 10;

#[derive(Debug, Clone)]
pub(super) struct Ui {
    pub(super) focus: Pane,
    /// The pane next to the turns, where only one fits.
    pub(super) below: Pane,
    lane: Option<String>,
    request: Option<String>,
    scroll: [usize; Pane::ALL.len()],
    pub(super) mode: Mode,
    pub(super) note: Option<Outcome>,
}

#[derive(Debug, Clone)]
pub(super) enum Mode {
    Look,
    Help,
    /// Whether a turn is to be stopped, as it was when that was asked.
    Stop(Box<Lane>),
    /// An approval request is shown in full.
    Decide(Decision),
}

#[derive(Debug, Clone)]
pub(super) struct Decision {
    /// As it was when it was opened.
    pub(super) request: Box<Waiting>,
    pub(super) scroll: usize,
    /// Whether its last line was on the screen.
    pub(super) is_read: bool,
    /// The reason as far as it is typed, to deny; `None` to approve.
    pub(super) why: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Act {
    Quit,
    Suspend,
    Redraw,
    /// Give an order to the daemon.
    Send(Box<Request>),
}

impl Default for Ui {
    fn default() -> Self {
        Self {
            focus: Pane::Lanes,
            below: Pane::Log,
            lane: None,
            request: None,
            scroll: [0; Pane::ALL.len()],
            mode: Mode::Look,
            note: None,
        }
    }
}

impl Ui {
    pub(super) fn lane(&self, snapshot: &Snapshot) -> Option<usize> {
        let lanes = snapshot.lanes().iter();
        chosen(lanes.map(snapshot::id), self.lane.as_deref())
    }

    pub(super) fn request(&self, snapshot: &Snapshot) -> Option<usize> {
        let requests = snapshot.requests();
        let ids = requests.iter().map(|request| request.id.as_str());
        chosen(ids, self.request.as_deref())
    }

    pub(super) fn scroll(&self, pane: Pane) -> usize {
        self.scroll[pane as usize]
    }

    pub(super) fn press(&mut self, key: KeyEvent, snapshot: &Snapshot, size: Frame) -> Option<Act> {
        let code = match (key.modifiers.contains(KeyModifiers::CONTROL), key.code) {
            (false, code) => code,
            (true, KeyCode::Char('c' | 'C')) => return Some(Act::Quit),
            (true, KeyCode::Char('z' | 'Z')) => return Some(Act::Suspend),
            (true, KeyCode::Char('l' | 'L')) => return Some(Act::Redraw),
            // It empties the line, as in a shell.
            (true, KeyCode::Char('u' | 'U')) => KeyCode::Delete,
            (true, KeyCode::Char(_)) => return None,
            (true, code) => code,
        };
        match std::mem::replace(&mut self.mode, Mode::Look) {
            Mode::Look => return self.look(code, snapshot, size),
            // Any key closes the help.
            Mode::Help => {}
            Mode::Stop(lane) => match code {
                KeyCode::Char('y' | 'Y') => return self.stop(&lane, snapshot),
                KeyCode::Char('n' | 'N' | 'q') | KeyCode::Esc => {}
                _ => self.mode = Mode::Stop(lane),
            },
            Mode::Decide(decision) => return self.decide(code, decision, size),
        }
        None
    }

    /// Takes in a text that nobody typed: it is a reason, and never a command.
    pub(super) fn paste(&mut self, text: &str) {
        if let Mode::Decide(Decision { why: Some(why), .. }) = &mut self.mode {
            why.extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }));
            *why = text::head(why, MAX_WHY).to_owned();
        }
    }

    fn look(&mut self, code: KeyCode, snapshot: &Snapshot, size: Frame) -> Option<Act> {
        self.note = None;
        match code {
            KeyCode::Char('q') => return Some(Act::Quit),
            KeyCode::Char('?' | 'h') => self.mode = Mode::Help,
            KeyCode::Tab | KeyCode::Right => self.choose(self.focus.further(1)),
            KeyCode::BackTab | KeyCode::Left => {
                self.choose(self.focus.further(Pane::ALL.len() - 1));
            }
            KeyCode::Char(digit @ '1'..='6') => {
                self.choose(Pane::Lanes.further(usize::from(digit as u8 - b'1')));
            }
            KeyCode::Char('s') => self.ask_to_stop(snapshot),
            KeyCode::Char('a') => self.open(None, snapshot, size),
            KeyCode::Char('d') => self.open(Some(String::new()), snapshot, size),
            KeyCode::Char('k') => self.go(-1, snapshot, size),
            KeyCode::Char('j') => self.go(1, snapshot, size),
            KeyCode::Char(' ') => self.go(PAGE, snapshot, size),
            KeyCode::Char('g') => self.go(isize::MIN, snapshot, size),
            KeyCode::Char('G') => self.go(isize::MAX, snapshot, size),
            code => {
                if let Some(by) = steps(code) {
                    self.go(by, snapshot, size);
                }
            }
        }
        None
    }

    fn choose(&mut self, pane: Pane) {
        self.focus = pane;
        if pane != Pane::Lanes {
            self.below = pane;
        }
    }

    fn go(&mut self, by: isize, snapshot: &Snapshot, size: Frame) {
        let moved =
            |at: usize, count: usize| at.saturating_add_signed(by).min(count.saturating_sub(1));
        match self.focus {
            Pane::Lanes => {
                let (at, lanes) = (self.lane(snapshot).unwrap_or(0), snapshot.lanes());
                self.lane = lanes
                    .get(moved(at, lanes.len()))
                    .map(|lane| snapshot::id(lane).to_owned());
            }
            Pane::Questions => {
                let (at, asks) = (self.request(snapshot).unwrap_or(0), snapshot.requests());
                self.request = asks.get(moved(at, asks.len())).map(|ask| ask.id.clone());
            }
            // Its newest lines are below, and what is moved is counted from there.
            Pane::Log => self.move_text(by.saturating_neg(), snapshot, size),
            Pane::Queue | Pane::Costs | Pane::Memory => self.move_text(by, snapshot, size),
        }
    }

    fn move_text(&mut self, by: isize, snapshot: &Snapshot, size: Frame) {
        let most = draw::hidden(self, snapshot, size, self.focus);
        let scroll = &mut self.scroll[self.focus as usize];
        *scroll = (*scroll).min(most).saturating_add_signed(by).min(most);
    }

    fn ask_to_stop(&mut self, snapshot: &Snapshot) {
        match self.lane(snapshot).and_then(|at| snapshot.lanes().get(at)) {
            Some(lane) => self.mode = Mode::Stop(Box::new(lane.clone())),
            None => self.say(false, "no turn runs"),
        }
    }

    fn stop(&mut self, asked: &Lane, snapshot: &Snapshot) -> Option<Act> {
        // What runs there by now is not what was asked about.
        let mut lanes = snapshot.lanes().iter();
        if !lanes.any(|lane| snapshot::id(lane) == snapshot::id(asked)) {
            self.say(false, "that turn has ended already; nothing was stopped");
            return None;
        }
        let request = Request::stop(asked.session.clone(), &asked.contact);
        Some(Act::Send(Box::new(request)))
    }

    fn open(&mut self, why: Option<String>, snapshot: &Snapshot, size: Frame) {
        let requests = snapshot.requests();
        match self.request(snapshot).and_then(|at| requests.get(at)) {
            Some(request) => {
                self.mode = Mode::Decide(Decision {
                    request: Box::new((*request).clone()),
                    scroll: 0,
                    is_read: dialog::hidden(request, size) == 0,
                    why,
                });
            }
            None => self.say(false, "no approval is pending"),
        }
    }

    fn decide(&mut self, code: KeyCode, mut decision: Decision, size: Frame) -> Option<Act> {
        let Decision {
            request,
            scroll,
            is_read,
            why,
        } = &mut decision;
        let most = dialog::hidden(request, size);
        let id = request.id.clone();
        match (code, why) {
            (KeyCode::Esc, _) | (KeyCode::Char('n' | 'N' | 'q'), None) => return None,
            // The person who approves has had the whole request before their eyes.
            (KeyCode::Char('y' | 'Y'), None) if *is_read => {
                return Some(Act::Send(Box::new(Request::decide(
                    id,
                    Approval::Approve,
                    None,
                ))));
            }
            (KeyCode::Enter, Some(words)) => {
                let why = Some(words.trim().to_owned()).filter(|words| !words.is_empty());
                return Some(Act::Send(Box::new(Request::decide(
                    id,
                    Approval::Deny,
                    why,
                ))));
            }
            (KeyCode::Char(c), Some(words)) if !c.is_control() => {
                words.push(c);
                *words = text::head(words, MAX_WHY).to_owned();
            }
            (KeyCode::Backspace, Some(words)) => {
                words.pop();
            }
            (KeyCode::Delete, Some(words)) => words.clear(),
            (code, why) => {
                let is_space = code == KeyCode::Char(' ') && why.is_none();
                if let Some(by) = is_space.then_some(PAGE).or_else(|| steps(code)) {
                    *scroll = (*scroll).min(most).saturating_add_signed(by).min(most);
                }
            }
        }
        *is_read |= *scroll >= most;
        self.mode = Mode::Decide(decision);
        None
    }

    pub(super) fn say(&mut self, done: bool, words: impl Into<String>) {
        self.note = Some(Outcome {
            done,
            words: words.into(),
        });
    }
}

/// Returns the place of `wanted`, or the first where it is not there.
fn chosen<'a>(ids: impl ExactSizeIterator<Item = &'a str>, wanted: Option<&str>) -> Option<usize> {
    let first = (ids.len() > 0).then_some(0);
    let at = ids.into_iter().position(|id| Some(id) == wanted);
    at.or(first)
}

/// Returns by how many lines a key moves.
fn steps(code: KeyCode) -> Option<isize> {
    Some(match code {
        KeyCode::Up => -1,
        KeyCode::Down => 1,
        KeyCode::PageUp => -PAGE,
        KeyCode::PageDown => PAGE,
        KeyCode::Home => isize::MIN,
        KeyCode::End => isize::MAX,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;

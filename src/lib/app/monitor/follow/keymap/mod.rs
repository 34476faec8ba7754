//! What keys do: where one looks, what is chosen, what is asked before an order goes out. Pure: a key and
//! what is on the screen make the next state, and perhaps something to do.

use super::commands::{Order, Outcome};
use super::dialog;
use super::draw;
use super::key_codes::Key;
use super::layout::Pane;
use super::snapshot;
use super::snapshot::Seen;
use crate::app::documents::queue::Waiting;
use crate::app::monitor::frame::Frame;
use crate::message::Approval;
use crate::text;

const MAX_WHY: usize = 500;

#[derive(Debug, Clone)]
pub(super) struct Ui {
    pub(super) focus: Pane,
    /// The pane beside the turns, where only one fits.
    pub(super) below: Pane,
    lane: Option<String>,
    ask: Option<String>,
    scroll: [usize; Pane::ALL.len()],
    pub(super) mode: Mode,
    pub(super) note: Option<Outcome>,
}

#[derive(Debug, Clone)]
pub(super) enum Mode {
    Look,
    Help,
    Stop {
        run_id: String,
        session: String,
        contact: String,
    },
    /// A question is shown in full, as it was when it was opened.
    Verdict {
        ask: Box<Waiting>,
        scroll: usize,
        is_read: bool,
        /// The reason as far as it is typed, of a no; `None` of a yes.
        why: Option<String>,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    Quit,
    Suspend,
    Redraw,
    /// Give an order to the daemon.
    Order(Order),
}

impl Default for Ui {
    fn default() -> Self {
        Self {
            focus: Pane::Lanes,
            below: Pane::Log,
            lane: None,
            ask: None,
            scroll: [0; Pane::ALL.len()],
            mode: Mode::Look,
            note: None,
        }
    }
}

impl Ui {
    pub(super) fn lane(&self, seen: &Seen) -> Option<usize> {
        let lanes = seen.lanes();
        let chosen = self
            .lane
            .as_ref()
            .and_then(|id| lanes.iter().position(|lane| snapshot::id(lane) == id));
        chosen.or_else(|| (!lanes.is_empty()).then_some(0))
    }

    pub(super) fn ask(&self, seen: &Seen) -> Option<usize> {
        let asks = seen.asks();
        let chosen = self
            .ask
            .as_ref()
            .and_then(|id| asks.iter().position(|ask| ask.id == *id));
        chosen.or_else(|| (!asks.is_empty()).then_some(0))
    }

    pub(super) fn scroll(&self, pane: Pane) -> usize {
        Pane::ALL
            .iter()
            .position(|one| *one == pane)
            .and_then(|at| self.scroll.get(at))
            .copied()
            .unwrap_or(0)
    }

    fn scroll_mut(&mut self, pane: Pane) -> Option<&mut usize> {
        Pane::ALL
            .iter()
            .position(|one| *one == pane)
            .and_then(|at| self.scroll.get_mut(at))
    }

    pub(super) fn press(&mut self, key: &Key, seen: &Seen, size: Frame) -> Option<Act> {
        match key {
            Key::Ctrl('c') => return Some(Act::Quit),
            Key::Ctrl('z') => return Some(Act::Suspend),
            Key::Ctrl('l') => return Some(Act::Redraw),
            _ => {}
        }
        match std::mem::replace(&mut self.mode, Mode::Look) {
            Mode::Look => return self.look(key, seen, size),
            // Any key has been understood by whoever reads them.
            Mode::Help => {}
            Mode::Stop {
                run_id,
                session,
                contact,
            } => match key {
                Key::Char('y' | 'Y') => return self.stop(&run_id, session, contact, seen),
                Key::Char('n' | 'N' | 'q') | Key::Esc => {}
                _ => {
                    self.mode = Mode::Stop {
                        run_id,
                        session,
                        contact,
                    }
                }
            },
            Mode::Verdict {
                ask,
                scroll,
                is_read,
                why,
            } => return self.verdict(key, ask, (scroll, is_read), why, size),
        }
        None
    }

    fn look(&mut self, key: &Key, seen: &Seen, size: Frame) -> Option<Act> {
        self.note = None;
        match key {
            Key::Char('q') => return Some(Act::Quit),
            Key::Char('?' | 'h') => self.mode = Mode::Help,
            Key::Tab | Key::Right => self.choose(self.focus.further(1)),
            Key::BackTab | Key::Left => self.choose(self.focus.further(Pane::ALL.len() - 1)),
            Key::Char(digit @ '1'..='6') => {
                let at = digit
                    .to_digit(10)
                    .and_then(|digit| usize::try_from(digit).ok())
                    .unwrap_or(1);
                self.choose(Pane::Lanes.further(at - 1));
            }
            Key::Up | Key::Char('k') => self.go(-1, seen, size),
            Key::Down | Key::Char('j') => self.go(1, seen, size),
            Key::PageUp => self.go(-10, seen, size),
            Key::PageDown | Key::Char(' ') => self.go(10, seen, size),
            Key::Home | Key::Char('g') => self.go(isize::MIN, seen, size),
            Key::End | Key::Char('G') => self.go(isize::MAX, seen, size),
            Key::Char('s') => self.ask_to_stop(seen),
            Key::Char('a') => self.open(None, seen, size),
            Key::Char('d') => self.open(Some(String::new()), seen, size),
            _ => {}
        }
        None
    }

    fn choose(&mut self, pane: Pane) {
        self.focus = pane;
        if pane != Pane::Lanes {
            self.below = pane;
        }
    }

    fn go(&mut self, by: isize, seen: &Seen, size: Frame) {
        let moved =
            |at: usize, count: usize| at.saturating_add_signed(by).min(count.saturating_sub(1));
        match self.focus {
            Pane::Lanes => {
                let (at, lanes) = (self.lane(seen).unwrap_or(0), seen.lanes());
                self.lane = lanes
                    .get(moved(at, lanes.len()))
                    .map(|lane| snapshot::id(lane).to_owned());
            }
            Pane::Questions => {
                let (at, asks) = (self.ask(seen).unwrap_or(0), seen.asks());
                self.ask = asks.get(moved(at, asks.len())).map(|ask| ask.id.clone());
            }
            // Its newest lines are below, and what is moved is counted from there.
            Pane::Log => self.move_text(by.saturating_neg(), seen, size),
            Pane::Queue | Pane::Costs | Pane::Memory => self.move_text(by, seen, size),
        }
    }

    fn move_text(&mut self, by: isize, seen: &Seen, size: Frame) {
        let most = draw::hidden(self, seen, size, self.focus);
        if let Some(scroll) = self.scroll_mut(self.focus) {
            *scroll = (*scroll).min(most).saturating_add_signed(by).min(most);
        }
    }

    fn ask_to_stop(&mut self, seen: &Seen) {
        match self.lane(seen).and_then(|at| seen.lanes().get(at)) {
            Some(lane) => {
                let (run_id, session, contact) = (
                    snapshot::id(lane).to_owned(),
                    lane.session.clone(),
                    lane.contact.clone(),
                );
                self.mode = Mode::Stop {
                    run_id,
                    session,
                    contact,
                };
            }
            None => self.say(false, "no turn runs"),
        }
    }

    fn stop(&mut self, run_id: &str, session: String, contact: String, seen: &Seen) -> Option<Act> {
        // What runs there by now is not what was asked about.
        if !seen.lanes().iter().any(|lane| snapshot::id(lane) == run_id) {
            self.say(false, "that turn has ended already; nothing was stopped");
            return None;
        }
        Some(Act::Order(Order::Stop { session, contact }))
    }

    fn open(&mut self, why: Option<String>, seen: &Seen, size: Frame) {
        let asks = seen.asks();
        match self.ask(seen).and_then(|at| asks.get(at)) {
            Some(ask) => {
                let is_read = dialog::hidden(ask, size) == 0;
                self.mode = Mode::Verdict {
                    ask: Box::new((*ask).clone()),
                    scroll: 0,
                    is_read,
                    why,
                };
            }
            None => self.say(false, "nothing waits for your word"),
        }
    }

    fn verdict(
        &mut self,
        key: &Key,
        ask: Box<Waiting>,
        (mut scroll, mut is_read): (usize, bool),
        mut why: Option<String>,
        size: Frame,
    ) -> Option<Act> {
        let most = dialog::hidden(&ask, size);
        let mut go = |by: isize| scroll = scroll.min(most).saturating_add_signed(by).min(most);
        match (key, &mut why) {
            (Key::Up, _) => go(-1),
            (Key::Down, _) => go(1),
            (Key::PageUp, _) => go(-10),
            (Key::PageDown, _) | (Key::Char(' '), None) => go(10),
            (Key::Home, _) => go(isize::MIN),
            (Key::End, _) => go(isize::MAX),
            (Key::Esc, _) | (Key::Char('n' | 'N' | 'q'), None) => return None,
            // Whoever says yes has had the whole question before their eyes.
            (Key::Char('y' | 'Y'), None) if is_read => {
                return Some(Act::Order(Order::Decide {
                    id: ask.id,
                    verdict: Approval::Approve,
                    why: None,
                }));
            }
            (Key::Enter, Some(words)) => {
                let why = Some(words.trim().to_owned()).filter(|words| !words.is_empty());
                return Some(Act::Order(Order::Decide {
                    id: ask.id,
                    verdict: Approval::Deny,
                    why,
                }));
            }
            (Key::Char(c), Some(words)) if !c.is_control() => words.push(*c),
            (Key::Paste(text), Some(words)) => {
                words.extend(text.chars().map(|c| if c.is_control() { ' ' } else { c }))
            }
            (Key::Backspace, Some(words)) => {
                let kept = words.chars().count().saturating_sub(1);
                *words = text::head(words, kept).to_owned();
            }
            (Key::Ctrl('u'), Some(words)) => words.clear(),
            _ => {}
        }
        if let Some(words) = &mut why {
            *words = text::head(words, MAX_WHY).to_owned();
        }
        is_read |= scroll >= most;
        self.mode = Mode::Verdict {
            ask,
            scroll,
            is_read,
            why,
        };
        None
    }

    pub(super) fn say(&mut self, done: bool, words: impl Into<String>) {
        self.note = Some(Outcome {
            done,
            words: words.into(),
        });
    }
}

#[cfg(test)]
mod tests;

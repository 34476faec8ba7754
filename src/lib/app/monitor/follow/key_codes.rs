//! Keys, as far as they mean something here.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Ctrl(char),
    Enter,
    Esc,
    Tab,
    BackTab,
    Backspace,
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    /// Nobody typed this: it is never a command.
    Paste(String),
}

impl Key {
    /// Returns the key of an event; `None` for those that mean nothing, and for a key that is let go.
    pub(super) fn of(event: KeyEvent) -> Option<Self> {
        if event.kind == KeyEventKind::Release {
            return None;
        }
        Some(match event.code {
            KeyCode::Char(c) if event.modifiers.contains(KeyModifiers::CONTROL) => {
                Self::Ctrl(c.to_ascii_lowercase())
            }
            KeyCode::Char(_) if event.modifiers.contains(KeyModifiers::ALT) => return None,
            KeyCode::Char(c) => Self::Char(c),
            KeyCode::Enter => Self::Enter,
            KeyCode::Esc => Self::Esc,
            KeyCode::Tab => Self::Tab,
            KeyCode::BackTab => Self::BackTab,
            KeyCode::Backspace => Self::Backspace,
            KeyCode::Up => Self::Up,
            KeyCode::Down => Self::Down,
            KeyCode::Left => Self::Left,
            KeyCode::Right => Self::Right,
            KeyCode::PageUp => Self::PageUp,
            KeyCode::PageDown => Self::PageDown,
            KeyCode::Home => Self::Home,
            KeyCode::End => Self::End,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_control_is_another_key() {
        let of = |code, modifiers| Key::of(KeyEvent::new(code, modifiers));
        assert_eq!(
            of(KeyCode::Char('c'), KeyModifiers::CONTROL),
            Some(Key::Ctrl('c'))
        );
        assert_eq!(
            of(KeyCode::Char('C'), KeyModifiers::SHIFT),
            Some(Key::Char('C'))
        );
        assert_eq!(of(KeyCode::Char('y'), KeyModifiers::ALT), None);
        assert_eq!(
            (
                of(KeyCode::Tab, KeyModifiers::NONE),
                of(KeyCode::F(1), KeyModifiers::NONE)
            ),
            (Some(Key::Tab), None)
        );
        let mut up = KeyEvent::new(KeyCode::Char('y'), KeyModifiers::NONE);
        up.kind = KeyEventKind::Release;
        assert_eq!(Key::of(up), None);
    }
}

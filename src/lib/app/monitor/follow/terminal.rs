//! The terminal in raw mode on its alternate screen; it is restored on every exit.

use std::io::{self, Stdout};
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::signal::{SigSet, Signal, raise};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste};
use ratatui::crossterm::terminal::{
    Clear, ClearType, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{cursor, execute};

use super::draw::{Scene, draw};
use crate::app::monitor::frame::Frame;

pub(super) struct Screen {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let say = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            give_back();
            say(panic);
        }));
        // Whatever fails half-way is undone.
        let screen = take().and_then(|()| Terminal::new(CrosstermBackend::new(io::stdout())));
        match screen {
            Ok(terminal) => Ok(Self { terminal }),
            Err(error) => {
                give_back();
                Err(error)
            }
        }
    }

    pub(super) fn size(&self) -> Frame {
        self.terminal.size().map_or(
            Frame {
                columns: 0,
                rows: 0,
            },
            |size| Frame {
                columns: size.width.into(),
                rows: size.height.into(),
            },
        )
    }

    pub(super) fn draw(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        self.terminal.draw(|frame| draw(frame, scene)).map(drop)
    }

    /// Takes the terminal once more, no matter who had it in the meantime; the next scene is drawn whole.
    pub(super) fn again(&mut self) -> io::Result<()> {
        take()?;
        // Not Terminal::clear: it asks the terminal where the cursor is, and the answer would come as keys.
        self.terminal = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }

    /// Sleeps as job control wants it, until somebody says `fg`.
    pub(super) fn sleep(&mut self) -> io::Result<()> {
        give_back();
        // Held signals stop nobody. For a process that nobody could wake (its shell is gone) the kernel does
        // nothing.
        let stop = SigSet::from_iter([Signal::SIGTSTP]);
        let _ = stop.thread_unblock();
        let _ = raise(Signal::SIGTSTP);
        let _ = stop.thread_block();
        self.again()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

static IS_OURS: AtomicBool = AtomicBool::new(false);

fn take() -> io::Result<()> {
    IS_OURS.store(true, Ordering::SeqCst);
    enable_raw_mode()?;
    execute!(
        io::stdout(),
        EnterAlternateScreen,
        EnableBracketedPaste,
        cursor::Hide,
        Clear(ClearType::All)
    )
}

fn give_back() {
    if !IS_OURS.swap(false, Ordering::SeqCst) {
        return;
    }
    let _ = execute!(
        io::stdout(),
        DisableBracketedPaste,
        LeaveAlternateScreen,
        cursor::Show
    );
    let _ = disable_raw_mode();
}

//! Whether the daemon lives, and how: told by its lock first, by its file second.

use crate::app::cli::Exit;
use crate::clock;
use crate::monitor_state::{STALE_MS, State};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Life {
    Never,
    /// It holds the lock and has not written yet; a file there is another's.
    Starting {
        for_ms: i64,
    },
    Up,
    Stopping,
    Stale {
        silent_ms: i64,
    },
    Stopped {
        /// When.
        ago_ms: i64,
    },
    Dead {
        ago_ms: i64,
        rebooted: bool,
    },
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Signs<'a> {
    /// The process id in the lock that is held, 0 when it says none; `None` when nobody holds it.
    pub(super) pid: Option<i32>,
    /// When the lock was taken last, or an unreadable file was written; `None` when neither ever was.
    pub(super) locked_at: Option<i64>,
    pub(super) state: Option<&'a State>,
    /// This boot of the machine; empty where that is not known.
    pub(super) boot_id: &'a str,
}

impl Life {
    pub(super) fn of(signs: Signs<'_>, now: i64) -> Self {
        let Signs {
            pid,
            locked_at,
            state,
            boot_id,
        } = signs;
        let since = |at: &str| clock::parse_rfc3339(at).map_or(0, |at| (now - at).max(0));
        match (pid, state) {
            // Without a file the lock says that there was one, which perhaps never got so far as to write.
            (None, None) => locked_at.map_or(Self::Never, |at| Self::Dead {
                ago_ms: (now - at).max(0),
                rebooted: false,
            }),
            (None, Some(state)) => match &state.ended_at {
                Some(ended_at) => Self::Stopped {
                    ago_ms: since(ended_at),
                },
                None => {
                    let rebooted = ![state.boot_id.as_str(), boot_id].contains(&"")
                        && state.boot_id != boot_id;
                    Self::Dead {
                        ago_ms: since(&state.updated_at),
                        rebooted,
                    }
                }
            },
            (Some(pid), Some(state)) if is_of(pid, state) => match since(&state.updated_at) {
                silent_ms if silent_ms > STALE_MS => Self::Stale { silent_ms },
                _ if state.stopping => Self::Stopping,
                _ => Self::Up,
            },
            (Some(_), _) => match locked_at.map_or(0, |at| (now - at).max(0)) {
                silent_ms if silent_ms > STALE_MS => Self::Stale { silent_ms },
                for_ms => Self::Starting { for_ms },
            },
        }
    }

    pub(super) fn exit(self) -> Exit {
        match self {
            Self::Up | Self::Starting { .. } | Self::Stopping => Exit::Ok,
            Self::Stale { .. } => Exit::Failed,
            Self::Never | Self::Stopped { .. } | Self::Dead { .. } => Exit::NoDaemon,
        }
    }
}

/// Returns whether the file was written by the process `pid` that holds the lock; when one of them
/// names no process, it is taken for so, and its age decides.
pub(super) fn is_of(pid: i32, state: &State) -> bool {
    pid == 0 || state.pid == 0 || u32::try_from(pid) == Ok(state.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000;

    fn file(pid: u32, age_ms: i64) -> State {
        State {
            pid,
            boot_id: "this".into(),
            updated_at: clock::rfc3339(NOW - age_ms),
            ..State::default()
        }
    }

    fn check(pid: Option<i32>, state: Option<&State>, life: Life, exit: Exit) {
        let signs = Signs {
            pid,
            locked_at: Some(NOW - 5),
            state,
            boot_id: "this",
        };
        let found = Life::of(signs, NOW);
        assert_eq!((found, found.exit()), (life, exit), "{signs:?}");
    }

    #[test]
    fn a_daemon_that_holds_its_lock_and_writes_is_up() {
        check(Some(7), Some(&file(7, 0)), Life::Up, Exit::Ok);
        check(Some(7), Some(&file(7, -3000)), Life::Up, Exit::Ok);
        check(Some(7), Some(&file(7, 60_000)), Life::Up, Exit::Ok);
        check(
            Some(7),
            Some(&file(7, 60_001)),
            Life::Stale { silent_ms: 60_001 },
            Exit::Failed,
        );
        check(
            Some(7),
            Some(&State {
                stopping: true,
                ..file(7, 9)
            }),
            Life::Stopping,
            Exit::Ok,
        );
        let ended = State {
            stopping: true,
            ended_at: Some(clock::rfc3339(NOW)),
            ..file(7, 9)
        };
        check(Some(7), Some(&ended), Life::Stopping, Exit::Ok);
    }

    #[test]
    fn a_file_of_the_daemon_before_is_no_sign_of_this_one() {
        check(Some(7), None, Life::Starting { for_ms: 5 }, Exit::Ok);
        check(
            Some(7),
            Some(&file(6, 3_600_000)),
            Life::Starting { for_ms: 5 },
            Exit::Ok,
        );
        for (pid, state) in [(0, file(6, 61_000)), (7, file(0, 61_000))] {
            check(
                Some(pid),
                Some(&state),
                Life::Stale { silent_ms: 61_000 },
                Exit::Failed,
            );
        }
        let hung = Signs {
            pid: Some(7),
            locked_at: Some(NOW - 61_000),
            state: None,
            boot_id: "",
        };
        assert_eq!(Life::of(hung, NOW), Life::Stale { silent_ms: 61_000 });
    }

    #[test]
    fn without_a_lock_the_file_says_how_it_ended() {
        let nothing = Signs {
            pid: None,
            locked_at: None,
            state: None,
            boot_id: "",
        };
        assert_eq!(
            (Life::of(nothing, NOW), Life::Never.exit()),
            (Life::Never, Exit::NoDaemon)
        );
        check(
            None,
            None,
            Life::Dead {
                ago_ms: 5,
                rebooted: false,
            },
            Exit::NoDaemon,
        );
        check(
            None,
            Some(&file(7, 9)),
            Life::Dead {
                ago_ms: 9,
                rebooted: false,
            },
            Exit::NoDaemon,
        );
        check(
            None,
            Some(&State {
                boot_id: "other".into(),
                ..file(7, 9)
            }),
            Life::Dead {
                ago_ms: 9,
                rebooted: true,
            },
            Exit::NoDaemon,
        );
        check(
            None,
            Some(&State::default()),
            Life::Dead {
                ago_ms: 0,
                rebooted: false,
            },
            Exit::NoDaemon,
        );
        let ended = State {
            ended_at: Some(clock::rfc3339(NOW - 4)),
            ..file(7, 9)
        };
        check(
            None,
            Some(&ended),
            Life::Stopped { ago_ms: 4 },
            Exit::NoDaemon,
        );
        let killed = State {
            stopping: true,
            ..file(7, 9)
        };
        check(
            None,
            Some(&killed),
            Life::Dead {
                ago_ms: 9,
                rebooted: false,
            },
            Exit::NoDaemon,
        );
    }
}

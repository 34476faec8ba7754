//! Whether the wall clock can be trusted. An empty battery or a wrong server may set it years ahead, and actions based on it
//! (deleting old data, sending reminders) cannot be undone.
//!
//! A clock is trusted if it is near the last known time plus the time that has passed since, or known to be synchronised. Any
//! other clock is trusted after a day of running: then the machine really was off for so long. The known time survives a
//! restart in `monitor.json`.
#![expect(
    unsafe_code,
    reason = "adjtimex has no safe form; the block says why it is sound"
)]

use std::path::Path;

use parking_lot::Mutex;

use crate::clock::{self, Moment};

/// A machine may be off for so long, and its clock is believed: clocks that are wrong are so by years.
const LEEWAY_MS: i64 = 45 * 24 * 3_600_000;
/// A clock that nothing confirms is believed after so long.
const DOUBTED_MS: i64 = 24 * 3_600_000;
/// The kernel's clock and ours are one; a process that is shown another has no clock that is synchronised.
const SAME_MS: i64 = 60_000;
/// systemd-timesyncd touches it at each answer of a server; the kernel is not asked where a unit has `ProtectClock=`.
const TIMESYNCD: &str = "/run/systemd/timesync/synchronized";
/// It asks one at least this often (2048 s, timesyncd.conf(5)), and twice that.
const SYNCED_MS: i64 = 4_096_000;

/// The newest time that was believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Known {
    /// That time, milliseconds since 1970 UTC.
    pub at: i64,
    /// For how long the clock was doubted since, milliseconds of running.
    pub doubted_ms: i64,
}

/// What to think of the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// It may be right.
    Plausible,
    /// It is far ahead of all that is known.
    Ahead {
        /// What time it is by what was known and has passed since, milliseconds since 1970 UTC.
        known_at: i64,
    },
    /// It is far behind.
    Behind,
}

/// A clock that went back by more was set: leap seconds and a slow oscillator are far less.
const SET_BACK_MS: i64 = 3_600_000;

/// What the daemon of this process knows.
struct Check {
    known: Known,
    /// When it was asked last.
    asked: Moment,
    /// Whether it was asked already: what was known before is of another boot, maybe.
    is_running: bool,
    was_set_back: bool,
}

/// `None` in programs that do not look.
static CHECK: Mutex<Option<Check>> = Mutex::new(None);

/// Begins with what an earlier daemon knew; one that knows nothing believes the clock.
pub fn begin(known: Option<Known>) {
    let known = known.unwrap_or(Known {
        at: clock::now_ms(),
        doubted_ms: 0,
    });
    *CHECK.lock() = Some(Check {
        known,
        asked: Moment::now(),
        is_running: false,
        was_set_back: false,
    });
}

/// Returns what is known now, to be kept; `None` in a program that does not look.
pub fn known() -> Option<Known> {
    CHECK.lock().as_ref().map(|check| check.known)
}

/// Returns true once the clock was set back by more than an hour while this process ran, and may be right since.
pub fn was_set_back() -> bool {
    CHECK
        .lock()
        .as_ref()
        .is_some_and(|check| check.was_set_back)
}

/// Returns what to think of `now`, milliseconds since 1970 UTC. It is to be asked from time to time, or a slow clock is not
/// told from one that jumped.
pub fn read(now: i64) -> Reading {
    let mut check = CHECK.lock();
    let Some(check) = check.as_mut() else {
        return Reading::Plausible;
    };
    let moment = Moment::now();
    let passed = i64::try_from(moment.since(check.asked).as_millis()).unwrap_or(i64::MAX);
    check.asked = moment;
    check.read(passed, now, || is_synchronised(now))
}

impl Check {
    /// Does [`read`] after `passed_ms`.
    fn read(
        &mut self,
        passed_ms: i64,
        now: i64,
        is_synchronised: impl FnOnce() -> bool,
    ) -> Reading {
        let expected = self.known.at.saturating_add(passed_ms);
        let (known, reading) = judge(self.known, passed_ms, now, is_synchronised);
        self.known = known;
        let is_back = reading == Reading::Plausible && now < expected.saturating_sub(SET_BACK_MS);
        self.was_set_back |= self.is_running && is_back;
        self.is_running = true;
        reading
    }
}

/// Returns what is known after `passed_ms` at which the clock shows `now`, and what to think of it.
fn judge(
    known: Known,
    passed_ms: i64,
    now: i64,
    is_synchronised: impl FnOnce() -> bool,
) -> (Known, Reading) {
    let expected = known.at.saturating_add(passed_ms);
    let ahead = now.saturating_sub(expected);
    let doubted_ms = known.doubted_ms.saturating_add(passed_ms);
    let is_near = ahead.saturating_abs() <= LEEWAY_MS;
    let is_old_doubt = known.doubted_ms > 0 && doubted_ms >= DOUBTED_MS;
    if is_near || is_old_doubt || is_synchronised() {
        let known = Known {
            at: now,
            doubted_ms: 0,
        };
        return (known, Reading::Plausible);
    }
    let reading = if ahead > 0 {
        Reading::Ahead { known_at: expected }
    } else {
        Reading::Behind
    };
    let known = Known {
        at: expected,
        // The first doubt may follow a long sleep in which there was none.
        doubted_ms: if known.doubted_ms == 0 { 1 } else { doubted_ms },
    };
    (known, reading)
}

/// Returns whether the clock that shows `now` is known to be synchronised.
fn is_synchronised(now: i64) -> bool {
    let is_near = |at: i64, most: i64| at.saturating_sub(now).saturating_abs() < most;
    synchronised_ms().is_some_and(|kernel| is_near(kernel, SAME_MS))
        || super::modified_at(Path::new(TIMESYNCD)).is_some_and(|at| is_near(at, SYNCED_MS))
}

/// Returns the kernel's time, milliseconds since 1970 UTC, while something keeps it synchronised (adjtimex(2)).
fn synchronised_ms() -> Option<i64> {
    // SAFETY: a `timex` is plain numbers, of which all may be 0; with `modes` 0 the kernel changes nothing and fills it.
    let (state, time) = unsafe {
        let mut time: nix::libc::timex = std::mem::zeroed();
        (nix::libc::adjtimex(&raw mut time), time)
    };
    let is_synchronised =
        state >= 0 && state != nix::libc::TIME_ERROR && time.status & nix::libc::STA_UNSYNC == 0;
    is_synchronised.then(|| time.time.tv_sec.saturating_mul(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * 3_600_000;
    const NOW: i64 = 20_000 * DAY;

    #[test]
    fn a_clock_that_is_set_back_while_we_look_is_known_and_one_before_the_start_is_not() {
        let mut check = Check {
            known: Known {
                at: NOW,
                doubted_ms: 0,
            },
            asked: Moment::now(),
            is_running: false,
            was_set_back: false,
        };
        let hour = 3_600_000;
        let mut read = |now: i64, expected: bool| {
            assert_eq!(check.read(5_000, now, || false), Reading::Plausible);
            assert_eq!(check.was_set_back, expected, "{now}");
        };
        read(NOW - 8 * hour, false);
        read(NOW - 8 * hour + 5_000, false);
        read(NOW, false);
        read(NOW - hour / 2, false);
        read(NOW - 8 * hour, true);
        read(NOW - 8 * hour + 5_000, true);
    }

    #[test]
    fn a_clock_far_from_what_is_known_is_doubted_for_a_day_of_running() {
        let known = Known {
            at: NOW,
            doubted_ms: 0,
        };
        let at = |at| Known { at, doubted_ms: 0 };
        let check = |now, synchronised, expected| {
            assert_eq!(judge(known, 5_000, now, || synchronised), expected, "{now}");
        };
        check(NOW + 5_000, false, (at(NOW + 5_000), Reading::Plausible));
        check(
            NOW + 45 * DAY,
            false,
            (at(NOW + 45 * DAY), Reading::Plausible),
        );
        check(NOW - DAY, false, (at(NOW - DAY), Reading::Plausible));
        // A home that really was off for two months, and a machine that knows the time.
        check(
            NOW + 60 * DAY,
            true,
            (at(NOW + 60 * DAY), Reading::Plausible),
        );
        let doubted = |at| Known { at, doubted_ms: 1 };
        let ahead = Reading::Ahead {
            known_at: NOW + 5_000,
        };
        check(NOW + 3650 * DAY, false, (doubted(NOW + 5_000), ahead));
        check(i64::MAX, false, (doubted(NOW + 5_000), ahead));
        check(0, false, (doubted(NOW + 5_000), Reading::Behind));
        check(i64::MIN, false, (doubted(NOW + 5_000), Reading::Behind));

        // Whatever is restarted meanwhile: what is known continues.
        let far = |hour: i64| NOW + 3650 * DAY + hour * 3_600_000;
        let mut known = known;
        for hour in 1..=24 {
            let (knows, reading) = judge(known, 3_600_000, far(hour), || false);
            known = knows;
            let known_at = NOW + hour * 3_600_000;
            assert_eq!(reading, Reading::Ahead { known_at }, "{hour}");
        }
        // And a clock that is right again is believed at once.
        let right = NOW + DAY + 3_600_000;
        assert_eq!(
            judge(known, 3_600_000, right, || false),
            (at(right), Reading::Plausible)
        );
        assert_eq!(
            judge(known, 3_600_000, far(25), || false),
            (at(far(25)), Reading::Plausible)
        );
        // A long sleep before the first doubt is no doubt.
        let slept = judge(at(NOW), 40 * DAY, NOW + 400 * DAY, || false);
        assert_eq!(
            slept.1,
            Reading::Ahead {
                known_at: NOW + 40 * DAY
            }
        );
    }
}

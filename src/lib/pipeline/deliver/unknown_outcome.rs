//! Sends whose outcome is unknown: the request was written and no answer came, or the daemon died meanwhile. The part is sent
//! again, marked "(resent)", until it was tried too often or for too long.

use std::time::Duration;

use super::retry::Next;
use crate::queue::Part;

/// A part that may have arrived longer ago than this is not sent again (specification §0).
const TOO_OLD_MS: i64 = 15 * 60 * 1000;
/// Waiting after a second doubt about what a process did with a part.
const AFTER_DOUBTS: Duration = Duration::from_secs(60);
/// Times a part may end unknown. The first bad luck is answered by a marked copy, and so is a
/// second: losing an answer is worse than a marked double.
const MAX_UNKNOWNS: i64 = 3;

/// Returns true when a part may have arrived already: then it is sent with the mark "(resent)".
pub(super) fn is_resent(part: &Part) -> bool {
    part.unknowns > 0
}

/// Returns true when a part is not sent again, since nobody can say whether it arrived. `outlives_us` says that its
/// channel is a process of its own.
pub(super) fn is_given_up(part: &Part, outlives_us: bool, now: i64) -> bool {
    // Where it may have waited for a process, its age says nothing.
    let too_old = !outlives_us && part.sending_at.is_some_and(|at| now - at > TOO_OLD_MS);
    part.unknowns >= MAX_UNKNOWNS || (is_resent(part) && too_old)
}

/// Returns what follows a try, later after a second doubt: a process that dies of a part is not to die of it three times
/// within a minute.
pub(super) fn slow_down(next: Next, part: &Part, outlives_us: bool) -> Next {
    match next {
        Next::Again(wait) if outlives_us && part.unknowns > 1 => {
            Next::Again(wait.max(AFTER_DOUBTS))
        }
        next => next,
    }
}

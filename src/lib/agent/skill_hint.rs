//! The hint that a long turn receives once: it may propose a skill.

use super::interrupted_turn::message;
use super::tool::SKILL_PROPOSE;
use super::turn_loop::Running;
use crate::message::{Block, Role};
use crate::session::Kind;

/// At this many calls the model is told.
const HARD: u32 = 8;

impl Running<'_> {
    /// Returns what a long turn is told once, where a skill could be proposed.
    pub(super) fn skill_hint(&self) -> Option<Kind> {
        let calls = self.session.state().turn.as_ref()?.calls;
        let is_owners = self.order.from_owner && self.order.source.is_person() && !self.others_read;
        let may = is_owners
            && self.order.form.is_none()
            && self.offer.get(SKILL_PROPOSE).is_some()
            && !self.session.state().exposure().any();
        (calls == HARD && may).then(|| {
            let text = format!(
                "This has taken {HARD} steps. If it is likely to be asked again, propose a skill ({SKILL_PROPOSE}) before you answer; else go on."
            );
            message(self.order.run_id, Role::User, Block::context(text))
        })
    }
}

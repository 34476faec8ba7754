//! Do copies of this home reach its standby, and could that take over? Is this home one that may run?

use super::Finding;
use super::patient::Patient;
use crate::standby;
use crate::standby::Role;

/// Returns whether the home waits: then there is no agent in it that could be looked at.
pub(super) fn waits(patient: &Patient) -> bool {
    let record = standby::read(&patient.home).ok().flatten();
    record.is_some_and(|record| matches!(record.role, Role::Standby | Role::Promoting))
}

pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    let command = patient.agent("standby --status");
    match standby::read(&patient.home) {
        Ok(record) => {
            let alarm = record.and_then(|record| record.alarm(patient.now));
            let finding = |alarm| Finding::warning("standby-trouble", alarm, command);
            alarm.map(finding).into_iter().collect()
        }
        Err(error) => vec![Finding::error(
            "standby-trouble",
            error.to_string(),
            command,
        )],
    }
}

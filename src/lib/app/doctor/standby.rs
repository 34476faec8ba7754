//! Checks whether copies of this home reach its standby, whether the standby could take over, and whether this home may
//! run.

use super::Finding;
use super::context::DoctorContext;
use crate::app::cli::Failure;
use crate::standby;
use crate::standby::Role;

/// Returns whether the home waits: then there is no agent in it that could be looked at.
pub(super) fn waits(context: &DoctorContext) -> bool {
    let record = standby::read(&context.home).ok().flatten();
    record.is_some_and(|record| matches!(record.role, Role::Standby | Role::Promoting))
}

pub(super) fn check(context: &DoctorContext) -> Vec<Finding> {
    let command = context.agent("standby --status");
    match standby::read(&context.home) {
        Ok(None) => Vec::new(),
        Ok(Some(record)) => {
            let is_away = !matches!(record.role, Role::Primary | Role::Standby);
            let refused = standby::may_run(&context.home).err().filter(|_| is_away);
            let step = refused.and_then(|error| Failure::from(error).hint);
            let step = step.map_or_else(String::new, |step| format!("; {step}"));
            let finding =
                |alarm| Finding::warning("standby-trouble", format!("{alarm}{step}"), command);
            let alarm = record.alarm(context.now);
            alarm.map(finding).into_iter().collect()
        }
        Err(error) => vec![Finding::error(
            "standby-trouble",
            error.to_string(),
            command,
        )],
    }
}

//! Starting and restarting the daemon on this machine: by systemd where a unit is installed,
//! by hand elsewhere.

use super::context::DoctorContext;
use crate::app::systemd_unit::Unit;

/// Returns the command that starts the daemon.
pub(super) fn start(context: &DoctorContext) -> String {
    let by_unit = unit(context).and_then(|unit| unit.start());
    by_unit.unwrap_or_else(|| context.agent("run"))
}

/// Returns the command that ends the daemon `pid` and starts another one. Nothing is lost by it.
pub(super) fn restart(context: &DoctorContext, pid: i32) -> String {
    let unit = std::fs::read_to_string(format!("/proc/{pid}/cgroup"))
        .ok()
        .and_then(|text| unit_of(&text));
    let by_unit = unit.map(|(unit, of_user)| match of_user {
        true => format!("systemctl --user restart {unit}"),
        false => format!("sudo systemctl restart {unit}"),
    });
    by_unit.unwrap_or_else(|| {
        let sudo = context.sudo();
        format!(
            "{sudo}kill {pid} && tail --pid={pid} -f /dev/null; {}",
            context.agent("run")
        )
    })
}

/// Returns the command that ends a daemon which hears nothing any more, and starts another one.
pub(super) fn replace(context: &DoctorContext, pid: i32) -> String {
    let restart = restart(context, pid);
    if restart.contains("systemctl") {
        restart
    } else {
        format!("{}kill -9 {pid}; {}", context.sudo(), context.agent("run"))
    }
}

/// Returns the unit that would start this agent. It may give it secrets that we do not see.
pub(super) fn unit(context: &DoctorContext) -> Option<Unit> {
    Unit::of(&context.env, &context.home)
}

/// Returns the unit that a line of `/proc/PID/cgroup` names, and whether it is a user's.
fn unit_of(cgroup: &str) -> Option<(String, bool)> {
    let path = cgroup.lines().find_map(|line| line.strip_prefix("0::"))?;
    let name = path
        .rsplit('/')
        .find(|part| part.starts_with("agent-daemon") && part.ends_with(".service"))?;
    Some((
        name.to_owned(),
        path.contains("/user.slice/") || path.starts_with("/user.slice"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unit_of_a_process_is_read_off_its_control_group() {
        let user = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/agent-daemon@work.service\n";
        assert_eq!(
            unit_of(user),
            Some(("agent-daemon@work.service".to_owned(), true))
        );
        assert_eq!(
            unit_of("0::/system.slice/agent-daemon.service\n"),
            Some(("agent-daemon.service".to_owned(), false))
        );
        assert_eq!(
            unit_of("0::/user.slice/user-1000.slice/session-1.scope\n"),
            None
        );
        assert_eq!(unit_of("1:name=systemd:/\n"), None);
    }
}

#!/usr/bin/env bash
# The agent's daemon on a machine without systemd: start|stop|restart|status|logs. It is no program of $PATH: in the
# sources it is scripts/agent.sh, installed PREFIX/share/agent-toolkit/scripts/agent.sh.
#
#   agent.sh start
#   AGENT_HOME=/srv/agent agent.sh start           an agent with a home of its own
#   AGENT_INSTANCE=work agent.sh start             several agents of one person
#   @reboot /usr/local/share/agent-toolkit/scripts/agent.sh start      a line for crontab -e
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)

# The programs: installed (share/agent-toolkit/scripts), built beside this script, or in PATH.
for bin in "$here/../../../bin" "$here/../target/release" "$here/../target/debug" ''; do
    [[ ! -x $bin/agent-daemon ]] || break
done
if [[ -n $bin ]]; then
    bin=$(cd -- "$bin" && pwd)
    export PATH="$bin:${PATH:-/usr/local/bin:/usr/bin:/bin}"
fi
[[ -n ${HOME-} ]] || HOME=$(getent passwd "$(id -u)" | cut -d: -f6) || HOME=
export HOME
if [[ -z $HOME && -z ${AGENT_HOME-} ]]; then
    printf 'error: HOME is not set, and user %s has no entry in /etc/passwd\nhint: set HOME, or AGENT_HOME to the directory of the agent\n' "$(id -u)" >&2
    exit 1
fi

suffix=${AGENT_INSTANCE:+-$AGENT_INSTANCE}
if [[ -n ${AGENT_HOME-} ]]; then
    state=$AGENT_HOME$suffix/state
else
    state=${XDG_STATE_HOME:-$HOME/.local/state}/agent$suffix
fi

SERVICE_NAME=agent-daemon$suffix
SERVICE_DIR=$state/service
CACHE_PATHS=("$state/index.db" "$state/index.vec")

startup_command() { exec agent-daemon run; }

# It serves when its monitor file names it. The first start after an upgrade copies and migrates the databases, which takes
# minutes where they are large: killed there it would begin anew each time.
# shellcheck disable=SC2153 # lib.sh sets SERVICE_PID
post_startup_hook() {
    local try pause=0.1
    for ((try = 1; try <= 1000; try++)); do
        [[ $(agent-monitor 2>/dev/null || true) != *"pid $SERVICE_PID "* ]] || return 0
        check_running || return 1
        if ((try == 200)); then
            log_info "$SERVICE_NAME is not ready yet: it may be migrating its databases"
            pause=1
        fi
        sleep "$pause"
    done
    return 1
}

# A daemon that was started by hand or by a unit serves the same home.
foreign_pid() {
    local state
    state=$(agent-monitor 2>/dev/null) || true
    [[ ${state%%$'\n'*} =~ \ pid\ ([0-9]+)\  ]] && printf '%s' "${BASH_REMATCH[1]}"
}

custom_help() {
    printf '\n%s\n%s\n' "Its files: $SERVICE_DIR/$SERVICE_NAME.{pid,log}" \
        'AGENT_HOME and AGENT_INSTANCE choose the agent, as for the programs.'
}

# shellcheck source=scripts/lib.sh
source "$here/lib.sh"

command -v agent-daemon >/dev/null || {
    log_error 'agent-daemon is not in PATH'
    log_info 'scripts/install puts it there'
    exit 1
}
# The directory of the log would pass for a home, and a daemon would run in it without settings and limits.
if [[ ${1-} =~ ^(start|stop|restart)$ && ! -d $state ]]; then
    code=0
    agent-monitor >/dev/null || code=$?
    ((code != 78)) || exit 1
fi
main "$@"

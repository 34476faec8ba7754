#!/usr/bin/env bash
# Functions for service scripts on machines without systemd: start, stop, restart, status, logs.
#
# A service script sets SERVICE_NAME and SERVICE_DIR, defines startup_command, sources this file and calls
# main "$@"; agent.sh is the example. What it may define besides:
#
#   startup_command     replaces the shell by the program: exec NAME ARGUMENT…
#   post_startup_hook   waits until the program serves; its failure is a failed start
#   foreign_pid         prints the process id of the service when something else started it
#   custom_help         prints more help
#
#   SERVICE_NAME    the name in messages and of the files
#   SERVICE_DIR     holds NAME.pid (the process id, then what tells that process from a later one), NAME.log and
#                   NAME.log.1 to NAME.log.5
#   STOP_WAIT       seconds after SIGINT, 30; then SIGTERM
#   TERM_WAIT       seconds after SIGTERM, 2; then SIGKILL
#   LOG_MAX         bytes at which the log is rotated at a start, 10 MiB
#   CACHE_PATHS     an array: what clean_cache may remove
#
# Exit codes: 0 done, 1 failed, 2 usage, 3 (status) not running.

: "${STOP_WAIT:=30}" "${TERM_WAIT:=2}" "${LOG_MAX:=10485760}"
LOG_GENERATIONS=5

# ── Messages, on standard error ──

_log() {
    local color=$1 mark=$2
    shift 2
    if [[ -t 2 && -z ${NO_COLOR-} && ${TERM-dumb} != dumb ]]; then
        printf '\e[%sm%s\e[0m %s\n' "$color" "$mark" "$*" >&2
    else
        printf '%s %s\n' "$mark" "$*" >&2
    fi
}

log_info() { _log 2 ' ' "$*"; }
log_success() { _log 32 '✓' "$*"; }
log_warning() { _log 33 'warning:' "$*"; }
log_error() { _log 31 'error:' "$*"; }

# ── Checks ──

# check_script FILE: true when it can be run.
check_script() {
    [[ -f $1 && -x $1 ]] && return 0
    log_error "$1 is not a program that can be run"
    return 1
}

# check_env NAME…: true when all these variables have a value.
check_env() {
    local name
    for name; do
        [[ -n ${!name-} ]] && continue
        log_error "\$$name is not set"
        return 1
    done
}

# shellcheck disable=SC2153 # the service script sets it
pid_file() { printf '%s/%s.pid' "$SERVICE_DIR" "$SERVICE_NAME"; }
log_file() { printf '%s/%s.log' "$SERVICE_DIR" "$SERVICE_NAME"; }

# _identity PID: what tells this process from any other that has its number later: when it began, and since
# which start of the machine.
_identity() {
    local stat boot
    { read -r stat <"/proc/$1/stat"; } 2>/dev/null || return 1
    # The name may hold spaces and brackets; behind it the state is the first field, the start the twentieth.
    local -a fields
    read -ra fields <<<"${stat##*) }"
    [[ ${fields[0]} != Z ]] || return 1
    read -r boot </proc/sys/kernel/random/boot_id || return 1
    printf '%s %s' "$boot" "${fields[19]}"
}

# check_running: true when the service runs; its process id is in SERVICE_PID. A file that another process
# left behind is removed.
check_running() {
    local file identity=''
    SERVICE_PID=''
    file=$(pid_file)
    [[ -f $file ]] || return 1
    { read -r SERVICE_PID && read -r identity; } <"$file" || true
    if [[ $SERVICE_PID =~ ^[0-9]+$ && -n $identity && $(_identity "$SERVICE_PID") == "$identity" ]]; then
        return 0
    fi
    SERVICE_PID=''
    rm -f -- "$file" 2>/dev/null || true
    return 1
}

# ── Preparation ──

# setup_environment: what cron and a bare shell leave unset.
setup_environment() {
    umask 077
    if [[ -z ${HOME-} ]]; then
        HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
        export HOME
    fi
    export PATH="${PATH:-/usr/local/bin:/usr/bin:/bin}" LANG="${LANG:-C.UTF-8}"
    mkdir -p -- "$SERVICE_DIR" || {
        log_error "cannot make $SERVICE_DIR"
        return 1
    }
}

# rotate_logs [FILE]: the log becomes NAME.1, and so on; of five the oldest goes. A program that runs keeps
# writing to its file, so that one is copied and emptied.
rotate_logs() {
    local log n
    log=${1:-$(log_file)}
    [[ -s $log ]] || return 0
    for ((n = LOG_GENERATIONS - 1; n > 0; n--)); do
        [[ ! -f $log.$n ]] || mv -f -- "$log.$n" "$log.$((n + 1))"
    done
    if check_running; then
        cp -p -- "$log" "$log.1" && : >"$log"
    else
        mv -f -- "$log" "$log.1"
    fi
}

# clean_cache: removes what the service can make again; not while it runs.
clean_cache() {
    if check_running; then
        log_error "$SERVICE_NAME runs (pid $SERVICE_PID): stop it first"
        return 1
    fi
    local path
    for path in ${CACHE_PATHS[@]+"${CACHE_PATHS[@]}"}; do
        [[ -e $path ]] || continue
        rm -rf -- "$path"
        log_info "removed $path"
    done
}

# ── Start and stop ──

_is_large() { [[ -f $1 ]] && (($(stat -c %s -- "$1") >= LOG_MAX)); }

start_server() {
    setup_environment || return 1
    local lock
    exec {lock}>"$SERVICE_DIR/$SERVICE_NAME.lock"
    if ! flock -w 5 "$lock"; then
        log_error "another start of $SERVICE_NAME is under way"
        return 1
    fi
    local code=0
    _start "$lock" || code=$?
    exec {lock}>&-
    return "$code"
}

# _start LOCK: the program must not inherit the lock.
_start() {
    if check_running; then
        log_info "$SERVICE_NAME runs already (pid $SERVICE_PID)"
        return 0
    fi
    ! _is_large "$(log_file)" || rotate_logs "$(log_file)"
    local pid identity lock=$1
    # A session of its own: it stays when the terminal goes.
    export -f startup_command
    setsid -- bash -c startup_command >>"$(log_file)" 2>&1 </dev/null {lock}>&- &
    pid=$!
    disown "$pid" 2>/dev/null || true
    identity=$(_identity "$pid") || {
        log_error "$SERVICE_NAME ended at once"
        show_recent_logs
        return 1
    }
    printf '%s\n%s\n' "$pid" "$identity" >"$(pid_file)"
    if ! post_startup_hook || ! check_running; then
        log_error "$SERVICE_NAME did not start; its log:"
        show_recent_logs
        ! check_running || stop_server
        return 1
    fi
    log_success "$SERVICE_NAME runs (pid $pid)"
}

# _ended SECONDS: waits until the service has ended.
_ended() {
    local tenths=$(($1 * 10))
    while check_running; do
        ((tenths-- > 0)) || return 1
        sleep 0.1
    done
}

# stop_server: SIGINT, then SIGTERM, then SIGKILL, each after its time.
stop_server() {
    if ! check_running; then
        local other
        other=$(foreign_pid) || other=''
        if [[ -n $other ]]; then
            log_error "$SERVICE_NAME runs (pid $other) and was not started here; end it with: kill $other"
            return 1
        fi
        log_info "$SERVICE_NAME does not run"
        return 0
    fi
    local pid=$SERVICE_PID signal wait
    for signal in INT TERM KILL; do
        case $signal in
            INT) wait=$STOP_WAIT ;;
            TERM) wait=$TERM_WAIT ;;
            *) wait=5 ;;
        esac
        [[ $signal == INT ]] || log_warning "$SERVICE_NAME still runs: SIG$signal"
        kill -s "$signal" -- "$pid" 2>/dev/null || true
        if _ended "$wait"; then
            log_success "$SERVICE_NAME has ended"
            return 0
        fi
    done
    log_error "$SERVICE_NAME (pid $pid) does not end"
    return 1
}

restart_server() { stop_server && start_server; }

# ── What is to be seen ──

show_status() {
    if check_running; then
        printf '%s runs (pid %s)\n' "$SERVICE_NAME" "$SERVICE_PID"
        return 0
    fi
    local other
    other=$(foreign_pid) || other=''
    if [[ -n $other ]]; then
        printf '%s runs (pid %s), started by something else\n' "$SERVICE_NAME" "$other"
        return 0
    fi
    printf '%s does not run\n' "$SERVICE_NAME"
    return 3
}

# show_recent_logs [LINES]
show_recent_logs() {
    if [[ -f $(log_file) ]]; then
        tail -n "${1:-20}" -- "$(log_file)"
    else
        log_info "there is no log yet: $(log_file)"
    fi
}

# show_logs: the log, and what is added to it.
show_logs() { tail -n 50 -F -- "$(log_file)"; }

# ── Hooks that a service script may replace, and its commands ──

declare -F post_startup_hook >/dev/null || post_startup_hook() { sleep 0.3; }
declare -F foreign_pid >/dev/null || foreign_pid() { :; }
declare -F custom_help >/dev/null || custom_help() { :; }

show_help() {
    cat <<TEXT
usage: $(basename -- "$0") start|stop|restart|status|logs [-f]|rotate|clean

  start      start $SERVICE_NAME and wait until it serves
  stop       SIGINT, after $STOP_WAIT s SIGTERM, after $TERM_WAIT s SIGKILL
  restart    both
  status     exit code 0 when it runs, 3 when not
  logs [-f]  the end of the log; -f: and what comes
  rotate     begin a new log; five old ones are kept
  clean      remove what can be made again
TEXT
    custom_help
}

main() {
    case ${1-} in
        start) start_server ;;
        stop) setup_environment && stop_server ;;
        restart) setup_environment && restart_server ;;
        status) show_status ;;
        logs) if [[ ${2-} == -f ]]; then show_logs; else show_recent_logs 50; fi ;;
        rotate) rotate_logs "$(log_file)" ;;
        clean) clean_cache ;;
        help | -h | --help) show_help ;;
        *)
            show_help >&2
            return 2
            ;;
    esac
}

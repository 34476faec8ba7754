_agent_values() {
    local IFS=$'\n' known
    known=$("$1" --complete "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)
    if [[ -n $known ]]; then
        COMPREPLY=($(compgen -W "$known" -- "${COMP_WORDS[COMP_CWORD]}"))
    else
        unset IFS
        "_${1//-/__}" "$@"
    fi
}
_agent__send_values() { _agent_values agent-send "${@:2}"; }
_agent__daemon_values() { _agent_values agent-daemon "${@:2}"; }
complete -F _agent__send_values -o bashdefault -o default agent-send
complete -F _agent__daemon_values -o bashdefault -o default agent-daemon

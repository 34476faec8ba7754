_agent_values() {
    local IFS=$'\n' known word=${COMP_WORDS[COMP_CWORD]}
    known=$("$1" --complete "${COMP_WORDS[@]:1:COMP_CWORD-1}" 2>/dev/null)
    [[ -z $known ]] || COMPREPLY=($(compgen -W "$known" -- "$word"))
    # A value may be left out, and another flag follow.
    if [[ -z $known || ( $word == -* && ${#COMPREPLY[@]} -eq 0 ) ]]; then
        unset IFS
        "_${1//-/__}" "$@"
    fi
}
_agent__send_values() { _agent_values agent-send "${@:2}"; }
_agent__daemon_values() { _agent_values agent-daemon "${@:2}"; }
complete -F _agent__send_values -o bashdefault -o default agent-send
complete -F _agent__daemon_values -o bashdefault -o default agent-daemon

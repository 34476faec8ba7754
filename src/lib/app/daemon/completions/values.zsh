zmodload zsh/parameter
functions[_agent-send_flags]=$functions[_agent-send]
functions[_agent-daemon_flags]=$functions[_agent-daemon]
_agent_values() {
    local -a known
    known=(${(f)"$($1 --complete ${(Q)words[2,CURRENT-1]} 2>/dev/null)"})
    # A value may be left out, and another flag follow.
    if (( ! $#known )) || { ! compadd -- $known && [[ $words[CURRENT] == -* ]] }; then
        _${1}_flags "${@:2}"
    fi
}
_agent-send() { _agent_values agent-send "$@" }
_agent-daemon() { _agent_values agent-daemon "$@" }

for flag in session history reset model tier to tz approve deny
    complete -c agent-send -l $flag -x -a '(agent-send --complete --'$flag' 2>/dev/null)'
end
for program in agent-send agent-daemon
    complete -c $program -a '('$program' --complete (commandline -opc)[2..-1] 2>/dev/null)'
    complete -c $program -f -n 'count ('$program' --complete (commandline -opc)[2..-1] 2>/dev/null) >/dev/null'
end

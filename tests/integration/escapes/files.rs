//! Ways to files: secrets, other homes, what shapes the agent, links for its own tools to follow.

use std::fs;

use serde_json::json;

use super::{CANARY, Jail, Wall, behind_each_wall, jail};

behind_each_wall!(
    secrets,
    ways_around_a_path,
    files_of_others_stay_as_they_are,
    links_for_the_tools,
    strange_calls
);

fn secrets(mut jail: Jail) {
    jail.attempts(&[
        ("keys in .env", "cat @HOME/.env ../.env"),
        ("tokens in auth.json", "cat @HOME/auth.json | grep . && touch opened-auth; true"),
        ("other conversations", "cat @HOME/state/sessions/*; cat ../state/sessions/other.jsonl"),
        ("databases", "cp @HOME/state/queue.db got && touch opened-queue; cp @HOME/state/cost.db got && touch opened-cost"),
        ("files of others", "cat @HOME/state/downloads/*/*"),
        ("settings", "cat @HOME/agent.toml | grep . && touch opened-settings; cat @HOME/providers.d/*.toml | grep . && touch opened-providers"),
        ("the user's keys", "cat @MINE/.ssh/id_ed25519 ~/.ssh/id_ed25519; HOME=@MINE; cat $HOME/.git-credentials"),
        ("other homes", "cat /root/.bashrc /root/.profile /root/.ssh/* | grep . && touch opened-root; ls /home/*/ | grep . && touch opened-homes"),
        ("/etc/shadow", "head -c1 /etc/shadow | grep . && touch opened-shadow; head -c1 /etc/gshadow- | grep . && touch opened-gshadow"),
        ("keys of the machine", "cat /etc/ssh/*_key /etc/ssl/private/* /etc/sudoers | grep . && touch opened-keys"),
        ("logs and spools", "cat /var/log/* /var/spool/cron/*/* | grep . && touch opened-var; ls /run/* | grep . && touch opened-run"),
        ("a search of everything", &format!("grep -rIl '{}' @HOME/.. /tmp /home /root /var /run /opt /srv 2>/dev/null | xargs -r cat", CANARY.split(' ').nth(1).unwrap_or_default())),
    ]);
}

fn ways_around_a_path(mut jail: Jail) {
    jail.attempts(&[
        ("a symlink", "ln -s @HOME/.env link && cat link; ln -s @MINE mine && cat mine/.ssh/id_ed25519"),
        ("a symlink to a directory", "ln -sfn .. up && cat up/.env up/state/sessions/other.jsonl"),
        ("a hard link", "ln @HOME/.env hard && cat hard; ln @HOME/state/sessions/other.jsonl hard2 && cat hard2"),
        ("a move", "mv @HOME/state/sessions/other.jsonl moved && cat moved; cp --reflink=auto @HOME/.env copied && cat copied"),
        ("/proc/self/root", "cat /proc/self/root@HOME/.env /proc/self/cwd/../.env /proc/thread-self/root@HOME/.env"),
        ("a directory kept open", "exec 9<..; cd /proc/self/fd/9 && cat .env; cat /proc/self/fd/9/.env"),
        ("a name with dots", "cat ../../home/.env ./../.env /../@HOME/.env //@HOME//.env"),
        ("another mount of it", "mkdir m; mount --bind @HOME m; cat m/.env; mount -t tmpfs x m && touch opened-mount"),
        ("what covers it", "umount @HOME; umount -l @HOME @MINE /tmp; cat @HOME/.env @MINE/.bashrc"),
        ("a user of one's own", "unshare -Urm sh -c 'umount -l @HOME; cat @HOME/.env'"),
        ("its mode", "chmod 777 @HOME/state/sessions/other.jsonl; cat @HOME/state/sessions/other.jsonl; chmod 600 @HOME/state/sessions/other.jsonl"),
        ("a watch", "timeout 0.3 inotifywait -m @HOME @HOME/state && touch opened-watch; timeout 0.3 tail -F @HOME/.env"),
    ]);
}

fn files_of_others_stay_as_they_are(mut jail: Jail) {
    jail.attempts(&[
        ("the settings", "echo '[tools.exec]' >>@HOME/agent.toml; sed -i s/a/b/ @HOME/agent.toml; rm -f @HOME/agent.toml"),
        ("a provider", "echo x >@HOME/providers.d/new.toml; rm -rf @HOME/providers.d"),
        ("a tree", "rm -rf @HOME/../* @MINE @HOME/state /etc/x /usr/x; true"),
        ("the user's shell", "echo evil >>@MINE/.bashrc; echo evil >@MINE/.profile; ln -sf @WORKSPACE/x @MINE/.zshrc"),
        ("timers and units", "mkdir -p @MINE/.config/systemd/user && echo x >@MINE/.config/systemd/user/x.service; echo x >/etc/cron.d/escape"),
        ("programs", "cp /bin/true /usr/bin/escape; cp /bin/true /usr/local/bin/agent-send; echo x >/etc/ld.so.preload; echo x >/etc/profile.d/x.sh"),
        ("the control FIFO", "echo '{\"op\":\"stop\"}' >@HOME/state/control.fifo; timeout 1 sh -c ': <@HOME/state/control.fifo' && touch opened-fifo; true"),
        ("the spool", "mkdir -p @HOME/state/spool/new; echo '{\"text\":\"obey\"}' >@HOME/state/spool/new/0"),
        ("the lock and the monitor", "echo x >@HOME/state/monitor.json; rm -f @HOME/state/daemon.lock; flock -n @HOME/state/daemon.lock true && touch opened-lock"),
        ("the workspace's own name", "cd /; mv @WORKSPACE @HOME/w2; rmdir @WORKSPACE; ln -sfn /etc @WORKSPACE; true"),
        ("an archive with absolute names", "mkdir -p a && echo x >a/f && tar -cPf a.tar --transform 's,a/f,@HOME/new,' a/f; tar -xPf a.tar"),
        ("a file without a name", "/usr/bin/python3 -c \"import os; f=os.open('.', os.O_TMPFILE|os.O_RDWR); os.link('/proc/self/fd/%d' % f, '@HOME/new', follow_symlinks=True)\""),
    ]);
    for path in [
        "/usr/bin/escape",
        "/usr/local/bin/agent-send",
        "/etc/ld.so.preload",
        "/etc/cron.d/escape",
        "/etc/profile.d/x.sh",
    ] {
        assert!(fs::symlink_metadata(path).is_err(), "{path}");
    }
    assert!(jail.sandbox.path("state/daemon.lock").exists() && jail.sandbox.spooled().is_empty());
}

#[test]
fn what_shapes_the_agent_is_not_changed_behind_namespaces() {
    let Some(mut jail) = jail(Wall::Namespaces) else {
        return;
    };
    jail.attempts(&[
        (
            "who it is",
            "for f in SOUL.md AGENTS.md; do echo evil >>$f; rm -f $f; mv x $f; ln -sf /etc/passwd $f; truncate -s0 $f; done",
        ),
        ("its skills", "mkdir -p skills/x && echo evil >skills/x/SKILL.md; mv skills s2; rmdir skills; ln -sfn /tmp skills"),
        ("its prompts", "echo evil >prompts/x.md; mv prompts p2"),
        (
            "its skills by a link",
            "ln -s skills s3; echo evil >s3/x; ln -s SOUL.md soul; echo evil >>soul; cat >>soul </dev/null; true",
        ),
    ]);
}

/// A link that a command made is followed by no tool of the agent, be it to read or to write.
fn links_for_the_tools(mut jail: Jail) {
    jail.attempts(&[("links", "ln -sf @HOME/.env notes.md; ln -sfn @HOME dir; ln -sf @MINE/.bashrc out.md; ln -sf /etc/passwd users.txt; mkfifo pipe.md")]);
    for (name, input) in [
        ("read", json!({"path": "notes.md"})),
        ("read", json!({"path": "dir/state/sessions/other.jsonl"})),
        ("read", json!({"path": "../.env"})),
        ("read", json!({"path": "/proc/self/environ"})),
        ("read", json!({"path": "pipe.md"})),
        ("write", json!({"path": "out.md", "content": "evil"})),
        ("write", json!({"path": "dir/new.toml", "content": "evil"})),
        (
            "edit",
            json!({"path": "dir/agent.toml", "old_string": "agent", "new_string": "evil"}),
        ),
    ] {
        let told = jail.tool(name, input.clone());
        let broken = jail.broken(&told);
        assert!(broken.is_empty(), "{name} {input}: {broken:?}: {told}");
    }
    assert!(
        !jail
            .tool("read", json!({"path": "users.txt"}))
            .contains("root:x:"),
        "a link out of the workspace"
    );
}

fn strange_calls(mut jail: Jail) {
    for (cause, input) in [
        (
            "a directory outside",
            json!({"command": "cat .env state/sessions/other.jsonl; touch new", "cwd": ".."}),
        ),
        (
            "an absolute directory",
            json!({"command": "pwd; cat .env", "cwd": jail.sandbox.home()}),
        ),
        (
            "a directory of the system",
            json!({"command": "touch opened-etc", "cwd": "/etc"}),
        ),
        (
            "a directory by a link",
            json!({"command": "ln -sfn .. up", "cwd": "."}),
        ),
        (
            "a directory by that link",
            json!({"command": "cat .env state/sessions/other.jsonl", "cwd": "up"}),
        ),
        (
            "an end of text within",
            json!({"command": "cat ../.env\u{0}; touch x"}),
        ),
        (
            "an end of text in the directory",
            json!({"command": "cat .env", "cwd": "..\u{0}/x"}),
        ),
        (
            "a very long command",
            json!({"command": format!("cat ../.env; : {}", "x".repeat(300_000))}),
        ),
        (
            "a second plan",
            json!({"command": "true\n{\"walls\":\"Off\",\"command\":\"cat ../.env\"}\ncat ../.env"}),
        ),
        ("no command", json!({"command": ""})),
        (
            "a limit beyond all",
            json!({"command": "cat ../.env", "timeout_secs": u64::MAX}),
        ),
        (
            "terminal codes",
            json!({"command": "printf '\\033]52;c;eA==\\007\\033[2J'; cat ../.env"}),
        ),
    ] {
        let told = jail.tool("exec", input);
        let broken = jail.broken(&told);
        assert!(broken.is_empty(), "{cause}: {broken:?}: {told}");
        if cause.starts_with("a directory outside")
            || cause.starts_with("an absolute")
            || cause.ends_with("of the system")
        {
            assert!(told.contains("is not in the workspace"), "{cause}: {told}");
        }
    }
}

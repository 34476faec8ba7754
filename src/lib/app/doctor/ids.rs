//! Every id that doctor can tell, with what it means: `doctor --list` and agent-daemon(1) show the same.

/// Each id, and the fault behind it.
pub(super) const IDS: &[(&str, &str)] = &[
    (
        "allowed-path-missing",
        "a directory of tools.allowed_paths does not exist",
    ),
    ("audit-damaged", "the audit log is not as it was written"),
    ("auth-unreadable", "state/auth.json cannot be used"),
    (
        "backup-program-missing",
        "the program that is to encrypt backups is not installed",
    ),
    (
        "bot-token-malformed",
        "the bot token does not look like one",
    ),
    (
        "bot-token-missing",
        "Telegram is on and there is no bot token",
    ),
    (
        "cache-drop",
        "much less is read from the vendor's cache than before",
    ),
    ("cap-near", "80 % of a spending cap are used"),
    ("cap-reached", "a spending cap is reached"),
    (
        "cgroup-memory",
        "the control group allows too little memory",
    ),
    ("cgroup-tasks", "the control group allows too few tasks"),
    (
        "channel-not-installed",
        "a channel is switched on whose program is not there",
    ),
    (
        "channel-trouble",
        "a channel does not work: token, network, a second poller, a webhook left set",
    ),
    ("check-failed", "a check of doctor itself broke down"),
    ("clock-wrong", "the clock is wrong"),
    ("config-doubtful", "a setting is probably not meant so"),
    ("config-invalid", "the settings cannot be used"),
    ("config-missing", "there is no agent.toml"),
    ("config-unknown-key", "a key or section that no setting has"),
    ("config-writable", "anybody can change the settings"),
    (
        "consolidation-parked",
        "parts of conversations could not be read by the model",
    ),
    ("daemon-not-running", "no daemon runs"),
    ("daemon-outdated", "the daemon runs an older program"),
    ("daemon-stale", "the daemon hangs or is stopped"),
    (
        "daemon-trouble",
        "the daemon noted an error within the last hour",
    ),
    ("database-damaged", "queue.db or cost.db is damaged"),
    ("database-newer", "a newer version wrote a database"),
    ("database-unreadable", "a database cannot be read"),
    ("dead-letters", "messages were given up"),
    ("directories-missing", "directories of the home are missing"),
    ("disk-full", "the disk is full, or nearly"),
    ("dns-failing", "the name of a server cannot be resolved"),
    ("fifo-unheard", "the daemon listens on another FIFO"),
    ("fifo-wrong", "the FIFO is no FIFO of ours"),
    (
        "hidden-characters",
        "a prompt file has characters that nobody sees",
    ),
    ("home-missing", "there is no agent here"),
    ("home-unfinished", "no daemon ever ran here"),
    ("home-unknown", "nothing names a usable home: HOME, --home"),
    ("home-unreadable", "the home cannot be entered"),
    ("http-address", "the HTTP API cannot listen on its address"),
    (
        "http-hook-secret",
        "a webhook has no secret, or one that can be guessed",
    ),
    (
        "http-token-missing",
        "the HTTP API is on and there is no token",
    ),
    (
        "http-token-weak",
        "the token of the HTTP API can be guessed",
    ),
    ("index-damaged", "the search index is damaged"),
    (
        "index-without-vectors",
        "parts of the index have no vectors",
    ),
    ("inodes-low", "few more files can be made"),
    ("inotify-exhausted", "nothing can be watched"),
    ("job-broken", "a job makes no sense"),
    ("job-clock", "a job waits for a clock that went back"),
    ("job-failed", "the last run of a job failed"),
    ("jobs-unreadable", "cron/jobs.json cannot be read"),
    (
        "kernel-old",
        "the kernel is too old for the walls around commands",
    ),
    (
        "key-shell-only",
        "the key of the model is only in the environment of this shell",
    ),
    ("key-unused", "a vendor's key is set and not used"),
    ("key-unverified", "a stored key could not be verified"),
    ("linger-off", "the user's daemon ends at logout"),
    ("lock-unusable", "nobody can say whether a daemon runs"),
    ("mcp-broken", "a tool server does not work"),
    ("mcp-untrusted", "a tool server waits for your trust"),
    ("memory-damaged", "memory.db is damaged"),
    ("memory-low", "the machine has little free memory"),
    ("model-name", "the name of a model has a space in it"),
    ("model-unpriced", "a cap is set and a model has no price"),
    ("network-filesystem", "the state is on NFS or the like"),
    ("open-files-limit", "too few files may be open"),
    ("owner-missing", "the bot has no owner"),
    ("people-damaged", "people.json cannot be read"),
    ("program-foreign", "a program was built for another machine"),
    ("programs-missing", "one of the five programs is not found"),
    ("prompt-cut", "prompt files are too long and are cut"),
    ("prompt-missing", "a prompt that is asked for is not there"),
    ("provider-down", "a provider of models does not answer"),
    ("provider-key-missing", "a loaded provider has no key"),
    ("proxy-ignored", "a proxy is set, and the agent uses none"),
    ("queue-stuck", "a message waits too long"),
    ("read-only", "the home is on a read-only file system"),
    (
        "restore-unfinished",
        "a restore into the home was broken off",
    ),
    ("sandbox-off", "commands run without walls"),
    (
        "sandbox-refused",
        "no wall can be built, commands are refused",
    ),
    (
        "sandbox-weak",
        "user namespaces are forbidden (AppArmor, sysctl): the wall is weaker",
    ),
    ("search-key-missing", "web search has no key"),
    ("secrets-readable", "others can read a file with secrets"),
    ("set-aside", "a damaged file was set aside"),
    (
        "share-missing",
        "the files that come with the programs are not installed",
    ),
    ("signed-out", "a sign-in has ended"),
    ("skill-broken", "a skill cannot be used"),
    (
        "skill-lacks",
        "a skill that is set up lacks something it needs",
    ),
    ("skill-untrusted", "a skill waits for your trust"),
    ("spool-ignored", "a file in the spool is no command"),
    ("spool-stuck", "the daemon takes no commands from the spool"),
    (
        "standby-trouble",
        "copies do not reach the standby, it could not take over, or the agent may not run here",
    ),
    ("state-modes", "files of the state have wrong modes"),
    ("state-owner", "files of the state belong to somebody else"),
    ("table-damaged", "the table of vectors is damaged"),
    ("table-missing", "the table of vectors is not installed"),
    ("tier-file", "a file of a tier is not there"),
    ("timezone-unknown", "TZ names no time zone"),
    ("timezone-unset", "the agent's time zone was never chosen"),
    (
        "tool-unknown",
        "tools.enabled names a tool that does not exist",
    ),
    (
        "transcript-damaged",
        "a line of a conversation cannot be read",
    ),
    (
        "unit-program-missing",
        "the installed unit starts a program that is not there",
    ),
    (
        "untrusted-unreadable",
        "nobody can tell which files are untrusted",
    ),
    (
        "workspace-unwritable",
        "the agent cannot write into its workspace",
    ),
    (
        "wrong-kind",
        "something else stands where a file or directory must",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::IDS;

    /// Returns the words in quotes that look like an id, in the checks' own code.
    fn in_source() -> BTreeSet<String> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib/app/doctor");
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(dir).expect("the sources").flatten() {
            if entry.file_name() == "ids.rs" {
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).expect("text");
            let code = text
                .split("#[cfg(test)]\nmod tests")
                .next()
                .unwrap_or_default()
                .to_owned();
            let is_id = |word: &&str| {
                word.contains('-')
                    && word.split('-').all(|part| {
                        !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase())
                    })
            };
            found.extend(code.split('"').filter(is_id).map(str::to_owned));
        }
        found
    }

    #[test]
    fn every_id_is_listed_once_in_order_and_none_is_listed_that_no_check_has() {
        let listed: Vec<&str> = IDS.iter().map(|(id, _)| *id).collect();
        assert!(listed.is_sorted_by(|a, b| a < b), "{listed:?}");
        let programs = [
            "agent-daemon",
            "agent-send",
            "agent-index",
            "agent-consolidate",
            "agent-monitor",
        ];
        let mut found = in_source();
        found.retain(|word| !programs.contains(&word.as_str()));
        let listed: BTreeSet<String> = listed.into_iter().map(str::to_owned).collect();
        assert_eq!(found, listed);
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("man/agent-daemon.1");
        let page = std::fs::read_to_string(page).expect("the page");
        let words: BTreeSet<&str> = page.split_whitespace().collect();
        let missing: Vec<&String> = listed
            .iter()
            .filter(|id| !words.contains(id.as_str()))
            .collect();
        assert!(
            missing.is_empty(),
            "agent-daemon(1) does not list {missing:?}"
        );
    }
}

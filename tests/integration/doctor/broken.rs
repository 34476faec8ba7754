//! Faults that are made for real, each in a home of its own: the id, what was seen and the command.

use super::*;

/// What is broken, and what doctor says of it: id, words of the evidence, words of the command.
struct Fault {
    id: &'static str,
    /// Written into the home, below its directory.
    files: &'static [(&'static str, &'static str)],
    env: &'static [(&'static str, &'static str)],
    says: &'static str,
    run: &'static str,
}

const FAULTS: &[Fault] = &[
    Fault {
        id: "backup-program-missing",
        files: &[("agent.toml", "[backup]\nage = [\"age1example\"]\n")],
        env: &[("PATH", "/nonexistent")],
        says: "age is not installed",
        run: "apt-get install age",
    },
    Fault {
        id: "backup-failed",
        files: &[(
            "state/backup.json",
            r#"{"failed":{"at":1,"why":"cannot read workspace/plan.md: Permission denied","command":"backup --keep 14 /mnt/b"}}"#,
        )],
        env: &[],
        says: "1970-01-01T00:00:00.001Z: cannot read workspace/plan.md: Permission denied; none was made before",
        run: "backup --keep 14 /mnt/b",
    },
    Fault {
        id: "backup-failed",
        files: &[("state/backup.json", "{")],
        env: &[],
        says: "cannot tell whether backups are made",
        run: "ls -l",
    },
    Fault {
        id: "backup-old",
        files: &[(
            "state/backup.json",
            r#"{"made_at":1,"regular":{"at":1,"pause_ms":86400000,"command":"backup --keep 14 /mnt/b"}}"#,
        )],
        env: &[],
        says: "since 1970-01-01T00:00:00.001Z",
        run: "backup --keep 14 /mnt/b",
    },
    Fault {
        id: "http-token-missing",
        files: &[("agent.toml", "[http]\nenabled = true\n")],
        env: &[],
        says: "AGENT_HTTP_TOKEN",
        run: ".env",
    },
    Fault {
        id: "http-token-weak",
        files: &[("agent.toml", "[http]\nenabled = true\n")],
        env: &[("AGENT_HTTP_TOKEN", "abc")],
        says: "easily guessed",
        run: ".env",
    },
    Fault {
        id: "search-key-missing",
        files: &[("agent.toml", "[tools.web]\nsearch = \"brave\"\n")],
        env: &[],
        says: "BRAVE_API_KEY",
        run: ".env",
    },
    Fault {
        id: "auth-unreadable",
        files: &[("state/auth.json", "{\"version\":")],
        env: &[],
        says: "no key and no sign-in in it counts",
        run: "state/auth.json",
    },
    Fault {
        id: "hidden-characters",
        files: &[("workspace/AGENTS.md", "Be kind.\u{200b}\u{202e} Obey.\n")],
        env: &[],
        says: "AGENTS.md",
        run: "cat -A",
    },
    Fault {
        id: "skill-broken",
        files: &[("workspace/skills/bad/SKILL.md", "no head at all\n")],
        env: &[],
        says: "bad",
        run: "SKILL.md",
    },
    Fault {
        id: "job-broken",
        files: &[(
            "state/cron/jobs.json",
            r#"{"jobs":[{"id":"x","schedule":7}]}"#,
        )],
        env: &[],
        says: "makes no sense",
        run: "jobs.json",
    },
    Fault {
        id: "jobs-unreadable",
        files: &[("state/cron/jobs.json", "{\"jobs\": [")],
        env: &[],
        says: "jobs.json",
        run: "jobs.json",
    },
    Fault {
        id: "transcript-damaged",
        files: &[("state/sessions/a.jsonl", "{}\nnot json\n{}\n")],
        env: &[],
        says: "line 2 of state/sessions/a.jsonl",
        run: "+2 ",
    },
    Fault {
        id: "untrusted-unreadable",
        files: &[("state/untrusted.json", "[")],
        env: &[],
        says: "state/untrusted.json",
        run: "untrusted.json",
    },
    Fault {
        id: "untrusted-unreadable",
        files: &[("state/untrusted-periods.json", "[")],
        env: &[],
        says: "state/untrusted-periods.json",
        run: "untrusted-periods.json",
    },
    Fault {
        id: "timezone-unknown",
        files: &[],
        env: &[("TZ", "Europe/Atlantis")],
        says: "TZ=Europe/Atlantis",
        run: "timedatectl",
    },
    Fault {
        id: "share-missing",
        files: &[],
        env: &[("AGENT_SHARE", "/nonexistent/share")],
        says: "/nonexistent/share does not exist",
        run: "unset AGENT_SHARE",
    },
    Fault {
        id: "table-missing",
        files: &[],
        env: &[("AGENT_SHARE", "/usr/share")],
        says: "semantic search is off",
        run: "scripts/install",
    },
    Fault {
        id: "model-name",
        files: &[
            ("agent.toml", "[providers]\nload = [\"mine\"]\n"),
            (
                "providers.d/mine.toml",
                "type = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n[models.primary]\nmodel = \"gpt 5\"\nmax_tokens = 1000\n\
                 context_window = 100000\ncost_per_mtok = [0, 0, 0, 0]\n",
            ),
        ],
        env: &[],
        says: "\"gpt 5\"",
        run: "mine.toml",
    },
    Fault {
        id: "owner-missing",
        files: &[
            (
                "agent.toml",
                "[telegram]\nenabled = true\ndm_policy = \"pairing\"\napi_url = \"http://127.0.0.1:9\"\n",
            ),
            (
                ".env",
                "TELEGRAM_BOT_TOKEN=123456789:AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQr\n",
            ),
        ],
        env: &[],
        says: "no owner",
        run: "agent-send --pair owner",
    },
    Fault {
        id: "allowed-path-missing",
        files: &[(
            "agent.toml",
            "[tools]\nallowed_paths = [\"/nonexistent/photos\"]\n",
        )],
        env: &[],
        says: "/nonexistent/photos",
        run: "agent.toml",
    },
    Fault {
        id: "tool-unknown",
        files: &[("agent.toml", "[tools]\nenabled = [\"raed_file\"]\n")],
        env: &[],
        says: "raed_file",
        run: "agent.toml",
    },
    Fault {
        id: "people-damaged",
        files: &[("state/people.json", "{\"owners\": [")],
        env: &[],
        says: "people.json",
        run: "people.json",
    },
    Fault {
        id: "table-damaged",
        files: &[("share/embeddings/table.bin", "no table")],
        env: &[("AGENT_SHARE", "@home/share")],
        says: "semantic search is off",
        run: "scripts/install",
    },
    Fault {
        id: "timezone-unset",
        files: &[("agent.toml", "[agent]\n")],
        env: &[("TZ", "Europe/Berlin")],
        says: "Europe/Berlin",
        run: "agent.toml",
    },
    Fault {
        id: "prompt-cut",
        files: &[
            ("workspace/AGENTS.md", "@long"),
            ("agent.toml", "[providers]\nload = [\"mine\"]\n"),
            (
                "providers.d/mine.toml",
                "type = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n[models.primary]\nmodel = \"small\"\nmax_tokens = 1000\n\
                 context_window = 16000\ncost_per_mtok = [0, 0, 0, 0]\n",
            ),
        ],
        env: &[],
        says: "AGENTS.md are cut in every prompt",
        run: "ls -lS",
    },
    Fault {
        id: "prompt-untrusted",
        files: &[
            ("workspace/MEMORY.md", "Likes what a page says.\n"),
            (
                "state/untrusted.json",
                r#"{"v":1,"files":{"MEMORY.md":{"at":1,"run":"r"}}}"#,
            ),
        ],
        env: &[],
        says: "MEMORY.md is missing in every prompt",
        run: "agent-send",
    },
    Fault {
        id: "tier-file",
        files: &[(
            "agent.toml",
            "[context.tiers]\nbrief = [[\"NOTHERE.md\"]]\n",
        )],
        env: &[],
        says: "NOTHERE.md",
        run: "agent.toml",
    },
    Fault {
        id: "prompt-missing",
        files: &[(
            "agent.toml",
            "[agent]\nmode = \"plan\"\nconfig_path = [\"@home/persona\"]\n",
        )],
        env: &[],
        says: "agent.config_path",
        run: "agent.toml",
    },
    Fault {
        id: "job-failed",
        files: &[(
            "state/cron/jobs.json",
            r#"{"jobs":[{"id":"a","schedule":{"every":"1h"},"text":"look","last_status":"error","last_error":"no net"}]}"#,
        )],
        env: &[],
        says: "failed: no net",
        run: "agent-send --job list",
    },
    Fault {
        id: "job-clock",
        files: &[(
            "state/cron/jobs.json",
            r#"{"jobs":[{"id":"a","schedule":{"every":"1h"},"text":"look","created_at":"2020-01-01T00:00:00Z","last_at":"2099-01-01T00:00:00Z","next_at":"2099-01-01T01:00:00Z"}]}"#,
        )],
        env: &[],
        says: "a later time than the clock shows",
        run: "agent-send --job resume a",
    },
    Fault {
        id: "key-unverified",
        files: &[(
            "state/auth.json",
            r#"{"version":1,"providers":{"openai":{"api_key":{"key":"sk-not-a-key","obtained_at":"2026-11-22T12:00:00.000Z","unverified":true}}}}"#,
        )],
        env: &[],
        says: "openai",
        run: "auth --check",
    },
];

fn broken(fault: &Fault) -> Sandbox {
    let mut sandbox = healthy();
    let here = sandbox.home().display().to_string();
    for (name, value) in fault.env {
        sandbox = sandbox.env(name, &value.replace("@home", &here));
    }
    for (path, text) in fault.files {
        let text = match *text {
            "@long" => "Be kind. ".repeat(40_000),
            text => text.replace("@home", &here),
        };
        put(&sandbox, path, text.as_bytes());
    }
    sandbox
}

#[test]
fn each_fault_is_named_with_what_was_seen_and_the_command() {
    let mut wrong = Vec::new();
    for fault in FAULTS {
        let sandbox = broken(fault);
        let found = findings(&sandbox);
        let finding = found.iter().find(|finding| finding["id"] == fault.id);
        let right = finding.is_some_and(|finding| {
            let evidence = finding["evidence"].as_str().unwrap_or_default();
            evidence.contains(fault.says) && command(finding).contains(fault.run)
        });
        if !right {
            wrong.push(format!("{}: {found:#?}", fault.id));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

//! agent-index: what is indexed, what is found, and what interrupts, damage and strange input do to it.

mod damage;
mod hammer;
mod money;
mod other_words;
mod rows;
mod watch;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use agent_toolkit::sys::{atomic, lock};
use serde_json::{Value, json};

use crate::support::{Output, Sandbox, bin};

fn put(sandbox: &Sandbox, below: &str, text: &str) {
    put_bytes(&sandbox.path(below), text.as_bytes());
}

fn put_bytes(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().expect("a file has a directory"))
        .expect("the sandbox is writable");
    atomic::write(path, bytes, atomic::Durability::Rename).expect("the sandbox is writable");
}

fn index(sandbox: &Sandbox, arguments: &[&str]) -> Output {
    sandbox.run("agent-index", arguments, "")
}

/// Syncs and expects what cron expects: nothing.
fn sync(sandbox: &Sandbox) {
    let told = index(sandbox, &[]);
    assert_eq!(
        (told.code, told.stdout.as_str(), told.stderr.as_str()),
        (0, "", "")
    );
}

fn results(sandbox: &Sandbox, query: &str) -> Vec<Value> {
    // By words alone: what is near in meaning has tests of its own.
    let told = index(
        sandbox,
        &["search", "--strategy", "fts", "--json", "--", query],
    );
    assert_eq!((told.code, told.stderr.as_str()), (0, ""), "{query}");
    told.json()["results"]
        .as_array()
        .expect("results is a list")
        .clone()
}

/// Returns `path:start-end` of each result.
fn places(sandbox: &Sandbox, query: &str) -> Vec<String> {
    let place = |hit: &Value| {
        format!(
            "{}:{}-{}",
            hit["path"].as_str().expect("a path"),
            hit["start_line"],
            hit["end_line"]
        )
    };
    results(sandbox, query).iter().map(place).collect()
}

fn transcript(key: &str, said: &[(&str, &str)]) -> String {
    let line = |seq: usize, more: Value| {
        let mut event = json!({"v": 1, "ts": "2026-05-04T10:00:00.000Z", "seq": seq});
        event
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        format!("{event}\n")
    };
    let head = line(
        1,
        json!({"type": "session", "session_id": "s1", "key": key, "contact": "Ada", "created_at": "2026-05-04T10:00:00.000Z"}),
    );
    let said = (2..).zip(said).map(|(seq, (role, text))| match *role {
        "tool" => line(
            seq,
            json!({"type": "tool_result", "run_id": "r", "name": "exec", "duration_ms": 1, "id": "t", "text": text, "is_error": false}),
        ),
        role => {
            let trust = if role == "user" { json!("owner") } else { Value::Null };
            line(
                seq,
                json!({"type": "message", "role": role, "run_id": "r", "trust": trust, "content": [{"type": "text", "text": text}]}),
            )
        }
    });
    std::iter::once(head).chain(said).collect()
}

// ------------------------------------------------------------------ what is indexed

#[test]
fn new_changed_and_deleted_files_are_followed() {
    let sandbox = Sandbox::new();
    put(
        &sandbox,
        "workspace/MEMORY.md",
        "# House\n\nThe boiler was serviced by Morgan.\n",
    );
    put(
        &sandbox,
        "workspace/memory/2026-01-02.md",
        "Bought two apple trees.\n",
    );
    put(
        &sandbox,
        "workspace/memory/deep/er/notes.md",
        "The ferry leaves at seven.\n",
    );
    put(
        &sandbox,
        "workspace/memory/items/i1.md",
        "---\nid: i1\n---\nThe locker code is in the blue book.\n",
    );
    put(
        &sandbox,
        "workspace/other.md",
        "The boiler again, in a file that is no memory.\n",
    );
    sync(&sandbox);
    assert_eq!(places(&sandbox, "boiler"), ["workspace/MEMORY.md:1-3"]);
    assert_eq!(
        places(&sandbox, "Who did buy an apple tree?"),
        ["workspace/memory/2026-01-02.md:1-1"]
    );
    assert_eq!(
        places(&sandbox, "ferries"),
        ["workspace/memory/deep/er/notes.md:1-1"]
    );
    let item = &results(&sandbox, "locker")[0];
    let fields: Vec<&String> = item.as_object().expect("an object").keys().collect();
    assert_eq!(
        fields,
        [
            "path",
            "start_line",
            "end_line",
            "source",
            "score",
            "vector_score",
            "text_score",
            "text"
        ]
    );
    assert_eq!(
        (&item["source"], &item["vector_score"]),
        (&json!("item"), &Value::Null)
    );

    put(
        &sandbox,
        "workspace/MEMORY.md",
        "# House\n\nThe heat pump was serviced by Morgan.\n",
    );
    fs::remove_file(sandbox.path("workspace/memory/2026-01-02.md")).expect("it is there");
    sync(&sandbox);
    assert_eq!(
        (
            places(&sandbox, "boiler").len(),
            places(&sandbox, "apple").len()
        ),
        (0, 0)
    );
    assert_eq!(places(&sandbox, "heat pump"), ["workspace/MEMORY.md:1-3"]);
    let told = index(&sandbox, &["--json"]).json();
    let counts =
        ["added", "changed", "removed", "unchanged", "chunks"].map(|name| told[name].as_u64());
    assert_eq!(counts, [0, 0, 0, 3, 0].map(Some));
}

#[test]
fn ended_conversations_are_indexed_and_running_ones_are_not() {
    let sandbox = Sandbox::new();
    let said = [
        ("user", "my violin teacher is called Ines"),
        ("tool", "zanzibar in a tool's output"),
        ("assistant", "Noted: Ines."),
    ];
    let text = transcript("cli:ada", &said);
    put(&sandbox, "state/sessions/s1.2026-05-04.jsonl", &text);
    sync(&sandbox);
    assert!(results(&sandbox, "violin teacher").is_empty());
    put(
        &sandbox,
        "state/sessions/archive/s1.2026-05-04.jsonl",
        &text,
    );
    fs::remove_file(sandbox.path("state/sessions/s1.2026-05-04.jsonl")).expect("it is there");
    sync(&sandbox);
    let found = results(&sandbox, "What is the violin teacher's name?");
    assert_eq!(
        found[0]["text"],
        "Ada: my violin teacher is called Ines\nassistant: Noted: Ines."
    );
    assert_eq!(
        places(&sandbox, "violin"),
        ["state/sessions/archive/s1.2026-05-04.jsonl:2-4"]
    );
    assert!(results(&sandbox, "zanzibar").is_empty());
    let told = index(&sandbox, &["search", "violin", "--json", "--explain"]).json();
    assert_eq!(
        (&told["results"][0]["scope"], &told["results"][0]["matched"]),
        (&json!("owner"), &json!(["violin"]))
    );
    let told = index(
        &sandbox,
        &["search", "violin", "--json", "--source", "memory"],
    )
    .json();
    assert_eq!(told, json!({"results": []}));
}

#[test]
fn of_a_running_conversation_only_what_is_no_longer_sent_is_indexed_and_nothing_twice() {
    let sandbox = Sandbox::new();
    let event = |seq: u64, more: Value| {
        let mut event = json!({"v": 1, "ts": "2026-05-04T10:00:00.000Z", "seq": seq});
        event
            .as_object_mut()
            .expect("an object")
            .extend(more.as_object().expect("an object").clone());
        format!("{event}\n")
    };
    let head = |seq| {
        let head = json!({"type": "session", "session_id": "s1", "key": "cli:ada", "contact": "Ada", "created_at": "2026-05-04T10:00:00.000Z"});
        event(seq, head)
    };
    let said = |seq, run: &str, role: &str, trust: Option<&str>, words: &str| {
        let content = json!([{"type": "text", "text": words}]);
        event(
            seq,
            json!({"type": "message", "role": role, "run_id": run, "trust": trust, "content": content}),
        )
    };
    let compaction = |seq, kept_from: u64, question: Option<u64>| {
        let more = json!({"kept_from": kept_from, "question": question, "summary": "They spoke of a xylophone.", "by": "model", "tokens": [9, 5]});
        let mut more = more;
        more["type"] = json!("compaction");
        more["run_id"] = json!("r");
        event(seq, more)
    };
    let first = [
        head(1),
        said(2, "a", "user", Some("owner"), "my violin is old"),
        said(3, "a", "assistant", None, "A Stradivari?"),
        said(4, "b", "user", Some("other"), "buy a harpsichord"),
        said(5, "b", "assistant", None, "They sell a clavichord."),
        said(6, "c", "user", Some("owner"), "my trumpet is new"),
        said(7, "c", "assistant", None, "Play the bugle."),
        said(8, "d", "user", Some("owner"), "my flute is lost"),
    ]
    .concat();
    let old = "state/sessions/s1.2026-05-04.jsonl";
    let check = |expected: &[(&str, &[&str])]| {
        sync(&sandbox);
        for (word, places) in expected {
            let mut found: Vec<String> = results(&sandbox, word)
                .iter()
                .map(|hit| hit["path"].as_str().unwrap_or("").to_owned())
                .collect();
            found.dedup();
            assert_eq!(&found, places, "{word}");
        }
    };
    put(&sandbox, old, &first);
    check(&[("violin", &[]), ("Stradivari", &[])]);
    // The trumpet is still worked on, and sent for that reason.
    let compacted = format!("{first}{}", compaction(9, 8, Some(6)));
    put(&sandbox, old, &compacted);
    check(&[
        ("violin", &[old]),
        ("Stradivari", &[old]),
        ("trumpet", &[]),
        ("flute", &[]),
        ("xylophone", &[]),
    ]);
    let told = index(&sandbox, &["search", "violin", "--json", "--explain"]).json();
    assert_eq!(told["results"][0]["scope"], "owner", "as in the archive");
    check(&[("harpsichord", &[]), ("clavichord", &[]), ("bugle", &[])]);

    // It grows, in the next file; then that is summed up, too.
    let next = "state/sessions/s1.2026-05-04.1.jsonl";
    let more = [
        head(10),
        said(11, "d", "assistant", None, "Look below the oboe."),
        said(12, "e", "user", Some("owner"), "my drum"),
    ]
    .concat();
    put(&sandbox, next, &more);
    let unchanged = index(&sandbox, &["--json"]).json();
    assert_eq!(
        ["added", "changed", "removed"].map(|name| unchanged[name].as_u64()),
        [0, 0, 0].map(Some)
    );
    put(
        &sandbox,
        next,
        &format!("{more}{}", compaction(13, 12, None)),
    );
    check(&[
        ("trumpet", &[old]),
        ("flute", &[old]),
        ("violin", &[old]),
        ("oboe", &[next]),
        ("drum", &[]),
        ("xylophone", &[]),
    ]);

    // What ended is there whole, and once.
    for file in [old, next] {
        let to = file.replace("sessions/", "sessions/archive/");
        put(
            &sandbox,
            &to,
            &fs::read_to_string(sandbox.path(file)).expect("it is there"),
        );
        fs::remove_file(sandbox.path(file)).expect("it is there");
    }
    let archived = |file: &str| file.replace("sessions/", "sessions/archive/");
    check(&[
        ("violin", &[&archived(old)]),
        ("flute", &[&archived(old)]),
        ("drum", &[&archived(next)]),
        ("oboe", &[&archived(next)]),
    ]);
}

#[test]
fn links_pipes_and_strange_bytes_stop_nothing() {
    let sandbox = Sandbox::new();
    put(&sandbox, "secret.md", "the secret of the outside\n");
    put(&sandbox, "outside/more.md", "the secret of the outside\n");
    fs::create_dir_all(sandbox.path("workspace/memory")).expect("the sandbox is writable");
    symlink(
        sandbox.path("secret.md"),
        sandbox.path("workspace/memory/link.md"),
    )
    .expect("link");
    symlink(
        sandbox.path("outside"),
        sandbox.path("workspace/memory/dir"),
    )
    .expect("link");
    nix::unistd::mkfifo(
        &sandbox.path("workspace/memory/pipe.md"),
        nix::sys::stat::Mode::S_IRWXU,
    )
    .expect("mkfifo");
    put_bytes(
        &sandbox.path("workspace/memory/bytes.md"),
        b"caf\xc3\xa9 \xff\xfe pelican\0\n",
    );
    put(&sandbox, "workspace/memory/huge.md", "");
    let huge = fs::OpenOptions::new()
        .write(true)
        .open(sandbox.path("workspace/memory/huge.md"))
        .expect("it is there");
    huge.set_len(100 << 20).expect("a sparse file");
    let told = index(&sandbox, &[]);
    assert_eq!(
        (told.code, told.stdout.as_str(), told.stderr.lines().count()),
        (0, "", 1),
        "{told:?}"
    );
    assert!(
        told.stderr
            .starts_with("agent-index: left out workspace/memory/huge.md: it has "),
        "{told:?}"
    );
    assert!(results(&sandbox, "secret outside").is_empty());
    assert_eq!(
        places(&sandbox, "cafe pelicans"),
        ["workspace/memory/bytes.md:1-1"]
    );
    assert!(
        fs::metadata(sandbox.path("workspace/memory/pipe.md"))
            .expect("still there")
            .file_type()
            .is_fifo()
    );
}

#[test]
fn cron_has_a_home_and_nothing_else() {
    let sandbox = Sandbox::new();
    let home = sandbox.path("user");
    put_bytes(
        &home.join(".local/share/agent/workspace/MEMORY.md"),
        b"The chimney sweep comes in May.\n",
    );
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(bin("agent-index"));
        command
            .env_clear()
            .env("HOME", &home)
            .args(arguments)
            .current_dir("/")
            .stdin(Stdio::null());
        command.output().expect("it runs")
    };
    let told = run(&["--quiet"]);
    assert_eq!(
        (told.status.code(), told.stdout, told.stderr),
        (Some(0), vec![], vec![])
    );
    let told = run(&["search", "chimney", "--json"]);
    let found: Value = serde_json::from_slice(&told.stdout).expect("JSON");
    assert_eq!(found["results"][0]["path"], "workspace/MEMORY.md");
}

// ------------------------------------------------------------------ what is found

#[test]
fn strong_hits_come_before_weak_ones_and_no_line_comes_twice() {
    let sandbox = Sandbox::new();
    let filler = |n: usize| {
        format!(
            "Line {n} speaks about the weather and the neighbours, at some length and to no end.\n"
        )
    };
    let mut long: String = (0..120).map(filler).collect();
    long.push_str("The saxophone was mentioned here once.\n");
    long.extend((0..120).map(filler));
    put(&sandbox, "workspace/memory/long.md", &long);
    put(
        &sandbox,
        "workspace/memory/strong.md",
        "The saxophone lesson is on Friday; bring the saxophone and its reeds.\n",
    );
    sync(&sandbox);
    let found = results(&sandbox, "When is the saxophone lesson?");
    assert_eq!(found[0]["path"], "workspace/memory/strong.md");
    let scores: Vec<f64> = found
        .iter()
        .map(|hit| hit["score"].as_f64().expect("a number"))
        .collect();
    assert!(
        scores.is_sorted_by(|a, b| a >= b)
            && scores.iter().all(|score| (0.0..=1.0).contains(score)),
        "{scores:?}"
    );
    // The question fits many neighbouring chunks.
    let told = index(
        &sandbox,
        &[
            "search",
            "weather and neighbours at length",
            "--json",
            "-k",
            "20",
        ],
    )
    .json();
    let mut lines: Vec<(String, u64)> = Vec::new();
    for hit in told["results"].as_array().expect("a list") {
        let (first, last) = (
            hit["start_line"].as_u64().expect("a line"),
            hit["end_line"].as_u64().expect("a line"),
        );
        let text = hit["text"].as_str().expect("text");
        assert!(text.chars().count() <= 1600);
        assert_eq!(text.lines().count() as u64, last - first + 1);
        assert_eq!(
            text.lines().next(),
            long.lines().nth(usize::try_from(first - 1).expect("small"))
        );
        lines.extend((first..=last).map(|line| (hit["path"].to_string(), line)));
    }
    let count = lines.len();
    lines.sort();
    lines.dedup();
    assert_eq!(lines.len(), count, "a line came twice");
}

#[test]
fn any_query_is_a_query() {
    let sandbox = Sandbox::new();
    put(
        &sandbox,
        "workspace/MEMORY.md",
        "Собаки любят гулять. The well-known café \"Zoë's\" 🎉 is o'clock AND * NEAR(x).\n東京タワー\n\
         내일 서울에서 집으로 간다.\nตลาดน้ำอยู่ไกล\n",
    );
    sync(&sandbox);
    for query in [
        "\"café\"",
        "well-known",
        "Zoë's",
        "AND",
        "NOT",
        "NEAR(x y)",
        "x*",
        "*",
        "собака",
        "🎉",
        "o'clock",
        "-k",
        "--full",
        "a AND (",
        "\"",
        "''",
        ";--",
        "%",
        "東京",
        "タワー",
        "col:umn",
        "^x",
        "{}",
        "\\",
        "\t",
        "",
        "the of and",
        "?",
    ] {
        let told = index(&sandbox, &["search", "--json", "--", query]);
        assert_eq!((told.code, told.stderr.as_str()), (0, ""), "{query:?}");
        assert!(told.json()["results"].is_array(), "{query:?}");
    }
    let words = "\"CAFE\" собака 🎉 東京 京 서울 서울은 집 ตลาด zoe".split(' ');
    for query in words.chain(["known well"]) {
        assert_eq!(results(&sandbox, query).len(), 1, "{query}");
    }
    let long = "word ".repeat(20_000);
    assert!(results(&sandbox, &long).is_empty());
}

#[test]
fn a_line_of_ten_thousand_letters_is_searched_to_its_end() {
    let sandbox = Sandbox::new();
    put(
        &sandbox,
        "workspace/memory/line.md",
        &format!(
            "{}the walrus sleeps here {}\n",
            "lorem ipsum ".repeat(600),
            "dolor ".repeat(500)
        ),
    );
    sync(&sandbox);
    let found = results(&sandbox, "walrus");
    assert!(
        found[0]["text"]
            .as_str()
            .is_some_and(|text| text.contains("walrus sleeps") && text.chars().count() <= 1600)
    );
    assert_eq!(places(&sandbox, "walrus"), ["workspace/memory/line.md:1-1"]);
}

#[test]
fn a_budget_of_tokens_is_kept() {
    let sandbox = Sandbox::new();
    for day in 1..=9 {
        let text = format!(
            "# Day {day}\n\n{}The orchestra met.\n{}",
            "Nothing happened at all.\n".repeat(20),
            "Quiet evening.\n".repeat(20)
        );
        put(
            &sandbox,
            &format!("workspace/memory/2026-03-0{day}.md"),
            &text,
        );
    }
    sync(&sandbox);
    let told = index(
        &sandbox,
        &[
            "search",
            "orchestra",
            "--json",
            "--max-tokens",
            "100",
            "-k",
            "20",
        ],
    )
    .json();
    let texts: Vec<&str> = told["results"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|hit| hit["text"].as_str())
        .collect();
    let chars: usize = texts.iter().map(|text| text.chars().count() + 1).sum();
    assert!(chars <= 400 && texts.len() >= 4, "{texts:?}");
    assert!(
        texts.iter().all(|text| text.contains("orchestra")),
        "{texts:?}"
    );
}

// ------------------------------------------------------------------ the protocol of the shell

#[test]
fn mistakes_have_their_exit_codes() {
    let sandbox = Sandbox::new();
    for (arguments, code, word) in [
        (&["search"][..], 2, "usage"),
        (&["search", "x", "-k", "0"], 2, "usage"),
        (&["search", "x", "-k", "21"], 2, "usage"),
        (&["search", "x", "--source", "elsewhere"], 2, "usage"),
        (&["search", "x", "--min-score", "7"], 2, "usage"),
        (&["--full", "status"], 2, "usage"),
        (&["nonsense"], 2, "usage"),
        (&["search", "x", "--after", "yesterday"], 2, "usage"),
    ] {
        let told = index(&sandbox, arguments);
        assert_eq!(
            (told.code, told.stdout.as_str()),
            (code, ""),
            "{arguments:?}: {told:?}"
        );
        let told = index(&sandbox, &[arguments, &["--json"]].concat());
        assert_eq!(
            (told.code, &told.json()["error"]["code"]),
            (code, &json!(word)),
            "{arguments:?}: {told:?}"
        );
    }
    let told = index(&sandbox, &["search", "x", "--json"]);
    assert_eq!((told.code, told.json()), (0, json!({"results": []})));
    assert!(told.stderr.contains("nothing is indexed yet"), "{told:?}");
    for verb in [&[][..], &["search", "x"], &["status"]] {
        for program in ["agent-index", "agent-consolidate"] {
            let verb = if program == "agent-consolidate" && verb.len() == 2 {
                &["facts", "x"]
            } else {
                verb
            };
            let told = sandbox.run(
                program,
                &[&["--home", "/nonexistent/agent"], verb].concat(),
                "",
            );
            assert_eq!((told.code, told.stdout.as_str()), (78, ""), "{told:?}");
            assert!(
                told.stderr
                    .contains("hint: agent-daemon --home /nonexistent/agent init"),
                "{told:?}"
            );
        }
    }
}

#[test]
fn a_batch_answers_each_line_and_goes_on_after_bad_ones() {
    let sandbox = Sandbox::new();
    put(
        &sandbox,
        "workspace/MEMORY.md",
        "The piano is tuned in spring.\n",
    );
    sync(&sandbox);
    let asked = "{\"id\":1,\"query\":\"piano\",\"k\":3}\nnonsense\n\n{\"id\":\"b\"}\n{\"query\":\"\"}\n{\"id\":2,\"query\":\"spring\",\"k\":0,\"x\":1}\n{\"id\":3,\"query\":\"piano\",\"max_tokens\":1}
{\"id\":4,\"query\":\"piano\",\"source\":\"memroy\"}\n{\"id\":5,\"query\":\"piano\",\"strategy\":\"words\"}";
    let told = sandbox.run("agent-index", &["batch"], asked);
    assert_eq!((told.code, told.stderr.as_str()), (0, ""));
    let answers: Vec<Value> = told
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let kinds: Vec<(Value, Option<usize>, Option<&str>)> = answers
        .iter()
        .map(|answer| {
            (
                answer["id"].clone(),
                answer["results"].as_array().map(Vec::len),
                answer["error"]["code"].as_str(),
            )
        })
        .collect();
    let expected = [
        (json!(1), Some(1), None),
        (Value::Null, None, Some("bad_data")),
        (json!("b"), None, Some("bad_data")),
        (Value::Null, Some(0), None),
        (json!(2), Some(1), None),
        (json!(3), Some(0), None),
        (json!(4), None, Some("bad_data")),
        (json!(5), None, Some("bad_data")),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn an_answer_comes_at_once_and_the_index_may_be_deleted_under_it() {
    let sandbox = Sandbox::new();
    put(
        &sandbox,
        "workspace/MEMORY.md",
        "The tortoise is called Leon.\n",
    );
    sync(&sandbox);
    let mut batch = sandbox.command("agent-index");
    let mut batch = batch
        .arg("batch")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut input = batch.stdin.take().expect("a pipe");
    let mut output = BufReader::new(batch.stdout.take().expect("a pipe")).lines();
    let mut ask = |query: &str| -> Value {
        writeln!(input, "{}", json!({"id": 1, "query": query})).expect("it listens");
        serde_json::from_str(&output.next().expect("a line").expect("text")).expect("JSON")
    };
    assert_eq!(
        ask("tortoise")["results"][0]["text"],
        "The tortoise is called Leon."
    );
    fs::remove_file(sandbox.path("state/index.db")).expect("it is there");
    assert_eq!(ask("tortoise")["results"], json!([]));
    put(
        &sandbox,
        "workspace/MEMORY.md",
        "The tortoise is called Lea.\n",
    );
    sync(&sandbox);
    assert_eq!(
        ask("tortoise")["results"][0]["text"],
        "The tortoise is called Lea."
    );
    drop(input);
    assert_eq!(batch.wait().expect("it ends").code(), Some(0));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let sandbox = Sandbox::new();
    let text: String = (0..4000)
        .map(|n| format!("zebra number {n} was counted in the park today\n"))
        .collect();
    put(&sandbox, "workspace/memory/zebras.md", &text);
    sync(&sandbox);
    for arguments in [
        &["search", "zebra", "-k", "20"][..],
        &["search", "zebra", "-k", "20", "--json"],
    ] {
        let mut child = sandbox.command("agent-index");
        let mut child = child
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        drop(child.stdout.take());
        let told = child.wait_with_output().expect("it ends");
        assert_eq!(
            (
                told.status.code(),
                String::from_utf8_lossy(&told.stderr).as_ref()
            ),
            (Some(0), "")
        );
    }
}

// ------------------------------------------------------------------ two at once, kills, damage

/// Writes files enough for a run that can be met at work.
fn fill(sandbox: &Sandbox, files: usize) {
    for n in 0..files {
        let text: String = (0..40)
            .map(|line| {
                format!(
                    "File {n} line {line}: gannet {} and other words of no weight\n",
                    n * 40 + line
                )
            })
            .collect();
        put(sandbox, &format!("workspace/memory/f{n}.md"), &text);
    }
}

#[test]
fn a_second_run_ends_at_once_and_says_so_only_when_asked() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("state")).expect("the sandbox is writable");
    let held = lock::try_lock(&sandbox.path("state/index.lock"))
        .expect("lock")
        .expect("free");
    sync(&sandbox);
    let told = index(&sandbox, &["-v"]);
    let expected = format!(
        "agent-index: already running (pid {})\n",
        std::process::id()
    );
    assert_eq!(
        (told.code, told.stdout.as_str(), told.stderr),
        (0, "", expected)
    );
    drop(held);
    put(&sandbox, "workspace/MEMORY.md", "gannet\n");
    sync(&sandbox);
    assert_eq!(results(&sandbox, "gannet").len(), 1);
}

#[test]
fn a_killed_run_leaves_an_index_that_the_next_one_finishes() {
    let sandbox = Sandbox::new();
    fill(&sandbox, 600);
    for wait in [5, 20, 45, 80, 120] {
        let mut child = sandbox.command("agent-index").spawn().expect("it runs");
        // There is nothing to wait for: the kill is to come at any moment.
        std::thread::sleep(Duration::from_millis(wait));
        child.kill().expect("it can be killed");
        child.wait().expect("it ends");
        if sandbox.path("state/index.db").exists() {
            assert_eq!(index(&sandbox, &["search", "gannet", "--json"]).code, 0);
        }
    }
    sync(&sandbox);
    let whole = sandbox.query("index", "PRAGMA integrity_check");
    assert_eq!(whole, [[rusqlite::types::Value::Text("ok".to_owned())]]);
    let counts = sandbox
        .query("index", "SELECT (SELECT count(*) FROM files), (SELECT count(*) FROM chunks_fts) = (SELECT count(*) FROM chunks)");
    assert_eq!(
        counts,
        [[
            rusqlite::types::Value::Integer(600),
            rusqlite::types::Value::Integer(1)
        ]]
    );
    assert_eq!(
        places(&sandbox, "gannet 23999").first().map(String::as_str),
        Some("workspace/memory/f599.md:15-40")
    );
}

#[test]
fn rows_of_other_rules_are_replaced_as_a_whole() {
    let sandbox = Sandbox::new();
    fill(&sandbox, 30);
    sync(&sandbox);
    let database = rusqlite::Connection::open(sandbox.path("state/index.db")).expect("open");
    database
        .execute("UPDATE totals SET rules = 'of yesterday, rows 6'", [])
        .expect("update");
    drop(database);
    assert!(
        !results(&sandbox, "gannet").is_empty(),
        "the old rows are used until there are new ones"
    );
    assert_eq!(
        index(&sandbox, &["status", "--json"]).json()["current"],
        false
    );
    let planned = index(&sandbox, &["--dry-run", "--json"]).json();
    assert_eq!(
        (&planned["full"], &planned["cost_usd"]),
        (&json!(true), &json!(0.0))
    );
    let told = index(&sandbox, &["--json"]).json();
    assert_eq!((&told["full"], &told["added"]), (&json!(true), &json!(30)));
    assert_eq!(
        index(&sandbox, &["status", "--json"]).json()["current"],
        true
    );
}

#[test]
fn a_damaged_index_is_said_and_rebuilt() {
    let sandbox = Sandbox::new();
    put(
        &sandbox,
        "workspace/MEMORY.md",
        "The heron stands by the pond.\n",
    );
    sync(&sandbox);
    for damage in [
        vec![7_u8; 9000],
        b"SQLite format 3\0 and nothing after it".to_vec(),
    ] {
        put_bytes(&sandbox.path("state/index.db"), &damage);
        let told = index(&sandbox, &["search", "heron", "--json"]);
        assert_eq!(
            (told.code, &told.json()["error"]["code"]),
            (65, &json!("bad_data")),
            "{told:?}"
        );
        assert!(
            told.json()["error"]["hint"]
                .as_str()
                .is_some_and(|hint| hint.starts_with("agent-index rebuild")),
            "{told:?}"
        );
        let told = index(&sandbox, &[]);
        assert_eq!((told.code, told.stderr.lines().count()), (0, 1), "{told:?}");
        assert!(
            told.stderr
                .contains("state/index.db could not be used and was rebuilt from the files"),
            "{told:?}"
        );
        assert_eq!(results(&sandbox, "heron").len(), 1);
    }
    put(&sandbox, "state/index.db", "");
    assert!(
        index(&sandbox, &["search", "heron", "--json"]).json()["results"]
            .as_array()
            .is_some_and(Vec::is_empty)
    );
    sync(&sandbox);
    assert_eq!(results(&sandbox, "heron").len(), 1);
    assert_eq!(index(&sandbox, &["rebuild"]).code, 0);
    assert_eq!(results(&sandbox, "heron").len(), 1);
}

#[test]
fn an_index_taken_away_under_others_is_rebuilt() {
    let sandbox = Sandbox::new();
    put(
        &sandbox,
        "workspace/MEMORY.md",
        "The heron stands by the pond.\n",
    );
    let database = sandbox.path("state/index.db");
    for round in 0..2 {
        sync(&sandbox);
        // Somebody has it open and knows its log; then the log is gone, or a table is.
        let other = rusqlite::Connection::open(&database).expect("open");
        other
            .execute("UPDATE totals SET bytes = bytes + 1", [])
            .expect("update");
        match round {
            0 => put_bytes(&sandbox.path("state/index.db-wal"), b""),
            _ => other.execute_batch("DROP TABLE chunks").expect("drop"),
        }
        let told = index(&sandbox, &["--dry-run"]);
        assert_eq!(told.code, 0, "{round}: {told:?}");
        put(
            &sandbox,
            "workspace/MEMORY.md",
            &format!("The heron stands by the pond, {round}.\n"),
        );
        let told = index(&sandbox, &[]);
        assert_eq!(told.code, 0, "{round}: {told:?}");
        assert!(
            told.stderr
                .contains("state/index.db could not be used and was rebuilt from the files"),
            "{round}: {told:?}"
        );
        drop(other);
        sync(&sandbox);
        assert_eq!(results(&sandbox, "heron").len(), 1, "{round}");
    }
    fs::remove_file(&database).expect("it is there");
    fs::create_dir(&database).expect("the sandbox is writable");
    for arguments in [&[][..], &["search", "heron"], &["status"]] {
        let told = index(&sandbox, arguments);
        assert_eq!(told.code, 74, "{told:?}");
        assert!(
            told.stderr.contains("index.db: Is a directory")
                && told.stderr.contains("hint: look at that path"),
            "{told:?}"
        );
    }
}

#[test]
fn names_of_files_cannot_pass_for_lines() {
    let sandbox = Sandbox::new();
    put(
        &sandbox,
        "workspace/memory/x\n[2] y.md",
        "The heron stands by the pond.\n",
    );
    sync(&sandbox);
    let told = index(&sandbox, &["search", "heron"]);
    assert!(!told.stdout.contains("\n[2]"), "{told:?}");
}

#[test]
fn the_table_that_ships_finds_what_means_the_same_and_the_settings_may_do_without() {
    let sandbox = Sandbox::new();
    put(&sandbox, "workspace/MEMORY.md", "Our dog is called Rex.\n");
    put(
        &sandbox,
        "workspace/memory/2026-05-04.md",
        "The invoice for the roof was paid.\n",
    );
    sync(&sandbox);
    let status = index(&sandbox, &["status", "--json"]).json();
    assert_eq!(
        (&status["model"], &status["vectors"]),
        (&json!("local/minilm-1/256"), &json!(2))
    );
    let first = |arguments: &[&str]| {
        let told = index(&sandbox, &[&["search", "--json"][..], arguments].concat()).json();
        told["results"][0]["path"].as_str().map(str::to_owned)
    };
    for strategy in ["hybrid", "fts_first", "vector"] {
        assert_eq!(
            first(&["puppy", "--strategy", strategy]).as_deref(),
            Some("workspace/MEMORY.md"),
            "{strategy}"
        );
    }
    assert_eq!(first(&["puppy", "--strategy", "fts"]), None);
    assert_eq!(
        first(&["invoice", "--after", "2026-05-05", "--strategy", "fts"]),
        None
    );
    assert_eq!(
        first(&["invoice", "--before", "2026-05-04"]).as_deref(),
        Some("workspace/memory/2026-05-04.md")
    );
    let told = index(&sandbox, &["search", "puppy", "--explain"]).stdout;
    assert!(
        told.contains(", vector 0.") && told.contains("none of the words itself"),
        "{told}"
    );

    let sandbox = sandbox.config("[memory.embeddings]\nprovider = \"none\"\n");
    let told = index(&sandbox, &["search", "puppy", "--explain"]).stdout;
    assert!(told.contains("searched by words alone: "), "{told}");
    sync(&sandbox);
    assert_eq!(
        index(&sandbox, &["status", "--json"]).json()["model"],
        Value::Null
    );
    let told = index(
        &sandbox,
        &["search", "puppy", "--strategy", "vector", "--json"],
    );
    assert_eq!(
        (told.code, &told.json()["error"]["code"]),
        (1, &json!("failed")),
        "{told:?}"
    );
}

#[test]
fn a_dry_run_changes_nothing() {
    let sandbox = Sandbox::new();
    put(
        &sandbox,
        "workspace/MEMORY.md",
        "The heron stands by the pond.\n",
    );
    let told = index(&sandbox, &["sync", "--dry-run"]);
    assert_eq!((told.code, told.stderr.as_str()), (0, ""));
    assert_eq!(
        told.stdout,
        "would index: 1 new, 0 changed, 0 gone, 0 unchanged; cost $0.00\n"
    );
    assert!(!sandbox.path("state/index.db").exists());
}

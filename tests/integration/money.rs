//! Money: what is in the ledger is what was charged, whoever asked for what; limits hold, and the owner hears of
//! them in time.
#![allow(clippy::disallowed_methods, reason = "a test writes files plainly")]
#![allow(
    clippy::print_stdout,
    reason = "figures, for whoever asks with --nocapture"
)]

use std::time::Duration;

use rusqlite::types::Value as Sql;
use serde_json::{Value, json};

use crate::support::{Charge, FakeModel, FakeTelegram, Reply, Sandbox, wait_for};

/// Long against everything that happens here, short against the patience of a reader.
const SOON: Duration = Duration::from_secs(60);
/// Rounds after which a conversation must have grown enough to be summed up.
const MOST_ROUNDS: usize = 6;
/// Conversations side by side.
const TALKS: usize = 4;
const OGG: &[u8] = b"OggS\0\xff a recording of the harbour";

fn number(sandbox: &Sandbox, sql: &str) -> i64 {
    match sandbox
        .query("cost", sql)
        .first()
        .and_then(|row| row.first().cloned())
    {
        Some(Sql::Integer(number)) => number,
        other => panic!("{sql}: {other:?}"),
    }
}

/// What one answer costs by the price lists below, in nano dollars.
fn price(charge: &Charge) -> i64 {
    let tokens = [
        charge.usage.input,
        charge.usage.output,
        charge.usage.cache_read,
        charge.usage.cache_write,
    ];
    let by = |rates: [i64; 4]| {
        tokens
            .iter()
            .zip(rates)
            .map(|(count, rate)| i64::try_from(*count).expect("few") * rate)
            .sum()
    };
    match charge.model.as_str() {
        "mock-model" => by([3_000, 15_000, 300, 3_750]),
        "spare-model" => by([1_000, 2_000, 0, 0]),
        "embed-1" => by([20_000, 0, 0, 0]),
        // A dollar and twenty a minute and half a dollar for the request; a thousand bytes may be a second.
        "whisper-1" => {
            500_000_000 + 20_000_000 * i64::try_from(charge.sound.div_ceil(1000)).expect("few")
        }
        other => panic!("{other} is in no price list"),
    }
}

/// A daemon's home with everything that is paid: a model with a cache, another that steps in and sums up, one that
/// listens and one that makes vectors.
fn all_that_is_paid() -> (FakeModel, FakeModel, Sandbox) {
    let (model, other) = (FakeModel::start(), FakeModel::start());
    model.caches();
    let sandbox = Sandbox::new()
        .with_anthropic(&model)
        .with_provider("other", "openai", &other, "spare")
        .provider_config("mock", "[models.primary]\nfallbacks = [\"spare\"]\ncompact_at = 9000")
        .provider_config(
            "other",
            "[models.spare]\nmodel = \"spare-model\"\ncost_per_mtok = [1.0, 2.0, 0.0, 0.0]\n\
             [models.ears]\nmodel = \"whisper-1\"\ncost_per_minute = 1.2\ncost_per_request = 0.5\n\
             [models.vectors]\nmodel = \"embed-1\"\ncost_per_mtok = [20.0, 0.0, 0.0, 0.0]",
        )
        .config(
            "[routing]\ncompaction = \"spare\"\nspeech_to_text = \"ears\"\nconsolidation = \"spare\"\n\
             [memory.embeddings]\nprovider = \"other\"\nmodel = \"embed-1\"\n[cost]\nday_usd = 1000.0\nsession_usd = 900.0",
        );
    sandbox.put(
        "workspace/AGENTS.md",
        "The boats in the harbour are counted. "
            .repeat(120)
            .as_bytes(),
    );
    sandbox.put(
        "workspace/memory/boats.md",
        b"There are seven boats in the harbour, and one is red.\n",
    );
    (model, other, sandbox)
}

/// Message `number` of the conversation `talk`, and what goes wrong with it.
fn talk(sandbox: &Sandbox, model: &FakeModel, talk: usize, number: usize) {
    let note = sandbox.home().with_file_name(format!("note-{talk}.ogg"));
    let (text, with_note) = match number % 8 {
        0 => (
            "[[tool memory_search {\"query\": \"boats of the harbour\"}]]".to_owned(),
            false,
        ),
        1 => (
            format!(
                "[[tool sessions_spawn {{\"task\": \"count boat {number}\", \"wait\": true, \"budget_usd\": 5}}]]"
            ),
            false,
        ),
        2 => ("listen".to_owned(), true),
        3 => (
            format!(
                "{}\nnumber {number}",
                "A long story about the harbour. ".repeat(200)
            ),
            false,
        ),
        4 => (
            "[[tool exec {\"command\": \"echo boat\"}]]".to_owned(),
            false,
        ),
        _ => (format!("message {number}"), false),
    };
    match number % 10 {
        3 => model.push(Reply::Status(429, Some(0))),
        5 => model.push(Reply::Status(500, Some(0))),
        7 => model.push(Reply::Status(401, None)),
        9 if number % 20 == 9 => model.push(Reply::Disconnect),
        _ => {}
    }
    let (session, note) = (format!("talk{talk}"), note.display().to_string());
    let mut arguments = vec!["--wait=120", "--session", &session];
    if with_note {
        std::fs::write(&note, OGG).expect("the sandbox is writable");
        arguments.extend(["--attach", &note]);
    }
    let told = sandbox.send(&[&arguments[..], &[&text]].concat());
    assert_eq!(told.code, 0, "{text}: {told:?}");
}

/// At least `calls` calls of every kind, side by side and with all that goes wrong; then the books are compared.
fn mixed_run(calls: i64) {
    let (model, other, sandbox) = all_that_is_paid();
    let daemon = sandbox.ready();
    let mut round = 0;
    loop {
        std::thread::scope(|scope| {
            for one in 0..TALKS {
                let (sandbox, model) = (&sandbox, &model);
                scope.spawn(move || {
                    (0..10).for_each(|number| talk(sandbox, model, one, round * 10 + number))
                });
            }
        });
        round += 1;
        let compacted = number(
            &sandbox,
            "SELECT count(*) FROM costs WHERE source = 'compaction' AND ok = 1",
        ) > 0;
        if number(&sandbox, "SELECT count(*) FROM costs") >= calls
            && (compacted || round >= MOST_ROUNDS)
        {
            break;
        }
    }
    // While the model was left alone after its failures it may have cut nothing off.
    model.forget();
    model.push(Reply::Disconnect);
    let cut = "SELECT count(*) FROM costs WHERE ok = 0 AND cost_nano_usd > 0";
    wait_for("a call that breaks off", SOON, || {
        sandbox.send(&["--wait=120", "--session", "talk0", "cut"]);
        (number(&sandbox, cut) > 0).then_some(())
    });
    // A turn is over before its conversation is summed up, and between them the daemon looks idle for some writes.
    let idle = || {
        sandbox
            .read_json("state/monitor.json")
            .is_some_and(|monitor| monitor["state"] == "idle")
    };
    let rows = |which: &str| {
        number(
            &sandbox,
            &format!("SELECT count(*) FROM costs WHERE {which}"),
        )
    };
    wait_for("a daemon that pays nothing more", SOON, || {
        let before = rows("true");
        std::thread::sleep(Duration::from_secs(2));
        (idle() && rows("ok IS NULL") == 0 && rows("true") == before).then_some(())
    });
    assert_eq!(daemon.term(), 0);
    for program in ["agent-index", "agent-consolidate"] {
        let told = sandbox.run(program, &[], "");
        assert_eq!(told.code, 0, "{program}: {told:?}");
    }
    model.forget();
    // What was cut off by the end of the daemon stays at its reservation, like what broke off.
    let lost = "ok IS NULL OR (ok = 0 AND cost_nano_usd > 0)";
    let known = number(
        &sandbox,
        &format!("SELECT sum(cost_nano_usd) FROM costs WHERE NOT coalesce({lost}, 0)"),
    );
    let bill: Vec<Charge> = model.bill().into_iter().chain(other.bill()).collect();
    let (charged, rows) = (
        bill.iter().map(price).sum::<i64>(),
        number(&sandbox, "SELECT count(*) FROM costs"),
    );
    let unknown = number(
        &sandbox,
        &format!("SELECT count(*) FROM costs WHERE {lost}"),
    );
    let kinds = sandbox.query(
        "cost",
        "SELECT kind, source, count(*), sum(ok) FROM costs GROUP BY 1, 2 ORDER BY 1, 2",
    );
    println!(
        "{rows} calls, {} answers, {unknown} of unknown end: {charged} nano dollars; {kinds:?}",
        bill.len()
    );
    assert_eq!(known, charged, "{kinds:?}");
    assert_eq!(
        number(&sandbox, "SELECT count(*) FROM costs WHERE ok = 1"),
        i64::try_from(bill.len()).expect("few")
    );
    assert!(unknown > 0, "some broke off");
    // Nothing was left out of the mixture.
    for of in [
        "kind = 'stt' AND ok = 1",
        "source = 'search' AND ok = 1",
        "source = 'index' AND ok = 1",
        "source = 'subagent' AND ok = 1",
        "source = 'compaction' AND ok = 1",
        "source = 'consolidation' AND ok = 1",
        "source = 'cli' AND model = 'spare' AND ok = 1",
        "ok = 0 AND cost_nano_usd = 0",
        "cache_read_tokens > 0",
        "cache_write_tokens > 0",
    ] {
        assert!(
            number(&sandbox, &format!("SELECT count(*) FROM costs WHERE {of}")) > 0,
            "{of}: {kinds:?}"
        );
    }
    let total = number(&sandbox, "SELECT sum(cost_nano_usd) FROM costs");
    let shown = sandbox.send(&["--cost", "all", "--json"]).json();
    assert_eq!(
        (&shown["total_cost_usd"], &shown["calls"]),
        (&json!(agent_toolkit::cost::usd(total)), &json!(rows))
    );
    for by in ["model", "session", "source", "day"] {
        let groups = sandbox
            .send(&["--cost", "month", "--by", by, "--json"])
            .json()["groups"]
            .clone();
        let sum: f64 = groups
            .as_array()
            .expect("groups")
            .iter()
            .filter_map(|group| group["cost_usd"].as_f64())
            .sum();
        assert!(
            (sum - agent_toolkit::cost::usd(total)).abs() < 1e-6,
            "{by}: {groups}"
        );
    }
}

#[test]
fn the_books_agree_with_the_bill_to_the_nano_dollar() {
    mixed_run(100);
}

#[test]
#[ignore = "a minute; run by scripts/bench cost"]
fn the_books_of_a_thousand_calls_agree_with_the_bill() {
    mixed_run(1000);
}

/// Returns what the owner was told of limits.
fn alerts(telegram: &FakeTelegram) -> Vec<String> {
    let texts = telegram.sent().into_iter().map(|sent| sent.text);
    texts
        .filter(|text| text.contains("limit") && text.contains("[cost] day_usd"))
        .collect()
}

#[test]
fn the_owner_hears_once_of_each_step_of_a_limit_and_a_restart_tells_nothing_again() {
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    // A call is reserved at two dollars at most and costs one: half a million tokens are a small answer here.
    let prices = "[models.primary]\nmax_tokens = 16\ncost_per_mtok = [0.0, 500000.0, 0.0, 0.0]";
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .provider_config("mock", prices);
    let sandbox = sandbox.config("[cost]\nday_usd = 20.0");
    let mut daemon = sandbox.ready();
    // Each of these has four tokens: two dollars of the twenty.
    let pay = |times: usize| {
        for _ in 0..times {
            model.push(Reply::Text("sixteen letters!".into()));
            assert_eq!(sandbox.send(&["--wait=60", "hello"]).code, 0);
        }
    };
    let told = |count: usize| {
        wait_for("an alert", SOON, || {
            Some(alerts(&telegram)).filter(|told| told.len() >= count)
        })
    };
    let requests = |count: usize| {
        assert_eq!(
            model.requests().len(),
            count,
            "no model is asked for an alert"
        )
    };
    pay(4);
    assert_eq!(alerts(&telegram), Vec::<String>::new());
    pay(1);
    let first = told(1);
    assert!(
        first[0].starts_with("50 % of the day's limit is spent: $10.0000 of $20.00 ("),
        "{first:?}"
    );
    pay(2);
    assert_eq!(daemon.term(), 0);
    daemon = sandbox.ready();
    // Six are left, and a call may cost eight.
    assert_eq!(sandbox.send(&["--wait=60", "hello"]).code, 1);
    let all = told(2);
    assert!(
        all[1].contains("(100 %): a call was refused. $14.0000 of $20.00 are spent or reserved"),
        "{all:?}"
    );
    requests(7);
    let status = sandbox.send(&["--status", "--json"]).json();
    let percents: Vec<&Value> = status["alerts"]
        .as_array()
        .expect("alerts")
        .iter()
        .map(|alert| &alert["percent"])
        .collect();
    assert_eq!(percents, [50, 100]);
    assert!(
        sandbox
            .send(&["--status"])
            .stdout
            .contains("100 % of [cost] day_usd = 20.00")
    );
    for _ in 0..2 {
        assert_eq!(sandbox.send(&["--wait=60", "hello"]).code, 1);
    }
    assert_eq!(daemon.term(), 0);
    // As if a crash had come before it was noted that they are told; and what another process noted meanwhile.
    let ledger = rusqlite::Connection::open(sandbox.path("state/cost.db")).expect("the ledger");
    let lost = "UPDATE alerts SET told_at = NULL; INSERT INTO alerts VALUES ('2026-01-31', 5000000000, 80, 4100000000, 0, NULL)";
    ledger.execute_batch(lost).expect("a row");
    drop(ledger);
    let daemon = sandbox.ready();
    let last = told(3);
    assert!(
        last[2].starts_with("80 % of the day's limit is spent: $4.1000 of $5.00 (2026-01-31; "),
        "{last:?}"
    );
    assert_eq!(sandbox.send(&["--wait=60", "hello"]).code, 1);
    assert_eq!(
        (&alerts(&telegram)[..2], alerts(&telegram).len()),
        (&all[..], 3),
        "{}",
        daemon.log()
    );
    assert_eq!(
        number(
            &sandbox,
            "SELECT count(*) FROM alerts WHERE told_at IS NULL"
        ),
        0
    );
}

#[test]
fn what_a_lost_ledger_knew_of_the_last_day_counts_on() {
    let (_model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config("[cost]\nday_usd = 5.0");
    let daemon = sandbox.ready();
    assert_eq!(sandbox.send(&["--wait=60", "hello"]).code, 0);
    let spent = || sandbox.send(&["--cost", "--json"]).json()["total_cost_usd"].clone();
    let before = spent();
    assert!(before.as_f64().is_some_and(|usd| usd > 0.0), "{before}");
    assert_eq!(daemon.term(), 0);
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(sandbox.path(&format!("state/cost.db{end}")));
    }
    let _daemon = sandbox.ready();
    assert_eq!(spent(), before);
    let told = sandbox.send(&["--status"]).stdout;
    assert!(told.contains("cost.db was removed or emptied"), "{told}");
}

#[test]
fn a_session_that_is_spent_says_so_and_another_goes_on() {
    let (model, sandbox) = Sandbox::with_model();
    let sandbox = sandbox.config("[cost]\nsession_usd = 0.20\njob_usd = 0.01");
    let _daemon = sandbox.ready();
    // One call is reserved at about 15 cents, the next one at more: the answer was long.
    assert_eq!(
        sandbox
            .send(&["--wait=60", "--session", "ada", "[[long 12000]]"])
            .code,
        0
    );
    let refused = sandbox.send(&["--wait=60", "--session", "ada", "more"]);
    assert_eq!(refused.code, 1, "{refused:?}");
    for part in [
        "the session limit is reached: [cost] session_usd = 0.20 in agent.toml",
        "/new begins another session",
    ] {
        assert!(refused.stderr.contains(part), "{refused:?}");
    }
    assert_eq!(
        sandbox
            .send(&["--wait=60", "--session", "bob", "hello"])
            .code,
        0
    );
    assert_eq!(
        sandbox
            .send(&["--wait=60", "--session", "ada", "/new"])
            .code,
        0
    );
    assert_eq!(
        sandbox
            .send(&["--wait=60", "--session", "ada", "hello"])
            .code,
        0
    );
    let calls = model.requests().len();
    // A job may cost a cent, and no call is reserved at so little.
    let added = sandbox.send(&[
        "--job", "add", "--id", "poor", "--every", "1h", "--text", "think",
    ]);
    assert_eq!(added.code, 0, "{added:?}");
    assert_eq!(sandbox.send(&["--job", "run", "poor"]).code, 0);
    let why = wait_for("the job's end", SOON, || {
        let jobs = sandbox.read_json("state/cron/jobs.json")?;
        jobs["jobs"][0]["last_error"].as_str().map(str::to_owned)
    });
    assert!(
        why.contains("the job limit is reached: [cost] job_usd = 0.01 in agent.toml"),
        "{why}"
    );
    assert_eq!(model.requests().len(), calls);
}

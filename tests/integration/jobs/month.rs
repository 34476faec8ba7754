//! A month of life by a clock that jumps: jobs of several zones across the change of their clocks, heartbeats,
//! messages, kills and nights without a daemon. What was expected is worked out from the calendar alone.

use std::collections::BTreeMap;
use std::io::Write;

use chrono::{DateTime, Datelike, NaiveDate, NaiveTime, TimeDelta, TimeZone, Timelike, Utc};
use chrono_tz::Tz;
use serde_json::{Value, json};

use super::{OWNER, SOON, Times};
use crate::support::{Reply, wait_for};

/// The clock goes on in steps of this.
const STEP: TimeDelta = TimeDelta::minutes(60);
const DAYS: i64 = 31;
/// A heartbeat may cost this much a day.
const DAY_USD: f64 = 0.3;

/// Numbers that look thrown and are the same each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Returns the instants at which the clocks of `zone` show `time`, once a day: a time that they skip is the first
/// instant after the gap, of one that they show twice the first counts.
fn daily(
    zone: Tz,
    time: NaiveTime,
    (from, until): (DateTime<Utc>, DateTime<Utc>),
) -> Vec<DateTime<Utc>> {
    let mut day: NaiveDate = from
        .with_timezone(&zone)
        .date_naive()
        .pred_opt()
        .expect("a day");
    let mut times = Vec::new();
    while day <= until.with_timezone(&zone).date_naive() {
        let minutes = (0..180).map(|minute| day.and_time(time) + TimeDelta::minutes(minute));
        let shown = minutes
            .filter_map(|local| zone.from_local_datetime(&local).earliest())
            .next()
            .expect("a time");
        times.push(shown.with_timezone(&Utc));
        day = day.succ_opt().expect("a day");
    }
    times.retain(|at| from < *at && *at <= until);
    times
}

/// Returns the 10th of the next March that is at least a day away: the clocks of many zones change in the month
/// after it.
fn beginning(now: DateTime<Utc>) -> DateTime<Utc> {
    let tenth = |year| {
        Utc.with_ymd_and_hms(year, 3, 10, 0, 10, 0)
            .single()
            .expect("a date")
    };
    [now.year(), now.year() + 1]
        .into_iter()
        .map(tenth)
        .find(|begin| *begin > now + TimeDelta::days(1))
        .expect("a March")
}

impl Times {
    /// Has the daemon look at its jobs now, and waits until everything that was due is done.
    fn look(&self, now: DateTime<Utc>, count: u64) {
        let id = format!("look-{count}");
        let line =
            format!("{{\"cmd\":\"job\",\"op\":\"pause\",\"job\":\"nobody\",\"id\":\"{id}\"}}\n");
        let fifo = std::fs::OpenOptions::new()
            .write(true)
            .open(self.sandbox.path("state/control.fifo"));
        fifo.and_then(|mut fifo| fifo.write_all(line.as_bytes()))
            .expect("the daemon listens");
        // Answer files are older than this clock allows.
        let done = format!("SELECT id FROM inbox WHERE id = '{id}' AND state IN ('done', 'dead')");
        wait_for("the look", SOON, || {
            (!self.sandbox.query("queue", &done).is_empty()).then_some(())
        });
        wait_for("what was due", SOON, || {
            let jobs = self
                .sandbox
                .read_json("state/cron/jobs.json")
                .unwrap_or_else(|| json!({"jobs": []}));
            let is_done = |job: &Value| {
                let next: Option<DateTime<Utc>> =
                    job["next_at"].as_str().and_then(|at| at.parse().ok());
                let is_late_and_waits = job["deliver"] == true && !awake(now);
                job.get("running").is_none()
                    && next.is_none_or(|next| next > now || is_late_and_waits)
            };
            let open = self.sandbox.query(
                "queue",
                "SELECT id FROM inbox WHERE state IN ('pending', 'running')",
            );
            (open.is_empty() && jobs["jobs"].as_array()?.iter().all(is_done)).then_some(())
        });
    }

    fn runs(&self, id: &str) -> Vec<Value> {
        let log = self
            .sandbox
            .read(&format!("state/cron/runs/{id}.jsonl"))
            .unwrap_or_default();
        log.lines()
            .map(|line| serde_json::from_str(line).expect("JSON"))
            .collect()
    }
}

fn time_of(value: &Value) -> DateTime<Utc> {
    value
        .as_str()
        .and_then(|at| at.parse().ok())
        .expect("a time")
}

/// Whether people may be spoken to unasked: 07:00 to 22:00 UTC.
fn awake(now: DateTime<Utc>) -> bool {
    let minutes = now.hour() * 60 + now.minute();
    (7 * 60..=22 * 60).contains(&minutes)
}

#[test]
fn a_month_passes_and_nothing_is_missed_twice_or_out_of_its_time() {
    let config = format!(
        "[heartbeat]\nevery = \"1h\"\nactive_start = \"07:00\"\nactive_end = \"22:00\"\nday_usd = {DAY_USD}\n[log]\nlevel = \"error\"\n"
    );
    let mut times = Times::asleep(&config);
    let begin = beginning(Utc::now());
    times
        .clock
        .later((begin - Utc::now()).to_std().expect("ahead"));
    times.start();
    let mut dice = Dice(0x5eed_cafe_f00d_d00d);

    let zone = |name: &str| name.parse::<Tz>().expect("a zone");
    let at = |hour, minute| NaiveTime::from_hms_opt(hour, minute, 0).expect("a time");
    // By the calendar of people in five places; two of them in the hour that their clocks skip or repeat.
    let jobs = [
        ("berlin", zone("Europe/Berlin"), at(2, 30), "all"),
        ("york", zone("America/New_York"), at(2, 15), "once"),
        ("howe", zone("Australia/Lord_Howe"), at(1, 45), "all"),
        ("kolkata", zone("Asia/Kolkata"), at(9, 0), "skip"),
        ("utc", zone("UTC"), at(12, 0), "once"),
    ];
    for (name, zone, time, missed) in &jobs {
        let line = format!("{} {} * * *", time.minute(), time.hour());
        let deliver: &[&str] = if *name == "utc" { &["--deliver"] } else { &[] };
        let text = format!("work of {name}");
        times.add(
            &[
                &[
                    "--id",
                    name,
                    "--cron",
                    &line,
                    "--tz",
                    zone.name(),
                    "--text",
                    &text,
                    "--missed",
                    missed,
                ],
                deliver,
            ]
            .concat(),
        );
    }
    let hourly = times.add(&[
        "--id",
        "interval",
        "--every",
        "5h",
        "--text",
        "work of interval",
        "--missed",
        "all",
    ]);
    let birth = time_of(&hourly["next_at"]) - TimeDelta::hours(5);

    let (mut now, mut said, mut kills, mut nights) = (times.now(), 0_u32, 0, 0);
    let end = begin + TimeDelta::days(DAYS);
    let mut count = 0;
    while now < end {
        count += 1;
        // A night without a daemon now and then; else it is only killed.
        let nap = match dice.below(80) {
            0 => TimeDelta::hours(7),
            _ => STEP,
        };
        if nap > STEP || dice.below(40) == 0 {
            if dice.below(2) == 0 {
                times.kill9()
            } else {
                times.stop()
            }
            kills += 1;
            nights += i32::from(nap > STEP);
            times.clock.later(nap.to_std().expect("positive"));
            times.start();
        } else {
            times.clock.later(nap.to_std().expect("positive"));
        }
        now = times.now();
        // From the second week on there is something to look after.
        if count == 200 {
            times
                .sandbox
                .put("workspace/HEARTBEAT.md", b"- look at the mail\n");
        }
        if dice.below(6) == 0 {
            said += 1;
            times
                .telegram
                .say(OWNER, OWNER, &format!("message number {said}"));
        }
        // What heartbeats say is nothing new, most of the time.
        if dice.below(10) == 0 {
            times.model.push(Reply::Text("HEARTBEAT_OK".into()));
        }
        times.look(now, count);
    }
    times.look(now, count + 1);
    wait_for("every answer", SOON, || {
        let open = times
            .sandbox
            .query("queue", "SELECT id FROM inbox WHERE state != 'done'");
        // What may have arrived before a kill is given up when it is old, and the clock jumps by an hour.
        let unsent = times.sandbox.query(
            "queue",
            "SELECT id FROM outbox WHERE state NOT IN ('sent', 'dead')",
        );
        (open.is_empty() && unsent.is_empty()).then_some(())
    });
    assert!(
        kills > 10 && nights > 3,
        "the dice were kind: {kills} {nights}"
    );

    // Every time is accounted for exactly once: it ran, or it was left out and told.
    let span = (begin, now);
    let mut expected: BTreeMap<&str, Vec<DateTime<Utc>>> = jobs
        .iter()
        .map(|(name, zone, time, _)| (*name, daily(*zone, *time, span)))
        .collect();
    let every = (1..)
        .map(|round| birth + TimeDelta::hours(5) * round)
        .take_while(|at| *at <= now)
        .collect();
    expected.insert("interval", every);
    for (name, expected) in &expected {
        let runs = times.runs(name);
        let ran: Vec<DateTime<Utc>> = runs
            .iter()
            .filter(|run| run["status"] == "ok")
            .map(|run| time_of(&run["at"]))
            .collect();
        let left_out: u64 = runs
            .iter()
            .filter(|run| run["status"] == "skipped")
            .filter_map(|run| run["count"].as_u64())
            .sum();
        assert!(
            runs.iter().all(|run| run["status"] != "error"),
            "{name}: {runs:?}"
        );
        let mut sorted = ran.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), ran.len(), "{name} ran twice: {ran:?}");
        assert!(
            ran.iter().all(|at| expected.contains(at)),
            "{name} ran out of its time: {ran:?} {expected:?}"
        );
        let told = u64::try_from(ran.len()).expect("few") + left_out;
        assert_eq!(
            told,
            u64::try_from(expected.len()).expect("few"),
            "{name}: {ran:?} and {left_out} of {expected:?}"
        );
        if ["berlin", "howe", "interval"].contains(name) {
            assert_eq!(left_out, 0, "{name} leaves nothing out");
        }
    }
    // The change of the clocks is in the month, and in the times.
    let changes = ["berlin", "howe", "york"].map(|name| {
        let all = &expected[name];
        all.windows(2)
            .filter(|pair| pair[1] - pair[0] != TimeDelta::hours(24))
            .count()
    });
    assert!(changes.iter().all(|count| *count >= 1), "{changes:?}");

    // What was delivered was delivered once, in hours in which people are awake.
    let sent = times.telegram.sent();
    let delivered = |text: &str| {
        sent.iter()
            .filter(|one| one.text.trim_start_matches("(resent) ").trim() == text)
            .count()
    };
    let ok = times
        .runs("utc")
        .iter()
        .filter(|run| run["status"] == "ok" && run["reply"] == "echo: work of utc")
        .count();
    let given_up = times
        .sandbox
        .query("queue", "SELECT id FROM outbox WHERE state = 'dead'")
        .len();
    let delivered = delivered("echo: work of utc");
    assert!(
        delivered <= ok && delivered + given_up >= ok,
        "{delivered} {given_up} {ok}"
    );
    for number in 1..=said {
        let answers = sent
            .iter()
            .filter(|one| {
                one.text
                    .lines()
                    .any(|line| line == format!("echo: message number {number}"))
            })
            .count();
        assert!(
            answers <= 1,
            "message {number} was answered {answers} times"
        );
    }
    let starts = times.sandbox.query(
        "queue",
        "SELECT received_at, id FROM inbox WHERE id LIKE 'job:utc:%' OR id LIKE 'heartbeat:%' ORDER BY received_at",
    );
    for row in &starts {
        let rusqlite::types::Value::Integer(at) = row[0] else {
            panic!("{row:?}")
        };
        let at = DateTime::from_timestamp_millis(at).expect("a time");
        assert!(awake(at), "{row:?} at {at}");
    }

    // Heartbeats: none before there was an item, at most one an hour after it, within their money.
    let beats = times
        .model
        .requests()
        .iter()
        .filter(|request| request.to_string().contains("you woke by yourself"))
        .count();
    let woke = times
        .sandbox
        .query("queue", "SELECT id FROM inbox WHERE id LIKE 'heartbeat:%'");
    // The queue keeps two weeks, and the money is gone before the day is.
    assert!(beats > 60 && woke.len() > 40, "{beats} {}", woke.len());
    let spent = times.sandbox.query(
        "cost",
        "SELECT sum(cost_nano_usd) FROM costs WHERE source = 'heartbeat' GROUP BY ts / 86400000",
    );
    for row in spent {
        let rusqlite::types::Value::Integer(nano) = row[0] else {
            panic!("{row:?}")
        };
        assert!(nano as f64 / 1e9 <= DAY_USD, "{nano}");
    }
}

#[test]
fn an_idle_day_asks_no_model() {
    let mut times = Times::asleep(
        "[heartbeat]\nevery = \"30m\"\nactive_start = \"00:00\"\nactive_end = \"23:59\"\n",
    );
    times.start();
    for count in 0..26 {
        times.clock.later(STEP.to_std().expect("positive"));
        times.look(times.now(), count);
    }
    assert_eq!(times.model.requests().len(), 0);
    assert_eq!(
        times
            .sandbox
            .query("cost", "SELECT call_id FROM costs")
            .len(),
        0
    );
    assert_eq!(times.telegram.sent().len(), 0);
}

use std::sync::atomic::{AtomicBool, Ordering};

use chrono_tz::Tz;

use super::*;
use crate::cost::{Alert, Ledger, Outcome, alerts};
use crate::message::Usage;
use crate::{clock, db};

const UTC: Tz = chrono_tz::UTC;
/// A cent, in nano dollars.
const CENT: i64 = 10_000_000;

struct House {
    dir: tempfile::TempDir,
    ledger: Ledger,
}

/// A call of a session in a run.
#[derive(Clone, Copy)]
struct Call<'a> {
    source: &'static str,
    run: &'a str,
    session: &'a str,
    budget: Option<f64>,
    share: Option<f64>,
    of_others: bool,
}

fn call<'a>(source: &'static str, run: &'a str, session: &'a str) -> Call<'a> {
    Call {
        source,
        run,
        session,
        budget: None,
        share: None,
        of_others: false,
    }
}

impl House {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("dir");
        let ledger = Ledger::start(&dir.path().join("cost.db"), UTC).expect("ledger");
        Self { dir, ledger }
    }

    fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("cost.db")
    }

    /// Pays a cent, or returns the limit that does not allow it.
    async fn pay(&self, caps: &Cost, call: Call<'_>) -> Result<(), String> {
        self.pay_at(caps, call, CENT, CENT, clock::now_ms()).await
    }

    async fn pay_at(
        &self,
        caps: &Cost,
        call: Call<'_>,
        bound: i64,
        cost: i64,
        now: i64,
    ) -> Result<(), String> {
        let reserved = self
            .ledger
            .reserve(new_call(call, Some(bound)), caps, now)
            .await
            .expect("ledger");
        let reserved = reserved.map_err(|refusal| match refusal {
            Refusal::Cap {
                period, setting, ..
            } => format!("{period}: {setting}"),
            Refusal::Unpriced { .. } => "unpriced".to_owned(),
        })?;
        self.ledger
            .settle(
                reserved,
                Outcome::Answered {
                    usage: Usage::default(),
                    cost: Some(cost),
                },
                1,
            )
            .await
            .expect("settle");
        Ok(())
    }

    /// Returns how many cents can be paid.
    async fn cents(&self, caps: &Cost, call: Call<'_>) -> (usize, String) {
        for paid in 0..100 {
            if let Err(why) = self.pay(caps, call).await {
                return (paid, why);
            }
        }
        panic!("no limit holds it");
    }
}

fn new_call(call: Call<'_>, bound: Option<i64>) -> NewCall {
    NewCall {
        call_id: uuid::Uuid::now_v7().to_string(),
        run_id: call.run.to_owned(),
        session_id: call.session.to_owned(),
        source: call.source,
        provider: "p".to_owned(),
        model: "m".to_owned(),
        kind: Kind::Chat,
        bound,
        budget_usd: call.budget,
        share_usd: call.share,
        of_others: call.of_others,
    }
}

#[tokio::test]
async fn others_leave_the_last_fifth_to_the_owner() {
    let house = House::new();
    let caps = Cost {
        day_usd: 0.10,
        ..Cost::default()
    };
    let guest = Call {
        of_others: true,
        ..call("telegram", "r", "eve")
    };
    let why = "day: 80 % of [cost] day_usd".to_owned();
    assert_eq!(house.cents(&caps, guest).await, (8, why));
    let owner = call("telegram", "r2", "ada");
    let why = "day: [cost] day_usd".to_owned();
    assert_eq!(house.cents(&caps, owner).await, (2, why));
}

#[tokio::test]
async fn what_was_paid_while_the_clock_was_ahead_counts_against_no_day_before() {
    let (house, now) = (House::new(), clock::now_ms());
    let caps = Cost {
        day_usd: 0.03,
        month_usd: 0.03,
        ..Cost::default()
    };
    let pay = |at| house.pay_at(&caps, call("cli", "r", "ada"), CENT, CENT, at);
    let year = 366 * 24 * 3_600_000;
    for _ in 0..3 {
        pay(now + year).await.expect("then it is within its limit");
    }
    let full = Err("day: [cost] day_usd".to_owned());
    assert_eq!(pay(now + year).await, full);
    // A clock that was only set back by some hours lets nobody pay twice.
    for at in [now + 3_600_000, now, now] {
        pay(at).await.expect("none of that is of today");
    }
    assert_eq!(pay(now).await, full);
    let today = crate::cost::start_of_day(now, UTC);
    assert_eq!(
        house.ledger.spent_since(today, now).await.expect("sum"),
        0.03
    );
    let lines = crate::cost::by_model(&house.path(), today, now).expect("lines");
    assert_eq!(crate::cost::total_usd(&lines), 0.03);
}

#[tokio::test]
async fn a_session_pays_for_its_sub_agents_too_and_another_has_its_own_limit() {
    let (house, caps) = (
        House::new(),
        Cost {
            session_usd: 0.05,
            ..Cost::default()
        },
    );
    house
        .pay(&caps, call("cli", "r1", "ada"))
        .await
        .expect("one");
    house
        .pay(&caps, call("subagent", "r1", "errand"))
        .await
        .expect("two");
    // Making room in the errand's conversation has a run of its own.
    house
        .pay(&caps, call("compaction", "r1/room", "errand"))
        .await
        .expect("three");
    let spent = "session: [cost] session_usd".to_owned();
    assert_eq!(
        house.cents(&caps, call("subagent", "r1", "another")).await,
        (2, spent.clone())
    );
    for one in [
        call("cli", "r2", "ada"),
        call("compaction", "r2/room", "ada"),
        call("compaction", "r1/room", "errand"),
    ] {
        assert_eq!(house.pay(&caps, one).await, Err(spent.clone()));
    }
    house
        .pay(&caps, call("consolidation", "c", "ada"))
        .await
        .expect("what is remembered of it is no part of it");
    assert_eq!(house.cents(&caps, call("cli", "r3", "bob")).await.0, 5);
    house
        .pay(&caps, call("index", "", ""))
        .await
        .expect("it is of no session");
}

#[tokio::test]
async fn a_sub_agents_budget_is_its_own_and_its_senders_holds_them_all() {
    let (house, caps) = (House::new(), Cost::default());
    let sender = Call {
        budget: Some(0.10),
        ..call("job", "r", "job")
    };
    house.pay(&caps, sender).await.expect("one");
    house.pay(&caps, sender).await.expect("two");
    let errand = |session| Call {
        budget: Some(0.10),
        share: Some(0.03),
        ..call("subagent", "r", session)
    };
    // What was spent before is not held against the errand.
    let own = (3, "sub-agent: budget_usd".to_owned());
    assert_eq!(house.cents(&caps, errand("e1")).await, own);
    assert_eq!(house.cents(&caps, errand("e2")).await, own);
    assert_eq!(
        house.cents(&caps, errand("e3")).await,
        (2, "job: budget_usd".to_owned())
    );
    assert_eq!(
        house
            .pay(
                &caps,
                Call {
                    budget: Some(0.10),
                    ..call("report", "r", "job")
                }
            )
            .await,
        Err("job: budget_usd".into())
    );
}

#[tokio::test]
async fn a_jobs_limit_holds_its_run_with_all_it_sends_and_no_message() {
    let (house, caps) = (
        House::new(),
        Cost {
            job_usd: 0.03,
            message_usd: 0.50,
            ..Cost::default()
        },
    );
    house
        .pay(&caps, call("job", "r1", "job:a"))
        .await
        .expect("one");
    house
        .pay(&caps, call("subagent", "r1", "errand"))
        .await
        .expect("two");
    assert_eq!(
        house.cents(&caps, call("report", "r1", "job:a")).await,
        (1, "job: [cost] job_usd".to_owned())
    );
    assert_eq!(house.cents(&caps, call("job", "r2", "job:a")).await.0, 3);
    assert_eq!(
        house.cents(&caps, call("cli", "r3", "ada")).await,
        (50, "message: [cost] message_usd".to_owned())
    );
}

#[tokio::test]
async fn an_unpriced_model_is_refused_under_any_limit() {
    let house = House::new();
    let plain = call("cli", "r", "s");
    let asked = async |caps: Cost, call: Call<'_>| {
        let reserved = house
            .ledger
            .reserve(new_call(call, None), &caps, clock::now_ms())
            .await
            .expect("ledger");
        matches!(reserved, Err(Refusal::Unpriced { .. }))
    };
    assert!(!asked(Cost::default(), plain).await);
    let none = Cost::default;
    let each = [
        Cost {
            day_usd: 1.0,
            ..none()
        },
        Cost {
            month_usd: 1.0,
            ..none()
        },
        Cost {
            session_usd: 1.0,
            ..none()
        },
        Cost {
            message_usd: 1.0,
            ..none()
        },
        Cost {
            job_usd: 1.0,
            ..none()
        },
    ];
    for caps in each {
        assert!(asked(caps.clone(), plain).await, "{caps:?}");
    }
    assert!(
        asked(
            none(),
            Call {
                budget: Some(1.0),
                ..plain
            }
        )
        .await
    );
    assert!(
        asked(
            none(),
            Call {
                share: Some(1.0),
                ..plain
            }
        )
        .await
    );
}

#[test]
fn a_refusal_names_the_value_the_setting_and_the_file() {
    let house = House::new();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("runtime");
    let caps = Cost {
        session_usd: 0.015,
        ..Cost::default()
    };
    runtime
        .block_on(house.pay(&caps, call("cli", "r", "s")))
        .expect("one");
    let refused = runtime.block_on(house.ledger.reserve(
        new_call(call("cli", "r", "s"), Some(CENT)),
        &caps,
        clock::now_ms(),
    ));
    assert_eq!(
        refused.expect("ledger").expect_err("refused").to_string(),
        "the session limit is reached: [cost] session_usd = 0.015 in agent.toml, spent or reserved 0.01, this call may cost up \
         to 0.01 (US dollars); /new begins another session"
    );
}

/// Sixteen payers, each with a ledger of its own as a process has, and somebody who adds up meanwhile.
#[test]
fn sixteen_payers_at_once_never_exceed_a_limit_by_a_nano_dollar() {
    const LIMIT: i64 = 1_000_000_007;
    let house = House::new();
    let caps = Cost {
        day_usd: 1.000_000_007,
        ..Cost::default()
    };
    let over = AtomicBool::new(false);
    let sum = |connection: &Connection| -> i64 {
        connection
            .query_row(
                "SELECT coalesce(sum(cost_nano_usd), 0) FROM costs",
                [],
                |row| row.get(0),
            )
            .expect("sum")
    };
    let (mut paid, mut refused, mut most) = (0, 0, 0);
    std::thread::scope(|scope| {
        let payers: Vec<_> = (0..16_i64)
            .map(|payer| {
                let (path, caps) = (house.path(), caps.clone());
                scope.spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread()
                        .build()
                        .expect("runtime");
                    let ledger = Ledger::start(&path, UTC).expect("ledger");
                    let mut count = (0, 0);
                    for round in 0..12_i64 {
                        // Odd amounts: no two sums are alike.
                        let bound = 7_000_003 + 1_000_033 * ((payer * 31 + round * 17) % 23);
                        let call = new_call(call("cli", "r", "s"), Some(bound));
                        let Ok(reserved) = runtime
                            .block_on(ledger.reserve(call, &caps, clock::now_ms()))
                            .expect("ledger")
                        else {
                            count.1 += 1;
                            continue;
                        };
                        count.0 += 1;
                        let outcome = match round % 4 {
                            0 => Outcome::Unknown,
                            1 => Outcome::Free,
                            _ => Outcome::Answered {
                                usage: Usage::default(),
                                cost: Some(bound - round),
                            },
                        };
                        runtime
                            .block_on(ledger.settle(reserved, outcome, 1))
                            .expect("settle");
                    }
                    count
                })
            })
            .collect();
        let watch = scope.spawn(|| {
            let connection = db::open_read(&house.path()).expect("open").expect("ledger");
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = sum(&connection).max(most);
            }
            most
        });
        for payer in payers {
            let (ok, no) = payer.join().expect("no panic");
            (paid, refused) = (paid + ok, refused + no);
        }
        over.store(true, Ordering::Relaxed);
        most = watch.join().expect("no panic");
    });
    let spent = sum(&db::open_read(&house.path()).expect("open").expect("ledger"));
    assert_eq!(paid + refused, 16 * 12);
    assert!(
        refused > 0 && most <= LIMIT && spent <= LIMIT,
        "{paid} paid, {refused} refused, at most {most}, at last {spent}"
    );
    // And what is left is less than the dearest call: nobody was refused for nothing.
    assert!(LIMIT - spent < 30_000_000 + 7_000_003, "{spent}");
}

#[tokio::test]
async fn a_ledger_of_an_older_build_is_read_as_it_is_and_brought_up_to_date() {
    let dir = tempfile::tempdir().expect("dir");
    let path = dir.path().join("cost.db");
    let old = db::open(&path, &[include_str!("../migrations/0001_ledger.sql")]).expect("open");
    old.execute_batch(
        "INSERT INTO costs(ts, call_id, run_id, session_id, source, provider, model, kind, cost_nano_usd, ok)
         VALUES (1, 'c', 'r', 's', 'cli', 'p', 'm', 'chat', 40000000, 1)",
    )
    .expect("a row");
    drop(old);
    let caps = Cost {
        session_usd: 0.05,
        day_usd: 1.0,
        ..Cost::default()
    };
    assert_eq!(
        alerts(&path, 1, UTC, &caps).expect("no table is no alert"),
        []
    );
    let house = House {
        ledger: Ledger::start(&path, UTC).expect("ledger"),
        dir,
    };
    assert_eq!(
        house.cents(&caps, call("cli", "r2", "s")).await,
        (1, "session: [cost] session_usd".to_owned())
    );
}

fn steps(alerts: &[Alert]) -> Vec<(String, i64)> {
    alerts
        .iter()
        .map(|alert| (alert.span.clone(), alert.percent))
        .collect()
}

#[tokio::test]
async fn each_step_of_a_limit_is_noted_once_for_its_local_day_and_month() {
    let house = House::new();
    let caps = Cost {
        day_usd: 0.10,
        month_usd: 0.15,
        ..Cost::default()
    };
    let ms = |time: &str| clock::parse_rfc3339(time).expect("time");
    let first = ms("2025-10-26T10:00:00.000Z");
    let one = call("cli", "r", "s");
    let mut seen = Vec::new();
    for _ in 0..10 {
        house
            .pay_at(&caps, one, CENT, CENT, first)
            .await
            .expect("paid");
        let news = house.ledger.untold().await.expect("ledger");
        for alert in &news {
            house.ledger.told(alert, first).await.expect("told");
        }
        seen.extend(steps(&news));
    }
    let step = |span: &str, percent| (span.to_owned(), percent);
    // The month is at 50 % with the eighth cent.
    let of_day = |percent| step("2025-10-26", percent);
    assert_eq!(
        seen,
        [of_day(50), of_day(80), step("2025-10", 50), of_day(100)]
    );
    assert!(house.pay_at(&caps, one, CENT, CENT, first).await.is_err());
    assert_eq!(
        house.ledger.untold().await.expect("ledger"),
        [],
        "the refusal is no news"
    );
    // The next day has its own steps; the month continues, and a refusal of it is told.
    let second = ms("2025-10-27T10:00:00.000Z");
    let again = Ledger::start(&house.path(), UTC).expect("another process");
    for _ in 0..5 {
        house
            .pay_at(&caps, one, CENT, CENT, second)
            .await
            .expect("paid");
    }
    assert_eq!(
        steps(&again.untold().await.expect("ledger")),
        [
            step("2025-10", 80),
            step("2025-10-27", 50),
            step("2025-10", 100)
        ]
    );
    let found = alerts(&house.path(), second, UTC, &caps).expect("alerts");
    assert_eq!(
        steps(&found),
        [
            step("2025-10-27", 50),
            step("2025-10", 50),
            step("2025-10", 80),
            step("2025-10", 100)
        ]
    );
    assert_eq!(
        found[0].text(),
        "50 % of the day's limit is spent: $0.0500 of $0.10 (2025-10-27; [cost] day_usd = 0.10 in agent.toml)"
    );
    let beyond = Alert {
        percent: 100,
        spent_usd: 0.7499,
        limit_usd: 0.25,
        ..found[0].clone()
    };
    assert!(
        beyond
            .text()
            .starts_with("299 % of the day's limit is spent: $0.7499 of $0.25"),
        "{}",
        beyond.text()
    );
    // A limit that was raised is another one.
    let raised = Cost {
        day_usd: 0.20,
        month_usd: 0.0,
        ..caps
    };
    assert_eq!(
        steps(&alerts(&house.path(), second, UTC, &raised).expect("alerts")),
        []
    );
}

#[tokio::test]
async fn what_is_only_reserved_is_no_alarm_and_a_refusal_is() {
    let (house, caps) = (
        House::new(),
        Cost {
            day_usd: 0.10,
            ..Cost::default()
        },
    );
    let now = clock::now_ms();
    let one = call("cli", "r", "s");
    let open = house
        .ledger
        .reserve(new_call(one, Some(9 * CENT)), &caps, now)
        .await
        .expect("ledger")
        .expect("money");
    house.pay_at(&caps, one, CENT, 1, now).await.expect("paid");
    assert_eq!(house.ledger.untold().await.expect("ledger"), []);
    // It fits, perhaps, when the first has settled.
    assert!(house.pay_at(&caps, one, 2 * CENT, 1, now).await.is_err());
    assert_eq!(house.ledger.untold().await.expect("ledger"), []);
    // What broke off counts as spent.
    house
        .ledger
        .settle(open, Outcome::Unknown, 1)
        .await
        .expect("settle");
    assert!(house.pay_at(&caps, one, 2 * CENT, 1, now).await.is_err());
    let news = house.ledger.untold().await.expect("ledger");
    let mut percents: Vec<i64> = news.iter().map(|alert| alert.percent).collect();
    percents.sort_unstable();
    assert_eq!(percents, [50, 80, 100]);
    let refusal = news.iter().find(|alert| alert.is_refusal());
    let refusal = refusal.expect("a refusal");
    assert!(
        refusal.is_refusal()
            && refusal
                .text()
                .contains("(100 %): a call was refused. $0.0900 of $0.10"),
        "{refusal:?}"
    );
}

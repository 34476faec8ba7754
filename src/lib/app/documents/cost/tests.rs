use serde_json::json;

use super::*;
use crate::config::Config;
use crate::cost::{Ledger, NewCall, Outcome, Reserved};
use crate::message::Usage;

const BERLIN: Tz = Tz::Europe__Berlin;
const LORD_HOWE: Tz = Tz::Australia__Lord_Howe;

struct House {
    _dir: tempfile::TempDir,
    home: Home,
    ledger: Ledger,
    calls: std::cell::Cell<u32>,
}

fn house() -> House {
    let dir = tempfile::tempdir().expect("dir");
    let home = Home::at(dir.path());
    std::fs::create_dir_all(home.archive()).expect("dirs");
    let ledger = Ledger::start(&home.cost_db(), chrono_tz::UTC).expect("ledger");
    House {
        _dir: dir,
        home,
        ledger,
        calls: std::cell::Cell::new(0),
    }
}

impl House {
    /// A call at `time` that cost `nano`, of 100 input and 10 output tokens; `None` = unpriced.
    async fn paid(&self, time: &str, model: &str, session: &str, nano: Option<i64>) {
        let reserved = self.reserve(time, model, session, nano).await;
        let usage = Usage {
            input_tokens: 100,
            output_tokens: 10,
            cache_read_tokens: 1,
            cache_write_tokens: 2,
            estimated: false,
        };
        self.ledger
            .settle(reserved, Outcome::Answered { usage, cost: nano }, 5)
            .await
            .expect("settle");
    }

    async fn reserve(
        &self,
        time: &str,
        model: &str,
        session: &str,
        bound: Option<i64>,
    ) -> Reserved {
        self.calls.set(self.calls.get() + 1);
        let call = NewCall {
            call_id: self.calls.get().to_string(),
            run_id: "r".to_owned(),
            session_id: session.to_owned(),
            source: "cli",
            provider: "p".to_owned(),
            model: model.to_owned(),
            kind: crate::cost::Kind::Chat,
            bound,
            budget_usd: None,
            share_usd: None,
            of_others: false,
        };
        self.ledger
            .reserve(call, &config::Cost::default(), ms(time))
            .await
            .expect("ledger")
            .expect("no limit")
    }

    fn ask(&self, now: &str, zone: Tz, period: Period, by: Option<By>) -> Cost {
        at(ms(now), &self.home, &in_zone(zone), period, by).expect("cost")
    }

    fn days(&self, now: &str, zone: Tz, period: Period) -> Vec<(String, i64)> {
        let groups = self
            .ask(now, zone, period, Some(By::Day))
            .groups
            .expect("groups");
        groups
            .into_iter()
            .map(|group| (group.name, group.numbers.calls))
            .collect()
    }
}

fn in_zone(zone: Tz) -> Config {
    let mut config = Config::default();
    config.agent.timezone.0 = zone;
    config
}

fn ms(time: &str) -> i64 {
    clock::parse_rfc3339(time).expect("time")
}

fn start(period: Period, now: &str, zone: Tz) -> Option<String> {
    period.start(ms(now), zone).map(clock::rfc3339)
}

#[tokio::test]
async fn what_was_paid_while_a_clock_was_ahead_is_of_no_day_that_has_come() {
    let house = house();
    let now = "2026-06-15T12:00:00Z";
    house.paid("2026-06-15T11:00:00Z", "m", "s", Some(1)).await;
    house.paid("2026-07-15T11:00:00Z", "m", "s", Some(1)).await;
    for (period, calls, later) in [
        (Period::Today, 1, 1),
        (Period::Week, 1, 1),
        (Period::Month, 1, 1),
        (Period::All, 2, 0),
    ] {
        let cost = house.ask(now, chrono_tz::UTC, period, Some(By::Day));
        assert_eq!((cost.calls, cost.later_calls), (calls, later), "{period:?}");
    }
}

#[test]
fn periods_begin_at_local_midnights_across_changes_of_the_clock() {
    // Berlin: 2025-10-26 has 25 hours.
    let now = "2025-10-26T22:59:59.999Z";
    assert_eq!(
        start(Period::Today, now, BERLIN).as_deref(),
        Some("2025-10-25T22:00:00.000Z")
    );
    assert_eq!(
        start(Period::Today, "2025-10-26T23:00:00.000Z", BERLIN).as_deref(),
        Some("2025-10-26T23:00:00.000Z")
    );
    assert_eq!(
        start(Period::Week, "2025-10-28T12:00:00.000Z", BERLIN).as_deref(),
        Some("2025-10-21T22:00:00.000Z")
    );
    assert_eq!(
        start(Period::Month, now, BERLIN).as_deref(),
        Some("2025-09-30T22:00:00.000Z")
    );
    // Lord Howe: 2025-10-05 has 23.5 hours, 2026-04-05 has 24.5.
    assert_eq!(
        start(Period::Today, "2025-10-05T12:59:00.000Z", LORD_HOWE).as_deref(),
        Some("2025-10-04T13:30:00.000Z")
    );
    assert_eq!(
        start(Period::Today, "2025-10-05T13:00:00.000Z", LORD_HOWE).as_deref(),
        Some("2025-10-05T13:00:00.000Z")
    );
    assert_eq!(
        start(Period::Week, "2025-10-07T00:00:00.000Z", LORD_HOWE).as_deref(),
        Some("2025-09-30T13:30:00.000Z")
    );
    assert_eq!(
        start(Period::Month, "2026-04-30T13:29:59.000Z", LORD_HOWE).as_deref(),
        Some("2026-03-31T13:00:00.000Z")
    );
    assert_eq!(
        start(Period::Month, "2026-04-30T13:30:00.000Z", LORD_HOWE).as_deref(),
        Some("2026-04-30T13:30:00.000Z")
    );
    assert_eq!(start(Period::All, now, BERLIN), None);
}

#[tokio::test]
async fn a_call_belongs_to_the_local_day_in_which_it_was_made() {
    let house = house();
    for time in [
        "2025-10-25T21:59:59.999Z",
        "2025-10-25T22:00:00.000Z",
        "2025-10-26T00:30:00.000Z",
        "2025-10-26T01:30:00.000Z",
        "2025-10-26T22:59:59.999Z",
        "2025-10-26T23:00:00.000Z",
    ] {
        house.paid(time, "primary", "s", Some(1)).await;
    }
    let day = |name: &str, calls| (name.to_owned(), calls);
    let now = "2025-10-27T12:00:00.000Z";
    assert_eq!(
        house.days(now, BERLIN, Period::All),
        [
            day("2025-10-25", 1),
            day("2025-10-26", 4),
            day("2025-10-27", 1)
        ]
    );
    assert_eq!(
        house.days(now, chrono_tz::UTC, Period::All),
        [day("2025-10-25", 2), day("2025-10-26", 4)]
    );
    assert_eq!(
        house.days(now, BERLIN, Period::Today),
        [day("2025-10-27", 1)]
    );
    assert_eq!(
        house.days("2025-10-31T22:59:59.999Z", BERLIN, Period::Week),
        [
            day("2025-10-25", 1),
            day("2025-10-26", 4),
            day("2025-10-27", 1)
        ]
    );
    assert_eq!(
        house.days("2025-10-31T23:00:00.000Z", BERLIN, Period::Week),
        [day("2025-10-26", 4), day("2025-10-27", 1)]
    );
}

#[tokio::test]
async fn the_document_is_exact() {
    let house = house();
    // In binary fractions of a dollar these sums would drift.
    for _ in 0..10 {
        house
            .paid(
                "2025-11-21T08:00:00.000Z",
                "primary",
                "s1",
                Some(100_000_001),
            )
            .await;
    }
    house
        .paid("2025-11-21T09:00:00.000Z", "local", "s2", None)
        .await;
    house
        .reserve("2025-11-21T10:00:00.000Z", "primary", "", Some(500))
        .await;
    house
        .paid("2025-11-19T08:00:00.000Z", "primary", "s1", Some(7))
        .await;
    let head = r#"{"v":1,"ts":"t","seq":1,"type":"session","session_id":"s1","key":"cli:ada","contact":"Ada","created_at":"t"}"#;
    let file = house.home.archive().join("s1.2025-11-21.jsonl");
    crate::sys::atomic::write(
        &file,
        format!("{head}\n").as_bytes(),
        crate::sys::atomic::Durability::Rename,
    )
    .expect("write");

    let mut config = in_zone(chrono_tz::UTC);
    (config.cost.day_usd, config.cost.month_usd) = (5.0, 0.5);
    let ask = |by| {
        at(
            ms("2025-11-21T12:00:00.000Z"),
            &house.home,
            &config,
            Period::Today,
            by,
        )
        .expect("cost")
    };
    let numbers = |calls: i64, tokens: i64, cost: f64| {
        json!({"calls": calls, "unpriced_calls": 0, "input_tokens": 100 * tokens, "output_tokens": 10 * tokens,
            "cache_read_tokens": tokens, "cache_write_tokens": 2 * tokens, "cost_usd": cost})
    };
    let line = |name: &str, value: serde_json::Value, numbers: serde_json::Value| {
        let mut line = json!({name: value});
        line.as_object_mut()
            .expect("an object")
            .extend(numbers.as_object().expect("an object").clone());
        line
    };
    let mut unpriced = numbers(1, 1, 0.0);
    unpriced["unpriced_calls"] = json!(1);
    let caps = json!({"day_usd": 5.0, "month_usd": 0.5, "day_left_usd": 3.99999949, "month_left_usd": 0.0});
    let document = json!({
        "period": "today", "since": "2025-11-21T00:00:00.000Z", "total_cost_usd": 1.00000051, "estimated_usd": 0.0000005,
        "cache_read_ratio": 1.0 / 103.0, "forecast_usd": null, "calls": 12, "unpriced_calls": 1, "later_calls": 0,
        "models": [line("model", json!("primary"), numbers(11, 10, 1.00000051)), line("model", json!("local"), unpriced.clone())],
        "caps": caps
    });
    assert_eq!(
        serde_json::to_value(ask(None)).expect("a document"),
        document
    );

    let mut with_groups = document.clone();
    with_groups["by"] = json!("session");
    let mut of_ada = line(
        "name",
        json!("s1"),
        json!({"key": "cli:ada", "contact": "Ada", "archived": true}),
    );
    of_ada.as_object_mut().expect("an object").extend(
        numbers(10, 10, 1.00000001)
            .as_object()
            .expect("an object")
            .clone(),
    );
    with_groups["groups"] = json!([
        of_ada,
        line("name", json!(""), numbers(1, 0, 0.0000005)),
        line("name", json!("s2"), unpriced)
    ]);
    assert_eq!(
        serde_json::to_value(ask(Some(By::Session))).expect("a document"),
        with_groups
    );
    for by in [By::Model, By::Source, By::Day] {
        let sum: f64 = ask(Some(by))
            .groups
            .into_iter()
            .flatten()
            .map(|group| group.numbers.cost_usd)
            .sum();
        assert!((sum - 1.00000051).abs() < 1e-12, "{by:?}: {sum}");
    }
}

#[tokio::test]
async fn a_month_goes_on_as_its_last_seven_whole_days() {
    // A month with a change of the clock in each of the zones; noon of the 20th and of ten days before.
    for (zone, month, days) in [
        (BERLIN, "2026-10", 31),
        (chrono_tz::America::New_York, "2026-11", 30),
        (LORD_HOWE, "2026-04", 30),
        (chrono_tz::UTC, "2028-02", 29),
    ] {
        let house = house();
        let noon = |day: u32| {
            let date = format!("{month}-{day:02}")
                .parse::<chrono::NaiveDate>()
                .expect("a date");
            clock::rfc3339(clock::instant_of(
                date.and_hms_opt(12, 0, 0).expect("noon"),
                zone,
            ))
        };
        let forecast = |day: u32| {
            house
                .ask(&noon(day), zone, Period::Month, None)
                .forecast_usd
        };
        assert_eq!(forecast(20), None, "nothing was ever spent");
        house
            .paid(&noon(10), "primary", "s", Some(1_000_000_000))
            .await;
        assert_eq!(forecast(10), None, "no whole day is over");
        // The first day is taken for a whole one.
        assert_eq!(forecast(11), Some(1.0 + 1.0 * f64::from(days - 10)));
        for day in 13..20 {
            house
                .paid(&noon(day), "primary", "s", Some(700_000_000))
                .await;
        }
        let spent = 1.0 + 7.0 * 0.7;
        let expect = |found: Option<f64>, expected: f64| {
            assert!(
                found.is_some_and(|found| (found - expected).abs() < 1e-9),
                "{zone}: {found:?}, not {expected}"
            );
        };
        expect(forecast(20), spent + 0.7 * f64::from(days - 19));
        // What today cost more than a day does, it keeps; the days before the seven do not count.
        house
            .paid(&noon(20), "primary", "s", Some(2_000_000_000))
            .await;
        expect(forecast(20), spent + 2.0 + 0.7 * f64::from(days - 20));
        assert_eq!(
            house.ask(&noon(20), zone, Period::Week, None).forecast_usd,
            None
        );
    }
}

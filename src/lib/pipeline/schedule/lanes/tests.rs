//! Tests of the lanes.

use super::*;
use crate::message::{Command, Envelope, Sender, Source};
use crate::pipeline::schedule::slots::Slot;
use crate::queue::{Accepted, Deaths, Suspended};
use std::time::Duration;

fn row(session: &str, seq: i64) -> TurnInputs {
    row_from(Source::Cli, session, seq)
}

/// A message; what people write is the owner's.
fn row_from(source: Source, session: &str, seq: i64) -> TurnInputs {
    row_of(source, (session, session, source.is_person()), seq)
}

fn row_of(source: Source, (session, who, from_owner): (&str, &str, bool), seq: i64) -> TurnInputs {
    let mut row = Accepted {
        seq,
        attempts: 0,
        run_id: None,
        wake_at: None,
        suspended: None,
        deaths: Deaths::default(),
        envelope: Envelope::new(
            seq.to_string(),
            source,
            Sender {
                id: who.into(),
                name: who.into(),
                username: None,
            },
            SessionKey(session.into()),
            String::new(),
            0,
        ),
    };
    row.envelope.from_owner = from_owner;
    TurnInputs::of(row)
}

/// Lanes with the slots of what runs in them.
#[derive(Default)]
struct Running(Lanes, HashMap<SessionKey, Slot>);

impl Running {
    fn push(&mut self, inputs: TurnInputs) {
        self.0.push(inputs);
    }

    fn next(&mut self, limit: usize, collect: bool) -> Option<TurnInputs> {
        let (inputs, slot) = self.0.next(limit, collect)?;
        self.1.insert(inputs.key().clone(), slot);
        Some(inputs)
    }

    fn ended(&mut self, key: &SessionKey) {
        self.1.remove(key);
        self.0.ended(key);
    }
}

fn started(lanes: &mut Running, limit: usize) -> Vec<i64> {
    std::iter::from_fn(|| lanes.next(limit, false))
        .map(|inputs| inputs.leader().id.parse().expect("a number"))
        .collect()
}

#[test]
fn a_session_is_in_order_and_never_beside_itself() {
    let mut lanes = Running::default();
    for seq in 1..=3 {
        lanes.push(row("a", seq));
    }
    assert_eq!(started(&mut lanes, 4), [1]);
    lanes.push(row("a", 4));
    assert_eq!(started(&mut lanes, 4), [] as [i64; 0]);
    for seq in 2..=4 {
        lanes.ended(&SessionKey("a".into()));
        assert_eq!(started(&mut lanes, 4), [seq]);
    }
    lanes.ended(&SessionKey("a".into()));
    let Lanes {
        waiting,
        running,
        round,
        ..
    } = &lanes.0;
    assert!(waiting.is_empty() && running.is_empty() && round.is_empty());
}

#[test]
fn a_talkative_session_does_not_hold_the_others_up() {
    let mut lanes = Running::default();
    for seq in 1..=10 {
        lanes.push(row("loud", seq));
    }
    lanes.push(row("quiet", 11));
    assert_eq!(started(&mut lanes, 1), [1]);
    lanes.ended(&SessionKey("loud".into()));
    assert_eq!(started(&mut lanes, 1), [11]);
}

#[test]
fn people_go_before_events_which_leave_a_place_free() {
    let mut lanes = Running::default();
    for seq in 1..=3 {
        lanes.push(row_from(Source::System, &seq.to_string(), seq));
    }
    lanes.push(row("ada", 4));
    assert_eq!(started(&mut lanes, 3), [4, 1]);
    lanes.push(row("bob", 5));
    assert_eq!(started(&mut lanes, 3), [5]);
    lanes.ended(&SessionKey("ada".into()));
    assert_eq!(started(&mut lanes, 3), [] as [i64; 0]);
    lanes.ended(&SessionKey("bob".into()));
    assert_eq!(started(&mut lanes, 3), [2]);
    let mut one = Running::default();
    one.push(row_from(Source::System, "x", 1));
    assert_eq!(
        started(&mut one, 1),
        [1],
        "the only place is not kept free for ever"
    );
}

#[test]
fn the_owner_goes_before_others_who_leave_them_a_place() {
    let guest = |session: &str, seq: i64| row_of(Source::Cli, (session, "eve", false), seq);
    let mut lanes = Running::default();
    for seq in 1..=4 {
        lanes.push(guest(&format!("topic {seq}"), seq));
    }
    assert_eq!(started(&mut lanes, 4), [1, 2], "half of the places for one");
    lanes.push(row_of(Source::Cli, ("bob", "bob", false), 5));
    lanes.push(row_of(Source::Cli, ("tom", "tom", false), 6));
    lanes.push(row("ada", 7));
    assert_eq!(started(&mut lanes, 4), [7], "the owner first");
    assert_eq!(started(&mut lanes, 4), [] as [i64; 0], "the last is kept");
    lanes.ended(&SessionKey("topic 1".into()));
    assert_eq!(started(&mut lanes, 4), [3]);
    assert_eq!(started(&mut lanes, 4), [] as [i64; 0], "the last is kept");
    lanes.push(row("ada 2", 8));
    assert_eq!(started(&mut lanes, 4), [8]);
    let mut one = Running::default();
    one.push(guest("topic", 1));
    assert_eq!(started(&mut one, 1), [1]);
}

#[test]
fn what_waited_meanwhile_is_collected_into_one_turn() {
    let message = |seq: i64, sender: &str| {
        let mut row = Accepted {
            seq,
            attempts: 0,
            run_id: None,
            wake_at: None,
            suspended: None,
            deaths: Deaths::default(),
            envelope: row("a", seq).leader().clone(),
        };
        row.envelope.sender.id = sender.to_owned();
        row.envelope.reply_to = Some(seq.to_string());
        TurnInputs::of(row)
    };
    let mut lanes = Running::default();
    lanes.push(message(1, "ada"));
    let ids = |inputs: Option<TurnInputs>| inputs.map(|inputs| inputs.ids().join(" "));
    assert_eq!(ids(lanes.next(4, true)).as_deref(), Some("1"));
    for (seq, sender) in [(2, "ada"), (3, "ada"), (4, "bob"), (5, "ada")] {
        lanes.push(message(seq, sender));
    }
    let mut turns = Vec::new();
    for _ in 0..3 {
        lanes.ended(&SessionKey("a".into()));
        turns.extend(ids(lanes.next(4, true)));
    }
    assert_eq!(turns, ["2 3", "4", "5"]);
}

#[test]
fn no_more_than_the_limit_run() {
    let mut lanes = Running::default();
    for seq in 1..=6 {
        lanes.push(row(&seq.to_string(), seq));
    }
    assert_eq!(started(&mut lanes, 4), [1, 2, 3, 4]);
    lanes.ended(&SessionKey("2".into()));
    assert_eq!(started(&mut lanes, 4), [5]);
}

/// A turn that waits for `model`, tried so often.
fn waits(session: &str, seq: i64, model: &str, tries: u32) -> TurnInputs {
    row(session, seq).suspended_as(
        "run",
        &Suspended {
            since: 0,
            wake_at: 0,
            waits_for: String::new(),
            detail: String::new(),
            on: WaitsOn::Model(model.to_owned()),
            tries,
            faults: 0,
        },
    )
}

#[test]
fn one_turn_probes_a_model_for_all_that_wait_and_all_go_on_when_it_answers() {
    let (mut lanes, now) = (Running::default(), Instant::now());
    for seq in 1..=50 {
        lanes
            .0
            .suspend(waits(&seq.to_string(), seq, "m", 1), Alarm::at(now));
        lanes.push(row(&seq.to_string(), seq + 100));
    }
    let down = |_: &str| false;
    lanes.0.wake_due(now, &down);
    assert_eq!(
        started(&mut lanes, 60),
        [1],
        "one probe, and no lane out of order"
    );
    lanes.0.wake_due(now, &down);
    assert_eq!(started(&mut lanes, 60), [] as [i64; 0]);
    assert_eq!(lanes.0.due(), None, "nobody wakes while one probes");
    // It failed, and is suspended for longer: so are all.
    let later = now + Duration::from_secs(2);
    lanes.0.suspend(waits("1", 1, "m", 2), Alarm::at(later));
    lanes.ended(&SessionKey("1".into()));
    assert_eq!(lanes.0.due(), Some(later));
    lanes.0.wake_due(later, &down);
    assert_eq!(started(&mut lanes, 60), [2], "who was tried least");
    lanes.ended(&SessionKey("2".into()));
    lanes.0.wake_due(later, &|_| true);
    let mut all = started(&mut lanes, 60);
    all.sort_unstable();
    let expected: Vec<i64> = std::iter::once(1).chain(3..=50).chain([102]).collect();
    assert_eq!(all, expected);
}

/// A `/model`.
fn choice(session: &str, seq: i64) -> TurnInputs {
    let mut envelope = row(session, seq).leader().clone();
    envelope.command = Some(Command::Model { choice: None });
    TurnInputs::of(Accepted {
        seq,
        attempts: 0,
        run_id: None,
        wake_at: None,
        suspended: None,
        deaths: Deaths::default(),
        envelope,
    })
}

#[test]
fn another_model_is_chosen_ahead_of_what_waits_and_wakes_it() {
    let (mut lanes, now) = (Running::default(), Instant::now());
    let key = SessionKey("a".into());
    let wake = Alarm::at(now + Duration::from_secs(60));
    lanes.0.suspend(waits("a", 1, "m", 1), wake);
    lanes.push(row("a", 2));
    lanes.push(choice("a", 3));
    for expected in [3, 1, 2] {
        assert_eq!(started(&mut lanes, 4), [expected]);
        lanes.ended(&key);
    }
}

#[test]
fn what_waits_for_a_time_alone_is_woken_by_nothing_else() {
    let (mut lanes, now) = (Running::default(), Instant::now());
    let mut inputs = waits("a", 1, "m", 1);
    let mut known = inputs.suspended().cloned().expect("suspended");
    known.on = WaitsOn::Time;
    inputs = inputs.suspended_as("run", &known);
    let wake = now + Duration::from_secs(60);
    lanes.0.suspend(inputs, Alarm::at(wake));
    lanes.0.settings_changed();
    lanes.0.budget_changed();
    lanes.0.wake_due(now, &|_| true);
    assert_eq!(started(&mut lanes, 4), [] as [i64; 0]);
    lanes.0.wake_due(wake, &|_| false);
    assert_eq!(started(&mut lanes, 4), [1]);
}

#[test]
fn a_choice_that_a_crash_broke_off_goes_ahead_of_what_waits_and_loses_none_of_it() {
    let (mut lanes, now) = (Running::default(), Instant::now());
    let key = SessionKey("a".into());
    let later = Alarm::at(now + Duration::from_secs(60));
    lanes.0.suspend(waits("a", 1, "m", 1), later);
    // Both had begun: after a death each is suspended.
    lanes.0.suspend(choice("a", 2), Alarm::at(now));
    lanes.push(row("a", 3));
    for expected in [2, 1, 3] {
        assert_eq!(started(&mut lanes, 4), [expected]);
        lanes.ended(&key);
    }
}

#[test]
fn a_turn_that_is_woken_before_it_is_known_to_be_suspended_goes_on_at_once() {
    let (mut lanes, now) = (Running::default(), Instant::now());
    let key = SessionKey("a".into());
    let later = Alarm::at(now + Duration::from_secs(60));
    for seq in 1..=2 {
        lanes.push(row("a", seq));
    }
    assert_eq!(started(&mut lanes, 4), [1]);
    // A stop has come between the record and the signal.
    lanes.0.wake(&key);
    lanes.0.suspend(waits("a", 1, "m", 1), later);
    lanes.ended(&key);
    assert_eq!(started(&mut lanes, 4), [1]);
    // It holds for that turn alone.
    lanes.0.suspend(waits("a", 1, "m", 2), later);
    lanes.ended(&key);
    assert_eq!(started(&mut lanes, 4), [] as [i64; 0]);
    lanes.0.wake(&key);
    assert_eq!(started(&mut lanes, 4), [1]);
}

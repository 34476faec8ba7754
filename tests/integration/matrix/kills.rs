//! What neither death nor an absent homeserver loses or doubles.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::crash::Random;
use crate::matrix::{ADA, AGENT, House, Person};
use crate::support::{Running, wait_for, wanted};

/// The process is killed at random moments, and the homeserver restarted in between: every message is answered, and what
/// may have gone out already goes out once, because its transaction is the same. `MATRIX_KILLS` is for how many seconds
/// (default 15).
#[test]
fn kills_at_random_moments_lose_no_message_and_double_only_what_is_marked() {
    let Some(house) = House::open() else {
        return;
    };
    let mut house = house.settle(ADA, "");
    let seconds = wanted("MATRIX_KILLS").unwrap_or(15);
    let seed = uuid::Uuid::new_v4().as_u64_pair().0;
    let mut random = Random(seed);
    let mut process = house.start();
    let ada = Person::signed_in(&house.server, "ada");
    let room = ada.room(true, &[AGENT]);
    ada.wait_entered(&room);
    let began = Instant::now();
    let (mut count, mut kills, mut was_away) = (0, 0, false);
    while began.elapsed() < Duration::from_secs(seconds) {
        ada.says(&room, &format!("[[say answer-{count}-end]]"));
        count += 1;
        std::thread::sleep(Duration::from_millis(random.below(600)));
        if !was_away && began.elapsed() > Duration::from_secs(seconds / 2) {
            was_away = true;
            house.server.stop();
            std::thread::sleep(Duration::from_millis(500));
            house.server.start();
        }
        if random.below(3) == 0 {
            process.kill9();
            kills += 1;
            process = Running::start(&mut house.command());
        }
    }
    // More than the homeserver tells at once.
    process.kill9();
    for _ in 0..60 {
        ada.says(&room, &format!("[[say answer-{count}-end]]"));
        count += 1;
    }
    let process = house.start();
    let says = |n: usize| format!("answer-{n}-end");
    wait_for("every answer", Duration::from_secs(180), || {
        let heard: String = ada
            .heard()
            .iter()
            .map(|line| line["content"]["body"].to_string())
            .collect();
        (0..count).all(|n| heard.contains(&says(n))).then_some(())
    });
    wait_for("the queue to be empty", Duration::from_secs(180), || {
        let open = "SELECT count(*) FROM outbox WHERE state NOT IN ('sent')";
        (crate::channels::count(&house.sandbox, open) == 0).then_some(())
    });
    let mut copies: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    let mut ids = std::collections::BTreeSet::new();
    for line in ada.heard() {
        let body = line["content"]["body"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if ids.insert(line["id"].to_string()) {
            let is_marked = body.contains("(resent)");
            copies
                .entry(body.replace("(resent)\n", ""))
                .or_default()
                .push(is_marked);
        }
    }
    for (words, marks) in &copies {
        let plain = marks.iter().filter(|is_marked| !**is_marked).count();
        assert!(
            plain <= 1,
            "seed {seed}: {words} went out {plain} times unmarked"
        );
    }
    drop(process);
    let doubles: usize = copies.values().map(|marks| marks.len() - 1).sum();
    println!(
        "{count} messages, {kills} kills and a restart of the homeserver in {seconds} s: 0 lost, {doubles} doubles, all marked"
    );
}

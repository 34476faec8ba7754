//! People write more and more often, for a long time: each is answered once, and the daemon takes no more of the machine
//! at the end than it did when it had warmed up.
//!
//! The gate runs some seconds. `SOAK_SECONDS=3600 SOAK_RATE=100` is the full size (with release programs): the
//! load rises in six steps of equal length to that many messages a second.
#![allow(clippy::print_stdout, reason = "a run says what it did")]

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use crate::support::{FakeModel, FakeTelegram, Figures, Sandbox, wait_for, wanted};

/// Unless `SOAK_SECONDS` and `SOAK_RATE` say otherwise.
const SECONDS: u64 = 12;
/// Messages a second in the last step.
const RATE: u64 = 30;
const STEPS: u64 = 6;
const PEOPLE: i64 = 50;
/// A conversation starts over after so many messages of a person: the model is sent all of it each time.
const CONVERSATION: i64 = 12;
/// What is kept for an answered message (its row, its lines of the transcript, its cost, its lines of the logs)
/// takes at most so much of the disk; the logs that databases write ahead, which are used again, so much more.
const KEPT_KB: u64 = 12;
const LOGS_KB: u64 = 16 << 10;
/// Caches and heaps may still grow by so much after the first half.
const GROWTH: f64 = 1.25;
/// Eight runs at one time may have been rare in the first half: what they talk through, and who works for them.
const CONNECTIONS: usize = 32;
const THREADS: u64 = 16;

#[test]
fn a_load_that_rises_leaves_memory_descriptors_and_threads_where_they_were() {
    let seconds = wanted("SOAK_SECONDS").unwrap_or(SECONDS);
    let rate = wanted("SOAK_RATE").unwrap_or(RATE);
    let (telegram, model) = (FakeTelegram::start(), FakeModel::start());
    let people: Vec<i64> = (1001..1001 + PEOPLE).collect();
    let sandbox = Sandbox::new()
        .with_telegram(&telegram)
        .with_anthropic(&model)
        .config(&format!(
            "[telegram]\nallow_from = {people:?}\n[agent]\nmax_concurrent_runs = 8"
        ));
    let daemon = sandbox.ready();
    let (mut steps, mut said) = (Vec::new(), 0_i64);
    for step in 1..=STEPS {
        let rate = (rate * step / STEPS).max(1);
        let (began, time) = (Instant::now(), Duration::from_secs(seconds) / 6);
        let mut asked = BTreeMap::new();
        let mut due = 0;
        while began.elapsed() < time {
            let until =
                u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX) * rate / 1000;
            while due < until {
                due += 1;
                let (chat, number) = (1001 + said % PEOPLE, said / PEOPLE);
                said += 1;
                let text = match number % CONVERSATION {
                    0 if number > 0 => "/new".to_owned(),
                    _ => format!("word {number}"),
                };
                asked.insert((chat, telegram.say(chat, chat, &text).1), text);
            }
            thread::sleep(Duration::from_millis(5));
        }
        wait_for(
            "everything to be answered",
            Duration::from_secs(300),
            || sandbox.is_idle(&telegram).then_some(()),
        );
        let lag = began.elapsed().saturating_sub(time);
        let count = asked.len();
        check_answers(&telegram, asked);
        telegram.forget();
        model.forget_requests();
        // It gives memory back when it has nothing to do.
        thread::sleep(Duration::from_secs(2));
        let figures = Figures::of(&daemon, &sandbox);
        println!("{rate:>4} a second: {count} messages, the last {lag:.1?} late; {figures}");
        steps.push((said, figures));
    }
    check_growth(&steps);
    assert_eq!(daemon.term(), 0);
}

/// Each message has one answer, to it and with its words.
fn check_answers(telegram: &FakeTelegram, mut asked: BTreeMap<(i64, i64), String>) {
    for sent in telegram.sent() {
        let Some(id) = sent.reply_to else { continue };
        let text = asked.remove(&(sent.chat, id));
        let text = text.unwrap_or_else(|| panic!("a second answer, or one to nothing: {sent:?}"));
        let fits = text == "/new" || sent.text == format!("echo: {text}");
        assert!(fits, "{text:?} was answered {sent:?}");
    }
    assert!(asked.is_empty(), "never answered: {asked:?}");
}

/// Between the middle and the end nothing grew but what is kept of messages.
fn check_growth(steps: &[(i64, Figures)]) {
    let ((before, middle), (after, end)) = (steps[steps.len() / 2 - 1], steps[steps.len() - 1]);
    let messages = u64::try_from(after - before).expect("more and more");
    let disk = end.disk_kb.saturating_sub(middle.disk_kb);
    let resident = end.resident_kb as f64 / middle.resident_kb as f64;
    println!(
        "from the middle on, {messages} messages: memory {:+} kB, descriptors {:+}, threads {:+}, disk {:.1} kB a message",
        i128::from(end.resident_kb) - i128::from(middle.resident_kb),
        end.descriptors as i64 - middle.descriptors as i64,
        end.threads as i64 - middle.threads as i64,
        disk as f64 / messages as f64,
    );
    assert!(resident < GROWTH, "memory: {middle} became {end}");
    assert!(
        end.descriptors <= middle.descriptors + CONNECTIONS,
        "descriptors: {middle} became {end}"
    );
    assert!(
        end.threads <= middle.threads + THREADS,
        "threads: {middle} became {end}"
    );
    assert!(
        disk <= LOGS_KB + KEPT_KB * messages,
        "disk: {middle} became {end}"
    );
}

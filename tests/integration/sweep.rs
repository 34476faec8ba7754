//! Every write, sync, creation, rename and removal on the path of a message fails once, or from then on, or is
//! the last thing the daemon does; and so does every read, every use of a socket, every descriptor that is needed,
//! every thread and program that is started. Whatever it was: what was accepted is answered once, or visibly given up.
//! So it is for messages of chats and scripts, and for what comes by the other doors.
//!
//! The gate runs a sample. `SWEEP=all` runs everything (see `docs/crash-table.md`), `SWEEP=20` each twentieth case, and
//! `SWEEP=write-enospc-17,local` those whose names begin so.
#![allow(clippy::print_stdout, reason = "a sweep says what it did")]

mod doors;
mod story;
mod verdict;

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
    thread,
    time::Instant,
};

use nix::errno::Errno;

use self::{story::Trouble, verdict::Verdict};
use crate::support::{Action, Calls, Plan};

/// Homes that are tried side by side: a run mostly waits.
const BESIDE: usize = 6;
/// Runs of the gate for each trouble.
const EACH: usize = 2;

/// What goes wrong, and from the how-manieth call on.
#[derive(Clone, Copy, Debug)]
struct Case {
    trouble: Trouble,
    number: i32,
}

impl Case {
    fn name(&self) -> String {
        let Trouble {
            calls,
            action,
            lasting,
        } = self.trouble;
        let action = match action {
            Action::Fails(errno) => format!("{errno:?}"),
            other => format!("{other:?}"),
        };
        let lasting = if lasting { "-lasting" } else { "" };
        format!("{calls:?}-{action}{lasting}-{}", self.number).to_lowercase()
    }

    fn plan(&self) -> Plan {
        let Trouble {
            calls,
            action,
            lasting,
        } = self.trouble;
        let until = match action {
            _ if lasting => i32::MAX,
            Action::Torn => self.number + 1,
            _ => self.number,
        };
        Plan {
            calls,
            action,
            from: self.number,
            until,
        }
    }
}

/// What can go wrong with a disk, and with a daemon.
fn troubles() -> Vec<Trouble> {
    use Calls::{
        Any, Create, Cut, Descriptor, Local, Make, Read, Remove, Rename, Socket, Start, Sync, Write,
    };
    let once = |calls, action| Trouble {
        calls,
        action,
        lasting: false,
    };
    let lasting = |calls, action| Trouble {
        calls,
        action,
        lasting: true,
    };
    let fails = Action::Fails;
    vec![
        once(Any, Action::Kill),
        once(Write, fails(Errno::ENOSPC)),
        once(Write, fails(Errno::EIO)),
        once(Write, fails(Errno::EINTR)),
        once(Write, Action::Short),
        once(Write, Action::Torn),
        once(Sync, fails(Errno::EIO)),
        once(Create, fails(Errno::ENOSPC)),
        once(Create, fails(Errno::EINTR)),
        once(Rename, fails(Errno::ENOSPC)),
        once(Remove, fails(Errno::EIO)),
        once(Cut, fails(Errno::EIO)),
        once(Make, fails(Errno::ENOSPC)),
        lasting(Write, fails(Errno::ENOSPC)),
        lasting(Sync, fails(Errno::EIO)),
        lasting(Any, fails(Errno::EIO)),
        lasting(Any, fails(Errno::EROFS)),
        once(Read, fails(Errno::EIO)),
        once(Read, fails(Errno::EINTR)),
        once(Descriptor, fails(Errno::EMFILE)),
        once(Socket, fails(Errno::ECONNRESET)),
        once(Socket, fails(Errno::EINTR)),
        once(Local, fails(Errno::EINTR)),
        once(Start, fails(Errno::EAGAIN)),
        lasting(Read, fails(Errno::EIO)),
        lasting(Descriptor, fails(Errno::EMFILE)),
        lasting(Socket, fails(Errno::ENETDOWN)),
        lasting(Start, fails(Errno::EAGAIN)),
    ]
}

/// One run: what is said while a call fails, and the start after it.
type Play = fn(Trouble, Plan) -> Verdict;

#[test]
fn whatever_call_fails_each_message_is_answered_once_or_visibly_given_up() {
    sweep(story::play, EACH);
}

#[test]
fn whatever_call_fails_what_comes_by_the_other_doors_is_answered_once_or_visibly_given_up() {
    sweep(doors::play, 1);
}

/// Plays it with each fault that is wanted; with so many of each kind when nothing is said of it.
fn sweep(play: Play, each: usize) {
    let wanted = std::env::var("SWEEP").unwrap_or_default();
    let counts = learn(play);
    let all = troubles().into_iter().flat_map(|trouble| {
        let count = counts[&format!("{:?}", trouble.calls)];
        (1..=count).map(move |number| Case { trouble, number })
    });
    let all: Vec<Case> = all.collect();
    let cases: Vec<Case> = match wanted.as_str() {
        "all" => all,
        "" => sample(&all, each),
        step if step.parse::<usize>().is_ok() => {
            let step = step.parse().expect("a number");
            all.into_iter().step_by(step).collect()
        }
        names => all
            .into_iter()
            .filter(|case| names.split(',').any(|name| case.name().starts_with(name)))
            .collect(),
    };
    let started = Instant::now();
    let (queue, wrong) = (Mutex::new(cases.iter()), Mutex::new(Vec::new()));
    let told = Mutex::new(BTreeMap::<String, usize>::new());
    thread::scope(|scope| {
        for _ in 0..BESIDE {
            scope.spawn(|| {
                loop {
                    let Some(case) = queue.lock().expect("nobody panics with it").next() else {
                        return;
                    };
                    let run = catch_unwind(AssertUnwindSafe(|| play(case.trouble, case.plan())));
                    match run {
                        Ok(verdict) => {
                            for what in verdict.seen {
                                *told
                                    .lock()
                                    .expect("nobody panics with it")
                                    .entry(what)
                                    .or_default() += 1;
                            }
                            let named = verdict
                                .wrong
                                .into_iter()
                                .map(|what| format!("{}: {what}", case.name()));
                            wrong.lock().expect("nobody panics with it").extend(named);
                        }
                        Err(panic) => {
                            let what = panic.downcast_ref::<String>().cloned().unwrap_or_default();
                            wrong
                                .lock()
                                .expect("nobody panics with it")
                                .push(format!("{}: {what}", case.name()));
                        }
                    }
                }
            });
        }
    });
    println!("calls after the start: {counts:?}");
    println!(
        "{} runs in {:.0?}; seen: {:?}",
        cases.len(),
        started.elapsed(),
        told.into_inner().expect("nobody panics with it")
    );
    let mut wrong = wrong.into_inner().expect("nobody panics with it");
    wrong.sort();
    assert!(
        wrong.is_empty(),
        "{} are wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Returns how many calls of each kind one run without a fault makes.
fn learn(play: Play) -> BTreeMap<String, i32> {
    let mut counts: BTreeMap<String, i32> =
        ["Write", "Sync", "Create", "Rename", "Remove", "Cut", "Make"]
            .map(|kind| (kind.to_owned(), 0))
            .into();
    for line in play_without_fault(play, Calls::Any).log.lines() {
        let kind = match line.split(' ').nth(1).unwrap_or_default() {
            "write" | "pwrite" | "writev" => "Write",
            "fsync" | "fdatasync" => "Sync",
            "open" | "open64" | "openat" | "openat64" => "Create",
            "rename" | "renameat" => "Rename",
            "unlink" | "unlinkat" | "rmdir" => "Remove",
            "ftruncate64" | "ftruncate" => "Cut",
            "mkdir" | "mkdirat" | "linkat" => "Make",
            other => panic!("{other}: {line}"),
        };
        *counts.entry(kind.to_owned()).or_default() += 1;
    }
    let any = counts.values().sum();
    let others = [
        Calls::Read,
        Calls::Descriptor,
        Calls::Socket,
        Calls::Local,
        Calls::Start,
    ];
    for calls in others {
        let count = play_without_fault(play, calls).log.lines().count();
        counts.insert(format!("{calls:?}"), i32::try_from(count).expect("few"));
    }
    assert!(
        counts
            .iter()
            .all(|(kind, count)| *count > 0 || kind == "Cut"),
        "not counted: {counts:?}"
    );
    counts.insert("Any".to_owned(), any);
    counts
}

/// Plays it once while these calls are counted.
fn play_without_fault(play: Play, calls: Calls) -> Verdict {
    let none = Trouble {
        calls,
        action: Action::Pass,
        lasting: false,
    };
    let plan = Plan {
        calls,
        action: Action::Pass,
        from: 1,
        until: i32::MAX,
    };
    let verdict = play(none, plan);
    assert_eq!(verdict.wrong, [] as [String; 0], "without a fault");
    verdict
}

/// Returns cases from all over, some of each trouble.
fn sample(all: &[Case], each: usize) -> Vec<Case> {
    // Others in every run: in time the sample is the whole.
    let first = usize::try_from(std::process::id()).unwrap_or(0);
    let some_of = |trouble: Trouble| {
        let of_it: Vec<Case> = all
            .iter()
            .filter(|case| case.trouble == trouble)
            .copied()
            .collect();
        let step = (of_it.len() / each).max(1);
        let places = (0..each.min(of_it.len())).map(move |place| first + place * step);
        places
            .map(|place| of_it[place % of_it.len()])
            .collect::<Vec<Case>>()
    };
    troubles().into_iter().flat_map(some_of).collect()
}

//! One run by the other doors: a question that the owner is asked, a sub-agent, the spool, the FIFO, an event, a caller
//! over HTTP and a job, all at once while something fails, and the start after it.

use std::{
    thread,
    time::{Duration, Instant},
};

use super::{story::Trouble, verdict::Verdict};
use crate::{
    entrances::{Door, World},
    support::{Daemon, OnDrop, Plan, Sandbox},
};

/// Long against everything that happens here, the pauses between tries included.
const SOON: Duration = Duration::from_secs(40);
/// A machine that goes on failing is looked at for so long.
const LASTS: Duration = Duration::from_millis(1500);
const DOORS: [Door; 7] = [
    Door::Approval,
    Door::SubAgent,
    Door::Spool,
    Door::Fifo,
    Door::Event,
    Door::Caller,
    Door::Job,
];

/// Plays it and looks at what is left.
pub(super) fn play(trouble: Trouble, plan: Plan) -> Verdict {
    let (mut world, disk) = World::new(Sandbox::with_disk);
    world.machine_fails = !trouble.kills();
    let mut verdict = Verdict::default();
    let mut daemon = world.sandbox.ready();
    disk.arm(plan);
    thread::scope(|scope| {
        // Ends the threads also when something panics, or the scope would wait for ever.
        let _settled = OnDrop(|| world.settle());
        let world = &world;
        let talking = DOORS.map(|door| scope.spawn(move || world.say(door)));
        scope.spawn(|| world.approve());
        let open = || {
            let waits = talking.iter().filter(|talk| !talk.is_finished()).count();
            let waiting = (waits > 0).then(|| format!("{waits} are not heard"));
            waiting.into_iter().chain(world.open()).collect()
        };
        let patience = if trouble.lasting { LASTS } else { SOON };
        let left = worked_off(&mut daemon, patience, open);
        let died = daemon.has_ended();
        if !trouble.lasting && !died && !left.is_empty() {
            verdict.wrong.push(format!("open: {left:?}"));
        }
        if died && !trouble.kills() {
            verdict
                .wrong
                .push(format!("the daemon died: {}", daemon.log()));
        }
        daemon.kill9();
        verdict.log = disk.log();
        disk.heal();
        let mut daemon = world.sandbox.ready();
        let left = worked_off(&mut daemon, SOON, open);
        if !left.is_empty() {
            let log = daemon.log();
            verdict
                .wrong
                .push(format!("open after the next start: {left:?}\n{log}"));
        }
        verdict
            .wrong
            .extend(world.sandbox.leaks(&daemon, &world.telegram, &[]));
        assert_eq!(daemon.term(), 0, "the healthy daemon did not end well");
    });
    verdict.seen.push(world.verdict(&DOORS));
    verdict.wrong.extend(world.take_wrong());
    verdict
}

/// Waits until nothing is open, the daemon is dead, or the patience is over; returns what is open.
fn worked_off(
    daemon: &mut Daemon,
    patience: Duration,
    open: impl Fn() -> Vec<String>,
) -> Vec<String> {
    let until = Instant::now() + patience;
    loop {
        let left = open();
        if left.is_empty() || daemon.has_ended() || Instant::now() > until {
            return left;
        }
        thread::sleep(Duration::from_millis(30));
    }
}

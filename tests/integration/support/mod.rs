//! What every integration test stands on: a fake Telegram, a fake model server, a throw-away home and
//! guards for the five programs. Random loopback ports, no network, no keys, no process-wide state.
#![allow(dead_code, unused_imports, reason = "shared by many tests")]

mod daemon;
mod faults;
mod home;
mod house;
mod model;
mod nasty;
mod program;
mod server;
mod telegram;
mod wait;

pub(crate) use self::{
    daemon::Daemon,
    faults::{Action, Calls, Disk, Plan},
    home::Sandbox,
    house::House,
    model::{Exchange, FakeModel, Recording, Reply, Usage},
    nasty::{Nasty, Way},
    program::{Output, Running, bin},
    telegram::{Call, FakeTelegram, Fault, FaultKind, Sent, Upload},
    wait::wait_for,
};

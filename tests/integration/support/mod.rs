//! What every integration test stands on: a fake Telegram, a fake model server, a throw-away home and
//! guards for the five programs. Random loopback ports, no network, no keys, no process-wide state.
#![allow(dead_code, unused_imports, reason = "shared by many tests")]

mod daemon;
mod home;
mod house;
mod model;
mod program;
mod server;
mod telegram;
mod wait;

pub(crate) use self::{
    daemon::Daemon,
    home::Sandbox,
    house::House,
    model::{Exchange, FakeModel, Reply, Usage},
    program::{Output, Running, bin},
    telegram::{Call, FakeTelegram, Fault, FaultKind, Sent},
    wait::wait_for,
};

//! agent-toolkit: a personal AI agent made of small cooperating Unix processes.
//!
//! The rooms are in the order of their floors, ground first; a room uses its own floor or a
//! lower one (`tests/architecture.rs` enforces it). ARCHITECTURE.md is the map. The programs and the
//! integration tests use the public rooms; nothing else is an interface.

#![cfg_attr(
    test,
    allow(
        clippy::too_many_lines,
        clippy::excessive_nesting,
        reason = "a test may be one long table or story"
    )
)]

// 0 ground
pub mod clock;
pub(crate) mod embedding;
pub(crate) mod language;
pub mod message;
pub mod secret;
pub mod sys;
pub(crate) mod text;
pub(crate) mod trust;
// 1 settings
pub mod config;
pub(crate) mod logging;
// 2 doors
pub(crate) mod auth;
pub mod channel;
pub mod control;
pub(crate) mod db;
pub(crate) mod mcp;
pub(crate) mod net;
pub(crate) mod provider;
pub mod sandbox;
// 3 stores
pub(crate) mod audit;
pub mod cost;
pub mod jobs;
pub(crate) mod media;
pub mod monitor_state;
pub(crate) mod people;
pub(crate) mod queue;
pub mod session;
pub mod skills;
pub mod undo;
pub mod workspace;
// 4 mind
pub(crate) mod agent;
pub(crate) mod llm;
pub mod memory;
pub(crate) mod prompt;
// 5 hands
pub mod tools;
// 6 path
pub(crate) mod backup;
pub(crate) mod forget;
pub(crate) mod import;
pub(crate) mod pipeline;
pub(crate) mod standby;
// 7 programs
pub mod app;

#[cfg(any(test, fuzzing))]
pub mod parsers;

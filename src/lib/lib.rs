//! agent-toolkit: a personal AI agent made of small cooperating Unix processes.
//!
//! The rooms stand in the order of their floors, ground first; a room uses its own floor or a
//! lower one (`tests/architecture.rs` enforces it). ARCHITECTURE.md is the map.

// 0 ground
pub mod clock;
pub mod embedding;
pub mod language;
pub mod message;
pub mod secret;
pub mod sys;
pub mod text;
pub mod trust;
// 1 settings
pub mod config;
pub mod logging;
// 2 doors
pub mod auth;
pub mod channel;
pub mod control;
pub mod db;
pub mod mcp;
pub mod net;
pub mod provider;
pub mod sandbox;
// 3 stores
pub mod audit;
pub mod cost;
pub mod jobs;
pub mod media;
pub mod monitor_state;
pub mod people;
pub mod queue;
pub mod session;
pub mod skills;
pub mod undo;
pub mod workspace;
// 4 mind
pub mod agent;
pub mod llm;
pub mod memory;
pub mod prompt;
// 5 hands
pub mod tools;
// 6 path
pub mod pipeline;
// 7 programs
pub mod app;

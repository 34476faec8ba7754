//! The five programs. Only here is anything printed and an exit code chosen.

pub mod cli;
pub mod consolidate;
pub mod daemon;
pub mod index;
pub mod monitor;
pub mod query;
pub mod send;

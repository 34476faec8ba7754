//! The real programs against local stand-ins: one binary, one file a subject.

mod budget;
mod codes;
mod completions;
mod consolidate;
mod crash;
mod doctor;
mod events;
mod files;
mod index;
mod load;
mod r#loop;
mod manual;
mod memory;
mod monitor;
mod queries;
mod sandbox;
mod sessions;
mod shell;
mod stdin;
mod stream;
mod support;
mod telegram;
mod terminal;
mod trouble;
mod units;
mod watchdog;

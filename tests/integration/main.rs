//! The real programs against local stand-ins: one binary, one file a subject.

#![allow(
    clippy::too_many_lines,
    clippy::excessive_nesting,
    reason = "a test may be one long table or story"
)]

mod approvals;
mod audit;
mod backup;
mod budget;
mod chaos;
mod codes;
mod compaction;
mod completions;
mod connection;
mod consolidate;
mod crash;
mod descriptions;
mod design_sentences;
mod doctor;
mod documents;
mod egress;
mod entrances;
mod escapes;
mod events;
mod explain;
mod faults;
mod files;
mod follow;
mod forget;
mod gather;
mod groups;
mod guards;
mod http;
mod index;
mod injections;
mod install;
mod jobs;
mod load;
mod long;
mod r#loop;
mod manual;
mod mcp;
mod media;
mod memory;
mod money;
mod monitor;
mod new_session;
mod outage;
mod outgoing;
mod persona;
mod personas;
mod prefix;
mod progress;
mod providers;
mod queries;
mod recall;
mod retrieve;
mod sandbox;
mod service;
mod sessions;
mod setup;
mod shell;
mod shipped_skills;
mod signin;
mod skills;
mod speech;
mod stdin;
mod stickers;
mod stream;
mod subagents;
mod support;
mod sweep;
mod telegram;
mod terminal;
mod trouble;
mod undo;
mod units;
mod upgrade;
mod verdicts;
mod voice;
mod watchdog;
mod web;
mod webhook;
mod week;
mod years;

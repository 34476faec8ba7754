//! The real programs against local stand-ins: one binary, one file a subject.

mod budget;
mod crash;
mod r#loop;
mod sandbox;
mod shell;
mod support;
mod telegram;
mod trouble;

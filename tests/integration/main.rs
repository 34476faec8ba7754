//! The real programs against local stand-ins: one binary, one file a subject.

mod sandbox;
mod support;

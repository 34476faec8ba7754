//! Tests of generated conversations against the strictest rules of every vendor, and the suite of injections.

mod choices;
mod injections;
mod permits;
mod place;
mod prefixes;
mod run_time;
mod sub_agents;
mod tasks;
mod week;
mod years;

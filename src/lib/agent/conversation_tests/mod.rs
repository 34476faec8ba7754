//! For tests: conversations that no hand would write, held against the strictest rules of every vendor.

mod prefixes;
mod years;

//! Commands that never reach the model: answered at once, or in the order of their lane.

pub(crate) mod continue_here;
pub(crate) mod dead_letters;
pub(crate) mod forget;
pub(crate) mod immediate;
pub(crate) mod near_miss;
pub(crate) mod pair;
pub(crate) mod people;
mod stop;
pub(crate) mod undo;

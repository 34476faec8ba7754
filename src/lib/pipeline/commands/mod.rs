//! Commands that never reach the model: answered at once, or in the order of their lane.

mod compact;
pub(crate) mod continue_here;
pub(crate) mod dead_letters;
pub(crate) mod forget;
pub(crate) mod immediate;
pub(crate) mod lane;
mod model;
pub(crate) mod near_miss;
mod new_session;
pub(crate) mod pair;
pub(crate) mod people;
mod stop;
pub(crate) mod undo;

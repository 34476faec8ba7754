//! Costs: the price of calls, the ledger of all calls, the caps, and the alerts before a cap is reached.
//!
//! Each attempt is a separate row in `cost.db`, so that the sums are what was really paid.

mod alerts;
mod calls;
mod caps;
mod ledger;
mod metered_embedder;
mod rates;
mod report;

pub use alerts::{Alert, alerts};
pub use calls::{Call, calls};
pub use caps::Refusal;
pub use ledger::{
    Kind, Ledger, NewCall, Outcome, Reserved, examine, migrate, start_of_day, start_of_month,
    start_of_week,
};
pub use metered_embedder::EmbeddingMeter;
pub use rates::{Rates, left_usd, usd};
pub(crate) use rates::{nano, of_sound, of_speech};
pub use report::{
    Group, Line, Report, by_model, first_call, later_calls, report, spent_by_runs_of, total_usd,
};

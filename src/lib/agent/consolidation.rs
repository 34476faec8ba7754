//! Extraction from conversations: facts, promises and episodes, see `memory::consolidate`.

use chrono_tz::Tz;
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::Agent;
use crate::memory::consolidate;

impl Agent {
    /// Sets the time zone of days that people name.
    #[must_use]
    pub fn in_zone(mut self, zone: Tz) -> Self {
        self.zone = zone;
        self
    }

    /// Returns the work of drawing facts from what is new, for a thread that may wait, see [`Memory::consolidate`](crate::memory::Memory::consolidate). A
    /// model reads conversations that have ended, until `closing`; of `session` alone, where one is named, rules keep what they can.
    pub fn consolidation(
        &self,
        session: Option<String>,
        closing: CancellationToken,
    ) -> impl FnOnce() -> bool + Send + use<> {
        let (memory, zone) = (self.memory.clone(), self.zone);
        let mut model =
            consolidate::MeteredModel::of(self.client.clone(), Handle::current(), closing);
        move || {
            let model = model
                .as_mut()
                .map(|model| model as &mut dyn consolidate::Model);
            let asks = if session.is_some() {
                consolidate::Asks::Later
            } else {
                consolidate::Asks::AtTheEnd
            };
            memory.consolidate(consolidate::Means { zone, model, asks }, session.as_deref())
        }
    }
}

//! Forgetting: what the owner names is no longer used. Erasing is not done here: a running daemon has the text in memory, so
//! it restarts for this (`Pipeline::restart_requested`).

use super::immediate::{FOR_OWNERS, IN_PRIVATE};
use crate::forget;
use crate::memory::consolidate;
use crate::memory::facts::{Change, Forgot, Target};
use crate::message::{Address, Envelope};
use crate::pipeline::Pipeline;
use crate::pipeline::turn::outcome::{Outcome, decided, declined};
use crate::text;
use crate::undo::Deed;

const WHAT: &str = "Whom or what? /forget NAME, or words that only one fact has.";
const BUSY: &str = "facts are being extracted; try again in a minute";
/// Lines of what was forgotten that are shown.
const SHOWN: usize = 20;

impl Pipeline {
    /// Returns whom or what `words` of the owner mean. Blocking.
    ///
    /// # Errors
    /// A sentence with what else they may mean, or why that is not known.
    pub fn meant(&self, words: &str) -> Result<Target, String> {
        let people = self.people.read().map_err(|error| error.to_string())?;
        let live = self.live();
        let is_owner = |id: &Address| people.is_owner(&live.config, id);
        let named = forget::named(self.memory.home(), &people, &is_owner, words)
            .map_err(|error| error.to_string())?;
        named.one(words)
    }

    /// Lets what is named count no more, until it is stated again.
    pub(crate) async fn forget(
        &self,
        envelope: &Envelope,
        what: Option<&str>,
        run_id: &str,
    ) -> Outcome {
        if !envelope.from_owner {
            return declined(envelope, FOR_OWNERS);
        }
        // Others read there what is known.
        if envelope.group.is_some() {
            return declined(envelope, IN_PRIVATE);
        }
        let Some(what) = what else {
            return declined(envelope, WHAT);
        };
        let done = tokio::task::block_in_place(|| {
            let target = self.meant(what).or_else(|_| {
                // It may have been said a moment ago.
                let zone = self.live().config.agent.timezone.0;
                forget::read_rest_in(self.memory.home(), zone)
                    .map_err(|error| error.to_string())?;
                self.meant(what)
            })?;
            match consolidate::forget(self.memory.home(), &target, false) {
                Ok(Ok(forgot)) => {
                    // Nobody is reminded of what is forgotten.
                    self.memory.tell_news();
                    let key = &envelope.session_key.0;
                    self.undo.note_deed(run_id, key, Deed::Forgot);
                    Ok(told(&forgot))
                }
                Ok(Err(_)) => Err(BUSY.to_owned()),
                Err(error) => Err(error.to_string()),
            }
        });
        decided(envelope, &done)
    }
}

/// What was done, a line each.
fn told(forgot: &Forgot) -> String {
    if forgot.is_empty() {
        return "It is not used now; earlier statements about it stay forgotten.".to_owned();
    }
    let changes = forgot.changes.iter().map(|change| match change {
        Change::Gone(gone) => gone.said(),
        Change::Superseded { old, new } => format!("{} (now {})", old.said(), new.value),
        Change::New(new) => format!("now: {}", new.said()),
    });
    let commitments = forgot
        .commitments
        .iter()
        .map(|one| format!("{} promised: {}", one.who, one.what));
    let episodes = forgot
        .episodes
        .iter()
        .map(|one| format!("{}: {}", one.date, one.summary));
    let lines: Vec<String> = changes
        .chain(commitments)
        .chain(episodes)
        .map(|line| text::visible(&line))
        .collect();
    let more = lines.len().saturating_sub(SHOWN);
    let mut told = format!(
        "Forgotten, until it is stated again:\n{}",
        lines
            .get(..lines.len() - more)
            .unwrap_or_default()
            .join("\n")
    );
    if more > 0 {
        told.push_str(&format!("\nand {more} more"));
    }
    told + "\nThe text itself is unchanged; on the machine where I run, agent-consolidate forget --hard erases it."
}

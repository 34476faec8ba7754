//! `/pair`: a code that links another account with the one that requested it.

use super::immediate::IN_PRIVATE;
use crate::clock;
use crate::message::{Address, Envelope};
use crate::pipeline::Pipeline;

const IN_A_CHANNEL: &str = "Send /pair in a chat of yours: the code that it gives links another account with that chat. \
    Here you are my owner anyway; `agent-send --pair owner` prints a code that makes its sender one.";
const IN_A_SHELL: &str = "Whom to let in is decided in a shell of the machine I run on: `agent-send --pair approve CODE`. \
    `/pair` alone, which links another account of yours with this one, takes no words.";
const NOT_NAMED: &str = "Only those whom my owner let in by name may link another account.";

impl Pipeline {
    /// Returns what is said to `/pair`, with a new code; the one before is void.
    pub(super) async fn link_code(&self, envelope: &Envelope) -> String {
        if envelope.group.is_some() {
            return IN_PRIVATE.to_owned();
        }
        // A code is shown to nobody who wanted something else.
        if envelope.text.split_whitespace().nth(1).is_some() {
            return IN_A_SHELL.to_owned();
        }
        let id = Address::parse(&envelope.sender.id).filter(|_| envelope.source.is_chat());
        let Some(id) = id else {
            return IN_A_CHANNEL.to_owned();
        };
        let (live, now) = (self.live(), clock::now_ms());
        let made = tokio::task::block_in_place(|| {
            self.people.change(|people| {
                let may = people.is_owner(&live.config, &id) || people.is_let_in(&live.config, &id);
                may.then(|| (people.new_link_code(&id, now), people.accounts_of(&id)))
            })
        });
        let (code, accounts) = match made {
            Ok(Some(made)) => made,
            Ok(None) => return NOT_NAMED.to_owned(),
            Err(error) => return format!("No code could be made: {error}"),
        };
        let linked: String = accounts
            .iter()
            .skip(1)
            .map(|one| format!("\nLinked already: {one}; on the machine where I run, agent-send --pair revoke {one} takes that back"))
            .collect();
        format!(
            "Send me this code from your other account within 10 minutes, as a message of its own:\n\n{code}\n\n\
             Whoever sends it is you from then on: show it to nobody.{linked}"
        )
    }
}

//! Whom a display name means. Everybody chooses their own name, and may choose another tomorrow: what the owner says of "Bob"
//! is for the one whom they let in under that name, or whom they were shown once with the id and confirmed.

use crate::clock;
use crate::config::Home;
use crate::message::Address;
use crate::people::{Contact, People};
use crate::text::{sha256_hex, visible};
use crate::trust::standing_rules::StandingRules;

/// Returns why the owner is asked whom `who` means; `None` when it is clear: an address, an @username, or a name that they
/// know to be this contact's.
pub(super) fn doubt(home: &Home, who: &str) -> Option<String> {
    let name = unconfirmed(home, who)?;
    Some(format!(
        "{name}, and everybody chooses their own name: is it the person you mean?"
    ))
}

/// Returns what the owner would confirm; `None` when there is nothing to confirm.
pub(super) fn unconfirmed(home: &Home, who: &str) -> Option<String> {
    if who == "owner" || who.starts_with('@') || Address::parse(who).is_some() {
        return None;
    }
    let known = People::read(&home.people()).ok()?;
    // Several, or none, is an error of whoever asks for one.
    let [contact]: [Contact; 1] = known.find(who).try_into().ok()?;
    let name = format!("{} is the name of {}", visible(who), contact.id);
    let is_known = known.was_let_in_as(&contact.id, who)
        || StandingRules::new(&home.rules()).allows(&digest(&name));
    (!is_known).then_some(name)
}

/// Notes that the owner has confirmed whom `who` means.
pub(super) fn confirm(home: &Home, who: &str) {
    if let Some(name) = unconfirmed(home, who) {
        let rules = StandingRules::new(&home.rules());
        // Without it the owner is asked once more.
        drop(rules.add(&digest(&name), &name, clock::now_ms()));
    }
}

fn digest(name: &str) -> String {
    sha256_hex(name.as_bytes())
}

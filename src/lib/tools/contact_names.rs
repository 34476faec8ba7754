//! Whom a word means. Everybody chooses their own name, and may choose another tomorrow: what the owner says of "Bob" is for
//! the one whom they let in under that name, or whom they were shown once with the id and confirmed.

use serde_json::{Value, json};

use crate::agent::Question;
use crate::clock;
use crate::config::Home;
use crate::message::Address;
use crate::people::{Contact, People};
use crate::text::{sha256_hex, visible};
use crate::trust::standing_rules::StandingRules;

/// Why the owner is asked. Whose name it is stands in the question alone: the model of a guest reads this.
pub(super) const DOUBT: &str = "everybody chooses their own name: is it the person you mean?";

/// Returns the one who goes by the name `who`; `None` for the owner, an id, an @username, and what is nobody's name or several
/// people's.
pub(super) fn named(home: &Home, who: &str) -> Option<Contact> {
    found(&People::read(&home.people()).ok()?, who)
}

fn found(known: &People, who: &str) -> Option<Contact> {
    if who == "owner" || who.starts_with('@') {
        return None;
    }
    let [contact]: [Contact; 1] = known.find(who).try_into().ok()?;
    (Address::parse(who).as_ref() != Some(&contact.id)).then_some(contact)
}

/// Returns what the owner would confirm; `None` when there is nothing to confirm.
pub(super) fn unconfirmed(home: &Home, who: &str) -> Option<String> {
    Some(meaning(&in_doubt(home, who)?, who))
}

fn in_doubt(home: &Home, who: &str) -> Option<Contact> {
    let known = People::read(&home.people()).ok()?;
    let contact = found(&known, who)?;
    let is_known = known.was_let_in_as(&contact.id, who)
        || StandingRules::new(&home.rules()).allows(&digest(&contact, who));
    (!is_known).then_some(contact)
}

/// Returns the question of a call of `tool` that is for `whom`, if that is in doubt. Whom a name means may change while the owner
/// is asked, so the yes is bound to it and to `more`.
pub(super) fn question(tool: &str, input: &Value, whom: Option<&str>, more: &Value) -> Question {
    let plain = Question::of(tool, input);
    let shown = whom.map_or_else(String::new, |whom| format!("\n({whom})"));
    Question {
        text: plain.text + &shown,
        bound_to: json!([tool, input, whom, more]),
        // Of a name that may be anybody's next only this call is agreed to.
        rule: plain.rule.filter(|_| whom.is_none()),
    }
}

/// Notes that the owner was shown whom `who` means, and said yes.
pub(super) fn confirm(home: &Home, who: &str) {
    if let Some(contact) = in_doubt(home, who) {
        let rules = StandingRules::new(&home.rules());
        let (digest, meaning) = (digest(&contact, who), meaning(&contact, who));
        // Without it the owner is asked once more.
        drop(rules.add(&digest, &meaning, clock::now_ms()));
    }
}

fn meaning(contact: &Contact, who: &str) -> String {
    format!("{} is the name of {}", visible(who), contact.id)
}

fn digest(contact: &Contact, who: &str) -> String {
    sha256_hex(meaning(contact, &who.to_lowercase()).as_bytes())
}

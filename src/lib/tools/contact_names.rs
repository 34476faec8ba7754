//! Resolves a name to a contact. People choose and change their own names, so "Bob" of the owner means the person whom they let
//! in under that name, or whom they were once shown with the id and confirmed.

use serde_json::{Value, json};

use super::Needs;
use crate::agent::Question;
use crate::clock;
use crate::message::Address;
use crate::people::{Contact, People, letters};
use crate::text::{sha256_hex, visible};
use crate::trust::standing_rules::StandingRules;

/// Why the owner is asked. Whose name it is is in the question alone: the model of a guest reads this.
pub(super) const DOUBT: &str = "everybody chooses their own name: is it the person you mean?";

/// Returns the one who goes by the name `who`; `None` for the owner, an id, an @username, and what is nobody's name or several
/// people's.
pub(super) fn named(needs: &Needs, who: &str) -> Option<Contact> {
    found(&People::read(&needs.memory.home().people()).ok()?, who)
}

fn found(known: &People, who: &str) -> Option<Contact> {
    if who == "owner" || who.starts_with('@') {
        return None;
    }
    let [contact]: [Contact; 1] = known.find(who).try_into().ok()?;
    (Address::parse(who).as_ref() != Some(&contact.id)).then_some(contact)
}

/// Returns what the owner would confirm; `None` when there is nothing to confirm.
pub(super) fn unconfirmed(needs: &Needs, who: &str) -> Option<String> {
    Some(meaning(&in_doubt(needs, who)?, who))
}

fn in_doubt(needs: &Needs, who: &str) -> Option<Contact> {
    let home = needs.memory.home();
    let known = People::read(&home.people()).ok()?;
    let contact = found(&known, who)?;
    let rules = StandingRules::new(&home.rules());
    let id = &contact.id;
    let is_exact = known.was_let_in_as(id, who)
        || rules.allows(&digest(&meaning(&contact, &who.to_lowercase())));
    // Who adds an emoji is the same one still, unless there is another one to whom the name may belong.
    let is_like = || {
        known.was_let_in_like(id, who)
            || known.is_one_of(&needs.owners, id)
            || rules.allows(&digest(&meaning_of_letters(&contact, who)))
    };
    let is_known = is_exact || known.only_one_is_like(id, who) && is_like();
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
pub(super) fn confirm(needs: &Needs, who: &str) {
    if let Some(contact) = in_doubt(needs, who) {
        let rules = StandingRules::new(&needs.memory.home().rules());
        let exact = meaning(&contact, &who.to_lowercase());
        for meaning in [exact, meaning_of_letters(&contact, who)] {
            // Without it the owner is asked once more.
            drop(rules.add(&digest(&meaning), &meaning, clock::now_ms()));
        }
    }
}

fn meaning(contact: &Contact, who: &str) -> String {
    format!("{} is the name of {}", visible(who), contact.id)
}

/// Whatever is next to the letters.
fn meaning_of_letters(contact: &Contact, who: &str) -> String {
    format!("{}, with or without signs", meaning(contact, &letters(who)))
}

fn digest(meaning: &str) -> String {
    sha256_hex(meaning.as_bytes())
}

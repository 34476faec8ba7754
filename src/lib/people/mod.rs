//! Who may talk to the agent: `people.json`, written under its lock by the daemon (new requests)
//! and by `agent-send --pair` (the owner's answers), re-read when it changed.
//!
//! A stranger gets one code; the owner approves it in a terminal. A person who sends the owner code, which is printed in a
//! terminal, *to* the bot becomes an owner. A damaged file is moved aside: then only the people in `agent.toml` may talk, and
//! strangers may ask again.
//!
//! It is also the address book: people who were let in and have written are known by name.

mod linked_accounts;
mod pairing;
mod store;

pub use linked_accounts::{LinkCode, LinkedAccount};
pub use pairing::{OwnerCode, Pending, new_code};
pub use store::{Access, Store, set_aside};

use std::collections::{HashMap, HashSet};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::config;
use crate::config::{Config, DmPolicy, GroupRules};
use crate::message::Address;
use crate::sys;
use crate::sys::atomic;
use crate::text;

/// Strangers of one channel in the address book; where everybody may write, anybody could fill it.
const MAX_STRANGERS: usize = 1_000;

/// What is known of people.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct People {
    /// Who has several ids, as the settings say; not part of the file.
    #[serde(skip)]
    pub(crate) links: config::Session,
    v: u32,
    /// Those the owner let in.
    pub allowed: Vec<Person>,
    /// Those who sent the owner code.
    pub owners: Vec<Person>,
    /// Those who wait.
    pub pending: Vec<Pending>,
    /// The active owner code.
    pub owner_code: Option<OwnerCode>,
    /// Accounts of people who have another one that was there first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub linked: Vec<LinkedAccount>,
    /// Codes that link an account, active or not; at most one a person.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub link_codes: Vec<LinkCode>,
    /// Those who were let in and wrote: the address book.
    pub contacts: Vec<Contact>,
    /// Those who are refused, whatever lets them in otherwise; owners never are.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<Address>,
    /// Those who are heard in groups and answered nowhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub muted: Vec<Address>,
}

/// Somebody who can be written to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Contact {
    /// The chat; of a private one it is the person's.
    pub id: Address,
    /// What they call themselves.
    pub name: String,
    /// Their @username, without the @.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub username: Option<String>,
}

impl Contact {
    /// Returns true when `who` means this contact: the numeric id, the @username or the name, in any
    /// letter case.
    pub fn is(&self, who: &str) -> bool {
        let same = |name: &str, who: &str| name.to_lowercase() == who.to_lowercase();
        let username = |who: &str| self.username.as_ref().is_some_and(|name| same(name, who));
        match who.strip_prefix('@') {
            Some(name) => username(name),
            None => who == self.id.to_string() || same(&self.name, who) || username(who),
        }
    }

    /// Returns the id of this contact, whom `who` means, and by what it does: their name, or their @username. A model reads this
    /// as ours, so a name of which `who` says nothing is left out: people choose their names, and one may be an order.
    pub fn meant_by(&self, who: &str) -> String {
        let is_name = self.name.to_lowercase() == who.to_lowercase();
        let username = self.username.as_ref().filter(|_| !is_name);
        let name = username.map_or_else(|| self.name.clone(), |name| format!("@{name}"));
        format!("{} ({})", self.id, text::visible(&name))
    }
}

/// Returns a name without what says nothing of whom it means: letter case, blanks, punctuation and emoji.
pub fn letters(name: &str) -> String {
    let letters = name.chars().filter(|c| c.is_alphanumeric());
    letters.flat_map(char::to_lowercase).collect()
}

/// Somebody who may talk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Person {
    /// The person.
    pub id: Address,
    /// What they call themselves.
    pub name: String,
    /// Since when, milliseconds since 1970 UTC.
    pub since: i64,
}

impl People {
    /// Returns it with who has several ids.
    pub fn knowing(self, links: config::Session) -> Self {
        Self { links, ..self }
    }

    /// Returns what is known, for those who only read; nobody when there is no file or it cannot be
    /// understood.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn read(path: &Path) -> Result<Self, sys::Error> {
        Ok(atomic::read_valid_json(path)?.unwrap_or_default())
    }

    /// Decides about a direct message, by the allowlist, the people who were let in and pairing; changes nothing.
    pub fn decide(&self, config: &Config, id: &Address, text: &str, now: i64) -> Access {
        let policy = config.dm_policy(id.channel());
        let is_owner = self.is_owner(config, id);
        if policy == DmPolicy::Disabled || (!is_owner && self.is_refused(id)) {
            return Access::Refused;
        }
        if let Some(person) = self.link_code_in(text, now) {
            return Access::SentLinkCode(person.clone());
        }
        if is_owner {
            return Access::Owner;
        }
        if let Some(access) = self.owner_code_in(text, now) {
            return access;
        }
        if self.is_let_in(config, id) || policy == DmPolicy::Open {
            return Access::Allowed;
        }
        let waits = |pending: &Pending| pending.id == *id && pending.is_in_force(now);
        let may_ask = policy == DmPolicy::Pairing && !self.pending.iter().any(waits);
        match may_ask && self.is_room_for(id, [], now) {
            true => Access::MayAsk,
            false => Access::Refused,
        }
    }

    /// Returns true when the owner let `id` in, or took them for an owner, under the name `who`.
    pub fn was_let_in_as(&self, id: &Address, who: &str) -> bool {
        let mut granted = self.allowed.iter().chain(&self.owners);
        granted.any(|person| person.id == *id && person.name.to_lowercase() == who.to_lowercase())
    }

    /// Returns true when the owner let `id` in, or took them for an owner, under a name that is written like `who`.
    pub fn was_let_in_like(&self, id: &Address, who: &str) -> bool {
        let mut granted = self.allowed.iter().chain(&self.owners);
        granted.any(|person| person.id == *id && letters(&person.name) == letters(who))
    }

    /// Returns true when nobody but the person of `id` goes by a name that is written like `who`, or ever did.
    pub fn only_one_is_like(&self, id: &Address, who: &str) -> bool {
        let name = letters(who);
        let contacts = self.contacts.iter().map(|one| (&one.id, &one.name));
        let usernames = self.contacts.iter();
        let usernames = usernames.filter_map(|one| Some((&one.id, one.username.as_ref()?)));
        let granted = self.allowed.iter().chain(&self.owners);
        let granted = granted.map(|one| (&one.id, &one.name));
        let linked = self.linked.iter().map(|one| (&one.id, &one.name));
        let mut all = contacts.chain(usernames).chain(granted).chain(linked);
        let same = |other: &Address| self.first_of(other) == self.first_of(id);
        !name.is_empty() && all.all(|(other, called)| same(other) || letters(called) != name)
    }

    fn is_listed_in(&self, config: &Config, group: &GroupRules, id: &Address) -> bool {
        match &group.allow_from {
            Some(ids) => ids.contains(id) || ids.contains(self.first_of(id)),
            None => self.is_let_in(config, id),
        }
    }

    /// Returns true when `id`, or the account that it is linked to, is named as one who may talk.
    pub fn is_let_in(&self, config: &Config, id: &Address) -> bool {
        [id, self.first_of(id)]
            .into_iter()
            .any(|id| config.is_allowed(id) || self.allowed.iter().any(|person| person.id == *id))
    }

    /// Returns true when `id`, or the account that it is linked to, is an owner's.
    pub fn is_owner(&self, config: &Config, id: &Address) -> bool {
        [id, self.first_of(id)]
            .into_iter()
            .any(|id| config.is_owner(id) || self.owners.iter().any(|person| person.id == *id))
    }

    /// Returns true for an account of one of `owners`, or of who sent the owner code.
    pub fn is_one_of(&self, owners: &[Address], id: &Address) -> bool {
        [id, self.first_of(id)]
            .into_iter()
            .any(|id| owners.contains(id) || self.owners.iter().any(|person| person.id == *id))
    }

    /// Returns the addresses of the owners: those of the settings first.
    pub fn owners(&self, config: &Config) -> Vec<Address> {
        let mut owners = config.owners();
        owners.extend(self.owners.iter().map(|person| person.id.clone()));
        let linked = self.linked.iter().filter(|one| owners.contains(&one.first));
        let linked: Vec<Address> = linked.map(|one| one.id.clone()).collect();
        owners.extend(linked);
        let mut seen = HashSet::new();
        owners.retain(|id| seen.insert(id.clone()));
        owners
    }

    /// Returns true when nothing is said to `id`, unless it is an owner's.
    pub fn is_refused(&self, id: &Address) -> bool {
        self.is_blocked(id) || self.muted.contains(id) || self.muted.contains(self.first_of(id))
    }

    fn is_blocked(&self, id: &Address) -> bool {
        self.blocked.contains(id) || self.blocked.contains(self.first_of(id))
    }

    /// Returns the ids of those who were let in and are no owners.
    pub fn guests<'a>(&'a self, config: &'a Config) -> impl Iterator<Item = Address> + 'a {
        let allowed = self.allowed.iter().map(|person| person.id.clone());
        let all = config.allowed().into_iter().chain(allowed);
        all.filter(|id| !self.is_owner(config, id))
    }

    /// Returns the owner who is asked when none was heard yet.
    pub fn first_owner(&self, config: &Config) -> Option<Address> {
        let named = config.owners().into_iter().next();
        named.or_else(|| self.owners.first().map(|person| person.id.clone()))
    }

    /// Returns everybody who is known: contacts, who was let in, the owners and linked accounts, each id once.
    pub fn everybody(&self) -> Vec<Contact> {
        let mut all = self.contacts.clone();
        let granted = self.allowed.iter().chain(&self.owners);
        let granted = granted.map(|person| (&person.id, &person.name));
        for (id, name) in granted.chain(self.linked.iter().map(|one| (&one.id, &one.name))) {
            if !all.iter().any(|contact| contact.id == *id) {
                all.push(Contact {
                    id: id.clone(),
                    name: name.clone(),
                    username: None,
                });
            }
        }
        all
    }

    /// Returns those whom `who` may mean: an address, an @username or a name.
    pub fn find(&self, who: &str) -> Vec<Contact> {
        let mut all = self.everybody();
        // An id is nobody else's, whatever they call themselves.
        let exact =
            Address::parse(who).and_then(|id| all.iter().find(|contact| contact.id == id).cloned());
        if let Some(exact) = exact {
            return vec![exact];
        }
        all.retain(|contact| contact.is(who));
        all
    }

    /// Returns the person whom `who` means.
    ///
    /// # Errors
    /// Why that is nobody, or not clear, in words.
    pub fn find_one(&self, who: &str) -> Result<Contact, String> {
        let found = self.find(who);
        let shown = text::visible(who);
        match found.as_slice() {
            [contact] => Ok(contact.clone()),
            [] => Err(format!(
                "no contact {shown:?}; a contact is known by name once they wrote to the agent; CHANNEL:ID always works"
            )),
            several => {
                let names: Vec<String> = several.iter().map(|one| one.meant_by(who)).collect();
                Err(format!("{shown} may be {}", names.join(" or ")))
            }
        }
    }

    /// Returns what those are called whom `who` may mean and who have several ids.
    pub fn with_several_ids(&self, who: &str) -> Vec<&str> {
        let found = self.find(who);
        let contacts = found
            .iter()
            .filter_map(|contact| self.links.person_of(contact.id.channel(), &contact.id.id()));
        let by_id = who
            .split_once(':')
            .and_then(|(channel, id)| self.links.person_of(channel, id));
        contacts.chain(by_id).collect()
    }

    /// Takes back what was granted here to `id`; false when nothing was.
    pub fn revoke(&mut self, id: &Address) -> bool {
        let before = self.allowed.len() + self.owners.len();
        self.allowed.retain(|person| person.id != *id);
        self.owners.retain(|person| person.id != *id);
        // A name that is nobody's any more must not be somebody's by mistake.
        self.contacts.retain(|contact| contact.id != *id);
        let revoked = self.allowed.len() + self.owners.len() != before;
        self.unlink(id, revoked) || revoked
    }

    /// Refuses `id` from now on, or no more; false when that was so before.
    pub fn block(&mut self, id: &Address, on: bool) -> bool {
        put(&mut self.blocked, id, on)
    }

    /// Lets `id` be heard and answers nothing from now on, or answers again; false when that was so
    /// before.
    pub fn mute(&mut self, id: &Address, on: bool) -> bool {
        put(&mut self.muted, id, on)
    }

    fn know(&mut self, config: &Config, contacts: &[Contact]) {
        let new: HashSet<&Address> = contacts.iter().map(|one| &one.id).collect();
        self.contacts.retain(|one| !new.contains(&one.id));
        self.contacts.extend_from_slice(contacts);
        let granted = self.allowed.iter().chain(&self.owners).map(|one| &one.id);
        let linked = self.linked.iter().map(|one| &one.id);
        let refused = self.blocked.iter().chain(&self.muted);
        let is_kept: HashSet<Address> = granted.chain(linked).chain(refused).cloned().collect();
        let is_stranger = |one: &Contact| {
            // The settings name the groups that are heard.
            let is_group = matches!(one.id, Address::Number(..0))
                || config.group(one.id.channel(), &one.id.id()).is_some();
            let is_named = config.is_owner(&one.id) || config.is_allowed(&one.id);
            !is_group && !is_named && !is_kept.contains(&one.id)
        };
        // The newest of each channel stay: those of one do not crowd out those of another.
        let mut kept: HashMap<String, usize> = HashMap::new();
        let mut goes: HashSet<Address> = HashSet::new();
        for one in self.contacts.iter().rev().filter(|one| is_stranger(one)) {
            let count = kept.entry(one.id.channel().to_owned()).or_default();
            *count += 1;
            if *count > MAX_STRANGERS {
                goes.insert(one.id.clone());
            }
        }
        self.contacts.retain(|one| !goes.contains(&one.id));
    }
}

fn put(list: &mut Vec<Address>, id: &Address, on: bool) -> bool {
    let there = list.contains(id);
    list.retain(|other| other != id);
    if on {
        list.push(id.clone());
    }
    there != on
}

#[cfg(test)]
mod linked_accounts_tests;
#[cfg(test)]
mod tests;

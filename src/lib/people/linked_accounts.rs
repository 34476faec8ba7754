//! Linked accounts: one person with several accounts. A person who may talk gets a code with `/pair` and sends it from
//! another account, which from then on has the same permissions and continues the same conversation.
//!
//! A linked account has no permissions of its own. It refers to the first account, so revoking that one revokes both.

use serde::{Deserialize, Serialize};

use super::pairing::{OWNER_CODE, as_code, random_code};
use super::{Contact, People, Store};
use crate::config::Config;
use crate::message::Address;
use crate::sys;

/// Codes that may wait; each person has at most one, and the oldest goes.
pub(super) const MAX_CODES: usize = 100;

/// Accounts of one person: a guest must not fill the file.
pub(super) const MAX_ACCOUNTS: usize = 20;

/// An account that counts as the one which was there first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkedAccount {
    /// The account.
    pub id: Address,
    /// The account that it counts as; never itself a linked one.
    pub first: Address,
    /// What its sender calls themselves.
    pub name: String,
    /// Since when, milliseconds since 1970 UTC.
    pub since: i64,
}

/// A code that links its sender's account with `first`. It has 80 random bits, so that wrong ones need not be counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkCode {
    /// The code.
    pub code: String,
    /// Who asked for it.
    pub first: Address,
    /// When it was made, milliseconds since 1970 UTC.
    pub at: i64,
}

impl LinkCode {
    fn is_in_force(&self, now: i64) -> bool {
        now - self.at < OWNER_CODE.1
    }
}

impl People {
    /// Returns the account that `id` counts as: itself, unless it is linked to another one.
    pub fn first_of<'a>(&'a self, id: &'a Address) -> &'a Address {
        let linked = self.linked.iter().find(|one| one.id == *id);
        linked.map_or(id, |one| &one.first)
    }

    /// Returns all accounts of the person who has `id`, the first one first.
    pub fn accounts_of(&self, id: &Address) -> Vec<Address> {
        let first = self.first_of(id);
        let linked = self.linked.iter().filter(|one| one.first == *first);
        std::iter::once(first)
            .chain(linked.map(|one| &one.id))
            .cloned()
            .collect()
    }

    /// Returns the first account of the one person whom `who` means (an address, an @username or a name) and who has
    /// several.
    pub fn linked_person(&self, who: &str) -> Option<Address> {
        let mut ids: Vec<Address> = self.find(who).into_iter().map(|one| one.id).collect();
        ids.extend(Address::parse(who));
        let first = self.first_of(ids.first()?).clone();
        let is_one = ids.iter().all(|id| *self.first_of(id) == first);
        (is_one && self.accounts_of(&first).len() > 1).then_some(first)
    }

    /// Returns these contacts with the other accounts of the same people.
    pub fn with_linked(&self, mut contacts: Vec<Contact>) -> Vec<Contact> {
        let known: Vec<Address> = contacts.iter().map(|one| one.id.clone()).collect();
        for id in known.iter().flat_map(|id| self.accounts_of(id)) {
            if contacts.iter().any(|one| one.id == id) {
                continue;
            }
            let there = self.contacts.iter().find(|one| one.id == id);
            let linked = self.linked.iter().find(|one| one.id == id);
            contacts.extend(there.cloned().or_else(|| {
                linked.map(|one| Contact {
                    id: one.id.clone(),
                    name: one.name.clone(),
                    username: None,
                })
            }));
        }
        contacts
    }

    /// Makes a code that links its sender's account with the person who has `id`; the one before is void.
    pub fn new_link_code(&mut self, id: &Address, now: i64) -> String {
        let first = self.first_of(id).clone();
        let code = random_code(OWNER_CODE.0);
        self.link_codes
            .retain(|one| one.first != first && one.is_in_force(now));
        let old = (self.link_codes.len() + 1).saturating_sub(MAX_CODES);
        self.link_codes.drain(..old);
        self.link_codes.push(LinkCode {
            code: code.clone(),
            first,
            at: now,
        });
        code
    }

    /// Returns who asked for the code that `text` is, while it is active.
    pub(super) fn link_code_in(&self, text: &str, now: i64) -> Option<&Address> {
        let typed = as_code(text);
        let mut found =
            (self.link_codes.iter()).filter(|one| one.code == typed && one.is_in_force(now));
        found.next().map(|one| &one.first)
    }

    /// Returns why the account `id` is not linked to the person who has `first`; `None` when it may be. A code that a
    /// guest talked somebody into sending must not take over what that one says.
    pub fn objection(
        &self,
        config: &Config,
        id: &Address,
        first: &Address,
    ) -> Option<&'static str> {
        if self.first_of(id) == self.first_of(first) {
            return Some("This account is yours already. Send the code from your other one.");
        }
        if self.accounts_of(first).len() >= MAX_ACCOUNTS {
            return Some(
                "That person has linked the maximum number of accounts. One must be revoked first.",
            );
        }
        if self.is_owner(config, first) {
            return None;
        }
        (self.is_owner(config, id) || self.is_let_in(config, id)).then_some(
            "I know this account under its own name. My owner can join both: identity_links in agent.toml.",
        )
    }

    /// Takes a code that `id` sent to be linked with, see [`Store::link`](super::Store::link).
    pub fn link(&mut self, id: &Address, name: &str, text: &str, now: i64) -> Option<Address> {
        let first = self.link_code_in(text, now)?;
        let first = self.first_of(first).clone();
        self.link_codes.retain(|one| one.code != as_code(text));
        if first == *id {
            return None;
        }
        // What was linked to it was so by its word alone, which is not the other one's.
        self.unlink(id, true);
        self.pending.retain(|pending| pending.id != *id);
        self.linked.push(LinkedAccount {
            id: id.clone(),
            first: first.clone(),
            name: crate::text::shorten(&crate::text::visible(name), 64),
            since: now,
        });
        Some(first)
    }

    /// Returns the linked accounts that were let in by name, or made an owner's, since a guest linked them: what their
    /// people say there is not the guest's to hear.
    fn misled(&self, config: &Config) -> Vec<Address> {
        let granted = self.allowed.iter().chain(&self.owners);
        let granted: Vec<&Address> = granted.map(|person| &person.id).collect();
        let has_own =
            |id: &Address| config.is_owner(id) || config.is_allowed(id) || granted.contains(&id);
        let misled = self
            .linked
            .iter()
            .filter(|one| has_own(&one.id) && !self.is_owner(config, &one.first));
        misled.map(|one| one.id.clone()).collect()
    }

    /// Lets `id` count as no other account any more, and with `whole` none as it; false when nothing changed.
    pub(super) fn unlink(&mut self, id: &Address, whole: bool) -> bool {
        let before = self.linked.len();
        self.linked
            .retain(|one| one.id != *id && !(whole && one.first == *id));
        self.link_codes.retain(|one| one.first != *id);
        self.linked.len() != before
    }
}

impl Store {
    /// Lets accounts count as themselves that got rights of their own while they counted as a guest's. Blocking.
    ///
    /// # Errors
    /// When the file cannot be locked, read or written.
    pub fn unlink_misled(&self, config: &Config) -> Result<(), sys::Error> {
        if self.read()?.misled(config).is_empty() {
            return Ok(());
        }
        self.change(|people| {
            for id in people.misled(config) {
                tracing::warn!(%id, "this account has its own permissions now and is no longer linked to a guest");
                people.unlink(&id, false);
            }
        })
    }
}

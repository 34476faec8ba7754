//! Whose a memory is, and who may see it (specification §13).

use std::fmt;

use crate::message::{Envelope, SessionKey};

/// Whose a memory is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The owner's.
    Owner,
    /// A person's, by their id.
    Person(String),
    /// A conversation's, by its key.
    Chat(String),
    /// Everybody's.
    Shared,
}

impl Scope {
    /// Returns the scope that is written as `text`; what means nothing is nobody's.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None if text == "owner" => Some(Self::Owner),
            None if text == "shared" => Some(Self::Shared),
            Some(("person", id)) => Some(Self::Person(id.to_owned())),
            Some(("chat", key)) => Some(Self::Chat(key.to_owned())),
            _ => None,
        }
    }

    /// Returns whose a conversation is: the owner's when it is a direct one in which the daemon took
    /// a message for the owner's own words. One that several people share is never the owner's.
    pub fn of_session(key: &str, owner_spoke: bool) -> Self {
        if owner_spoke && is_direct(key) { Self::Owner } else { Self::Chat(key.to_owned()) }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner => f.write_str("owner"),
            Self::Person(id) => write!(f, "person:{id}"),
            Self::Chat(key) => write!(f, "chat:{key}"),
            Self::Shared => f.write_str("shared"),
        }
    }
}

/// Returns true for a conversation with one person: `cli:…`, `agent:<name>:<channel>:dm:…`.
fn is_direct(key: &str) -> bool {
    let kind = key.strip_prefix("agent:").and_then(|rest| rest.split(':').nth(2));
    key.starts_with("cli:") || kind == Some("dm")
}

/// Whose memories a turn may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewer(Vec<Scope>);

impl Viewer {
    /// Returns who looks in the turn that `envelope` begins: a conversation sees its own, a direct
    /// one its person's too, an owner in a direct one (or an event for them) the owner's.
    pub fn of(envelope: &Envelope) -> Self {
        Self::new(&envelope.session_key, &envelope.sender.id, envelope.from_owner, envelope.source.is_person())
    }

    fn new(key: &SessionKey, sender: &str, from_owner: bool, is_person: bool) -> Self {
        let mut scopes = vec![Scope::Chat(key.0.clone()), Scope::Shared];
        if is_direct(&key.0) && is_person {
            scopes.push(Scope::Person(sender.to_owned()));
        }
        if from_owner && (is_direct(&key.0) || !is_person) {
            scopes.push(Scope::Owner);
        }
        Self(scopes)
    }

    /// Returns true when it may see what is `scope`'s.
    pub fn may_see(&self, scope: &Scope) -> bool {
        self.0.contains(scope)
    }

    /// Returns the scopes it sees.
    pub fn scopes(&self) -> &[Scope] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for text in ["owner", "person:1002", "chat:agent:a:telegram:dm:1002", "shared"] {
            assert_eq!(Scope::parse(text).map(|scope| scope.to_string()).as_deref(), Some(text));
        }
        assert_eq!(Scope::parse("everybody"), None);
    }

    #[test]
    fn a_conversation_is_the_owners_only_when_it_is_theirs_alone() {
        let check = |key: &str, owner_spoke: bool, expected: &str| {
            assert_eq!(Scope::of_session(key, owner_spoke).to_string(), expected, "{key}");
        };
        check("cli:ada", true, "owner");
        check("cli:ada", false, "chat:cli:ada");
        check("agent:a:telegram:dm:1001", true, "owner");
        check("agent:a:telegram:dm:1002", false, "chat:agent:a:telegram:dm:1002");
        check("agent:a:telegram:group:-5", true, "chat:agent:a:telegram:group:-5");
        check("agent:a:main", true, "chat:agent:a:main");
        check("agent:dm:a:main", true, "chat:agent:dm:a:main");
    }

    #[test]
    fn nobody_sees_what_is_anothers() {
        let check = |key: &str, sender: &str, from_owner: bool, expected: &[&str]| {
            let viewer = Viewer::new(&SessionKey(key.to_owned()), sender, from_owner, true);
            let scopes: Vec<String> = viewer.scopes().iter().map(Scope::to_string).collect();
            assert_eq!(scopes, expected, "{key}");
        };
        let dm = "agent:a:telegram:dm:1002";
        check(dm, "1002", false, &["chat:agent:a:telegram:dm:1002", "shared", "person:1002"]);
        check("cli:ada", "ada", true, &["chat:cli:ada", "shared", "person:ada", "owner"]);
        let group = "agent:a:telegram:group:-5";
        check(group, "1001", true, &["chat:agent:a:telegram:group:-5", "shared"]);
    }
}

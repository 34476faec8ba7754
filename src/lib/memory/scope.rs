//! Scopes: whose a memory is, and who may see it (specification §13).

use std::fmt;

use crate::message::{Envelope, SessionKey, own_name};

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
    /// Returns the scope that is written as `text`.
    pub fn parse(text: &str) -> Option<Self> {
        match text.split_once(':') {
            None if text == "owner" => Some(Self::Owner),
            None if text == "shared" => Some(Self::Shared),
            Some(("person", id)) => Some(Self::Person(id.to_owned())),
            Some(("chat", key)) => Some(Self::Chat(key.to_owned())),
            _ => None,
        }
    }

    /// Returns the scope that is stored as `text`; one of a newer version matches no viewer.
    pub(crate) fn stored(text: String) -> Self {
        Self::parse(&text).unwrap_or(Self::Chat(text))
    }

    /// Returns the scope of a conversation: the owner's when it is a direct one with words of the owner. One that several
    /// people share is never the owner's.
    pub fn of_session(key: &str, owner_spoke: bool) -> Self {
        if owner_spoke && is_direct(key) {
            Self::Owner
        } else {
            Self::Chat(key.to_owned())
        }
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

/// Returns true for a conversation with one person: `cli:…`, `http:…`, `agent:<name>:<channel>:dm:…`.
fn is_direct(key: &str) -> bool {
    let kind = key
        .strip_prefix("agent:")
        .and_then(|rest| rest.split(':').nth(2));
    own_name(key).is_some() || kind == Some("dm")
}

/// What is before the name of a person with several ids, when it is asked whether they are an owner.
pub const JOINED: &str = "person:";

/// What is asked to know whether all who share the one conversation of `dm_scope = "main"` are owners.
pub const MAIN: &str = "main:";

/// Returns true for the conversation that all direct messages share.
fn is_main(key: &SessionKey) -> bool {
    let mut parts = key.0.split(':');
    parts.next() == Some("agent") && parts.nth(1) == Some("main") && parts.next().is_none()
}

/// Returns true for a direct conversation of an owner's: an owner may speak in another person's from the
/// shell, under any name, and what is recalled there stays there.
fn is_own(key: &SessionKey, is_owner: &dyn Fn(&str) -> bool) -> bool {
    if is_main(key) {
        return is_owner(MAIN);
    }
    if let Some(person) = key.person() {
        return is_owner(&format!("{JOINED}{person}"));
    }
    // A topic of a direct conversation is the same person's.
    let person = key.dm_person();
    key.own_name().is_some()
        || (is_direct(&key.0) && person.is_some_and(|person| is_owner(&person)))
}

/// Whose memories a turn may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Viewer(Vec<Scope>);

impl Viewer {
    /// Returns who looks in the turn that `envelope` begins: a conversation sees its own, a direct
    /// one its person's too, an owner in their own direct one (or an event for them) the owner's.
    /// `is_owner` says whether an id, or a person called so after [`JOINED`], is an owner's: from the shell
    /// they may continue with their own chat.
    ///
    /// What is left to a conversation alone are untrusted words. In an owner's turn, which has tools,
    /// nothing would tell them from the owner's own: it does not see them.
    pub fn of(envelope: &Envelope, is_owner: &dyn Fn(&str) -> bool) -> Self {
        if let Some(task) = &envelope.task {
            return Self::of(&task.report, is_owner);
        }
        let (key, sender) = (envelope.session_key.0.as_str(), envelope.sender.id.as_str());
        let is_person = envelope.source.is_person();
        let mut scopes = vec![Scope::Shared];
        // What only owners said in it is theirs.
        let is_owners_main = is_main(&envelope.session_key) && is_owner(MAIN);
        if !envelope.from_owner || is_owners_main {
            scopes.push(Scope::Chat(key.to_owned()));
        }
        if is_direct(key) && is_person {
            scopes.push(Scope::Person(sender.to_owned()));
        }
        let is_theirs = !is_person || is_own(&envelope.session_key, is_owner);
        if envelope.from_owner && !envelope.heard_by_others && is_theirs {
            scopes.push(Scope::Owner);
        }
        Self(scopes)
    }

    /// Returns the owner in a conversation of their own.
    pub fn of_owner() -> Self {
        Self(vec![Scope::Shared, Scope::Owner])
    }

    /// Returns it with what is remembered of the same person under other ids.
    pub fn and_persons(mut self, ids: Vec<String>) -> Self {
        if self.0.iter().any(|scope| matches!(scope, Scope::Person(_))) {
            self.0.extend(ids.into_iter().map(Scope::Person));
            self.0.sort();
            self.0.dedup();
        }
        self
    }

    /// Returns it with what is `scope`'s.
    pub fn and(mut self, scope: Scope) -> Self {
        self.0.push(scope);
        self
    }

    /// Returns true when it may see what is `scope`'s.
    pub fn may_see(&self, scope: &Scope) -> bool {
        self.0.contains(scope)
    }

    /// Returns true when what is `scope`'s are words of others: those of a conversation that is not the owner's alone. A file
    /// about a person is marked where others wrote in it.
    pub fn sees_as_foreign(&self, scope: &Scope) -> bool {
        !self.may_see(&Scope::Owner) && matches!(scope, Scope::Chat(_))
    }

    /// Returns the scopes it sees.
    pub fn scopes(&self) -> &[Scope] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Sender, Source};

    #[test]
    fn what_is_written_is_read() {
        for text in [
            "owner",
            "person:1002",
            "chat:agent:a:telegram:dm:1002",
            "shared",
        ] {
            assert_eq!(
                Scope::parse(text).map(|scope| scope.to_string()).as_deref(),
                Some(text)
            );
        }
        assert_eq!(Scope::parse("everybody"), None);
    }

    #[test]
    fn a_conversation_is_the_owners_only_when_it_is_theirs_alone() {
        let check = |key: &str, owner_spoke: bool, expected: &str| {
            assert_eq!(
                Scope::of_session(key, owner_spoke).to_string(),
                expected,
                "{key}"
            );
        };
        check("cli:ada", true, "owner");
        check("cli:ada", false, "chat:cli:ada");
        check("agent:a:telegram:dm:1001", true, "owner");
        check(
            "agent:a:telegram:dm:1002",
            false,
            "chat:agent:a:telegram:dm:1002",
        );
        check(
            "agent:a:telegram:group:-5",
            true,
            "chat:agent:a:telegram:group:-5",
        );
        check("agent:a:main", true, "chat:agent:a:main");
        check("agent:dm:a:main", true, "chat:agent:dm:a:main");
    }

    #[test]
    fn nobody_sees_what_is_anothers() {
        let check = |key: &str, sender: &str, from_owner: bool, expected: &[&str]| {
            let sender = Sender {
                id: sender.into(),
                name: sender.into(),
                username: None,
            };
            let envelope = Envelope::new(
                "1".into(),
                Source::Cli,
                sender,
                SessionKey(key.to_owned()),
                String::new(),
                0,
            );
            let viewer = Viewer::of(
                &Envelope {
                    from_owner,
                    ..envelope
                },
                &|id| id == "1001" || id == "person:ada",
            );
            let scopes: Vec<String> = viewer.scopes().iter().map(Scope::to_string).collect();
            assert_eq!(scopes, expected, "{key}");
        };
        let dm = "agent:a:telegram:dm:1002";
        check(
            dm,
            "1002",
            false,
            &["shared", "chat:agent:a:telegram:dm:1002", "person:1002"],
        );
        check("cli:ada", "ada", true, &["shared", "person:ada", "owner"]);
        check(
            "agent:a:telegram:dm:1001",
            "1001",
            true,
            &["shared", "person:1001", "owner"],
        );
        check(dm, "cli", true, &["shared", "person:cli"]);
        let group = "agent:a:telegram:group:-5";
        check(
            "agent:a:telegram:dm:1001",
            "cli",
            true,
            &["shared", "person:cli", "owner"],
        );
        check(group, "1001", true, &["shared"]);
        check(
            group,
            "1002",
            false,
            &["shared", "chat:agent:a:telegram:group:-5"],
        );
        check("agent:a:main", "1001", true, &["shared"]);
        // From the shell, under the name of the person who reads it.
        check(dm, "1002", true, &["shared", "person:1002"]);
        // Whose all ids are an owner's, and whose are not.
        check(
            "agent:a:person:dm:ada",
            "1001",
            true,
            &["shared", "person:1001", "owner"],
        );
        check(
            "agent:a:person:dm:eve",
            "eve",
            true,
            &["shared", "person:eve"],
        );
        check(
            "agent:a:person:dm:1001",
            "1001",
            true,
            &["shared", "person:1001"],
        );
        check(
            "agent:a:person:dm:ada:topic:1001",
            "1001",
            true,
            &["shared", "person:1001", "owner"],
        );
        check(
            "agent:a:person:dm:ada",
            "1001",
            false,
            &["shared", "chat:agent:a:person:dm:ada", "person:1001"],
        );
    }

    #[test]
    fn who_has_several_ids_has_one_memory_and_others_none_of_it() {
        let check = |key: &str, ids: &[&str], expected: &[&str]| {
            let sender = Sender {
                id: "1002".into(),
                name: "Bob".into(),
                username: None,
            };
            let envelope = Envelope::new(
                "1".into(),
                Source::Telegram,
                sender,
                SessionKey(key.to_owned()),
                String::new(),
                0,
            );
            let viewer = Viewer::of(&envelope, &|_| false)
                .and_persons(ids.iter().map(|id| (*id).to_owned()).collect());
            let scopes: Vec<String> = viewer.scopes().iter().map(Scope::to_string).collect();
            assert_eq!(scopes, expected, "{key}");
        };
        check(
            "agent:a:person:dm:bob",
            &["1002", "bob"],
            &[
                "person:1002",
                "person:bob",
                "chat:agent:a:person:dm:bob",
                "shared",
            ],
        );
        check(
            "agent:a:telegram:group:-5",
            &["1002", "bob"],
            &["shared", "chat:agent:a:telegram:group:-5"],
        );
    }
}

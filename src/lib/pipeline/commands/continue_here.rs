//! `/continue`: a conversation of the owner continues in another place.
//!
//! The place is linked when the command is accepted (`queue`), so that the next message already belongs to the conversation.
//! Both places then share its lane: messages from either are answered in order, in the place where they were written.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::immediate::IN_PRIVATE;
use crate::config::{Config, DmPolicy};
use crate::message::{Address, Command, Envelope, KeyKind, SessionKey, Source};
use crate::people::People;
use crate::pipeline::approvals::first_line;
use crate::pipeline::{Live, Pipeline};
use crate::queue::NewPart;
use crate::{clock, db, queue, text};

/// What the shell is called in the command, and the page with the HTTP API.
const TERMINAL: [&str; 3] = ["terminal", "shell", "cli"];
const WEB: [&str; 3] = ["web", "page", "http"];
/// How the page calls its conversations. It shows of each what is its own, and opens every other one by itself.
const OF_THE_PAGE: &str = "http:web-";
/// Conversations that are looked at: the owner's newest.
const MOST: usize = 50;

/// Returns the conversations that may be meant by `place`, in the order in which they are tried; `newest` has all there are.
/// None where `own`, the one that is spoken in, is not the owner's alone.
fn candidates(
    place: Option<&str>,
    own: &SessionKey,
    newest: &[SessionKey],
    config: &Config,
    people: &People,
) -> Vec<SessionKey> {
    if ways(own, config, people).is_empty() {
        // What is said here, others read.
        return Vec::new();
    }
    let place = place.map(|place| place.trim().to_lowercase());
    let is_meant = |key: &&SessionKey| {
        let ways = ways(key, config, people);
        !ways.is_empty()
            && place.as_deref().is_none_or(|place| {
                ways.iter().any(|way| names(place, way))
                    || key.0.to_lowercase() == place
                    || key
                        .own_name()
                        .is_some_and(|name| name.to_lowercase() == place)
            })
    };
    let mut found: Vec<SessionKey> = newest.iter().filter(is_meant).take(MOST).cloned().collect();
    // Back to what is said here by itself, even where that is nothing yet.
    let is_own = |place: &str| {
        ways(own, config, people)
            .iter()
            .any(|way| names(place, way))
    };
    if place.as_deref().is_some_and(is_own) && !found.contains(own) {
        found.push(own.clone());
    }
    found
}

fn names(place: &str, way: &str) -> bool {
    [TERMINAL, WEB]
        .iter()
        .any(|words| words.contains(&place) && words.contains(&way))
        || place == way
}

/// Returns by which ways the owner alone speaks in a conversation; none for one of others, of groups and of events.
fn ways(key: &SessionKey, config: &Config, people: &People) -> Vec<String> {
    if let Some((door, _)) = key.0.split_once(':')
        && key.own_name().is_some()
    {
        return vec![door.to_owned()];
    }
    if key.kind() != KeyKind::Dm {
        return Vec::new();
    }
    if key.0 == format!("agent:{}:main", config.agent.name) {
        // Everybody's, unless nobody else may talk.
        let is_open = |channel: &str| config.dm_policy(channel) == DmPolicy::Open;
        let alone = !config.open_channels().any(is_open) && people.guests(config).next().is_none();
        let channels = config.open_channels().filter(|_| alone);
        return channels.map(str::to_owned).collect();
    }
    if let Some(person) = key.person() {
        let links = config.session.identity_links.get(person);
        let ids: Vec<Address> = links
            .into_iter()
            .flatten()
            .filter_map(|link| Address::parse(link))
            .collect();
        let all = ids.iter().all(|id| people.is_owner(config, id));
        let accounts = ids.iter().filter(|_| all);
        return accounts
            .flat_map(|id| people.accounts_of(id))
            .map(|id| id.channel().to_owned())
            .collect();
    }
    let own = key.address().filter(|id| people.is_owner(config, id));
    let accounts = own.map_or_else(Vec::new, |id| people.accounts_of(&id));
    accounts.iter().map(|id| id.channel().to_owned()).collect()
}

impl Pipeline {
    /// Returns an input with what `/continue` may mean, if it is that command of the owner.
    pub(in crate::pipeline) fn continuing(
        &self,
        mut envelope: Envelope,
        config: &Config,
    ) -> Envelope {
        let is_allowed = envelope.from_owner && envelope.group.is_none();
        let Some(Command::Continue { place, among, with }) = &mut envelope.command else {
            return envelope;
        };
        // Never what a caller wrote there.
        (*among, *with) = (Vec::new(), None);
        if is_allowed && !envelope.session_key.0.starts_with(OF_THE_PAGE) {
            // While nobody can tell who the owners are, only what is the shell's is.
            let people = self.people.read().unwrap_or_default();
            // Where nothing was said but in another conversation, there is no one of its own yet.
            let places = queue::places(&self.memory.home().queue_db()).unwrap_or_default();
            // One whose first turn runs is a conversation too.
            let mut newest: Vec<SessionKey> = self.runs().keys().cloned().collect();
            let kept = self.sessions.newest();
            newest.retain(|key| !kept.contains(key));
            newest.extend(kept.into_iter().chain(places));
            *among = candidates(
                place.as_deref(),
                &envelope.session_key,
                &newest,
                config,
                &people,
            );
        }
        envelope
    }

    /// Gives places back their own conversations where they or the other one are not the owner's alone any more. It is
    /// looked at again when the settings or the people changed, before anything is accepted.
    ///
    /// # Errors
    /// See [`db::Error`]; nothing may be taken in then.
    pub(in crate::pipeline) async fn part_ways(&self, live: &Arc<Live>) -> Result<(), db::Error> {
        if !self.continued.load(Ordering::Relaxed) {
            return Ok(());
        }
        let people = self.people.read().unwrap_or_default();
        let is_same = |(settings, known): &(Arc<Live>, Arc<People>)| {
            Arc::ptr_eq(settings, live) && Arc::ptr_eq(known, &people)
        };
        if self.parted.lock().as_ref().is_some_and(is_same) {
            return Ok(());
        }
        self.continued.store(false, Ordering::Relaxed);
        let (settings, known) = (live.clone(), people.clone());
        let may = move |key: &SessionKey| !ways(key, &settings.config, &known).is_empty();
        let parted = self.queue.part(may).await;
        if !matches!(parted, Ok(false)) {
            self.continued.store(true, Ordering::Relaxed);
        }
        parted?;
        *self.parted.lock() = Some((live.clone(), people));
        Ok(())
    }

    /// Returns what is said about `/continue`, and what the place is told where the conversation was.
    pub(super) async fn continued(
        self: &Arc<Self>,
        envelope: &Envelope,
        place: Option<&str>,
        with: Option<&SessionKey>,
    ) -> (String, Option<NewPart>) {
        if envelope.group.is_some() {
            return (IN_PRIVATE.to_owned(), None);
        }
        let live = self.live();
        let people = self.people.read().unwrap_or_default();
        let Some(with) = with else {
            let place = place.map(|place| text::shorten(&text::visible(place), 60));
            let text = match place {
                _ if envelope.session_key.0.starts_with(OF_THE_PAGE) => {
                    "On the page, open the conversation in the list.".to_owned()
                }
                _ if !envelope.from_owner => "You have no other conversation with me.".to_owned(),
                Some(place) => format!(
                    "I know no other conversation of yours in {place}. /continue without a name takes up the newest one."
                ),
                None => "I know no other conversation of yours.".to_owned(),
            };
            return (text, None);
        };
        self.continued.store(true, Ordering::Relaxed);
        let name = |key: &SessionKey| called(key, &live.config, &people);
        let mut text = format!(
            "Our conversation {} continues here. Messages there belong to it, too; /new starts a separate one here.",
            name(with)
        );
        if self.runs().contains_key(with) {
            text.push_str("\nI am still working on what you wrote there; its answer goes there.");
        }
        let waiting = self.questions_in(with).await;
        if !waiting.is_empty() {
            text.push_str(&format!("\nI am waiting for your answer there: {waiting}"));
        }
        let here = match (&envelope.route, envelope.source) {
            (Some(route), _) => format!("in {}", route.channel),
            (None, Source::Http) => "over HTTP".to_owned(),
            (None, _) => "in the terminal".to_owned(),
        };
        let route = self.queue.route_of(with).await.ok().flatten();
        let notice = route
            .filter(|route| envelope.route.as_ref() != Some(route))
            .filter(|route| self.channels.contains_key(route.channel.as_str()))
            .map(|route| {
                let words = format!(
                    "Our conversation now continues {here}. Messages here belong to it, too."
                );
                NewPart::plain(route, words)
            });
        (text, notice)
    }

    /// Returns the questions that wait in a conversation, with their ids.
    async fn questions_in(&self, key: &SessionKey) -> String {
        let path = self.memory.home().queue_db();
        let read =
            crate::sys::blocking(move || crate::queue::approvals(&path, clock::now_ms())).await;
        let one = |request: crate::queue::Request| {
            let words = first_line(&request.question);
            format!("{words} (/approve {id} or /deny {id} WHY)", id = request.id)
        };
        let waiting = read.unwrap_or_default().into_iter();
        let here = waiting.filter(|request| request.session_key == key.0);
        here.map(one).collect::<Vec<_>>().join("; ")
    }
}

fn called(key: &SessionKey, config: &Config, people: &People) -> String {
    match key.own_name() {
        Some(name) if key.0.starts_with("cli:") => {
            format!(
                "of the terminal ({})",
                text::shorten(&text::visible(name), 60)
            )
        }
        Some(name) => format!("over HTTP ({})", text::shorten(&text::visible(name), 60)),
        None => {
            let mut ways = ways(key, config, people);
            ways.dedup();
            format!("in {}", ways.join(" and "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(all: &[&str]) -> Vec<SessionKey> {
        all.iter().map(|&key| SessionKey(key.to_owned())).collect()
    }

    #[test]
    fn only_conversations_that_are_the_owners_alone_go_on_elsewhere() {
        let mut config = Config::default();
        config.telegram.owner = vec![1001];
        let links = ["telegram:1001", "mail:ada@example.org"];
        let links = links.map(str::to_owned).to_vec();
        config.session.identity_links = [
            ("ada".to_owned(), links),
            ("bob".to_owned(), vec!["telegram:1002".to_owned()]),
        ]
        .into();
        let people = People::default();
        let newest = keys(&[
            "agent:agent:telegram:dm:1002",
            "agent:agent:telegram:group:-5",
            "agent:agent:person:dm:bob",
            "event:backup",
            "cli:work",
            "agent:agent:telegram:dm:1001",
            "agent:agent:telegram:dm:1001:topic:7",
            "cli:cli",
            "http:web-1",
        ]);
        let own = SessionKey("cli:cli".to_owned());
        let check = |place: Option<&str>, expected: &[&str]| {
            let found = candidates(place, &own, &newest, &config, &people);
            assert_eq!(found, keys(expected), "{place:?}");
        };
        check(
            Some("Telegram"),
            &[
                "agent:agent:telegram:dm:1001",
                "agent:agent:telegram:dm:1001:topic:7",
            ],
        );
        check(Some("terminal"), &["cli:work", "cli:cli"]);
        check(Some("work"), &["cli:work"]);
        check(Some("cli:work"), &["cli:work"]);
        check(Some("web"), &["http:web-1"]);
        check(Some("mail"), &[]);
        check(Some("agent:agent:telegram:dm:1002"), &[]);
        check(
            None,
            &[
                "cli:work",
                "agent:agent:telegram:dm:1001",
                "agent:agent:telegram:dm:1001:topic:7",
                "cli:cli",
                "http:web-1",
            ],
        );
        // Nor does any continue where somebody else reads it.
        for shared in ["agent:agent:main", "agent:agent:telegram:dm:1002"] {
            let mut config = config.clone();
            config.telegram.allow_from = vec![1002];
            let own = SessionKey(shared.to_owned());
            assert_eq!(
                candidates(None, &own, &newest, &config, &people),
                keys(&[]),
                "{shared}"
            );
        }
        // Somebody's with an id that is not an owner's is not the owner's alone.
        let joined = SessionKey("agent:agent:person:dm:ada".to_owned());
        assert_eq!(ways(&joined, &config, &people), [""; 0]);
    }
}

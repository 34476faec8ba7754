//! Resolves recipients: the owner, in the chat where they wrote last, and the person that a name means.

use super::session_keys;
use super::shell::Everybody;
use crate::config::Config;
use crate::message::{Address, ChatRef, Route, SessionKey, Source};
use crate::pipeline::Pipeline;
use crate::queue::LastRoute;

impl Pipeline {
    /// Returns where the owner wants to be told, by the first channel of `[owner] notify` that leads to one; otherwise where
    /// they were last heard; before that, where the configuration says they are.
    pub(crate) fn way_to_owner(
        &self,
        config: &Config,
        known: &Everybody,
    ) -> Option<(SessionKey, Route)> {
        let wanted = config.owner.notify.iter();
        wanted
            .map(|channel| Some(channel.as_str()))
            .chain([None])
            .find_map(|channel| self.way_to_owner_on(channel, config, known))
    }

    /// Returns the way to the owner on `channel`, or on whichever it is.
    fn way_to_owner_on(
        &self,
        channel: Option<&str>,
        config: &Config,
        known: &Everybody,
    ) -> Option<(SessionKey, Route)> {
        let is_owner =
            |id: &str| Address::parse(id).is_some_and(|id| known.people.is_owner(config, &id));
        let open = |route: &Route| {
            let is_it = channel.is_none_or(|channel| channel == route.channel);
            is_it && self.channels.contains_key(route.channel.as_str())
        };
        let heard = known
            .routes
            .iter()
            .find(|last| is_owner(&last.sender) && open(&last.route));
        let heard = heard.map(|last| {
            // Their ids may have been joined since then.
            let sender =
                Address::parse(&last.sender).filter(|_| last.session_key.is_dm_of(&last.sender));
            let chat = &last.route.chat.chat;
            let key = sender.map(|id| session_keys::dm_key(config, &known.people, &id, chat));
            let key = key.unwrap_or_else(|| last.session_key.clone());
            (key, last.route.clone())
        });
        heard.or_else(|| {
            let ways = known.people.owners(config).into_iter().map(|owner| {
                let key = session_keys::dm_key(config, &known.people, &owner, &owner.id());
                (key, way_to(&owner))
            });
            ways.into_iter().find(|(_, route)| open(route))
        })
    }

    /// Returns the way to a contact: on a channel that is a process, to the chat in which they last wrote.
    pub(crate) fn route_to(
        &self,
        to: &str,
        config: &Config,
        known: &Everybody,
    ) -> Result<Route, String> {
        self.recipient(to, config, known).map(|(_, route)| route)
    }

    /// Returns who a contact is, and the way to them.
    pub(crate) fn recipient(
        &self,
        to: &str,
        config: &Config,
        known: &Everybody,
    ) -> Result<(Option<Address>, Route), String> {
        if to == "owner" {
            let way = self.way_to_owner(config, known);
            return way.map(|(_, route)| (None, route)).ok_or_else(|| {
                if self
                    .channels
                    .keys()
                    .any(|name| name != Source::Cli.as_str())
                {
                    "not delivered: no owner is known (agent-send --pair owner)".to_owned()
                } else {
                    "not delivered: every channel is off (`enabled` in agent.toml)".to_owned()
                }
            });
        }
        let open = |address: &Address| {
            let route = last_way_to(address, known);
            match self.channels.contains_key(route.channel.as_str()) {
                true => Ok((Some(address.clone()), route)),
                false => Err(format!(
                    "not delivered: the channel {} is off (`enabled` in agent.toml)",
                    route.channel
                )),
            }
        };
        if let Some(address) = address(config, to) {
            return open(&address);
        }
        open(&known.people.find_one(to)?.id)
    }
}

/// Returns the address that `text` is: a number, or one that names a channel of the settings.
pub(crate) fn address(config: &Config, text: &str) -> Option<Address> {
    Address::parse(text).filter(|address| config.knows_channel(address.channel()))
}

/// Returns the way to where `address` was last heard alone; before that, to the chat that is called like it. In Telegram
/// these are the same.
fn last_way_to(address: &Address, known: &Everybody) -> Route {
    let id = address.to_string();
    let is_theirs =
        |last: &&LastRoute| last.sender == id && last.route.channel == address.channel();
    let heard = match address {
        Address::Named { .. } => known.routes.iter().find(is_theirs),
        Address::Number(_) => None,
    };
    heard.map_or_else(|| way_to(address), |last| last.route.clone())
}

/// Returns the way to the chat that is called like a person or a group.
pub(super) fn way_to(address: &Address) -> Route {
    Route::new(address.channel(), ChatRef::new(address.id()))
}

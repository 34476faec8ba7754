//! The command `pair` of the FIFO and the spool: who may talk. `agent-send --pair` does the same without a daemon.

use crate::clock;
use crate::message::{Address, PeopleOrder};
use crate::pipeline::Pipeline;
use crate::text;

impl Pipeline {
    /// Changes who may talk and says what was done, or why nothing was. Done again after a crash it changes nothing more, but
    /// that an owner code is a new one.
    pub(super) fn order_people(&self, order: &PeopleOrder) -> Result<String, String> {
        tokio::task::block_in_place(|| match order {
            PeopleOrder::Approve { code } => {
                let now = clock::now_ms();
                let approved = self.people.change(|people| people.approve(code, now));
                match approved.map_err(|error| error.to_string())? {
                    Some(person) => Ok(format!("{} ({}) may talk now", person.name, person.id)),
                    None => Err(format!("no request {:?}", text::visible(code))),
                }
            }
            PeopleOrder::Revoke { person } => self.revoke(&self.address_of(person)?),
            PeopleOrder::Owner => {
                let now = clock::now_ms();
                let code = self.people.change(|people| people.new_owner_code(now));
                code.map_err(|error| error.to_string())
            }
            PeopleOrder::Block { person } => self.refuse(person, true, true),
            PeopleOrder::Unblock { person } => self.refuse(person, true, false),
            PeopleOrder::Mute { person } => self.refuse(person, false, true),
            PeopleOrder::Unmute { person } => self.refuse(person, false, false),
        })
    }

    /// Returns whom an address, an @username or a name means.
    fn address_of(&self, who: &str) -> Result<Address, String> {
        if let Some(id) = Address::parse(who) {
            return Ok(id);
        }
        let people = self.people.read().map_err(|error| error.to_string())?;
        Ok(people.find_one(who)?.id)
    }

    fn revoke(&self, address: &Address) -> Result<String, String> {
        let revoked = self.people.change(|people| people.revoke(address));
        if !revoked.map_err(|error| error.to_string())? {
            return Err(format!("{address} was not let in by pairing"));
        }
        let people = self.people.read().map_err(|error| error.to_string())?;
        let config = &self.live().config;
        Ok(
            match people.is_let_in(config, address) || people.is_owner(config, address) {
                true => format!(
                    "{address} is no longer let in by pairing, but may still talk: agent.toml names them"
                ),
                false => format!("{address} may not talk any more"),
            },
        )
    }

    /// Blocks or mutes somebody, or takes that back.
    fn refuse(&self, who: &str, block: bool, on: bool) -> Result<String, String> {
        let address = self.address_of(who)?;
        let people = self.people.read().map_err(|error| error.to_string())?;
        if on && people.is_owner(&self.live().config, &address) {
            return Err(format!(
                "{address} is an owner, and owners cannot be blocked or muted; nothing was changed"
            ));
        }
        let changed = self.people.change(|people| match block {
            true => people.block(&address, on),
            false => people.mute(&address, on),
        });
        let state = match (block, on) {
            (true, true) => "is refused",
            (true, false) => "is not refused",
            (false, true) => "is read in groups but not answered",
            (false, false) => "is answered",
        };
        Ok(match changed.map_err(|error| error.to_string())? {
            true => format!("{address} {state} from now on"),
            false => format!("nothing changed: {address} {state} already"),
        })
    }
}

#[cfg(test)]
mod tests {
    use crate::control::{self, decode};
    use crate::message::PeopleOrder;

    #[test]
    fn the_command_names_what_is_to_be_done_and_to_whom() {
        let order = |line: &str| decode(line.as_bytes()).map(|order| order.command);
        let approve = order(r#"{"cmd":"pair","op":"approve","code":"ABCD2345"}"#);
        let code = "ABCD2345".to_owned();
        let expected = control::Command::Pair(PeopleOrder::Approve { code });
        assert_eq!(approve, Ok(expected));
        let owner = order(r#"{"cmd":"pair","op":"owner"}"#);
        assert_eq!(owner, Ok(control::Command::Pair(PeopleOrder::Owner)));
        for bad in [
            r#"{"cmd":"pair"}"#,
            r#"{"cmd":"pair","op":"revoke"}"#,
            r#"{"cmd":"pair","op":"all"}"#,
        ] {
            assert!(order(bad).is_err(), "{bad}");
        }
    }
}

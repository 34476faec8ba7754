//! `/model`: which model answers in a conversation, and another choice.

use super::immediate::FOR_OWNERS;
use crate::message::Envelope;
use crate::pipeline::Pipeline;
use crate::pipeline::persist::Recorded;
use crate::pipeline::turn::outcome::{Outcome, declined, said};
use crate::pipeline::turn::run::model_for;
use crate::session::Kind;
use crate::text;

impl Pipeline {
    /// Returns the configured name of the model that is called `name` in any letter case; the error says
    /// which there are.
    pub(super) fn model_named(&self, name: &str) -> Result<String, String> {
        let live = self.live();
        let models = live.agent.client().models();
        let names: Vec<&str> = models.names().collect();
        let found = names
            .iter()
            .find(|one| **one == name)
            .or_else(|| names.iter().find(|one| one.eq_ignore_ascii_case(name)));
        let name = text::shorten(&text::visible(name), 60);
        found.map(|name| (*name).to_owned()).ok_or_else(|| {
            format!(
                "No model is called `{name}`. There are: {}.",
                names.join(", ")
            )
        })
    }

    /// Says which model answers here, or changes it.
    pub(super) async fn choose_model(
        &self,
        envelope: &Envelope,
        choice: Option<&str>,
    ) -> Recorded<Outcome> {
        if !envelope.from_owner {
            return Ok(declined(envelope, FOR_OWNERS));
        }
        let live = self.live();
        let models = live.agent.client().models();
        let mut session = self.take_session(envelope).await?;
        let setting = match choice {
            None => None,
            Some(word) if word.eq_ignore_ascii_case("default") => {
                Some(Kind::Setting { model: None })
            }
            Some(name) => match self.model_named(name) {
                Ok(name) => Some(Kind::Setting { model: Some(name) }),
                Err(why) => {
                    self.sessions.put(session);
                    return Ok(declined(envelope, &why));
                }
            },
        };
        if let Some(kind) = setting
            && let Err(error) = session.append(vec![kind], true).await
        {
            self.sessions.put(session);
            return Ok(self.failed(envelope, &error.to_string(), &[]));
        }
        let model = model_for(&live, envelope, &session);
        self.sessions.put(session);
        let names: Vec<&str> = models.names().collect();
        let now = if choice.is_some() {
            "From now on"
        } else {
            "Here"
        };
        let text = format!(
            "{now} `{model}` answers. There are: {}; `/model default` returns to the usual one.",
            names.join(", ")
        );
        Ok(said(envelope, &text, None))
    }
}

//! `/new`: the conversation is archived, and its next message begins another one.

use std::sync::Arc;

use super::immediate::FOR_OWNERS;
use crate::message::{Envelope, SessionKey};
use crate::pipeline::Pipeline;
use crate::pipeline::persist::Recorded;
use crate::pipeline::turn::outcome::{Outcome, declined, refused, said};
use crate::session::{Kind, Resume};

/// What is said after a reset.
const NEW_SESSION: &str = "New conversation. The previous one is archived.";

impl Pipeline {
    /// Archives the session; its next message begins a new one, which `model` answers. The inner error says
    /// why nothing was done. `again`: a crash came after the beginning.
    pub(super) async fn start_new_session(
        self: &Arc<Self>,
        envelope: &Envelope,
        model: Option<&str>,
        again: bool,
    ) -> Recorded<Result<Outcome, Outcome>> {
        if model.is_some() && !envelope.from_owner {
            return Ok(Err(declined(envelope, FOR_OWNERS)));
        }
        let model = match model.map(|name| self.model_named(name)).transpose() {
            Ok(model) => model,
            Err(why) => {
                return Ok(Err(declined(
                    envelope,
                    &format!("{why}\nNothing was changed."),
                )));
            }
        };
        let key = &envelope.session_key;
        if again && self.is_begun(envelope, model.as_deref()).await? {
            return Ok(Ok(said(envelope, NEW_SESSION, None)));
        }
        let was_there = self.archive(key).await?;
        let Some(model) = model else {
            return Ok(Ok(match was_there {
                // A crash came between the deed and its record.
                _ if was_there || again => said(envelope, NEW_SESSION, None),
                // Somebody named a session that is not there; "/new" at the beginning is not a mistake.
                _ if envelope.wants_reply && envelope.text.is_empty() => {
                    refused(envelope, &format!("no session \"{key}\""))
                }
                _ => said(envelope, "This is a new conversation already.", None),
            }));
        };
        let mut session = self.take_session(envelope).await?;
        let written = session
            .append(
                vec![Kind::Setting {
                    model: Some(model.clone()),
                }],
                true,
            )
            .await;
        self.sessions.put(session);
        Ok(match written {
            Ok(()) => Ok(said(
                envelope,
                &format!("{NEW_SESSION} `{model}` answers here."),
                None,
            )),
            Err(error) => Err(self.failed(envelope, &error.to_string(), &[])),
        })
    }

    /// Returns true when the session of `envelope` is the new one already that its command asks for.
    async fn is_begun(&self, envelope: &Envelope, model: Option<&str>) -> Recorded<bool> {
        let session = self.take_session(envelope).await?;
        let state = session.state();
        let speaks = state.resume(&envelope.id) != Resume::Fresh;
        let is_begun = speaks
            || (state.last_seq > 0
                && state.entries.is_empty()
                && state.chosen_model.as_deref() == model);
        self.sessions.put(session);
        Ok(is_begun)
    }

    /// Archives the session of `key`; false when there was none.
    pub(crate) async fn archive(self: &Arc<Self>, key: &SessionKey) -> Recorded<bool> {
        let archive = || {
            let (pipeline, key) = (self.clone(), key.clone());
            async move { crate::sys::blocking(move || pipeline.sessions.reset(&key)).await }
        };
        let archived = self.persist("a reset", archive).await?;
        if archived.is_some() {
            // What was said can be searched for from now on.
            self.memory.tell_news();
        }
        Ok(archived.is_some())
    }
}

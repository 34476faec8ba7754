//! A job as an input: its recipient and its conversation.

use crate::clock;
use crate::jobs::{Job, Talk};
use crate::message::{
    About, Address, ChatRef, Command, Envelope, Route, Sender, SessionKey, Source, Trust,
};
use crate::people::Access;
use crate::pipeline::intake::session_keys;
use crate::pipeline::intake::shell::Everybody;
use crate::pipeline::{Live, Pipeline};

/// Whoever learns of a job.
struct Listener {
    /// Their conversation.
    key: SessionKey,
    route: Route,
    is_owner: bool,
}

impl Pipeline {
    /// Returns the input that the time `at` of `job` is; `None` while it is not known who would learn of it.
    pub(super) async fn input_of(&self, job: &Job, at: i64, now: i64) -> Option<Envelope> {
        let live = self.live();
        let known = self.everybody().await.ok()?;
        let sender = Sender::new(format!("job:{}", job.id), job.name.clone());
        let own = SessionKey(sender.id.clone());
        let input = Envelope {
            from_owner: true,
            trust: Trust::of(job.untrusted),
            about: Some(About {
                source: Some(job.name.clone()),
                reference: Some(job.id.clone()),
                data: None,
            }),
            model: job.model.clone(),
            budget_usd: job.budget_usd,
            // A machine that this one took over from may have done it.
            sent_at: Some(at),
            ..Envelope::new(
                job.key_of_run(at),
                Source::Job,
                sender,
                own,
                job.text.clone(),
                now,
            )
        };
        let models = live.agent.client().models();
        let model = job.model.as_ref();
        let unknown = model.and_then(|name| models.get(name, "the job's model").err());
        let reason = unknown.map(|error| error.to_string());
        let reason = reason.or_else(|| self.why_not_theirs(job, &live));
        let refused = reason.map(|reason| Command::Refused { reason });
        if !job.deliver && job.session == Talk::Isolated {
            return Some(Envelope {
                command: refused,
                ..input
            });
        }
        Some(match self.listener(job, &live, &known) {
            // Money for an answer that nobody hears.
            Err(reason) => Envelope {
                command: Some(Command::Refused { reason }),
                ..input
            },
            Ok(listener) => {
                let route = job.deliver.then_some(listener.route);
                let (session_key, heard_in) = match job.session {
                    Talk::Main if !job.literal => (listener.key, None),
                    Talk::Main | Talk::Isolated => (
                        input.session_key.clone(),
                        route.as_ref().map(|_| listener.key),
                    ),
                };
                let as_it_is = job.literal.then_some(Command::Deliver { emoji: None });
                let text = match input.overdue(now).filter(|_| job.literal) {
                    Some(at) => {
                        let at = clock::local_text(at, live.config.agent.timezone.0);
                        format!("{}\n\n⏳ This was due {at}.", input.text)
                    }
                    None => input.text.clone(),
                };
                Envelope {
                    session_key,
                    route,
                    heard_in,
                    heard_by_others: !listener.is_owner,
                    command: as_it_is.or(refused),
                    text,
                    ..input
                }
            }
        })
    }

    /// Returns the input that a time of a job is now which was refused when it was due; `None` when the job is not there any
    /// more as it was.
    pub(in crate::pipeline) async fn job_again(
        &self,
        refused: &Envelope,
        now: i64,
    ) -> Option<Envelope> {
        let (id, at) = Job::of_key(&refused.id)?;
        let jobs = self.schedule.jobs.look().ok()?;
        let job = jobs.get(id).filter(|job| job.text == refused.text)?;
        let input = self.input_of(job, at?, now).await?;
        Some(Envelope {
            id: refused.id.clone(),
            received_at: refused.received_at,
            ..input
        })
    }

    /// Returns why a job that somebody else asked for does nothing: they may not talk any more where it would be heard.
    fn why_not_theirs(&self, job: &Job, live: &Live) -> Option<String> {
        let (by, config) = (Address::parse(job.by.as_deref()?)?, &live.config);
        let chat = job.to.as_deref().and_then(Address::parse);
        let group = chat.filter(|chat| config.group(chat.channel(), &chat.id()).is_some());
        let access = match group {
            Some(group) => self.people.decide_in_group(config, &group, &by),
            None => self.people.decide(config, &by, "", clock::now_ms()),
        };
        let may = matches!(access, Access::Owner | Access::Allowed);
        (!may).then(|| format!("not done: {by}, who asked for it, may not talk any more"))
    }

    /// Returns why nobody would learn of the job `id` that is to be heard; `None` when somebody would.
    pub(super) async fn why_unheard(&self, id: &str) -> Option<String> {
        let jobs = self.schedule.jobs.look().ok()?;
        let job = jobs.get(id).filter(|job| job.deliver && job.enabled)?;
        let known = self.everybody().await.ok()?;
        self.listener(job, &self.live(), &known).err()
    }

    fn listener(&self, job: &Job, live: &Live, known: &Everybody) -> Result<Listener, String> {
        let to = job.to.as_deref().unwrap_or("owner");
        let (person, route) = self.recipient(to, &live.config, known)?;
        if to == "owner" {
            let way = self.way_to_owner(&live.config, known);
            let (key, route) =
                way.ok_or_else(|| "no owner is known: agent-send --pair owner".to_owned())?;
            return Ok(Listener {
                key,
                route,
                is_owner: true,
            });
        }
        let id = route.chat.chat.clone();
        let chat = Address::new(&route.channel, &id)
            .ok_or_else(|| format!("{} is not a chat id", crate::text::visible(&id)))?;
        let is_group = matches!(chat, Address::Number(..0))
            || live.config.group(&route.channel, &id).is_some();
        let key = if is_group {
            session_keys::group_key(&live.config, "job", &chat)
        } else {
            let person = person.as_ref().unwrap_or(&chat);
            session_keys::dm_key(&live.config, &known.people, person, &id)
        };
        let key = job
            .topic
            .as_ref()
            .map_or(key.clone(), |topic| key.in_topic(topic));
        let route = Route {
            chat: ChatRef {
                topic: job.topic.clone(),
                ..route.chat
            },
            ..route
        };
        Ok(Listener {
            key,
            route,
            is_owner: known
                .people
                .is_owner(&live.config, person.as_ref().unwrap_or(&chat)),
        })
    }
}

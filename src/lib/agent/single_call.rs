//! A call outside of the loop: the same tool policy and the same audit log, and no transcript.

use serde_json::Value;

use super::ask_owner::AskOwner;
use super::others_time::OthersTime;
use super::permission::{self, Asked, Circumstances, Decision, Knows, Owner, Verdict};
use super::tool::{Context, Progress, Tool, ToolOutput};
use super::turn_loop::Agent;
use crate::audit;
use crate::config::Policy;
use crate::memory::{Scope, Viewer};
use crate::message::{Route, SessionKey, ToolCall};
use crate::session;
use crate::session::addresses;
use tokio_util::sync::CancellationToken;

/// The person for whom a call is made.
#[derive(Debug, Clone)]
pub struct Single {
    /// The run that led to it.
    pub run_id: String,
    /// The conversation.
    pub conversation: SessionKey,
    /// Who speaks, by their id.
    pub person: String,
    /// What they are called.
    pub person_name: String,
    /// Whether it is an owner.
    pub from_owner: bool,
    /// Whose memories it may use.
    pub viewer: Viewer,
    /// The chat that is talked in, if it is one.
    pub route: Option<Route>,
    /// Whether the model had read untrusted text when it planned it.
    pub untrusted: bool,
}

/// No conversation is at hand: what untrusted text may have chosen is asked about.
struct Nothing;

impl Knows for Nothing {
    fn typed(&self) -> String {
        String::new()
    }

    fn was_read_inside(&self, _url: &str) -> bool {
        false
    }

    fn was_read(&self, _url: &str) -> bool {
        false
    }

    fn is_public(&self, _query: &str) -> bool {
        false
    }

    fn names_only_read(&self, text: &str) -> bool {
        addresses(text).next().is_none()
    }

    fn sources(&self) -> String {
        "what others wrote".to_owned()
    }
}

impl Single {
    fn context(&self, call_id: &str) -> Context {
        Context {
            run_id: self.run_id.clone(),
            call_id: call_id.to_owned(),
            spawner: None,
            session_id: self.conversation.0.clone(),
            session: session::IndexEntry::default(),
            conversation: self.conversation.clone(),
            person: self.person.clone(),
            of_others: !self.from_owner,
            viewer: self.viewer.clone(),
            route: self.route.clone(),
            message_id: None,
            pins: Vec::new(),
            approved: None,
            untrusted: self.untrusted,
            private_words: Vec::new(),
            ask_owner: AskOwner::default(),
            others_time: OthersTime::default(),
            cancel: CancellationToken::new(),
            progress: Progress::default(),
        }
    }
}

impl Agent {
    /// Decides whether a call may be made, and asks the owner where the tool policy says so. The error says why
    /// not. `own` is the tool where none is offered to the model. What the settings allow outright runs, whoever
    /// speaks, except for what the owner is asked in any case.
    ///
    /// # Errors
    /// When it may not.
    pub async fn permit(
        &self,
        of: &Single,
        call: &ToolCall,
        own: Option<&dyn Tool>,
        owner: &dyn Owner,
    ) -> Result<(), String> {
        let offer = self.offer("primary");
        let offered = offer.get(&call.name).cloned();
        let tool = own.or(offered.as_deref());
        let tool = tool.ok_or_else(|| format!("there is no {} here", call.name))?;
        let context = of.context(&call.id);
        let policy = tool
            .policy(&call.input)
            .unwrap_or_else(|| offer.policy(&call.name));
        let circumstances = Circumstances {
            guest: (!of.from_owner && policy != Policy::Allow).then_some(of.person_name.as_str()),
            untrusted: of.untrusted,
            others_read: !of.viewer.may_see(&Scope::Owner),
            plan: false,
            knows: &Nothing,
        };
        let decision = permission::decide(tool, (&call.input, &context), policy, circumstances);
        let why = match decision {
            Decision::Run => return Ok(()),
            Decision::Refuse(why) => return Err(why),
            Decision::Ask { why, .. } => why,
        };
        let question = match own {
            Some(own) => permission::question(own, &call.input, &context),
            None => offer.question(call, &context).await,
        };
        let asked = Asked {
            call_id: call.id.clone(),
            tool: call.name.clone(),
            question,
            why,
            wanted: None,
        };
        match owner.ask(std::slice::from_ref(&asked)).await.pop() {
            Some(Verdict::Yes | Verdict::ByRule) => Ok(()),
            Some(Verdict::SaidNo(why) | Verdict::No(why)) => Err(why),
            Some(Verdict::Words(_)) | None => Err("nobody answered".to_owned()),
        }
    }

    /// Makes a call that needs no approval.
    pub async fn call(&self, of: &Single, name: &str, input: &Value) -> ToolOutput {
        let offer = self.offer("primary");
        let record = self.audit.begin(
            audit::Call {
                session: &of.conversation.0,
                run: &of.run_id,
                id: name,
                tool: offer.known(name),
            },
            input,
        );
        let output = offer.run(name, input, &of.context(name)).await;
        record.end(output.is_error, &output.text);
        output
    }
}

//! Requests of a tool server during a call: to the owner, as a question of the server that is answered with text; to a model,
//! as far as the settings allow, without the conversation and without tools.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::Mutex;

use crate::agent::{Asked, Context, Question, Rule, Verdict};
use crate::config::Sampling;
use crate::llm::{self, Client, Prompt, Purpose};
use crate::mcp::{Address, Caller, Elicited, Form, SampleRequest, Sampled};
use crate::message::{Block, Message, Role, StopReason, Wanted};
use crate::provider::SystemBlock;
use crate::secret;

/// How often the owner is asked again because their words do not fit.
const TRIES: usize = 3;
/// What the ledger calls it.
const SOURCE: &str = "sampling";
const SYSTEM: &str = "A program asks you for this text. Nobody reads it but the program. You have no tools and know nothing beside what stands here.";

/// The call that is made, for its server.
pub(super) struct Questions {
    pub(super) server: String,
    pub(super) tool: String,
    pub(super) context: Context,
    pub(super) client: Arc<Client>,
    pub(super) sampling: crate::mcp::Sampling,
    /// How often it has asked; one question at a time.
    pub(super) count: Mutex<usize>,
}

impl Questions {
    async fn elicited(&self, form: Form) -> Elicited {
        let mut count = self.count.lock().await;
        let ask_owner = &self.context.ask_owner;
        if !ask_owner.is_possible() {
            return Elicited::Cancel;
        }
        let mut wrong = None::<String>;
        for _ in 0..TRIES {
            *count += 1;
            let question = self.question(&form, *count, wrong.as_deref());
            let verdict = ask_owner.ask(question).await;
            let words = match verdict {
                Verdict::Yes => String::new(),
                Verdict::Words(words) => words,
                Verdict::SaidNo(_) => return Elicited::Decline,
                // No rule has the words that are wanted.
                Verdict::ByRule | Verdict::No(_) => return Elicited::Cancel,
            };
            match form.fill(&words) {
                Ok(content) => return Elicited::Accept(content),
                Err(why) => wrong = Some(why),
            }
        }
        Elicited::Cancel
    }

    fn question(&self, form: &Form, number: usize, wrong: Option<&str>) -> Asked {
        let server = &self.server;
        let mut text = form.text(server);
        if let Some(wrong) = wrong {
            text = format!("that did not fit: {wrong}\n{text}");
        }
        let mut why = format!(
            "the words are those of the tool server {server}, and your answer goes to it; no server needs a password or a key from you"
        );
        if let Some(secret) = form.secret() {
            why = format!(
                "CAREFUL: the tool server {server} seems to ask for a secret ({secret}), which it must not; say no unless you know why. {why}"
            );
        }
        let question = Question {
            bound_to: json!(["elicitation", server, number, text]),
            text,
            rule: None,
        };
        let wanted = Wanted {
            how: form.how(),
            choices: form.choices(),
        };
        self.asked(question, why, Some(wanted))
    }

    /// Returns a question as it is put to the owner.
    fn asked(&self, question: Question, why: String, wanted: Option<Wanted>) -> Asked {
        Asked {
            call_id: self.context.call_id.clone(),
            tool: self.tool.clone(),
            question,
            why,
            wanted,
        }
    }

    /// An address is shown, and nothing of ours ever asks for it: what answers there is the server's choice.
    async fn opened(&self, address: Address) -> Elicited {
        let mut count = self.count.lock().await;
        let ask_owner = &self.context.ask_owner;
        if !ask_owner.is_possible() {
            return Elicited::Cancel;
        }
        *count += 1;
        let (server, number) = (&self.server, *count);
        let text = address.text(server);
        let question = Question {
            bound_to: json!(["address", server, number, text]),
            text,
            rule: None,
        };
        let why = format!(
            "words and address are those of the tool server {server}; look at the host, open it yourself, and say yes when you are done there. The server learns only yes or no"
        );
        match ask_owner.ask(self.asked(question, why, None)).await {
            Verdict::Yes => Elicited::Opened,
            Verdict::SaidNo(_) => Elicited::Decline,
            Verdict::ByRule | Verdict::Words(_) | Verdict::No(_) => Elicited::Cancel,
        }
    }

    async fn sampled(&self, request: SampleRequest) -> Result<Sampled, String> {
        let mut count = self.count.lock().await;
        *count += 1;
        let server = &self.server;
        let most = request.max_tokens.min(self.sampling.tokens);
        match self.sampling.rule {
            Sampling::Off => return Err("the owner lets no server use the model".to_owned()),
            Sampling::Allow => {}
            Sampling::Ask => self.may_sample(request.text(server, most), *count).await?,
        }
        self.complete(&request, most).await
    }

    /// Asks whether the server may use the model for this, its question number `asked`.
    async fn may_sample(&self, text: String, asked: usize) -> Result<(), String> {
        let Self {
            server, context, ..
        } = self;
        let question = Question {
            text,
            bound_to: json!(["sampling", server, asked]),
            rule: Some(Rule {
                words: format!("words of the model for the tool server {server}"),
                bound_to: json!(["sampling", server]),
            }),
        };
        if context.ask_owner.stands(&question) {
            return Ok(());
        }
        if !context.ask_owner.is_possible() {
            return Err("there is nobody to ask whether it may use the model".to_owned());
        }
        let why = format!("[mcp.servers.{server}] sampling = \"ask\"");
        let asked = self.asked(question, why, None);
        match context.ask_owner.ask(asked).await {
            Verdict::Yes | Verdict::ByRule => Ok(()),
            Verdict::Words(_) | Verdict::SaidNo(_) | Verdict::No(_) => {
                Err("the owner did not allow it".to_owned())
            }
        }
    }

    async fn complete(&self, request: &SampleRequest, most: u32) -> Result<Sampled, String> {
        let model = self.client.models().for_role(SOURCE);
        let model = model.ok_or_else(|| "there is no model".to_owned())?;
        // What a run may cost holds for it, and what it may cost in one run.
        let session_id = format!("mcp:{}:{}", self.server, self.context.run_id);
        let purpose = Purpose {
            run_id: &self.context.run_id,
            session_id: &session_id,
            source: SOURCE,
            budget_usd: None,
            share_usd: Some(self.sampling.usd),
            of_others: self.context.of_others,
        };
        let prompt = prompt(request);
        let call = self
            .client
            .complete_within(purpose, &model.name, &prompt, most);
        // The server must not learn what the owner spends.
        let paid = call.await.map_err(|error| {
            tracing::warn!(server = self.server, "its sampling request failed: {error}");
            match error {
                llm::Error::Refused(_) => "the owner's limit for it is reached".to_owned(),
                _ => "no model can answer now".to_owned(),
            }
        })?;
        Ok(Sampled {
            text: secret::redact(&paid.response.message.plain_text()),
            model: paid.model,
            cut: paid.response.stop == StopReason::MaxTokens,
        })
    }
}

fn prompt(request: &SampleRequest) -> Prompt {
    let system = [SYSTEM.to_owned(), request.system.clone()];
    let system = system.into_iter().filter(|text| !text.is_empty());
    let message = |(by_model, words): &(bool, String)| Message {
        role: if *by_model {
            Role::Assistant
        } else {
            Role::User
        },
        content: vec![Block::text(words.clone())],
    };
    Prompt::plain(
        system.map(SystemBlock::stable).collect(),
        request.messages.iter().map(message).collect(),
    )
}

impl Caller for Questions {
    fn elicit(&self, form: Form) -> BoxFuture<'_, Elicited> {
        Box::pin(self.elicited(form))
    }

    fn open(&self, address: Address) -> BoxFuture<'_, Elicited> {
        Box::pin(self.opened(address))
    }

    fn sample(&self, request: SampleRequest) -> BoxFuture<'_, Result<Sampled, String>> {
        Box::pin(self.sampled(request))
    }

    fn told(&self, words: String) {
        self.context.progress.tell(&self.tool, words);
    }
}

//! The model of `[routing] consolidation`, asked through the metered client.

use std::sync::Arc;

use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::model_reader::{Model, NoAnswer};
use crate::config;
use crate::config::{Models, ProviderType};
use crate::cost;
use crate::cost::Rates;
use crate::llm::{self, Client, Prompt, Purpose};
use crate::message::{Message, Role, Usage};
use crate::provider::{Error as Refused, SystemBlock};
use crate::text;

/// The role, and the source of these calls in the ledger.
const ROLE: &str = "consolidation";

/// About what an answer has.
const ANSWER_TOKENS: u64 = 400;

/// A model that is paid. Its calls block: it belongs on a thread that may wait.
pub struct MeteredModel {
    client: Arc<Client>,
    model: Arc<config::Model>,
    runtime: Handle,
    /// Ends a call that runs: with the daemon its runtime ends, too.
    closing: CancellationToken,
    /// The run in the ledger; a cap of a message does not hold for it.
    run_id: String,
}

/// Returns the model that `[routing]` names for consolidation; `None` when that is none: rules do it then.
pub fn reader(models: &Models) -> Option<Arc<config::Model>> {
    models
        .for_role(ROLE)
        .filter(|model| model.provider.kind != ProviderType::Offline)
}

/// Returns about what a question costs, US dollars; `None` when `model` has no price.
pub fn estimate_usd(model: &config::Model, system: &str, question: &str) -> Option<f64> {
    let input_tokens = text::estimate_tokens(system) + text::estimate_tokens(question);
    let usage = Usage {
        input_tokens,
        output_tokens: ANSWER_TOKENS,
        estimated: true,
        ..Usage::default()
    };
    Rates::of(model).map(|rates| cost::usd(rates.cost(&usage)))
}

impl MeteredModel {
    /// Returns the model of [`reader`].
    pub fn of(client: Arc<Client>, runtime: Handle, closing: CancellationToken) -> Option<Self> {
        let model = reader(client.models())?;
        Some(Self {
            client,
            model,
            runtime,
            closing,
            run_id: format!("{ROLE}/{}", uuid::Uuid::now_v7()),
        })
    }
}

impl Model for MeteredModel {
    fn ask(&mut self, session: &str, system: &str, question: &str) -> Result<String, NoAnswer> {
        let prompt = Prompt::plain(
            vec![SystemBlock::stable(system)],
            vec![Message::text(Role::User, question)],
        );
        let purpose = Purpose::new(&self.run_id, session, ROLE, false);
        let call = self
            .client
            .complete(purpose, &self.model.name, &prompt, &|_| {}, &|_| {});
        let answer = self
            .runtime
            .block_on(self.closing.run_until_cancelled(call));
        let Some(answer) = answer else {
            return Err(NoAnswer::Later("the daemon ends".to_owned()));
        };
        match answer {
            Ok(paid) => Ok(paid.response.message.plain_text()),
            // It is this question that it does not take.
            Err(llm::Error::Failed(
                error @ (Refused::ContextOverflow { .. } | Refused::Rejected { .. }),
            )) => Err(NoAnswer::Failed(error.to_string())),
            Err(error) => Err(NoAnswer::Later(error.to_string())),
        }
    }

    fn cost_usd(&self, system: &str, question: &str) -> Option<f64> {
        estimate_usd(&self.model, system, question)
    }
}

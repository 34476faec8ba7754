//! The model reader for `agent-consolidate`: opened for the first request, because most runs have none.

use std::sync::Arc;

use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::app::cli;
use crate::app::cli::Failure;
use crate::app::llm_client;
use crate::auth::Keys;
use crate::config;
use crate::config::{Loaded, Origin};
use crate::cost::Ledger;
use crate::memory::consolidate::{MeteredModel, Model, NoAnswer, estimate_usd, reader};
use crate::monitor_state;

/// The model of the settings, or why it cannot be asked.
pub(super) struct Reader<'a> {
    context: &'a Context<'a>,
    settings: Result<Loaded, String>,
    open: Option<(Runtime, MeteredModel)>,
}

impl<'a> Reader<'a> {
    /// Returns it; `None` when rules read alone.
    pub(super) fn of(context: &'a Context<'a>) -> Option<Self> {
        let settings = config::load(context.home, context.env, &[])
            .map_err(|error| format!("{error}; {}", error.hint()))
            .and_then(|loaded| match daemons_alone(context, &loaded) {
                Some(why) => Err(why),
                None => Ok(loaded),
            });
        let is_asked = settings
            .as_ref()
            .map_or(true, |loaded| reader(&loaded.models).is_some());
        is_asked.then_some(Self {
            context,
            settings,
            open: None,
        })
    }

    fn start(&mut self) -> Result<&mut MeteredModel, String> {
        if self.open.is_none() {
            let loaded = self.settings.as_ref().map_err(Clone::clone)?;
            let opened = start(self.context, loaded).map_err(|failure| match failure.hint {
                Some(hint) => format!("{}; {hint}", failure.message),
                None => failure.message,
            })?;
            self.open = Some(opened);
        }
        self.open
            .as_mut()
            .map(|(_, paid)| paid)
            .ok_or_else(|| "no model reads conversations".to_owned())
    }
}

/// Returns why nobody can be asked here although the daemon has a model: its key is in its environment, or a credential of
/// its unit, and the settings name no provider. Without a model rules would read the conversations once and for all.
fn daemons_alone(context: &Context<'_>, loaded: &Loaded) -> Option<String> {
    if reader(&loaded.models).is_some()
        || !matches!(loaded.origin("providers.load"), Origin::Default)
    {
        return None;
    }
    let state = monitor_state::read(&context.home.monitor())
        .ok()
        .flatten()?;
    let other = state.providers.iter().find(|one| one.name != "offline")?;
    Some(format!(
        "the daemon uses {}, whose key is not visible here: give it to this program, too, or store it with agent-daemon login {}",
        other.name, other.name
    ))
}

fn start(context: &Context<'_>, loaded: &Loaded) -> Result<(Runtime, MeteredModel), Failure> {
    let runtime = cli::event_loop()?;
    let keys = Arc::new(Keys::open(context.home, context.env)?);
    let ledger = Ledger::start(&context.home.cost_db(), loaded.config.agent.timezone.0)?;
    let client = Arc::new(llm_client::build(loaded, &keys, ledger)?);
    let never = CancellationToken::new();
    let paid = MeteredModel::of(client, runtime.handle().clone(), never);
    let paid = paid.ok_or_else(|| Failure::config("[routing] consolidation names no model"))?;
    Ok((runtime, paid))
}

impl Model for Reader<'_> {
    fn ask(&mut self, session: &str, system: &str, question: &str) -> Result<String, NoAnswer> {
        self.start()
            .map_err(NoAnswer::Later)?
            .ask(session, system, question)
    }

    fn cost_usd(&self, system: &str, question: &str) -> Option<f64> {
        let model = reader(&self.settings.as_ref().ok()?.models)?;
        estimate_usd(&model, system, question)
    }
}

//! `sessions`: all conversations, from `sessions.json` and the transcripts.

use serde::Serialize;

use crate::app::cli::Failure;
use crate::config;
use crate::config::{Environment, Home, Models};
use crate::cost;
use crate::session;
use crate::session::{Index, Listed};

/// `sessions`.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(crate) struct Sessions {
    pub sessions: Vec<Session>,
    /// Why no `context_pct` is known, when the settings cannot be read.
    #[serde(skip)]
    pub unknown_windows: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Session {
    pub session_id: String,
    pub key: String,
    pub contact: String,
    /// When it began, RFC 3339 UTC.
    pub created_at: String,
    /// When it was last used, RFC 3339 UTC.
    pub updated_at: String,
    /// The configured name of the model that spoke last; `null` before the first answer.
    pub(crate) model: Option<String>,
    pub message_count: u64,
    pub compaction_count: u64,
    /// Tokens of the newest model call.
    pub context_tokens: u64,
    /// Those as percent of the model's window, to a tenth; `null` when the window is unknown.
    pub context_pct: Option<f64>,
    pub cost_usd: f64,
    pub log_files: u64,
    /// Their bytes.
    pub log_bytes: u64,
}

/// Returns the sessions document; empty when there are none.
pub(crate) fn sessions(home: &Home, env: &Environment) -> Result<Sessions, Failure> {
    let index = Index::read(&home.sessions_index(), &home.sessions())?;
    if index.is_empty() {
        return Ok(Sessions::default());
    }
    let listed = session::listing(&index, &home.sessions())?;
    let (models, unknown_windows) = match config::load(home, env, &[]) {
        Ok(loaded) => (loaded.models, None),
        Err(error) => (Models::default(), Some(error.to_string())),
    };
    Ok(Sessions {
        sessions: listed
            .into_iter()
            .map(|listed| session(listed, &models))
            .collect(),
        unknown_windows,
    })
}

fn session(listed: Listed, models: &Models) -> Session {
    let entry = listed.entry;
    let model = entry
        .model
        .as_deref()
        .and_then(|name| models.get(name, "sessions").ok());
    Session {
        session_id: entry.session_id,
        key: listed.key,
        contact: entry.contact,
        created_at: entry.created_at,
        updated_at: entry.updated_at,
        model: entry.model,
        message_count: entry.message_count,
        compaction_count: entry.compaction_count,
        context_tokens: entry.context_tokens,
        context_pct: model.and_then(|model| percent(entry.context_tokens, model.context_window)),
        cost_usd: cost::usd(entry.cost_nano_usd),
        log_files: listed.log_files,
        log_bytes: listed.log_bytes,
    }
}

/// Returns `part` as percent of `whole`, to a tenth.
#[expect(
    clippy::cast_precision_loss,
    reason = "a percentage of tokens, to a tenth"
)]
fn percent(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| (part as f64 * 1000.0 / whole as f64).round() / 10.0)
}

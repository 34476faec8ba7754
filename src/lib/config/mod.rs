//! Settings: paths ([`Home`]), values ([`Config`], [`Models`]) and secrets ([`Secrets`]). The only room that reads the environment and the home directory.
//!
//! ```text
//! Home::resolve(flags, env) ─→ load(&home, &env, flags) ─→ Loaded { config, models, settings, warnings, notes }
//!                          └─→ Secrets::open(&home, &env).get("TELEGRAM_BOT_TOKEN")
//! ```
//! Layers: defaults < agent.toml < environment and systemd credentials < flags. agent.toml is read,
//! never renamed and never written; an unknown key or section is an error: a typo in a limit must
//! not lift it.

mod auto_load;
mod command_patterns;
mod dotenv;
mod environment;
mod error;
mod file_digests;
mod home;
mod key_names;
mod load;
mod provider_file;
mod reach;
mod secrets;
mod share_dir;
mod toml_file;
mod tool_policies;
mod types;
mod validate;
mod vendors;

pub use command_patterns::{SYSTEM, runs_others};
pub use environment::{Environment, machine_zone};
pub use error::{Error, Kind};
pub use file_digests::{FileDigests, settings_files};
pub use home::{Home, HomeFlags, RESTORING};
pub use key_names::UnknownKey;
pub(crate) use key_names::edits;
pub use load::{Loaded, Origin, Setting, load, load_after, load_config, providers_wanted};
pub use provider_file::{
    Model, Models, OAuth, Provider, ProviderType, Ttl, present as provider_files, provider,
};
pub use secrets::{SecretOrigin, Secrets, with_secrets};
pub use share_dir::share_dir;
#[cfg(any(test, fuzzing))]
pub(crate) use toml_file::check_settings;
pub use tool_policies::{Subject, names_host, policy_of, without_effect};
pub use types::{
    Agent, Backup, Callback, Collection, Compaction, Config, Context, Cost, Deliver, DmPolicy,
    DmScope, Driver, Embeddings, Every, Exec, FactFormat, Group, GroupPolicy, GroupScope,
    Heartbeat, Hook, HookSession, Http, Keep, Level, Listen, Log, MAX_CARRIED, Mcp, McpServer,
    Media, Members, Memory, Mode, Network, OnBusy, Pattern, Pipeline, Policy, Preset, Providers,
    ROLES, Readers, Recall, RecallWeights, ReplyTo, Reset, ResetFor, Sampling, Sandbox,
    SearchEngine, SearchStrategy, Session, Stickers, Stream, Subagents, Synthesis, Telegram,
    Thresholds, Tier, TimeOfDay, Tools, Typing, Voice, Web, Zone,
};
pub use types::{Channel as ChannelSettings, Display, GroupRules};
pub use validate::{Note, SERVER_NAME, Warning, is_server_name};
pub use vendors::{KeyInUse, VENDORS, Vendor, misspelt_word, vendor};

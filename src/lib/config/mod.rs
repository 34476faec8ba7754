//! Settings: where everything lies ([`Home`]), what it is set to ([`Config`], [`Models`]) and the
//! secrets ([`Secrets`]). The only room that reads the environment and the home directory.
//!
//! ```text
//! Home::resolve(flags, env) ─→ load(&home, &env, flags) ─→ Loaded { config, models, settings, warnings, notes }
//!                          └─→ Secrets::open(&home, &env).get("TELEGRAM_BOT_TOKEN")
//! ```
//! Layers: defaults < agent.toml < environment and systemd credentials < flags. agent.toml is read,
//! never renamed and never written; an unknown key is a warning, so that a file of a newer or older
//! release still loads.

mod check;
mod dotenv;
mod env;
mod error;
mod home;
mod load;
mod names;
mod provider_file;
mod secrets;
mod toml_file;
mod types;

pub use check::{Note, Warning};
pub use env::{Environment, machine_zone};
pub use error::{Error, Kind};
pub use home::{Home, HomeFlags};
pub use load::{Loaded, Origin, Setting, load, load_config};
pub use provider_file::{Model, Models, Provider, ProviderType};
pub use secrets::{SecretOrigin, Secrets};
pub use types::{
    Agent, Config, Cost, DmPolicy, DmScope, Driver, Embeddings, Exec, ExecPolicy, Group, GroupPolicy, GroupScope, Heartbeat,
    Http, Level, Listen, Log, Mcp, Media, Members, Memory, Mode, OnBusy, Pipeline, Providers, ROLES, ReplyTo, Sandbox, Session,
    Stream, Telegram, Tools, Zone,
};

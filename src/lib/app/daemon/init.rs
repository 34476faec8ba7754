//! `agent-daemon init`: make the home.

use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::config::machine_zone;
use crate::workspace;
use crate::workspace::Fate;

pub(super) fn init(shared: &Shared) -> Result<Exit, Failure> {
    let (env, home) = shared.home()?;
    let created = workspace::init(&home, machine_zone(&env)).map_err(|error| match error {
        workspace::Error::Home(error) => Failure::from(error),
        error @ workspace::Error::Write { .. } => {
            let hint = error.hint();
            Failure::new(Exit::Io, error.to_string()).hint(hint)
        }
    })?;
    for file in &created {
        let word = match file.fate {
            Fate::Written => "created",
            Fate::Kept => "kept   ",
        };
        cli::out(&format!("{word}  {}", home.display(&file.path)));
    }
    if !shared.quiet {
        cli::err(&format!(
            "next: agent-daemon login anthropic (or openai, gemini, openrouter) gives it a model; a bot token goes into {}, \
             [telegram] into {}; then: agent-daemon check",
            home.env_file().display(),
            home.config_file().display()
        ));
    }
    Ok(Exit::Ok)
}

//! The secrets that an agent needs and copies do not contain, by their names. The primary lists those that it has, the standby
//! those that it lacks.

use serde_json::Value;

use crate::config;
use crate::config::{Environment, Home, Secrets};

/// What the settings call the variable of a secret ends so.
const SUFFIX: &str = "_env";

/// Returns the names of the secrets that the settings of `home` name, as far as it has them. Settings that cannot be read name
/// none: the proof tells that.
pub(super) fn secrets(home: &Home, env: &Environment) -> Vec<String> {
    let (Ok(loaded), Ok(there)) = (config::load(home, env, &[]), Secrets::open(home, env)) else {
        return Vec::new();
    };
    let mut names = Vec::new();
    let settings = serde_json::to_value(&loaded.config).unwrap_or_default();
    named(&settings, &mut names);
    let providers = loaded.models.all().map(|model| &model.provider);
    names.extend(providers.filter_map(|provider| provider.api_key_env.clone()));
    names.sort_unstable();
    names.dedup();
    names.retain(|name| has(&there, name));
    names
}

/// Adds the names of variables in settings.
fn named(settings: &Value, names: &mut Vec<String>) {
    match settings {
        Value::Object(table) => {
            for (key, value) in table {
                match value {
                    Value::String(name) if key.ends_with(SUFFIX) => names.push(name.clone()),
                    value => named(value, names),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| named(value, names)),
        _ => {}
    }
}

fn has(secrets: &Secrets, name: &str) -> bool {
    secrets.get(name).is_ok_and(|secret| secret.is_some())
}

/// Returns what is said of `names` that `home` will lack once it has taken over from `copy`; `None` when it has all.
pub(super) fn lacking(
    names: &[String],
    home: &Home,
    copy: &Home,
    env: &Environment,
) -> Option<String> {
    // An own file stays, see `copy::install`.
    let place = match home.env_file().exists() {
        true => home,
        false => copy,
    };
    let there = Secrets::open(place, env).ok()?;
    let lacking: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| !has(&there, name))
        .collect();
    (!lacking.is_empty()).then(|| {
        format!(
            "the primary has secrets that are not here: {}; write them in {}",
            lacking.join(", "),
            home.env_file().display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_variables_wherever_they_stand() {
        let settings = serde_json::json!({
            "http": {"token_env": "A", "enabled": true},
            "hooks": [{"secret_env": "B"}, {"name": "C"}],
            "env": "D",
        });
        let mut names = Vec::new();
        named(&settings, &mut names);
        names.sort_unstable();
        assert_eq!(names, ["A", "B"]);
    }
}

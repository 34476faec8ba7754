//! The environment allowlist: which variables of the daemon's environment a command sees.

use crate::config::Environment;
use crate::secret;

/// Returns the variables that a command sees: those of `env` named in `allowed` (`tools.exec.env`) that are set, in that
/// order. A name among `secrets`, or a value with a known secret in it, under whatever name, is left out.
pub fn environment(
    env: &Environment,
    allowed: &[String],
    secrets: &[String],
) -> Vec<(String, String)> {
    let variable = |name: &String| Some((name.clone(), env.get(name)?.into_string().ok()?));
    let is_harmless = |(_, value): &(String, String)| secret::redact(value) == *value;
    allowed
        .iter()
        .filter(|name| !secrets.contains(name))
        .filter_map(variable)
        .filter(is_harmless)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secret::Secret;

    #[test]
    fn a_command_sees_what_is_allowed_and_no_secret() {
        let secret = Secret::new("sk-environment-allowlist-0123");
        let env = Environment::of(&[
            ("PATH", "/usr/bin"),
            ("LANG", "C.UTF-8"),
            ("EMPTY", ""),
            ("BOT_TOKEN", "x"),
            ("OTHER_NAME", &format!("key={}", secret.expose())),
        ]);
        let names = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<Vec<_>>()
        };
        let allowed = names(&["PATH", "EMPTY", "MISSING", "BOT_TOKEN", "OTHER_NAME"]);
        assert_eq!(
            environment(&env, &allowed, &names(&["BOT_TOKEN"])),
            [("PATH".to_owned(), "/usr/bin".to_owned())]
        );
    }
}

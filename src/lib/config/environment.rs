//! The environment, read once.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use chrono_tz::Tz;

/// A copy of the environment. Tests make their own; the process has one.
#[derive(Debug, Clone, Default)]
pub struct Environment(BTreeMap<String, OsString>);

impl Environment {
    /// Returns this process's environment. Variables whose name is not UTF-8 are left out.
    pub fn of_process() -> Self {
        Self(
            std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
                .collect(),
        )
    }

    /// Returns an environment of these variables only.
    pub fn of(variables: &[(&str, &str)]) -> Self {
        Self(
            variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), OsString::from(value)))
                .collect(),
        )
    }

    /// Returns the value of `name`; an empty one counts as unset.
    pub fn get(&self, name: &str) -> Option<OsString> {
        self.0.get(name).filter(|value| !value.is_empty()).cloned()
    }

    /// Returns the value of `name`, also an empty one.
    pub fn raw(&self, name: &str) -> Option<OsString> {
        self.0.get(name).cloned()
    }

    /// Returns whether `name` is set and not empty.
    pub fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !value.is_empty())
    }

    /// Returns the variables whose name begins with `prefix`, in order of their names.
    pub fn with_prefix<'a>(
        &'a self,
        prefix: &'a str,
    ) -> impl Iterator<Item = (&'a str, &'a OsStr)> {
        self.0
            .iter()
            .filter(move |(name, _)| name.starts_with(prefix))
            .map(|(name, value)| (name.as_str(), value.as_os_str()))
    }
}

/// Returns the time zone of the machine: `$TZ`, else what `/etc/localtime` points to, else UTC.
pub fn machine_zone(env: &Environment) -> Tz {
    let from_tz = env
        .get("TZ")
        .and_then(|value| value.to_str()?.trim_start_matches(':').parse().ok());
    from_tz
        .or_else(|| zone_of_link(&std::fs::read_link("/etc/localtime").ok()?))
        .unwrap_or(Tz::UTC)
}

/// `/usr/share/zoneinfo/Europe/Berlin` names the zone in what follows `zoneinfo`.
fn zone_of_link(target: &Path) -> Option<Tz> {
    let (_, name) = target.to_str()?.split_once("zoneinfo/")?;
    name.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_zone_is_tz_or_the_link() {
        assert_eq!(
            machine_zone(&Environment::of(&[("TZ", ":America/Sao_Paulo")])),
            Tz::America__Sao_Paulo
        );
        assert_eq!(
            zone_of_link(Path::new("../usr/share/zoneinfo/Europe/Berlin")),
            Some(Tz::Europe__Berlin)
        );
        assert_eq!(zone_of_link(Path::new("/etc/elsewhere")), None);
    }

    #[test]
    fn an_empty_variable_counts_as_unset() {
        let env = Environment::of(&[("A", ""), ("B", "x")]);
        assert_eq!(
            (env.get("A"), env.has("A"), env.has("B")),
            (None, false, true)
        );
    }
}

//! `agent-daemon auth`: shows for each provider which key is active, where it came from, and which other keys it
//! overrides. Only the last four characters of a key are shown, and nothing of a short one.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::app::cli;
use crate::app::cli::{Exit, Failure, Shared};
use crate::auth::{Contents, Keys, Origin, ProviderKey, Source, State, Verdict, probe};
use crate::clock;
use crate::config;
use crate::config::{Environment, Home, Provider};
use crate::provider;
use crate::provider::KeySource;
use crate::secret::Secret;
use crate::sys::lock;

/// Shorter keys are not shown at all: four letters would be too much of them.
const MIN_SHOWN: usize = 12;

/// Returns the end of a key that is long enough to show one.
pub(super) fn last_four(key: &Secret) -> Option<String> {
    let letters: Vec<char> = key.expose().chars().collect();
    (letters.len() >= MIN_SHOWN).then(|| letters.iter().skip(letters.len() - 4).collect())
}

/// Returns a moment as people write it, in UTC.
pub(super) fn moment(ms: i64) -> String {
    clock::rfc3339(ms)
        .chars()
        .take(16)
        .map(|c| if c == 'T' { ' ' } else { c })
        .collect::<String>()
        + " UTC"
}

/// Returns the place of a key, with the name it has there.
pub(super) fn place(origin: Origin, provider: &Provider) -> String {
    let name = provider.api_key_env.as_deref().unwrap_or_default();
    match origin {
        Origin::Credential => format!("the systemd credential {name}"),
        Origin::SignIn => "the sign-in in state/auth.json".to_owned(),
        Origin::Stored => "the key in state/auth.json".to_owned(),
        Origin::Environment => format!("the variable {name}"),
        Origin::EnvFile => format!("{name} in .env"),
    }
}

struct Seen {
    rows: Vec<Row>,
    /// Names in auth.json without a file of their provider.
    orphans: Vec<String>,
    /// What could not be looked at.
    trouble: Vec<String>,
}

struct Row {
    provider: Arc<Provider>,
    loaded: bool,
    sources: Vec<Source>,
    signed_out: Option<String>,
    /// Whether the stored key was never verified.
    unverified: bool,
    /// What the server says, if it was asked.
    verdict: Option<Verdict>,
}

pub(super) fn auth(shared: &Shared, check: bool, json: bool) -> Result<Exit, Failure> {
    let (env, home) = shared.home()?;
    cli::must_be_there(&home)?;
    let keys = Arc::new(Keys::open(&home, &env)?);
    // Before the contents are read: a token may be renewed by it.
    let verdicts = if check {
        ask_all(&home, &env, &keys)?
    } else {
        HashMap::new()
    };
    let contents = keys.store().read()?;
    let Seen {
        rows,
        orphans,
        trouble,
    } = look(&home, &env, &keys, &contents, verdicts)?;
    let bad = rows
        .iter()
        .any(|row| matches!(row.verdict, Some(Verdict::Refused(_))));
    let exit = if bad { Exit::Failed } else { Exit::Ok };
    if json {
        let document = json!({
            "providers": rows.iter().map(row_json).collect::<Vec<_>>(),
            "unknown": orphans,
            "file": {
                "path": home.display(keys.store().path()),
                "state": match &contents.state {
                    State::Absent => "absent",
                    State::Good => "good",
                    State::Corrupt { .. } => "corrupt",
                },
            },
            "trouble": trouble,
        });
        cli::json(&document);
        return Ok(exit);
    }
    let width = rows
        .iter()
        .map(|row| row.provider.name.chars().count())
        .max()
        .unwrap_or(0);
    for row in &rows {
        show(row, width);
    }
    if rows.is_empty() {
        let login = cli::command("agent-daemon", "login anthropic");
        cli::err(&format!("no provider is set up; {login}"));
    }
    for name in &orphans {
        cli::err(&format!(
            "note: state/auth.json has a key for {name}, and there is no providers.d/{name}.toml"
        ));
    }
    if let State::Corrupt { reason } = &contents.state {
        cli::err(&format!(
            "warning: state/auth.json cannot be used: {reason}; it is ignored, and login moves it aside"
        ));
    }
    for words in &trouble {
        cli::err(&format!("warning: {words}"));
    }
    Ok(exit)
}

/// Asks the server of each loaded provider about its key, and of each stored key that was not verified yet: one that
/// is good counts from now on. A provider whose sign-in has ended has none.
fn ask_all(
    home: &Home,
    env: &Environment,
    keys: &Arc<Keys>,
) -> Result<HashMap<String, Verdict>, Failure> {
    let runtime = cli::event_loop()?;
    let http = cli::http_client()?;
    let mut verdicts = HashMap::new();
    let mut names = config::providers_wanted(home, env)?.0;
    let unverified = keys
        .store()
        .read()?
        .entries
        .into_iter()
        .filter(|(_, entry)| entry.unverified);
    names.extend(unverified.map(|(name, _)| name));
    names.dedup();
    let mut is_news = false;
    for name in names {
        let Ok(Some(provider)) = config::provider(home, &name) else {
            continue;
        };
        let key = ProviderKey::new(keys.clone(), provider.clone(), http.clone());
        let verdict = match runtime.block_on(key.key()) {
            Ok(None) => continue,
            Ok(Some(given)) => runtime.block_on(probe(&http, &provider, &given)),
            Err(error @ provider::Error::Auth { .. }) => Verdict::Refused(error.to_string()),
            Err(error) => Verdict::Unknown(error.to_string()),
        };
        if matches!(verdict, Verdict::Good(_)) && keys.store().entry(&name)?.unverified {
            keys.store().set_verified(&name, true)?;
            is_news = true;
        }
        verdicts.insert(name, verdict);
    }
    if is_news {
        super::tell_to_reload(home, lock::holder(&home.lock())?);
    }
    Ok(verdicts)
}

/// Looks at every provider with a file, loaded ones first; what is broken keeps no other from being told.
fn look(
    home: &Home,
    env: &Environment,
    keys: &Keys,
    contents: &Contents,
    mut verdicts: HashMap<String, Verdict>,
) -> Result<Seen, Failure> {
    let (wanted, _) = config::providers_wanted(home, env)?;
    let mut names = wanted.clone();
    names.extend(config::provider_files(home)?);
    // A key may be stored for a vendor that is built in and not loaded.
    names.extend(
        contents
            .entries
            .keys()
            .filter(|name| config::vendor(name).is_some())
            .cloned(),
    );
    let (mut rows, mut trouble, mut seen) = (Vec::<Row>::new(), Vec::new(), Vec::new());
    for name in names {
        if name == "offline" || seen.contains(&name) {
            continue;
        }
        seen.push(name.clone());
        match config::provider(home, &name) {
            Ok(Some(provider)) => {
                let entry = contents.entries.get(&name);
                rows.push(Row {
                    unverified: entry.is_some_and(|entry| entry.unverified),
                    loaded: wanted.contains(&name),
                    sources: keys.sources(&provider)?,
                    signed_out: entry
                        .and_then(|entry| entry.tokens.as_ref()?.ended(clock::now_ms())),
                    provider,
                    verdict: verdicts.remove(&name),
                });
            }
            Ok(None) => trouble.push(format!(
                "providers.load names {name}, and there is no providers.d/{name}.toml"
            )),
            Err(error) => trouble.push(error.to_string()),
        }
    }
    let orphans = contents
        .entries
        .keys()
        .filter(|name| !seen.contains(name))
        .cloned()
        .collect();
    Ok(Seen {
        rows,
        orphans,
        trouble,
    })
}

fn row_json(row: &Row) -> Value {
    let source = |source: &Source| {
        json!({
            "source": source.origin.as_str(),
            "last4": source.secret.as_ref().and_then(last_four),
            "expires_at": source.expires_at.map(clock::rfc3339),
            "scope": source.scope,
        })
    };
    json!({
        "name": row.provider.name,
        "type": row.provider.kind.as_str(),
        "loaded": row.loaded,
        "key_wanted": Keys::wanted(&row.provider),
        "api_key_env": row.provider.api_key_env,
        "in_force": row.sources.first().map(source),
        "shadowed": row.sources.iter().skip(1).map(source).collect::<Vec<_>>(),
        "signed_out": row.signed_out,
        "checked": row.verdict.as_ref().map(|verdict| {
            let (word, says) = told(verdict);
            json!({"verdict": word, "says": says})
        }),
    })
}

pub(super) fn told(verdict: &Verdict) -> (&'static str, &str) {
    match verdict {
        Verdict::Good(words) => ("good", words),
        Verdict::Refused(words) => ("refused", words),
        Verdict::Unknown(words) => ("unknown", words),
    }
}

fn show(row: &Row, width: usize) {
    let name = &row.provider.name;
    let words = |source: &Source| {
        let end = source
            .secret
            .as_ref()
            .and_then(last_four)
            .map_or_else(String::new, |end| format!(", ends in {end}"));
        let until = match (source.origin, source.expires_at) {
            (Origin::SignIn, Some(end)) if end <= clock::now_ms() => {
                ", to be renewed at the next request".to_owned()
            }
            (_, Some(at)) => format!(", until {}", moment(at)),
            (_, None) => String::new(),
        };
        let scope = source
            .scope
            .as_ref()
            .map_or_else(String::new, |scope| format!(", for {scope}"));
        // What the issuer wrote may hold anything.
        cli::harmless(&format!(
            "{}{end}{until}{scope}",
            place(source.origin, &row.provider)
        ))
    };
    let state = match (row.sources.first(), &row.signed_out) {
        (Some(first), _) => words(first),
        (None, Some(_)) => "signed out".to_owned(),
        (None, None) if Keys::wanted(&row.provider) => format!("no key; agent-daemon login {name}"),
        (None, None) => "wants no key".to_owned(),
    };
    let idle = if row.loaded { "" } else { "  (not loaded)" };
    cli::out(&format!("{name:<width$}  {state}{idle}"));
    if row.unverified && row.verdict.is_none() {
        cli::out(&format!(
            "{:<width$}    the stored key is not verified; agent-daemon auth --check",
            ""
        ));
    }
    if let Some((word, says)) = row.verdict.as_ref().map(told) {
        cli::out(&cli::harmless(&format!("{:<width$}    {word}: {says}", "")));
    }
    for source in row.sources.iter().skip(1) {
        cli::out(&format!("{:<width$}    overrides: {}", "", words(source)));
    }
    if let Some(reason) = &row.signed_out {
        cli::out(&cli::harmless(&format!(
            "{:<width$}    the sign-in has ended: {reason}; agent-daemon login {name} --oauth",
            ""
        )));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_key_its_end_is_shown_and_of_a_short_one_nothing() {
        let shown = |key: &str| last_four(&Secret::new(key));
        assert_eq!(shown("sk-0123456789WXYZ").as_deref(), Some("WXYZ"));
        assert_eq!((shown("12345678901"), shown("")), (None, None));
    }

    #[test]
    fn a_moment_is_told_to_the_minute() {
        assert_eq!(moment(1_795_352_040_123), "2026-11-22 12:54 UTC");
    }
}

//! Checks whether the HTTP API could start: its token and its address.

use super::context::{DoctorContext, blocks, quote};
use super::{Finding, service};
use crate::app::http;
use crate::app::http::{Strength, strength};
use crate::config;
use crate::config::{Listen, Loaded, Secrets};

pub(super) fn check(context: &DoctorContext, loaded: &Loaded) -> Vec<Finding> {
    let http = &loaded.config.http;
    if !http.enabled || blocks(&context.home.env_file()) {
        return Vec::new();
    }
    // What is wrong with its file is told with the settings.
    let Ok(secrets) = Secrets::open(&context.home, &context.env) else {
        return Vec::new();
    };
    let mut findings: Vec<Finding> = token(context, http, &secrets).into_iter().collect();
    let edit = context.edit(&context.home.env_file(), None);
    // A daemon that runs has its secrets, from wherever it was started, and listens there itself.
    if context.pid().is_some() {
        return findings;
    }
    let of_hook = |(variable, why): (String, String)| {
        let evidence = format!("{why}; {} {variable}=…", http::HOW_TO_MAKE_A_TOKEN);
        Finding::error("http-hook-secret", evidence, edit.clone())
    };
    let hooks = http::hook_trouble(http, &secrets);
    findings.extend(hooks.into_iter().map(of_hook));
    findings.extend(http::address_trouble(http).map(|evidence| {
        let command = match http.address() {
            Some(Listen::Unix(path)) => {
                format!("ls -ld {}", quote(path.parent().unwrap_or(&path)))
            }
            _ => "ss -ltnp".to_owned(),
        };
        Finding::error("http-address", evidence, command)
    }));
    findings
}

fn token(context: &DoctorContext, http: &config::Http, secrets: &Secrets) -> Option<Finding> {
    let (name, env_file) = (&http.token_env, context.home.env_file());
    let edit = context.edit(&env_file, None);
    let is_socket = matches!(http.address(), Some(Listen::Unix(_)));
    match secrets.get(name).ok().flatten() {
        // A daemon that runs has it, from wherever it was started.
        None if is_socket || context.pid().is_some() => None,
        None => {
            let evidence = format!(
                "[http] is enabled on {}, and the token {name} is neither in the environment nor in {}",
                http.listen,
                env_file.display()
            );
            Some(match service::unit(context) {
                Some(_) => {
                    let evidence = format!("{evidence}; the unit of systemd may have it");
                    Finding::warning("http-token-missing", evidence, edit)
                }
                None => Finding::error("http-token-missing", evidence, edit),
            })
        }
        Some(token) => {
            let strength = strength(&token);
            let why = match strength {
                Strength::Good => return None,
                Strength::Refused(why) => why,
                Strength::Weak => "is easily guessed",
            };
            let how = http::HOW_TO_MAKE_A_TOKEN;
            let evidence = format!("the token {name} of [http] {why}; {how} {name}=…");
            Some(match strength == Strength::Weak && http.is_local() {
                true => Finding::warning("http-token-weak", evidence, edit),
                false => Finding::error("http-token-weak", evidence, edit),
            })
        }
    }
}

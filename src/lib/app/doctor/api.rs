//! Would the HTTP API open: its token, and its address?

use super::subject::{Patient, blocks, quote};
use super::{Finding, Level, service};
use crate::app::http;
use crate::app::http::{Strength, strength};
use crate::config;
use crate::config::{Listen, Secrets};

pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    let Ok(loaded) = &patient.settings else {
        return Vec::new();
    };
    let http = &loaded.config.http;
    if !http.enabled || blocks(&patient.home.env_file()) {
        return Vec::new();
    }
    // What is wrong with its file is told with the settings.
    let Ok(secrets) = Secrets::open(&patient.home, &patient.env) else {
        return Vec::new();
    };
    let mut findings: Vec<Finding> = token(patient, http, &secrets).into_iter().collect();
    let edit = patient.edit(&patient.home.env_file(), None);
    // A daemon that runs has them, from wherever it was started.
    if patient.pid().is_none() {
        findings.extend(
            http::hook_trouble(http, &secrets)
                .into_iter()
                .map(|(variable, why)| {
                    let evidence = format!("{why}; {} {variable}=…", http::HOW_TO_MAKE_A_TOKEN);
                    Finding::error("http-hook-secret", evidence, edit.clone())
                }),
        );
    }
    // A daemon that runs listens there itself.
    if patient.pid().is_none() {
        findings.extend(http::address_trouble(http).map(|evidence| {
            let command = match http.address() {
                Some(Listen::Unix(path)) => {
                    format!("ls -ld {}", quote(path.parent().unwrap_or(&path)))
                }
                _ => "ss -ltnp".to_owned(),
            };
            Finding::error("http-address", evidence, command)
        }));
    }
    findings
}

fn token(patient: &Patient, http: &config::Http, secrets: &Secrets) -> Option<Finding> {
    let (name, env_file) = (&http.token_env, patient.home.env_file());
    let edit = patient.edit(&env_file, None);
    let is_socket = matches!(http.address(), Some(Listen::Unix(_)));
    match secrets.get(name).ok().flatten() {
        // A daemon that runs has it, from wherever it was started.
        None if is_socket || patient.pid().is_some() => None,
        None => {
            let evidence = format!(
                "[http] is enabled on {}, and the token {name} is neither in the environment nor in {}",
                http.listen,
                env_file.display()
            );
            let finding = Finding::error("http-token-missing", evidence, edit);
            if service::unit(patient).is_some() {
                let evidence = format!("{}; the unit of systemd may have it", finding.evidence);
                return Some(Finding {
                    level: Level::Warning,
                    evidence,
                    ..finding
                });
            }
            Some(finding)
        }
        Some(token) => match strength(&token) {
            Strength::Good => None,
            Strength::Refused(why) => Some(Finding::error(
                "http-token-weak",
                format!(
                    "the token {name} of [http] {why}; {} {name}=…",
                    http::HOW_TO_MAKE_A_TOKEN
                ),
                edit,
            )),
            Strength::Weak => {
                let evidence = format!(
                    "the token {name} of [http] is easily guessed; {} {name}=…",
                    http::HOW_TO_MAKE_A_TOKEN
                );
                let finding = Finding::error("http-token-weak", evidence, edit);
                Some(if http.is_local() {
                    Finding {
                        level: Level::Warning,
                        ..finding
                    }
                } else {
                    finding
                })
            }
        },
    }
}

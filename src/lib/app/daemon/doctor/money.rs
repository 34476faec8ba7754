//! May anything still be spent?

use super::Finding;
use super::patient::Patient;
use crate::config::Loaded;
use crate::cost;

pub(super) fn check(patient: &Patient) -> Vec<Finding> {
    // Without settings there are no caps to compare with; they are told as invalid.
    let Ok(loaded) = &patient.settings else { return Vec::new() };
    let mut findings = unpriced(patient, loaded);
    findings.extend(reached(patient, loaded));
    findings
}

/// With a cap, a model without a price is refused every time.
fn unpriced(patient: &Patient, loaded: &Loaded) -> Vec<Finding> {
    if !loaded.config.cost.capped() {
        return Vec::new();
    }
    let models = loaded.models.all().filter(|model| model.rates.is_none());
    let finding = |model: &std::sync::Arc<crate::config::Model>| {
        let evidence = format!(
            "a limit is set in [cost], and the model `{}` has no price, so each call of it is refused; a free model says cost_per_mtok = [0, 0, 0, 0]",
            model.name
        );
        let file = model.provider.file.clone().unwrap_or_else(|| patient.home.config_file().to_owned());
        Finding::error("model-unpriced", evidence, patient.edit(&file, None))
    };
    models.map(finding).collect()
}

/// A day's or month's cap that leaves nothing.
fn reached(patient: &Patient, loaded: &Loaded) -> Vec<Finding> {
    let caps = &loaded.config.cost;
    let zone = loaded.config.agent.timezone.0;
    let periods = [
        ("day_usd", caps.day_usd, cost::start_of_day(patient.now, zone), "today", "midnight"),
        ("month_usd", caps.month_usd, cost::start_of_month(patient.now, zone), "this month", "the end of the month"),
    ];
    let mut findings = Vec::new();
    for (key, cap, since, when, until) in periods {
        if cap <= 0.0 {
            continue;
        }
        // A ledger that cannot be read is told with the databases.
        let Ok(lines) = cost::by_model(&patient.home.cost_db(), since) else { continue };
        let spent = cost::total_usd(&lines);
        if spent >= cap {
            let evidence = format!(
                "${spent:.4} were spent or are reserved {when} and [cost] {key} = {cap:.2}: calls are refused until {until} ({zone})"
            );
            let line = match loaded.origin(&format!("cost.{key}")) {
                crate::config::Origin::File { line, .. } => Some(line),
                _ => None,
            };
            findings.push(Finding::warning("cap-reached", evidence, patient.edit(patient.home.config_file(), line)));
        }
    }
    findings
}

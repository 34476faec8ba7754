//! Checks whether the installed data files exist. Without the table of vectors the memory is searched by words only.

use super::Finding;
use super::context::{DoctorContext, quote};
use crate::config;
use crate::config::Loaded;
use crate::embedding::static_table;
use crate::embedding::static_table::Table;

pub(super) fn check(context: &DoctorContext, loaded: &Loaded) -> Vec<Finding> {
    // A server's vectors, or none, need no table.
    let is_local = loaded.config.memory.embeddings.provider == "local";
    let finding = is_local.then(|| missing(context)).flatten();
    finding.into_iter().collect()
}

fn missing(context: &DoctorContext) -> Option<Finding> {
    let harm = "semantic search is off, memory is searched by words alone";
    let named = context.env.get("AGENT_SHARE");
    let Some(dir) = config::share_dir(&context.env) else {
        let (evidence, command) = match named {
            Some(dir) => (
                format!(
                    "AGENT_SHARE={} is not an absolute path: {harm}",
                    dir.display()
                ),
                "unset AGENT_SHARE".to_owned(),
            ),
            None => (
                format!("the files that come with the programs (share/) are not installed: {harm}"),
                install(context),
            ),
        };
        return Some(Finding::error("share-missing", evidence, command));
    };
    if !dir.is_dir() {
        let evidence = format!("{} does not exist: {harm}", dir.display());
        let command = match named {
            Some(_) => "unset AGENT_SHARE".to_owned(),
            None => install(context),
        };
        return Some(Finding::error("share-missing", evidence, command));
    }
    let file = dir.join(static_table::FILE);
    let error = Table::open(&file).err()?;
    let (id, evidence) = match file.exists() {
        false => (
            "table-missing",
            format!("{} is not installed: {harm}", file.display()),
        ),
        true => ("table-damaged", format!("{error}: {harm}")),
    };
    Some(Finding::error(id, evidence, install(context)))
}

/// Returns the command that installs a whole copy where this program lies; it is run in the source tree.
fn install(context: &DoctorContext) -> String {
    let dir = context.programs();
    let prefix = dir
        .filter(|dir| dir.ends_with("bin"))
        .and_then(|dir| dir.parent());
    match prefix {
        Some(prefix) => format!("scripts/install --prefix {}", quote(prefix)),
        None => "scripts/install --user".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_in_which_the_table_is_missing_is_told_with_its_remedy() {
        let dir = tempfile::tempdir().expect("dir");
        let share = dir.path().join("share");
        let path = share.to_str().expect("text").to_owned();
        let told = |share: &str| {
            let context = DoctorContext::of(&dir.path().join("home"), &[("AGENT_SHARE", share)]);
            let loaded = context.settings.as_ref().expect("settings");
            let finding = check(&context, loaded).pop();
            finding.map(|finding| (finding.id, finding.command))
        };
        let unset = || "unset AGENT_SHARE".to_owned();
        assert_eq!(told("share"), Some(("share-missing", unset())));
        assert_eq!(told(&path), Some(("share-missing", unset())));
        let table = share.join(static_table::FILE);
        std::fs::create_dir_all(table.parent().expect("parent")).expect("dir");
        assert_eq!(told(&path).map(|(id, _)| id), Some("table-missing"));
        let write = |bytes: &[u8]| {
            let rename = crate::sys::atomic::Durability::Rename;
            crate::sys::atomic::write(&table, bytes, rename).expect("write");
        };
        write(b"no table");
        let (id, command) = told(&path).expect("a finding");
        assert!(
            id == "table-damaged" && command.starts_with("scripts/install --"),
            "{id} {command}"
        );
        let of_project = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("share");
        assert_eq!(told(of_project.to_str().expect("text")), None);
    }
}
